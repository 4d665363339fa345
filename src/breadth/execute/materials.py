"""What a study asks and trains on: test sets drawn once for all runs, training examples drawn for each.

Held out by construction: a set's train and test parts never share an item, and a test item whose text is in the pool
that training draws from is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from breadth.datasets import Loaded, draw_items, draw_shots, load, load_own
from breadth.datasets.splits import HALVED
from breadth.datasets.tasks import Task
from breadth.difficulty import sample_items
from breadth.errors import InputError
from breadth.execute.halves import LevelHalves, held_out, split_levels
from breadth.records import read_table
from breadth.study import RunSpec, StudyFile
from breadth.study.known import known_sets
from breadth.study.scoring import resolve_task

#: There is one start for all seeds of a study. It has a seed of its own, or seed 0 would begin with its examples.
START_SEED = 1_000_000


@dataclass(frozen=True)
class Materials:
    """Loads a study's data when it is first needed; ``data`` is a directory with files of registered sets."""

    file: StudyFile
    data: Path | None = None

    @cached_property
    def testsets(self) -> dict[str, Loaded]:
        """Items to evaluate on, by set: the same for every run and checkpoint."""
        evaluate = self.file.study.evaluate
        return {name: self._testset(name) for name in evaluate.on}

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was left out of the data, and how it was split."""
        found = [f"{name}: {note}" for name, testset in self.testsets.items() for note in testset.notes]
        return (*found, *(f"{name}: {note}" for name, halves in self._halves.items() for note in halves.notes))

    def training(self, run: RunSpec) -> Loaded:
        """The training examples of a run, in the order in which they come (or the examples of its prompt)."""
        name, shots, seed = run.train_set or "", run.shots or 0, run.seed or 0
        task = run.tasks[name]
        if name in self._halves:
            return Loaded(name, "in-domain", task, self._by_difficulty(run, shots, seed), "")
        pool = self._pools[name]
        return replace(pool, task=task, frame=draw_shots(pool.frame, shots, seed))

    def start(self, run: RunSpec) -> Loaded:
        """The examples that a run's model learns before step 0: the same for all seeds, levels and strategies."""
        assert run.start is not None
        name = run.train_set or ""
        halves = self._halves.get(name)
        pool = self._pools[name].frame if halves is None else halves.train
        return Loaded(name, "in-domain", run.tasks[name], draw_shots(pool, run.start.shots, START_SEED), "")

    def keeps_order(self, run: RunSpec) -> bool:
        """Whether every epoch passes over the examples in the given order."""
        train = self.file.study.train
        order = train.order if train else None
        return run.strategy in ("spiral", "curriculum", "anti-curriculum") if order is None else order != "shuffled"

    @cached_property
    def _pools(self) -> dict[str, Loaded]:
        train = self.file.study.train
        return {name: self._load(name, "train") for name in (train.set if train and train.difficulty is None else [])}

    @cached_property
    def _halves(self) -> dict[str, LevelHalves]:
        train = self.file.study.train
        if train is None or train.difficulty is None:
            return {}
        return {
            name: split_levels(self._load(name, "all"), train, self.file.base, self.file.study.evaluate.seed)
            for name in train.set
        }

    def _testset(self, name: str) -> Loaded:
        evaluate = self.file.study.evaluate
        halves = self._halves.get(name)
        if halves is None:
            loaded = self._load(name, "test")
        else:
            loaded = Loaded(name, "in-domain", self._task(name), halves.test, "", ())
        frame = loaded.frame
        for pool in (*(pool.frame for pool in self._pools.values()), *(h.train for h in self._halves.values())):
            frame = held_out(frame, pool, loaded.task)
        if not frame.height:
            raise InputError(f"{name}: every test item is also a training item, so none is left to test on")
        gone = loaded.frame.height - frame.height
        notes = (f"{gone:,} test items, whose texts are in the training data, left out",) if gone else ()
        if halves is None:
            drawn = draw_items(frame, evaluate.items, evaluate.seed)
        else:
            drawn = replace(halves, test=frame).draw(evaluate.items, evaluate.seed)
        return replace(loaded, frame=drawn, notes=(*loaded.notes, *notes))

    def _load(self, name: str, split: Any) -> Loaded:
        study = self.file.study
        own = study.sets.get(name)
        trained = bool(study.train and name in study.train.set)
        if own is None:
            loaded = load(name, split, self.data)
            if split == "test" and not trained and HALVED in loaded.source:
                loaded = load(name, "all", self.data)  # nothing is trained on it, so no half need be kept for that
        else:
            values = own.model_dump()
            for key in ("file", "train_file"):
                values[key] = None if values[key] is None else str(self.file.base / Path(values[key]).expanduser())
            if split == "test" and own.train_file is None and "split" not in read_table(values["file"]).frame.columns:
                split = "all"  # nothing is trained on this file, so no half of it need be kept for that
            if own.kind == "pattern":
                values["pattern"], values["answers"] = own.pattern or study.pattern, own.answers or study.answers
            loaded = load_own(name, **values, split=split)
        shift = "in-domain" if trained else "domain" if loaded.shift == "in-domain" else loaded.shift
        return replace(loaded, shift=shift, task=self._task(name), frame=loaded.frame.with_columns(shift=pl.lit(shift)))

    def _task(self, name: str) -> Task:
        return resolve_task(name, self.file.study, known_sets())

    def _by_difficulty(self, run: RunSpec, shots: int, seed: int) -> pl.DataFrame:
        halves = self._halves[run.train_set or ""]
        order = self.file.study.train.order if self.file.study.train else None
        pool, strategy = halves.train, run.strategy
        if run.train_level is not None:
            pool = halves.shots(run.train_level, shots, seed)
            if order in (None, "shuffled"):
                return pool
        chosen: Any = strategy or "full"
        difficulty = np.asarray(pool["difficulty"].to_numpy(), dtype=np.float64)
        drawn: pl.DataFrame = pool[sample_items(difficulty, shots, chosen, order, seed).tolist()]
        return drawn
