"""One value of one checkpoint, as every file of scores gives it."""

from __future__ import annotations

import re
from typing import NamedTuple

#: A test set has fewer items; a larger number is damaged.
MOST_ITEMS = 1e12


class TrainingRun(NamedTuple):
    """A training run: a path-like name, of which the end will be shown, and what tells runs of one name apart."""

    name: str
    attributes: tuple[str, ...] = ()
    model: str | None = None


class CheckpointScore(NamedTuple):
    """One value of one checkpoint.

    ``name`` is what the file calls it; if ``metric`` is given, it is the test set. Of two values for the same cell, the
    one with the later ``time`` counts. ``variant`` is a filter, ``setting`` how the test set was given (few-shot
    examples), ``items`` the number of its items. ``mean_of`` names the test sets of which this is the mean, and
    ``training`` says that the value is about training, whatever its name.
    """

    run: TrainingRun
    step: float | None
    name: str
    value: float
    time: float = 0.0
    metric: str | None = None
    variant: str = ""
    setting: str = ""
    items: int | None = None
    mean_of: tuple[str, ...] = ()
    training: bool = False


class ScoreOptions(NamedTuple):
    """What goes with a file: a list that takes notes for the user, and the user's pattern for steps."""

    notes: list[str]
    step_pattern: re.Pattern[str] | None = None


def real(value: object) -> float | None:
    """A finite number that is not a truth value, or None. MLflow writes infinities as numbers of the order 1e308."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def decimal(text: str) -> float | None:
    """A finite number that is written as text, or None."""
    try:
        return real(float(text))
    except ValueError:
        return None
