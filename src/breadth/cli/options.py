"""Options that verbs share, and help that takes choices and defaults from the function a verb calls.

A verb passes on only the options that were given (`given`), so every default and every choice is defined once, in the
public function. They are looked up when a verb's help is shown; ``breadth --help`` loads none of them.
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write the tables (csv, tsv, parquet, json, jsonl, md, tex)."),
]
ExcelSafe = Annotated[
    bool, typer.Option("--excel-safe", help="In CSV, put ' before text that a spreadsheet would run as a formula.")
]
FigureFile = Annotated[
    Path | None, typer.Option("--figure", metavar="FILE", help="Write the figure (html, pdf, png, svg).")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", min=0, help="Seed of all random numbers.")]
ScoreOption = Annotated[str | None, typer.Option("--score", help="What answers are scored by.")]
Controls = Annotated[
    list[str] | None,
    typer.Option("--control", metavar="COLUMN", help="In-domain score to control for, or bias. May be repeated."),
]
Testsets = Annotated[
    list[str] | None,
    typer.Option("--testsets", metavar="A,B,..", help="Test sets, wildcards allowed. Default: all other scores."),
]
By = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="COLUMN", help="Analyse each value separately, or none. May be repeated."),
]
Order = Annotated[
    str | None,
    typer.Option("--order", metavar="COLUMN", help="Order of the rows in a group, which then are dependent; or none."),
]
LowerIsBetter = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Column to turn around, such as a loss; or none. Default: by its name."),
]
AdjustOption = Annotated[str | None, typer.Option("--adjust", help="How to adjust for the control.")]
Cluster = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column that says which items belong together (a passage, say).")
]
Levels = Annotated[int | None, typer.Option("--levels", metavar="N", help="Number of difficulty levels.")]
CalibrationArgument = Annotated[
    Path, typer.Argument(metavar="CALIBRATION", help="Calibrated items.", show_default=False)
]
TablesArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="TABLE...", help="Scores, one table or several that belong together, or a study.", show_default=False
    ),
]
RoundShares = Annotated[
    bool, typer.Option("--round-shares", help="Count shares from 0.5 on (ties, means of tries) as right.")
]
AnswersArgument = Annotated[
    Path, typer.Argument(metavar="ANSWERS", help="Right and wrong answers, or a study.", show_default=False)
]

#: Longer choices are listed in an option's help, not beside its name.
WIDEST = 24


def one_or_all(paths: list[Path]) -> Path | list[Path]:
    """One path as it is, several as a list."""
    return paths[0] if len(paths) == 1 else paths


def given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others keep the default of the function that is called."""
    return {name: value for name, value in options.items() if value is not None}


def verb_class(name: str, **words: str) -> type[TyperCommand]:
    """A command whose help shows the choices and defaults of the public function ``name``.

    ``words`` maps an option that is not typed as a Literal to its collection of choices, as ``package:NAME``.
    """

    class Verb(TyperCommand):
        def format_help(self, ctx: Any, formatter: Any) -> None:
            function = getattr(import_module("breadth"), name)
            hints, parameters = _hints(function), inspect.signature(function).parameters
            for option in self.params:
                parameter = parameters.get(str(option.name))
                if parameter is None:
                    continue
                package, _, collection = words.get(parameter.name, "").partition(":")
                choices = getattr(import_module(package), collection) if package else _literal(hints[parameter.name])
                if choices:
                    _show_choices(option, list(map(str, choices)))
                if option.default is None and parameter.default is not parameter.empty:
                    option.default = parameter.default
            super().format_help(ctx, formatter)

    return Verb


def _hints(function: Any) -> dict[str, Any]:
    """Types of a function's parameters. That of what it returns may not be loaded, and is not needed."""
    own = SimpleNamespace(__annotations__={k: v for k, v in function.__annotations__.items() if k != "return"})
    return get_type_hints(own, vars(import_module(function.__module__)))


def _show_choices(option: Any, choices: list[str]) -> None:
    joined = "|".join(choices)
    if len(joined) <= WIDEST:
        option.metavar = joined
    else:
        option.metavar = option.name.upper()
        option.help = f"{option.help} One of {', '.join(choices)}."


def _literal(hint: Any) -> tuple[Any, ...]:
    """The words of a Literal, or of one in a union."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    return tuple(word for part in get_args(hint) for word in _literal(part))
