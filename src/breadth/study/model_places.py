"""Where the models of a study file are (directories beside it, checkpoints), and how they are asked in chat form."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from breadth.errors import InputError
from breadth.lm import (
    AUTO,
    BUILT_IN,
    NONE,
    ChatSettings,
    Checkpoint,
    base_of,
    find_checkpoints,
    find_revisions,
    read_chat_template,
    readable,
)
from breadth.study.schema import ModelEntry, StudySpec


def find_directory(name: str, base: Path) -> str | None:
    """The directory of a model that a study file names by its path; None for a built-in model or one of the Hub.

    A path is relative to the study file, which is in ``base``. One that is there only relative to the current directory
    counts, too: `breadth run` took such paths before there was a rule. ``study_warnings`` tells about it.
    """
    if name in BUILT_IN:
        return None
    given = os.path.expanduser(name)
    for folder in (base, Path()):
        # Absolute, because a relative path could be taken for a built-in model or one of the Hub.
        place = os.path.abspath(folder / given)
        if os.path.isdir(place):
            return place
    return None


@dataclass(frozen=True)
class CheckpointSource:
    """Checkpoints that are there already: those that can be read, lines about the others, and their base model.

    ``base`` is as the study file has it, relative to the directory ``beside``.
    """

    checkpoints: tuple[Checkpoint, ...]
    base: str | None
    beside: Path
    left_out: tuple[str, ...] = ()

    def at(self, step: int) -> Checkpoint:
        """The checkpoint of a step."""
        return next(each for each in self.checkpoints if each.step == step)

    @property
    def has_own_tokenizer(self) -> bool:
        """Whether the tokenizer is one that the checkpoints come with."""
        first = self.checkpoints[0]
        return first.is_local and not first.is_adapter and self.base is None

    def model(self) -> str:
        """What is loaded first: the base of adapters, or else the first checkpoint."""
        first = self.checkpoints[0]
        if not first.is_local:
            named = self.base or first.place.partition("@")[0]
            return find_directory(named, self.beside) or named
        return base_of(first, self.base, self.beside) if first.is_adapter else first.place


def find_source(entry: ModelEntry, base: Path) -> CheckpointSource:
    """Where the checkpoints of a model are; those that cannot be read yet are left out."""
    if entry.revisions is not None:
        return CheckpointSource(find_revisions(entry.revisions), entry.base, base)
    whole, left_out = readable(find_checkpoints(entry.checkpoints or [], base))
    return CheckpointSource(tuple(whole), entry.base, base, tuple(left_out))


def listed_source(entry: ModelEntry, base: Path) -> CheckpointSource:
    """The same; a study is still listed when its checkpoints are gone or not there yet. Reading it says so."""
    try:
        return find_source(entry, base)
    except InputError:
        return CheckpointSource((), entry.base, base)


def chat_settings(study: StudySpec, entry: ModelEntry, base: Path) -> ChatSettings | None:
    """How a model is asked in chat form, by its own keys or else the study's; None for plain text.

    A server applies a template of its own, so none applies to a model behind an endpoint.
    """
    template, system = study.chat_of(entry)
    if template == NONE or entry.endpoint is not None:
        return None
    if template == AUTO:
        return ChatSettings(AUTO, system)
    path = base / os.path.expanduser(template)
    try:
        return ChatSettings(read_chat_template(path), system)
    except InputError:
        # A study is still listed where its template is not; reading the study says what is wrong.
        return ChatSettings(f"missing: {template}", system)
