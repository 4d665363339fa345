"""What answers are scored by: one metric for every test set, and whether its mean is the one that a log states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from breadth.errors import InputError, did_you_mean, listed
from breadth.results.words import count
from breadth.sources.logs.log import MOST_LOGS, Log, Metric, Options
from breadth.sources.logs.subjects import SubjectLog

#: Decimals to which a stated mean holds, however few it shows: zeros at the end are not written.
FEWEST_DECIMALS = 3

#: Metrics of a log that a message names.
MOST_METRICS = 8


@dataclass(frozen=True)
class MetricChoice:
    """The metric of a test set, and why it is that one."""

    metric: Metric
    reason: str


def choose_metrics(logs: Sequence[SubjectLog], options: Options, left_out: dict[str, str]) -> dict[str, MetricChoice]:
    """Choose a metric for every test set, and give it to its logs.

    It is the one that was asked for, else the first preferred one that all logs of the test set have. Logs without a
    number for any answer take no part.
    """
    testsets = _scored_logs(logs, left_out)
    choices: dict[str, MetricChoice] = {}
    problems: list[str] = []
    is_found = False
    for testset, group in testsets.items():
        wanted = _first_wanted(group, options)
        try:
            if wanted is not None:
                is_found = True
                choices[testset] = MetricChoice(_wanted_metric(testset, group, wanted, options), "asked for")
            else:
                choice = _preferred_metric(testset, group, left_out)
                if choice is not None:
                    choices[testset] = choice
        except InputError as error:
            problems.append(str(error))
    if (options.metric or options.variant) and not is_found:
        raise _unknown_metric(logs, options)
    if problems:
        raise InputError("\n".join(problems))
    for testset, choice in choices.items():
        for log in testsets[testset]:
            if _is_scored(log, choice.metric):
                log.metric = choice.metric
            else:
                left_out[log.path] = f"no answer is scored by {choice.metric}"
    return choices


def _scored_logs(logs: Sequence[SubjectLog], left_out: dict[str, str]) -> dict[str, list[SubjectLog]]:
    """The logs of every test set that score an answer by any metric."""
    testsets: dict[str, list[SubjectLog]] = {}
    for log in logs:
        if any(_is_scored(log, metric) for metric in log.content.values):
            testsets.setdefault(log.testset, []).append(log)
        else:
            left_out[log.path] = "no answer is scored"
    return testsets


def _is_scored(log: SubjectLog, metric: Metric) -> bool:
    return not np.isnan(log.content.scores(metric)).all()


def _first_wanted(group: Sequence[SubjectLog], options: Options) -> Metric | None:
    """The first metric of some logs that the user's options ask for."""
    for log in group:
        for metric in log.content.values:
            if _is_wanted(metric, options):
                return metric
    return None


def _is_wanted(metric: Metric, options: Options) -> bool:
    if options.metric is None and options.variant is None:
        return False
    return options.metric in (None, metric.name) and options.variant in (None, metric.variant)


def _unknown_metric(logs: Sequence[SubjectLog], options: Options) -> InputError:
    names = sorted({str(metric) for log in logs for metric in log.content.values})
    given = " ".join(filter(None, (options.metric, options.variant)))
    return InputError(f"no log has {given!r}.{did_you_mean([given], names)} Metrics: {listed(names, 30)}")


def _wanted_metric(testset: str, group: Sequence[SubjectLog], metric: Metric, options: Options) -> Metric:
    """The metric that was asked for, which all logs must have, with values between 0 and 1."""
    if options.metric is None:  # a filter or scorer alone: the preferred metric of that variant
        for preferred in _common_metrics(group):
            if _is_wanted(preferred, options):
                metric = preferred
                break
    if not all(metric in log.content.values for log in group):
        raise _metrics_differ(testset, group, metric, is_asked_for=True)
    outside = _first_outside(group, metric)
    if outside is not None:
        log, row, value = outside
        raise InputError(
            f"{log.path}: {metric} of item {log.content.items[row]!r} of {testset} is {value:g}, not between 0 and 1; "
            f"choose another --metric ({_metric_names(log.content)})"
        )
    return metric


def _preferred_metric(testset: str, group: Sequence[SubjectLog], left_out: dict[str, str]) -> MetricChoice | None:
    """The preferred metric between 0 and 1 that all logs have; one by which every log scores an answer comes first."""
    common = _common_metrics(group)
    if not common:
        raise _metrics_differ(testset, group, _commonest_metric(group), is_asked_for=False)
    best = None
    problem = "no answer is scored ("
    for metric in common:
        outside = _first_outside(group, metric)
        if outside is not None:
            log, _, value = outside
            problem = f"no metric between 0 and 1 ({metric} is {value:g} in {log.path}; "
            continue
        number_scored = sum(_is_scored(log, metric) for log in group)
        if number_scored == len(group):
            best = metric
            break
        if number_scored and best is None:
            best = metric
    if best is None:
        left_out[testset] = f"{problem}metrics: {listed(map(str, common), 6)})"
        return None
    others = [str(metric) for metric in _ranked_metrics(group[0].content) if metric != best]
    if not others:
        return MetricChoice(best, "the only metric")
    verb = "is" if len(others) == 1 else "are"
    return MetricChoice(best, f"default; there {verb} also {listed(others, 4)}")


def _ranked_metrics(log: Log) -> list[Metric]:
    """The metrics of a log, preferred ones first."""
    names = list(log.prefer)
    return sorted(log.values, key=lambda metric: names.index(metric.name) if metric.name in names else len(names))


def _common_metrics(group: Sequence[SubjectLog]) -> list[Metric]:
    """The metrics that all logs have, as the first log prefers them."""
    common = _ranked_metrics(group[0].content)
    for log in group:
        common = [metric for metric in common if metric in log.content.values]
    return common


def _commonest_metric(group: Sequence[SubjectLog]) -> Metric:
    """The metric that most logs have; the first of several."""
    numbers: Counter[Metric] = Counter()
    for log in group:
        numbers.update(_ranked_metrics(log.content))
    return numbers.most_common(1)[0][0]


def _first_outside(group: Sequence[SubjectLog], metric: Metric) -> tuple[SubjectLog, int, float] | None:
    """The first log with a value that is not between 0 and 1, its row and the value."""
    for log in group:
        values = log.content.scores(metric)
        rows = np.flatnonzero((values < 0) | (values > 1))
        if rows.size:
            return log, int(rows[0]), float(values[rows[0]])
    return None


def _metrics_differ(testset: str, group: Sequence[SubjectLog], metric: Metric, *, is_asked_for: bool) -> InputError:
    """Name the few logs that differ from the others, and say what to do."""
    having: list[SubjectLog] = []
    lacking: list[SubjectLog] = []
    for log in group:
        side = having if metric in log.content.values else lacking
        side.append(log)
    few, many = sorted((having, lacking), key=len)
    names_of_many = f"the other {len(many):,} logs" if len(many) > max(len(few), 1) else _paths(many)
    message = (
        f"{testset}: metrics differ between logs: {_paths(few)} {_has_metrics(few)}, "
        f"{names_of_many} {_has_metrics(many)}"
    )
    if is_asked_for:
        message += f"; {metric} is asked for"
    number_stored = sum(log.is_stored for log in group)
    if 0 < number_stored < len(group):
        # Of an earlier import only one metric is kept, so the remedy is to read its logs again.
        choice = f"--metric {metric.name}" if is_asked_for else "a --metric that all have"
        remedy = f"Import all logs again in one command with {choice}, or the new ones into another directory"
    elif is_asked_for:
        remedy = "Choose a --metric (and --scorer) that all have, or import them into two directories"
    else:
        remedy = "Leave out the ones or the others, or import them into two directories"
    return InputError(f"{message}. {remedy}")


def _paths(logs: Sequence[SubjectLog]) -> str:
    return listed((log.path for log in logs), MOST_LOGS)


def _has_metrics(logs: Sequence[SubjectLog]) -> str:
    """Which metrics some logs have in common, as the end of a sentence about them."""
    names = listed(map(str, _common_metrics(logs)), MOST_METRICS) or _metric_names(logs[0].content)
    if logs[0].is_stored:
        return f"was imported with {names}" if len(logs) == 1 else f"were imported with {names}"
    return f"has {names}" if len(logs) == 1 else f"have {names}"


def _metric_names(log: Log) -> str:
    return listed(map(str, log.values), MOST_METRICS) or "none"


def mean_notes(log: SubjectLog) -> list[str]:
    """Compare the mean with the one that the log states, to as many digits as it states.

    Answers of an earlier import were compared then; those that another log has as well are no longer among them.
    """
    stated = log.content.stated.get(log.metric)
    values = log.content.scores(log.metric)
    answered = values[~np.isnan(values)]
    if log.is_stored or stated is None or not np.isfinite(stated) or not answered.size:
        return []
    mean = float(answered.mean())
    if abs(mean - stated) <= 0.5 * 10.0 ** -max(_decimals(stated), FEWEST_DECIMALS) + 1e-9:
        return []
    return [
        f"{log.path}: the mean of {log.metric} over {count(answered.size, 'answer')} to {log.testset} is "
        f"{mean:.6g}, but the log states {stated:.6g}"
    ]


def _decimals(number: float) -> int:
    """How many decimals a number is written with; one with an exponent is meant to all its digits."""
    text = repr(float(number))
    if "e" in text:
        return 16
    return len(text.partition(".")[2])
