"""``run(on="ray")``: the executor that carries a plan out on a Ray cluster, and how the plan becomes chains for it.

Imports neither Ray nor torch before a plan is executed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from breadth.errors import InputError
from breadth.execute.cluster.tasks import Chain, cut
from breadth.execute.executors import Executor, UnitResult, execute_unit
from breadth.execute.kept_weights import steps_to_keep
from breadth.execute.progress import Events
from breadth.lm import MIXED
from breadth.study import RunSpec, start_key

if TYPE_CHECKING:
    from breadth.execute.data import StudyData
    from breadth.execute.plan import StudyPlan
    from breadth.records import StudyStore

#: Keys of a recipe that do not change what a worker must have loaded.
_TRAINING_KEYS = {
    *("optimiser", "lr", "betas", "weight_decay", "clip", "schedule", "warmup", "batch", "micro_batch", "epochs"),
    *("steps", "loss", "num_fewshot", "keep"),
}


def worker_group(run: RunSpec) -> str:
    """What a worker must have loaded for a run: the model, and the structure of what is trained."""
    recipe = {key: value for key, value in run.recipe.model_dump(mode="json").items() if key not in _TRAINING_KEYS}
    chat = [] if run.chat is None else [run.chat.identity()]
    content = json.dumps([run.model, recipe, run.start is not None, *chat], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def chains_of(plan: StudyPlan, shapes: Mapping[str, str]) -> list[Chain]:
    """The runs of a plan that need anything, as chains; ``shapes`` are the resources of each model's workers."""
    sizes = {name: size or 0 for name, size in plan.sizes.items()}
    cells = {unit.run.name: cut({**sizes, **unit.run.training_sizes()}) for unit in plan.units}
    return [
        Chain(
            unit.run.name, worker_group(unit.run), shapes[unit.run.label], cells[unit.run.name], unit.missing,
            unit.run.is_trained, start_key(unit.run) if unit.run.start else None, unit.run.start_steps(), unit.siblings,
            unit.run.method != "full" or unit.run.start is not None, steps_to_keep(unit.run),
        )
        for unit in plan.units
        if unit.missing
    ]  # fmt: skip


class RayExecutor(Executor):
    """Executes the units of a plan on the workers of a Ray cluster, each unit in pieces and on many workers."""

    def check(self) -> None:
        """Refuse a cluster that does not answer before anything is prepared for it."""
        from breadth.execute.cluster.connection import check_answers, require_ray

        require_ray(self.options.address)
        check_answers(self.options.address)

    def check_plan(self, plan: StudyPlan) -> None:
        """Refuse checkpoints that are there already, which are on this machine, and ``dtype: mixed``.

        Which items of a set are computed again in float32 depends on all of them, and workers share a set.
        """
        if any(unit.run.recipe.dtype == MIXED for unit in plan.units):
            raise InputError("--on ray does not compute with dtype: mixed; set recipe.dtype to float32")
        if any(unit.run.source is not None for unit in plan.units):
            raise InputError(
                "--on ray is for runs that train; checkpoints that are there already are evaluated on this machine, so "
                "leave it out (--shard shares models among machines)"
            )

    def execute(
        self, plan: StudyPlan, store: StudyStore, study_data: StudyData, events: Events
    ) -> Iterator[UnitResult]:
        """Execute the units; the cluster is needed only if any is not complete."""
        for unit in plan.units:
            if not unit.missing:
                yield execute_unit(unit, store, study_data, events)
        runs = [unit.run for unit in plan.units if unit.missing]
        if not runs:
            return
        from breadth.execute.cluster.connection import connect

        connection = connect(self.options.address)
        try:
            from breadth.execute.cluster.driver import Driver
            from breadth.execute.cluster.pool import RayPool
            from breadth.execute.cluster.resources import shapes_of
            from breadth.execute.cluster.schedule import Schedule
            from breadth.execute.cluster.shipping import ShippedData, local_files
            from breadth.lm import BUILT_IN, fetch_model

            for model in {run.model for run in runs} & set(BUILT_IN):
                fetch_model(model, progress=events.fetching, warn=events.warn)
            shapes = shapes_of(plan.file, runs, connection.nodes(), self.options.threads)
            chains = chains_of(plan, {label: shape.name for label, shape in shapes.items()})
            files = {run.model: local_files(run.loads, run.weights) for run in runs}
            pool = RayPool(
                connection,
                {shape.name: shape for shape in shapes.values()},
                ShippedData.of(runs, study_data),
                {chain.run: chain.group for chain in chains},
                {model: each for model, each in files.items() if each is not None},
                self.options.workers,
            )
            pool.prepare()
            for warning in pool.warnings:
                events.warn(warning)
            try:
                yield from Driver(plan, store, study_data, events, pool, Schedule(chains)).execute()
            finally:
                pool.close()
        finally:
            connection.close()
