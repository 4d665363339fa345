"""What training did to other test sets: names in sentences, what to do, and when nothing can be concluded."""

import json

import numpy as np
import polars as pl
import pytest

from breadth.datasets import simulate_study
from breadth.reporting import build_report
from breadth.reporting.carried_over import MOST_NAMED, STRONGEST, carried_over_verdict, join_testsets
from breadth.reporting.overview import how_good_verdict
from breadth.results import Answer, Question, State


@pytest.mark.parametrize("number", [1, STRONGEST + 1, MOST_NAMED])
def test_all_names_that_fit_are_said(number):
    names = [f"set{k}" for k in range(number)]
    assert all(name in join_testsets(names) for name in names)


def test_of_many_or_long_names_the_strongest_are_said():
    many = join_testsets([f"set{k}" for k in range(MOST_NAMED + 4)])
    assert f"{MOST_NAMED + 4 - STRONGEST} more" in many
    long = join_testsets([f"{k}{'x' * 40}" for k in range(MOST_NAMED)])
    assert f"{MOST_NAMED - STRONGEST} more" in long


def test_a_fall_says_in_how_many_models(tmp_path):
    generator = np.random.default_rng(0)
    rows = []
    for model in range(12):
        for step in range(6):
            rise, fall = 0.3 + 0.08 * step, 0.7 - 0.05 * step
            if model == 0:
                fall = 0.7 + 0.02 * step
            rise, fall = np.array([rise, fall]) + generator.normal(0, 0.01, 2)
            rows.append({"model": f"m{model}", "step": 100 * step, "arc": rise, "piqa": rise, "wsc": fall})
    pl.DataFrame(rows).write_csv(tmp_path / "scores.csv")
    data = build_report(tmp_path / "scores.csv")
    verdict = carried_over_verdict(data)
    assert verdict.question == Question.IMPROVED
    assert verdict.answer == Answer.MIXED
    below = data.table("gains").filter(testset="wsc").filter(pl.col("model") != "all models", pl.col("gain") < 0).height
    assert verdict.facts["models below their start"] == below == 11
    assert "wsc" in verdict.findings
    assert "11" in verdict.findings
    assert "wsc" in verdict.advice


def test_two_runs_ask_for_a_third(tmp_path):
    folder = simulate_study(
        tmp_path / "s", runs=4, checkpoints=6, items=40, answer_bias=0.6, testsets=("plain", "science", "chains")
    ).folder
    verdict = carried_over_verdict(build_report(folder))
    assert "“plain”" in verdict.question
    assert verdict.answer == Answer.UNKNOWN
    # An interval from two runs is wider than all accuracies there are.
    assert "interval" not in verdict.reason
    assert verdict.advice


def test_one_model_is_compared_with_guessing(tmp_path):
    rows = [
        {"doc_id": k, "doc": {"question": f"q{k}", "choices": ["x", "y"]}, "target": "0",
         "arguments": [[f"q{k}", "x"], [f"q{k}", "y"]], "resps": [[[-1.0 - k % 2, False]], [[-1.5, False]]],
         "filtered_resps": [[-1.0 - k % 2, False], [-1.5, False]], "acc": float(k % 2 == 0)}
        for k in range(60)
    ]  # fmt: skip
    path = tmp_path / "samples_pairs_2024-11-26T10-50-23.349203.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    verdict = how_good_verdict(build_report(path))
    assert verdict.answer == "50.0%"
    assert "unnamed" not in verdict.reason
    assert verdict.facts["guessing"] == 0.5
    assert verdict.state is State.MIXED
    assert verdict.advice
