"""A study's data: test sets drawn once for all runs, training examples drawn for each run, levels of difficulty.

Training and test items never overlap: the splits of a set share no item, and test items whose text occurs in the
training pool are left out.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.datasets import (
    REGISTRY,
    Examples,
    Loaded,
    Mixture,
    Task,
    draw_examples,
    draw_items,
    hash_items,
    load,
    load_own,
)
from breadth.difficulty import STRATEGIES, sample_items
from breadth.errors import InputError, did_you_mean, listed
from breadth.execute.parts import split_into_parts
from breadth.irt import DEFAULT_LEVELS, calibrate, cut_levels
from breadth.lm import few_shot_text
from breadth.records import TRAINING
from breadth.sources import open_study, read_table
from breadth.study import RunSpec, StudyFile, Train, resolve_task, share_out, training_testset

#: All seeds of a study share one start. Its seed differs from theirs, or seed 0 would repeat the examples of the start.
START_SEED = 1_000_000


class RunData(Protocol):
    """The data of a study's runs: read from files (``StudyData``), or sent to a worker of a cluster."""

    @property
    def testsets(self) -> Mapping[str, Loaded]:
        """Items to evaluate on by test set."""

    def testsets_of(self, run: RunSpec) -> dict[str, Loaded]:
        """What a run is evaluated on by name, in order: the test sets, and its training examples if they are, too."""

    def training(self, run: RunSpec) -> Examples:
        """The training examples of a run."""

    def start(self, run: RunSpec) -> Examples:
        """The examples of a run's start."""

    def keeps_order(self, run: RunSpec) -> bool:
        """Whether every epoch goes through the examples in the given order."""


@dataclass(frozen=True)
class StudyData:
    """Loads a study's data when first needed; ``data`` is a directory with files of registered sets."""

    file: StudyFile
    data: Path | None = None

    @cached_property
    def testsets(self) -> dict[str, Loaded]:
        """Items to evaluate on by test set, the same for every run and checkpoint."""
        return {name: self._testset(name) for name in self.file.study.evaluate.on}

    def testsets_of(self, run: RunSpec) -> dict[str, Loaded]:
        """What a run is evaluated on by name, in order."""
        return run_testsets(run, self)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the data, and how it was split."""
        dropped = [f"{name}: {note}" for name, testset in self.testsets.items() for note in testset.notes]
        return (*dropped, *(f"{name}: {note}" for name, split in self._splits.items() for note in split.notes))

    def training(self, run: RunSpec) -> Examples:
        """The training examples of a run in their order (for few-shot, the examples in its prompt).

        Those of a mixture come set by set; a trainer puts them into an order of its own, as it does for one set.
        """
        if run.mix is not None:
            return self._mixture(run, run.examples or 0, run.seed or 0)
        name, examples, seed = run.train_set or "", run.examples or 0, run.seed or 0
        # All models of a study draw the same, and a draw hashes every item of the pool.
        key = (name, examples, seed, run.train_level, run.strategy)
        if key not in self._draws:
            if name in self._splits:
                self._draws[key] = self._by_difficulty(run, examples, seed)
            else:
                self._draws[key] = draw_examples(self._pools[name].frame, examples, seed)
        return Loaded(name, "in-domain", run.tasks[name], self._draws[key], "")

    def _mixture(self, run: RunSpec, examples: int, seed: int) -> Mixture:
        """Examples of several sets, by their shares."""
        parts = []
        for name, count in share_out(examples, run.mix or {}).items():
            key = (name, count, seed, None, None)
            if key not in self._draws:
                self._draws[key] = draw_examples(self._pools[name].frame, count, seed)
            parts.append(Loaded(name, "in-domain", run.tasks[name], self._draws[key], ""))
        return Mixture(run.train_set or "", tuple(parts))

    def start(self, run: RunSpec) -> Examples:
        """The examples of a run's start: the same for all seeds, levels and strategies."""
        assert run.start is not None
        if run.mix is not None:
            return self._mixture(run, run.start.examples, START_SEED)
        name = run.train_set or ""
        pool = self._splits[name].train if name in self._splits else self._pools[name].frame
        return Loaded(name, "in-domain", run.tasks[name], draw_examples(pool, run.start.examples, START_SEED), "")

    def keeps_order(self, run: RunSpec) -> bool:
        """Whether every epoch goes through the examples in the given order."""
        order = self.file.study.train.order if self.file.study.train else None
        if order is None and run.strategy is not None:
            order = STRATEGIES[run.strategy].order
        return order not in (None, "shuffled")

    @cached_property
    def _draws(self) -> dict[Any, pl.DataFrame]:
        """Training examples that were drawn."""
        return {}

    @cached_property
    def _pools(self) -> dict[str, Loaded]:
        """Training sets, if difficulty plays no role."""
        train = self.file.study.train
        return {name: self._load(name, "train") for name in (train.sets if train and train.difficulty is None else [])}

    @cached_property
    def _splits(self) -> dict[str, LevelSplit]:
        """Training sets split by level of difficulty."""
        train = self.file.study.train
        if train is None or train.difficulty is None:
            return {}
        return {
            name: split_levels(self._load(name, "all"), train, self.file.base, self.file.study.evaluate.seed)
            for name in train.sets
        }

    def _testset(self, name: str) -> Loaded:
        study, split = self.file.study, self._splits.get(name)
        if split is None:
            loaded = self._load(name, "test")
        else:
            loaded = Loaded(name, "in-domain", resolve_task(name, study, REGISTRY), split.test, "")
        frame = loaded.frame
        for pool in (*(pool.frame for pool in self._pools.values()), *(each.train for each in self._splits.values())):
            frame = held_out(frame, pool, loaded.task)
        if not frame.height:
            raise InputError(f"{name}: every test item is also a training item, so none is left to test on")
        dropped = loaded.frame.height - frame.height
        notes = (f"dropped {dropped:,} test items whose texts are in the training data",) if dropped else ()
        drawn = [self._drawn(part, split) for part in self._parts(name, frame)]
        return replace(loaded, frame=pl.concat(drawn), notes=(*loaded.notes, *notes))

    def _drawn(self, frame: pl.DataFrame, split: LevelSplit | None) -> pl.DataFrame:
        """The items of a test set that are evaluated."""
        evaluate = self.file.study.evaluate
        if split is None:
            return draw_items(frame, evaluate.items, evaluate.seed)
        return replace(split, test=frame).draw_test(evaluate.items, evaluate.seed)

    def _parts(self, name: str, frame: pl.DataFrame) -> list[pl.DataFrame]:
        """The items of a set, or of each of its parts if it is split by a column."""
        evaluate = self.file.study.evaluate
        if name not in evaluate.split_by:
            return [frame]
        try:
            parts = split_into_parts(name, frame, evaluate.split_by[name])
            train = self.file.study.train
            trained = train.sets if train and evaluate.training else []
            taken = {*evaluate.on, *map(training_testset, trained)}
            both = [part for part in parts if part in taken]
            if both:
                raise InputError(f"{both[0]} is also the name of another test set; rename one of the two")
        except InputError as error:
            raise self.file.wrong(("evaluate", "split_by", name), str(error)) from error
        return list(parts.values())

    def _load(self, name: str, split: Any) -> Loaded:
        study = self.file.study
        own = study.own_sets.get(name)
        trained = bool(study.train and name in study.train.sets) or any(
            name == each.trained_on for each in study.models
        )
        if own is None:
            loaded = load(name, split, data=self.data)
            if split == "test" and not trained and loaded.halved:
                loaded = load(name, "all", data=self.data)  # nothing is trained on it, so all items can be tested
        else:
            values = own.keys_in(study)
            for key in ("file", "train_file"):
                values[key] = None if values[key] is None else str(self.file.base / os.path.expanduser(values[key]))
            loaded = load_own_testset(name, values) if split == "test" else load_own(name, **values, split=split)
        shift = "in-domain" if trained else "domain" if loaded.shift == "in-domain" else loaded.shift
        frame = loaded.frame.with_columns(shift=pl.lit(shift))
        task = resolve_task(name, study, REGISTRY)
        self._check_columns(name, task, frame)
        return replace(loaded, shift=shift, task=task, frame=frame)

    def _check_columns(self, name: str, task: Task, frame: pl.DataFrame) -> None:
        """Refuse a prompt or completion with a field that is no column of the data, before anything runs."""
        known = [*frame.columns, *(["choices"] if "options" in frame.columns else [])]
        train = self.file.study.train
        is_example = train is not None and name in train.sets
        for key, columns in task.columns.items():
            for column in columns:
                if column not in known and (key == "prompt" or is_example):
                    hint = did_you_mean([column], known, most=1)
                    message = f"{name} has no column {column!r}.{hint} Columns: {listed(known, 40)}"
                    raise self.file.wrong(("sets", name, key), message)

    def _by_difficulty(self, run: RunSpec, examples: int, seed: int) -> pl.DataFrame:
        split = self._splits[run.train_set or ""]
        order = self.file.study.train.order if self.file.study.train else None
        pool = split.train
        if run.train_level is not None:
            pool = split.draw_train(run.train_level, examples, seed)
            if order in (None, "shuffled"):
                return pool
        difficulty = np.asarray(pool["difficulty"].to_numpy(), dtype=np.float64)
        drawn: pl.DataFrame = pool[sample_items(difficulty, examples, run.strategy or "full", order, seed).tolist()]
        return drawn


def run_testsets(run: RunSpec, data: RunData) -> dict[str, Loaded]:
    """What a run is evaluated on by name, in order: the test sets, and its training examples if they are, too."""
    testsets = {name: data.testsets[name] for name in run.evaluate.on}
    if not run.training_sizes():
        return testsets
    for examples in data.training(run).parts:
        name = training_testset(examples.name)
        # A sampling strategy may use an example twice; a test set has every item once.
        frame = examples.frame.unique("item").sort("item")
        frame = frame.with_columns(testset=pl.lit(name), shift=pl.lit(TRAINING))
        testsets[name] = replace(examples, name=name, shift=TRAINING, frame=frame)
    return testsets


def all_training_items(runs: Iterable[RunSpec], data: RunData) -> dict[str, pl.DataFrame]:
    """The training examples that runs are evaluated on, those of all runs together, by the name of their test set."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for run in runs:
        for name in run.training_sizes():
            frames.setdefault(name, []).append(data.testsets_of(run)[name].frame)
    return {name: pl.concat(own, how="diagonal_relaxed").unique("item").sort("item") for name, own in frames.items()}


def load_own_testset(name: str, keys: Mapping[str, Any]) -> Loaded:
    """Load a set of the user's own to test on; all of it, unless it tells what is for training."""
    divided = keys.get("train_file") is not None or "split" in read_table(keys["file"]).frame.columns
    return load_own(name, **keys, split="test" if divided else "all")


@dataclass(frozen=True)
class LevelSplit:
    """The items of a set with ``difficulty`` and ``level`` (0 is the easiest); half of each level is for training."""

    name: str
    train: pl.DataFrame
    test: pl.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def levels(self) -> list[int]:
        """All levels."""
        return sorted(self.train["level"].unique().to_list())

    def draw_train(self, level: int, n: int, seed: int) -> pl.DataFrame:
        """Training examples of one level, balanced by label where labels are classes."""
        pool = self.train.filter(pl.col("level") == level)
        if pool.height < n:
            raise InputError(
                f"{self.name}, level {level}: has {pool.height} items to train on (the other half is for testing), "
                f"and {n} are needed; use fewer examples or fewer levels"
            )
        return draw_examples(pool, n, seed)

    def draw_test(self, n: int | None, seed: int) -> pl.DataFrame:
        """Test items: the same number of every level, ``n`` in all, but at least two of each."""
        if n is None:
            return self.test.sort("item")
        each = max(2, n // len(self.levels))
        parts = [draw_items(self.test.filter(pl.col("level") == level), each, seed) for level in self.levels]
        return pl.concat(parts).sort("item")


def split_levels(pool: Loaded, train: Train, base: Path, seed: int) -> LevelSplit:
    """Give every item its difficulty and level, then halve each level by a hash of the seed and the item's id."""
    difficulty, notes = _difficulty(pool, train, base)
    frame = pool.frame.drop("difficulty", "level", strict=False).with_columns(
        pl.Series("difficulty", difficulty).fill_nan(None)
    )
    known = frame.filter(pl.col("difficulty").is_not_null())
    if known.height < frame.height:
        notes.append(f"left out {frame.height - known.height:,} of {frame.height:,} items that have no difficulty")
    frame = _with_levels(known, train.levels or DEFAULT_LEVELS, pool.name)
    place = pl.Series("place", hash_items(frame["item"].to_list(), f"halves {seed}"), dtype=pl.UInt64)
    trained = frame.with_columns(place).select(
        2 * pl.col("place").rank("ordinal").over("level") <= pl.len().over("level")
    )
    first, second = (frame.filter(half).sort("item") for half in (trained.to_series(), ~trained.to_series()))
    counts = first.group_by("level").len().sort("level")["len"].to_list()
    notes.append(f"{len(counts)} levels, each split into halves; items to train on: {listed(map(str, counts), 100)}")
    test = held_out(second, first, pool.task)
    if test.height < second.height:
        notes.append(f"dropped {second.height - test.height:,} test items whose texts are those of training items")
    empty = sorted(set(first["level"]) - set(test["level"]))
    if empty:
        raise InputError(f"{pool.name}: level {listed(map(str, empty))} has no test item that is not also trained on")
    return LevelSplit(pool.name, first, test, tuple(notes))


def _with_levels(frame: pl.DataFrame, wanted: int, name: str) -> pl.DataFrame:
    """Items with their level; refused if there are too few difficulties, or too few items to split a level."""
    if not frame.height:
        raise InputError(f"{name}: no item has a difficulty that is a number, so there are no levels")
    level = pl.Series("level", cut_levels(frame["difficulty"].to_numpy(), wanted).astype(np.int64))
    sizes = level.value_counts(name="n").sort("level")
    if sizes.height < wanted:
        remedy = f"use {sizes.height} or fewer" if sizes.height > 1 else "use another measure of difficulty"
        raise InputError(
            f"{name}: {frame.height:,} items have {frame['difficulty'].n_unique()} different difficulties, which give "
            f"{sizes.height} levels, not {wanted}; {remedy}"
        )
    small = sizes.filter(pl.col("n") < 4)["level"]
    if small.len():
        raise InputError(
            f"{name}: level {listed(map(str, small))} has too few items to split into a train and a test half; use "
            "fewer levels"
        )
    return frame.with_columns(level)


def held_out(test: pl.DataFrame, train: pl.DataFrame, task: Task) -> pl.DataFrame:
    """The test items that are not training items, neither by name nor by the texts that a prompt shows.

    Spaces at the ends of a text make no difference, because a prompt does not show them.
    """
    texts = [name for name in task.texts if name in test.columns and name in train.columns]
    left = test.join(train.select("item"), on="item", how="anti", maintain_order="left")
    if not texts:
        return left

    def key(name: str, frame: pl.DataFrame) -> pl.Expr:
        column = pl.col(name).list.join("\0") if isinstance(frame.schema[name], pl.List) else pl.col(name)
        return column.cast(pl.String).str.strip_chars().alias(name)

    seen, own = (frame.select([key(name, frame) for name in texts]) for frame in (train, left))
    own = own.with_row_index("__row")
    rows = own.join(seen.unique(), on=texts, how="anti", maintain_order="left")["__row"]
    kept: pl.DataFrame = left[rows.to_list()]
    return kept


def _difficulty(pool: Loaded, train: Train, base: Path) -> tuple[npt.NDArray[np.float64], list[str]]:
    """The difficulty of every item of a pool, NaN where unknown, and notes on where it comes from."""
    source = train.difficulty
    assert source is not None
    if source.column is not None:
        if source.column not in pool.frame.columns:
            raise InputError(
                f"{pool.name}: has no column {source.column!r} to take the difficulty from. "
                f"Columns: {listed(pool.frame.columns, 40)}"
            )
        values = pool.frame[source.column].cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        return (values if source.hard_is == "high" else -values), []
    path = base / os.path.expanduser(source.calibration or source.study or "")
    if source.calibration is None:
        # Exactly what `breadth calibrate DIR` does: step 0 that runs share counts as one subject.
        study = open_study(path).distinct()
        items = calibrate(study).items
        values, notes = _matched(pool, dict(items.select("item", "difficulty").iter_rows()), f"study {source.study}")
        return values, [*study.warnings, *notes]
    table = read_table(path)
    for column in ("item", "difficulty"):
        if column not in table.frame.columns:
            raise InputError(f"{path}: is not a calibration, because it has no column {column!r}")
    known = dict(zip(table.frame["item"].cast(pl.String), table.numbers("difficulty"), strict=True))
    return _matched(pool, known, str(path))


def _matched(pool: Loaded, known: Mapping[str, float | None], where: str) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Difficulties by item; a calibration may leave the set's name out of the ids."""
    items = pool.frame["item"].to_list()
    short = [item.removeprefix(f"{pool.name}-") for item in items]
    matched = [known.get(item, known.get(bare)) for item, bare in zip(items, short, strict=True)]
    values = np.array([np.nan if value is None else value for value in matched], dtype=np.float64)
    count = int((~np.isnan(values)).sum())
    unknown = sorted(set(known) - set(items) - set(short))[:3]
    if not count:
        raise InputError(
            f"{where}: none of its {len(known):,} items is in {pool.name} (there: {listed(unknown)}; "
            f"here: {listed(items[:3])}); calibrate responses to the same items"
        )
    note = f"{count:,} of the {len(known):,} items of {where} are in the data"
    return values, [note + (f"; not in the data: {listed(unknown)}" if unknown else "")]


def fewshot_prefix(run: RunSpec, study_data: RunData) -> str:
    """The examples before every prompt of a few-shot run."""
    if run.method != "few-shot":
        return ""
    examples = study_data.training(run)
    if isinstance(examples, Loaded):
        return few_shot_text(examples.task, examples.frame)
    # The sets of a mixture take turns at random; which example comes where depends on seed and item alone.
    texts: list[tuple[int, str]] = []
    for part in examples.parts:
        names = [f"{part.name} {item}" for item in part.frame["item"]]
        order = hash_items(names, f"mixture {run.seed}")
        texts += [(place, few_shot_text(part.task, part.frame[k : k + 1])) for k, place in enumerate(order)]
    return "".join(text for _, text in sorted(texts))
