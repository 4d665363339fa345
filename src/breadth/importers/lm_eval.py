"""lm-evaluation-harness: samples of every version, with the results that lie beside them.

- **Item**: a document's hash, which the tool writes since 0.4.3 and which is computed for earlier logs, with ``#2`` for
  the second document of the same content. Files of 2023 have no documents: there the last paragraph of the prompt.
- **Test set**: the task in the file's name.
- **Metric**: a metric of a filter; the filter ``none`` is not shown. Preferred is ``exact_match``, then ``acc``, then
  :data:`PREFERRED`; of several filters the first. Metrics of which lower values are better are read if asked for.
- **Subject**: the model with its arguments, its revision, chat template and system instruction. The number of few-shot
  examples, seeds and the like are settings.
- **Margin**: for ``acc`` and ``acc_norm``, where the right option is certain (``lm_eval_samples``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import orjson

from breadth.errors import listed
from breadth.importers.lm_eval_results import Run, has_samples, is_results, run_of
from breadth.importers.lm_eval_samples import Choices, Sample, read_samples, read_written_out, weigh
from breadth.importers.logs import Importer, LeftOut, Log, Metric, Options, Part, pack
from breadth.importers.reading import LogFile, numbered

#: Metrics in the order in which they are preferred; others come after them.
PREFERRED = (
    *("exact_match", "acc", "acc_norm", "pass@1", "pass_at_1", "prompt_level_strict_acc", "math_verify"),
    *("em", "mc2", "mc1", "score"),
)

#: The name of a filter that changes nothing.
PLAIN = "none"

#: The latest version whose logs were tried.
TRIED = (0, 5)

_ROW = re.compile(rb'(?:\xef\xbb\xbf)?\s*\[?\s*\{\s*"doc_id":\s*-?\d+,\s*"doc":')
_OF_OTHERS = frozenset(("native_id", "request_type", "model_output", "metric"))


class LmEval(Importer):
    """Reads samples of lm-evaluation-harness."""

    name: ClassVar[str] = "lm-eval"

    def part(self, file: LogFile) -> Part | None:
        """Samples by the keys of their first row, whatever the file's name says; results by theirs."""
        if _ROW.match(file.head):
            return Part.ANSWERS
        if {"doc_id", "doc"} <= file.keys and {"arguments", "resps", "target"} & file.keys:
            return None if _OF_OTHERS & file.keys else Part.ANSWERS
        if _is_written_out(file):
            return Part.ANSWERS
        if is_results(file):
            return Part.COMPANION if has_samples(file.path) else Part.SCORES
        return None

    def read(self, file: LogFile, options: Options) -> Iterator[Log]:
        """Read a file of samples and the results of its run."""
        written_out = _is_written_out(file)
        run = run_of(file.path, written_out)
        samples = (read_written_out if written_out else read_samples)(file, options.texts)
        if not samples:
            raise LeftOut("holds no samples")
        table = _table(samples, run, options)
        repeats = max((len(one) for s in samples for r in s.repeats.values() for one in r.values()), default=0)
        if options.epochs == "each" and repeats > 1:
            for k in range(repeats):
                yield _log(file, run, samples, table.of_attempt(samples, k), options, epoch=k + 1)
        else:
            yield _log(file, run, samples, table, options)


def _is_written_out(file: LogFile) -> bool:
    return file.is_list and {"doc_id", "prompt_0"} <= file.keys


@dataclass(frozen=True)
class Table:
    """The scores of a file: numbers by metric and sample, and under which key samples have each filter."""

    keys: Mapping[str, str | int]
    values: Mapping[Metric, npt.NDArray[np.float64]]
    notes: Sequence[str] = field(default=())

    def of_attempt(self, samples: Sequence[Sample], k: int) -> Table:
        """The scores of one attempt, where samples have several."""
        values = {}
        for metric in self.values:
            key = self.keys[metric.variant]
            attempts = [sample.repeats.get(key, {}).get(metric.name, ()) for sample in samples]
            values[metric] = np.array([one[k] if k < len(one) else None for one in attempts], dtype=np.float64)
        return Table(self.keys, values, self.notes)


def _table(samples: Sequence[Sample], run: Run, options: Options) -> Table:
    """Collect all numbers. A metric that has none, such as pairs of label and prediction, is left out."""
    names = dict.fromkeys((key, name) for sample in samples for key, own in sample.scores.items() for name in own)
    found = dict.fromkeys(key for key, _ in names)
    keys, notes = _filters(list(found), run, options)
    lower = run.lower_is_better() - {options.metric}
    values: dict[Metric, npt.NDArray[np.float64]] = {}
    without: dict[str, str] = {}
    variants = {key: variant for variant, key in keys.items()}
    for key, name in names:
        column = np.array([sample.scores.get(key, {}).get(name) for sample in samples], dtype=np.float64)
        if np.isnan(column).all():
            without[name] = name
        elif name in lower:
            without[name] = f"{name}, of which lower values are better"
        else:
            values[Metric(name, variants[key])] = column
    if not values:
        bypass = "made with --predict_only" if "bypass" in without else "give no number for an answer"
        raise LeftOut(f"no answer is scored: {listed(without.values(), 6) or 'no metrics'} ({bypass})")
    return Table(keys, values, notes)


def _filters(keys: Sequence[str | int], run: Run, options: Options) -> tuple[dict[str, str | int], list[str]]:
    """Names of filters, and the key by which samples have each; versions before 0.4.7 only say their places."""
    names = [key for key in keys if isinstance(key, str)]
    notes: list[str] = []
    if not names:
        names = [PLAIN] if len(keys) == 1 and not run.filters else run.filters
        if len(set(names)) != len(keys):
            names = [f"filter-{place + 1}" for place in range(len(keys))]
            notes = [f"{len(keys)} filters without names; they are called {listed(names, 4)}"]
    # A filter that changes nothing is not shown, so that logs of tools without filters agree.
    hidden = PLAIN in names and "" not in names and options.variant != PLAIN
    return {"" if hidden and name == PLAIN else name: key for name, key in zip(names, keys, strict=True)}, notes


def _log(
    file: LogFile, run: Run, samples: Sequence[Sample], table: Table, options: Options, epoch: int | None = None
) -> Log:
    preferred = {name: place for place, name in enumerate(PREFERRED)}
    metrics = sorted(table.values, key=lambda metric: preferred.get(metric.name, len(preferred)))
    asked = [m for m in metrics if options.metric in (None, m.name) and options.variant in (None, m.variant)]
    first = (asked or metrics)[0]
    delimiter = run.task_config.get("target_delimiter")
    margins: dict[Metric, npt.NDArray[np.float64]] = {}
    choices = Choices()
    for variant in dict.fromkeys((first.variant, *table.keys)):
        scores = {metric.name: column for metric, column in table.values.items() if metric.variant == variant}
        own = weigh(samples, scores, delimiter if isinstance(delimiter, str) else None)
        margins |= {Metric(name, variant): column for name, column in own.margins.items()}
        choices = own if variant == first.variant else choices
    stated = ((Metric(name, "" if f == PLAIN and "" in table.keys else f), mean) for name, f, mean in run.stated())
    partial = run.partial(len(samples))
    notes = [*run.notes, *table.notes, *([partial] if partial else []), *_version_notes(run)]
    return Log(
        path=str(file.path),
        tool="lm-evaluation-harness",
        version=run.version,
        testset=run.task,
        model=run.model,
        items=pack(numbered(sample.identity for sample in samples)),
        values=table.values,
        prefer=PREFERRED,
        margins=margins,
        answers=_answers(samples, choices, first, table.keys[first.variant]),
        texts=_texts(samples, choices) if options.texts else {},
        subject=run.subject if epoch is None else {**run.subject, "epoch": epoch},
        settings=run.settings,
        stamp=run.stamp,
        stated={} if epoch is not None else {metric: mean for metric, mean in stated if metric in table.values},
        notes=[f"{file.path}: {note}" for note in notes],
    )


def _version_notes(run: Run) -> list[str]:
    match = re.match(r"(\d{1,4})\.(\d{1,4})", run.version or "")
    if match is None or (int(match[1]), int(match[2])) <= TRIED:
        return []
    return [f"written by version {run.version}, which is newer than those that were tried; check the numbers"]


@cache
def _labels(count: int) -> list[str]:
    return [chr(ord("A") + place) if place < 26 else str(place + 1) for place in range(count)]


def _answers(
    samples: Sequence[Sample], choices: Choices, metric: Metric, key: str | int
) -> Sequence[str | None] | None:
    """What was chosen, or what the filter extracted from what was written."""
    chosen = choices.chosen.get(metric.name, choices.chosen.get("acc"))
    if chosen is not None:
        labels = _labels(int(chosen.max()) + 1)
        pairs = zip(chosen.tolist(), samples, strict=True)
        return pack([labels[place] if sample.logs else None for place, sample in pairs])
    answers = [sample.responses.get(key) for sample in samples]
    return pack(answers) if any(answer is not None for answer in answers) else None


def _texts(samples: Sequence[Sample], choices: Choices) -> dict[str, Sequence[Any]]:
    """Columns that describe the items; those that are empty are left out."""
    options, right = [sample.options for sample in samples], [""] * len(samples)
    if choices.gold is not None:
        width = choices.gold.shape[1]
        options = [some[:width] if some else None for some in options]
        for k, place in np.argwhere(choices.gold).tolist():
            right[k] += ", " * bool(right[k]) + _labels(width)[place]
    columns: dict[str, list[Any]] = {
        "text": [sample.text for sample in samples],
        "options": options,
        "option_labels": [_labels(len(some)) if some else None for some in options],
        "label": [label or None for label in right],
        "target": [None if label else _target(s.target) for label, s in zip(right, samples, strict=True)],
    }
    return {name: pack(column) for name, column in columns.items() if any(one is not None for one in column)}


def _target(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value or None
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return None
