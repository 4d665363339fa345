"""The command line. Commands that answer questions are made from public functions (``analyses``, ``signatures``).

Nothing heavy is imported until a command runs, so ``breadth --help`` answers at once: a command that is made from a
function stands in the list with its summary, and is made when it is used.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from breadth import __version__
from breadth.cli import analyses
from breadth.cli.failures import (
    check_address_space,
    discard_stream,
    end_with_message,
    failure_message,
    flush_output,
    open_standard_streams,
    print_python_warning,
)
from breadth.cli.help import PlainCommand, hide_types
from breadth.cli.importing import export_command, import_command, import_scores_command
from breadth.cli.manage import get_command, init_command, ls_app, show_command
from breadth.cli.report import demo_command, view_command
from breadth.cli.run import evaluate_command, run_command
from breadth.cli.signatures import Verb, build_command
from breadth.errors import InputError, option_names

__all__ = ["app", "load_commands", "main"]

#: What people do first.
FIRST_STEPS = """\
breadth measures how broadly a language model generalises. What people do first:

  breadth demo                     see what it answers, on simulated data, in seconds
  breadth report PATH              report on what you have: scores, answers, logs, a study
  breadth compare ANSWERS A B      which of two models is better, and where
  breadth init                     describe a study: models to fine-tune, test sets to evaluate on
  breadth run study.yaml           carry it out; the same command resumes it

breadth --help lists every command, breadth COMMAND --help explains one with examples.
"""

#: Where commands went that had other names.
MOVED = {
    "levels": "difficulty levels",
    "profile": "difficulty profile",
    "difficulty-vs": "difficulty versus",
    "sample": "difficulty sample",
    "validate": "show",
}

#: Panels of the help, in the order in which people need them.
PANELS = ("Measure", "Analyse", "Decide", "Show", "Manage")

#: Commands made from functions, by the name that is typed first and the panel of the help that shows them.
MADE: dict[str, tuple[str, Verb]] = {
    "report": ("Show", analyses.REPORT),
    "compare": ("Analyse", analyses.COMPARE),
    "correlate": ("Analyse", analyses.CORRELATE),
    "stability": ("Analyse", analyses.STABILITY),
    "scores": ("Analyse", analyses.SCORES_VERB),
    "calibrate": ("Analyse", analyses.CALIBRATE),
    "ability": ("Analyse", analyses.ABILITY),
    "transfer": ("Analyse", analyses.TRANSFER),
}
MADE_BELOW: dict[str, tuple[str, str, tuple[Verb, ...]]] = {
    "difficulty": (
        "Analyse",
        "Work with levels of difficulty: sort questions, profile models, choose training data.",
        (analyses.LEVELS, analyses.PROFILE, analyses.VERSUS, analyses.SAMPLE),
    ),
    "advise": (
        "Decide",
        "Decide what to measure next: how many questions and runs, which questions, test sets and models.",
        (analyses.POWER, analyses.SUBSET, analyses.SUBSET_SCORE, analyses.DROP, analyses.TOGETHER),
    ),
}


class LazyGroup(TyperGroup):
    """Commands of which some are made when they are used: until then, one with the same summary stands for each."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed, made if need be."""
        if args and args[0] in self.made():
            self.make(args[0])
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of the group; flags show no type."""
        return hide_types(super().get_params(ctx))

    def made(self) -> dict[str, Verb]:
        """Commands that are made from functions."""
        below = MADE_BELOW.get(str(self.name))
        if below is not None:
            return {verb.name.split()[-1]: verb for verb in below[2]}
        return {name: verb for name, (_, verb) in MADE.items()}

    def make(self, name: str) -> None:
        """Replace what stands for a command by the command."""
        check_address_space()  # before a library is loaded, which says less
        panel = getattr(self.commands[name], "rich_help_panel", None)
        command = build_command(self.made()[name])
        command.rich_help_panel = panel
        self.commands[name] = command


class TopGroup(LazyGroup):
    """All commands; `breadth PATH` is short for `breadth report PATH`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, panel by panel."""
        return sorted(self.commands, key=lambda name: PANELS.index(getattr(self.commands[name], "rich_help_panel", "")))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that was typed, or a report on the path that was."""
        if args and args[0] not in self.commands:
            if os.path.exists(args[0]) or "/" in args[0] or "." in args[0]:
                args = ["report", *args]
            elif args[0] in MOVED:
                raise InputError(f"`breadth {args[0]}` is now `breadth {MOVED[args[0]]}`")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=TopGroup,
    name="breadth",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Measure how broadly a language model generalises, and how far one result carries over to another.\n\n"
    "Example: `breadth report scores.csv`",
    epilog="Exit codes: 0 answered, 1 a run failed, 2 bad input, 3 a threshold of yours was crossed, "
    "4 runs were left to another process.",
)


def _add_stand_in(target: typer.Typer, verb: Verb, panel: str | None = None) -> None:
    """Add a command without options that has the summary of the one that will be made."""

    def stand_in() -> None:
        raise AssertionError("a command is made before it runs")

    stand_in.__doc__ = verb.summary
    target.command(verb.name.split()[-1], rich_help_panel=panel)(stand_in)


def _add_commands() -> None:
    """Add all commands in the order in which the help shows them."""
    app.command("demo", cls=PlainCommand, rich_help_panel="Measure")(demo_command)
    app.command("init", cls=PlainCommand, rich_help_panel="Measure")(init_command)
    app.command("run", cls=PlainCommand, rich_help_panel="Measure")(run_command)
    app.command("evaluate", cls=PlainCommand, rich_help_panel="Measure")(evaluate_command)
    app.command("import", cls=PlainCommand, rich_help_panel="Measure")(import_command)
    app.command("import-scores", cls=PlainCommand, rich_help_panel="Measure")(import_scores_command)
    for name, (panel, verb) in MADE.items():
        if name != "report":
            _add_stand_in(app, verb, panel)
    for name, (panel, summary, verbs) in MADE_BELOW.items():
        group = typer.Typer(cls=LazyGroup, name=name, no_args_is_help=True, rich_markup_mode="markdown", help=summary)
        for verb in verbs:
            _add_stand_in(group, verb)
        app.add_typer(group, name=name, rich_help_panel=panel)
    _add_stand_in(app, analyses.REPORT, "Show")
    app.command("view", cls=PlainCommand, rich_help_panel="Show")(view_command)
    app.command("show", cls=PlainCommand, rich_help_panel="Manage")(show_command)
    app.command("export", cls=PlainCommand, rich_help_panel="Manage")(export_command)
    app.command("get", cls=PlainCommand, rich_help_panel="Manage")(get_command)
    app.add_typer(ls_app, name="ls", rich_help_panel="Manage")


_add_commands()


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context, version: bool = typer.Option(False, "--version", help="Show the version.")
) -> None:
    if version:
        typer.echo(f"breadth {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(FIRST_STEPS, nl=False)
        raise typer.Exit
    check_address_space()


def load_commands(group: Any = None) -> Any:
    """The group of all commands with every one made, for tools that list options."""
    group = typer.main.get_command(app) if group is None else group
    for name in list(group.commands):
        if name in getattr(group, "made", dict)():
            group.make(name)
        elif hasattr(group.commands[name], "commands"):
            load_commands(group.commands[name])
    return group


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error in the input is one message on standard error and exit code 2."""
    open_standard_streams()
    warnings.showwarning = print_python_warning
    try:
        try:
            with option_names():
                app(arguments)
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
