"""Data to measure on: sets by name (public, generated, a user's own), and simulated scores whose truth is known.

``registry`` lists the sets, ``load`` and ``own`` read them into one canonical frame, ``shots`` draws items to train and
to test on, ``suite`` generates items, ``tasks`` says what a model is asked. Imports only ``records`` and ``errors``.
"""

from breadth.datasets.listing import describe_datasets
from breadth.datasets.load import Loaded, load
from breadth.datasets.own import load_own
from breadth.datasets.registry import REGISTRY, Entry
from breadth.datasets.shots import draw_items, draw_shots, without
from breadth.datasets.simulated import (
    TESTSETS,
    AnswerTruth,
    autoregressive,
    control_series,
    simulate_answers,
    simulate_scores,
)
from breadth.datasets.simulated_study import SimulatedStudy, simulate_study
from breadth.datasets.suite import SETS, generate

__all__ = [
    "REGISTRY",
    "SETS",
    "TESTSETS",
    "AnswerTruth",
    "Entry",
    "Loaded",
    "SimulatedStudy",
    "autoregressive",
    "control_series",
    "describe_datasets",
    "draw_items",
    "draw_shots",
    "generate",
    "load",
    "load_own",
    "simulate_answers",
    "simulate_scores",
    "simulate_study",
    "without",
]
