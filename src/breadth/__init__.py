"""breadth measures how broadly a language model generalises, and how far one result carries over to another.

The verbs of the command line are functions here under the same names: ``breadth.correlate(...)``. They are
loaded when first used, so ``import breadth`` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from breadth.errors import InputError
    from breadth.verbs import (
        Calibration,
        Correlation,
        Cross,
        Profile,
        Sample,
        ability,
        calibrate,
        correlate,
        cross,
        difficulty_vs,
        levels,
        profile,
        run,
        sample,
        view,
        write_report,
    )

__version__ = "0.1.0"

__all__ = [
    "Calibration",
    "Correlation",
    "Cross",
    "InputError",
    "Profile",
    "Sample",
    "__version__",
    "ability",
    "calibrate",
    "correlate",
    "cross",
    "difficulty_vs",
    "levels",
    "profile",
    "run",
    "sample",
    "view",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("breadth.errors" if name == "InputError" else "breadth.verbs"), name)
    raise AttributeError(f"module 'breadth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
