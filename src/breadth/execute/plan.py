"""What is left of a study, derived from the files that exist: a list of units for an executor to carry out.

A plan knows nothing of executors, and making one changes nothing. No torch is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from breadth.datasets import find, find_file, is_cached
from breadth.errors import InputError
from breadth.execute.data import StudyData
from breadth.execute.directory import check_directory, check_writable
from breadth.execute.run_files import check_source
from breadth.records import RunStore, StudyStore
from breadth.study import RunSpec, StudyFile, expand, expected_items, step0_key


@dataclass(frozen=True)
class Unit:
    """One run and the checkpoints it still has to evaluate.

    ``siblings`` are the other runs of the study whose responses at step 0 are the same; ``copies_step0`` says that one
    of them will have been evaluated there first. ``number`` counts the units of a plan from 1.
    """

    run: RunSpec
    missing: tuple[int, ...]
    siblings: tuple[str, ...] = ()
    copies_step0: bool = False
    number: int = 1
    total: int = 1

    @property
    def checkpoints(self) -> int:
        """All checkpoints of the run."""
        return len(self.run.checkpoints())

    @property
    def done(self) -> int:
        """Checkpoints that have been evaluated."""
        return self.checkpoints - len(self.missing)

    @property
    def to_evaluate(self) -> int:
        """Checkpoints to evaluate: those that are missing, except a step 0 that is copied."""
        return len(self.missing) - self.copies_step0

    @property
    def steps_left(self) -> int:
        """Training steps from the last checkpoint before the first missing one."""
        if not self.missing or not self.run.is_trained:
            return 0
        return self.missing[-1] - max((step for step in self.run.checkpoints() if step < self.missing[0]), default=0)


@dataclass(frozen=True)
class StudyPlan:
    """The units of a study, complete ones included.

    ``sizes`` are the items per test set, None where only data that is not available could tell; then ``study_data`` is
    None and the plan cannot be executed.
    """

    file: StudyFile
    folder: Path
    units: tuple[Unit, ...]
    sizes: dict[str, int | None]
    notes: tuple[str, ...] = ()
    study_data: StudyData | None = None

    @property
    def items(self) -> int:
        """Items per checkpoint, as far as known."""
        return sum(size or 0 for size in self.sizes.values())

    def items_of(self, run: RunSpec) -> int:
        """Items per checkpoint of a run, as far as known: its own training examples count as well."""
        return self.items + sum(run.training_sizes().values())

    @property
    def checkpoints_left(self) -> int:
        """Checkpoints without responses."""
        return sum(len(unit.missing) for unit in self.units)

    @property
    def answers_left(self) -> int:
        """Responses still to be computed."""
        return sum(self.items_of(unit.run) * unit.to_evaluate for unit in self.units)

    @property
    def steps_left(self) -> int:
        """Training steps of the runs that are not complete."""
        return sum(unit.steps_left for unit in self.units)


def plan_study(
    file: StudyFile, into: Path, *, data: Path | None = None, shard: str | None = None, dry: bool = True
) -> StudyPlan:
    """Derive what is left of a study in the directory ``into``; changes nothing.

    ``dry`` also plans a study whose data is not available: sizes of test sets are then those of the registry.
    """
    runs, store = expand(file), StudyStore(into)
    chosen = shard_of(runs, shard)
    check_directory(file, runs, store)
    if not dry:
        check_writable(into)
    left_out = [note for run in chosen for note in check_source(run, store.run(run.name))]
    units, study_data = _units(runs, chosen, store), StudyData(file, data)
    try:
        sizes: dict[str, int | None] = {name: each.frame.height for name, each in study_data.testsets.items()}
        for run in chosen:  # a level with too few examples is reported now, not after hours of training
            if run.train_set and run.source is None:
                study_data.training(run)
            if run.start:
                study_data.start(run)
    except InputError as error:
        if not dry or not _must_be_fetched(file, data):
            raise
        sizes = {name: expected_items(file, name) for name in file.study.evaluate.on}
        note = f"some data is missing, so sizes are those of the registry: {error}"
        return StudyPlan(file, into, units, sizes, (*left_out, note))
    starts = (
        f"{run.model} is first trained on {run.start.examples:,} examples of {run.train_set} "
        f"({run.start_steps():,} steps); step 0 comes after that"
        for run in chosen
        if run.start
    )
    return StudyPlan(file, into, units, sizes, (*left_out, *study_data.notes, *dict.fromkeys(starts)), study_data)


def shard_of(runs: Sequence[RunSpec], shard: str | None) -> list[RunSpec]:
    """Every n-th run, for ``shard`` i/n counted from 1; all runs without one."""
    if shard is None:
        return list(runs)
    try:
        i, n = (int(part) for part in shard.split("/"))
    except ValueError as error:
        raise InputError(f"--shard {shard!r}: write which part of how many, such as 3/16") from error
    if n < 1 or not 1 <= i <= n:
        raise InputError(f"--shard {shard!r}: parts are counted from 1, so the first is 1/{max(n, 1)}")
    return list(runs)[i - 1 :: n]


def missing_checkpoints(run: RunSpec, store: RunStore) -> tuple[int, ...]:
    """Checkpoints that have no undamaged responses yet."""
    done = set(store.sound_steps())
    return tuple(step for step in run.checkpoints() if step not in done)


def _units(runs: Sequence[RunSpec], chosen: Sequence[RunSpec], store: StudyStore) -> tuple[Unit, ...]:
    groups: dict[tuple[object, ...], list[str]] = defaultdict(list)
    keys = {run.name: (step0_key(run), run.recipe.layers, run.method) for run in runs}
    for name, key in keys.items():
        groups[key].append(name)
    # Runs whose step 0 will be there by then: those that have it, and those that come earlier.
    available = {name for name in keys if store.run(name).sound_part(0) is not None}
    units = []
    for number, run in enumerate(chosen, 1):
        siblings = tuple(name for name in groups[keys[run.name]] if name != run.name)
        missing = missing_checkpoints(run, store.run(run.name))
        copies = 0 in missing and bool(available & set(siblings))
        units.append(Unit(run, missing, siblings, copies, number, len(chosen)))
        available.add(run.name)
    return tuple(units)


def _must_be_fetched(file: StudyFile, data: Path | None) -> bool:
    """Whether a registered set of the study is neither generated nor available here."""
    study = file.study
    names = {*study.evaluate.on, *(study.train.sets if study.train else [])} - set(study.own_sets)
    entries = {name: find(name) for name in names}
    return any(
        entry.kind != "generated" and find_file(name, data) is None and not is_cached(entry)
        for name, entry in entries.items()
    )
