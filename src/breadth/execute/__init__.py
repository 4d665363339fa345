"""Running a study: its data, the plan of what is left, what that costs, and the executors that carry it out.

``plan`` derives what is left from the files that exist, ``executors`` carries it out, ``session`` is one run on one
machine, ``pace`` tells how long the rest takes. Nothing here imports torch before a model is needed.
"""

from typing import TYPE_CHECKING, Any

from breadth.execute.data import StudyData
from breadth.execute.executors import (
    EXECUTORS,
    Events,
    Executor,
    LocalExecutor,
    Outcome,
    Status,
    UnitResult,
    Work,
    execute_plan,
    execute_unit,
    run,
)
from breadth.execute.pace import Pace, TimeLeft
from breadth.execute.plan import Plan, Unit, plan_study

if TYPE_CHECKING:
    from breadth.execute.estimate import measurable, measure_pace

__all__ = [
    "EXECUTORS",
    "Events",
    "Executor",
    "LocalExecutor",
    "Outcome",
    "Pace",
    "Plan",
    "Status",
    "StudyData",
    "TimeLeft",
    "Unit",
    "UnitResult",
    "Work",
    "execute_plan",
    "execute_unit",
    "measurable",
    "measure_pace",
    "plan_study",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from breadth.execute import estimate  # needs torch

    return getattr(estimate, name)
