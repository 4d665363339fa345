"""The simulations of benchmarks/ at a small size: intervals hold what they promise."""

import pytest

from breadth.correlation.correlate import FEW_ROWS
from false_discoveries import wrong_calls
from interval_coverage import coverage
from interval_robustness import coverage as elsewhere
from interval_robustness import mean_over_groups, plus_noise, random_walk, tailed, unequal


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["learning", "drifting", "independent"])
@pytest.mark.parametrize("adjust", ["linear", "gam"])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.8, 0.9])
@pytest.mark.parametrize("truth", [0.0, 0.5])
def test_default_interval_covers(kind, adjust, rho, truth):
    # 1,500 runs: the simulation's own error is 0.006, so these bounds are the promised ones less two of it.
    assert 0.908 <= coverage(kind, adjust, "ar", rho, truth, runs=1500, seed=1) <= 0.992


@pytest.mark.slow
@pytest.mark.parametrize(("tail", "least"), [("t5", 0.93), ("t3", 0.90), ("one spike", 0.93)])
@pytest.mark.parametrize("adjust", ["linear", "gam"])
@pytest.mark.parametrize("n", [20, 41, 100])
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.8, 0.9])
@pytest.mark.parametrize("truth", [0.0, 0.5])
def test_default_interval_covers_heavy_tails(tail, least, adjust, n, rho, truth):
    # 800 runs: less two of the simulation's error.
    assert elsewhere(tailed(tail, rho), n, adjust, truth, runs=800, seed=4) >= least - 0.018


@pytest.mark.slow
@pytest.mark.parametrize(("tail", "least"), [("t5", 0.93), ("t3", 0.90), ("one spike", 0.93)])
@pytest.mark.parametrize("n", [20, 41, 100])
def test_default_interval_covers_slow_jumps_under_a_smooth(tail, least, n):
    # The hardest of the settings that are promised: the smooth follows a jump that dies away slowly.
    assert elsewhere(tailed(tail, 0.9, "jumps"), n, "gam", 0.5, runs=1500, seed=8) >= least - 0.013


def test_rows_below_which_a_warning_is_given():
    for adjust, few in (("gam", 8), ("linear", 5)):
        worst = max(abs(mean_over_groups(few, adjust, r, calls=60, rho=0.0)[0]) for r in (0.0, 0.5))
        enough = max(abs(mean_over_groups(FEW_ROWS[adjust], adjust, r, calls=60, rho=0.0)[0]) for r in (0.0, 0.5))
        assert enough < 0.11
        assert worst > enough + 0.03


def test_fisher_does_not():
    assert coverage("drifting", "linear", "iid", 0.8, 0.0, runs=1000) < 0.8


def test_fisher_covers_independent_rows():
    assert 0.93 <= coverage("independent", "linear", "iid", 0.0, 0.5, runs=2000) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "least"), [(0.0, 0.92), (0.6, 0.86)])
def test_block_bootstrap_covers_weak_dependence(rho, least):
    assert coverage("learning", "gam", "block", rho, 0.5, runs=150, resamples=300) >= least


@pytest.mark.slow
@pytest.mark.parametrize("adjust", ["linear", "gam"])
@pytest.mark.parametrize("rho", [0.0, 0.6, 0.9])
def test_few_calls_discover_what_is_not_there(adjust, rho):
    # 60 calls: 3 wrong ones are expected at the bar of 5 %, and more than 8 would come up once in 200 times.
    assert wrong_calls(adjust, rho, calls=60) <= 8 / 60


@pytest.mark.slow
@pytest.mark.parametrize("make", [plus_noise, unequal, random_walk])
@pytest.mark.parametrize("adjust", ["linear", "gam"])
def test_default_interval_covers_where_it_was_not_chosen(make, adjust):
    assert 0.92 <= elsewhere(make, 41, adjust, 0.5, runs=1000, seed=3) <= 0.99
