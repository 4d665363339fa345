"""Tables of other shapes as the two that are analysed: a row per checkpoint with a column per test set, or answers.

Long tables are widened, exports of W&B charts unrolled, tables with a column per model turned, other names of ``item``
and ``correct`` replaced.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from breadth.errors import InputError, listed
from breadth.records.schemas import KEY_COLUMNS
from breadth.sources.tables import Table, numbers_in
from breadth.sources.vocabulary import LOSSES, METRICS, Role, is_bare, place_of, role_of
from breadth.sources.vocabulary_data import plain

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
CHART = " - "
RANGE_LOW = "__MIN"
RANGE_HIGH = "__MAX"

#: How polars calls a column whose name was there before.
DUPLICATED = re.compile(r"_duplicated_\d+$")

Roles = Mapping[str, Role | None]


@dataclass(frozen=True)
class Reshaped:
    """A table in one of the two shapes.

    ``answers`` says which; ``renamed`` maps columns to the names they were given, ``taken`` the columns of the original
    to what they were taken for, ``ignored`` those that were left out to the reason.
    """

    table: Table
    answers: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, Role] = field(default_factory=dict)
    ignored: Mapping[str, str] = field(default_factory=dict)


def reshape_table(table: Table, keys: Collection[str] = (), scores: Collection[str] = ()) -> Reshaped:
    """Bring a table into shape. ``keys`` and ``scores`` are columns that the user named: they stay what they are."""
    if any(name.endswith(RANGE_LOW) for name in table.frame.columns):
        table = _unroll_chart(table)
    frame = table.frame
    _refuse_duplicated_names(table)
    roles = roles_in(frame, keys)
    values = [name for name in frame.columns if is_bare(name) and name not in keys]
    named_scores = [name for name in _columns_of(roles, Role.SCORE, Role.LOSS) if name not in values]
    item_columns = _columns_of(roles, Role.ITEM)
    testset_columns = _columns_of(roles, Role.TESTSET)
    correct_columns = _columns_of(roles, Role.CORRECT)
    if not values and not named_scores and not correct_columns and (item_columns or testset_columns):
        return _turn_around(table, roles, item_columns, testset_columns)
    user_named_scores = any(name in frame.columns for name in scores)
    if user_named_scores or not values:
        return Reshaped(table)
    right = [name for name in correct_columns if numbers_of(frame[name]) is not None] or correct_columns
    item = _find_item_column(frame, roles, item_columns, has_correct=bool(right))
    if item is not None:
        preference = {name: rank for rank, name in enumerate((*METRICS, *LOSSES))}
        best = sorted(values, key=lambda name: (preference.get(plain(name), len(preference)), name))
        return _rename_answers(table, roles, item, right or best, testset_columns)
    if (testset_columns or _columns_of(roles, Role.METRIC)) and not named_scores:
        accuracies = [name for name in values if roles[name] is not Role.LOSS]
        return _widen(table, roles, accuracies or values, keys)
    return Reshaped(table)


def are_answers(columns: Iterable[str]) -> bool:
    """Whether columns are those of a long table of answers, by their names."""
    roles = {role_of(name) for name in columns}
    return {Role.ITEM, Role.CORRECT} <= roles


def roles_in(frame: pl.DataFrame, keys: Collection[str] = ()) -> dict[str, Role | None]:
    """What every column is by its name, and by its content where the name can mean two things."""
    roles = {name: role_of(name) for name in frame.columns}
    for name in keys:
        if name in roles and roles[name] not in IDENTITY:
            roles[name] = Role.CONDITION
    for name, dtype in frame.schema.items():
        # Lists, objects and bytes name nothing and are no numbers, whatever their column is called.
        if dtype.is_nested() or dtype in (pl.Binary, pl.Object):
            roles[name] = Role.OTHER
    others = [name for name in _columns_of(roles, Role.MODEL, Role.RUN, ordered=False) if plain(name) != "subject"]
    for name, role in roles.items():
        if role is Role.ROW and frame[name].dtype.is_float():
            # A number of a row is whole; what has fractions is a score, whatever it is called.
            if (frame[name] % 1 != 0).any():
                roles[name] = Role.SCORE
        elif plain(name) == "subject" and others and Role.TESTSET not in roles.values():
            # A subject is a model at a checkpoint, but in MMLU it is a field of knowledge: there all models are tested
            # on every subject, so that both columns cross.
            if frame.select(name, others[0]).n_unique() > frame[name].n_unique():
                roles[name] = Role.TESTSET
    return roles


def numbers_of(values: pl.Series, fewest: float = 0.5) -> pl.Series | None:
    """The numbers in a column, if it holds numbers: of text more than a share, so that a stray word is an error."""
    if values.dtype != pl.String:
        if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
            return None
        return values.cast(pl.Float64).fill_nan(None)
    numbers, text = numbers_in(values)
    there = int(numbers.is_not_null().sum())
    other = int(text.sum())
    if there <= fewest * (there + other):
        return None
    return numbers.fill_nan(None)


def refuse_repeats(frame: pl.DataFrame, keys: Sequence[str], table: Table, by: Sequence[str] = ()) -> None:
    """Refuse rows that are about the same thing, and name the column that may tell them apart besides ``by``."""
    repeated = frame.select(keys).is_duplicated()
    if not repeated.any():
        return
    telling = [name for name in frame.columns if name not in keys and _tells_rows_apart(frame, keys, name)]
    if telling:
        without_groups = [name for name in keys if name not in by]
        groups = [*by, telling[0]]
        if not frame.select(*without_groups, telling[0]).is_duplicated().any():
            groups = [telling[0]]
        raise InputError(
            f"{table.name}: several rows share one ({', '.join(keys)}), and column {listed(telling)} tells them apart. "
            f"Add --by {','.join(groups)} so that each series is a group of its own, or keep the rows of one"
        )
    row = int(repeated.arg_max() or 0)
    same = [pl.col(name).eq_missing(pl.lit(frame[name][row], dtype=frame[name].dtype)) for name in keys]
    times = frame.filter(pl.all_horizontal(same)).height
    cell = ", ".join(f"{name}={frame[name][row]}" for name in keys)
    raise InputError(
        f"{table.name}, row {row + 1}: {cell} occurs {times} times; every ({', '.join(keys)}) may occur once. Remove "
        "the repeats, or average them first"
    )


def _tells_rows_apart(frame: pl.DataFrame, keys: Sequence[str], name: str) -> bool:
    """Whether a column distinguishes rows with equal keys, and is more than a number of its own for every row."""
    dtype = frame[name].dtype
    if dtype.is_float() or dtype.is_nested():
        return False
    if frame[name].n_unique() == frame.height:
        return False
    return not frame.select(*keys, name).is_duplicated().any()


def _columns_of(roles: Roles, *wanted: Role, ordered: bool = True) -> list[str]:
    """The columns of some roles, role by role, those with the preferred names first."""
    columns = []
    for role in wanted:
        own = [name for name in roles if roles[name] is role]
        if ordered:
            own.sort(key=place_of)
        columns += own
    if not ordered:
        columns.sort(key=list(roles).index)
    return columns


def _refuse_duplicated_names(table: Table) -> None:
    for name in table.frame.columns:
        if DUPLICATED.search(name) and not name.startswith("_"):
            again = name.rpartition("_duplicated_")[0]
            raise InputError(f"{table.name}: two columns are called {again!r}; rename one")


def _find_item_column(frame: pl.DataFrame, roles: Roles, item_columns: list[str], has_correct: bool) -> str | None:
    """The column that says which item a row is about; None if the table is no long table of answers."""
    if item_columns:
        return min(item_columns, key=lambda name: (name != "item", -frame[name].n_unique()))
    if not has_correct:
        return None
    # Beside a column of answers, a number of the row may be that of the item: if there is one subject only, or if the
    # numbers come back for every subject.
    subjects = frame.select(_columns_of(roles, Role.RUN) + _columns_of(roles, Role.MODEL))
    one_subject = subjects.width == 0 or subjects.n_unique() <= 1
    for name in _columns_of(roles, Role.ROW):
        if name.strip() and (one_subject or frame[name].n_unique() < frame.height):
            return name
    return None


def _unroll_chart(table: Table) -> Table:
    """The export of a W&B chart, ``Step, run-1 - eval/acc, run-1 - eval/acc__MIN, ...``, as a row per run and step."""
    columns = table.frame.columns
    series = [name for name in columns if f"{name}{RANGE_LOW}" in columns]
    axes = [name for name in columns if name not in series and not name.endswith((RANGE_LOW, RANGE_HIGH))]
    metrics_of: dict[str, list[tuple[str, str]]] = {}
    for name in series:
        run, _, metric = name.rpartition(CHART)
        metrics_of.setdefault(run, []).append((name, metric))
    if not series:  # columns with such names, but no values beside them
        return table
    frames = []
    for run, own in metrics_of.items():
        values = [table.numbers(name).alias(metric) for name, metric in own]
        taken = {value.name for value in values} | {"run"}
        kept_axes = [name for name in axes if name not in taken]
        frames.append(table.frame.select(*kept_axes, pl.lit(run).alias("run"), *values))
    return replace(table, frame=pl.concat(frames, how="diagonal_relaxed"), header_lines=0)


def _turn_around(table: Table, roles: Roles, items: list[str], sets: list[str]) -> Reshaped:
    """A table with a row per item or test set and a column per subject, turned around; other tables as they are."""
    frame = table.frame
    name = (items + sets)[0]
    columns = []
    for column in frame.columns:
        if roles[column] is None and numbers_of(frame[column]) is not None:
            columns.append(column)
    if len(columns) < 2 or frame[name].n_unique() < frame.height or frame[name].null_count():
        return Reshaped(table)
    labels = frame[name].cast(pl.String).to_list()
    models = sum(bool(MODEL_NAME.search(column)) for column in columns)
    if not items and plain(name) in EITHER and 2 * models <= len(columns):
        if set(labels) & set(columns):
            return Reshaped(table)
        raise InputError(
            f"{table.name}: column {name!r} may name what a row was trained on or what it was tested on. Rename it to "
            "train_set or to testset"
        )
    if "model" in labels:
        raise InputError(f"{table.name}: column {name!r} holds the name 'model', which is kept for models; rename it")
    numbers = pl.DataFrame([table.numbers(column) for column in columns])
    turned = numbers.transpose(include_header=True, header_name="model", column_names=labels)
    ignored = {}
    for column in frame.columns:
        if column != name and column not in columns:
            ignored[column] = str(roles[column] or "text")
    taken = {name: Role.ITEM if items else Role.TESTSET, **dict.fromkeys(columns, Role.MODEL)}
    return Reshaped(Table(turned, table.name, warnings=table.warnings), bool(items), {}, taken, ignored)


def _joined_name(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Expr:
    """The name of a test set from one column or several; those that add nothing are left out."""
    kept: list[str] = []
    for name in sorted(columns, key=lambda name: (-frame[name].n_unique(), place_of(name))):
        if not kept or frame.select(*kept, name).n_unique() > frame.select(kept).n_unique():
            kept.append(name)
    parts = [pl.col(name).cast(pl.String).str.strip_chars() for name in sorted(kept, key=place_of)]
    return pl.concat_str(parts, separator="/", ignore_nulls=True)


def _rename_answers(table: Table, roles: Roles, item: str, right: list[str], sets: list[str]) -> Reshaped:
    """A long table of answers with the names that breadth uses."""
    frame = table.frame
    for name in right:
        if frame[name].dtype.is_nested():
            raise InputError(
                f"{table.name}, column {name!r}: holds {frame[name].dtype}, not whether an answer is right"
            )
    first = frame[right[0]].cast(pl.String, strict=False)
    differing = [name for name in right[1:] if not frame[name].cast(pl.String, strict=False).eq_missing(first).all()]
    if differing and right[0] != "correct":
        raise InputError(
            f"{table.name}: {listed([right[0], *differing])} may all say whether an answer is right. Rename the one to "
            "use to correct"
        )
    aliases = {"item": item, "correct": right[0]}
    for name, role in (("model", Role.MODEL), ("run", Role.RUN), ("step", Role.ORDER)):
        own = _columns_of(roles, role)
        if own and not KEY_COLUMNS.intersection(own):
            aliases[name] = own[0]
    for name in ("item", "correct"):
        if aliases[name] != name:
            frame = frame.drop(name, strict=False)
    renamed = {}
    for new, old in aliases.items():
        if old != new and new not in frame.columns:
            renamed[old] = new
    if sets and "testset" not in frame.columns:
        frame = frame.with_columns(_joined_name(frame, sets).alias("testset"))
    taken = {column: role for column, role in roles.items() if role is not None and role in IDENTITY}
    taken |= {item: Role.ITEM, right[0]: Role.CORRECT, **dict.fromkeys(sets, Role.TESTSET)}
    ignored = {column: "another score" for column in frame.columns if is_bare(column) and column != right[0]}
    named = renamed | {name: "testset" for name in sets if name != "testset"}
    return Reshaped(replace(table, frame=frame.rename(renamed)), True, named, taken, ignored)


def _widen(table: Table, roles: Roles, values: list[str], keys: Collection[str]) -> Reshaped:
    """A long table of scores (test set, score; metric, value) with a column per test set."""
    frame = table.frame.with_columns(table.numbers(name) for name in values)
    sets = [name for name in frame.columns if roles[name] is Role.TESTSET]
    metrics = [name for name in frame.columns if roles[name] is Role.METRIC]
    if metrics:
        frame = _without_group_rows(frame, sets)
    if len(values) > 1:
        others = [name for name in frame.columns if name not in values]
        frame = frame.unpivot(values, index=others, variable_name="__metric", value_name="__value")
        metrics = [*metrics, "__metric"]
    else:
        frame = frame.with_columns(pl.col(values[0]).alias("__value"))
    metrics = [name for name in metrics if frame[name].n_unique() > 1] or metrics[:1]
    metric = _joined_name(frame, metrics) if metrics else pl.lit("")
    testset = _joined_name(frame, sets) if sets else metric
    frame = frame.with_columns(testset.alias("testset"), metric.alias("__metric"))
    if sets and metrics:
        frame = _name_by_metric(frame)
    index = _index_columns(table, frame, roles, keys)
    groups = [name for name in index if roles[name] is not Role.ORDER and frame[name].n_unique() > 1]
    refuse_repeats(frame.drop("__value", "__metric"), [*index, "testset"], table, groups)
    clash = [name for name in frame["testset"].unique(maintain_order=True) if name in index]
    if clash:
        raise InputError(f"{table.name}: test set {listed(map(str, clash))} has the name of a column; rename one")
    indexed = frame if index else frame.with_columns(pl.lit(0).alias("__all"))
    wide = indexed.pivot(on="testset", index=index or ["__all"], values="__value", maintain_order=True)
    taken: dict[str, Role] = {}
    ignored: dict[str, str] = {}
    for name in table.frame.columns:
        role = roles[name]
        if name in values:
            taken[name] = Role.SCORE
        elif role is not None and name in (*index, *sets, *metrics):
            taken[name] = role
        else:
            ignored[name] = str(role or "text")
    wide = wide.drop("__all", strict=False)
    return Reshaped(Table(wide, table.name, warnings=table.warnings), False, {}, taken, ignored)


def _without_group_rows(frame: pl.DataFrame, sets: Sequence[str]) -> pl.DataFrame:
    """Tasks named in every row, without groups of tasks, which are means of the indented tasks below them.

    lm-evaluation-harness writes the name of a task in its first row only, and indents the parts of a group.
    """
    for name in sets:
        if frame[name][0] is not None:
            frame = frame.with_columns(pl.col(name).forward_fill())
        if frame[name].dtype == pl.String:
            frame = frame.filter(~_is_group(frame[name])).with_columns(pl.col(name).str.replace(r"^\s*- ", ""))
    return frame


def _is_group(names: pl.Series) -> pl.Series:
    """Rows of a group of tasks, which is the mean of the indented ones below it."""
    depth = names.str.extract(r"^(\s*- )").str.len_chars().fill_null(0)
    last = names.ne_missing(names.shift(-1))
    after = pl.Series([None] * len(names), dtype=pl.UInt32).zip_with(~last, depth.shift(-1)).backward_fill()
    return (after > depth).fill_null(False)


def _name_by_metric(frame: pl.DataFrame) -> pl.DataFrame:
    """Test sets with their metric in the name, where a test set has several; rows of known metrics only."""
    known = [name for name in frame["__metric"].unique() if role_of(str(name)) in (Role.SCORE, None)]
    if known:
        frame = frame.filter(pl.col("__metric").is_in(known))
    if frame.select("testset", "__metric").n_unique() > frame["testset"].n_unique():
        frame = frame.with_columns(pl.concat_str("testset", "__metric", separator="/"))
    return frame


def _index_columns(table: Table, frame: pl.DataFrame, roles: Roles, keys: Collection[str]) -> list[str]:
    """Columns that say which checkpoint a row of a long table is about."""
    index = []
    for name in table.frame.columns:
        if name in keys:
            index.append(name)
        elif roles[name] is Role.CONDITION:
            if not _describes_testsets(frame, name):
                index.append(name)
        elif roles[name] in IDENTITY:
            index.append(name)
    return index


def _describes_testsets(frame: pl.DataFrame, name: str) -> bool:
    """Whether a column says something about test sets: it has one value in each, and not the same in all."""
    if frame[name].n_unique() < 2:
        return False
    return frame.select("testset", name).n_unique() == frame["testset"].n_unique()
