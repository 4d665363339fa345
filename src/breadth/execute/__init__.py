"""Running a study: its data, the plan of what is left, what that costs, and the executors that carry it out.

``plan`` derives what is left from the files that exist, ``executors`` carries it out, ``session`` is one run on one
machine, ``progress`` tells what happens and how long the rest takes, ``recorder`` records a training that is not
breadth's. Nothing here imports torch before a model is needed.
"""

from typing import TYPE_CHECKING, Any

from breadth.execute.cluster.executor import RayExecutor
from breadth.execute.data import StudyData
from breadth.execute.directory import announce_study
from breadth.execute.endpoint_session import RequestEstimate, estimate_requests
from breadth.execute.evaluating import Following, checkpoint_study, evaluate, plans
from breadth.execute.executors import (
    EXECUTORS,
    ClusterOptions,
    Executor,
    LocalExecutor,
    Outcome,
    Status,
    UnitResult,
    check_executor,
    execute_plan,
    execute_unit,
    executor_of,
    run,
)
from breadth.execute.kept_weights import disk_size
from breadth.execute.plan import StudyPlan, Unit, plan_study
from breadth.execute.progress import ClusterStatus, Events, Pace, TimeLeft, Work
from breadth.execute.recorder import Recorder

EXECUTORS["ray"] = RayExecutor

if TYPE_CHECKING:
    from breadth.execute.estimate import estimate_kept, measurable, measure_pace

__all__ = [
    "EXECUTORS",
    "ClusterOptions",
    "ClusterStatus",
    "Events",
    "Executor",
    "Following",
    "LocalExecutor",
    "Outcome",
    "Pace",
    "RayExecutor",
    "Recorder",
    "RequestEstimate",
    "Status",
    "StudyData",
    "StudyPlan",
    "TimeLeft",
    "Unit",
    "UnitResult",
    "Work",
    "announce_study",
    "check_executor",
    "checkpoint_study",
    "disk_size",
    "estimate_kept",
    "estimate_requests",
    "evaluate",
    "execute_plan",
    "execute_unit",
    "executor_of",
    "measurable",
    "measure_pace",
    "plan_study",
    "plans",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from breadth.execute import estimate  # needs torch

    return getattr(estimate, name)
