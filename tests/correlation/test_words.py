import polars as pl
import pytest

import breadth
from breadth.correlation import groups_table, heterogeneity_table, pairs_table, verdicts
from breadth.datasets import simulate_scores


@pytest.fixture(scope="module")
def result():
    return breadth.correlate(simulate_scores(runs=5), control="in_domain", by="run", order="step", windows=2)


def test_verdicts_count_intervals():
    frame = pl.DataFrame({"ci_low": [0.1, -0.5, -0.1, None], "ci_high": [0.3, -0.2, 0.2, None]})
    assert verdicts(frame) == (1, 1, 1, 1, 3)


def test_the_paragraph_says_what_the_tables_say(result):
    counts = verdicts(result.pairs)
    text = result.summary()
    assert f"{counts.positive} are positive, {counts.negative} negative and {counts.undecided} undecided" in text
    differ = (result.heterogeneity["p_differ"] < 0.05).sum()
    assert f"{differ} of 15 pairs differ between groups" in text
    assert "From the first to the last window" in text
    assert "after controlling for in_domain" in text
    assert "\n" not in text


def test_nothing_certain_is_called_so():
    generator = __import__("numpy").random.default_rng(0)
    frame = pl.DataFrame(generator.standard_normal((30, 5)), schema=["m", "a", "b", "c", "d"])
    text = breadth.correlate(frame, control="m").summary()
    assert "says almost nothing about the others beyond what m explains" in text


def test_everything_together_is_called_so():
    generator = __import__("numpy").random.default_rng(0)
    shared = generator.standard_normal((60, 1))
    noise = generator.standard_normal((60, 5))
    noise[:, 1:] = shared + 0.3 * noise[:, 1:]
    text = breadth.correlate(pl.DataFrame(noise, schema=["m", "a", "b", "c", "d"]), control="m").summary()
    assert "goes with a gain on almost every other one beyond what m explains" in text


def test_reasons_are_grouped_by_flag():
    frame = simulate_scores(runs=1).with_columns(flat=pl.lit(0.4), still=pl.lit(0.5))
    text = breadth.correlate(frame, control="in_domain", order="step").summary()
    assert "13 pairs could not be computed: a test set is constant (13)." in text
    short = breadth.correlate(frame.head(5), control="in_domain", order="step").summary()
    assert short.startswith("No partial correlation could be computed: too few complete rows (28). Column note")


def test_without_a_control_none_is_named():
    text = breadth.correlate(simulate_scores(runs=1), adjust="none", order="step").summary()
    assert "between test sets without a control" in text
    assert "beyond" not in text


@pytest.mark.parametrize("width", [100, 80])
def test_tables_fit_the_terminal(result, width):
    from rich.console import Console

    long = result.pairs.with_columns(a=pl.col("a") + "_with_a_rather_long_name_[red]" * 2)
    console = Console(width=width, record=True, file=__import__("io").StringIO())
    for table in (
        pairs_table(long, result.by, width),
        heterogeneity_table(result.heterogeneity, width),
        groups_table(result.pairs, result.by, width),
    ):
        console.print(table)
    text = console.export_text()
    assert max(len(line) for line in text.splitlines()) <= width
    assert "the 30 best supported of 75" in text
    assert text.count("-0.") + text.count("+0.") >= 3 * 30, "numbers are never cut"
    assert "…" not in text.split("Over groups")[1] or width < 100


def test_long_names_stay_apart_in_the_terminal():
    """Names that differ only at their end, or only in the middle, are cut so that no two rows look alike."""
    from rich.console import Console

    names = [f"leaderboard_mmlu_pro_category_{kind}_5_shot" for kind in ("law", "history", "maths", "physics")]
    generator = __import__("numpy").random.default_rng(0)
    frame = pl.DataFrame(generator.standard_normal((120, 5)), schema=["m", *names])
    frame = frame.with_columns(run=pl.Series([f"a/long/path/of/a/run/seed-{i // 30}" for i in range(120)]))
    result = breadth.correlate(frame, control="m", by="run")
    for table in (
        pairs_table(result.pairs, ["run"], 80),
        heterogeneity_table(result.heterogeneity, 80),
        groups_table(result.pairs, ["run"], 80),
    ):
        console = Console(width=100, record=True, file=__import__("io").StringIO())
        console.print(table)
        lines = [line for line in console.export_text().splitlines() if "…" in line or line.split()[:1][0:1] == ["1"]]
        columns = 3 if str(table.columns[1].header) == "a" else 2 if str(table.columns[0].header) == "a" else 1
        keys = [tuple(line.split("   ")[:columns]) for line in lines if line.strip()]
        assert len(keys) == table.row_count
        assert len(set(keys)) == len(keys)
