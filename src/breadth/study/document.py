"""A study file as YAML: read it with the line of every key, write it, and list what differs between two studies.

This works on PyYAML's nodes by hand, because a study file needs what no loader gives together: the line of every key
for messages, all repeated keys at once, and the words of YAML 1.2 (``Yes``, ``no`` and ``on`` are text, ``1e-3`` is a
number, keys are text as written). ruamel.yaml was tried in three ways and needs more code for the same:
benchmarks/LOG.md, "Libraries that were tried in place of own code".
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

#: Where something is in a file: keys and list positions from the top.
Place = tuple[str | int, ...]

#: Replaces a wrong name while the rest of a file is checked.
PLACEHOLDER = "?"

#: Values a file may hold, and characters in them, with aliases expanded; they could otherwise fill the memory.
MAX_VALUES, MAX_CHARACTERS = 20_000, 2_000_000

#: What a plain word of a study file is, besides text: tag, pattern and possible first characters (none: empty).
#: Numbers are written in digits: 0x1f, 1_000 and 1:30 are text, which YAML 1.1 or ruamel.yaml would read as numbers.
_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$")
_WORDS: tuple[tuple[str, re.Pattern[str], Iterable[str]], ...] = (
    ("tag:yaml.org,2002:bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), "tTfF"),
    ("tag:yaml.org,2002:null", re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), "-+0123456789"),
    ("tag:yaml.org,2002:float", _FLOAT, "-+.0123456789"),
)

#: Kinds of values that a file may hold. Others, which a file can ask for by a tag, would be objects of Python.
_PLAIN_TAGS = (
    "tag:yaml.org,2002:map",
    "tag:yaml.org,2002:seq",
    "tag:yaml.org,2002:str",
    *(tag for tag, _, _ in _WORDS),
)


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
        for each in broken:
            if _contains(each, self.place):
                return True
            for need in self.needs:
                if _contains(each, need) or _contains(need, each):
                    return True
        return False


def _contains(outer: Place, inner: Place) -> bool:
    """Whether a place is another one, or lies inside of it."""
    return inner[: len(outer)] == outer


def quoted(names: Iterable[object]) -> str:
    """Names in quotation marks for a message."""
    return ", ".join(repr(name) for name in names)


def listed_twice(place: Place, values: Sequence[object]) -> Iterator[Problem]:
    """A problem if a list has a value more than once; placeholders for wrong values do not count."""
    counts = Counter(values)
    counts.pop(PLACEHOLDER, None)
    twice = [value for value, count in counts.items() if count > 1]
    if twice:
        yield Problem(place, f"{quoted(twice)} is listed more than once; keep one")


class StudyLoader(yaml.SafeLoader):
    """YAML with the words of version 1.2: only true and false are booleans."""

    # A dictionary of its own, which is empty: none of the words of YAML 1.1.
    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012


class StudyDumper(yaml.SafeDumper):
    """Quotes text wherever YAML 1.1 or ``StudyLoader`` would read it as something else.

    breadth itself would read ``no`` as text, but other programs may read the file, too.
    """

    yaml_implicit_resolvers = {key: list(each) for key, each in yaml.SafeDumper.yaml_implicit_resolvers.items()}  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything out: a value that is there twice is easier to read than an alias."""
        return True


def _represent_text(dumper: StudyDumper, text: str) -> yaml.ScalarNode:
    style = None
    # YAML takes these for line breaks and folds them into blanks unless double quotation marks are used.
    if any(character in text for character in "\x85\u2028\u2029"):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


for _tag, _pattern, _first in _WORDS:
    StudyLoader.add_implicit_resolver(_tag, _pattern, _first)
# To YAML 1.1, 1e-3 is text.
StudyDumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, "-+.0123456789")
StudyDumper.add_representer(str, _represent_text)
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
        if place in self.lines or place[:1] != ("sets",) or place[-1] != "prompt":
            return place
        older = (*place[:-1], "pattern")
        return older if older in self.lines else place

    def line(self, problem: Problem) -> int:
        """The line of a problem: of its place, or of the nearest place around it that is in the file."""
        if problem.line is not None:
            return problem.line
        place = self.as_written(problem.place)
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def describe(self, problems: Iterable[Problem]) -> list[str]:
        """Problems as lines of a message, in the order of the file, each once."""
        shown = []
        for problem in sorted(problems, key=self.line):
            # List positions are left out, since a message also names the line.
            keys = [part for part in self.as_written(problem.place) if isinstance(part, str)]
            where = f"line {self.line(problem)}"
            if keys:
                where += f", {'.'.join(keys)}"
            shown.append(f"{where}: {problem.message}")
        # Two checks may find the same problem.
        return list(dict.fromkeys(shown))


def read_document(text: str, name: str) -> Document:
    """Read YAML text; text that is not YAML raises ``InputError`` with line and column."""
    document = Document()
    try:
        loader = StudyLoader(text)
        try:
            root = loader.get_single_node()
            if root is not None:
                document.value = _NodeReader(loader, document).read_value(root, (), ())
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"{name}: line {line}: contains a control character; a study file is plain text") from error
    except yaml.MarkedYAMLError as error:
        raise InputError(f"{name}: {_describe_yaml_error(error)}") from error
    except RecursionError as error:
        # PyYAML and _NodeReader call themselves for every level, and Python stops them at about 500 levels.
        raise InputError(f"{name}: is nested too deeply for a study file") from error
    return document


def _describe_yaml_error(error: yaml.MarkedYAMLError) -> str:
    """Where and why text is not YAML, and what to do about the usual mistakes."""
    where = context = hint = ""
    mark = error.problem_mark or error.context_mark
    if mark:
        where = f"line {mark.line + 1}, column {mark.column + 1}: "
    if error.context_mark:
        context = f", {error.context} that began in line {error.context_mark.line + 1}"
    problem = error.problem or "cannot be read"
    if any(cause in problem for cause in ("mapping values are not allowed", "character '%'", "character '`'")):
        hint = "; quote text that contains ': ' or begins with a special character"
    elif "\\t" in problem:
        hint = "; indent with blanks, not tabs"
    return f"{where}is not YAML ({problem}{context}){hint}"


def _error_at(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


@dataclass
class _NodeReader:
    """Turns nodes into plain values, and notes their lines in the document.

    An alias is the node that it stands for, so a node is read as often as the file names it. Nine lines of nine aliases
    each are 400 million values: hence the counts.
    """

    loader: StudyLoader
    document: Document
    values: int = 0
    characters: int = 0

    def read_value(self, node: yaml.Node, place: Place, above: tuple[int, ...]) -> Any:
        """The value of a node at a place; ``above`` identifies the nodes around it."""
        # A key has noted its own line, which is the better one: a block of text begins below it.
        self.document.lines.setdefault(place, node.start_mark.line + 1)
        if id(node) in above:
            raise _error_at(node, "an alias that contains itself")
        self._count(node)
        if node.tag not in _PLAIN_TAGS:
            raise _error_at(node, f"the tag {node.tag} is not allowed")
        above = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, place, above)
        if isinstance(node, yaml.SequenceNode):
            return [self.read_value(each, (*place, k), above) for k, each in enumerate(node.value)]
        try:
            return self.loader.construct_object(node)
        except ValueError as error:  # such as !!int abc, or a number of more digits than Python reads
            raise _error_at(node, "a value cannot be read") from error

    def _count(self, node: yaml.Node) -> None:
        self.values += 1
        if isinstance(node, yaml.ScalarNode):
            self.characters += len(node.value)
        if self.values > MAX_VALUES or self.characters > MAX_CHARACTERS:
            most = f"{MAX_VALUES:,} values or {MAX_CHARACTERS:,} characters"
            raise _error_at(node, f"more than {most}, with aliases expanded")

    def _read_mapping(self, node: yaml.MappingNode, place: Place, above: tuple[int, ...]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _error_at(key_node, "a key must be a single word")
            # Keys are text as written, whatever they look like: a label may be 010, yes or 1e3.
            key = str(key_node.value)
            here, line = (*place, key), key_node.start_mark.line + 1
            if key in entries:
                # A problem like others, not an error that ends reading: a file's problems are shown all at once.
                message = f"is given twice (first in line {self.document.lines[here]}); keep one"
                self.document.problems.append(Problem(here, message, line=line))
                continue
            self.document.lines[here] = line
            entries[key] = self.read_value(value_node, here, above)
        return entries


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
    if isinstance(value, tuple):
        value = list(value)
    text = yaml.dump(value, Dumper=StudyDumper, default_flow_style=True, allow_unicode=True, width=float("inf"))
    # PyYAML ends a document that is a single word with three dots.
    return text.removesuffix("...\n").strip()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What changed between two resolved studies, one line each.

    >>> differences({"recipe": {"lr": 0.001}, "models": ["a"]}, {"recipe": {"lr": 0.0001}, "models": ["a", "b"]})
    ['recipe.lr: 0.001 -> 0.0001', 'models: b added']
    """
    return list(_value_differences("", old, new))


def _value_differences(path: str, old: Any, new: Any) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys([*old, *new]):
            here = f"{path}.{key}" if path else str(key)
            if key not in new:
                yield f"{here}: {_value_text(old[key])} removed"
            elif key not in old:
                yield f"{here}: {_value_text(new[key])} added"
            else:
                yield from _value_differences(here, old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_differences(path, old, new)
    else:
        yield f"{path}: {_value_text(old)} -> {_value_text(new)}"


def _list_differences(path: str, old: list[Any], new: list[Any]) -> Iterator[str]:
    named = all(isinstance(each, Mapping) and "name" in each for each in [*old, *new])
    if named:
        before, after = _entry_names(old), _entry_names(new)
        yield from _entry_differences(path, old, new)
        # A name may be there several times, as a model with several recipes is.
        removed, added = _without(before, after), _without(after, before)
    else:
        before, after = old, new
        removed = [each for each in old if each not in new]
        added = [each for each in new if each not in old]
    for each in removed:
        yield f"{path}: {_value_text(each)} removed"
    for each in added:
        yield f"{path}: {_value_text(each)} added"
    # Another order, or another number of the same value.
    if not removed and not added and before != after:
        yield f"{path}: {_value_text(before)} -> {_value_text(after)}"


def _entry_names(entries: list[Any]) -> list[Any]:
    return [each["name"] for each in entries]


def _without(values: list[Any], others: list[Any]) -> list[Any]:
    """The values that are not among the others, counting repeats."""
    left, rest = list(others), []
    # Values may be lists or mappings, which a Counter does not take.
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
        for partner in remaining:
            if partner["name"] == each["name"]:
                remaining.remove(partner)
                yield from _value_differences(f"{path}.{each['name']}", each, partner)
                break


def _value_text(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(_value_text(each) for each in value)}]"
    if isinstance(value, Mapping):
        entries = [f"{key}: {_value_text(each)}" for key, each in value.items()]
        return f"{{{', '.join(entries)}}}"
    return str(value)
