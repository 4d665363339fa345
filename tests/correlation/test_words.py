import polars as pl
import pytest

import breadth
from breadth.correlation import count_findings
from breadth.datasets import simulate_scores


@pytest.fixture(scope="module")
def result():
    return breadth.correlate(simulate_scores(runs=5), control="in_domain", by="run", order="step", windows=2)


def test_details_are_the_statistics_behind_the_verdict(result):
    counts = count_findings(result.pairs)
    text = result.details()
    assert f"{counts.positive} positive findings, {counts.negative} negative, {counts.undecided} undecided" in text
    differ = (result.heterogeneity["q_differ"] < 0.05).sum()
    assert f"{differ} of 15 pairs differ between runs (Cochran's test)" in text
    assert "From the first part of training to the last" in text
    assert "\n" not in text


def test_verdicts_have_no_words_of_statisticians(result):
    text = str(result.verdict())
    assert not any(word in text for word in ("q <", "I2", "Cochran", "findings", "effective", "Fisher", "gain"))


def test_changes_between_windows_are_findings():
    """A correlation of 0.9 in the first half and -0.9 in the second is a change; the same ones are none."""
    generator = __import__("numpy").random.default_rng(0)
    noise, half = generator.standard_normal((80, 4)), [1.0] * 40 + [-1.0] * 40
    noise[:, 2] = noise[:, 1] * half + 0.3 * noise[:, 2]
    noise[:, 3] = noise[:, 1] + 0.3 * noise[:, 3]
    frame = pl.DataFrame(noise, schema=["m", "a", "b", "c"]).with_columns(step=pl.int_range(80))
    result = breadth.correlate(frame, control="m", order="step", windows=2, adjust="linear")
    assert result.changes.filter(pl.col("q") < 0.05)["b"].to_list() == ["b", "c"]
    assert "2 of 3 correlations changed" in result.details()
    shown = result.shown()[1]
    assert shown.frame["changed"].to_list() == [True, True, False]
    assert shown.note.startswith("2 of 3 ")


def test_reasons_are_grouped_by_flag():
    frame = simulate_scores(runs=1).with_columns(flat=pl.lit(0.4), still=pl.lit(0.5))
    text = breadth.correlate(frame, control="in_domain", order="step").details()
    assert "13 pairs could not be computed: a test set is constant." in text
    short = breadth.correlate(frame.head(5), control="in_domain", order="step")
    assert "column note" in short.details()
