"""breadth measures how broadly a language model generalises, and how far one result carries over to another.

The verbs of the command line are functions here under the same names: ``breadth.correlate(...)``. They are
loaded when first used, so ``import breadth`` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from breadth import datasets as datasets
    from breadth.advice import PowerAdvice as PowerAdvice
    from breadth.advice import PredictionAdvice as PredictionAdvice
    from breadth.advice import SeedAdvice as SeedAdvice
    from breadth.advice import ShortForm as ShortForm
    from breadth.advice import ShortScores as ShortScores
    from breadth.advice import TogetherAdvice as TogetherAdvice
    from breadth.advice import advise_items as advise_items
    from breadth.advice import advise_power as advise_power
    from breadth.advice import advise_score as advise_score
    from breadth.advice import advise_testsets as advise_testsets
    from breadth.advice import advise_together as advise_together
    from breadth.comparison import Comparison as Comparison
    from breadth.comparison import Ranking as Ranking
    from breadth.comparison import rank as rank
    from breadth.comparison.compare import compare as compare
    from breadth.correlation import Correlation as Correlation
    from breadth.correlation.correlate import correlate as correlate
    from breadth.difficulty import DifficultySampler as DifficultySampler
    from breadth.difficulty import Profile as Profile
    from breadth.difficulty import Sample as Sample
    from breadth.difficulty import difficulty_vs as difficulty_vs
    from breadth.difficulty import profile as profile
    from breadth.difficulty import sample as sample
    from breadth.errors import InputError as InputError
    from breadth.execute import Recorder as Recorder
    from breadth.execute import evaluate as evaluate
    from breadth.execute import run as run
    from breadth.fluctuation import Stability as Stability
    from breadth.fluctuation.stability import stability as stability
    from breadth.irt import Calibration as Calibration
    from breadth.irt import Priors as Priors
    from breadth.irt import ability as ability
    from breadth.irt import calibrate as calibrate
    from breadth.irt import levels as levels
    from breadth.level_transfer import Transfer as Transfer
    from breadth.level_transfer.transfer import transfer as transfer
    from breadth.records import Study as Study
    from breadth.reporting import Scores as Scores
    from breadth.reporting import report as report
    from breadth.reporting import scores as scores
    from breadth.reporting import view as view
    from breadth.sources import Import as Import
    from breadth.sources import ScoreTable as ScoreTable
    from breadth.sources import export as export
    from breadth.sources import import_logs as import_logs
    from breadth.sources import open_source as open
    from breadth.sources import read_logs as read_logs
    from breadth.sources import read_trajectories as read_trajectories

__version__ = "0.2.0"

#: Where every public name lives.
_HOMES = {
    "breadth.advice": (
        *("PowerAdvice", "SeedAdvice", "ShortForm", "ShortScores", "PredictionAdvice", "TogetherAdvice"),
        *("advise_items", "advise_power", "advise_score", "advise_testsets", "advise_together"),
    ),
    "breadth.comparison": ("Comparison", "Ranking", "compare", "rank"),
    "breadth.correlation": ("Correlation", "correlate"),
    "breadth.difficulty": ("DifficultySampler", "Profile", "Sample", "difficulty_vs", "profile", "sample"),
    "breadth.errors": ("InputError",),
    "breadth.execute": ("Recorder", "evaluate", "run"),
    "breadth.fluctuation": ("Stability", "stability"),
    "breadth.sources": ("Import", "ScoreTable", "export", "import_logs", "read_logs", "read_trajectories"),
    "breadth.irt": ("Calibration", "Priors", "ability", "calibrate", "levels"),
    "breadth.level_transfer": ("Transfer", "transfer"),
    "breadth.records": ("Study",),
    "breadth.reporting": ("Scores", "report", "scores", "view"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", "datasets", "open", *_HOME_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("breadth.datasets")
    if name == "open":
        return import_module("breadth.sources").open_source
    if name in _HOME_OF:
        return getattr(_imported(_HOME_OF[name]), name)
    raise AttributeError(f"module 'breadth' has no attribute {name!r}")


def _imported(module: str) -> Any:
    """A module, with Python's random state as it was: rich draws a number from it when it is imported."""
    import random

    state = random.getstate()
    try:
        return import_module(module)
    finally:
        random.setstate(state)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
