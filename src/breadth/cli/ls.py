"""``breadth ls``: what there is to use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ls_app"]

ls_app = typer.Typer(
    name="ls",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="What there is to use: data sets, models, studies.\n\nExample: `breadth ls datasets`",
)

_KINDS = {"nli": "Inference", "qa": "Questions", "generated": "Generated"}


@ls_app.command("datasets")
def datasets_command(
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory with your files of the sets.")] = None,
) -> None:
    """Data sets by name, their shift and size, and whether they are at hand.

    Example: `breadth ls datasets --data ~/data`
    """
    import polars as pl

    from breadth.cli.terminal import console
    from breadth.datasets.listing import describe_datasets

    frame = describe_datasets(data).with_columns(
        pl.when(pl.col("available").str.starts_with("no"))
        .then(pl.concat_str(pl.lit("no: "), pl.col("source")))
        .otherwise(pl.col("available"))
        .alias("available")
    )
    for kind, title in _KINDS.items():
        part = frame.filter(pl.col("kind") == kind)
        _show(part, title, {"name": 11, "shift": 11, "licence": 15, "available": 43}, ["items"])
    if frame["available"].str.starts_with("no").any():
        console.print(
            "Sets marked no come from the Hub on first use (breadth[lm] and a network), or from NAME.parquet, .jsonl, "
            ".csv or .tsv in a directory given with --data or BREADTH_DATA. Generated sets need neither; items is "
            "the most that can be made per split and seed.",
            markup=False,
            highlight=False,
        )


@ls_app.command("models")
def models_command() -> None:
    """Language models by name, and whether they are at hand.

    Example: `breadth ls models`
    """
    from breadth.lm.models import describe_models

    widths = {"name": 13, "licence": 14, "source": 26, "available": 23}
    _show(describe_models(), "Models", widths, ["parameters"])


@ls_app.command("studies")
def studies_command() -> None:
    """Study files that come with breadth.

    Example: `breadth ls studies`
    """
    from breadth.study.shipped import describe_studies

    _show(describe_studies(), "Studies", {"name": 20, "description": 57}, ["models", "runs"])


def _show(frame: pl.DataFrame, title: str, widths: dict[str, int], numbers: list[str]) -> None:
    """Print a frame: texts in the widths given (longer ones are cut with three dots), numbers on the right."""
    from rich.text import Text

    from breadth.cli.terminal import console
    from breadth.report.terminal import make_table

    table = make_table(title, list(widths), numbers, console.width)
    for column, width in zip(table.columns, widths.values(), strict=False):
        column.max_width = width
    for row in frame.iter_rows(named=True):
        cells = [Text(str(row[name])) for name in widths]
        cells += [Text(f"{row[name]:,}" if isinstance(row[name], int) else str(row[name])) for name in numbers]
        table.add_row(*cells)
    console.print(table)
