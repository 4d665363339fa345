"""Load a set as one canonical frame with its task: by name (generated, from a local file or from the Hub), or a file.

The Hub is read through the `datasets` library, which downloads a set once and then uses its cache.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, get_args

import polars as pl
from pydantic import ValidationError

from breadth.datasets.canonical import (
    Entry,
    FileLayout,
    canonical,
    check_labels,
    identify,
    require_columns,
    with_choices,
    with_options,
)
from breadth.datasets.examples import Parts, draw_items, drop_shared_texts, halve, part
from breadth.datasets.registry import LOCAL_COPY, cache_directory, find, find_file, is_cached
from breadth.datasets.suite import generate
from breadth.datasets.tasks import DEFAULT_KIND, KINDS, Task
from breadth.errors import InputError, did_you_mean, listed
from breadth.records import check_shift, shift_hint
from breadth.sources import Table, read_table

Split = Literal["test", "train", "all"]
#: Size of a generated set by default.
GENERATED_ITEMS = 2000
#: Seconds to wait for the Hub; without a network, the message should come soon.
TIMEOUT = 10.0
_YES = {"1", "ON", "YES", "TRUE"}


class ItemSet(Protocol):
    """Items and how they are scored, all that encoding or asking them takes; :class:`Loaded` is one."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def task(self) -> Task:
        """How it is scored."""

    @property
    def frame(self) -> pl.DataFrame:
        """Its items."""


@dataclass(frozen=True)
class Loaded:
    """A set that is ready to use.

    ``frame`` has columns item, testset, shift, label, the fields of the task's template, options and option_labels
    where items have options, and every other column of the file; rows are sorted by item. ``source`` says where it
    came from and how test and train were split, ``notes`` what was dropped. ``halved`` is true if train and test are
    halves of one pool.
    """

    name: str
    shift: str
    task: Task
    frame: pl.DataFrame
    source: str
    notes: tuple[str, ...] = ()
    halved: bool = False

    @property
    def parts(self) -> tuple[Loaded, ...]:
        """The sets that it consists of, as a ``Mixture`` has several: this one."""
        return (self,)


@dataclass(frozen=True)
class Mixture:
    """Training examples of several sets, each with a task of its own."""

    name: str
    parts: tuple[Loaded, ...]


#: Training examples: of one set, or of a mixture.
Examples: TypeAlias = Loaded | Mixture


def load(
    name: str,
    split: Split = "test",
    *,
    data: str | os.PathLike[str] | None = None,
    items: int | None = None,
    seed: int = 0,
) -> Loaded:
    """Load a set by name: generated, else from a local directory, else from the Hub.

    The directory is ``data`` or the environment variable BREADTH_DATA; it (or nli/ or qa/ in it) contains
    NAME.parquet, .jsonl, .csv or .tsv. The column ``split`` of a file tells train from test, by the names in the
    registry or common variants (test, validation, dev; train). If there is only one split, one bit of a hash of the
    item id decides: about half and half, never in both, whatever the order of rows. Test items whose texts also occur
    in the train part of the file are dropped. The splits of the Hub are used as they are. ``split="all"`` gives train
    and test together.

    ``items`` draws that many items with ``seed`` (see `draw_items`). A generated set is made from ``seed`` with
    ``items`` items (by default 2,000 per split), and its ids include a seed other than 0.
    """
    check_split(name, split)
    entry = find(name)
    if entry.kind == "generated":
        return _generated(entry, split, items, seed)
    path = find_file(name, data)
    loaded = _from_hub(entry, split) if path is None else _from_file(entry, split, path)
    return loaded if items is None else replace(loaded, frame=draw_items(loaded.frame, items, seed))


def check_split(name: str, split: str) -> None:
    """Refuse an unknown split."""
    if split not in get_args(Split):
        raise InputError(f"{name}: unknown split {split!r}; use one of {listed(get_args(Split))}")


def finish(layout: FileLayout, parts: Parts, split: str, source: str, notes: list[str], where: str) -> Loaded:
    """Drop test items that repeat a train item, check the rest, and return the requested part."""
    train, whole = (side.unique("item", keep="first", maintain_order=True) for side in (parts.train, parts.test))
    test = drop_shared_texts(whole, train, layout.task.texts)
    shared = whole.height - test.height
    if shared and split != "train":
        notes = [*notes, f"dropped {shared:,} test items whose texts are in the train part"]
    chosen = {"test": test, "train": train, "all": pl.concat([train, test])}[split].sort("item")
    if not chosen.height:
        raise InputError(f"{where}: no items are left for {split}; add rows, or a separate train file")
    check_labels(chosen["label"], layout.task, where)
    return Loaded(layout.name, layout.shift, layout.task, chosen, source, tuple(notes), parts.halved)


def _generated(entry: Entry, split: str, items: int | None, seed: int) -> Loaded:
    wanted: tuple[Literal["train", "test"], ...] = ("train", "test") if split == "all" else (split,)  # type: ignore[assignment]
    frame = pl.concat([generate(entry.name, items or GENERATED_ITEMS, seed=seed, split=each) for each in wanted])
    if seed:
        # Other seeds write other texts under the same numbers, so ids must include the seed.
        frame = frame.with_columns(pl.col("item").str.replace(f"^{entry.name}-", f"{entry.name}-s{seed}-"))
    return Loaded(entry.name, entry.shift, entry.task, frame.sort("item"), f"generated, seed {seed}")


def _from_file(entry: Entry, split: str, path: Path) -> Loaded:
    frame, notes = canonical(read_table(path), entry)
    frame, more = identify(frame, entry, str(path))
    parts = part(frame, entry.test_split, entry.train_split, str(path))
    return finish(entry, parts, split, f"{path}: {parts.how}", [*notes, *more], str(path))


def _from_hub(entry: Entry, split: str) -> Loaded:
    frames, notes = {}, []
    for name, hub_split in (("train", entry.train_split), ("test", entry.test_split)):
        if hub_split is not None and (entry.train_split is None or split in (name, "all")):
            table = Table(fetch(entry, hub_split), f"{entry.source} {hub_split}")
            frame, dropped = canonical(table, entry, lenient=True)
            frames[name], more = identify(frame, entry, table.name, by_split=True)
            notes += [*dropped, *more]
    source = f"Hub: {entry.source}"
    if entry.train_split is None:
        halves = halve(frames["test"])
        return finish(entry, halves, split, f"{source} {entry.test_split}, {halves.how}", notes, source)
    chosen = pl.concat(frames.values(), how="diagonal_relaxed").unique("item", keep="first").sort("item")
    check_labels(chosen["label"], entry.task, source)
    splits = {"train": entry.train_split, "test": entry.test_split}
    source = f"{source}, split {' and '.join(splits[name] for name in frames)}"
    return Loaded(entry.name, entry.shift, entry.task, chosen, source, tuple(notes))


def fetch(entry: Entry, split: str) -> pl.DataFrame:
    """One split of a set on the Hub (all its configurations), with the Hub's columns and labels.

    The Hub is contacted once, for at most ten seconds; if it cannot be reached (or with HF_HUB_OFFLINE=1) only the
    cache is used. Every failure is one `InputError` that says what to do.
    """
    try:
        import datasets
    except ImportError as error:
        raise InputError(f"{entry.name}: reading from the Hub needs more packages; install breadth[lm]") from error
    offline = any(os.environ.get(name, "").upper() in _YES for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"))
    reason = "HF_HUB_OFFLINE is set" if offline else _unreachable(entry)
    if reason and not is_cached(entry) and not Path(str(entry.hub)).is_dir():
        raise _failure(entry, reason)
    try:
        with _cache_only() if reason else contextlib.nullcontext():
            parts = [_load_from_hub(datasets, entry, config, split) for config in entry.configs]
    except Exception as error:  # the libraries raise many exception types, none of them an error in breadth
        raise _failure(entry, _first_words(error, 200)) from error
    return pl.concat(parts, how="diagonal_relaxed").with_columns(pl.lit(split).alias("split"))


def _load_from_hub(datasets: Any, entry: Entry, config: str | None, split: str) -> pl.DataFrame:
    try:
        dataset = datasets.load_dataset(entry.hub, config, split=split)
    except RuntimeError as error:
        if "scripts are no longer supported" not in str(error):
            raise
        # Old sets are scripts, which are never run; the Hub keeps a Parquet copy on a separate branch.
        copy = f"hf://datasets/{entry.hub}@~parquet/{config or '*'}/{split}/*.parquet"
        dataset = datasets.load_dataset("parquet", data_files={split: copy}, split=split)
    frame = pl.from_arrow(dataset.data.table)
    assert isinstance(frame, pl.DataFrame)
    frame = frame if dataset._indices is None else frame[dataset._indices.column(0).to_pylist()]
    return frame if len(entry.configs) == 1 else frame.with_columns(pl.lit(config).alias("subtask"))


def _unreachable(entry: Entry) -> str:
    """Why the Hub cannot be used; empty if it can."""
    from huggingface_hub import HfApi

    try:
        HfApi().dataset_info(str(entry.hub), timeout=TIMEOUT)
    except Exception as error:
        return f"the Hub did not answer ({_first_words(error, 120)})"
    return ""


def _first_words(error: Exception, length: int) -> str:
    return " ".join(str(error).split())[:length] or type(error).__name__


@contextlib.contextmanager
def _cache_only() -> Iterator[None]:
    """Make the libraries read their cache without retrying the network."""
    import datasets.config
    import huggingface_hub.constants

    settings = [(datasets.config, "HF_HUB_OFFLINE"), (huggingface_hub.constants, "HF_HUB_OFFLINE")]
    before = [getattr(module, name, False) for module, name in settings]
    for module, name in settings:
        setattr(module, name, True)
    try:
        yield
    finally:
        for (module, name), value in zip(settings, before, strict=True):
            setattr(module, name, value)


def _failure(entry: Entry, reason: str) -> InputError:
    return InputError(
        f"{entry.name}: not in a data directory and not in the cache ({cache_directory()}), and {entry.source} could "
        f"not be downloaded: {reason}. To work offline, {LOCAL_COPY.format(name=entry.name)}, or use a generated set "
        "(`breadth ls datasets`)"
    )


def load_own(
    name: str,
    *,
    file: Any,
    shift: str = "domain",
    fields: Mapping[str, str] | None = None,
    label: str = "label",
    labels: Mapping[str, str] | None = None,
    item: str | None = None,
    train_file: Any = None,
    kind: str = DEFAULT_KIND,
    pattern: str | None = None,
    prompt: str | None = None,
    train_prompt: str | None = None,
    completion: str | None = None,
    choice_format: str | None = None,
    shorten: str | None = None,
    options: str | None = None,
    split: Split = "test",
    **keys: Any,
) -> Loaded:
    """Load a file, or a pandas or polars frame, as the set ``name``, with the same rules for ids and checks as `load`.

    ``prompt`` has columns in braces (``pattern`` is its older name); ``train_prompt`` replaces it in training, and
    ``completion`` is the text to train on, with columns in braces. ``choice_format`` is a line of ``{choices}``, as
    ``"{letter}) {text}"``. ``fields`` maps fields of the prompt to columns (only where names differ), ``labels`` raw
    labels to labels.
    ``item`` is the column of ids; by default the column ``id`` or ``item``, or else a hash of the texts. ``options``
    is the column with the options of a choice: a list, or a list written as text; the label is the letter, the text
    or the position (from 0) of the correct one. With ``train_file`` all of ``file`` is for testing, and items that
    also occur in ``train_file`` are dropped. ``keys`` are those of the scoring kind: ``answers`` (label to answer
    words) for pattern, ``choices`` and ``normalise`` for choice, ``extract``, ``metric``, ``max_tokens`` and ``stop``
    for generate. ``shift`` is any short word; a note asks about one that looks like a misspelt one.
    """
    check_split(name, split)
    try:
        check_shift(shift)
    except InputError as error:
        raise InputError(f"{name}: shift {error}") from error
    if prompt is not None and pattern is not None:
        raise InputError(f"{name}: prompt and pattern are two names for the same; give one of them")
    common = {
        "pattern": pattern if prompt is None else prompt,
        "train_prompt": train_prompt,
        "completion": completion,
        "choice_format": choice_format,
        "shorten": shorten,
    }
    task = _own_task(name, kind, common, keys)
    column = options or ("options" if task.uses_options else None)
    layout = FileLayout(
        name=name, shift=shift, task=task, columns=dict(fields or {}), label=label,
        labels=None if labels is None else dict(labels.items()), item=item, explicit=True,
        prepare=None if column is None else lambda table: with_choices(with_options(table, column, label)),
    )  # fmt: skip
    table = _table_of_set(file, name)
    frame, notes = _read_part(table, "test", layout, one_file=train_file is None)
    if train_file is not None:
        train_table = _table_of_set(train_file, f"{name} (train)")
        other, more = _read_part(train_table, "train", layout, one_file=False)
        frame, notes = pl.concat([frame, other], how="diagonal_relaxed"), [*notes, *more]
    frame, more = identify(frame, layout, table.name)
    parts = part(frame, "test", "train", table.name)
    source = f"{table.name}: {parts.how}"
    if train_file is not None:
        train, test = (frame.filter(pl.col("split") == name) for name in ("train", "test"))
        parts, source = Parts(train, test, "two files"), f"{table.name} (train: {train_table.name})"
    hint = shift_hint(shift)
    asked = [f"shift {shift!r} is not one of the usual words. {hint}"] if hint else []
    return finish(layout, parts, split, source, [*notes, *more, *asked], table.name)


def _table_of_set(source: Any, name: str) -> Table:
    """A file, or a frame that messages call by the name of the set."""
    table = read_table(source, name)
    return table if isinstance(source, str | os.PathLike) else replace(table, name=name)


def _read_part(table: Table, split: str, layout: FileLayout, one_file: bool) -> tuple[pl.DataFrame, list[str]]:
    for name, column in layout.columns.items():
        require_columns(table, [column], f"field {name!r} of the pattern")
    frame, notes = canonical(table, layout)
    return (frame if one_file else frame.with_columns(pl.lit(split).alias("split"))), notes


def _own_task(name: str, kind: str, common: Mapping[str, Any], keys: Mapping[str, Any]) -> Task:
    if kind not in KINDS:
        raise InputError(f"{name}: unknown kind {kind!r}; use one of {listed(KINDS)}")
    defaults = {key: field.default for each in KINDS.values() for key, field in each.Keys.model_fields.items()}
    own = KINDS[kind].Keys.model_fields
    for key, value in keys.items():
        if key not in defaults:
            raise InputError(f"{name}: unknown option {key!r}.{did_you_mean([key], defaults)}")
        if key not in own and value != defaults[key]:
            raise InputError(f"{name}: option {key!r} does not apply to kind {kind}; remove it or change kind")
    try:
        values = KINDS[kind].Keys(**{key: value for key, value in keys.items() if key in own})
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    task = KINDS[kind].from_keys({**common, **values.model_dump()})
    task.check(name)
    return task
