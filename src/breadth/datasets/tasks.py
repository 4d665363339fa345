"""What a scoring kind is: what a model does with an item, and what counts as correct. One class per kind, registered.

A kind is two classes: a ``Task``, which needs no torch (``kinds`` has the built-in ones), and a ``Scorer`` in
``breadth.lm``.
"""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict

from breadth.errors import InputError, listed

Loss = Literal["answers", "completion"]

#: The field of a template that holds an item's options, one per line with their labels.
CHOICES = "choices"


class KeyProblem(NamedTuple):
    """A problem of a set in a study file: the path of the key below the set, and what to do about it.

    ``needs`` lists other keys that the conclusion depends on.
    """

    place: tuple[str, ...]
    message: str
    needs: tuple[str, ...] = ()


class TaskKeys(BaseModel):
    """Keys of a set in a study file (options of ``load_own``) that belong to one kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True)
class Task(ABC):
    """What a model does with the items of a set. ``shorten`` is the only field that may be cut if a prompt is too long.

    A subclass is one scoring kind. It must be a frozen dataclass: its fields are part of what determines a run.
    """

    #: The word for the kind in study files, and what it does in a few words.
    kind: ClassVar[str]
    summary: ClassVar[str]
    #: Keys of a set that belong to this kind, and keys that a study may define once for all its sets of this kind.
    Keys: ClassVar[type[TaskKeys]] = TaskKeys
    shared_keys: ClassVar[tuple[str, ...]] = ()
    #: Losses that a study can train with.
    losses: ClassVar[tuple[Loss, ...]] = ("completion",)
    #: Whether the model writes text, which is slow, and whether items have columns ``options`` and ``option_labels``.
    generates: ClassVar[bool] = False
    uses_options: ClassVar[bool] = False

    template: str
    shorten: str | None = field(default=None, kw_only=True)

    @classmethod
    @abstractmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Self:
        """The task of a set with these keys: ``pattern`` (None for the default), ``shorten``, and the kind's own."""

    @abstractmethod
    def completion_of(self, row: Mapping[str, Any]) -> str:
        """The text that correctly continues an item's prompt."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that all items share; empty if every item has its own answer."""
        return ()

    @property
    def fields(self) -> tuple[str, ...]:
        """Columns that the template needs."""
        fields = fields_of(self.template)
        return tuple(name for name in fields if name != CHOICES) if self.uses_options else fields

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns that identify an item: two items with the same texts are the same item."""
        return (*self.fields, *(("options",) if self.uses_options else ()))

    def prompt_fields(self, row: Mapping[str, Any]) -> dict[str, str]:
        """The values that an item gives to the fields of the template."""
        fields = fields_of(self.template)
        values = {name: str(row[name]).strip() for name in fields if name != CHOICES or "option_labels" not in row}
        if CHOICES in fields and CHOICES not in values:
            pairs = zip(row["option_labels"], row["options"], strict=True)
            values[CHOICES] = "\n".join(f"{label}. {text}" for label, text in pairs)
        return values

    def reworded(self, pattern: str | None, answers: Mapping[str, str] | None) -> Task:
        """The task with a study's own prompt and answers, if its kind shares these keys."""
        return self

    def spec(self) -> dict[str, Any]:
        """Everything about the task that determines answers, as plain values."""
        return {"kind": self.kind, **asdict(self)}

    def check(self, where: str) -> None:
        """Refuse a task that cannot work: a template without fields, or an unknown field to shorten."""
        if not self.fields:
            raise InputError(f"{where}: pattern {self.template!r} has no field; write column names in braces")
        if self.shorten is not None and self.shorten not in self.fields:
            raise InputError(
                f"{where}: shorten is {self.shorten!r}, which is not a field of the pattern ({listed(self.fields)})"
            )

    def check_items(self, items: pl.DataFrame) -> None:  # noqa: B027
        """Refuse items that cannot be scored."""

    @classmethod
    def problems(cls, keys: Mapping[str, Any]) -> Iterator[KeyProblem]:
        """What is wrong with the keys of a set in a study file; all keys of the set are there, also common ones."""
        yield from ()

    @classmethod
    def table_problems(cls, keys: Mapping[str, Any], frame: pl.DataFrame, file: str) -> Iterator[KeyProblem]:
        """What is wrong with the table of a set in a study file; its columns are known to exist."""
        yield from ()

    @classmethod
    def warnings(cls, keys: Mapping[str, Any]) -> Iterator[KeyProblem]:
        """What is unusual about the keys of a set in a study file."""
        yield from ()


#: Scoring kinds by the word that study files use.
KINDS: dict[str, type[Task]] = {}

#: The kind of a set that names none.
DEFAULT_KIND = "pattern"

_Kind = TypeVar("_Kind", bound=type[Task])


def register_kind(task: _Kind) -> _Kind:
    """Register a scoring kind, so that study files and ``load_own`` accept it. Works as a class decorator."""
    if task.kind in KINDS:
        raise ValueError(f"kind {task.kind!r} is registered already, by {KINDS[task.kind].__name__}")
    KINDS[task.kind] = task
    return task


def unregister_kind(kind: str) -> None:
    """Remove a scoring kind."""
    del KINDS[kind]


def fields_of(template: str) -> tuple[str, ...]:
    """Names in braces, in order; a template that cannot be filled is refused.

    >>> fields_of("{premise} Question: {hypothesis} Yes or No?")
    ('premise', 'hypothesis')
    """
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise InputError(f"pattern {template!r}: {error}; write a literal brace twice") from error
    wrong = [
        f"{{{name}}}" for _, name, spec, how in parts if name is not None and (not name.isidentifier() or spec or how)
    ]
    if wrong:
        raise InputError(f"pattern {template!r}: {listed(wrong)} is not a field; write the name of a column in braces")
    return tuple(dict.fromkeys(name for _, name, _, _ in parts if name is not None))
