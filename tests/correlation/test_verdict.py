from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.correlation import count_findings
from breadth.correlation.partial import Flag
from breadth.correlation.verdict import contradictions, sensitivity, short, why_not_computed
from breadth.datasets import simulate_scores
from breadth.results import Answer

NAMES = ["m", "a", "b", "c", "d"]


def table(rows, shared=0.0, groups=1, seed=0, sign=1.0):
    """Rows of four test sets that share some of their variation, and a control that shares none."""
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((groups, rows, 5))
    common = generator.standard_normal((groups, rows, 1)) * np.resize([1.0, 1.0, sign, sign], 4)
    noise[:, :, 1:] = np.sqrt(shared) * common + np.sqrt(1 - shared) * noise[:, :, 1:]
    frame = pl.DataFrame(noise.reshape(-1, 5), schema=NAMES)
    return frame.with_columns(run=pl.Series(np.repeat([f"run-{g:02d}" for g in range(groups)], rows)))


def test_findings_are_counted_by_sign_and_false_discovery_rate():
    frame = pl.DataFrame({"r": [0.5, -0.5, 0.5, 0.9, None], "q": [0.01, 0.04, 0.06, None, None]})
    assert count_findings(frame) == (1, 1, 1, 2, 3)


def test_everything_together_is_yes():
    verdict = breadth.correlate(table(60, 0.8), control="m").verdict()
    assert verdict.answer is Answer.YES
    assert verdict.reason.startswith(
        "after controlling for m, a gain on one test set goes with a gain on another: 6 of 6"
    )
    assert verdict.needed == "These scores are not corrected for the noise of finite test sets."


def test_a_loss_everywhere_is_no():
    verdict = breadth.correlate(table(60, 0.8, sign=-1.0), control="m", testsets="a,c").verdict()
    assert verdict.answer is Answer.NO
    assert "goes with a loss on another: 1 of 1 pair" in verdict.reason


@pytest.mark.parametrize(("rows", "answer"), [(30, Answer.UNKNOWN), (300, Answer.NO)])
def test_nothing_found_is_no_only_if_it_would_have_been_seen(rows, answer):
    result = breadth.correlate(table(rows), control="m")
    verdict = result.verdict()
    assert verdict.answer is answer
    assert "0 of 6 pairs of test sets are findings (q < 0.05)" in verdict.reason
    smallest = sensitivity(result).smallest
    assert (smallest <= 0.3) == (answer is Answer.NO)
    assert short(smallest) in verdict.reason
    assert ("Seeing a correlation of .30 takes" in verdict.needed) == (answer is Answer.UNKNOWN)


def test_where_nothing_could_be_seen_no_correlation_of_1_is_named(monkeypatch):
    result = breadth.correlate(table(30), control="m", adjust="linear")
    blind = sensitivity(result)._replace(smallest=0.9999)
    monkeypatch.setattr("breadth.correlation.verdict.sensitivity", lambda _: blind)
    assert "and not even strong ones would have been seen." in result.verdict().reason


def test_what_is_needed_is_enough():
    """The number of rows that is asked for shows a correlation of 0.3 in about 80 of 100 tables."""
    needed = sensitivity(breadth.correlate(table(30), control="m", adjust="linear")).needed
    rows = int(needed.split("about ")[1].split()[0])
    assert needed == f"Seeing a correlation of .30 takes about {rows} rows (now 30)."
    # Partial correlation of 0.3 over so many rows, with one row spent on the control.
    power = 1 - stats.norm.cdf(1.96 - np.arctanh(0.3) * np.sqrt(rows - 4))
    assert 0.75 < power < 0.93


def test_groups_that_are_needed_are_enough():
    result = breadth.correlate(table(20, groups=4, shared=0.1), control="m", by="run", adjust="linear")
    needed = sensitivity(result).needed
    assert needed.startswith("Seeing a correlation of .30 takes about ")
    groups = int(needed.split("about ")[1].split()[0])
    more = breadth.correlate(table(20, groups=groups, seed=1), control="m", by="run", adjust="linear")
    assert sensitivity(more).smallest == pytest.approx(0.3, abs=0.08)
    assert "times as many rows in each" in needed


def test_groups_that_contradict_each_other_depend():
    result = breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step")
    verdict = result.verdict()
    found = count_findings(result.pooled)
    assert verdict.answer is Answer.DEPENDS
    assert f"a gain on another for {found.positive} of 15 pairs of test sets (mean over 6 runs)" in verdict.reason
    opposed, contradictory = contradictions(result)
    assert verdict.reason.endswith(f"runs contradict each other on {contradictory}.")
    assert contradictory == 9, "all pairs between the halves, where the sign depends on the run"
    assert set(opposed["a"]) <= {"negation", "word_order", "numbers"}
    assert "Runs are farthest apart on negation and coreference: +.65 in run-04, −.62 in run-05." in verdict.findings


def test_the_strongest_findings_come_with_intervals_and_groups():
    result = breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step")
    row = result.heterogeneity.sort("r_mean", descending=True).row(0, named=True)
    ends = f"({short(row['ci_low'])} to {short(row['ci_high'])})"
    start = f"Strongest: {row['a']} and {row['b']} {short(row['r_mean'], sign=True)} {ends} in all 6 runs; "
    assert start in result.verdict().findings
    raw = "Without controlling for anything, the test sets rise together as training goes on (median correlation +.91)."
    assert result.verdict().findings.startswith(raw)
    assert "6 of 6 findings have the same sign in every run." in result.verdict().findings
    alone = breadth.correlate(simulate_scores(runs=1), control="in_domain", order="step").verdict()
    assert "Strongest: negation and numbers +.83 (.63 to .92); " in alone.findings
    assert "runs" not in alone.findings


def test_a_mean_that_holds_in_all_groups_is_found_where_no_group_shows_it(shared_data):
    """Sixteen models, none of which has a finding of its own."""
    table = shared_data / "trajectories/pythia_zero_shot.csv"
    options = {"control": "lambada_openai", "by": "model", "order": "step"}
    result = breadth.correlate(table, **options, item_counts="none")
    assert count_findings(result.pairs)[:2] == (0, 0)
    assert "arc_challenge and logiqa +.57 (.41 to .70) in all 16 models" in result.verdict().findings
    # Noise of these sizes cannot have made it; how strong it is without noise is not known.
    assert "arc_challenge and logiqa +.57 (.41 to 1.00)" in breadth.correlate(table, **options).verdict().findings


def test_q_of_means_is_over_all_pairs_and_agrees_with_intervals():
    frame = breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step").heterogeneity
    excludes = (frame["ci_low"] > 0) | (frame["ci_high"] < 0)
    assert (frame["p"] < 0.05).to_list() == excludes.to_list()
    for p, q in (("p", "q"), ("p_differ", "q_differ")):
        assert np.allclose(frame[q], stats.false_discovery_control(frame[p].to_numpy()))


def test_without_a_control_none_is_named():
    for options in ({}, {"control": "m"}):
        verdict = breadth.correlate(table(60, 0.8), adjust="none", **options).verdict()
        assert verdict.reason.startswith("without a control, a gain on one test set")


def test_nothing_computed_says_why_and_what_is_needed():
    result = breadth.correlate(simulate_scores(runs=2).head(5), control="in_domain", by="run", order="step")
    verdict = result.verdict()
    assert (verdict.answer, verdict.computed) == (Answer.UNKNOWN, False)
    assert verdict.reason.endswith("could be computed: too few complete rows.")
    assert verdict.needed == "--adjust gam needs at least 8 checkpoints in a run."
    flat = simulate_scores(runs=1).with_columns(in_domain=pl.lit(0.5))
    constant = breadth.correlate(flat, control="in_domain", order="step").verdict()
    assert constant.reason.endswith("the control is constant.")
    assert constant.needed == ""


def test_one_dependent_run_is_told_to_add_runs():
    """Series that drift together without a control are worth a handful of rows."""
    verdict = breadth.correlate(simulate_scores(runs=1, steps=24), adjust="none", order="step").verdict()
    assert verdict.needed.endswith("Checkpoints this dependent tell little, however many: add runs.")


def test_groups_may_differ_in_strength():
    """Cochran's test rejects on every pair, but no two groups have findings of opposite signs."""
    result = breadth.correlate(table(200, 0.5, groups=5), control="m", by="run")
    assert result.verdict().answer is Answer.YES
    other = replace(result)
    other.__dict__["heterogeneity"] = result.heterogeneity.with_columns(q_differ=pl.lit(0.001))
    assert contradictions(other)[1] == 6
    assert other.verdict().answer is Answer.YES


def test_several_reasons_are_counted_by_pairs():
    flags = [Flag.TOO_FEW_ROWS, Flag.CONSTANT_A, Flag.TOO_FEW_ROWS]
    pairs = pl.DataFrame({"ci_low": [None] * 3, "flag": flags}, schema={"ci_low": pl.Float64, "flag": pl.String})
    assert why_not_computed(pairs) == "too few complete rows (2 pairs), a test set is constant (1 pair)"
