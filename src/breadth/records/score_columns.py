"""Which columns of a wide table are scores of test sets, and which of them is the in-domain one."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl

from breadth.errors import InputError, listed
from breadth.records.arranging import numbers_of
from breadth.records.roles import IN_DOMAIN, OVERALL, TRAINING_SETS, VALIDATION, Role, dataset_of, parse_score, plain
from breadth.records.tables import Table

Roles = Mapping[str, Role | None]

#: Fewest rows, and most columns, among which a mean of other columns is looked for.
FEWEST_ROWS, MOST_COLUMNS = 20, 100

#: Why columns are left out that no role is known for.
TEXT, FLAG, NUMBERED, LARGE, WHOLE = "text", "true or false", "row number", "above 100", "whole numbers"
UNSTAGED, MEAN, RAW = "not known as a score", "mean of other columns", "unnormalised"


def score_columns(
    table: Table, roles: Roles, taken: Collection[str], losses: Sequence[str], ignored: dict[str, str]
) -> list[str]:
    """Columns that may be scores; of losses those that match, or all where there is nothing else. Fills ``ignored``."""
    kinds: dict[Role, list[str]] = {}
    tallest: dict[str, float] = {}
    for values in table.frame.iter_columns():
        role = Role.SCORE if roles[values.name] in (None, Role.CORRECT) else roles[values.name]
        if role is Role.LOSS and any(fnmatch.fnmatch(values.name, pattern) for pattern in losses):
            role = Role.SCORE
        if role in (Role.SCORE, Role.LOSS, Role.AVERAGE, Role.TRAINING) and values.name not in taken:
            if (numbers := numbers_of(values)) is None:
                ignored[values.name] = TEXT
                continue
            kinds.setdefault(role, []).append(values.name)
            tallest[values.name] = float(numbers.abs().max() or 0)  # type: ignore[arg-type]
    pool, frame = kinds.get(Role.SCORE, []), table.frame
    fractions = sum(frame[name].dtype.is_float() and tallest[name] <= 1 for name in pool) > 1
    staged = sum(bool(parse_score(name).stage) for name in pool) > 1
    reasons: dict[str, str] = {}  # why columns of unknown names are no scores, judged by their values
    for values in (frame[name] for name in pool if roles[name] is None and plain(name) not in IN_DOMAIN):
        whole, high = values.dtype.is_integer(), tallest[values.name]
        if values.dtype == pl.Boolean or (values.dtype == pl.String and not values.str.contains(r"\d").any()):
            reasons[values.name] = FLAG
        # Numbers of rows may be in any order, from 0 or from 1.
        elif whole and len(values) >= 10 and values.n_unique() == len(values) == high + (values == 0).any():
            reasons[values.name] = NUMBERED
        elif high > 100 or (whole and fractions and values.n_unique() > 1):
            reasons[values.name] = LARGE if high > 100 else WHOLE
        elif staged:
            reasons[values.name] = UNSTAGED
    if len(reasons) < len(pool):
        pool = [name for name in pool if name not in reasons]
        ignored |= reasons
    if len(pool) > 2 and (overall := [name for name in pool if plain(name) in OVERALL]):
        pool = [name for name in pool if name not in overall]
        ignored |= dict.fromkeys(overall, str(Role.AVERAGE))
    for role in (Role.AVERAGE, Role.LOSS, Role.TRAINING):
        pool = pool or kinds.get(role, [])
    return pool


def in_domain_column(pool: Sequence[str], frame: pl.DataFrame) -> tuple[str, ...]:
    """The in-domain score: said by its name, by a column of training sets, or a well-known training set; or none."""
    parsed = {name: parse_score(name) for name in pool}
    codes = sum(len(parts.testset) == 2 for parts in parsed.values()) > 2  # languages, of which id is one
    explicit = [name for name in pool if {plain(name), parsed[name].testset} & IN_DOMAIN and not codes]
    train = [name for name in frame.columns if plain(name) in ("train_set", "training_set", "train_data", "trained_on")]
    if explicit or train:
        sets = {dataset_of(str(value)) for value in frame[train[0]].drop_nulls().unique()} if not explicit else set()
        own = explicit or [name for name in pool if sets == {dataset_of(name)}]
        return (own[0],) if len(own) == 1 else ()
    held_out = [name for name in pool if parsed[name].stage in VALIDATION]
    if len(held_out) == 1 < len(pool) and (not parsed[held_out[0]].testset or dataset_of(held_out[0]) in TRAINING_SETS):
        return (held_out[0],)
    # Runs are often named after what they were trained on, and then the names decide.
    names = " ".join(str(value).lower() for column in frame.select(pl.col(pl.String)) for value in column.unique())
    said = {trained for trained in TRAINING_SETS if trained in names}
    for trained, shifts in TRAINING_SETS.items():
        own = [name for name in pool if dataset_of(name) == trained and said <= {trained}]
        if own and any(dataset_of(name) in shifts for name in pool):
            return (own[0],) if len(own) == 1 else ()
    return ()


def distinct_scores(
    table: Table, chosen: Sequence[str], controls: Sequence[str], ignored: dict[str, str]
) -> tuple[str, ...]:
    """Test sets without means of others, each with one score; several are asked about."""
    sets: dict[str, list[str]] = {}
    for name in chosen:
        sets.setdefault(parse_score(name).testset, []).append(name)
    raw = {name for names in sets.values() if len(names) == 2 for name in names if parse_score(name).metric == "raw"}
    means = _means(table, [*(name for name in chosen if name not in raw), *controls]) - {*controls}
    ignored |= dict.fromkeys(sorted(raw), RAW) | dict.fromkeys(sorted(means), MEAN)
    sets = {key: [name for name in names if name not in raw | means] for key, names in sets.items()}
    if several := [names for names in sets.values() if len(names) > 1]:
        first = several[0]
        raise InputError(
            f"{table.name}: {listed(first, 4)} seem to be scores of one test set. Choose with --testsets, for "
            f"instance --testsets '{_wildcard(sets)}'"
        )
    return tuple(name for name in chosen if name not in raw | means)


def _wildcard(sets: Mapping[str, Sequence[str]]) -> str:
    """A pattern that takes one score of every test set, or the names of such scores."""
    groups = [group for group in sets.values() if group]
    first = next(group[0] for group in groups if len(group) > 1)
    stage, _, metric = parse_score(first)
    size = len(metric or stage)
    for pattern in (f"*{first[-size - 1 :]}", f"{first[: len(stage) + 1]}*"):
        if all(len(fnmatch.filter(group, pattern)) == 1 for group in groups):
            return pattern
    return ",".join(group[0] for group in groups)


def _means(table: Table, columns: Sequence[str]) -> set[str]:
    """Columns that are weighted means of others, exactly but for rounding.

    Non-negative least squares finds the weights. It is asked only where columns depend linearly on each other, and not
    where there are hardly more rows than columns, which would fit anything.
    """
    rows = table.frame.select(table.numbers(name) for name in columns).drop_nulls().to_numpy()
    if len(rows) > 2 < len(columns):  # the mean of all others shows in a few rows
        others = (rows.sum(axis=1, keepdims=True) - rows) / (len(columns) - 1)
        near = (np.abs(rows - others) <= 0.006 * max(1.0, np.abs(rows).max() / 100)).all(axis=0) & (np.ptp(rows, 0) > 0)
        if near.sum() == 1:
            return {columns[int(near.argmax())]}
    if not 2 < len(columns) <= MOST_COLUMNS or len(rows) < max(FEWEST_ROWS, 2 * len(columns)):
        return set()
    spread = rows.std(axis=0)
    varied = rows[:, spread > 0]
    if varied.shape[1] < 3 or np.linalg.eigvalsh(np.corrcoef(varied.T))[0] > 1e-3:
        return set()
    from scipy.optimize import nnls  # takes a while to load, and is rarely needed

    means = set()
    triangle = np.linalg.qr(rows).R
    for place, name in enumerate(columns):
        others = [k for k in range(len(columns)) if k != place]
        weights, error = nnls(triangle[:, others], triangle[:, place])
        exact = (
            spread[place] > 0 and error < 0.01 * spread[place] * np.sqrt(len(rows)) and abs(weights.sum() - 1) < 0.01
        )
        if exact and (weights > 0.01).sum() > 1:
            means.add(name)
    return means
