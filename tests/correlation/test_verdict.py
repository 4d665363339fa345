from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.correlation import count_findings
from breadth.correlation.partial import Flag
from breadth.correlation.verdict import contradictions, sensitivity
from breadth.correlation.words import find_groups, why_not_computed
from breadth.datasets import simulate_scores
from breadth.results import Answer, Question
from breadth.results.words import correlation_text

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
    assert verdict.question is Question.SPEAKS_FOR
    assert all(name in verdict.reason for name in ("m", "a, b, c and d"))
    assert verdict.findings == "", "one group holds all four"
    assert "noise" in verdict.needed


def test_a_loss_everywhere_is_no():
    result = breadth.correlate(table(60, 0.8, sign=-1.0), control="m", testsets="a,c")
    verdict = result.verdict()
    assert verdict.answer is Answer.NO
    assert "a and c" in verdict.reason
    assert correlation_text(result.pairs["r"][0], sign=True) in verdict.reason
    assert result.pairs["r"][0] < -0.5


@pytest.mark.parametrize(("rows", "answer"), [(30, Answer.UNKNOWN), (300, Answer.NO)])
def test_nothing_found_is_no_only_if_it_would_have_been_seen(rows, answer):
    result = breadth.correlate(table(rows), control="m")
    verdict = result.verdict()
    assert verdict.answer is answer
    seen = sensitivity(result)
    assert (seen.smallest <= 0.3) == (answer is Answer.NO)
    assert correlation_text(seen.smallest) in verdict.reason
    assert verdict.facts["smallest correlation that would have been noticed"] == round(seen.smallest, 2)
    assert ("rows that would be enough" in verdict.facts) == (answer is Answer.UNKNOWN)


def test_where_nothing_could_be_seen_no_correlation_of_1_is_named(monkeypatch):
    result = breadth.correlate(table(30), control="m", adjust="linear")
    blind = sensitivity(result)._replace(smallest=0.9999)
    monkeypatch.setattr("breadth.correlation.verdict.sensitivity", lambda _: blind)
    verdict = result.verdict()
    assert "1.00" not in verdict.reason
    assert "smallest correlation that would have been noticed" not in verdict.facts


def test_what_is_needed_is_enough():
    """The number of rows that is asked for shows a correlation of 0.3 in about 80 of 100 tables."""
    seen = sensitivity(breadth.correlate(table(30), control="m", adjust="linear"))
    assert (seen.noun, seen.now, seen.times) == ("row", 30, None)
    rows = seen.enough
    # Partial correlation of 0.3 over so many rows, with one row spent on the control.
    power = 1 - stats.norm.cdf(1.96 - np.arctanh(0.3) * np.sqrt(rows - 4))
    assert 0.75 < power < 0.93


def test_groups_that_are_needed_are_enough():
    result = breadth.correlate(table(20, groups=4, shared=0.1), control="m", by="run", adjust="linear")
    seen = sensitivity(result)
    assert (seen.noun, seen.now) == ("run", 4)
    groups = int(seen.enough)
    more = breadth.correlate(table(20, groups=groups, seed=1), control="m", by="run", adjust="linear")
    assert sensitivity(more).smallest == pytest.approx(0.3, abs=0.08)
    assert seen.times > 1


def test_groups_that_contradict_each_other_depend():
    result = breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step")
    verdict = result.verdict()
    assert verdict.answer is Answer.MIXED
    opposed, contradictory = contradictions(result)
    assert contradictory == 9, "all pairs between the halves, where the sign depends on the run"
    assert set(opposed["a"]) <= {"negation", "word_order", "numbers"}
    assert verdict.facts["pairs on which they disagree"] == 9
    assert "negation and coreference (correlation +.65 in run-04, −.62 in run-05)" in verdict.findings


def test_test_sets_that_go_together_are_named_together():
    result = breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step")
    reason = result.verdict().reason
    assert "formal_style, science and coreference" in reason
    assert "negation, word_order and numbers" in result.verdict().findings
    first = result.heterogeneity.filter(a="formal_style", b="science").row(0, named=True)
    assert correlation_text(first["r_mean"], sign=True) in reason
    assert f"{correlation_text(first['ci_low'])} to {correlation_text(first['ci_high'])}" in reason
    assert "all 6 runs" in reason
    assert reason.count("95%") == 1
    alone = breadth.correlate(simulate_scores(runs=1), control="in_domain", order="step").verdict()
    assert "negation, word_order and numbers" in alone.reason
    assert "run" not in alone.reason


def test_what_two_runs_share_is_said_once():
    result = breadth.correlate(simulate_scores(runs=2), control="in_domain", by="run", order="step")
    text = str(result.verdict())
    for half in ("formal_style, science and coreference", "negation, word_order and numbers"):
        assert text.count(half) == 1
    assert text.count("in both runs") == 2
    assert text.count("If each test set has more than") == 1
    assert result.verdict().reason.startswith("If each test set has more than")


def test_no_more_than_two_groups_are_named_and_the_rest_is_left_to_the_table():
    generator = np.random.default_rng(0)
    shared = np.repeat(generator.standard_normal((80, 4)), 2, axis=1)
    frame = pl.DataFrame(shared + 0.4 * generator.standard_normal((80, 8)), schema=list("abcdefgh"))
    verdict = breadth.correlate(frame.with_columns(m=pl.Series(generator.standard_normal(80))), control="m").verdict()
    assert verdict.answer is Answer.MIXED
    assert str(verdict).count("go together") == 2
    assert verdict.facts["more pairs that are findings"] >= 2
    assert "table" in verdict.findings


def test_without_a_control_going_together_shows_nothing_yet():
    verdict = breadth.correlate(simulate_scores(runs=6), adjust="none", by="run", order="step").verdict()
    assert verdict.answer is Answer.YES
    assert "shows nothing yet" in verdict.reason
    assert "in-domain" in verdict.advice
    assert verdict.needed == "", "a card shows what to do"


def test_groups_hold_only_test_sets_of_which_every_two_go_together():
    """A square whose diagonals are missing has no three that all go together."""
    rows = [("a", "b", 0.9), ("b", "c", 0.8), ("c", "d", 0.7), ("a", "d", 0.6)]
    square = pl.DataFrame(rows, schema=["a", "b", "r"], orient="row").with_columns(k=pl.lit(1))
    assert [group.names for group in find_groups(square, "abcd")] == [("a", "b"), ("c", "d")]
    whole = pl.concat([square, square.head(1).with_columns(b=pl.lit("c"), r=pl.lit(0.5))])
    groups = find_groups(whole, "abcd")
    assert [group.names for group in groups] == [("a", "b", "c")], "d is left alone: no test set is in two groups"
    assert groups[0].lowest["r"] == 0.5
    assert find_groups(square.clear(), "abcd") == []


def test_units_that_agree_are_counted_where_not_all_do():
    """A mean that is a finding though one unit has the other sign."""
    result = breadth.correlate(table(40, 0.5, groups=10), control="m", by="run")
    shares = result.heterogeneity.with_columns(sign_agreement=pl.lit(0.7))
    result.__dict__["heterogeneity"] = shares
    assert "in 7 of 10 runs" in result.verdict().reason
    assert 7 in result.verdict().facts.values()


def test_rows_of_a_leaderboard_are_models():
    frame = table(60, 0.8).drop("run").with_columns(model=pl.Series([f"net-{row}" for row in range(60)]))
    verdict = breadth.correlate(frame, control="m").verdict()
    assert "models" in verdict.advice
    assert "run" not in str(verdict).split()
    assert not any(word in str(verdict) for word in ("gain", "findings", "q <"))
    plain = breadth.correlate(frame, adjust="none").verdict()
    assert "good models are good at everything" in plain.reason


def test_every_number_in_a_verdict_stands_in_a_table_or_among_the_facts():
    for runs in (1, 2, 3, 6):
        result = breadth.correlate(simulate_scores(runs=runs), control="in_domain", by="run", order="step")
        known = set()
        values = [*result.verdict().facts.values(), 0.95]
        for frame in result.tables().values():
            for name in frame.columns:
                if frame[name].dtype.is_numeric():
                    values += frame[name].drop_nulls().to_list()
        for value in values:
            for digits in (0, 2):
                known |= {round(abs(value), digits), round(100 * abs(value), digits)}
        for number in result.verdict().numbers():
            assert float(number.replace(",", "")) in known, (number, result.verdict())


def test_a_mean_that_holds_in_all_groups_is_found_where_no_group_shows_it(shared_data):
    """Sixteen models, none of which has a finding of its own."""
    table = shared_data / "trajectories/pythia_zero_shot.csv"
    options = {"control": "lambada_openai", "by": "model", "order": "step"}
    result = breadth.correlate(table, **options, item_counts="none")
    assert count_findings(result.pairs)[:2] == (0, 0)
    verdict = result.verdict()
    assert all(text in verdict.reason for text in ("arc_challenge and logiqa", "+.57", ".41 to .70", "all 16 models"))
    # Noise of these sizes cannot have made it; how strong it is without noise is not known.
    assert ".41 to 1.00" in breadth.correlate(table, **options).verdict().reason


def test_q_of_means_is_over_all_pairs_and_agrees_with_intervals():
    frame = breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step").heterogeneity
    excludes = (frame["ci_low"] > 0) | (frame["ci_high"] < 0)
    assert (frame["p"] < 0.05).to_list() == excludes.to_list()
    for p, q in (("p", "q"), ("p_differ", "q_differ")):
        assert np.allclose(frame[q], stats.false_discovery_control(frame[p].to_numpy()))


def test_without_a_control_none_is_named():
    for options in ({}, {"control": "m"}):
        verdict = breadth.correlate(table(60, 0.8), adjust="none", **options).verdict()
        assert verdict.reason.startswith("a, b, c and d")
        assert "in-domain" in verdict.advice


def test_nothing_computed_says_why_and_what_is_needed():
    result = breadth.correlate(simulate_scores(runs=2).head(5), control="in_domain", by="run", order="step")
    verdict = result.verdict()
    assert (verdict.answer, verdict.computed) == (Answer.UNKNOWN, False)
    assert "too few rows" in verdict.reason
    assert verdict.facts["checkpoints that it takes"] == 8
    assert "--" not in str(verdict)
    flat = simulate_scores(runs=1).with_columns(in_domain=pl.lit(0.5))
    constant = breadth.correlate(flat, control="in_domain", order="step").verdict()
    assert "constant" in constant.reason
    assert constant.needed == ""


def test_one_dependent_run_is_told_to_add_runs():
    """Series that drift together without a control are worth a handful of rows."""
    verdict = breadth.correlate(simulate_scores(runs=1, steps=24), adjust="none", order="step").verdict()
    assert "more runs would" in verdict.needed
    assert "checkpoints that would be enough" not in verdict.facts


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
    assert why_not_computed(pairs) == (
        "too few rows in which both were measured (2 pairs), a test set is constant (1 pair)"
    )
