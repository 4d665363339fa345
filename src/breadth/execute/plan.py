"""What a study will do, counted before anything is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from breadth.datasets.hub import is_cached
from breadth.datasets.load import find_file
from breadth.datasets.registry import find
from breadth.errors import InputError
from breadth.execute.directory import check_directory, check_writable
from breadth.execute.materials import Materials
from breadth.execute.run import missing_checkpoints
from breadth.execute.study import shard_of, shared_starts
from breadth.records import StudyStore
from breadth.study import RunSpec, StudyFile, expand
from breadth.study.known import known_sets


@dataclass(frozen=True)
class PlannedRun:
    """One run: its checkpoints, those whose answers are there already, and whether step 0 is another run's as well."""

    run: RunSpec
    checkpoints: int
    done: int
    borrows: bool = False
    steps_left: int = 0

    @property
    def to_answer(self) -> int:
        """Checkpoints at which the model has to be asked."""
        return self.checkpoints - self.done - self.borrows


@dataclass(frozen=True)
class Plan:
    """All runs of a study. ``sizes`` are items per test set and checkpoint; None where that is not known here."""

    runs: tuple[PlannedRun, ...]
    sizes: dict[str, int | None]
    notes: tuple[str, ...]
    materials: Materials | None

    @property
    def items(self) -> int:
        """Items per checkpoint, as far as they are known."""
        return sum(size or 0 for size in self.sizes.values())

    @property
    def checkpoints_left(self) -> int:
        """Checkpoints without answers."""
        return sum(each.checkpoints - each.done for each in self.runs)

    @property
    def answers_left(self) -> int:
        """Answers that remain to be given."""
        return self.items * sum(each.to_answer for each in self.runs)

    @property
    def steps_left(self) -> int:
        """Training steps of the runs that are not complete."""
        return sum(each.steps_left for each in self.runs)


def plan_study(
    file: StudyFile, into: Path, *, data: Path | None = None, shard: str | None = None, dry: bool = True
) -> Plan:
    """Count runs, checkpoints and items; changes nothing.

    ``dry`` takes the sizes of sets that would have to be fetched and cannot be from the registry.
    """
    every, store = expand(file), StudyStore(into)
    chosen = shard_of(every, shard)
    check_directory(file, every, store)
    if not dry:
        check_writable(into)
    runs = _planned(every, chosen, store)
    materials: Materials | None = Materials(file, data)
    notes: list[str] = []
    try:
        assert materials is not None
        sizes: dict[str, int | None] = {name: each.frame.height for name, each in materials.testsets.items()}
        for run in chosen:  # nobody trains for an hour to find out that a level has too few examples
            if run.train_set:
                materials.training(run)
            if run.start:
                materials.start(run)
        notes += [*materials.notes, *_starts(chosen)]
    except InputError as error:
        if not dry or not _must_be_fetched(file, data):
            raise
        materials = None
        notes.append(f"the data is not all here, so sizes are the registry's: {error}")
        sizes = {name: _registered_size(file, name) for name in file.study.evaluate.on}
    return Plan(runs, sizes, tuple(notes), materials)


def _planned(every: list[RunSpec], chosen: list[RunSpec], store: StudyStore) -> tuple[PlannedRun, ...]:
    starts = shared_starts(every)
    # Whose step 0 will be there by then: runs that have it, and those that come earlier.
    there = {name for name in starts if store.run(name).sound_part(0) is not None}
    found = []
    for run in chosen:
        steps = run.checkpoints()
        missing = missing_checkpoints(run, store.run(run.name))
        borrows = 0 in missing and bool(there & set(starts[run.name]))
        there.add(run.name)
        before = max((step for step in steps if missing and step < missing[0]), default=0)
        left = missing[-1] - before if missing else 0
        found.append(PlannedRun(run, len(steps), len(steps) - len(missing), borrows, left))
    return tuple(found)


def _starts(runs: list[RunSpec]) -> list[str]:
    """What is learnt before step 0, said once for all runs that share it."""
    found = [
        f"{run.model} first learns from {run.start.shots:,} examples of {run.train_set} ({run.start_steps():,} steps); "
        "step 0 comes after that"
        for run in runs
        if run.start
    ]
    return list(dict.fromkeys(found))


def _must_be_fetched(file: StudyFile, data: Path | None) -> list[str]:
    """Registered sets of a study that are neither here nor made here."""
    study = file.study
    names = dict.fromkeys([*study.evaluate.on, *(study.train.set if study.train else [])])
    entries = {name: find(name) for name in names if name not in study.sets}
    return [
        name
        for name, entry in entries.items()
        if entry.kind != "generated" and find_file(name, data) is None and not is_cached(entry)
    ]


def _registered_size(file: StudyFile, name: str) -> int | None:
    asked = file.study.evaluate.items
    known = known_sets().get(name)
    if known is None or known.items is None:
        return asked
    return known.items if asked is None else min(asked, known.items)
