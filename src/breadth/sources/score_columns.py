"""Which columns of a wide table are scores of test sets, which one is in-domain, and how they are called."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, listed
from breadth.sources.reshaping import Roles, numbers_of
from breadth.sources.tables import Table
from breadth.sources.vocabulary import (
    IN_DOMAIN,
    METRICS,
    OVERALL,
    TRAINING_SETS,
    VALIDATION,
    Role,
    dataset_of,
    parse_score,
    parse_scores,
    role_of,
)
from breadth.sources.vocabulary_data import plain

#: Fewest rows, and most columns, among which a mean of other columns is looked for.
FEWEST_ROWS, MOST_COLUMNS = 20, 100

#: Fewest rows from which whole numbers that count up are numbers of rows.
FEWEST_NUMBERED = 10

#: Why columns are left out that no role is known for.
TEXT, FLAG, NUMBERED, LARGE, WHOLE = "text", "true or false", "row number", "above 100", "whole numbers"
UNSTAGED, MEAN, RAW = "not known as a score", "mean of other columns", "unnormalised"
OTHER_SCORE = "another score of its test set"

#: Columns that say what a model was trained on.
TRAINED_ON = ("train_set", "training_set", "train_data", "trained_on")

#: What separates the words of a name; a common beginning or end is cut off there only.
SEPARATORS = "/_.-: "


def score_columns(
    table: Table, roles: Roles, taken: Collection[str], losses: Sequence[str], ignored: dict[str, str]
) -> list[str]:
    """Columns that may be scores; of losses those that match, or all where there is nothing else. Fills ``ignored``."""
    frame = table.frame
    kinds: dict[Role, list[str]] = {}
    highest: dict[str, float] = {}
    for values in frame.iter_columns():
        name = values.name
        role = roles[name]
        if role in (None, Role.CORRECT):
            role = Role.SCORE
        if role is Role.LOSS and any(fnmatch.fnmatch(name, pattern) for pattern in losses):
            role = Role.SCORE
        if name in taken or role not in (Role.SCORE, Role.LOSS, Role.AVERAGE, Role.TRAINING):
            continue
        numbers = numbers_of(values)
        if numbers is None:
            ignored[name] = TEXT
            continue
        kinds.setdefault(role, []).append(name)
        highest[name] = float(numbers.abs().max() or 0)  # type: ignore[arg-type]
    pool = kinds.get(Role.SCORE, [])
    reasons = _unlikely_scores(frame, roles, pool, highest)
    if len(reasons) < len(pool):
        pool = [name for name in pool if name not in reasons]
        ignored |= reasons
    overall = [name for name in pool if plain(name) in OVERALL]
    if overall and len(pool) > 2:
        pool = [name for name in pool if name not in overall]
        ignored |= dict.fromkeys(overall, str(Role.AVERAGE))
    for role in (Role.AVERAGE, Role.LOSS, Role.TRAINING):
        if not pool:
            pool = kinds.get(role, [])
    return pool


def _unlikely_scores(
    frame: pl.DataFrame, roles: Roles, pool: Sequence[str], highest: Mapping[str, float]
) -> dict[str, str]:
    """Why columns of unknown names are no scores, judged by their values and by the names of the others."""
    fractions = sum(frame[name].dtype.is_float() and highest[name] <= 1 for name in pool) > 1
    staged = sum(bool(parse_score(name).stage) for name in pool) > 1
    reasons: dict[str, str] = {}
    for name in pool:
        if roles[name] is not None or plain(name) in IN_DOMAIN:
            continue
        values = frame[name]
        high = highest[name]
        whole = values.dtype.is_integer()
        if values.dtype == pl.Boolean or (values.dtype == pl.String and not values.str.contains(r"\d").any()):
            reasons[name] = FLAG
        elif whole and _counts_up(values, high):
            reasons[name] = NUMBERED
        elif high > 100:
            reasons[name] = LARGE
        elif whole and fractions and values.n_unique() > 1:
            reasons[name] = WHOLE
        elif staged:
            reasons[name] = UNSTAGED
    return reasons


def _counts_up(values: pl.Series, high: float) -> bool:
    """Whether whole numbers are numbers of rows, in any order, from 0 or from 1."""
    if len(values) < FEWEST_NUMBERED or values.n_unique() < len(values):
        return False
    return len(values) == high + int((values == 0).any())


def in_domain_column(pool: Sequence[str], frame: pl.DataFrame) -> tuple[str, ...]:
    """The in-domain score: said by its name, by a column of training sets, or a well-known training set; or none."""
    parsed = {name: parse_score(name) for name in pool}
    # Among many names of two letters, which are languages, id is Indonesian.
    languages = sum(len(parts.testset) == 2 for parts in parsed.values()) > 2
    if not languages:
        named = [name for name in pool if {plain(name), parsed[name].testset} & IN_DOMAIN]
        if named:
            return _only(named)
    trained_on = [name for name in frame.columns if plain(name) in TRAINED_ON]
    if trained_on:
        sets = {dataset_of(str(value)) for value in frame[trained_on[0]].drop_nulls().unique()}
        return _only([name for name in pool if sets == {dataset_of(name)}])
    held_out = [name for name in pool if parsed[name].stage in VALIDATION]
    if len(held_out) == 1 and len(pool) > 1:
        testset = parsed[held_out[0]].testset
        if not testset or dataset_of(held_out[0]) in TRAINING_SETS:
            return (held_out[0],)
    return _known_training_set(pool, frame)


def _known_training_set(pool: Sequence[str], frame: pl.DataFrame) -> tuple[str, ...]:
    """The score on a well-known training set, where the others are known shifts of it."""
    # Runs are often named after what they were trained on, and then the names decide.
    names = " ".join(str(value).lower() for column in frame.select(pl.col(pl.String)) for value in column.unique())
    mentioned = {trained for trained in TRAINING_SETS if trained in names}
    for trained, shifts in TRAINING_SETS.items():
        if not mentioned <= {trained}:
            continue
        own = [name for name in pool if dataset_of(name) == trained]
        if own and any(dataset_of(name) in shifts for name in pool):
            return _only(own)
    return ()


def _only(names: Sequence[str]) -> tuple[str, ...]:
    """The one name of a list; none where there are several, because then it is for the user to say."""
    return (names[0],) if len(names) == 1 else ()


@dataclass(frozen=True)
class DistinctScores:
    """One score of every test set. ``left_out`` has the reasons for the others, ``notes`` what was chosen."""

    names: tuple[str, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def choose_distinct_scores(table: Table, chosen: Sequence[str], controls: Sequence[str]) -> DistinctScores:
    """Test sets without means of others, each with one score.

    Of several scores of one test set, the metric is used that most test sets have, then the one that comes first among
    the metrics that breadth knows. Scores that only their stage tells apart (a part for validation and one for testing)
    are asked about.
    """
    sets = _by_testset(chosen)
    left_out: dict[str, str] = {}
    for names in sets.values():
        # Leaderboards list some scores twice: normalised between chance and 100, and raw.
        raw = [name for name in names if parse_score(name).metric == "raw"]
        if len(names) == 2 and len(raw) == 1:
            left_out[raw[0]] = RAW
    others = [name for name in chosen if name not in left_out]
    for name in sorted(_means(table, [*others, *controls]) - {*controls}):
        left_out[name] = MEAN
    sets = _by_testset([name for name in chosen if name not in left_out])
    several = {testset: names for testset, names in sets.items() if len(names) > 1}
    notes: tuple[str, ...] = ()
    if several:
        metrics = _choose_metrics(table, sets)
        for testset, names in several.items():
            best = metrics[testset]
            left_out |= {name: OTHER_SCORE for name in names if name != best}
        kept = listed([metrics[testset] for testset in several], 4)
        unused = listed([name for name, reason in left_out.items() if reason == OTHER_SCORE], 4)
        notes = (f"one score of each test set is used: {kept}, not {unused} (--testsets takes others)",)
    return DistinctScores(tuple(name for name in chosen if name not in left_out), left_out, notes)


def _by_testset(names: Sequence[str]) -> dict[str, list[str]]:
    sets: dict[str, list[str]] = {}
    for name, parts in parse_scores(names).items():
        sets.setdefault(parts.testset, []).append(name)
    return sets


def _choose_metrics(table: Table, sets: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The score of each test set that is used, of several."""
    parsed = parse_scores([name for names in sets.values() for name in names])
    coverage: dict[str, int] = {}
    for names in sets.values():
        for metric in {parsed[name].metric for name in names}:
            coverage[metric] = coverage.get(metric, 0) + 1
    rank = {metric: place for place, metric in enumerate(METRICS)}

    def preference(name: str) -> tuple[int, int, int]:
        metric = parsed[name].metric
        loss = role_of(name) is Role.LOSS
        return loss, -coverage[metric], rank.get(metric, len(rank))

    best = {}
    for testset, names in sets.items():
        ranked = sorted(names, key=preference)
        if len(ranked) > 1 and preference(ranked[0]) == preference(ranked[1]):
            raise InputError(
                f"{table.name}: {listed(names, 4)} seem to be scores of one test set. Choose with --testsets, for "
                f"instance --testsets '{_wildcard(sets, ranked[0])}'"
            )
        best[testset] = ranked[0]
    return best


def _wildcard(sets: Mapping[str, Sequence[str]], example: str) -> str:
    """A pattern that takes one score of every test set, or the names of such scores."""
    stage, _, metric = parse_score(example)
    size = len(metric or stage)
    for pattern in (f"*{example[-size - 1 :]}", f"{example[: len(stage) + 1]}*"):
        if all(len(fnmatch.filter(group, pattern)) == 1 for group in sets.values()):
            return pattern
    return ",".join(group[0] for group in sets.values())


def _means(table: Table, columns: Sequence[str]) -> set[str]:
    """Columns that are weighted means of others, exactly but for rounding.

    Non-negative least squares finds the weights. It is asked only where columns depend linearly on each other, and not
    where there are hardly more rows than columns, which would fit anything.
    """
    if len(columns) < 3:
        return set()
    rows = table.frame.select(table.numbers(name) for name in columns).drop_nulls().to_numpy()
    if len(rows) < 3:
        return set()
    plain_mean = _mean_of_all_others(rows)
    if plain_mean is not None:
        return {columns[plain_mean]}
    if len(columns) > MOST_COLUMNS or len(rows) < max(FEWEST_ROWS, 2 * len(columns)):
        return set()
    spread = rows.std(axis=0)
    varied = rows[:, spread > 0]
    if varied.shape[1] < 3:
        return set()
    with np.errstate(over="ignore", invalid="ignore"):
        correlations = np.corrcoef(varied.T)
    # Squares of numbers like 1e300 are infinite: such columns are no means of scores.
    if not np.isfinite(correlations).all() or np.linalg.eigvalsh(correlations)[0] > 1e-3:
        return set()
    from scipy.optimize import nnls  # takes a while to load, and is rarely needed

    means = set()
    triangle = np.linalg.qr(rows).R
    for place, name in enumerate(columns):
        if spread[place] == 0:
            continue
        others = [k for k in range(len(columns)) if k != place]
        weights, error = nnls(triangle[:, others], triangle[:, place])
        fits = error < 0.01 * spread[place] * np.sqrt(len(rows)) and abs(weights.sum() - 1) < 0.01
        if fits and (weights > 0.01).sum() > 1:
            means.add(name)
    return means


def _mean_of_all_others(rows: npt.NDArray[np.float64]) -> int | None:
    """The column that is the plain mean of all others, which shows in a few rows already; None if there is none."""
    others = (rows.sum(axis=1, keepdims=True) - rows) / (rows.shape[1] - 1)
    tolerance = 0.006 * max(1.0, np.abs(rows).max() / 100)  # half a unit of the second decimal, as means are rounded
    near = (np.abs(rows - others) <= tolerance).all(axis=0) & (np.ptp(rows, axis=0) > 0)
    return int(near.argmax()) if near.sum() == 1 else None


def short_names(names: Sequence[str], others: Collection[str]) -> dict[str, str]:
    """Names of test sets without the beginning and the end that all share: ``eval/hans_acc`` is ``hans``.

    Empty where nothing is shared, or where names would be lost, alike or those of ``others``. The end of a loss stays:
    it says that lower is better.
    """
    if len(names) < 2:
        return {}
    start = _shared_start(names)
    end = _shared_start([name[::-1] for name in names])
    if any(role_of(name) is Role.LOSS for name in names):
        end = 0
    short = {name: name[start : len(name) - end] for name in names}
    usable = all(any(letter.isalpha() for letter in name) for name in short.values())
    distinct = len({*short.values()}) == len(names) and not {*short.values()} & {*others}
    if not (start or end) or not usable or not distinct:
        return {}
    return short


def _shared_start(names: Sequence[str]) -> int:
    """How many characters all names share at their beginning, up to and including a separator."""
    first = min(names, key=len)
    shared = 0
    for place, letter in enumerate(first):
        if any(name[place] != letter for name in names):
            break
        if letter in SEPARATORS:
            shared = place + 1
    return shared
