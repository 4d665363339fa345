"""What a study will do, counted before anything is done."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from breadth.errors import InputError
from breadth.execute.materials import Materials
from breadth.execute.run import missing_checkpoints
from breadth.execute.study import shard_of
from breadth.records import StudyStore
from breadth.study import RunSpec, StudyFile, expand
from breadth.study.known import known_sets


@dataclass(frozen=True)
class PlannedRun:
    """One run: its checkpoints, and those whose answers are there already."""

    run: RunSpec
    checkpoints: int
    done: int


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
    def answers_left(self) -> int:
        """Answers that remain to be given."""
        return self.items * sum(each.checkpoints - each.done for each in self.runs)

    @property
    def steps_left(self) -> int:
        """Training steps of the runs that are not complete."""
        return sum(each.run.total_steps() for each in self.runs if each.done < each.checkpoints)


def plan_study(file: StudyFile, into: Path, *, data: Path | None = None, shard: str | None = None) -> Plan:
    """Count runs, checkpoints and items, from the data where it is there and from the registry where it is not."""
    store = StudyStore(into)
    runs = []
    for run in shard_of(expand(file), shard):
        every = run.checkpoints()
        done = len(every) - len(missing_checkpoints(run, store.run(run.name))) if into.is_dir() else 0
        runs.append(PlannedRun(run, len(every), done))
    materials: Materials | None = Materials(file, data)
    notes: list[str] = []
    try:
        assert materials is not None
        sizes: dict[str, int | None] = {name: each.frame.height for name, each in materials.testsets.items()}
        for name in dict.fromkeys(each.run.train_set for each in runs if each.run.train_set):
            materials.training(next(each.run for each in runs if each.run.train_set == name))
        notes += materials.notes
    except InputError as error:
        materials = None
        notes.append(f"the data is not all here, so sizes are the registry's: {error}")
        sizes = {name: _registered_size(file, name) for name in file.study.evaluate.on}
    return Plan(tuple(runs), sizes, tuple(notes), materials)


def _registered_size(file: StudyFile, name: str) -> int | None:
    asked = file.study.evaluate.items
    known = known_sets().get(name)
    if known is None or known.items is None:
        return asked
    return known.items if asked is None else min(asked, known.items)
