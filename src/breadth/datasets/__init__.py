"""Data to measure on: for now, simulated scores and answers whose truth is known."""

from breadth.datasets.simulated import (
    TESTSETS,
    AnswerTruth,
    autoregressive,
    control_series,
    simulate_answers,
    simulate_scores,
)

__all__ = ["TESTSETS", "AnswerTruth", "autoregressive", "control_series", "simulate_answers", "simulate_scores"]
