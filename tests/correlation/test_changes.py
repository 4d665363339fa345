import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.correlation import Panel, Settings, change_of_run, change_over_units, partial_correlations
from breadth.datasets import autoregressive, simulate_scores, simulate_study


def sides(runs, early=0.0, late=0.0, rho=0.5, seed=0, steps=21, noise=None):
    """First and last part of runs whose two test sets correlate as given, after a straight line in the control."""
    generator = np.random.default_rng(seed)
    parts = []
    for truth in (early, late):
        moves = 0.02 * autoregressive(generator, runs, steps, np.array([[1, truth], [truth, 1]]), rho)
        control = np.linspace(0.5, 0.7, steps)[None] + 0.02 * generator.standard_normal((runs, steps))
        shares = np.clip(control[:, :, None] + moves, 0, 1)
        if noise is not None:
            shares = generator.binomial(noise, shares) / noise
        panel = Panel(shares, control[:, :, None])
        counts = None if noise is None else np.array([noise, noise, np.nan], dtype=float)
        settings = Settings("linear", ci="ar", counts=counts, scale=None if noise is None else np.ones(3))
        parts.append(partial_correlations(panel, settings))
    return parts


def test_equals_a_paired_t_test_where_runs_weigh_alike():
    early, late = sides(8, late=0.5, rho=0.0)
    early, late = (side._replace(n_eff=np.full_like(side.n_eff, 20.0)) for side in (early, late))
    change = change_over_units(early, late, np.arange(8))
    z = [np.arctanh(side.r[:, 0]) for side in (late, early)]
    expected = stats.ttest_rel(*z)
    assert change.difference[0] == pytest.approx(np.mean(z[0] - z[1]))
    assert change.p[0] == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval()
    assert (change.ci_low[0], change.ci_high[0]) == pytest.approx((interval.low, interval.high))
    assert change.k[0] == 8


def test_turning_time_around_turns_the_sign():
    early, late = sides(6, late=0.6)
    forth, back = (change_over_units(*pair, np.arange(6)) for pair in ((early, late), (late, early)))
    assert back.difference == pytest.approx(-forth.difference)
    assert back.p == pytest.approx(forth.p)
    forth, back = change_of_run(early, late), change_of_run(late, early)
    assert (back.ci_low, back.ci_high) == (pytest.approx(-forth.ci_high), pytest.approx(-forth.ci_low))


@pytest.mark.parametrize(("units", "rho"), [(1, 0.5), (1, 0.9), (3, 0.9), (8, 0.5)])
def test_alike_parts_are_rarely_called_different_and_intervals_cover(units, rho):
    studies = 250
    early, late = sides(studies * units, 0.3, 0.3, rho, seed=units)
    found, covered = [], []
    for study in range(studies):
        own = slice(study * units, (study + 1) * units)
        pair = [
            side._replace(**{name: getattr(side, name)[own] for name in side._fields[:-2]}) for side in (early, late)
        ]
        change = change_of_run(*pair) if units == 1 else change_over_units(*pair, np.arange(units))
        found.append(change.p[0] < 0.05)
        covered.append(change.ci_low[0] <= 0 <= change.ci_high[0])
    assert np.mean(found) <= 0.08
    assert np.mean(covered) >= 0.92


def test_seeds_of_a_model_count_once():
    """Two models whose seeds agree with each other, and do not with those of the other: nothing about a third one."""
    early, late = sides(12, late=0.6)
    of_model = np.repeat(np.arange(4), 3)
    change = change_over_units(early, late, of_model)
    assert change.k[0] == 4
    assert change.ci_high[0] - change.ci_low[0] > 0
    assert np.isnan(change_over_units(early, late, np.repeat(np.arange(2), 6)).difference).all()


def test_noise_is_corrected_for_in_each_part():
    early, late = sides(24, 0.6, 0.6, noise=2000, rho=0.0)
    plain = change_over_units(*(side._replace(correction=None) for side in (early, late)), np.arange(24))
    corrected = change_over_units(early, late, np.arange(24))
    assert corrected.early[0] > plain.early[0]
    assert corrected.early[0] == pytest.approx(0.6, abs=0.1)
    assert corrected.p[0] >= plain.p[0]
    hopeless = change_over_units(*sides(24, 0.6, 0.6, noise=50), np.arange(24))
    assert np.isnan(hopeless.difference[0])


def test_frame_of_changes():
    options = {"control": "in_domain", "by": "run", "order": "step", "windows": 2}
    changes = breadth.correlate(simulate_scores(runs=4), **options).changes
    assert changes.columns == ["a", "b", "k", "early", "late", "difference", "ci_low", "ci_high", "p", "q"]
    assert changes.height == 15
    assert set(changes["k"]) == {4}
    for row in changes.iter_rows(named=True):
        assert row["difference"] == pytest.approx(np.arctanh(row["late"]) - np.arctanh(row["early"]))
        assert row["ci_low"] < row["difference"] < row["ci_high"]
        assert row["q"] >= row["p"]
    alone = breadth.correlate(simulate_scores(runs=2), **options).changes
    assert alone["unit"].unique().sort().to_list() == ["run-00", "run-01"]
    assert set(alone["k"]) == {1}
    without = breadth.correlate(simulate_scores(runs=4), **{**options, "windows": None})
    assert without.changes.height == 0


def test_runs_that_are_too_short_for_a_part_are_left_out():
    frame = simulate_scores(runs=5)
    short = frame.filter((pl.col("run") != "run-00") | (pl.col("step") < 16))
    changes = breadth.correlate(short, control="in_domain", by="run", order="step", windows=2).changes
    assert set(changes["k"]) == {4}


def test_a_study_with_several_models(tmp_path):
    simulate_study(
        tmp_path / "s",
        runs=6,
        checkpoints=24,
        items=400,
        models=("a", "b", "c"),
        testsets=("plain", "chat", "negation"),
    )
    result = breadth.correlate(tmp_path / "s", windows=2)
    assert result.units.nested
    assert result.changes["k"].to_list() == [3]
    assert result.tables()["changes"].equals(result.changes)
