"""A study file as YAML: read it with the line of every key, write it, and list what differs between two studies.

This works on PyYAML's nodes by hand, because a study file needs what no loader gives together: the line of every key
for messages, all repeated keys at once, and the words of YAML 1.2 (``Yes``, ``no`` and ``on`` are text, ``1e-3`` is a
number, keys are text as written).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel

from breadth.errors import InputError
from breadth.errors import did_you_mean as nearest

#: Where something is in a file: keys and list positions from the top.
Place = tuple[str | int, ...]

#: Replaces a wrong name while the rest of a file is checked.
PLACEHOLDER = "?"

#: Values a file may hold, and characters in them, with aliases expanded; they could otherwise fill the memory.
MAX_VALUES, MAX_CHARACTERS = 20_000, 2_000_000

_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$")
_PLAIN = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str", "int", "float", "bool", "null"))


class Problem(NamedTuple):
    """An error (or a warning) and its place.

    ``needs`` are other places it depends on: if one of them is wrong already, this problem is not reported.
    ``line`` is set where the place alone does not determine it; ``meant`` is where a wrong key belongs.
    """

    place: Place
    message: str
    needs: tuple[Place, ...] = ()
    line: int | None = None
    meant: Place = ()

    def follows_from(self, broken: Iterable[Place]) -> bool:
        """Whether the problem is inside a broken place, or depends on one that is broken or contains one."""
        places = list(broken)
        inside = any(self.place[: len(each)] == each for each in places)
        return inside or any(
            need[: len(each)] == each or each[: len(need)] == need for need in self.needs for each in places
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with a leading blank; empty if no known name is close.

    >>> did_you_mean("recpie", ["recipe", "models"])
    ' Did you mean recipe?'
    """
    return nearest([name], known, most=1)


def quoted(names: Iterable[object]) -> str:
    """Names in quotation marks for a message."""
    return ", ".join(repr(name) for name in names)


def listed_twice(place: Place, values: Sequence[object]) -> Iterator[Problem]:
    """A problem if a list has a value more than once; placeholders for wrong values do not count."""
    twice = [value for value, times in Counter(values).items() if times > 1 and value != PLACEHOLDER]
    if twice:
        yield Problem(place, f"{quoted(twice)} is listed more than once; keep one")


class StudyLoader(yaml.SafeLoader):
    """YAML with the words of version 1.2: only true and false are booleans."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012


class StudyDumper(yaml.SafeDumper):
    """Quotes text wherever YAML 1.1 or ``StudyLoader`` would read it as something else."""

    yaml_implicit_resolvers = {key: list(each) for key, each in yaml.SafeDumper.yaml_implicit_resolvers.items()}  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:  # noqa: D102
        return True


def _represent_text(dumper: StudyDumper, text: str) -> yaml.ScalarNode:
    # YAML takes these for line breaks and folds them into blanks unless double quotation marks are used.
    style = '"' if any(character in text for character in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


StudyDumper.add_representer(str, _represent_text)
StudyLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), "tTfF")
StudyLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
StudyLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), "-+0123456789")
StudyLoader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, "-+.0123456789")
StudyDumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, "-+.0123456789")
# SafeLoader reads a leading 0 as octal; here 010 is ten.
StudyLoader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))


@dataclass
class Document:
    """The values in a file, the line of each, and what is wrong with the file as YAML."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def as_written(self, place: Place) -> Place:
        """A place as the file has it: the prompt of a set may be under its older name, pattern."""
        older = (*place[:-1], "pattern")
        is_older = place[:1] == ("sets",) and place[-1] == "prompt" and place not in self.lines and older in self.lines
        return older if is_older else place

    def line(self, problem: Problem) -> int:
        """The line of a problem: of its place, or of the nearest place around it that is in the file."""
        place = self.as_written(problem.place)
        while place and place not in self.lines:
            place = place[:-1]
        return problem.line or self.lines.get(place, 1)

    def describe(self, problems: Iterable[Problem]) -> list[str]:
        """Problems as lines of a message, in the order of the file, each once."""
        shown = []
        for problem in sorted(problems, key=self.line):
            # List positions are left out, since a message also names the line.
            keys = ".".join(part for part in self.as_written(problem.place) if isinstance(part, str))
            shown.append(f"line {self.line(problem)}{f', {keys}' if keys else ''}: {problem.message}")
        return list(dict.fromkeys(shown))


def read_document(text: str, name: str) -> Document:
    """Read YAML text; text that is not YAML raises ``InputError`` with line and column."""
    try:
        loader = StudyLoader(text)
        try:
            node = loader.get_single_node()
            document = Document()
            if node is not None:
                document.value = _Walk(loader, document).value(node, (), ())
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"{name}: line {line}: contains a control character; a study file is plain text") from error
    except yaml.MarkedYAMLError as error:
        raise InputError(f"{name}: {_syntax(error)}") from error
    except RecursionError as error:
        raise InputError(f"{name}: is nested too deeply for a study file") from error
    return document


def _syntax(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    context = f", {error.context} that began in line {error.context_mark.line + 1}" if error.context_mark else ""
    problem = error.problem or "cannot be read"
    hint = ""
    if any(cause in problem for cause in ("mapping values are not allowed", "character '%'", "character '`'")):
        hint = "; quote text that contains ': ' or begins with a special character"
    elif "\\t" in problem:
        hint = "; indent with blanks, not tabs"
    return f"{where}is not YAML ({problem}{context}){hint}"


@dataclass
class _Walk:
    """Turns nodes into plain values and notes their lines."""

    loader: StudyLoader
    document: Document
    seen: int = 0
    characters: int = 0

    def value(self, node: yaml.Node, place: Place, above: tuple[int, ...]) -> Any:
        self.document.lines.setdefault(place, node.start_mark.line + 1)
        self.seen += 1
        self.characters += len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        if id(node) in above or self.seen > MAX_VALUES or self.characters > MAX_CHARACTERS:
            what = f"more than {MAX_VALUES:,} values or {MAX_CHARACTERS:,} characters, with aliases expanded"
            what = "an alias that contains itself" if id(node) in above else what
            raise yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)
        if node.tag not in _PLAIN:
            raise yaml.MarkedYAMLError(problem=f"the tag {node.tag} is not allowed", problem_mark=node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            try:
                return self.loader.construct_object(node)
            except ValueError as error:
                raise yaml.MarkedYAMLError(problem="a value cannot be read", problem_mark=node.start_mark) from error
        above = (*above, id(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, (*place, k), above) for k, each in enumerate(node.value)]
        entries: dict[str, Any] = {}
        for key, value in node.value:
            here = self._new_key(key, place)
            if here is not None:
                entries[str(key.value)] = self.value(value, here, above)
        return entries

    def _new_key(self, key: yaml.Node, place: Place) -> Place | None:
        """The place of a key; None, and a problem, if the key was there before."""
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a key must be a single word", problem_mark=key.start_mark)
        here, line = (*place, str(key.value)), key.start_mark.line + 1
        if here in self.document.lines:
            message = f"is given twice (first in line {self.document.lines[here]}); keep one"
            self.document.problems.append(Problem(here, message, line=line))
            return None
        self.document.lines[here] = line
        return here


def resolved_study(study: BaseModel) -> dict[str, Any]:
    """Every key with its value, defaults included, as plain values."""
    return study.model_dump(mode="json")


def resolved_yaml(study: BaseModel) -> str:
    """The resolved study as YAML that reads back to the same study."""
    values = resolved_study(study)
    return yaml.dump(
        values, Dumper=StudyDumper, sort_keys=False, allow_unicode=True, width=100, default_flow_style=None
    )


def flow_yaml(value: Any) -> str:
    """A value as one line of YAML.

    >>> flow_yaml([0.9, None]), flow_yaml("Yes")
    ('[0.9, null]', "'Yes'")
    """
    plain = list(value) if isinstance(value, tuple) else value
    text = yaml.dump(plain, Dumper=StudyDumper, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return text.removesuffix("...\n").strip()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed between two resolved studies, one line each.

    >>> differences({"recipe": {"lr": 0.001}, "models": ["a"]}, {"recipe": {"lr": 0.0001}, "models": ["a", "b"]})
    ['recipe.lr: 0.001 -> 0.0001', 'models: b added']
    """
    return list(_differences("", old, new))


def _differences(path: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            here = f"{path}.{key}" if path else str(key)
            if key not in new:
                yield f"{here}: {_shown(old[key])} removed"
            elif key not in old:
                yield f"{here}: {_shown(new[key])} added"
            else:
                yield from _differences(here, old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_differences(path, old, new)
    else:
        yield f"{path}: {_shown(old)} -> {_shown(new)}"


def _list_differences(path: str, old: list[Any], new: list[Any]) -> Iterator[str]:
    named = all(isinstance(each, Mapping) and "name" in each for each in [*old, *new])
    before, after = ([each["name"] if named else each for each in entries] for entries in (old, new))
    removed = [each for each in before if each not in after]
    added = [each for each in after if each not in before]
    if named:
        yield from _entry_differences(path, old, new)
        removed, added = _without(before, after), _without(after, before)
    yield from (f"{path}: {_shown(each)} removed" for each in removed)
    yield from (f"{path}: {_shown(each)} added" for each in added)
    if not removed and not added and before != after:
        yield f"{path}: {_shown(before)} -> {_shown(after)}"


def _without(values: list[Any], others: list[Any]) -> list[Any]:
    """The values that are not among the others, counting repeats."""
    left, rest = list(others), []
    for each in values:
        if each in left:
            left.remove(each)
        else:
            rest.append(each)
    return rest


def _entry_differences(path: str, old: list[Any], new: list[Any]) -> Iterator[str]:
    """What changed in entries that have a name; of several with one name, those that stayed as they were come first."""
    remaining = _without(new, old)
    for each in _without(old, new):
        partner = next((other for other in remaining if other["name"] == each["name"]), None)
        if partner is not None:
            remaining.remove(partner)
            yield from _differences(f"{path}.{each['name']}", each, partner)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_shown(each) for each in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shown(each)}" for key, each in value.items()) + "}"
    return str(value)
