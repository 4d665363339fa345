"""Does what carries over survive without answer bias? Simulated runs whose truth is known."""

import numpy as np
import pytest

import breadth
from breadth.datasets import simulate_study
from breadth.errors import InputError

SETS = ("plain", "formal", "chat", "science", "negation", "numbers")


OPTIONS = {"runs": 6, "checkpoints": 41, "testsets": SETS, "items": 120, "models": ("m",)}


@pytest.fixture(scope="module")
def swinging(tmp_path_factory):
    """Abilities fluctuate independently; a lean to one answer swings in all test sets at once."""
    folder = tmp_path_factory.mktemp("swinging") / "study"
    return breadth.open(simulate_study(folder, answer_bias=3.0, together=0.0, seed=31, **OPTIONS).folder)


@pytest.fixture(scope="module")
def able(tmp_path_factory):
    """Abilities fluctuate together, under a swing of the same kind."""
    folder = tmp_path_factory.mktemp("able") / "study"
    return breadth.open(simulate_study(folder, answer_bias=1.5, together=0.8, seed=32, **OPTIONS).folder)


def decided(study, **options):
    """Share of pairs whose mean over runs is above 0, and the median of these means."""
    means = breadth.correlate(study, **options).heterogeneity
    return (means["ci_low"] > 0).mean(), means["r_mean"].median()


@pytest.mark.parametrize("adjust", ["gam", "linear"])
def test_what_only_bias_carries_over_disappears(swinging, adjust):
    share, accuracy = decided(swinging, adjust=adjust)
    assert share >= 0.6
    share, area = decided(swinging, adjust=adjust, score="auc")
    assert share <= 0.1
    assert abs(area) < 0.12
    share, given_bias = decided(swinging, adjust=adjust, control="bias")
    assert share <= 0.3
    assert given_bias < 0.6 * accuracy


@pytest.mark.parametrize("adjust", ["gam", "linear"])
def test_shared_sensitivity_survives(able, adjust):
    for options in ({"score": "auc"}, {"score": "dprime"}, {"control": "bias"}):
        share, median = decided(able, adjust=adjust, **options)
        assert share >= 0.8, options
        assert median > 0.4, options


def test_bias_is_a_control_beside_the_in_domain_set(swinging):
    alone, named = (breadth.correlate(swinging, control=control) for control in ("bias", ["plain", "bias"]))
    assert alone.trajectories.controls == named.trajectories.controls == ("plain", "bias")
    assert alone.pairs.equals(named.pairs)
    assert alone.control_name == "plain and bias"
    assert "plain and bias" in alone.verdict().reason
    assert breadth.correlate(swinging, control="bias", adjust="linear").trajectories.controls[1:] == (
        "bias",
        "bias squared",
    )


def test_corrected_correlations_use_the_noise_of_the_score(able):
    """The reliability of the area is below that of an infinite test set and above 0, and correction raises r."""
    pairs = breadth.correlate(able, score="auc").pairs.drop_nulls("r_corrected")
    assert pairs["reliability_a"].is_between(0.2, 1).all()
    assert np.median(pairs["r_corrected"] - pairs["r"]) > 0


def test_wrong_scores_are_refused(swinging):
    with pytest.raises(InputError, match="score is 'f1'; choose accuracy, auc, dprime, balanced, logscore"):
        breadth.correlate(swinging, score="f1")
    with pytest.raises(InputError, match="item_counts="):
        breadth.correlate(swinging, score="auc", item_counts={"chat": 120})
