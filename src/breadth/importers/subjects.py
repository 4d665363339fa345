"""Which subject a log is about: training steps in names, and the shortest names that tell subjects apart."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, starmap
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from breadth.importers.logs import Log, Metric

#: A training step in a revision, a model's name or a path: step143000, checkpoint-800, global_step_800, iter_0001000,
#: step-240k. The number of tokens that may follow belongs to it: step1000-tokens4B, step-240k-503b, step-1431k-3T.
STEP = re.compile(
    r"(?<![A-Za-z])(?:global[-_]?step|checkpoint|ckpt|step|iter(?:ation)?)[-_=]?(\d+)([km]?)(?!\.?\d|[A-Za-z])"
    r"(?:-tokens\d+\w*|(?<=[km])-(?:\d{3,}b|\d+(?:\.\d+)?t)(?![A-Za-z\d]))?",
    re.IGNORECASE,
)

#: What a step's unit stands for. A number with B is the size of a model.
UNITS = {"": 1, "k": 1000, "m": 1_000_000}

#: A smaller number in a directory that logs of several models share may be a stage of a pipeline: step3_evaluate.
FEWEST_STEPS = 100

#: How a model may be called itself: step3, Step3-VL-10B, step-2-16k. Step is a family of models, of StepFun.
NAMED_STEP = re.compile(r"step[-_]?[1-9](?!\d)(.*)", re.IGNORECASE)
STEPFUN = "stepfun"

#: Digits of a training step; longer numbers are something else.
MOST_DIGITS = 15

#: The attribute that tells logs with different answers of one subject apart, if the user keeps all of them.
LOG = "log"

#: The attribute that not every backend writes (lm-eval's hf does, vllm does not): where it is missing, it is unknown.
SHA = "model_sha"

#: Characters of an attribute's value that a name shows.
LONGEST = 24


class Step(NamedTuple):
    """A training step and the name without it; the name is empty if there is nothing else in it."""

    step: int | None
    rest: str


def step_in(name: str, model: str = "") -> Step:
    """Find the training step that a revision, a model's name or a path says; the last one counts.

    What the ``model`` itself is called is not a step: neither in its name nor in a path that is named after it.
    """
    own = _called_step(model)
    searched = name.replace(own, "-" * len(own)) if own else name
    matches = [match for match in STEP.finditer(searched) if len(match[1]) <= MOST_DIGITS]
    if not matches:
        return Step(None, name)
    last = matches[-1]
    return Step(int(last[1]) * UNITS[last[2].lower()], without_match(name, last))


def without_match(name: str, match: re.Match[str] | None) -> str:
    """A name without its step, where a pattern found one."""
    return name if match is None else (name[: match.start()].rstrip("/-_.@") + name[match.end() :]).strip("/")


def _called_step(model: str) -> str:
    """The end of a model's name if it looks like a step but is what the model is called.

    ``m/step3`` is a step of m, and so is what follows a directory; ``step3`` alone is a model, ``stepfun-ai/step3`` one
    of that family, and ``lab/Step3-VL-10B`` is more than a step.
    """
    *before, name = model.split("/")
    match = NAMED_STEP.fullmatch(name)
    follows = before and not before[-1].lower().startswith(STEPFUN)
    return "" if match is None or (follows and not match[1]) else name


@dataclass(eq=False)
class Entry:
    """A log on its way into a study: which subject it belongs to, and what of it is used.

    ``attributes`` tell subjects of one ``model`` apart, besides the ``step``: ``own`` ones of the subject, and settings
    where one model has several. ``places`` are the places of its items among all items. ``rows`` are the rows of the
    log that are used, all by default; ``total`` is their number in a log of an earlier import, of which only the
    answered ones were kept. ``texts`` says whether it was read with its texts. ``older`` are logs that it replaced by
    the user's choice, each as path and checksum.
    """

    log: Log
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
    def identity(self) -> tuple[Hashable, ...]:
        """What makes two logs logs of one subject."""
        return (self.model, self.step, tuple(sorted((key, str(value)) for key, value in self.attributes.items())))

    @property
    def asked(self) -> tuple[Hashable, ...]:
        """Who was asked and how: the same for logs of one subject whose answers differ."""
        others = ((key, str(value)) for key, value in self.attributes.items() if key != LOG)
        return (self.model, self.step, tuple(sorted(others)))


def shared_folder(logs: Sequence[Log]) -> PurePath | None:
    """The directory that the logs of several models share; None for those of one model."""
    if len({log.model for log in logs}) < 2:
        return None
    try:
        return PurePath(os.path.commonpath([os.path.abspath(PurePath(log.path).parent) for log in logs]))
    except ValueError:  # on different drives
        return None


def stage_notes(entries: Iterable[Entry]) -> list[str]:
    """Say that a number in a shared directory was not taken as a training step."""
    for entry in entries:
        folder = PurePath(entry.log.path).parent
        if entry.step is None and (number := step_in(str(folder), entry.log.model).step) is not None:
            return [
                f"{folder}: {number} is not taken as a training step, as all logs share it; use --step-from if it is"
            ]
    return []


def _folder_step(log: Log, shared: PurePath | None) -> int | None:
    """The step in the path of a log; a small one that all logs share is a stage of a pipeline."""
    folder = PurePath(log.path).parent
    step = step_in(str(folder), log.model).step
    if shared is None or step is None or step >= FEWEST_STEPS:
        return step
    below = PurePath(os.path.abspath(folder)).relative_to(shared).parts
    return step_in(str(PurePath(*below)), log.model).step


def make_entry(
    log: Log,
    checksum: str,
    names: Mapping[str, str],
    pattern: re.Pattern[str] | None = None,
    shared: PurePath | None = None,
) -> Entry:
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
        matches = (pattern.search(text) for text in (revision, log.model, log.path))
        match = next((match for match in matches if match and (match[1] or "").isdecimal()), None)
        if match is not None and len(match[1]) <= MOST_DIGITS:
            step, without = int(match[1]), [without_match(text, pattern.search(text)) for text in (model, revision)]
            model = without[0] or model
            attributes |= {"revision": without[1]} if "revision" in attributes else {}
    if step is None:
        found = (step_in(revision).step, step_in(log.model, log.model).step, _folder_step(log, shared))
        step = next((one for one in found if one is not None), _trainer_step(log.model))
    if step is not None:
        model = _without(model, step, model) or model
        if "revision" in attributes:
            attributes["revision"] = _without(str(attributes["revision"]), step)
    return Entry(log, checksum, model, step, {key: value for key, value in attributes.items() if value != ""})


def _without(name: str, step: int, model: str = "") -> str:
    """A name without its step."""
    found = step_in(name, model)
    return found.rest if found.step == step else name


def _trainer_step(model: str) -> int | None:
    """The step of a model's directory on this machine, if a trainer left its state there."""
    path = Path(model, "trainer_state.json")
    try:
        step = json.loads(path.read_text())["global_step"] if path.is_file() else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return step if isinstance(step, int) else None


def fill_unknown(entries: Iterable[Entry]) -> None:
    """Give logs that do not state the hash of the weights the one that other logs of the same checkpoint state.

    Where these state several, the log may be of any of them: it stays apart.
    """
    checkpoints: dict[Hashable, list[Entry]] = {}
    for entry in entries:
        checkpoints.setdefault((entry.model, entry.step, str(entry.own.get("revision"))), []).append(entry)
    for group in checkpoints.values():
        known = {str(entry.own[SHA]): entry.own[SHA] for entry in group if SHA in entry.own}
        if len(known) == 1:
            for entry in group:
                entry.attributes |= {SHA: next(iter(known.values()))}


def split_by_settings(entries: Iterable[Entry]) -> None:
    """Where a model answered the same items of a test set in several ways, let the settings tell subjects apart.

    A model asked with 5 examples on one test set and with 25 on another is one subject; asked with 0 and with 5 on the
    same items, it is two. A test set that was run in parts, with a setting for each, stays with one subject.
    """
    models: dict[Hashable, list[Entry]] = {}
    for entry in entries:
        models.setdefault(entry.asked, []).append(entry)
    for group in models.values():
        values: dict[tuple[str, str], dict[str, list[Entry]]] = {}
        for entry in group:
            for key, value in entry.log.settings.items():
                values.setdefault((entry.log.testset, key), {}).setdefault(str(value), []).append(entry)
        varying = dict.fromkeys(key for (_, key), ways in values.items() if len(ways) > 1 and _overlap(ways.values()))
        for entry in group:
            own = {key: entry.log.settings.get(key) for key in varying}
            entry.attributes |= {key: value for key, value in own.items() if value is not None}


def _overlap(ways: Iterable[Sequence[Entry]]) -> bool:
    """Whether an item was answered in two of several ways."""
    seen: set[str] = set()
    for way in ways:
        items = {item for entry in way for item in entry.log.items}
        if not seen.isdisjoint(items):
            return True
        seen |= items
    return False


def name_subjects(entries: Sequence[Entry]) -> None:
    """Give every entry the shortest name of its subject and its run that tells them from all others."""
    short = short_names({entry.model for entry in entries})
    models: dict[str, dict[Hashable, Entry]] = {}
    for entry in entries:
        models.setdefault(entry.model, {}).setdefault(entry.identity, entry)
    runs: dict[Hashable, list[str]] = {}
    run_of: dict[Hashable, Hashable] = {}
    steps: dict[Hashable, int | None] = {}
    for model, subjects in models.items():
        keys = _telling([(entry.attributes, entry.step) for entry in subjects.values()])
        for identity, entry in subjects.items():
            own = [(key, entry.attributes[key]) for key in keys if key in entry.attributes]
            run = run_of[identity] = (model, tuple((key, str(value)) for key, value in own))
            whole = (f"{key}={value}" for key, value in own)
            runs[run] = [" ".join([short[model], *words]) for words in (starmap(_word, own), whole)]
            steps[identity] = entry.step
    run_names = _distinct(runs)
    named = {identity: run_names[run] for identity, run in run_of.items()}
    with_steps = {
        identity: [name if steps[identity] is None else f"{name}/{steps[identity]}"] for identity, name in named.items()
    }
    subject_names = _distinct(with_steps)
    for entry in entries:
        entry.run, entry.subject = named[entry.identity], subject_names[entry.identity]


def _distinct(candidates: Mapping[Hashable, Sequence[str]]) -> dict[Hashable, str]:
    """The first name of each that no other may have; if there is none, the last one with a number."""
    taken = Counter(name for own in candidates.values() for name in dict.fromkeys(own))
    names: dict[Hashable, str] = {}
    used: set[str] = set()
    for key, own in candidates.items():
        numbers = (f"{own[-1]} ({number})" for number in count(2))
        names[key] = next((name for name in own if taken[name] == 1), own[-1])
        if names[key] in used:
            names[key] = next(name for name in numbers if name not in taken and name not in used)
        used.add(names[key])
    return names


def short_names(models: set[str]) -> dict[str, str]:
    """The shortest end of every path that no other model has."""
    names: dict[str, str] = {}
    parts = {model: [part for part in re.split(r"[/\\]", model) if part] or [model] for model in models}
    for length in range(1, max(map(len, parts.values()), default=1) + 1):
        ends: dict[str, list[str]] = {}
        for model in models - names.keys():
            ends.setdefault("/".join(parts[model][-length:]), []).append(model)
        names |= {same[0]: end for end, same in ends.items() if len(same) == 1 and end not in names.values()}
    return {model: names.get(model, model) for model in models}


def _telling(subjects: Sequence[tuple[Mapping[str, Any], int | None]]) -> list[str]:
    """Few attributes that tell runs apart and, with the step, subjects: each is the one that tells most of them apart.

    An attribute belongs to a run if one of its values is found at several steps. Others, such as the hash of a
    checkpoint's weights, come with the step.
    """
    keys = sorted({key for attributes, _ in subjects for key in attributes})
    places: dict[tuple[str, str], set[int | None]] = {}
    for attributes, step in subjects:
        for key, value in attributes.items():
            places.setdefault((key, str(value)), set()).add(step)
    of_run = {key for (key, _), steps in places.items() if len(steps) > 1}
    rows = [({key: str(value) for key, value in attributes.items()}, step) for attributes, step in subjects]
    chosen: list[str] = []
    for names, with_step in (([key for key in keys if key in of_run], False), (keys, True)):
        while True:
            counts = {key: _kinds(rows, [*chosen, key], with_step) for key in names if key not in chosen}
            best = max(counts, key=lambda key: counts[key], default=None)
            if best is None or counts[best] == _kinds(rows, chosen, with_step):
                break
            chosen.append(best)
    return chosen


def _kinds(rows: Sequence[tuple[Mapping[str, str], int | None]], keys: Sequence[str], with_step: bool) -> int:
    """How many subjects some attributes tell apart."""
    return len({(step if with_step else None, *(attributes.get(key) for key in keys)) for attributes, step in rows})


def _word(key: str, value: Any) -> str:
    """An attribute as part of a name."""
    if key == "num_fewshot":
        return f"{value}-shot"
    if value is True:
        return key
    text = str(value)
    return f"{key}={text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}"
