"""The data sets of a study: how each is scored, and a user's own sets with their checks.

The keys of an own set are those below and those of its scoring kind (``breadth.datasets.KINDS``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields as dataclass_fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import polars as pl
from pydantic import BeforeValidator, Field, create_model, field_validator, model_validator
from pydantic.fields import FieldInfo

from breadth.datasets import CHOICES, DEFAULT_KIND, KINDS, KeyProblem, Task, Texts, fields_of
from breadth.errors import InputError, listed
from breadth.records import Shift, read_table
from breadth.study.document import Place, Problem, did_you_mean
from breadth.study.sections import Section

if TYPE_CHECKING:
    from pydantic import ModelWrapValidatorHandler

    from breadth.datasets import Entry
    from breadth.study.schema import StudySpec

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


class OwnSet(Section):
    """A data set from your own file: its columns, its prompt, and the keys of its scoring kind."""

    file: str = Field(min_length=1, description="table of test items, relative to the study file")
    shift: Shift = Field("domain", description="how the set differs from the training data")
    fields: Texts = Field(default_factory=dict, description="field of the pattern: column of the file, if they differ")
    label: str = Field("label", min_length=1, description="column with the correct label or answer")
    labels: Texts | None = Field(None, description="value of that column: label; rows with other values are dropped")
    item: str | None = Field(None, description="column with the name of an item; null to number the items")
    train_file: str | None = Field(None, description="table of training items, required to train on this set")
    kind: str = Field(DEFAULT_KIND, description="how items are scored")
    pattern: str | None = Field(None, description="the prompt, with columns in braces")
    shorten: str | None = Field(None, description="field to shorten if a prompt is too long")
    options: str | None = Field(
        None,
        description="column with the options of an item, for kind choice by default options; {choices} in the pattern "
        "lists them",
    )

    @property
    def task(self) -> type[Task]:
        """The class of its scoring kind."""
        return KINDS[self.kind]

    def keys_in(self, study: StudySpec) -> dict[str, Any]:
        """All keys; those that its kind shares come from the study if the set does not define them."""
        keys = self.model_dump()
        return {**keys, **{key: keys[key] or getattr(study, key, None) for key in self.task.shared_keys}}

    def data_spec(self) -> dict[str, Any]:
        """The keys, besides the files and the task, that determine which items the set has."""
        apart = {"file", "train_file", "shift", "kind", "pattern"}
        return self.model_dump(mode="json", exclude=apart | {field.name for field in dataclass_fields(self.task)})

    @classmethod
    def all_fields(cls) -> dict[str, FieldInfo]:
        """The keys of sets of any kind."""
        kinds: Any = Literal[tuple(KINDS)]
        summaries = ", or ".join(", ".join(task.summary for task in KINDS.values()).rsplit(", ", 1))
        kind = FieldInfo(annotation=kinds, default=DEFAULT_KIND, description=f"how items are scored: {summaries}")
        return {**OwnSet.model_fields, "kind": kind, **_kind_fields()}

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is not one of {', '.join(KINDS)}.{did_you_mean(kind, KINDS)}")
        return kind

    @model_validator(mode="wrap")
    @classmethod
    def _with_keys_of_kind(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Validate a set as one of its kind, whose keys it may have."""
        if cls is not OwnSet or not isinstance(value, dict):
            return handler(value)
        kind = value.get("kind", DEFAULT_KIND)
        known = kind if isinstance(kind, str) and kind in KINDS else None
        section: Any = _section_of_kind(known, tuple(KINDS.values()))
        if known is not None and KINDS[known].uses_options:
            value = {"options": "options", **value}
        return section.model_validate(value)  # type: ignore[no-any-return]


def _kind_fields() -> dict[str, FieldInfo]:
    return {key: field for task in KINDS.values() for key, field in task.Keys.model_fields.items()}


@cache
def _section_of_kind(kind: str | None, _: tuple[type[Task], ...]) -> type[OwnSet]:
    """Sets of one kind: a key of another kind is refused, unless it has its default. None accepts the keys of all."""

    def refuse(key: str, default: Any, value: Any) -> Any:
        if kind is None or value == default:
            return value
        kinds = " or ".join(task.kind for task in KINDS.values() if key in task.Keys.model_fields)
        raise InputError(f"is for kind {kinds}, and this set is of kind {kind}")

    own = {} if kind is None else KINDS[kind].Keys.model_fields
    others: dict[str, Any] = {}
    for key, field in _kind_fields().items():
        if key not in own:
            check = BeforeValidator(lambda value, key=key, field=field: refuse(key, field.default, value))
            annotation: Any = Any if kind is None else field.annotation
            others[key] = (Annotated[annotation, check], Field(field.default, exclude=True))
    bases: Any = (OwnSet,) if kind is None else (KINDS[kind].Keys, OwnSet)
    section: type[OwnSet] = create_model("OwnSetOfKind", __base__=bases, **others)
    return section


def is_set_name(name: str) -> bool:
    """Whether a set of the user's own may have this name, which is also that of a file."""
    return bool(_NAME.match(name))


def used_sets(study: StudySpec) -> list[str]:
    """Sets that a study evaluates or trains on, each once, in order."""
    train = study.train.set if study.train else []
    return list(dict.fromkeys([*study.evaluate.on, *train]))


def resolve_task(name: str, study: StudySpec, known: Mapping[str, Entry]) -> Task:
    """The task of a set; the study's own ``pattern`` and ``answers`` replace those of kinds that share them."""
    own = study.sets.get(name)
    if own is not None:
        return own.task.from_keys(own.keys_in(study))
    if name not in known:
        raise InputError(f"unknown data set {name!r}; `breadth ls datasets` lists those that come with breadth")
    return known[name].task.reworded(study.pattern, study.answers)


def own_set_problems(study: StudySpec, known: Mapping[str, Entry], base: Path) -> Iterator[Problem]:
    """Everything that is wrong with the sets under ``sets``."""
    for name, own in study.sets.items():
        place: Place = ("sets", name)
        if name in known:
            yield Problem(place, "is the name of a data set that breadth knows; choose another")
        elif not is_set_name(name):
            yield Problem(place, "a name has only letters, digits, dots, dashes and underscores")
        keys = own.keys_in(study)
        if keys["pattern"] is None:
            yield Problem((*place, "pattern"), f"is missing: kind {own.kind} needs the prompt", ((*place, "kind"),))
        # What is wrong with the study's own pattern and answers is reported there.
        shared = [key for key in own.task.shared_keys if keys[key] is not None and not getattr(own, key)]
        problems = [each for each in own.task.problems(keys) if each.place[0] not in shared]
        yield from placed(problems, place, own.task.shared_keys)
        yield from _prompt_problems(own, keys, place)
        yield from _file_problems(own, keys, place, base)


def placed(problems: Iterable[KeyProblem], place: Place, shared: Iterable[str] = ()) -> Iterator[Problem]:
    """Problems of a set at its place in a study file; those about ``shared`` keys depend on the study's, too."""
    for each in problems:
        needs = tuple((*place, key) for key in each.needs)
        yield Problem((*place, *each.place), each.message, (*needs, *((key,) for key in each.needs if key in shared)))


def _prompt_problems(own: OwnSet, keys: Mapping[str, Any], place: Place) -> Iterator[Problem]:
    if keys["pattern"] is None:
        return
    try:
        fields = fields_of(keys["pattern"])
    except InputError as error:
        if own.pattern:
            yield Problem((*place, "pattern"), str(error))
        return
    if not fields:
        yield Problem((*place, "pattern"), "has no field in braces, so every item would get the same prompt")
    for key in own.fields:
        if key not in fields:
            yield Problem((*place, "fields", key), f"is not in the pattern.{did_you_mean(key, fields)}")
    if own.shorten is not None and own.shorten not in fields:
        message = f"{own.shorten!r} is not in the pattern.{did_you_mean(own.shorten, fields)}"
        yield Problem((*place, "shorten"), message, ((*place, "pattern"),))


def _file_problems(own: OwnSet, keys: Mapping[str, Any], place: Place, base: Path) -> Iterator[Problem]:
    for key in ("file", "train_file"):
        name = keys[key]
        if name is None:
            continue
        path = base / os.path.expanduser(name)
        if not os.path.isfile(path):
            yield Problem((*place, key), f"there is no file {name!r} (paths are relative to the study file)")
            continue
        try:
            frame = read_table(path).frame
        except InputError as error:
            yield Problem((*place, key), str(error))
            continue
        yield from _column_problems(own, keys, place, frame, name)


def _column_problems(
    own: OwnSet, keys: Mapping[str, Any], place: Place, frame: pl.DataFrame, file: str
) -> Iterator[Problem]:
    def missing(where: Place, column: str) -> Problem:
        hint = did_you_mean(column, frame.columns)
        return Problem(where, f"{file} has no column {column!r}.{hint} Columns: {listed(frame.columns)}")

    try:
        fields = fields_of(keys["pattern"] or "")
    except InputError:
        fields = ()
    for field in fields:
        column = own.fields.get(field, field)
        listed_options = field == CHOICES and (own.options is not None or own.task.uses_options)
        if column not in frame.columns and not listed_options:
            yield missing((*place, "fields", field) if field in own.fields else (*place, "pattern"), column)
    for key in ("label", "item", "options"):
        if keys[key] is not None and keys[key] not in frame.columns:
            yield missing((*place, key), keys[key])
    if own.label in frame.columns:
        yield from placed(own.task.table_problems(keys, frame, file), place)
    if own.item is not None and own.item in frame.columns and frame[own.item].is_duplicated().any():
        row = int(frame[own.item].is_duplicated().arg_max() or 0)
        message = f"{file} has the item {frame[own.item][row]!r} more than once; names must be unique"
        yield Problem((*place, "item"), message)
