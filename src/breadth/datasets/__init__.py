"""Data to measure on: simulated scores and answers whose truth is known, and a generated inference suite."""

from breadth.datasets.simulated import (
    TESTSETS,
    AnswerTruth,
    autoregressive,
    control_series,
    simulate_answers,
    simulate_scores,
)
from breadth.datasets.suite import SETS, generate

__all__ = [
    "SETS",
    "TESTSETS",
    "AnswerTruth",
    "autoregressive",
    "control_series",
    "generate",
    "simulate_answers",
    "simulate_scores",
]
