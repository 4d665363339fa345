"""What pydantic finds wrong with a study file, in plain words, with the key that was probably meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from breadth.errors import listed
from breadth.study.problems import Place, Problem, did_you_mean
from breadth.study.schema import Difficulty, Evaluate, ModelEntry, OwnSet, Recipe, Section, Start, Study, Train

#: Sections by the keys that lead to them; positions in lists and names of own sets are left out.
SECTIONS: dict[tuple[str, ...], type[Section]] = {
    (): Study,
    ("models",): ModelEntry,
    ("train",): Train,
    ("train", "difficulty"): Difficulty,
    ("recipe",): Recipe,
    ("evaluate",): Evaluate,
    ("sets",): OwnSet,
    ("models", "recipe"): Recipe,
    ("train", "start"): Start,
}

_NUMBERS = {
    "greater_than": "is too small; it must be above {gt:g}",
    "greater_than_equal": "is too small; it must be {ge:g} or more",
    "less_than": "is too large; it must be below {lt:g}",
    "less_than_equal": "is too large; it must be {le:g} or less",
}
_KINDS = {
    "int_": "a whole number",
    "float_": "a number",
    "finite_number": "a finite number",
    "bool_": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
}


def plain_problems(error: ValidationError, around: Place = ()) -> list[Problem]:
    """Every problem once, with the place relative to the top of the file (``around`` comes before it)."""
    found = []
    for each in error.errors():
        place: Place = (*around, *(part for part in each["loc"]))
        found.append(Problem(place, _message(each["type"], place, each)))
    return found


def section_of(place: Place) -> type[Section] | None:
    """The section that a key at ``place`` belongs to, None where keys are free."""
    above = [part for part in place[:-1] if isinstance(part, str)]
    if above[:1] == ["sets"]:
        above = ["sets", *above[2:]] if len(above) > 1 else ["free"]
    return SECTIONS.get(tuple(above))


def _message(kind: str, place: Place, error: Mapping[str, Any]) -> str:
    value, context = error["input"], error.get("ctx", {})
    fixed = {
        "missing": lambda: f"is missing{_description(place)}",
        "extra_forbidden": lambda: _unknown_key(place),
        "literal_error": lambda: _no_choice(value, str(context["expected"])),
        "too_short": lambda: f"is empty{_description(place)}" if not value else f"{value!r} is too short",
        "string_too_short": lambda: f"is empty{_description(place)}",
        "string_pattern_mismatch": lambda: (
            f"{value!r} may hold only letters, digits, dots, dashes and underscores, and begins with a letter or digit"
        ),
        "value_error": lambda: str(context["error"]),
        "model_type": lambda: _no_section(place, value),
        "model_attributes_type": lambda: _no_section(place, value),
        "dict_type": lambda: f"needs keys with values, as {place[-1]}: {{key: value}}, not {_shown(value)}",
    }
    if kind in fixed:
        return fixed[kind]()
    if kind in _NUMBERS:
        return f"{value!r} {_NUMBERS[kind].format(**context)}"
    wanted = next((words for prefix, words in _KINDS.items() if kind.startswith(prefix)), None)
    return f"{_shown(value)} does not fit: {error['msg']}" if wanted is None else f"{_shown(value)} is not {wanted}"


def _shown(value: Any) -> str:
    shown = "nothing" if value is None else repr(value)
    return shown if len(shown) < 60 else "what stands here"


def _no_section(place: Place, value: Any) -> str:
    if place[0] == "models":
        return f"a model is a name, or {{name: ..., recipe: {{...}}}}, not {_shown(value)}"
    section = section_of((*place, "key"))
    keys = list(section.model_fields) if section else []
    return f"needs keys with values ({listed(keys, most=6)}), not {_shown(value)}"


def _no_choice(value: Any, expected: str) -> str:
    choices = expected.replace(" or ", ", ").replace("'", "").split(", ")
    return f"{value!r} is none of {', '.join(choices)}.{did_you_mean(str(value), choices)}"


def _description(place: Place) -> str:
    section, key = section_of(place), place[-1]
    field = section.model_fields.get(str(key)) if section else None
    return f" ({field.description})" if field is not None and field.description else ""


def _unknown_key(place: Place) -> str:
    key, section = str(place[-1]), section_of(place)
    keys = list(section.model_fields) if section else []
    # `model` is nearer to `models` than to anything else; `epochs` at the top was meant for another section.
    hint = did_you_mean(key, keys)
    if not hint:
        homes = [".".join(path) for path, each in SECTIONS.items() if path and key in each.model_fields]
        hint = f" It belongs under {homes[0]}." if homes else ""
    return f"there is no such key.{hint or f' Keys here: {listed(keys, most=30)}'}"
