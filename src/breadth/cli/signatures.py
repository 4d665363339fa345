"""Commands made from public functions: what a function takes, and what its docstring says of it, is what a command has.

A :class:`Verb` names the function. Its parameters become options: a default is shown as such, the words of a
``Literal`` as choices, a mapping is written ``A=1,B=2``, names may be repeated or separated by commas. Every result is
printed, written and drawn in the same way (:func:`show_results`).
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from breadth.cli.help import PlainCommand
from breadth.errors import InputError

if TYPE_CHECKING:
    from breadth.results import Result

#: Options of every command that prints a result.
OUT = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Write the tables (csv, tsv, parquet, json, jsonl, md, tex)."),
]
FIGURE = Annotated[
    Path | None, typer.Option("--figure", metavar="FILE", help="Write the figure (html, pdf, png, svg).")
]
DETAILS = Annotated[bool, typer.Option("--details", help="Print the statistics behind the answer, and all warnings.")]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print everything as JSON: answer, numbers, tables.")]
EXCEL_SAFE = Annotated[
    bool,
    typer.Option(
        "--excel-safe",
        help="In CSV, put ' before text that a spreadsheet would run as a formula.",
        rich_help_panel="Advanced",
    ),
]

#: Longer lists of choices are part of an option's help, not beside its name.
WIDEST = 24

#: How paragraphs of docstrings begin that a command's help shows, beside a question.
GUIDING = ("Use it ", "Do not use it ")


@dataclass(frozen=True)
class Extra:
    """An option of a command that is no parameter of the function, for what ``around`` or ``after`` does with it."""

    name: str
    kind: Any
    default: Any = None


@dataclass(frozen=True)
class Outcome:
    """What a command has computed.

    ``results`` are by what is put between the name and the ending of files; the first has nothing. ``notes`` say how
    the input was read. ``left_out`` are tables that are not written.
    """

    results: Mapping[str, Result]
    notes: Sequence[str] = ()
    left_out: Sequence[str] = ()


@dataclass(frozen=True)
class Verb:
    """A command that calls a public function.

    Parameters
    ----------
    name
        What is typed.
    function
        Name of the function in ``breadth``.
    summary
        What the command does or answers, in a line.
    source
        Metavar and help of the first argument.
    examples
        Command lines, without the word ``breadth``.
    about
        More on the input than the docstring says.
    several
        Whether the first argument may be several paths.
    advanced
        Options that are shown apart, because few people need them.
    python_only
        Parameters that are no options.
    renamed
        Names of options that differ from those of parameters.
    required
        Options that have to be given.
    words
        Help of options whose docstring is about more than this command.
    choices
        Where the words of an option that is no ``Literal`` are, as ``package:NAME``.
    more
        Options that are no parameters.
    around
        Computes the outcome from the values of all options; by default the function is called.
    after
        Called with the outcome and the values when everything is printed.
    figure, tables
        Whether there is a figure and whether there are tables to write.
    """

    name: str
    function: str
    summary: str
    source: tuple[str, str]
    examples: tuple[str, ...]
    about: str = ""
    several: bool = False
    advanced: tuple[str, ...] = ()
    python_only: tuple[str, ...] = ("progress",)
    renamed: Mapping[str, str] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    choices: Mapping[str, str] = field(default_factory=dict)
    more: tuple[Extra, ...] = ()
    around: Callable[[Callable[..., Any], dict[str, Any]], Outcome] | None = None
    after: Callable[[Outcome, dict[str, Any]], None] | None = None
    figure: bool = True
    tables: bool = True


def build_command(verb: Verb) -> Any:
    """The command of a verb; imports its function."""
    command = make_callback(verb)
    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
    app.command(verb.name.split()[-1], cls=PlainCommand)(command)
    return typer.main.get_command(app)


def make_callback(verb: Verb) -> Callable[..., None]:
    """A function with the parameters of a command, which typer makes the command from."""
    function = getattr(import_module("breadth"), verb.function)
    hints, documented = hints_of(function), parameter_words(function.__doc__ or "")
    parameters, read = [], {}
    for place, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.name in verb.python_only:
            continue
        hint = hints[parameter.name]
        words = verb.words.get(parameter.name)
        if words is None:
            words = option_words(documented.get(parameter.name, ""), [*documented], verb.renamed)
        if place == 0:
            parameters.append(_source_argument(verb, parameter.name))
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            parameters.append(_names_argument(parameter.name, words))
        else:
            option, convert = make_option(verb, parameter, hint, words)
            parameters.append(option)
            if convert is not None:
                read[parameter.name] = convert
    for extra in verb.more:
        parameters.append(_keyword(extra.name, extra.default, extra.kind))
    if verb.tables:
        parameters += [_keyword("out", None, OUT), _keyword("excel_safe", False, EXCEL_SAFE)]
    if verb.figure:
        parameters.append(_keyword("figure", None, FIGURE))
    if verb.tables or verb.figure:
        parameters += [_keyword("details", False, DETAILS), _keyword("as_json", False, AS_JSON)]

    def command(**values: Any) -> None:
        for name, convert in read.items():
            values[name] = convert(values[name])
        run_verb(verb, function, values)

    command.__doc__ = help_text(verb, function, [*documented])
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _keyword(name: str, default: Any, kind: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _source_argument(verb: Verb, name: str) -> inspect.Parameter:
    metavar, words = verb.source
    argument = typer.Argument(metavar=metavar, help=words, show_default=False)
    kind = Annotated[list[Path] if verb.several else Path, argument]  # type: ignore[valid-type]
    return _keyword(name, inspect.Parameter.empty, kind)


def _names_argument(name: str, words: str) -> inspect.Parameter:
    argument = typer.Argument(metavar="NAME", help=words, show_default=False)
    return _keyword(name, None, Annotated[list[str] | None, argument])


def make_option(
    verb: Verb, parameter: inspect.Parameter, hint: Any, words: str
) -> tuple[inspect.Parameter, Callable[[Any], Any] | None]:
    """The option of a parameter, and what turns what was typed into its value."""
    name, default = parameter.name, parameter.default
    if name in verb.required:
        default = inspect.Parameter.empty
    typed = f"--{verb.renamed.get(name, name).replace('_', '-')}"
    # A name of one letter is also an option of one dash: -k 100.
    spellings = [f"-{name}", typed] if len(name) == 1 else [typed]
    settings: dict[str, Any] = {"help": words}
    if name in verb.advanced:
        settings["rich_help_panel"] = "Advanced"
    kinds = members(hint)
    choices = [str(word) for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]
    if name in verb.choices:
        package, _, collection = verb.choices[name].partition(":")
        choices = [str(word) for word in getattr(import_module(package), collection)]
    mapping = next((kind for kind in kinds if get_origin(kind) is not None and _is(kind, Mapping)), None)
    value: Any = str | None
    convert: Callable[[Any], Any] | None = None
    if bool in kinds:
        value = bool
    elif mapping is not None:
        number = get_args(mapping)[1] is int
        settings["metavar"] = "A=635,.." if number else "A=KIND,.."
        value, convert = list[str] | None, partial(parse_pairs, typed, number=number)
    elif choices:
        joined = "|".join(choices)
        settings["metavar"] = joined
        if len(joined) > WIDEST:
            settings["metavar"] = name.upper()
            settings["help"] = f"{words} One of {', '.join(choices)}."
    elif any(get_origin(kind) is not None and _is(kind, Sequence) for kind in kinds):
        settings["metavar"] = "A,B,.."
        value, convert = list[str] | None, joined_names
    elif int in kinds:
        settings["metavar"] = "N"
        settings["min"] = 0 if name == "seed" else None
        value = int | None
    elif float in kinds:
        settings["metavar"] = "X"
        value = float | None
    elif any("PathLike" in str(kind) for kind in kinds):
        settings["metavar"] = "FILE"
    elif hint is Any:
        # Anything that holds a table; on the command line, a file.
        settings["metavar"] = "FILE"
    else:
        settings["metavar"] = "COLUMN" if "olumn" in words.partition(".")[0] else "NAME"
    return _keyword(name, default, Annotated[value, typer.Option(*spellings, **settings)]), convert


def _is(kind: Any, abstract: type) -> bool:
    origin = get_origin(kind) or kind
    return inspect.isclass(origin) and issubclass(origin, abstract)


def members(hint: Any) -> list[Any]:
    """The types of a union, those of unions inside it included; a single type alone."""
    if get_origin(hint) in (None, Literal) or not _is_union(hint):
        return [hint]
    return [kind for part in get_args(hint) for kind in members(part)]


def _is_union(hint: Any) -> bool:
    return type(hint).__name__ in ("UnionType", "_UnionGenericAlias", "Union")


def hints_of(function: Any) -> dict[str, Any]:
    """Types of a function's parameters. That of what it returns may not be loaded, and is not needed."""
    own = SimpleNamespace(__annotations__={k: v for k, v in function.__annotations__.items() if k != "return"})
    return get_type_hints(own, vars(import_module(function.__module__)))


def parameter_words(docstring: str) -> dict[str, str]:
    """What a docstring in the style of numpy says of every parameter."""
    section = re.search(r"\n\s*Parameters\n\s*-+\n(.*?)(?:\n\s*\w+\n\s*-{3,}\n|\Z)", docstring, re.DOTALL)
    if section is None:
        return {}
    lines = inspect.cleandoc(section[1]).splitlines()
    words: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if line and not line.startswith(" "):
            names = [name.strip(" *") for name in line.split(",")]
            words |= dict.fromkeys(names, "")
        else:
            for name in names:
                words[name] = f"{words[name]} {line.strip()}".strip()
    return words


def option_words(text: str, names: Sequence[str], renamed: Mapping[str, str]) -> str:
    """The first sentences of what a docstring says, as an option's help says it."""
    sentences = re.split(r"(?<=[.;:]) (?=[A-Z`])", text)
    # A sentence that is a word or two tells nothing without the next one.
    said = sentences[0] if sentences else ""
    for sentence in sentences[1:]:
        if len(said) + len(sentence) > 160:
            break
        said = f"{said} {sentence}"
    if said.endswith((";", ":")):
        said = f"{said[:-1]}."
    if said.startswith("Whether to "):
        verb = said.removeprefix("Whether to ")
        said = verb[:1].upper() + verb[1:]
    return plain_words(said, names, renamed)


def plain_words(text: str, names: Sequence[str], renamed: Mapping[str, str]) -> str:
    """Text of a docstring for a terminal: parameters are called by the names of their options."""
    text = re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", text)

    def option(match: re.Match[str]) -> str:
        name = match[1]
        if name not in names:
            return f"`{name}`"
        return f"--{renamed.get(name, name).replace('_', '-')}"

    return re.sub(r"``([^`]+)``", option, text)


def guidance(docstring: str) -> list[str]:
    """The paragraphs of a docstring that say when to use a function; how it computes is for the documentation."""
    body = docstring.partition("\n\nParameters\n")[0]
    paragraphs = [" ".join(paragraph.split()) for paragraph in body.split("\n\n")[1:]]
    chosen = []
    for paragraph in paragraphs:
        if paragraph.startswith("Question: "):
            question = paragraph.removeprefix("Question: ")
            chosen.append(question[:1].upper() + question[1:])
        elif paragraph.startswith(GUIDING):
            chosen.append(paragraph)
    return chosen


def help_text(verb: Verb, function: Any, names: Sequence[str]) -> str:
    """What the help of a command says above its options."""
    parts = [verb.summary]
    for paragraph in guidance(inspect.cleandoc(function.__doc__ or "")):
        parts.append(plain_words(paragraph, names, verb.renamed))
    if verb.about:
        parts.append(verb.about)
    if len(verb.examples) == 1:
        parts.append(f"Example: `breadth {verb.examples[0]}`")
    else:
        parts += ["Examples:", *(f"* `breadth {line}`" for line in verb.examples)]
    return "\n\n".join(parts)


def parse_pairs(option: str, values: Sequence[str] | None, *, number: bool) -> Any:
    """Read ``a=635,b=2490``; the word ``none`` stays as it is."""
    if not values:
        return None
    parts = [part for value in values for part in value.split(",")]
    if parts == ["none"]:
        return "none"
    pairs: dict[str, Any] = {}
    for part in parts:
        name, sign, text = (piece.strip() for piece in part.rpartition("="))
        if not sign or not name or not text or (number and not text.isdigit()):
            shape = "NAME=NUMBER; write a=635,b=2490" if number else "NAME=TEXT; write hans=adversarial,chat=style"
            raise InputError(f"{option}: {part!r} is not {shape}")
        pairs[name] = int(text) if number else text
    return pairs


def joined_names(values: Sequence[str] | None) -> Any:
    """Names that were given by repeating an option; None if it was not given."""
    return list(values) if values else None


def run_verb(verb: Verb, function: Callable[..., Any], values: dict[str, Any]) -> None:
    """Compute, print, write."""
    from breadth.cli.terminal import check_outputs, count_progress, words_on_standard_error

    out = values.pop("out", None) if verb.tables else None
    figure = values.pop("figure", None)
    excel_safe, details = values.pop("excel_safe", False), values.pop("details", False)
    as_json = values.pop("as_json", False)
    check_outputs(out, figure)
    source = next(iter(values))
    heading = f"breadth {verb.name}: {_heading(values[source])}"
    if verb.several:
        values[source] = one_or_all(values[source])
    if verb.around is not None:
        outcome = verb.around(function, values)
    else:
        positional = [values.pop(source), *(values.pop(_names_of(function), None) or ())]
        if "progress" in inspect.signature(function).parameters:
            with count_progress(verb.name, "done") as progress:
                result = function(*positional, **values, progress=progress)
        else:
            result = function(*positional, **values)
        outcome = Outcome({"": result}, getattr(result, "read_as", ()))
    if as_json:
        print_json(outcome)
    else:
        show_results(outcome, details)
    with words_on_standard_error() if as_json else nullcontext():
        write_results(outcome, out, figure, heading, excel_safe)
        if verb.after is not None:
            verb.after(outcome, values)
    exit_if_nothing_was_computed(outcome)


def _heading(source: Any) -> str:
    first = source[0] if isinstance(source, list) else source
    return Path(first).resolve().name


def _names_of(function: Callable[..., Any]) -> str:
    """The name of the parameter that takes any number of names; of no parameter if there is none."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return parameter.name
    return ""


def one_or_all(paths: list[Path]) -> Path | list[Path]:
    """One path as it is, several as a list."""
    return paths[0] if len(paths) == 1 else paths


def show_results(outcome: Outcome, details: bool = False) -> None:
    """Print how the input was read, what to be aware of, and the results."""
    from breadth.cli.terminal import print_result, print_warnings

    warnings = dict.fromkeys(line for result in outcome.results.values() for line in result.warnings)
    print_warnings(warnings, notes=outcome.notes, every=details)
    for result in outcome.results.values():
        print_result(result, details=details)


def print_json(outcome: Outcome) -> None:
    """Print everything as JSON: the first result, how its input was read, and below ``more`` the others by name."""
    (_, first), *others = outcome.results.items()
    said = first.to_dict() | {"read_as": list(outcome.notes)}
    if others:
        said["more"] = {name.strip("."): result.to_dict() for name, result in others}
    typer.echo(json.dumps(json_values(said), allow_nan=False, ensure_ascii=False))


def json_values(value: Any) -> Any:
    """A value as JSON can hold it: no NaN and no infinity, which are null; dates and paths as text."""
    if isinstance(value, Mapping):
        return {str(name): json_values(each) for name, each in value.items()}
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Sequence | Set):
        return [json_values(each) for each in value]
    if hasattr(value, "tolist"):  # a number or an array of numpy, a series of polars
        return json_values(value.tolist())
    return str(value)


def write_results(outcome: Outcome, out: Path | None, figure: Path | None, heading: str, excel_safe: bool) -> None:
    """Write tables and figures of all results."""
    from breadth.cli.terminal import write_figure_file, write_tables

    for infix, result in outcome.results.items():
        if out is not None:
            main, *others = result.tables().items()
            kept = {name: frame for name, frame in others if name not in outcome.left_out}
            write_tables(_beside(out, infix), main[1], excel_safe, **kept)
        if figure is not None and hasattr(result, "figure"):
            write_figure_file(result, _beside(figure, infix), heading)


def _beside(path: Path, infix: str) -> Path:
    return path.with_name(f"{path.stem}{infix}{path.suffix}")


def exit_if_nothing_was_computed(outcome: Outcome) -> None:
    """End with exit code 2 if nothing could be computed, once its reason is printed and the files are written."""
    for result in outcome.results.values():
        verdict = result.verdict()
        if verdict is not None and not verdict.computed:
            raise typer.Exit(2)
