"""What a scoring kind is: what a model does with an item, and what counts as correct. One class per kind, registered.

A kind is two classes: a ``Task``, which needs no torch (``kinds`` has the built-in ones), and a ``Scorer`` in
``breadth.lm``.
"""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict

from breadth.errors import InputError, listed

Loss = Literal["answers", "completion", "vocabulary"]

#: What a model's answer is compared with: the other answers, or every token of the vocabulary.
Predict = Literal["answers", "vocabulary"]

#: The field of a template that holds an item's options, one per line with their labels.
CHOICES = "choices"

#: How one of these lines looks unless a set says otherwise, and the fields that such a format may have.
CHOICE_FORMAT = "{letter}. {text}"
CHOICE_FIELDS = ("letter", "number", "text")

#: Fields of a task that did not exist when the first studies were run. They are part of what determines a run only
#: where they are set, so that those studies can still be resumed.
_ADDED = ("train_template", "completion", "choice_format")


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
    """What a model does with the items of a set.

    ``template`` is the prompt, with columns in braces, and ``train_template`` the prompt in training if that is another
    one. ``completion`` is the text that is trained on, with columns in braces; None for the right answer itself.
    ``shorten`` is the only field that may be cut if a prompt is too long. ``choice_format`` is a line of ``{choices}``.

    A subclass is one scoring kind. It must be a frozen dataclass: its fields are part of what determines a run.
    """

    #: The word for the kind in study files, and what it does in a few words.
    kind: ClassVar[str]
    summary: ClassVar[str]
    #: Keys of a set that belong to this kind, and keys that a study may define once for all its sets of this kind.
    Keys: ClassVar[type[TaskKeys]] = TaskKeys
    shared_keys: ClassVar[tuple[str, ...]] = ()
    #: Which field of the task a key of a study file sets, where the two have different names.
    field_names: ClassVar[Mapping[str, str]] = {"pattern": "template", "train_prompt": "train_template"}
    #: Losses that a study can train with.
    losses: ClassVar[tuple[Loss, ...]] = ("completion",)
    #: Whether the model writes text, which is slow, and whether items have columns ``options`` and ``option_labels``.
    generates: ClassVar[bool] = False
    uses_options: ClassVar[bool] = False

    template: str
    shorten: str | None = field(default=None, kw_only=True)
    train_template: str | None = field(default=None, kw_only=True)
    completion: str | None = field(default=None, kw_only=True)
    choice_format: str = field(default=CHOICE_FORMAT, kw_only=True)

    @classmethod
    @abstractmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Self:
        """The task of a set with these keys: ``pattern`` (None for the default), ``shorten``, and the kind's own."""

    @abstractmethod
    def completion_of(self, row: Mapping[str, Any]) -> str:
        """The text that correctly continues an item's prompt."""

    def target_of(self, row: Mapping[str, Any]) -> str:
        """The text after an item's prompt that is trained on: ``completion`` filled in, or else the right answer."""
        columns = () if self.completion is None else fields_of(self.completion)
        if self.completion is None or not columns:
            return self.completion_of(row)
        text = self.completion.format(**{name: str(row[name]).strip() for name in columns})
        prompt = self.train_template or self.template
        # A word after a prompt begins with a space, unless the prompt ends in white space of its own.
        return text if text[:1].isspace() or prompt[-1:].isspace() else f" {text}"

    def in_training(self) -> Self:
        """The task as examples are trained on: with the prompt of training, if it has one."""
        return self if self.train_template is None else replace(self, template=self.train_template)

    def overridden(self, keys: Mapping[str, Any]) -> Self:
        """The task with some keys of a study file changed; a key that is None changes nothing."""
        changes: dict[str, Any] = {}
        for key, value in keys.items():
            if value is not None:
                name = self.field_names.get(key, key)
                changes[name] = tuple(value) if isinstance(value, list) else value
        template = changes.get("template", self.template)
        if "shorten" not in changes and self.shorten is not None and self.shorten not in fields_of(template):
            changes["shorten"] = None
        return replace(self, **changes)

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
    def columns(self) -> dict[str, tuple[str, ...]]:
        """Columns that prompts and completion need, by the key of a study file that says so."""
        needed = {"prompt": self.fields}
        if self.train_template is not None:
            needed["train_prompt"] = self.in_training().fields
        if self.completion is not None:
            needed["completion"] = fields_of(self.completion)
        return needed

    @property
    def texts(self) -> tuple[str, ...]:
        """Columns that identify an item: two items with the same texts are the same item."""
        return (*self.fields, *(("options",) if self.uses_options else ()))

    def prompt_fields(self, row: Mapping[str, Any]) -> dict[str, str]:
        """The values that an item gives to the fields of the template."""
        fields = fields_of(self.template)
        values = {name: str(row[name]).strip() for name in fields if name != CHOICES or "option_labels" not in row}
        if CHOICES in fields and CHOICES not in values:
            lines = []
            for number, (letter, text) in enumerate(zip(row["option_labels"], row["options"], strict=True), 1):
                lines.append(self.choice_format.format(letter=letter, number=number, text=text))
            values[CHOICES] = "\n".join(lines)
        return values

    def reworded(self, pattern: str | None, answers: Mapping[str, str] | None) -> Task:
        """The task with a study's own prompt and answers, if its kind shares these keys."""
        return self

    def predicting(self, predict: Predict) -> Task:
        """The task with answers taken from this choice of words; only kinds that compare answer words differ."""
        return self

    def spec(self) -> dict[str, Any]:
        """Everything about the task that determines answers, as plain values."""
        values = {"kind": self.kind, **asdict(self)}
        for each in fields(self):
            if each.name in _ADDED and values[each.name] == each.default:
                del values[each.name]
        return values

    def check(self, where: str) -> None:
        """Refuse a task that cannot work: a template without fields, or an unknown field to shorten."""
        if not self.fields:
            raise InputError(f"{where}: pattern {self.template!r} has no field; write column names in braces")
        if self.shorten is not None and self.shorten not in self.fields:
            raise InputError(
                f"{where}: shorten is {self.shorten!r}, which is not a field of the pattern ({listed(self.fields)})"
            )
        wording: dict[str, str | None] = {"choice_format": self.choice_format, "train_prompt": self.train_template}
        if self.completion is not None and "{" in self.completion:  # else it is the name of a column
            wording["completion"] = self.completion
        for key, message in wording_problems(wording):
            raise InputError(f"{where}: {key} {message}")

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


def wording_problems(keys: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with ``train_prompt``, ``completion`` and ``choice_format``, where they are given: key, message."""
    for key in ("train_prompt", "completion", "choice_format"):
        if keys.get(key) is None:
            continue
        try:
            found = fields_of(keys[key])
        except InputError as error:
            yield key, str(error)
            continue
        if key != "choice_format" and not found:
            yield key, "has no field in braces, so it would be the same for every item; write column names in braces"
        unknown = [name for name in found if name not in CHOICE_FIELDS]
        if key == "choice_format" and (unknown or "text" not in found):
            what = f"has the field {unknown[0]!r}" if unknown else "lacks the field 'text'"
            yield key, f"{what}; its fields are {listed(CHOICE_FIELDS)}, as in '{{letter}}) {{text}}'"


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
