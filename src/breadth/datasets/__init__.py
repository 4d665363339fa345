"""Data to measure on: for now, simulated scores whose truth is known. Imports only ``records``."""

from breadth.datasets.simulated import TESTSETS, autoregressive, control_series, simulate_scores

__all__ = ["TESTSETS", "autoregressive", "control_series", "simulate_scores"]
