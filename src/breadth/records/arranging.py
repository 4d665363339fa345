"""Tables of other shapes as the two that are analysed: a row per checkpoint with a column per test set, or answers.

Long tables are widened, exports of W&B charts unrolled, transposed tables turned, other names of ``item`` and
``correct`` replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from breadth.errors import InputError, listed
from breadth.records.roles import LOSSES, METRICS, Role, is_bare, place_of, plain, role_of
from breadth.records.schemas import KEY_COLUMNS
from breadth.records.tables import Table, numbers_in

#: What the names of language models look like: an owner and a slash, a size, or a well-known family.
MODEL_NAME = re.compile(
    r"^[\w.-]+/[\w.-]+$|\b\d+(\.\d+)?[bBmM]\b|llama|qwen|mistral|mixtral|gemma|gpt|pythia|falcon|claude|bert|phi-\d|opt-\d|olmo",
    re.IGNORECASE,
)

#: Roles of columns that say which subject a row is about.
IDENTITY = (Role.RUN, Role.MODEL, Role.CONDITION, Role.ORDER)

#: Columns that name training sets as often as test sets.
EITHER = frozenset({"dataset", "dataset_name", "data_set", "subset", "split"})

#: Between the name of a run and that of a value in the export of a W&B chart, and the ends of its ranges.
CHART, RANGE = " - ", "__MIN"


@dataclass(frozen=True)
class Arranged:
    """A table in one of the two shapes.

    ``answers`` says which; ``renamed`` maps columns to the names they were given, ``taken`` the columns of the original
    to what they were taken for, ``ignored`` those that were left out to the reason.
    """

    table: Table
    answers: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, Role] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)


def arrange(table: Table, keys: Collection[str] = (), scores: Collection[str] = ()) -> Arranged:
    """Bring a table into shape. ``keys`` and ``scores`` are columns that the user named: they stay what they are."""
    if any(name.endswith(RANGE) for name in table.frame.columns):
        table = _unrolled(table)
    frame = table.frame
    if repeated := [
        name for name in frame.columns if re.search(r"_duplicated_\d+$", name) and not name.startswith("_")
    ]:
        again = repeated[0].rpartition("_duplicated_")[0]
        raise InputError(f"{table.name}: two columns are called {again!r}; rename one")
    roles = roles_in(frame, keys)
    of = {role: sorted((name for name in roles if roles[name] is role), key=place_of) for role in Role}
    values = [name for name in frame.columns if is_bare(name) and name not in keys]
    named = [name for name in (*of[Role.SCORE], *of[Role.LOSS]) if name not in values]
    if not values and not named and not of[Role.CORRECT] and of[Role.ITEM] + of[Role.TESTSET]:
        return _turned(table, roles, of[Role.ITEM], of[Role.TESTSET])
    if any(name in frame.columns for name in scores) or not values:
        return Arranged(table)
    items = sorted(of[Role.ITEM], key=lambda name: (name != "item", -frame[name].n_unique()))
    right = [name for name in of[Role.CORRECT] if numbers_of(frame[name]) is not None] or of[Role.CORRECT]
    if not items and right:
        subjects = frame.select(of[Role.RUN] + of[Role.MODEL])
        one = subjects.n_unique() <= 1 if subjects.width else True
        items = [name for name in of[Role.ROW] if name.strip() and (one or frame[name].n_unique() < frame.height)]
    if items:
        ranks = {name: rank for rank, name in enumerate((*METRICS, *LOSSES))}
        best = sorted(values, key=lambda name: (ranks.get(plain(name), len(ranks)), name))
        return _answers(table, roles, items[0], right or best, of[Role.TESTSET])
    if (of[Role.TESTSET] or of[Role.METRIC]) and not named:
        best = [name for name in values if roles[name] is not Role.LOSS] or values
        return _widened(table, roles, best, keys)
    return Arranged(table)


def are_answers(columns: Iterable[str]) -> bool:
    """Whether columns are those of a long table of answers, by their names."""
    roles = {role_of(name) for name in columns}
    return {Role.ITEM, Role.CORRECT} <= roles


def roles_in(frame: pl.DataFrame, keys: Collection[str] = ()) -> dict[str, Role | None]:
    """What every column is by its name, and by its content where the name can mean two things."""
    roles = {name: role_of(name) for name in frame.columns}
    roles |= {name: Role.CONDITION for name in keys if name in roles and roles[name] not in IDENTITY}
    others = [name for name, role in roles.items() if role in (Role.MODEL, Role.RUN) and plain(name) != "subject"]
    for name, role in roles.items():
        if role is Role.ROW and frame[name].dtype.is_float():
            roles[name] = Role.SCORE if (frame[name] % 1 != 0).any() else role
        # A subject is a model at a checkpoint, but in MMLU it is a field of knowledge, on which all models are tested.
        elif plain(name) == "subject" and others and Role.TESTSET not in roles.values():
            crossed = frame.select(name, others[0]).n_unique() > frame[name].n_unique()
            roles[name] = Role.TESTSET if crossed else role
    return roles


def _unrolled(table: Table) -> Table:
    """The export of a W&B chart, ``Step, run-1 - eval/acc, run-1 - eval/acc__MIN, ...``, as a row per run and step."""
    columns = table.frame.columns
    series = [name for name in columns if f"{name}{RANGE}" in columns]
    axes = [name for name in columns if name not in series and not name.endswith((RANGE, "__MAX"))]
    parts: dict[str, list[tuple[str, str]]] = {}
    for name in series:
        run, _, metric = name.rpartition(CHART)
        parts.setdefault(run, []).append((name, metric))
    frames = [
        table.frame.select(
            *axes, pl.lit(run).alias("run"), *(table.numbers(name).alias(metric) for name, metric in own)
        )
        for run, own in parts.items()
    ]
    return replace(table, frame=pl.concat(frames, how="diagonal_relaxed"), header_lines=0)


def _turned(table: Table, roles: Mapping[str, Role | None], items: list[str], sets: list[str]) -> Arranged:
    """A table with a row per item or test set and a column per subject, turned around; other tables as they are."""
    frame, name = table.frame, (items + sets)[0]
    columns = [
        column
        for column, values in zip(frame.columns, frame.iter_columns(), strict=True)
        if roles[column] is None and numbers_of(values) is not None
    ]
    if len(columns) < 2 or frame[name].n_unique() < frame.height or frame[name].null_count():
        return Arranged(table)
    labels = frame[name].cast(pl.String).to_list()
    models = sum(bool(MODEL_NAME.search(column)) for column in columns)
    if not items and plain(name) in EITHER and 2 * models <= len(columns):
        if set(labels) & set(columns):
            return Arranged(table)
        raise InputError(
            f"{table.name}: column {name!r} may name what a row was trained on or what it was tested on. Rename it to "
            "train_set or to testset"
        )
    numbers = pl.DataFrame([Table(frame, table.name, table.header_lines).numbers(column) for column in columns])
    turned = numbers.transpose(include_header=True, header_name="model", column_names=labels)
    ignored = {column: str(roles[column] or "text") for column in frame.columns if column not in (name, *columns)}
    taken = {name: Role.ITEM if items else Role.TESTSET, **dict.fromkeys(columns, Role.MODEL)}
    return Arranged(Table(turned, table.name, warnings=table.warnings), bool(items), {}, taken, ignored)


def numbers_of(values: pl.Series, fewest: float = 0.5) -> pl.Series | None:
    """The numbers in a column, if it holds numbers: of text more than a share, so that a stray word is an error."""
    if values.dtype != pl.String:
        known = values.dtype.is_numeric() or values.dtype == pl.Boolean
        return values.cast(pl.Float64).fill_nan(None) if known else None
    numbers, text = numbers_in(values)
    there, other = int(numbers.is_not_null().sum()), int(text.sum())
    return numbers.fill_nan(None) if there > fewest * (there + other) else None


def _joined(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Expr:
    """The name of a test set from one column or several; those that add nothing are left out."""
    kept: list[str] = []
    for name in sorted(columns, key=lambda name: (-frame[name].n_unique(), place_of(name))):
        if not kept or frame.select(*kept, name).n_unique() > frame.select(kept).n_unique():
            kept.append(name)
    parts = [pl.col(name).cast(pl.String).str.strip_chars() for name in sorted(kept, key=place_of)]
    return pl.concat_str(parts, separator="/", ignore_nulls=True)


def _answers(table: Table, roles: Mapping[str, Role | None], item: str, right: list[str], sets: list[str]) -> Arranged:
    """A long table of answers with the names that breadth uses."""
    frame = table.frame
    first = frame[right[0]]
    differing = [name for name in right[1:] if not frame[name].cast(pl.String).eq_missing(first.cast(pl.String)).all()]
    if differing and right[0] != "correct":
        raise InputError(
            f"{table.name}: {listed([right[0], *differing])} may all say whether an answer is right. Rename the one to "
            "use to correct"
        )
    aliases = {"item": [item], "correct": right[:1]}
    for name, role in (("model", Role.MODEL), ("run", Role.RUN), ("step", Role.ORDER)):
        own = sorted((column for column in frame.columns if roles[column] is role), key=place_of)
        if not KEY_COLUMNS.intersection(own):
            aliases[name] = own[:1]
    frame = frame.drop([name for name in ("item", "correct") if name not in aliases[name]], strict=False)
    renamed = {old: new for new, olds in aliases.items() for old in olds if old != new and new not in frame.columns}
    if sets and "testset" not in frame.columns:
        frame = frame.with_columns(_joined(frame, sets).alias("testset"))
    taken = {column: role for column, role in roles.items() if role is not None and role in IDENTITY}
    taken |= {item: Role.ITEM, right[0]: Role.CORRECT, **dict.fromkeys(sets, Role.TESTSET)}
    ignored = {column: "another score" for column in frame.columns if is_bare(column) and column not in right[:1]}
    named = renamed | {name: "testset" for name in sets if name != "testset"}
    return Arranged(replace(table, frame=frame.rename(renamed)), True, named, taken, ignored)


def _widened(table: Table, roles: Mapping[str, Role | None], values: list[str], keys: Collection[str]) -> Arranged:
    """A long table of scores (test set, score; metric, value) with a column per test set."""
    frame = table.frame.with_columns(table.numbers(name) for name in values)
    sets = [name for name in frame.columns if roles[name] is Role.TESTSET]
    metrics = [name for name in frame.columns if roles[name] is Role.METRIC]
    if metrics:
        # lm-evaluation-harness writes the name of a task in its first row only, and indents parts of a group.
        for name in sets:
            frame = frame.with_columns(pl.col(name).forward_fill()) if frame[name][0] is not None else frame
            if frame[name].dtype == pl.String:
                frame = frame.filter(~_is_group(frame[name])).with_columns(pl.col(name).str.replace(r"^\s*- ", ""))
    if len(values) > 1:
        others = [name for name in frame.columns if name not in values]
        frame = frame.unpivot(values, index=others, variable_name="__metric", value_name="__value")
        metrics = [*metrics, "__metric"]
    else:
        frame = frame.with_columns(pl.col(values[0]).alias("__value"))
    metrics = [name for name in metrics if frame[name].n_unique() > 1] or metrics[:1]
    metric = _joined(frame, metrics) if metrics else pl.lit("")
    testset = _joined(frame, sets) if sets else metric
    frame = frame.with_columns(testset.alias("testset"), metric.alias("__metric"))
    if sets and metrics:
        known = [name for name in frame["__metric"].unique() if role_of(str(name)) in (Role.SCORE, None)]
        frame = frame.filter(pl.col("__metric").is_in(known)) if known else frame
        if frame.select("testset", "__metric").n_unique() > frame["testset"].n_unique():
            frame = frame.with_columns(pl.concat_str("testset", "__metric", separator="/"))
    index = [
        name
        for name in table.frame.columns
        if name in keys or (roles[name] in IDENTITY and not (roles[name] is Role.CONDITION and _follows(frame, name)))
    ]
    groups = [name for name in index if roles[name] is not Role.ORDER and frame[name].n_unique() > 1]
    refuse_repeats(frame.drop("__value", "__metric"), [*index, "testset"], table, groups)
    if clash := [name for name in frame["testset"].unique(maintain_order=True) if name in index]:
        raise InputError(f"{table.name}: test set {listed(clash)} has the name of a column; rename one")
    indexed = frame if index else frame.with_columns(pl.lit(0).alias("__all"))
    wide = indexed.pivot(on="testset", index=index or ["__all"], values="__value", maintain_order=True)
    taken = {name: role for name in table.frame.columns if (role := roles[name]) and name in (*index, *sets, *metrics)}
    taken |= dict.fromkeys(values, Role.SCORE)
    ignored = {name: str(roles[name] or "text") for name in table.frame.columns if name not in taken}
    wide = wide.drop("__all", strict=False)
    return Arranged(Table(wide, table.name, warnings=table.warnings), False, {}, taken, ignored)


def _is_group(names: pl.Series) -> pl.Series:
    """Rows of a group of tasks, which is the mean of the indented ones below it."""
    depth = names.str.extract(r"^(\s*- )").str.len_chars().fill_null(0)
    last = names.ne_missing(names.shift(-1))
    after = pl.Series([None] * len(names), dtype=pl.UInt32).zip_with(~last, depth.shift(-1)).backward_fill()
    return (after > depth).fill_null(False)


def _follows(frame: pl.DataFrame, name: str) -> bool:
    """Whether a column says something about test sets: it has one value in each, and not the same in all."""
    return frame[name].n_unique() > 1 and frame.select("testset", name).n_unique() == frame["testset"].n_unique()


def refuse_repeats(frame: pl.DataFrame, keys: Sequence[str], table: Table, by: Sequence[str] = ()) -> None:
    """Refuse rows that are about the same thing, and name the column that may tell them apart besides ``by``."""
    repeated = frame.select(keys).is_duplicated()
    if not repeated.any():
        return
    # A column with another value in every row would make every row a group.
    rest = [name for name in frame.columns if name not in keys and not frame[name].dtype.is_float()]
    rest = [name for name in rest if not frame[name].dtype.is_nested() and frame[name].n_unique() < frame.height]
    if apart := [name for name in rest if not frame.select(*keys, name).is_duplicated().any()]:
        others = [name for name in keys if name not in by]
        groups = (apart[0],) if not frame.select(*others, apart[0]).is_duplicated().any() else (*by, apart[0])
        raise InputError(
            f"{table.name}: several rows share one ({', '.join(keys)}), and column {listed(apart)} tells them apart. "
            f"Add --by {','.join(groups)} so that each series is a group of its own, or keep the rows of one"
        )
    row = int(repeated.arg_max() or 0)
    same = [pl.col(name).eq_missing(pl.lit(frame[name][row], dtype=frame[name].dtype)) for name in keys]
    cell = ", ".join(f"{name}={frame[name][row]}" for name in keys)
    raise InputError(
        f"{table.name}, row {row + 1}: {cell} occurs {frame.filter(pl.all_horizontal(same)).height} times; every "
        f"({', '.join(keys)}) may occur once. Remove the repeats, or average them first"
    )
