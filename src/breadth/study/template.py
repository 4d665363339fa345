"""Every key of a study file explained: in a study file to start from, with a comment for each, and in tables.

The comments are the schema's own descriptions, and keys that a study does not set are there with their defaults,
behind a ``#``: neither can go stale.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
import typing
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from breadth.errors import InputError, did_you_mean, listed
from breadth.records import atomic_write
from breadth.study.document import Document, Place, flow_yaml, read_document
from breadth.study.read import StudyFile, parse_study, shipped_studies
from breadth.study.schema import StudySpec
from breadth.study.sections import StudySection, field_at, inner_section, sections

#: Where comments begin, and the widest line.
COLUMN, WIDTH = 31, 120

_COMMENT = re.compile(r"^(?P<body>.*?\S)(?: +# (?P<comment>.*))?$")


def init_study(out: Path, source: str) -> StudyFile:
    """Write a commented study file, and read it again; a file that exists is not overwritten.

    One that holds the same already is what an earlier, interrupted call wrote.
    """
    shipped = shipped_studies()
    if source not in shipped:
        hint = did_you_mean([source], shipped, most=1)
        raise InputError(f"--from {source}: is not a study that comes with breadth.{hint} Studies: {listed(shipped)}")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", out.stem).strip("-._") or "study"
    text = commented_study(shipped[source].read_text(encoding="utf-8"), source, name, out.name)
    file = parse_study(text, out, out.parent)
    if os.path.lexists(out):
        if not out.is_file() or out.read_bytes() != text.encode():
            raise InputError(f"{out}: exists already and is not overwritten; choose another file with --out")
        return file
    atomic_write(out, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return file


def commented_study(text: str, source: str, name: str, file: str) -> str:
    """The text of the study ``source`` under another name, for a file, with all keys and what they mean."""
    document = read_document(text, source)
    lines, keys, ends = text.splitlines(), _keys_by_line(text, document), _sections_by_end(document)
    about = (
        f"A study file for breadth, made from the study {source}. A commented-out key shows its default: remove the # "
        f"to change it. `breadth show {file}` checks it; `breadth run {file} --dry-run` says what it would do."
    )
    written = [*_wrapped(about, WIDTH), ""]
    for number, line in enumerate(lines, 1):
        if number in keys:
            match, field = _COMMENT.match(line), field_at(StudySpec, keys[number])
            assert match is not None
            words = [meaning(field)] if field is not None else []
            words += [] if match["comment"] is None else [match["comment"]]
            written += _with_comments(f"name: {name}" if keys[number] == ("name",) else match["body"], *words)
        else:
            # Commands in the comments of a study name that study, not this one.
            own_run = re.sub(rf"\bbreadth run {source}\b", f"breadth run {file}", line)
            written.append(re.sub(rf"\b(breadth \w+) {source}\b", rf"\1 {name}", own_run))
        for place, section in ends.get(number, ()):
            written += _defaults(section, _entry_at(document.value, place), "  " * len(place) + "# ")
    return "\n".join([*written, "", *_defaults(StudySpec, document.value, "# ")]) + "\n"


def _keys_by_line(text: str, document: Document) -> dict[int, Place]:
    """The key that each line begins with; keys inside braces are left out."""
    lines, keys = text.splitlines(), dict[int, Place]()
    for place, number in document.lines.items():
        if place and re.match(rf"\s*(- )?{re.escape(str(place[-1]))}:", lines[number - 1]):
            keys.setdefault(number, place)
    return keys


def _sections_by_end(document: Document) -> dict[int, list[tuple[Place, type[StudySection]]]]:
    """Sections by the last line of each, inner ones first."""
    ends: dict[int, list[tuple[Place, type[StudySection]]]] = {}
    for place in sorted(document.lines, key=len, reverse=True):
        if (
            place
            and all(isinstance(part, str) for part in place)
            and isinstance(_entry_at(document.value, place), dict)
        ):
            field = field_at(StudySpec, place)
            section = None if field is None else inner_section(field.annotation)
            if section is not None:
                last = max(line for each, line in document.lines.items() if each[: len(place)] == place)
                ends.setdefault(last, []).append((place, section))
    return ends


def _entry_at(value: Any, place: Place) -> Any:
    for part in place:
        value = value[part]
    return value


def _defaults(section: type[StudySection], given: Collection[str], start: str) -> Iterator[str]:
    """The keys of a section that are not given, with their defaults; three dots stand for a value that it needs."""
    for key, field in section.all_fields().items():
        inner = inner_section(field.annotation)
        if key in given:
            continue
        if inner is None:
            value = "..." if field.is_required() else flow_yaml(field.get_default(call_default_factory=True))
            yield from _with_comments(f"{start}{key}: {value}", meaning(field))
            continue
        yield from _with_comments(f"{start}{key}:", meaning(field))
        below = f"{start}  "
        if isinstance(field.get_default(call_default_factory=True), dict):
            yield from _with_comments(f"{below}NAME:", "a name of your choice")
            below += "  "
        yield from _defaults(inner, (), below)


def _with_comments(body: str, *comments: str) -> list[str]:
    """A line with its comments behind it, one below the other; above it if the line is too long for that."""
    column = max(COLUMN, len(body) + 2)
    if not comments:
        return [body]
    if column > WIDTH // 2:
        indent = body[: len(body) - len(body.lstrip(" "))]
        above = [line for text in comments for line in _wrapped(text, WIDTH - len(indent))]
        return [*(f"{indent}{line}" for line in above), body]
    first, *others = [line for text in comments for line in _wrapped(text, WIDTH - column)]
    return [f"{body:{column}}{first}", *(f"{'':{column}}{line}" for line in others)]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def key_tables() -> str:
    """Markdown tables of every key of a study file with its default and meaning, one per section."""
    parts = []
    for prefix, section in sections(StudySpec):
        title = f"### `{prefix.rstrip('.')}`" if prefix else "### The whole file"
        rows = [f"{title}\n", f"{section.__doc__}\n", "| key | default | meaning |", "|---|---|---|"]
        for name, field in section.all_fields().items():
            means = meaning(field, "`").replace("|", "\\|")
            rows.append(f"| `{prefix}{name}` | {_shown_default(field)} | {means} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def _shown_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    if isinstance(value, float):
        return f"`{value:g}`"
    return "none" if value in ([], {}) else f"`{json.dumps(value)}`"


def meaning(field: FieldInfo, mark: str = "") -> str:
    """What a key means and which words it takes, each between two of ``mark``."""
    choices, text = list(dict.fromkeys(_literal_words(field.annotation))), str(field.description)
    if len(choices) < 2 or all(choice in text for choice in choices):
        return text
    return f"{text}; one of {', '.join(f'{mark}{choice}{mark}' for choice in choices)}"


def _literal_words(annotation: Any) -> list[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return [str(choice) for choice in typing.get_args(annotation)]
    return [choice for part in typing.get_args(annotation) for choice in _literal_words(part)]
