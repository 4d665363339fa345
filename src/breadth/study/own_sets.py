"""The data sets of a study: how each is scored, a user's own sets, and changes to sets that breadth knows.

The keys of a set are those below and those of its scoring kind (``breadth.datasets.KINDS``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields as dataclass_fields
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import polars as pl
from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    create_model,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo

from breadth.boundary import is_file
from breadth.datasets import (
    CHOICES,
    DEFAULT_KIND,
    KINDS,
    PROTOCOLS,
    REGISTRY,
    KeyProblem,
    Task,
    Texts,
    fields_of,
    wording_problems,
)
from breadth.errors import InputError, did_you_mean, listed
from breadth.records import SHIFTS, check_shift, shift_hint
from breadth.sources import read_table
from breadth.study.document import Place, Problem
from breadth.study.sections import StudySection

if TYPE_CHECKING:
    from pydantic import ModelWrapValidatorHandler

    from breadth.datasets import Entry
    from breadth.study.schema import StudySpec

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


#: Keys of a set that say how items are put into words, whatever their kind, and what each means.
_WORDING = {
    "prompt": "the prompt, with columns in braces",
    "train_prompt": "the prompt in training, if it is another one",
    "completion": "the text that is trained on, with columns in braces; null for the right answer",
    "choice_format": "a line of {choices}, with {letter} or {number} and {text}; null for '{letter}. {text}'",
    "shorten": "field to shorten if a prompt is too long",
}


class SetSection(StudySection):
    """A data set from your own file; or, without `file`, what to change about a set that breadth knows."""

    @classmethod
    def all_fields(cls) -> dict[str, FieldInfo]:
        """The keys of sets of any kind."""
        kinds: Any = Literal[tuple(KINDS)]
        summaries = ", or ".join(", ".join(task.summary for task in KINDS.values()).rsplit(", ", 1))
        kind = FieldInfo(annotation=kinds, default=DEFAULT_KIND, description=f"how items are scored: {summaries}")
        return {**OwnSet.model_fields, "kind": kind, **_kind_fields()}

    @model_validator(mode="wrap")
    @classmethod
    def _as_its_kind(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Validate a set as one of its kind, whose keys it may have."""
        if cls is not SetSection or not isinstance(value, dict):
            return handler(value)
        if "pattern" in value and "prompt" in value:
            raise InputError("prompt and pattern are two names for the same; keep prompt")
        keys = {("prompt" if key == "pattern" else key): each for key, each in value.items()}
        known = keys.pop(_KNOWN, None)
        if known is not None:
            section: Any = _section_of_known(REGISTRY[known].task.kind, tuple(KINDS.values()))
            return section.model_validate(keys)  # type: ignore[no-any-return]
        kind = keys.get("kind", DEFAULT_KIND)
        kind = kind if isinstance(kind, str) and kind in KINDS else None
        if kind is not None and KINDS[kind].uses_options:
            keys = {"options": "options", **keys}
        section = _section_of_kind(kind, tuple(KINDS.values()))
        return section.model_validate(keys)  # type: ignore[no-any-return]


#: Marks the keys of a set that breadth knows while they are validated; no key of a file has this name.
_KNOWN = "(known)"


def mark_known_sets(value: Any) -> Any:
    """Tell changes to sets that breadth knows from sets of the user's own: by name, and by having no file."""
    if not isinstance(value, dict):
        return value
    marked = {}
    for name, keys in value.items():
        is_change = name in REGISTRY and isinstance(keys, dict) and "file" not in keys
        marked[name] = {**keys, _KNOWN: name} if is_change else keys
    return marked


class KnownSet(SetSection):
    """What to change about a set that breadth knows: its wording, and keys of its scoring kind."""

    prompt: str | None = Field(None, min_length=1, description=_WORDING["prompt"])
    train_prompt: str | None = Field(None, min_length=1, description=_WORDING["train_prompt"])
    completion: str | None = Field(None, min_length=1, description=_WORDING["completion"])
    choice_format: str | None = Field(None, min_length=1, description=_WORDING["choice_format"])
    shorten: str | None = Field(None, description=_WORDING["shorten"])

    @model_serializer(mode="wrap")
    def _changes_only(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A resolved study lists what is changed, and not what is left as it is."""
        return {key: value for key, value in dump(self).items() if value is not None}

    def changes(self) -> dict[str, Any]:
        """What is changed, by the keys that a task knows."""
        values = self.model_dump()
        return {("pattern" if key == "prompt" else key): value for key, value in values.items()}


class OwnSet(SetSection):
    """A data set from your own file: its columns, its prompt, and the keys of its scoring kind."""

    file: str = Field(min_length=1, description="table of test items, relative to the study file")
    shift: str = Field(
        "domain", description=f"how the set differs from the training data: {', '.join(SHIFTS)}, or a word of your own"
    )
    fields: Texts = Field(default_factory=dict, description="field of the prompt: column of the file, if they differ")
    label: str = Field("label", min_length=1, description="column with the correct label or answer")
    labels: Texts | None = Field(None, description="value of that column: label; rows with other values are dropped")
    item: str | None = Field(None, description="column with the name of an item; null to number the items")
    train_file: str | None = Field(None, description="table of training items, required to train on this set")
    kind: str = Field(DEFAULT_KIND, description="how items are scored")
    prompt: str | None = Field(None, description=f"{_WORDING['prompt']}; pattern is an older name for it")
    train_prompt: str | None = Field(None, min_length=1, description=_WORDING["train_prompt"])
    completion: str | None = Field(None, min_length=1, description=_WORDING["completion"])
    choice_format: str | None = Field(None, min_length=1, description=_WORDING["choice_format"])
    shorten: str | None = Field(None, description=_WORDING["shorten"])
    options: str | None = Field(
        None,
        description="column with the options of an item, for kind choice by default options; {choices} in the prompt "
        "lists them",
    )

    @property
    def task(self) -> type[Task]:
        """The class of its scoring kind."""
        return KINDS[self.kind]

    def task_keys(self) -> dict[str, Any]:
        """All keys, by the names that a task knows."""
        keys = self.model_dump()
        keys["pattern"] = keys.pop("prompt")
        return keys

    def keys_in(self, study: StudySpec) -> dict[str, Any]:
        """All keys; those that its kind shares come from the study if the set does not define them."""
        keys = self.task_keys()
        return {**keys, **{key: keys[key] or getattr(study, key, None) for key in self.task.shared_keys}}

    def data_spec(self) -> dict[str, Any]:
        """The keys, besides the files and the task, that determine which items the set has."""
        apart = {"file", "train_file", "shift", "kind", "choices", *_WORDING}
        return self.model_dump(mode="json", exclude=apart | {field.name for field in dataclass_fields(self.task)})

    @field_validator("shift")
    @classmethod
    def _plain_shift(cls, shift: str) -> str:
        return check_shift(shift)

    @field_validator("kind")
    @classmethod
    def _known_kind(cls, kind: str) -> str:
        if kind not in KINDS:
            raise InputError(f"{kind!r} is not one of {', '.join(KINDS)}.{did_you_mean([kind], KINDS, most=1)}")
        return kind


def _kind_fields() -> dict[str, FieldInfo]:
    return {key: field for task in KINDS.values() for key, field in task.Keys.model_fields.items()}


@cache
def _section_of_kind(kind: str | None, _: tuple[type[Task], ...]) -> type[OwnSet]:
    """Sets of one kind: a key of another kind is refused, unless it has its default. None accepts the keys of all."""
    own = {} if kind is None else KINDS[kind].Keys.model_fields
    others: dict[str, Any] = {}
    for key, field in _kind_fields().items():
        if key not in own:
            annotation: Any = Any if kind is None else field.annotation
            check = BeforeValidator(partial(_refuse_key, kind, key, field.default))
            others[key] = (Annotated[annotation, check], Field(field.default, exclude=True))
    bases: Any = (OwnSet,) if kind is None else (KINDS[kind].Keys, OwnSet)
    section: type[OwnSet] = create_model("OwnSetOfKind", __base__=bases, **others)
    return section


@cache
def _section_of_known(kind: str, _: tuple[type[Task], ...]) -> type[KnownSet]:
    """Changes to known sets of one kind: the keys of the kind, none of them required, and no others."""
    own = KINDS[kind].Keys.model_fields
    keys: dict[str, Any] = {}
    for key, field in _kind_fields().items():
        if key in own:
            annotation: Any = field.annotation
            keys[key] = (annotation | None, FieldInfo.merge_field_infos(field, default=None))
        else:
            check = BeforeValidator(partial(_refuse_key, kind, key, None))
            keys[key] = (Annotated[Any, check], Field(None, exclude=True))
    for key in OwnSet.model_fields:
        if key not in KnownSet.model_fields:
            keys[key] = (Annotated[Any, BeforeValidator(_refuse_own_key)], Field(None, exclude=True))
    section: type[KnownSet] = create_model("KnownSetOfKind", __base__=KnownSet, **keys)
    return section


def _refuse_key(kind: str | None, key: str, default: Any, value: Any) -> Any:
    """Refuse a key of another kind, unless it has its default."""
    if kind is None or value == default:
        return value
    kinds = " or ".join(task.kind for task in KINDS.values() if key in task.Keys.model_fields)
    raise InputError(f"is for kind {kinds}, and this set is of kind {kind}")


def _refuse_own_key(value: Any) -> Any:
    raise InputError("is for a set of your own, and breadth knows this one; remove the key, or give the set a file")


def is_set_name(name: str) -> bool:
    """Whether a set of the user's own may have this name, which is also that of a file."""
    return bool(_NAME.match(name))


def used_sets(study: StudySpec) -> list[str]:
    """Sets that a study evaluates or trains on, each once, in order."""
    train = study.train.sets if study.train else []
    return list(dict.fromkeys([*study.evaluate.on, *train]))


def resolve_task(name: str, study: StudySpec, known: Mapping[str, Entry]) -> Task:
    """The task of a set.

    For a set that breadth knows, what is said last counts: the registry, the study's protocol, its ``pattern`` and
    ``answers`` for kinds that share them, and what ``sets`` changes.
    """
    own = study.sets.get(name)
    if isinstance(own, OwnSet):
        task: Task = own.task.from_keys(own.keys_in(study))
    elif name in known:
        task = known[name].task.overridden(_published(name, study)).reworded(study.pattern, study.answers)
        if isinstance(own, KnownSet):
            task = task.overridden(own.changes())
    else:
        raise InputError(f"unknown data set {name!r}; `breadth ls datasets` lists those that come with breadth")
    return task.predicting(study.evaluate.predict)


def _published(name: str, study: StudySpec) -> Mapping[str, Any]:
    """The keys that the study's protocol gives a set."""
    if study.protocol not in PROTOCOLS:
        return {}
    return PROTOCOLS[study.protocol].wording.get(name, {})


def own_set_problems(study: StudySpec, known: Mapping[str, Entry], base: Path) -> Iterator[Problem]:
    """Everything that is wrong with the sets under ``sets``."""
    for name, changed in study.known_sets.items():
        yield from _known_set_problems(study, name, changed, known)
    for name, own in study.own_sets.items():
        place: Place = ("sets", name)
        if name in known:
            message = "is the name of a data set that breadth knows; choose another, or remove file to change that set"
            yield Problem(place, message)
        elif not is_set_name(name):
            yield Problem(place, "a name has only letters, digits, dots, dashes and underscores")
        keys = own.keys_in(study)
        if keys["pattern"] is None:
            yield Problem((*place, "prompt"), f"is missing: kind {own.kind} needs the prompt", ((*place, "kind"),))
        # What is wrong with the study's own pattern and answers is reported there.
        given = own.task_keys()
        shared = [key for key in own.task.shared_keys if keys[key] is not None and not given[key]]
        problems = [each for each in own.task.problems(keys) if each.place[0] not in shared]
        yield from place_problems(problems, place, own.task.shared_keys)
        yield from _own_prompt_problems(own, keys, place)
        yield from _file_problems(own, keys, place, base)


def own_set_warnings(study: StudySpec) -> Iterator[Problem]:
    """What is not wrong with the sets under ``sets`` but worth knowing."""
    for name, own in study.own_sets.items():
        yield from place_problems(own.task.warnings(own.task_keys()), ("sets", name))
        hint = shift_hint(own.shift)
        if hint:
            message = f"{own.shift!r} is not one of the usual words ({', '.join(SHIFTS)}). {hint}"
            yield Problem(("sets", name, "shift"), message)


def place_problems(problems: Iterable[KeyProblem], place: Place, shared: Iterable[str] = ()) -> Iterator[Problem]:
    """Problems of a set at its place in a study file; those about ``shared`` keys depend on the study's, too."""
    for each in problems:
        needs = tuple((*place, key) for key in each.needs)
        yield Problem((*place, *each.place), each.message, (*needs, *((key,) for key in each.needs if key in shared)))


def _known_set_problems(
    study: StudySpec, name: str, changed: KnownSet, known: Mapping[str, Entry]
) -> Iterator[Problem]:
    """What is wrong with changes to a set that breadth knows."""
    place: Place = ("sets", name)
    keys = changed.changes()
    if not keys:
        # If a key is wrong, that is the problem.
        yield Problem(place, "changes nothing; give a key such as prompt or completion, or remove it", (place,))
        return
    for key, message in wording_problems(keys):
        yield Problem((*place, key), message)
    if "pattern" in keys:
        try:
            if not fields_of(keys["pattern"]):
                yield Problem((*place, "prompt"), "has no field in braces, so every item would get the same prompt")
        except InputError as error:
            yield Problem((*place, "prompt"), str(error))
            return
    task = known[name].task
    answers = keys.get("answers") or {}
    for label in task.labels if answers else ():
        if label not in answers:
            yield Problem((*place, "answers"), f"no answer for {label!r}, a label of {name}")
    # The kind checks what was given; what was not given is right already.
    defaults = {key: field.default for key, field in task.Keys.model_fields.items()}
    common = {"labels": None, "options": "options", "pattern": task.template}
    for problem in task.problems({**defaults, **common, **keys}):
        if problem.place[0] in keys:
            yield Problem((*place, *problem.place), problem.message)
    yield from _typing_errors(task.overridden(_published(name, study)).overridden(keys), keys, place, known[name])


def _typing_errors(task: Task, keys: Mapping[str, Any], place: Place, entry: Entry) -> Iterator[Problem]:
    """Fields that look like misspelt columns of a known set. Others may be columns of the user's own file."""
    usual = entry.usual_columns
    for key, columns in task.columns.items():
        if ("pattern" if key == "prompt" else key) not in keys:
            continue
        for column in columns:
            # Only a very near name is surely a slip: model_solution is not a misspelt solution.
            is_slip = bool(get_close_matches(column, usual, n=1, cutoff=0.85))
            if column not in usual and (is_slip or entry.kind == "generated"):
                hint = did_you_mean([column], usual, most=1)
                yield Problem((*place, key), f"{entry.name} has no column {column!r}.{hint} Columns: {listed(usual)}")


def unusual_columns(study: StudySpec, known: Mapping[str, Entry]) -> Iterator[Problem]:
    """Warnings about fields that a known set usually does not have."""
    for name in study.known_sets:
        for key, columns in resolve_task(name, study, known).columns.items():
            absent = [column for column in columns if column not in known[name].usual_columns]
            if absent:
                message = (
                    f"{name} usually has no column {listed(map(repr, absent))}; your copy of the data must have it"
                )
                yield Problem(("sets", name, key), message)


def _own_prompt_problems(own: OwnSet, keys: Mapping[str, Any], place: Place) -> Iterator[Problem]:
    for key, message in wording_problems(keys):
        yield Problem((*place, key), message)
    if keys["pattern"] is None:
        return
    try:
        fields = fields_of(keys["pattern"])
    except InputError as error:
        if own.prompt:
            yield Problem((*place, "prompt"), str(error))
        return
    if not fields:
        yield Problem((*place, "prompt"), "has no field in braces, so every item would get the same prompt")
    for key in own.fields:
        if key not in fields:
            yield Problem((*place, "fields", key), f"is not in the prompt.{did_you_mean([key], fields, most=1)}")
    if own.shorten is not None and own.shorten not in fields:
        message = f"{own.shorten!r} is not in the prompt.{did_you_mean([own.shorten], fields, most=1)}"
        yield Problem((*place, "shorten"), message, ((*place, "prompt"),))


def _file_problems(own: OwnSet, keys: Mapping[str, Any], place: Place, base: Path) -> Iterator[Problem]:
    for key in ("file", "train_file"):
        name = keys[key]
        if name is None:
            continue
        path = base / os.path.expanduser(name)
        try:
            if not is_file(path):
                yield Problem((*place, key), f"there is no file {name!r} (paths are relative to the study file)")
                continue
            frame = read_table(path).frame
        except InputError as error:
            yield Problem((*place, key), str(error))
            continue
        yield from _column_problems(own, keys, place, frame, name)


def _column_problems(
    own: OwnSet, keys: Mapping[str, Any], place: Place, frame: pl.DataFrame, file: str
) -> Iterator[Problem]:
    def missing(where: Place, column: str) -> Problem:
        hint = did_you_mean([column], frame.columns, most=1)
        return Problem(where, f"{file} has no column {column!r}.{hint} Columns: {listed(frame.columns)}")

    for field in _fields_if_sound(keys["pattern"]):
        column = own.fields.get(field, field)
        listed_options = field == CHOICES and (own.options is not None or own.task.uses_options)
        if column not in frame.columns and not listed_options:
            yield missing((*place, "fields", field) if field in own.fields else (*place, "prompt"), column)
    for key in ("train_prompt", "completion"):
        for field in _fields_if_sound(keys[key]):
            is_listed = field == CHOICES and (own.options is not None or own.task.uses_options)
            # The column of the label is called label once the file is read.
            column = own.label if field == "label" else own.fields.get(field, field)
            if column not in frame.columns and not is_listed:
                yield missing((*place, key), column)
    for key in ("label", "item", "options"):
        if keys[key] is not None and keys[key] not in frame.columns:
            yield missing((*place, key), keys[key])
    if own.label in frame.columns:
        yield from place_problems(own.task.table_problems(keys, frame, file), place)
    if own.item is not None and own.item in frame.columns and frame[own.item].is_duplicated().any():
        row = int(frame[own.item].is_duplicated().arg_max() or 0)
        message = f"{file} has the item {frame[own.item][row]!r} more than once; names must be unique"
        yield Problem((*place, "item"), message)


def _fields_if_sound(template: str | None) -> tuple[str, ...]:
    """The fields of a template; none if it is absent or wrong, which is reported elsewhere."""
    try:
        return fields_of(template or "")
    except InputError:
        return ()
