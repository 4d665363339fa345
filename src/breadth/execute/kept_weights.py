"""Which trained weights of a run are kept, and where: ``runs/<run>/weights/step-000640/``. No torch.

Weights are put in place before the answers of their step, because a step with answers is never computed again. The best
so far is deleted only after a better one and its answers are there. So whoever is killed leaves at most one directory
too many, and the next call deletes it. Step 0 is never kept: nothing of the run has been trained there.
"""

from __future__ import annotations

import io
import math
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import polars as pl

from breadth.errors import InputError
from breadth.lm import base_name, kept_fault, read_weights_record, record_weights
from breadth.records import RunStore
from breadth.study import RunSpec

#: The directory of a run with its kept weights.
WEIGHTS_FOLDER = "weights"

#: Bytes of the disk that kept weights leave free, for the answers and states of the runs.
SPARE = 200 * 2**20

_FOLDER = re.compile(r"^step-(\d+)$")


class Rank(NamedTuple):
    """What the best checkpoint is the largest of: accuracy, and the earlier step where that is equal."""

    accuracy: float
    minus_step: int

    @property
    def step(self) -> int:
        """The checkpoint."""
        return -self.minus_step


def rank_checkpoint(run: RunSpec, step: int, answers: pl.DataFrame) -> Rank:
    """How good a checkpoint is: on the training set's own test items, or else on the mean of all test sets.

    A run's own training examples are no test, so accuracy on them does not count.
    """
    by_set = {}
    for name in sorted(set(answers["testset"]) - set(run.training_sizes())):
        # As the file of answers has them; an exact sum, so that ties are ties however the answers were put together.
        correct = answers.filter(pl.col("testset") == name)["correct"].cast(pl.Float32).drop_nulls().to_list()
        if correct:
            by_set[name] = math.fsum(correct) / len(correct)
    # A mixture has several in-domain sets, and a set that is split by a column several parts.
    at_home = [accuracy for name, accuracy in by_set.items() if run.set_of(name) in run.train_sets]
    counted = at_home or list(by_set.values())
    return Rank(math.fsum(counted) / max(len(counted), 1), -step)


def steps_to_keep(run: RunSpec) -> tuple[int, ...]:
    """The checkpoints whose weights are kept, or may turn out to be the best."""
    if run.recipe.keep == "none" or not run.is_trained:
        return ()
    steps = tuple(step for step in run.checkpoints() if step > 0)
    return steps[-1:] if run.recipe.keep == "last" else steps


@dataclass
class KeptWeights:
    """The kept weights of a run whose lock this process holds."""

    run: RunSpec
    store: RunStore

    @property
    def key(self) -> str:
        """Where they are in the store."""
        return f"{self.store.key}/{WEIGHTS_FOLDER}"

    @property
    def folder(self) -> Path:
        """Where they are on the disk."""
        return self.store.folder / WEIGHTS_FOLDER

    @cached_property
    def base(self) -> str:
        """What adapters call their base model."""
        return base_name(self.run.loads)

    @cached_property
    def _ranks(self) -> dict[int, Rank]:
        """How good the checkpoints are that have answers."""
        ranks = {}
        for step in steps_to_keep(self.run):
            content = self.store.sound_part(step)
            if content is not None:
                ranks[step] = rank_checkpoint(self.run, step, pl.read_parquet(io.BytesIO(content)))
        return ranks

    def best(self) -> Rank | None:
        """The best of the checkpoints that have answers."""
        return max(self._ranks.values(), default=None)

    def may_keep(self, step: int) -> bool:
        """Whether the weights of a checkpoint may have to be kept once it is scored."""
        return step in steps_to_keep(self.run)

    def wants(self, step: int, answers: pl.DataFrame) -> bool:
        """Whether to keep the weights of a checkpoint that has these answers."""
        if not self.may_keep(step):
            return False
        return self.run.recipe.keep != "best" or is_best(rank_checkpoint(self.run, step, answers), self.best())

    def steps(self) -> dict[int, Path]:
        """The directories that are there, by step."""
        folders = {}
        for name in self.store.store.names(self.key):
            match = _FOLDER.match(name)
            if match:
                folders[int(match[1])] = self.folder / name
        return folders

    def write(self, step: int, fill: Callable[[Path], None]) -> None:
        """Keep weights: ``fill`` puts their files into a directory. Must come before the answers of the step."""
        before = self._kept_for(step)
        # What another value of `keep` has kept stays kept when a better checkpoint comes.
        kept = self.run.recipe.keep if before in (None, "best") else before

        def fill_and_record(folder: Path) -> None:
            fill(folder)
            record_weights(folder, {"run": self.run.name, "model": self.run.model, "step": step, "kept": kept})

        self.store.store.write_folder(f"{self.key}/{_folder_name(step)}", fill_and_record)

    def write_files(self, step: int, files: Mapping[str, bytes]) -> None:
        """Keep weights whose files a worker of a cluster has sent."""
        self.check_space(sum(map(len, files.values())))

        def fill(folder: Path) -> None:
            for name, content in files.items():
                path = folder / name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(content)

        self.write(step, fill)

    def check_space(self, size: int) -> None:
        """Refuse to keep weights that would fill the disk."""
        there = next(folder for folder in (self.folder, *self.folder.absolute().parents) if folder.is_dir())
        free = shutil.disk_usage(there).free
        if free < size + SPARE:
            raise InputError(
                f"recipe.keep: the weights of a checkpoint take {disk_size(size)}, and the disk has {disk_size(free)} "
                "left; free some space, or set keep to none, and run the same command again"
            )

    def written(self, step: int, answers: pl.DataFrame) -> None:
        """The answers of a checkpoint are there, too: delete what was the best until now."""
        if self.run.recipe.keep == "best" and self.may_keep(step):
            self._ranks[step] = rank_checkpoint(self.run, step, answers)
            self._delete_superseded()

    def tidy(self) -> None:
        """Delete what a call that was killed has left."""
        if not self.folder.is_dir():
            return
        self.store.store.clean(self.key)
        if self.run.recipe.keep == "best":
            self._delete_superseded()

    def _delete_superseded(self) -> None:
        """Delete directories that were kept as the best and are not. One without answers is not judged yet."""
        best, there = self.best(), self.steps()
        if best is None or best.step not in there:
            return
        for step in there:
            if step != best.step and step in self._ranks and self._kept_for(step) == "best":
                self.store.store.delete_folder(f"{self.key}/{_folder_name(step)}")

    def _kept_for(self, step: int) -> str | None:
        """The value of ``keep`` for which a directory was written; None if it is not there or damaged."""
        record = read_weights_record(self.folder / _folder_name(step)) or {}
        kept = record.get("kept")
        return kept if isinstance(kept, str) else None

    def lacking(self) -> tuple[int, ...]:
        """Checkpoints with answers whose weights should be kept and are not, or are damaged as far as sizes tell."""
        best = self.best()
        wanted = list(self._ranks)
        if self.run.recipe.keep == "best":
            wanted = [] if best is None else [best.step]
        there = self.steps()
        return tuple(step for step in wanted if step not in there or kept_fault(there[step], whole=False) is not None)


def is_best(rank: Rank, best: Rank | None) -> bool:
    """Whether a checkpoint is the best so far; the same one again is, too."""
    return best is None or rank >= best


def disk_size(size: int) -> str:
    """A number of bytes for a reader.

    >>> disk_size(3_400_000), disk_size(28_000_000_000)
    ('3.4 MB', '28.0 GB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def _folder_name(step: int) -> str:
    return f"step-{step:06d}"
