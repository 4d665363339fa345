import polars as pl
import pytest

import breadth
from breadth.correlation import correlations_table, count_findings, groups_table, heterogeneity_table
from breadth.datasets import simulate_scores


@pytest.fixture(scope="module")
def result():
    return breadth.correlate(simulate_scores(runs=5), control="in_domain", by="run", order="step", windows=2)


def test_the_paragraph_says_what_the_tables_say(result):
    counts = count_findings(result.pairs)
    text = result.details()
    assert text.startswith("Each run on its own: of 75 correlations between test sets (5 runs x 15 pairs) after ")
    assert f"{counts.positive} are positive findings, {counts.negative} negative, and {counts.undecided} un" in text
    differ = (result.heterogeneity["q_differ"] < 0.05).sum()
    assert f"{differ} of 15 pairs differ between runs (Cochran's test, false discovery rate 5%)" in text
    assert "From the first to the last window, " in text
    assert "\n" not in text


def test_changes_between_windows_are_findings(result):
    """A correlation of 0.9 in the first half and -0.9 in the second is a change; the same ones are none."""
    generator = __import__("numpy").random.default_rng(0)
    noise, half = generator.standard_normal((80, 4)), [1.0] * 40 + [-1.0] * 40
    noise[:, 2] = noise[:, 1] * half + 0.3 * noise[:, 2]
    noise[:, 3] = noise[:, 1] + 0.3 * noise[:, 3]
    frame = pl.DataFrame(noise, schema=["m", "a", "b", "c"]).with_columns(step=pl.int_range(80))
    result = breadth.correlate(frame, control="m", order="step", windows=2, adjust="linear")
    assert result.changes.filter(pl.col("q") < 0.05)["b"].to_list() == ["b", "c"]
    assert "2 of 3 correlations changed" in result.details()


def test_reasons_are_grouped_by_flag():
    frame = simulate_scores(runs=1).with_columns(flat=pl.lit(0.4), still=pl.lit(0.5))
    text = breadth.correlate(frame, control="in_domain", order="step").details()
    assert "13 pairs could not be computed: a test set is constant." in text
    short = breadth.correlate(frame.head(5), control="in_domain", order="step")
    assert short.details() == "Column note gives the reason for every pair."


def test_stars_mark_findings(result):
    table = heterogeneity_table(result.heterogeneity)
    cells = [str(cell) for cell in table.columns[4].cells]
    found = (result.heterogeneity["q"] < 0.05).to_list()
    assert [cell.endswith("*") for cell in cells] == found
    assert any(found)
    assert not all(found)


@pytest.mark.parametrize("width", [100, 80])
def test_tables_fit_the_terminal(result, width):
    from rich.console import Console

    long = result.pairs.with_columns(a=pl.col("a") + "_with_a_rather_long_name_[red]" * 2)
    console = Console(width=width, record=True, file=__import__("io").StringIO())
    for table in (
        correlations_table(long, result.by, width),
        heterogeneity_table(result.heterogeneity, width),
        groups_table(result.pairs, result.by, width),
    ):
        console.print(table)
    text = console.export_text()
    assert max(len(line) for line in text.splitlines()) <= width
    assert "the 30 best supported of 75" in text
    assert text.count("-0.") + text.count("+0.") >= 3 * 30, "numbers are never cut"
    assert "…" not in text.split("Over groups")[1].split("Groups")[0] or width < 110


def test_long_names_stay_apart_in_the_terminal():
    """Names that differ only at their end, or only in the middle, are cut so that no two rows look alike."""
    from rich.console import Console

    names = [f"leaderboard_mmlu_pro_category_{kind}_5_shot" for kind in ("law", "history", "maths", "physics")]
    generator = __import__("numpy").random.default_rng(0)
    frame = pl.DataFrame(generator.standard_normal((120, 5)), schema=["m", *names])
    frame = frame.with_columns(run=pl.Series([f"a/long/path/of/a/run/seed-{i // 30}" for i in range(120)]))
    result = breadth.correlate(frame, control="m", by="run")
    for table in (
        correlations_table(result.pairs, ["run"], 80),
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
