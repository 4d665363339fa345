"""breadth measures how broadly a language model generalises, and how far one result carries over to another.

The verbs of the command line are functions here under the same names: ``breadth.correlate(...)``. They are
loaded when first used, so ``import breadth`` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from breadth.errors import InputError
    from breadth.verbs import Calibration, Correlation, ability, calibrate, correlate, difficulty_vs, levels

__version__ = "0.1.0"

_VERBS = ("Calibration", "Correlation", "ability", "calibrate", "correlate", "difficulty_vs", "levels")
_HOMES = {**dict.fromkeys(_VERBS, "breadth.verbs"), "InputError": "breadth.errors"}

__all__ = [
    "Calibration",
    "Correlation",
    "InputError",
    "__version__",
    "ability",
    "calibrate",
    "correlate",
    "difficulty_vs",
    "levels",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'breadth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
