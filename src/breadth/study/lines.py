"""Read YAML and keep the line of every key and item, so that a message can name it.

Only what a study file needs: words are words (``Yes``, ``no`` and ``on`` are texts, as in YAML 1.2), ``1e-3`` is a
number, keys are texts as they are written, and nothing but plain values can be made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from breadth.errors import InputError
from breadth.study.problems import Place, Problem, key_path

#: Values a file may hold, aliases written out; a file of nested aliases could otherwise fill the memory.
MOST_VALUES = 100_000

_FLOAT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$")
_PLAIN = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str", "int", "float", "bool", "null"))


class StudyLoader(yaml.SafeLoader):
    """YAML with the words of version 1.2: true and false are the only truth values."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012


class StudyDumper(yaml.SafeDumper):
    """Writes texts in quotation marks wherever YAML 1.1 or ``StudyLoader`` would take them for something else."""

    yaml_implicit_resolvers = {key: list(each) for key, each in yaml.SafeDumper.yaml_implicit_resolvers.items()}  # noqa: RUF012

    def ignore_aliases(self, data: Any) -> bool:  # noqa: D102
        return True


def _write_text(dumper: StudyDumper, text: str) -> yaml.ScalarNode:
    # YAML takes these for line breaks and would fold them into blanks outside double quotation marks.
    style = '"' if any(character in text for character in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


StudyDumper.add_representer(str, _write_text)
StudyLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), "tTfF")
StudyLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(~|null|Null|NULL|)$"), ["~", "n", "N", ""])
StudyLoader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?[0-9]+$"), "-+0123456789")
StudyLoader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, "-+.0123456789")
StudyDumper.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, "-+.0123456789")
# SafeLoader reads a leading 0 as octal; here 010 is ten.
StudyLoader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))


@dataclass
class Document:
    """What a file says, the line of everything in it, and what is wrong with it as YAML."""

    value: Any = None
    lines: dict[Place, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def line(self, place: Place) -> int:
        """The line of a place, or of the nearest thing around it that is in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return self.lines.get(place, 1)

    def shown(self, problem: Problem) -> str:
        """A problem as one line of a message."""
        where = f"line {problem.line or self.line(problem.place)}"
        keys = key_path(problem.place)
        return f"{where}, {keys}: {problem.message}" if keys else f"{where}: {problem.message}"


def read_document(text: str, name: str) -> Document:
    """Read YAML text; what is not YAML at all raises ``InputError`` with line and column."""
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
        raise InputError(f"{name}: line {line}: holds a control character; a study file is plain text") from error
    except yaml.MarkedYAMLError as error:
        raise InputError(f"{name}: {_syntax(error)}") from error
    except RecursionError as error:
        raise InputError(f"{name}: is nested too deeply to be a study file") from error
    return document


def _syntax(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    began = f", {error.context} that began in line {error.context_mark.line + 1}" if error.context_mark else ""
    problem = error.problem or "cannot be read"
    hint = "; put a text that holds ': ' or begins with a special character in quotation marks"
    tabs = "; indent with blanks, not tabs"
    if (
        "mapping values are not allowed" in problem
        or "found character '%'" in problem
        or "found character '`'" in problem
    ):
        return f"{where}is not YAML ({problem}{began}){hint}"
    return f"{where}is not YAML ({problem}{began}){tabs if chr(92) + 't' in problem else ''}"


@dataclass
class _Walk:
    loader: StudyLoader
    document: Document
    seen: int = 0

    def value(self, node: yaml.Node, place: Place, above: tuple[int, ...]) -> Any:
        self.document.lines.setdefault(place, node.start_mark.line + 1)
        self.seen += 1
        if id(node) in above or self.seen > MOST_VALUES:
            what = "an alias that holds itself" if id(node) in above else f"more than {MOST_VALUES:,} values"
            raise yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)
        if node.tag not in _PLAIN:
            raise yaml.MarkedYAMLError(problem=f"the tag {node.tag} has no meaning here", problem_mark=node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        above = (*above, id(node))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, (*place, k), above) for k, each in enumerate(node.value)]
        found: dict[str, Any] = {}
        for key, value in node.value:
            self._entry(found, key, value, place, above)
        return found

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            return self.loader.construct_object(node)
        except ValueError as error:
            raise yaml.MarkedYAMLError(problem="a value cannot be read", problem_mark=node.start_mark) from error

    def _entry(
        self, found: dict[str, Any], key: yaml.Node, value: yaml.Node, place: Place, above: tuple[int, ...]
    ) -> None:
        if not isinstance(key, yaml.ScalarNode):
            raise yaml.MarkedYAMLError(problem="a key is one word", problem_mark=key.start_mark)
        here, line = (*place, str(key.value)), key.start_mark.line + 1
        if here in self.document.lines:
            message = f"stands here for a second time (first in line {self.document.lines[here]}); keep one"
            self.document.problems.append(Problem(here, message, line=line))
            return
        self.document.lines[here] = line
        found[str(key.value)] = self.value(value, here, above)
