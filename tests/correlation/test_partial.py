import numpy as np
import pandas as pd
import pingouin
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from breadth.correlation import Flag, Panel, Settings, independent_interval, partial_correlations, rows_needed
from breadth.correlation.partial import CODES


def panel_of(scores, controls):
    return Panel(np.asarray(scores, dtype=float)[None], np.asarray(controls, dtype=float).reshape(1, len(scores), -1))


def pingouin_partial(data, controls, method="pearson"):
    frame = pd.DataFrame(data, columns=["x", "y"])
    names = [f"z{j}" for j in range(controls.shape[1])]
    frame[names] = controls
    return pingouin.partial_corr(frame, x="x", y="y", covar=names, method=method)


@pytest.mark.parametrize("controls", [1, 2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_linear_equals_pingouin(controls, seed):
    generator = np.random.default_rng(seed)
    z = generator.standard_normal((40, controls)) + generator.standard_normal((40, 1))
    y = generator.standard_normal((40, 2)) + z @ generator.standard_normal((controls, 2))
    result = partial_correlations(panel_of(y, z), Settings("linear"))
    theirs = pingouin_partial(y, z)
    assert abs(result.r[0, 0] - theirs["r"].iloc[0]) < 1e-10
    # Our p allows for heavy tails; pingouin's is that of normal rows.
    normal = independent_interval(result.r, result.n, result.spent)
    assert normal.p[0, 0] == pytest.approx(theirs.filter(like="p").iloc[0, 0], rel=1e-6)
    assert result.p[0, 0] >= normal.p[0, 0] - 1e-12


@given(st.integers(0, 10_000), st.integers(6, 60))
@settings(max_examples=40, deadline=None)
def test_linear_equals_the_closed_form(seed, n):
    generator = np.random.default_rng(seed)
    x, y, z = generator.standard_normal((3, n)) + generator.standard_normal(n)
    (_, xy, xz), (_, _, yz), _ = np.corrcoef([x, y, z])
    closed = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
    result = partial_correlations(panel_of(np.column_stack([x, y]), z), Settings("linear"))
    assert abs(result.r[0, 0] - closed) < 1e-10
    assert abs(result.r_raw[0, 0] - xy) < 1e-10


def test_rank_equals_pingouins_spearman():
    generator = np.random.default_rng(0)
    z = generator.standard_normal((30, 1))
    y = np.exp(generator.standard_normal((30, 2)) + z).round(1)
    result = partial_correlations(panel_of(y, z), Settings("linear", rank=True))
    assert abs(result.r[0, 0] - pingouin_partial(y, z, "spearman")["r"].iloc[0]) < 1e-10
    assert abs(result.r_raw[0, 0] - stats.spearmanr(y).statistic) < 1e-10


def test_none_is_the_plain_correlation():
    generator = np.random.default_rng(1)
    y = generator.standard_normal((20, 3))
    result = partial_correlations(panel_of(y, np.zeros((20, 0))), Settings("none"))
    assert np.allclose(result.r, result.r_raw)
    assert np.allclose(result.r[0], np.corrcoef(y.T)[np.triu_indices(3, 1)])


@pytest.mark.parametrize("adjust", ["gam", "linear"])
def test_missing_cells_are_left_out_pair_by_pair(adjust):
    generator = np.random.default_rng(2)
    y, z = generator.standard_normal((40, 4)), generator.standard_normal((40, 1))
    y[:5, 0], y[10:18, 1], z[30:32] = np.nan, np.nan, np.nan
    result = partial_correlations(panel_of(y, z), Settings(adjust, ci="ar"))
    for pair, (a, b) in enumerate(zip(*np.triu_indices(4, 1), strict=True)):
        rows = ~np.isnan(y[:, [a, b]]).any(axis=1) & ~np.isnan(z[:, 0])
        alone = partial_correlations(panel_of(y[rows][:, [a, b]], z[rows]), Settings(adjust, ci="iid"))
        assert result.n[0, pair] == rows.sum()
        assert result.r[0, pair] == pytest.approx(alone.r[0, 0], abs=1e-9)
        assert result.r_raw[0, pair] == pytest.approx(alone.r_raw[0, 0], abs=1e-12)


@pytest.mark.parametrize("ci", ["iid", "ar", "block"])
def test_groups_do_not_touch_each_other(ci):
    generator = np.random.default_rng(3)
    scores, controls = generator.standard_normal((4, 30, 3)), generator.standard_normal((4, 30, 1))
    scores[1, 25:] = controls[1, 25:] = np.nan  # a shorter run
    scores[2, 3, 1] = np.nan
    chosen = Settings(ci=ci, resamples=100)
    together = partial_correlations(Panel(scores, controls), chosen)
    for g in range(4):
        n = 25 if g == 1 else 30
        alone = partial_correlations(Panel(scores[g : g + 1, :n], controls[g : g + 1, :n]), chosen)
        assert np.allclose(together.r[g], alone.r[0], atol=1e-9)
        if ci != "block":  # the bootstrap of a group has its own seed
            assert np.allclose(together.ci_low[g], alone.ci_low[0], atol=1e-9)


@given(st.floats(0.01, 1000), st.floats(-100, 100))
@settings(max_examples=30, deadline=None)
def test_scale_and_origin_do_not_matter(scale, shift):
    generator = np.random.default_rng(4)
    y, z = generator.standard_normal((30, 2)), generator.standard_normal((30, 1))
    plain = partial_correlations(panel_of(y, z), Settings(ci="ar"))
    moved = partial_correlations(panel_of(y * scale + shift, z * scale - shift), Settings(ci="ar"))
    assert moved.r == pytest.approx(plain.r, abs=1e-6)
    assert moved.ci_high == pytest.approx(plain.ci_high, abs=1e-5)


def test_a_curved_control_is_taken_out():
    """Independent given a curved function of z: the smooth comes within 0.05 of knowing it, a line is far off."""
    generator = np.random.default_rng(5)
    z = generator.uniform(-2, 2, (400, 41, 1))
    noise = 0.5 * generator.standard_normal((400, 41, 2))
    curve = z**2 * np.array([1.0, 1.3])
    known = partial_correlations(Panel(noise, np.zeros((400, 41, 0))), Settings("none"))
    smooth, line = (partial_correlations(Panel(curve + noise, z), Settings(kind)) for kind in ("gam", "linear"))
    error = np.abs(known.r).mean()
    assert np.abs(smooth.r).mean() < error + 0.05
    assert np.abs(line.r).mean() > error + 0.2


def test_several_controls_are_taken_out_together():
    generator = np.random.default_rng(6)
    z = generator.uniform(-2, 2, (300, 60, 2))
    curve = (z[..., :1] ** 2 + np.sin(2 * z[..., 1:])) * np.array([1.0, -1.2])
    noise = 0.5 * generator.standard_normal((300, 60, 2))
    result = partial_correlations(Panel(curve + noise, z), Settings("gam"))
    assert np.abs(np.mean(result.r)) < 0.05
    assert np.abs(result.r).mean() < 0.16


@pytest.mark.parametrize("adjust", ["gam", "linear"])
def test_what_cannot_be_computed_is_noted(adjust):
    generator = np.random.default_rng(7)
    z = generator.standard_normal(30)
    free = generator.standard_normal(30)
    y = np.column_stack([free, np.full(30, 0.1), 3 * z - 1, 2 * free + 1])
    result = partial_correlations(panel_of(y, z), Settings(adjust, ci="ar"))
    pairs = zip(*np.triu_indices(4, 1), strict=True)
    flags = {pair: list(Flag)[code - 1] for pair, code in zip(pairs, result.flag[0], strict=True)}
    assert flags[0, 1] == Flag.CONSTANT_B
    assert flags[1, 3] == Flag.CONSTANT_A
    assert flags[0, 2] == Flag.CONTROL_EXPLAINS_B
    assert flags[2, 3] == Flag.CONTROL_EXPLAINS_A
    assert flags[0, 3] == Flag.IDENTICAL_RESIDUALS
    assert result.r[0, 2] == pytest.approx(1)
    assert np.isnan(result.p[0]).all()
    assert np.isnan(result.r[0, [0, 1, 3, 4, 5]]).all()


def test_constant_control_and_short_series():
    generator = np.random.default_rng(8)
    y = generator.standard_normal((30, 2))
    result = partial_correlations(panel_of(y, np.full(30, 0.3)), Settings("gam"))
    assert result.flag[0, 0] == CODES[Flag.CONSTANT_CONTROL]
    assert np.isnan(result.r[0, 0])
    assert result.r_raw[0, 0] == pytest.approx(np.corrcoef(y.T)[0, 1])
    for adjust in ("gam", "linear", "none"):
        need = rows_needed(adjust, 1)
        z = generator.standard_normal(need)
        enough = partial_correlations(panel_of(y[:need], z), Settings(adjust))
        short = partial_correlations(panel_of(y[: need - 1], z[:-1]), Settings(adjust))
        assert enough.flag[0, 0] in (0, CODES[Flag.FEW_EFFECTIVE_ROWS])
        assert short.flag[0, 0] == CODES[Flag.TOO_FEW_ROWS]


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_nothing_but_nulls_and_numbers(seed):
    """Whatever the table: no crash, no infinite number, and a note wherever a number is missing."""
    generator = np.random.default_rng(seed)
    n, m = int(generator.integers(1, 14)), int(generator.integers(2, 5))
    scores = generator.integers(0, 3, (3, n, m)).astype(float)
    controls = generator.integers(0, 3, (3, n, 1)).astype(float)
    scores[generator.random(scores.shape) < 0.2] = np.nan
    controls[generator.random(controls.shape) < 0.1] = np.nan
    for adjust in ("gam", "linear"):
        for ci in ("iid", "ar"):
            result = partial_correlations(Panel(scores, controls), Settings(adjust, ci=ci))
            assert not np.isinf(np.stack(result[:8])).any()
            assert np.all((result.flag != 0) | ~np.isnan(result.p))
            known = ~np.isnan(result.r)
            assert np.all(np.abs(result.r[known]) <= 1)
