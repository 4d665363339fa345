"""The command line: one short function per verb, which parses, calls the public function and prints. No logic here.

Nothing heavy is imported until a verb runs, so ``breadth --help`` answers at once.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from breadth import __version__
from breadth.cli.calibrate import ability_command, calibrate_command, levels_command
from breadth.cli.correlate import correlate_command
from breadth.cli.decide import advise_app, compare_command
from breadth.cli.difficulty import difficulty_vs_command, profile_command, sample_command, transfer_command
from breadth.cli.failures import (
    check_address_space,
    discard_stream,
    end_with_message,
    failure_message,
    flush_output,
    open_standard_streams,
    print_python_warning,
)
from breadth.cli.importing import export_command, import_command
from breadth.cli.manage import get_command, init_command, ls_app, show_command, validate_command
from breadth.cli.options import verb_class
from breadth.cli.report import demo_command, report_command, scores_command, view_command
from breadth.cli.run import evaluate_command, run_command
from breadth.cli.stability import stability_command

__all__ = ["app", "main"]


class _Verbs(TyperGroup):
    """The verbs; `breadth PATH` is short for `breadth report PATH`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and (os.path.exists(args[0]) or "/" in args[0] or "." in args[0]):
            args = ["report", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Verbs,
    name="breadth",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Measure how broadly a language model generalises, and how far one result carries over to another.\n\n"
    "Example: `breadth correlate scores.csv --control mnli --by run --order step --figure carry-over.html`",
    epilog="Exit codes: 0 answered, 1 a run failed, 2 bad input, 3 a threshold of yours was crossed, "
    "4 runs were left to another process.",
)

#: Verbs by what a person wants: name, command, and where help finds choices and defaults.
_VERBS: dict[str, dict[str, tuple[Any, Any]]] = {
    "Measure": {
        "init": (init_command, None),
        "run": (run_command, None),
        "evaluate": (evaluate_command, verb_class("evaluate")),
        "import": (import_command, verb_class("import_logs")),
        "demo": (demo_command, None),
    },
    "Analyse": {
        "correlate": (correlate_command, verb_class("correlate")),
        "calibrate": (calibrate_command, verb_class("calibrate", model="breadth.irt:MODELS")),
        "ability": (ability_command, verb_class("ability")),
        "levels": (levels_command, verb_class("levels")),
        "profile": (profile_command, verb_class("profile")),
        "sample": (sample_command, verb_class("sample")),
        "scores": (scores_command, verb_class("scores")),
        "stability": (stability_command, verb_class("stability")),
        "transfer": (transfer_command, verb_class("transfer")),
        "difficulty-vs": (difficulty_vs_command, verb_class("difficulty_vs")),
    },
    "Decide": {
        "compare": (compare_command, verb_class("compare")),
    },
    "Show": {
        "report": (report_command, verb_class("report")),
        "view": (view_command, verb_class("view")),
    },
    "Manage": {
        "export": (export_command, verb_class("export")),
        "get": (get_command, None),
        "show": (show_command, None),
        "validate": (validate_command, None),
    },
}
for _panel, _verbs in _VERBS.items():
    for _name, (_command, _class) in _verbs.items():
        app.command(_name, cls=_class, rich_help_panel=_panel)(_command)
app.add_typer(advise_app, name="advise", rich_help_panel="Decide")
app.add_typer(ls_app, name="ls", rich_help_panel="Manage")


@app.callback(invoke_without_command=True)
def _options(version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
    if version:
        typer.echo(f"breadth {__version__}")
        raise typer.Exit
    check_address_space()


def main() -> None:
    """Run the command line; an error in the input is one message on standard error and exit code 2."""
    open_standard_streams()
    warnings.showwarning = print_python_warning
    try:
        try:
            app()
        finally:
            flush_output()
    except BrokenPipeError:  # whoever read what was printed has seen enough
        discard_stream(1)
        sys.exit(1)
    except BaseException as error:  # a panic of a Rust library is none of Python's usual exceptions
        message = failure_message(error)
        if not message:
            raise
        end_with_message(message)
