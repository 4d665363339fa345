"""Which run and which checkpoint a row of a table of scores is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from breadth.errors import InputError, listed
from breadth.sources.reshaping import Roles, refuse_repeats
from breadth.sources.tables import Table
from breadth.sources.vocabulary import Role, place_of
from breadth.sources.vocabulary_data import plain

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

#: Ends of names of columns that hold points in time.
TIMES = ("timestamp", "wall_time", "date", "datetime", "created_at")


class RowIdentity(NamedTuple):
    """Groups and order of rows. ``frame`` has a row per group and place; ``size`` says how many there are."""

    frame: pl.DataFrame
    by: tuple[str, ...]
    order: str | None
    size: str


def identify_rows(
    table: Table,
    roles: Roles,
    scores: Sequence[str],
    by: Sequence[str] | None,
    order: str | None,
    *,
    ordered: bool = True,
    whole: bool = False,
) -> RowIdentity:
    """Find the columns that name the group of a row and its place in it.

    ``by`` and ``order`` are given or None; there is no order unless ``ordered``. Rows without any score are dropped and
    those that complete each other are merged, unless the table is to stay ``whole``.
    """
    frame = table.frame
    if scores and not whole:
        frame = frame.filter(pl.any_horizontal(pl.col(scores).is_not_null()))
    unique = None
    if order is None:
        unique = _unique_names(frame, roles)
    places = _places(table, frame, roles, by or (), order, ordered)
    frame = frame.with_columns(values for values in places.values() if values is not None)
    orders = []
    if order is not None:
        orders = [order]
    elif ordered:
        # Names that differ in every row are names of models, unless they hold checkpoints or other columns say which
        # run a row belongs to.
        if by is not None or unique is None or _are_checkpoints(table, frame, roles, unique, places):
            orders = _usable_orders(places)
        else:
            split = _split_names(frame, unique)
            if split is not None:
                frame, roles, orders = split, {**roles, "run": Role.RUN, "step": Role.ORDER}, ["step"]
    if not orders:
        if by is None and ordered and unique is None:
            _refuse_times(table, frame, roles)
        return _identify_unordered(table, frame, roles, unique, by)
    return _identify_ordered(table, frame, roles, scores, by, order, orders, whole)


def _identify_ordered(
    table: Table,
    frame: pl.DataFrame,
    roles: Roles,
    scores: Sequence[str],
    by: Sequence[str] | None,
    order: str | None,
    orders: Sequence[str],
    whole: bool,
) -> RowIdentity:
    """Checkpoints of runs: the first of ``orders`` with which no two rows are about the same checkpoint."""
    choices = []
    for name in orders:
        groups = _find_groups(frame, roles, name, scores) if by is None else list(by)
        choices.append((groups, name))
    fitting = [(groups, name) for groups, name in choices if not _conflicts(frame, [*groups, name], scores)]
    groups, place = (fitting or choices)[0]
    if order is None:
        _refuse_disagreement(table, frame, groups, orders, place)
    keys = [*groups, place]
    if frame[place].null_count():
        _refuse_empty_place(table, place, scores)
    if frame.select(keys).is_duplicated().any():
        if whole or not fitting:
            others = frame.select(name for name in frame.columns if name not in scores)
            refuse_repeats(others, keys, Table(others, table.name), groups)
        frame = frame.group_by(keys, maintain_order=True).agg(pl.all().drop_nulls().first())
    if not groups:
        return RowIdentity(frame, (), place, f"{_counted(frame.height, place, Role.ORDER)} ({place})")
    lengths = frame.group_by(groups).agg(pl.len().alias("__n"))["__n"]
    steps = f"{_counted(lengths.max(), place, Role.ORDER)} ({place})"
    if lengths.n_unique() > 1:
        steps = f"up to {steps}"
    runs = f"{_counted(len(lengths), groups[0], roles[groups[0]])} ({', '.join(groups)})"
    return RowIdentity(frame, tuple(groups), place, f"{runs} x {steps}")


def subject_columns(frame: pl.DataFrame, roles: Roles) -> list[str]:
    """Columns that may name the subject of a row, the likeliest first: known names, row labels, names of their own."""
    known = [name for name in frame.columns if roles[name] in (Role.RUN, Role.MODEL)]
    if known:
        return sorted(known, key=lambda name: (roles[name] is not Role.RUN, place_of(name)))
    texts = [name for name in frame.columns if frame[name].dtype == pl.String and roles[name] in (None, Role.ROW)]
    return sorted(name for name in texts if frame[name].n_unique() == frame.height)


def _unique_names(frame: pl.DataFrame, roles: Roles) -> str | None:
    """The column of names of which every row has its own."""
    for name in subject_columns(frame, roles):
        if frame[name].n_unique() == frame.height:
            return name
    return None


def _places(
    table: Table, frame: pl.DataFrame, roles: Roles, by: Sequence[str], order: str | None, ordered: bool
) -> dict[str, pl.Series | None]:
    """Columns that may order the rows, as numbers; None for those that hold no places in training."""
    if order is not None:
        return {order: _as_places(table, frame[order])}
    if not ordered:
        return {}
    names = [name for name in frame.columns if roles[name] is Role.ORDER and name not in by]
    return {name: _as_places(table, frame[name]) for name in sorted(names, key=place_of)}


def _usable_orders(places: Mapping[str, pl.Series | None]) -> list[str]:
    """Columns whose places differ between rows; complete ones if there are any."""
    varying = {}
    for name, values in places.items():
        if values is not None and values.n_unique() > 1:
            varying[name] = values
    complete = [name for name, values in varying.items() if not values.null_count()]
    return complete or list(varying)


def _are_checkpoints(
    table: Table, frame: pl.DataFrame, roles: Roles, unique: str, places: Mapping[str, pl.Series | None]
) -> bool:
    """Whether rows with names of their own are checkpoints, because another column names runs of several rows each."""
    several = []
    for name in frame.columns:
        if roles[name] in (Role.RUN, Role.MODEL) and 1 < frame[name].n_unique() < frame.height:
            several.append(name)
    steps = [name for name in places if name in frame.columns and frame[name].n_unique() > 1]
    if not several or not steps or roles[unique] is not Role.RUN:
        return bool(several)
    # A table of runs, each with its last step, or checkpoints that have names of their own?
    model, step = several[0], steps[0]
    repeated = frame.select(model, step).is_duplicated().any()
    if repeated or frame.height < FEWEST * frame[model].n_unique():
        return False
    raise InputError(
        f"{table.name}: rows have names of their own ({unique}), but may be checkpoints of each {model}. If so, add "
        f"--by {model} --order {step}; if not, --order none"
    )


def _as_places(table: Table, values: pl.Series) -> pl.Series | None:
    """Places in training as numbers; None if the column holds something else."""
    if values.dtype in (pl.Date, pl.Datetime):
        return values.cast(pl.Datetime).cast(pl.Float64)
    if values.dtype.is_temporal():  # a duration, or a time of day
        return values.to_physical().cast(pl.Float64)
    if values.dtype != pl.String:
        if not values.dtype.is_numeric():
            return None
        _refuse_endless(table, values, values)
        return values
    parts = values.str.strip_chars().str.to_lowercase().str.extract_groups(PLACE).struct.unnest()
    numbers = parts["1"].str.replace_all(",", "").cast(pl.Float64, strict=False)
    numbers = numbers * parts["2"].replace_strict(THOUSANDS, default=None, return_dtype=pl.Float64)
    if numbers.null_count() == len(numbers):
        numbers = _as_times(values)
    others = numbers.is_null() & values.is_not_null()
    if not others.any():
        _refuse_endless(table, values, numbers)
        return numbers.alias(values.name)
    if 2 * others.sum() < len(values):  # a few stray words in a column of places
        row = int(others.arg_max() or 0)
        raise InputError(
            f"{table.name}, column {values.name!r}: {values[row]!r} is not a place in training, as "
            f"{values.filter(~others)[0]!r} is; write its step"
        )
    return None


def _refuse_endless(table: Table, values: pl.Series, places: pl.Series) -> None:
    """Refuse a place in training that is infinite."""
    endless = places.cast(pl.Float64).is_infinite().fill_null(False)
    if endless.any():
        row = int(endless.arg_max() or 0)
        raise InputError(f"{table.place(row, values.name)}: {values[row]!r} is no place in training; write its step")


def _as_times(values: pl.Series) -> pl.Series:
    """Points in time that are written as text; null where a cell is none."""
    try:
        return values.str.slice(0, 19).str.to_datetime(strict=False).cast(pl.Float64)
    except pl.exceptions.ComputeError:  # no cell tells in which form times are written
        return pl.Series(values.name, [None] * len(values), dtype=pl.Float64)


def _split_names(frame: pl.DataFrame, name: str) -> pl.DataFrame | None:
    """Runs and steps from names such as pythia-70m-step1000; None if names hold no checkpoints."""
    parts = frame[name].cast(pl.String).str.extract_groups(CHECKPOINT).struct.unnest()
    runs = parts["1"].alias("run")
    steps = parts["2"].cast(pl.Int64, strict=False).alias("step")
    if steps.null_count() or steps.n_unique() < 3:
        return None
    if 2 * runs.n_unique() > frame.height:  # hardly any run would have a second checkpoint
        return None
    return frame.drop("run", "step", strict=False).with_columns(runs, steps)


def _find_groups(frame: pl.DataFrame, roles: Roles, place: str, scores: Sequence[str]) -> list[str]:
    """Columns that tell runs apart: the first that has several rows per name, and what else it takes."""
    candidates = []
    for role in (Role.RUN, Role.MODEL, Role.CONDITION):
        own = [name for name in frame.columns if roles[name] is role and 1 < frame[name].n_unique() < frame.height]
        candidates += sorted(own, key=place_of)
    groups: list[str] = []
    for name in candidates:
        # A learning rate may be logged along the way; a group it is only if nothing else tells runs apart.
        certain = roles[name] is not Role.CONDITION or not frame[name].dtype.is_float()
        if (groups or not certain) and not _conflicts(frame, [*groups, place], scores):
            continue
        if not groups or frame.select(*groups, name).n_unique() > frame.select(groups).n_unique():
            groups.append(name)
    rank = {Role.MODEL: 0, Role.RUN: 1}
    return sorted(groups, key=lambda name: (rank.get(roles[name] or Role.OTHER, 2), place_of(name)))


def _conflicts(frame: pl.DataFrame, keys: Sequence[str], scores: Sequence[str]) -> bool:
    """Whether rows that share their keys have a score each, so that they cannot complete each other."""
    if not frame.select(keys).is_duplicated().any():
        return False
    if not scores:
        return True
    counts = frame.group_by(keys).agg(pl.col(scores).count())
    return bool(counts.select(pl.max_horizontal(pl.col(scores).max())).item() > 1)


def _refuse_empty_place(table: Table, place: str, scores: Sequence[str]) -> None:
    """Name the first row that has a score and no place in the order."""
    empty = table.frame[place].is_null()
    if scores:
        empty = empty & table.frame.select(pl.any_horizontal(pl.col(scores).is_not_null())).to_series()
    row = int(empty.arg_max() or 0)
    raise InputError(
        f"{table.place(row, place)}: is empty; every row needs its place in the order. Leave such rows out, or use "
        "--order none if rows have no order"
    )


def _refuse_disagreement(
    table: Table, frame: pl.DataFrame, groups: Sequence[str], orders: Sequence[str], place: str
) -> None:
    """Refuse a table with two columns of steps that put the rows of a run in different orders."""
    for other in orders:
        if other == place:
            continue
        differences = pl.col(other).diff()
        if groups:
            differences = differences.over(groups)
        falls = frame.sort([*groups, place, other]).select(differences < 0).to_series()
        if falls.any():
            raise InputError(
                f"{table.name}: columns {place!r} and {other!r} order the checkpoints differently. Choose one with "
                f"--order {place} or --order {other}"
            )


def _identify_unordered(
    table: Table, frame: pl.DataFrame, roles: Roles, unique: str | None, by: Sequence[str] | None
) -> RowIdentity:
    """Rows that are not checkpoints: models, or repetitions within a model."""
    rows = _counted(frame.height, "", None)
    if by is not None:
        if not by:
            return RowIdentity(frame, (), None, rows)
        groups = f"{_counted(frame.select(by).n_unique(), by[0], Role.CONDITION)} ({', '.join(by)})"
        return RowIdentity(frame, tuple(by), None, groups)
    name = unique
    if name is None:
        varying = [column for column in subject_columns(frame, roles) if frame[column].n_unique() > 1]
        if not varying:
            return RowIdentity(frame, (), None, rows)
        name = varying[0]
    distinct = frame[name].n_unique()
    size = f"{_counted(distinct, name, roles[name])} ({name})"
    if distinct == frame.height:
        return RowIdentity(frame, (), None, size)
    if distinct >= MOSTLY * frame.height:
        return RowIdentity(frame, (), None, f"{size} in {rows}")
    _refuse_unnamed_sets(table, frame, roles, name)
    rows_each = frame.group_by(name).len()["len"]
    usual = int(rows_each.median() or 0)  # type: ignore[arg-type]
    if usual < FEWEST:
        raise InputError(
            f"{table.name}: {size} with about {_counted(usual, '', None)} each, too few to correlate within one, and "
            "no column of numbers says in which order they come (--order). Average the rows of each "
            f"{name}, or take all rows as independent with --by none"
        )
    each = _counted(usual, "", None)
    if rows_each.n_unique() > 1:
        each = f"about {each}"
    return RowIdentity(frame, (name,), None, f"{size} x {each}")


def _refuse_unnamed_sets(table: Table, frame: pl.DataFrame, roles: Roles, name: str) -> None:
    """Refuse a table in which a column of text of unknown meaning tells the rows of a subject apart."""
    apart = []
    for other in frame.columns:
        if frame[other].dtype == pl.String and roles[other] is None:
            if not frame.select(name, other).is_duplicated().any():
                apart.append(other)
    if apart:
        raise InputError(
            f"{table.name}: several rows share one {name}, and column {listed(apart)} tells them apart. If it names "
            f"test sets, rename it to testset; if runs, add --by {apart[0]}; if rows are independent, --by none"
        )


def _refuse_times(table: Table, frame: pl.DataFrame, roles: Roles) -> None:
    """Ask about rows that may be checkpoints: they have points in time, and nothing else tells them apart."""
    names = [name for name in subject_columns(frame, roles) if frame[name].n_unique() > 1][:1]
    times = [name for name in frame.columns if roles[name] is Role.TIME and plain(name).endswith(TIMES)]
    if not times or frame.height < 3:
        return
    has_settings = any(roles[name] is Role.CONDITION and frame[name].n_unique() > 1 for name in frame.columns)
    if has_settings or frame.select(*names, times[0]).is_duplicated().any():
        return
    by = f"--by {names[0]} " if names else ""
    raise InputError(
        f"{table.name}: no column has steps, but {times[0]!r} has times. If rows are checkpoints, add {by}--order "
        f"{times[0]}; if they are independent, --order none"
    )


def _counted(number: object, name: str, role: Role | None) -> str:
    """How many of what a column names: 9 runs, 20 steps."""
    if role is Role.ORDER:
        word = plain(name).rpartition("_")[2].removesuffix("s")
        noun = word if word in ("step", "epoch") else "checkpoint"
    elif role in (Role.RUN, Role.MODEL):
        noun = str(role)
    elif role in (None, Role.ROW):
        noun = "row"
    else:
        noun = "group"
    if number != 1:
        noun += "s"
    return f"{number:,} {noun}"
