"""The command line: one short module per verb, which parses, calls the verb and prints. No logic lives here.

Nothing heavy is imported until a verb runs, so ``breadth --help`` answers at once.
"""

from __future__ import annotations

import sys

import typer

from breadth import __version__
from breadth.cli.ability import ability_command
from breadth.cli.calibrate import calibrate_command
from breadth.cli.correlate import correlate_command
from breadth.cli.cross import cross_command
from breadth.cli.demo import demo_command
from breadth.cli.difficulty_vs import difficulty_vs_command
from breadth.cli.get import get_command
from breadth.cli.levels import levels_command
from breadth.cli.ls import ls_app
from breadth.cli.profile import profile_command
from breadth.cli.report import report_command
from breadth.cli.run import run_command
from breadth.cli.sample import sample_command
from breadth.cli.validate import validate_command
from breadth.cli.view import view_command
from breadth.errors import InputError

__all__ = ["app", "main"]

app = typer.Typer(
    name="breadth",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Measure how broadly a language model generalises, and how far one result carries over to another.\n\n"
    "Example: `breadth correlate scores.csv --control mnli --by run --order step --figure carry-over.html`",
)
app.command("run")(run_command)
app.command("correlate")(correlate_command)
app.command("calibrate")(calibrate_command)
app.command("ability")(ability_command)
app.command("levels")(levels_command)
app.command("profile")(profile_command)
app.command("sample")(sample_command)
app.command("cross")(cross_command)
app.command("difficulty-vs")(difficulty_vs_command)
app.command("report")(report_command)
app.command("view")(view_command)
app.command("validate")(validate_command)
app.command("demo")(demo_command)
app.add_typer(ls_app, name="ls")
app.command("get")(get_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"breadth {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Say the version."),
) -> None:
    pass


def main() -> None:
    """Run the command line; a mistake in the input is one line on standard error and exit code 2."""
    try:
        app()
    except InputError as error:
        typer.echo(f"breadth: {error}", err=True)
        sys.exit(2)
