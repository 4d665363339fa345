"""What answers are scored by: one metric for every test set, and whether its mean is the one that a log states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from breadth.errors import InputError, did_you_mean, listed
from breadth.importers.logs import Log, Metric, Options
from breadth.importers.subjects import Entry
from breadth.results.words import count

#: Decimals to which a stated mean holds, however few it shows: zeros at the end are not written.
FEWEST_DECIMALS = 3


@dataclass(frozen=True)
class Choice:
    """The metric of a test set, and why it is that one."""

    metric: Metric
    reason: str


def choose_metrics(entries: Sequence[Entry], options: Options, left_out: dict[str, str]) -> dict[str, Choice]:
    """Choose a metric for every test set, and give it to its logs.

    It is the one that was asked for, else the first preferred one that all logs of the test set have. Logs without a
    number for any answer take no part.
    """
    testsets = _by_testset(entries, left_out)
    choices: dict[str, Choice] = {}
    problems: list[str] = []
    asked = False
    for testset, group in testsets.items():
        wanted = [metric for entry in group for metric in entry.log.values if _asked(metric, options)]
        try:
            if wanted:
                asked = True
                choices[testset] = Choice(_the_asked(testset, group, wanted[0], options), "asked for")
            elif choice := _the_default(testset, group, left_out):
                choices[testset] = choice
        except InputError as error:
            problems.append(str(error))
    if (options.metric or options.variant) and not asked:
        names = sorted({str(metric) for entry in entries for metric in entry.log.values})
        given = " ".join(filter(None, (options.metric, options.variant)))
        raise InputError(f"no log has {given!r}.{did_you_mean([given], names)} Metrics: {listed(names, 30)}")
    if problems:
        raise InputError("\n".join(problems))
    for testset, choice in choices.items():
        for entry in testsets[testset]:
            if _is_scored(entry, choice.metric):
                entry.metric = choice.metric
            else:
                left_out[entry.log.path] = f"no answer is scored by {choice.metric}"
    return choices


def _by_testset(entries: Sequence[Entry], left_out: dict[str, str]) -> dict[str, list[Entry]]:
    testsets: dict[str, list[Entry]] = {}
    for entry in entries:
        if any(_is_scored(entry, metric) for metric in entry.log.values):
            testsets.setdefault(entry.log.testset, []).append(entry)
        else:
            left_out[entry.log.path] = "no answer is scored"
    return testsets


def _is_scored(entry: Entry, metric: Metric) -> bool:
    return not np.isnan(entry.log.scores(metric)).all()


def _asked(metric: Metric, options: Options) -> bool:
    if options.metric is None and options.variant is None:
        return False
    return options.metric in (None, metric.name) and options.variant in (None, metric.variant)


def _the_asked(testset: str, group: Sequence[Entry], metric: Metric, options: Options) -> Metric:
    if options.metric is None:  # a filter or scorer alone: the preferred metric of that variant
        ranked = [one for one in _ranked(group[0].log) if _asked(one, options)]
        metric = next((one for one in ranked if all(one in entry.log.values for entry in group)), metric)
    for entry in group:
        if metric not in entry.log.values:
            raise _differ(testset, next(one for one in group if metric in one.log.values), entry, metric)
        if (wrong := _outside(entry, metric)).size:
            item, value = entry.log.items[wrong[0]], entry.log.scores(metric)[wrong[0]]
            raise InputError(
                f"{entry.log.path}: {metric} of item {item!r} of {testset} is {value:g}, not between 0 and 1; choose "
                f"another --metric ({_metrics(entry.log)})"
            )
    return metric


def _the_default(testset: str, group: Sequence[Entry], left_out: dict[str, str]) -> Choice | None:
    ranked = _ranked(group[0].log)
    common = [metric for metric in ranked if all(metric in entry.log.values for entry in group)]
    fitting = [metric for metric in common if not any(_outside(entry, metric).size for entry in group)]
    fitting.sort(key=lambda metric: not all(_is_scored(entry, metric) for entry in group))
    if fitting and any(_is_scored(entry, fitting[0]) for entry in group):
        others = [str(metric) for metric in ranked if metric != fitting[0]]
        reason = "the only metric" if not others else f"default; there {'are' if len(others) > 1 else 'is'} also "
        return Choice(fitting[0], reason + listed(others, 4) if others else reason)
    if not common:
        other = min(group, key=lambda entry: sum(metric in entry.log.values for metric in ranked))
        raise _differ(testset, group[0], other)
    outside = [entry.log.scores(metric)[k] for metric in common for entry in group for k in _outside(entry, metric)[:1]]
    why = f"no metric between 0 and 1 (for instance {outside[0]:g})" if outside else "no answer is scored"
    left_out[testset] = f"{why} (metrics: {listed(map(str, common), 6)})"
    return None


def _ranked(log: Log) -> list[Metric]:
    """The metrics of a log, preferred ones first."""
    names = list(log.prefer)
    return sorted(log.values, key=lambda metric: names.index(metric.name) if metric.name in names else len(names))


def _outside(entry: Entry, metric: Metric) -> npt.NDArray[np.intp]:
    """Rows whose value is not between 0 and 1."""
    values = entry.log.scores(metric)
    return np.flatnonzero((values < 0) | (values > 1))


def _differ(testset: str, first: Entry, other: Entry, asked: Metric | None = None) -> InputError:
    """Of an earlier import only one metric is kept, so the remedy is to read its logs again."""
    new, stored = sorted((first, other), key=lambda entry: entry.total is not None)
    if stored.total is not None and new.total is None:
        metric = f"--metric {asked.name}" if asked else "a --metric that all have"
        return InputError(
            f"{testset}: metrics differ between logs: {stored.log.path} was imported with {_metrics(stored.log)}, "
            f"{new.log.path} has {_metrics(new.log)}{f' and is to be scored by {asked}' if asked else ''}; import all "
            f"logs again in one command with {metric}, or these into another directory"
        )
    return InputError(
        f"{testset}: metrics differ between logs: {first.log.path} has {_metrics(first.log)}, {other.log.path} has "
        f"{_metrics(other.log)}; choose one that both have with --metric (and --filter or --scorer), or import them "
        "into two directories"
    )


def _metrics(log: Log) -> str:
    return listed(map(str, log.values), 8) or "none"


def mean_notes(entry: Entry) -> list[str]:
    """Compare the mean with the one that the log states, to as many digits as it states.

    Answers of an earlier import were compared then; those that another log has as well are no longer among them.
    """
    stated = entry.log.stated.get(entry.metric)
    values = entry.log.scores(entry.metric)
    if entry.total is not None or stated is None or not np.isfinite(stated) or np.isnan(values).all():
        return []
    decimals = len(repr(float(stated)).partition("e")[0].partition(".")[2]) if "e" not in repr(float(stated)) else 16
    mean = float(np.nanmean(values))
    if abs(mean - stated) <= 0.5 * 10.0 ** -max(decimals, FEWEST_DECIMALS) + 1e-9:
        return []
    return [
        f"{entry.log.path}: the mean of {entry.metric} over {count(int((~np.isnan(values)).sum()), 'answer')} to "
        f"{entry.log.testset} is {mean:.6g}, but the log states {stated:.6g}"
    ]
