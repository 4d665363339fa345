"""What every section of a study file has in common, and pydantic's errors about a section in plain words.

``schema`` and ``own_sets`` define the sections; ``checks`` looks at several keys at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from breadth.errors import InputError, did_you_mean, listed
from breadth.study.document import Place, Problem
from breadth.study.other_names import VALUES, other_name

_NUMBERS = {
    "greater_than": "is too small; it must be above {gt:,.12g}",
    "greater_than_equal": "is too small; it must be {ge:,.12g} or more",
    "less_than": "is too large; it must be below {lt:,.12g}",
    "less_than_equal": "is too large; it must be {le:,.12g} or less",
}
_KINDS = {
    "int_": "a whole number",
    "float_": "a number",
    "finite_number": "a finite number",
    "bool_": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
}


#: Largest number of examples, tokens or the like.
MOST = 100_000_000


def as_list(value: Any) -> Any:
    """A single value stands for a list of one."""
    return value if isinstance(value, list) or value is None else [value]


Names = Annotated[list[Annotated[str, Field(min_length=1)]], BeforeValidator(as_list), Field(min_length=1)]
Counts = Annotated[list[Annotated[int, Field(ge=1, le=MOST)]], BeforeValidator(as_list), Field(min_length=1)]
Seeds = Annotated[list[Annotated[int, Field(ge=0, lt=2**63)]], BeforeValidator(as_list), Field(min_length=1)]


class StudySection(BaseModel):
    """A section of a study file: unknown keys are refused, and nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def all_fields(cls) -> dict[str, FieldInfo]:
        """The keys that the section may have."""
        return cls.model_fields

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans(cls, value: Any, info: ValidationInfo) -> Any:
        """Python takes true for 1; in a study file that is a mistake."""
        values = value if isinstance(value, list) and info.field_name != "models" else [value]
        annotation = cls.model_fields[str(info.field_name)].annotation
        wanted = annotation is bool or bool in get_args(annotation)
        if not wanted and any(isinstance(each, bool) for each in values):
            raise InputError("true and false are neither numbers nor text; use quotation marks for a word")
        return value


def sections(section: type[StudySection], prefix: str = "") -> Iterator[tuple[str, type[StudySection]]]:
    """A section and all below it, each with what precedes its keys, such as ``train.difficulty.``."""
    yield prefix, section
    for name, field in section.all_fields().items():
        inner = inner_section(field.annotation)
        if inner is not None:
            container = get_origin(field.annotation)
            items = "[]" if container is list else ".NAME" if container is dict else ""
            yield from sections(inner, f"{prefix}{name}{items}.")


def plain_problems(error: ValidationError, root: type[StudySection], around: Place = ()) -> list[Problem]:
    """Every error about a section ``root`` that begins at ``around``, once, as a problem."""
    problems = []
    for each in error.errors():
        place: Place = each["loc"]
        if each["type"] == "extra_forbidden":
            message, meant = _unknown_key(root, place)
            problems.append(Problem((*around, *place), message, meant=(*around, *meant) if meant else ()))
        else:
            problems.append(Problem((*around, *place), _message(each["type"], root, place, each)))
    return problems


def field_at(root: type[StudySection], place: Place) -> FieldInfo | None:
    """The field of the schema for the key at a place; None where keys are free or unknown."""
    section = _section_of(root, place)
    return section.all_fields().get(str(place[-1])) if section else None


def _message(kind: str, root: type[StudySection], place: Place, error: Mapping[str, Any]) -> str:
    value, context = error["input"], error.get("ctx", {})
    messages = {
        "missing": lambda: f"is missing{_description(root, place)}",
        "literal_error": lambda: _not_a_choice(value, str(context["expected"])),
        "too_short": lambda: f"is empty{_description(root, place)}" if not value else f"{value!r} is too short",
        "string_too_short": lambda: f"is empty{_description(root, place)}",
        "string_pattern_mismatch": lambda: (
            f"{value!r} must consist of letters, digits, dots, dashes and underscores, and begin with a letter or digit"
        ),
        "value_error": lambda: str(context["error"]),
        "model_type": lambda: _not_a_section(root, place, value),
        "model_attributes_type": lambda: _not_a_section(root, place, value),
        "dict_type": lambda: f"must have keys, as {place[-1]}: {{key: value}}, not {_shortened_value(value)}",
    }
    if kind in messages:
        return messages[kind]()
    if kind in _NUMBERS:
        return f"{value!r} {_NUMBERS[kind].format(**context)}"
    wanted = next((words for prefix, words in _KINDS.items() if kind.startswith(prefix)), None)
    return (
        f"{_shortened_value(value)} is wrong: {error['msg']}"
        if wanted is None
        else f"{_shortened_value(value)} is not {wanted}"
    )


def _section_of(root: type[StudySection], place: Place) -> type[StudySection] | None:
    """The section that the key at a place belongs to; None where keys are free."""
    section, free = root, False
    for part in place[:-1]:
        if isinstance(part, int) or free:
            free = False
            continue
        field = section.all_fields().get(part)
        inner = None if field is None else inner_section(field.annotation)
        if field is None or inner is None:
            return None
        section, free = inner, get_origin(field.annotation) is dict
    return None if free else section


def inner_section(annotation: Any) -> type[StudySection] | None:
    """The section that a field holds, also in a list, a dictionary or as an option."""
    if isinstance(annotation, type) and issubclass(annotation, StudySection):
        return annotation
    return next((inner for part in get_args(annotation) if (inner := inner_section(part)) is not None), None)


def _shortened_value(value: Any) -> str:
    shown = "nothing" if value is None else repr(value)
    return shown if len(shown) < 60 else "this value"


def _not_a_section(root: type[StudySection], place: Place, value: Any) -> str:
    if place[0] == "models":
        return f"a model is a name or {{name: ..., recipe: {{...}}}}, not {_shortened_value(value)}"
    section = _section_of(root, (*place, "key"))
    keys = list(section.all_fields()) if section else []
    return f"must have keys ({listed(keys, most=6)}), not {_shortened_value(value)}"


def _not_a_choice(value: Any, expected: str) -> str:
    choices = expected.replace(" or ", ", ").replace("'", "").split(", ")
    other = VALUES.get(str(value).lower().replace("-", "_"))
    hint = f" Did you mean {other}?" if other in choices else did_you_mean([str(value)], choices, most=1)
    return f"{value!r} is not one of {', '.join(choices)}.{hint}"


def _description(root: type[StudySection], place: Place) -> str:
    field = field_at(root, place)
    return f" ({field.description})" if field is not None and field.description else ""


def _unknown_key(root: type[StudySection], place: Place) -> tuple[str, Place]:
    """The message about an unknown key, and the place it was meant for; empty if that cannot be told."""
    key, section = str(place[-1]), _section_of(root, place)
    keys: Collection[str] = list(section.all_fields()) if section else []
    other = other_name(key, keys)
    if other is not None and not other.key:
        return f"unknown key. {other.note}", ()
    # `model` is nearer to `models` than to anything else; `epochs` at the top was meant for another section.
    near = None if other else next(iter(get_close_matches(key.lower(), keys, n=1)), None)
    if other is not None or near is not None:
        meant = other.key if other else str(near)
        note = f" {other.note}" if other and other.note else ""
        around = place[:-1] if meant in keys else ()
        return f"unknown key. Did you mean {meant}?{note}", (*around, *meant.split("."))
    homes = sorted(
        (prefix[:-1] for prefix, each in sections(root) if prefix and key in each.all_fields()),
        key=lambda home: home.count("."),
    )
    if homes:
        return f"unknown key. It belongs under {homes[0]}.", (*homes[0].split("."), key)
    return f"unknown key. Keys here: {listed(keys, most=30)}", ()
