"""Which run and which checkpoint a row of a table of scores is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from breadth.errors import InputError, listed
from breadth.records.arranging import refuse_repeats
from breadth.records.roles import Role, place_of, plain
from breadth.records.tables import Table

#: Rows of a group below which nothing can be correlated within it.
FEWEST = 4

#: Share of rows with a name of their own from which rows are models, though some names occur twice.
MOSTLY = 0.9

#: A place in training in words: step1000, out/checkpoint-500, 10k, 2.5B tokens; and a name that ends in one.
PLACE = (
    r"^(?:.*?(?:step|checkpoint|ckpt|iter|epoch)[-_= ]?|[a-z _-]*[a-z _=-])?(\d[\d,]*\.?\d*(?:e\+?\d+)?) ?([kmbt]?)"
    r"(?: ?(?:steps?|tokens?))?$"
)
THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
CHECKPOINT = r"(?i)^(.*?)[-_/@.: ]*(?:global_?step|step|checkpoint|ckpt|iter)[-_= ]?(\d+)$"

Roles = Mapping[str, Role | None]


class Identity(NamedTuple):
    """Groups and order of rows. ``frame`` has a row per group and place; ``size`` says how many there are."""

    frame: pl.DataFrame
    by: tuple[str, ...]
    order: str | None
    size: str


def identify(
    table: Table,
    roles: Roles,
    scores: Sequence[str],
    by: Sequence[str] | None,
    order: str | None,
    *,
    ordered: bool = True,
    whole: bool = False,
) -> Identity:
    """Find the columns that name the group of a row and its place in it.

    ``by`` and ``order`` are given or None; there is no order unless ``ordered``. Rows without any score are dropped and
    those that complete each other are merged, unless the table is to stay ``whole``.
    """
    frame = table.frame
    if scores and not whole:
        frame = frame.filter(pl.any_horizontal(pl.col(scores).is_not_null()))
    unique = None
    if order is None:
        names = subject_columns(frame, roles)
        unique = next((name for name in names if frame[name].n_unique() == frame.height), None)
    candidates = [name for name in frame.columns if roles[name] is Role.ORDER and ordered and name not in (by or ())]
    candidates = [order] if order else candidates
    placed = {name: _placed(table, frame[name]) for name in sorted(candidates, key=place_of)}
    frame = frame.with_columns(values for values in placed.values() if values is not None)
    orders = [order] if order else []
    # Names that differ in every row are names of models, unless they hold checkpoints or others say which run it is.
    if order is None and ordered and (by is not None or not unique or _repeated(table, frame, roles, unique, placed)):
        known = {name: values for name, values in placed.items() if values is not None and values.n_unique() > 1}
        orders = [name for name, values in known.items() if not values.null_count()] or list(known)
    elif order is None and ordered and unique and (split := _split_names(frame, unique)) is not None:
        frame, roles, orders = split, {**roles, "run": Role.RUN, "step": Role.ORDER}, ["step"]
    if not orders:
        if by is None and ordered and not unique:
            _refuse_times(table, frame, roles)
        return _unordered(table, frame, roles, unique, by)
    choices = [(_groups(frame, roles, name, scores) if by is None else list(by), name) for name in orders]
    fitting = [choice for choice in choices if not _conflicts(frame, [*choice[0], choice[1]], scores)]
    groups, place = (fitting or choices)[0]
    if order is None:
        _refuse_disagreement(table, frame, groups, orders, place)
    keys = [*groups, place]
    if frame[place].null_count():
        there = table.frame.select(pl.any_horizontal(pl.col(scores).is_not_null())).to_series() if scores else True
        row = int((table.frame[place].is_null() & there).arg_max() or 0)
        raise InputError(
            f"{table.place(row, place)}: is empty; every row needs its place in the order. Leave such rows out, or use "
            "--order none if rows have no order"
        )
    if frame.select(keys).is_duplicated().any():
        if whole or not fitting:
            others = frame.select(name for name in frame.columns if name not in scores)
            refuse_repeats(others, keys, Table(others, table.name), groups)
        frame = frame.group_by(keys, maintain_order=True).agg(pl.all().drop_nulls().first())
    per_group = frame.group_by(groups).agg(pl.len().alias("__n"))["__n"] if groups else pl.Series([frame.height])
    steps = f"{'up to ' * (per_group.n_unique() > 1)}{_count(per_group.max(), place, Role.ORDER)} ({place})"
    many = f"{_count(len(per_group), groups[0], roles[groups[0]])} ({', '.join(groups)}) x " if groups else ""
    return Identity(frame, tuple(groups), place, f"{many}{steps}")


def subject_columns(frame: pl.DataFrame, roles: Roles) -> list[str]:
    """Columns that may name the subject of a row, the likeliest first: known names, row labels, names of their own."""
    if known := [name for name in frame.columns if roles[name] in (Role.RUN, Role.MODEL)]:
        return sorted(known, key=lambda name: (roles[name] is not Role.RUN, place_of(name)))
    texts = [name for name in frame.columns if frame[name].dtype == pl.String and roles[name] in (None, Role.ROW)]
    return sorted(name for name in texts if frame[name].n_unique() == frame.height)


def _repeated(
    table: Table, frame: pl.DataFrame, roles: Roles, unique: str, placed: Mapping[str, pl.Series | None]
) -> bool:
    """Whether a column names runs that have several rows each, beside one that names every row."""
    several = [
        name
        for name in frame.columns
        if roles[name] in (Role.RUN, Role.MODEL) and 1 < frame[name].n_unique() < frame.height
    ]
    steps = [name for name in placed if name in frame.columns and frame[name].n_unique() > 1]
    if not several or not steps or roles[unique] is not Role.RUN:
        return bool(several)
    # A table of runs, each with its last step, or checkpoints that have names of their own?
    model, step = several[0], steps[0]
    if frame.select(model, step).is_duplicated().any() or frame.height < FEWEST * frame[model].n_unique():
        return False
    raise InputError(
        f"{table.name}: rows have names of their own ({unique}), but may be checkpoints of each {model}. If so, add "
        f"--by {model} --order {step}; if not, --order none"
    )


def _placed(table: Table, values: pl.Series) -> pl.Series | None:
    """Places in training as numbers; None if the column holds something else."""
    if values.dtype.is_temporal():
        return values.cast(pl.Datetime).cast(pl.Float64)
    if values.dtype != pl.String:
        return values if values.dtype.is_numeric() else None
    parts = values.str.strip_chars().str.to_lowercase().str.extract_groups(PLACE).struct.unnest()
    numbers = parts["1"].str.replace_all(",", "").cast(pl.Float64, strict=False)
    numbers = numbers * parts["2"].replace_strict(THOUSANDS, default=None, return_dtype=pl.Float64)
    if numbers.null_count() == len(numbers):
        numbers = values.str.slice(0, 19).str.to_datetime(strict=False).cast(pl.Float64)
    others = numbers.is_null() & values.is_not_null()
    if 2 * others.sum() < len(values) and others.any():
        row = int(others.arg_max() or 0)
        raise InputError(
            f"{table.name}, column {values.name!r}: {values[row]!r} is not a place in training, as "
            f"{values.filter(~others)[0]!r} is; write its step"
        )
    return None if others.any() else numbers.alias(values.name)


def _split_names(frame: pl.DataFrame, name: str) -> pl.DataFrame | None:
    """Runs and steps from names such as pythia-70m-step1000; None if names hold no checkpoints."""
    parts = frame[name].cast(pl.String).str.extract_groups(CHECKPOINT).struct.unnest()
    runs, steps = parts["1"].alias("run"), parts["2"].cast(pl.Int64, strict=False).alias("step")
    if steps.null_count() or steps.n_unique() < 3 or 2 * runs.n_unique() > frame.height:
        return None
    return frame.drop("run", "step", strict=False).with_columns(runs, steps)


def _groups(frame: pl.DataFrame, roles: Roles, place: str, scores: Sequence[str]) -> list[str]:
    """Columns that tell runs apart: the first that has several rows per name, and what else it takes."""
    names = [
        name
        for role in (Role.RUN, Role.MODEL, Role.CONDITION)
        for name in sorted((name for name in frame.columns if roles[name] is role), key=place_of)
        if 1 < frame[name].n_unique() < frame.height
    ]
    groups: list[str] = []
    for name in names:
        # A learning rate may be logged along the way; a group it is only if nothing else tells runs apart.
        sure = roles[name] is not Role.CONDITION or not frame[name].dtype.is_float()
        if (groups or not sure) and not _conflicts(frame, [*groups, place], scores):
            continue
        if not groups or frame.select(*groups, name).n_unique() > frame.select(groups).n_unique():
            groups.append(name)
    rank = {Role.MODEL: 0, Role.RUN: 1}
    return sorted(groups, key=lambda name: (rank.get(roles[name] or Role.OTHER, 2), place_of(name)))


def _conflicts(frame: pl.DataFrame, keys: Sequence[str], scores: Sequence[str]) -> bool:
    """Whether rows that share their keys have a score each, so that they cannot complete each other."""
    if not scores or not frame.select(keys).is_duplicated().any():
        return bool(frame.select(keys).is_duplicated().any())
    counts = frame.group_by(keys).agg(pl.col(scores).count())
    return bool(counts.select(pl.max_horizontal(pl.col(scores).max())).item() > 1)


def _refuse_disagreement(
    table: Table, frame: pl.DataFrame, groups: Sequence[str], orders: Sequence[str], place: str
) -> None:
    """Refuse a table with two columns of steps that put the rows of a run in different orders."""
    for other in orders:
        ahead = frame.sort([*groups, place, other]).select(
            (pl.col(other).diff().over(groups) if groups else pl.col(other).diff()) < 0
        )
        if other != place and ahead.to_series().any():
            raise InputError(
                f"{table.name}: columns {place!r} and {other!r} order the checkpoints differently. Choose one with "
                f"--order {place} or --order {other}"
            )


def _unordered(
    table: Table, frame: pl.DataFrame, roles: Roles, unique: str | None, by: Sequence[str] | None
) -> Identity:
    """Rows that are not checkpoints: models, or repetitions within a model."""
    if by is not None:
        groups = f"{_count(frame.select(by).n_unique(), by[0], Role.CONDITION)} ({', '.join(by)})" if by else ""
        size = groups or _count(frame.height, "", None)
        return Identity(frame, tuple(by), None, size)
    names = subject_columns(frame, roles)
    name = unique or next((name for name in names if frame[name].n_unique() > 1), None)
    if name is None:
        return Identity(frame, (), None, _count(frame.height, "", None))
    distinct = frame[name].n_unique()
    size = f"{_count(distinct, name, roles[name])} ({name})"
    if distinct >= MOSTLY * frame.height:
        rows = f" in {_count(frame.height, '', None)}" if distinct < frame.height else ""
        return Identity(frame, (), None, f"{size}{rows}")
    rows_each = frame.group_by(name).len()["len"]
    usual = int(rows_each.median() or 0)  # type: ignore[arg-type]
    texts = [other for other in frame.columns if frame[other].dtype == pl.String and roles[other] is None]
    if apart := [other for other in texts if not frame.select(name, other).is_duplicated().any()]:
        raise InputError(
            f"{table.name}: several rows share one {name}, and column {listed(apart)} tells them apart. If it names "
            f"test sets, rename it to testset; if runs, add --by {apart[0]}; if rows are independent, --by none"
        )
    if usual < FEWEST:
        raise InputError(
            f"{table.name}: {size} with about {_count(usual, '', None)} each, too few to correlate within one. Average "
            f"the rows of each {name}, or correlate over all rows with --by none"
        )
    return Identity(frame, (name,), None, f"{size} x {'about ' * (rows_each.n_unique() > 1)}{_count(usual, '', None)}")


def _refuse_times(table: Table, frame: pl.DataFrame, roles: Roles) -> None:
    """Ask about rows that may be checkpoints: they have points in time, and nothing else tells them apart."""
    names = [name for name in subject_columns(frame, roles) if frame[name].n_unique() > 1][:1]
    ends = ("timestamp", "wall_time", "date", "datetime", "created_at")
    times = [name for name in frame.columns if roles[name] is Role.TIME and plain(name).endswith(ends)]
    told = any(roles[name] is Role.CONDITION and frame[name].n_unique() > 1 for name in frame.columns)
    if times and not told and frame.height > 2 and not frame.select(*names, times[0]).is_duplicated().any():
        by = f"--by {names[0]} " if names else ""
        raise InputError(
            f"{table.name}: no column has steps, but {times[0]!r} has times. If rows are checkpoints, add {by}--order "
            f"{times[0]}; if they are independent, --order none"
        )


def _count(number: object, name: str, role: Role | None) -> str:
    """How many of what a column names: 9 runs, 20 steps."""
    if role is Role.ORDER:
        word = plain(name).rpartition("_")[2].removesuffix("s")
        noun = word if word in ("step", "epoch") else "checkpoint"
    else:
        noun = str(role) if role in (Role.RUN, Role.MODEL) else "row" if role in (None, Role.ROW) else "group"
    return f"{number:,} {noun}{'s' * (number != 1)}"
