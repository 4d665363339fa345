"""Which subject a log is about, and the shortest names that tell subjects apart.

A subject is a model at a training step with everything that makes its answers differ: revision, adapter, prompt. Where
a model was asked in several ways, the settings that differ belong to it, too.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from breadth.sources.logs.log import Log, Metric
from breadth.sources.logs.log_files import KnownFile
from breadth.sources.training_steps import StepInName, step_by_pattern, step_in, trainer_step

#: A smaller number in a directory that logs of several models share may be a stage of a pipeline: step3_evaluate.
FEWEST_STEPS = 100

#: The attribute that tells logs with different answers of one subject apart, if the user keeps all of them.
LOG = "log"

#: The attribute that not every backend writes (lm-eval's hf does, vllm does not): where it is missing, it is unknown.
SHA = "model_sha"

#: Characters of an attribute's value that a name shows.
LONGEST_VALUE = 24


@dataclass(eq=False)
class SubjectLog:
    """A log on its way into a study: which subject it belongs to, and what of it is used.

    ``attributes`` tell subjects of one ``model`` apart, besides the ``step``: ``own`` ones of the subject, and settings
    where one model has several. ``places`` are the places of its items among all items. ``rows`` are the rows of the
    log that are used, all by default; ``total`` is their number in a log of an earlier import, of which only the
    answered ones were kept. ``texts`` says whether it was read with its texts. ``older`` are logs that it replaced by
    the user's choice, each as path and checksum.
    """

    content: Log
    checksum: str
    model: str
    step: int | None
    own: dict[str, Any]
    attributes: dict[str, Any] = field(init=False)
    metric: Metric = field(default=Metric(""))
    subject: str = ""
    run: str = ""
    places: Sequence[int] = ()
    rows: Sequence[int] | None = None
    total: int | None = None
    notes: list[str] = field(default_factory=list)
    texts: bool = True
    older: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with the subject's own attributes."""
        self.attributes = dict(self.own)

    @property
    def path(self) -> str:
        """The path of its file, as messages and tables show it."""
        return self.content.path

    @property
    def testset(self) -> str:
        """The test set that was answered."""
        return self.content.testset

    @property
    def file(self) -> KnownFile:
        """The file that it was read from."""
        return KnownFile.of(self.path, self.checksum)

    @property
    def is_stored(self) -> bool:
        """Whether it comes from an earlier import."""
        return self.total is not None

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """What makes two logs logs of one subject."""
        return self._identity(self.attributes)

    @property
    def asked(self) -> tuple[Hashable, ...]:
        """Who was asked and how: the same for logs of one subject whose answers differ."""
        others = dict(self.attributes)
        others.pop(LOG, None)
        return self._identity(others)

    def _identity(self, attributes: Mapping[str, Any]) -> tuple[Hashable, ...]:
        words = sorted((key, str(value)) for key, value in attributes.items())
        return (self.model, self.step, tuple(words))


def find_subject(
    log: Log,
    checksum: str,
    names: Mapping[str, str],
    pattern: re.Pattern[str] | None = None,
    shared: PurePath | None = None,
) -> SubjectLog:
    """Find out which subject a log is about.

    ``names`` maps paths to names that the user gave to the subjects of the logs there. The step is what the user's
    ``pattern`` finds in revision, model or path; else what the log says; else what is found in revision, model and path
    by the usual words, or in the ``trainer_state.json`` of a model's directory. ``shared`` is the directory that the
    logs of several models share.
    """
    attributes = {key: value for key, value in log.subject.items() if value not in (None, "")}
    revision = str(attributes.get("revision", ""))
    model = log.model
    for path, name in names.items():
        if PurePath(log.path).is_relative_to(path):
            model, attributes = name, {}
    step = log.step
    if pattern is not None:
        for text in (revision, log.model, log.path):
            found = step_by_pattern(text, pattern)
            if found.step is not None:
                step = found.step
                model = step_by_pattern(model, pattern).rest or model
                if "revision" in attributes:
                    attributes["revision"] = step_by_pattern(revision, pattern).rest
                break
    if step is None:
        step = _step_by_words(log, revision, shared)
    if step is not None:
        model = _without_step(step_in(model, model), step, model) or model
        if "revision" in attributes:
            branch = str(attributes["revision"])
            attributes["revision"] = _without_step(step_in(branch), step, branch)
    own = {key: value for key, value in attributes.items() if value != ""}
    return SubjectLog(log, checksum, model, step, own)


def shared_folder(logs: Sequence[Log]) -> PurePath | None:
    """The directory that the logs of several models share; None for those of one model."""
    models = {log.model for log in logs}
    if len(models) < 2:
        return None
    try:
        return PurePath(os.path.commonpath([os.path.abspath(PurePath(log.path).parent) for log in logs]))
    except ValueError:  # on different drives
        return None


def stage_notes(logs: Iterable[SubjectLog]) -> list[str]:
    """Say that a number in a shared directory was not taken as a training step."""
    for log in logs:
        if log.step is not None:
            continue
        folder = PurePath(log.path).parent
        number = step_in(str(folder), log.content.model).step
        if number is not None:
            return [
                f"{folder}: {number} is not taken as a training step, as all logs share it; use --step-from if it is"
            ]
    return []


def _step_by_words(log: Log, revision: str, shared: PurePath | None) -> int | None:
    """The step that is found by the usual words; a small one in a directory that all logs share is a stage."""
    step = step_in(revision).step
    if step is None:
        step = step_in(log.model, log.model).step
    if step is None:
        folder = PurePath(log.path).parent
        step = step_in(str(folder), log.model).step
        if shared is not None and step is not None and step < FEWEST_STEPS:
            below = PurePath(os.path.abspath(folder)).relative_to(shared).parts
            step = step_in(str(PurePath(*below)), log.model).step
    return trainer_step(log.model) if step is None else step


def _without_step(found: StepInName, step: int, name: str) -> str:
    """A name without its step, if the step that was found in it is the one that counts."""
    return found.rest if found.step == step else name


def fill_unknown_sha(logs: Iterable[SubjectLog]) -> None:
    """Give logs that do not state the hash of the weights the one that other logs of the same checkpoint state.

    Where these state several, the log may be of any of them: it stays apart.
    """
    checkpoints: dict[Hashable, list[SubjectLog]] = {}
    for log in logs:
        checkpoints.setdefault((log.model, log.step, str(log.own.get("revision"))), []).append(log)
    for group in checkpoints.values():
        known = {str(log.own[SHA]): log.own[SHA] for log in group if SHA in log.own}
        if len(known) == 1:
            for log in group:
                log.attributes |= {SHA: next(iter(known.values()))}


def split_by_settings(logs: Iterable[SubjectLog]) -> None:
    """Where a model answered the same items of a test set in several ways, let the settings tell subjects apart.

    A model asked with 5 examples on one test set and with 25 on another is one subject; asked with 0 and with 5 on the
    same items, it is two. A test set that was run in parts, with a setting for each, stays with one subject.
    """
    models: dict[Hashable, list[SubjectLog]] = {}
    for log in logs:
        models.setdefault(log.asked, []).append(log)
    for group in models.values():
        ways: dict[tuple[str, str], dict[str, list[SubjectLog]]] = {}
        for log in group:
            for key, value in log.content.settings.items():
                ways.setdefault((log.testset, key), {}).setdefault(str(value), []).append(log)
        varying: dict[str, None] = {}
        for (_, key), by_value in ways.items():
            if len(by_value) > 1 and _share_an_item(by_value.values()):
                varying[key] = None
        for log in group:
            for key in varying:
                value = log.content.settings.get(key)
                if value is not None:
                    log.attributes[key] = value


def _share_an_item(ways: Iterable[Sequence[SubjectLog]]) -> bool:
    """Whether an item was answered in two of several ways."""
    seen: set[str] = set()
    for way in ways:
        items: set[str] = set()
        for log in way:
            items.update(log.content.items)
        if not seen.isdisjoint(items):
            return True
        seen |= items
    return False


def name_subjects(logs: Sequence[SubjectLog]) -> None:
    """Give every log the shortest name of its subject and its run that tells them from all others."""
    short = short_model_names({log.model for log in logs})
    models: dict[str, dict[Hashable, SubjectLog]] = {}
    for log in logs:
        models.setdefault(log.model, {}).setdefault(log.identity, log)
    run_candidates: dict[Hashable, list[str]] = {}
    run_of: dict[Hashable, Hashable] = {}
    steps: dict[Hashable, int | None] = {}
    for model, subjects in models.items():
        keys = _telling_attributes(list(subjects.values()))
        for identity, log in subjects.items():
            values = {key: log.attributes[key] for key in keys if key in log.attributes}
            run = (model, tuple((key, str(value)) for key, value in values.items()))
            run_candidates[run] = [
                " ".join([short[model], *(_short_word(key, value) for key, value in values.items())]),
                " ".join([short[model], *(f"{key}={value}" for key, value in values.items())]),
            ]
            run_of[identity] = run
            steps[identity] = log.step
    run_names = _distinct_names(run_candidates)
    subject_candidates = {}
    for identity, own_run in run_of.items():
        name = run_names[own_run]
        subject_candidates[identity] = [name if steps[identity] is None else f"{name}/{steps[identity]}"]
    subject_names = _distinct_names(subject_candidates)
    for log in logs:
        log.run = run_names[run_of[log.identity]]
        log.subject = subject_names[log.identity]


def _distinct_names(candidates: Mapping[Hashable, Sequence[str]]) -> dict[Hashable, str]:
    """The first name of each that no other may have; if there is none, the last one with a number."""
    wanted: Counter[str] = Counter()
    for own in candidates.values():
        wanted.update(set(own))
    names: dict[Hashable, str] = {}
    used: set[str] = set()
    for key, own in candidates.items():
        name = own[-1]
        for candidate in own:
            if wanted[candidate] == 1:
                name = candidate
                break
        number = 1
        while name in used or (number > 1 and name in wanted):
            number += 1
            name = f"{own[-1]} ({number})"
        names[key] = name
        used.add(name)
    return names


def short_model_names(models: set[str]) -> dict[str, str]:
    """The shortest end of every path that no other model has."""
    parts = {}
    for model in models:
        parts[model] = [part for part in re.split(r"[/\\]", model) if part] or [model]
    longest = max(map(len, parts.values()), default=0)
    names: dict[str, str] = {}
    taken: set[str] = set()
    for length in range(1, longest + 1):
        models_by_end: dict[str, list[str]] = {}
        for model in models - names.keys():
            models_by_end.setdefault("/".join(parts[model][-length:]), []).append(model)
        for end, same in models_by_end.items():
            if len(same) == 1 and end not in taken:
                names[same[0]] = end
                taken.add(end)
    for model in models:
        names.setdefault(model, model)
    return names


def _telling_attributes(subjects: Sequence[SubjectLog]) -> list[str]:
    """Few attributes that tell runs apart and, with the step, subjects: each is the one that tells most of them apart.

    An attribute belongs to a run if one of its values is found at several steps. Others, such as the hash of a
    checkpoint's weights, come with the step.
    """
    steps_of_value: dict[tuple[str, str], set[int | None]] = {}
    for log in subjects:
        for key, value in log.attributes.items():
            steps_of_value.setdefault((key, str(value)), set()).add(log.step)
    every_key: set[str] = set()
    keys_of_runs: set[str] = set()
    for (key, _), steps in steps_of_value.items():
        every_key.add(key)
        if len(steps) > 1:
            keys_of_runs.add(key)
    chosen: list[str] = []
    _choose_telling(subjects, chosen, sorted(keys_of_runs), with_step=False)
    _choose_telling(subjects, chosen, sorted(every_key), with_step=True)
    return chosen


def _choose_telling(subjects: Sequence[SubjectLog], chosen: list[str], keys: Sequence[str], *, with_step: bool) -> None:
    """Add attributes to the chosen ones, the most telling first, as long as each tells more subjects apart."""
    told = _number_told_apart(subjects, chosen, with_step)
    while True:
        best = None
        for key in keys:
            number = _number_told_apart(subjects, [*chosen, key], with_step)
            if number > told:
                told, best = number, key
        if best is None:
            return
        chosen.append(best)


def _number_told_apart(subjects: Sequence[SubjectLog], keys: Sequence[str], with_step: bool) -> int:
    """How many subjects some attributes tell apart."""
    kinds = set()
    for log in subjects:
        kind: list[Hashable] = [log.step] if with_step else []
        for key in keys:
            kind.append(str(log.attributes[key]) if key in log.attributes else None)
        kinds.add(tuple(kind))
    return len(kinds)


def _short_word(key: str, value: Any) -> str:
    """An attribute as part of a name."""
    if key == "num_fewshot":
        return f"{value}-shot"
    if value is True:
        return key
    text = str(value)
    if len(text) > LONGEST_VALUE:
        text = text[: LONGEST_VALUE - 1] + "…"
    return f"{key}={text}"
