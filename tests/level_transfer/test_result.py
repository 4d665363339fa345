import polars as pl
import pytest
from rich.console import Console

from breadth.level_transfer import (
    Transfer,
    best_table,
    gain_by_distance,
    gain_matrix,
    level_gains_table,
    transfer_verdict,
)
from breadth.results import Answer, as_chart, write_figure

CELLS = pl.DataFrame(
    {
        "train_level": [0, 0, 1, 1], "test_level": [0, 1, 0, 1], "gain": [0.1, -0.2, 0.0, 0.05],
        "ci_low": [0.02, -0.3, None, -0.1], "ci_high": [0.2, -0.1, None, 0.2], "se": [0.04, 0.05, None, 0.08],
        "q": [0.03, 0.01, None, 0.6], "flag": [None, None, "no_variation", "one_seed"],
    }
)  # fmt: skip
BEST = pl.DataFrame(
    {
        "test_level": [None, 0, 1], "best": ["0", "0", "1"], "gain": [0.1, 0.1, 0.05], "second": ["1", "1", "0"],
        "lead": [0.05, 0.1, 0.25], "ci_low": [-0.1, -0.02, 0.1], "ci_high": [0.2, 0.2, 0.4],
        "verdict": ["undecided", "undecided", "decided"],
    }
)  # fmt: skip


def effects(fading, asymmetry):
    """Estimate, ends of the interval and q of both."""
    rows = [("fading", *fading), ("asymmetry", *asymmetry)]
    return pl.DataFrame(rows, schema=["effect", "estimate", "ci_low", "ci_high", "q"], orient="row")


def result(cells=CELLS, fading=(-0.03, -0.05, -0.01, 0.01), asymmetry=(0.01, -0.1, 0.1, 0.8), **options):
    return Transfer(cells, effects(fading, asymmetry), pl.DataFrame(), BEST, **options)


def printed(table):
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_details():
    text = Transfer.details(result(pairing=0.81))
    assert text.startswith(
        "Of all 4 cells (training level x test level), 1 gained over the model before training, 1 lost"
    )
    assert "gain changes by -3.0 points (-5.0 to -1.0): gains fade with distance." in text
    assert "training levels of different quality: +1.0 points (-10.0 to +10.0), undecided." in text
    assert "the best training level is 0, ahead of 1 by 5.0 points (undecided)" in text
    assert "is decided on 1 of 2 test levels" in text
    assert "flag one_seed" in text
    assert "are 0.81 times what they would be unpaired" in text


def test_details_of_effects_without_an_interval():
    text = Transfer.details(result(fading=(0.02, 0.01, 0.03, 0.04), asymmetry=(0.0, None, None, None)))
    assert "gains grow with distance" in text
    assert "training levels of different quality: +0.0 points, undecided." in text


def test_an_interval_that_excludes_0_is_not_enough():
    cells = CELLS.with_columns(q=pl.lit(0.06))
    text = Transfer.details(result(cells, fading=(-0.03, -0.05, -0.01, 0.07)))
    assert ", 0 gained over the model before training, 0 lost and 4 are undecided" in text
    assert "undecided whether gains fade" in text
    assert "*" not in printed(level_gains_table(cells, "train_level")).split("q < 0.05)")[1]


def cells(gains, se, q):
    """Two training levels by two test levels; the diagonal always gains."""
    rows = [(0, 0, 0.5, 0.0), (0, 1, gains[0], q[0]), (1, 0, gains[1], q[1]), (1, 1, 0.5, 0.0)]
    frame = pl.DataFrame(rows, schema=["train_level", "test_level", "gain", "q"], orient="row")
    return frame.with_columns(se=pl.lit(se), ci_low=pl.col("gain") - 2 * se, ci_high=pl.col("gain") + 2 * se)


def test_the_verdict_is_about_other_levels():
    small, none = 0.01, (0.5, 0.5)
    yes = transfer_verdict(result(cells((0.2, 0.1), small, (0.0, 0.0))))
    assert (yes.answer, yes.reason) == (
        Answer.YES,
        "training on one level helps on the others: 2 of 2 cells (training level x test level) gain and 0 lose.",
    )
    assert yes.findings == (
        "Largest: trained on level 0, tested on level 1: +20 points (+18 to +22). "
        "Gains fade with distance: -3.0 points (-5.0 to -1.0) per level."
    )
    harm = transfer_verdict(result(cells((-0.2, -0.1), small, (0.0, 0.0)), asymmetry=(-0.1, -0.2, -0.05, 0.01)))
    assert harm.answer is Answer.NO
    assert "Training hard-to-easy gains more than easy-to-hard: -10.0 points" in harm.findings
    assert transfer_verdict(result(cells((0.2, 0.0), small, (0.0, 0.9)))).answer is Answer.DEPENDS
    no = transfer_verdict(result(cells((0.01, 0.0), small, none)))
    assert no.answer is Answer.NO
    assert "although a gain of 5 points would have been seen" in no.reason
    unknown = transfer_verdict(result(cells((0.01, 0.0), 0.1, none)))
    assert unknown.answer is Answer.UNKNOWN
    assert unknown.needed == "To see a gain of 5 points takes about 31 times as many test items and seeds."


def test_the_verdict_by_strategy_is_about_all_cells():
    frame = cells((0.0, 0.0), 0.01, (0.9, 0.9)).rename({"train_level": "strategy"}).cast({"strategy": pl.String})
    verdict = transfer_verdict(result(frame))
    assert verdict.answer is Answer.DEPENDS
    assert verdict.reason == "training helps on some test levels: 2 of 4 cells (strategy x test level) gain and 0 lose."


def test_tables_fit_the_terminal():
    gains = printed(level_gains_table(CELLS, "train_level"))
    assert "+10*" in gains
    assert "-20*" in gains
    assert "training level" in gains
    best = printed(best_table(BEST))
    assert best.splitlines()[4].split()[:4] == ["all", "0", "1", "undecided"]
    assert all(len(line) <= 100 for line in (gains + best).splitlines())


GAINS = pl.DataFrame(
    {
        "train_level": [k for k in range(3) for _ in range(3)], "test_level": [*range(3)] * 3, "n_items": 40,
        "n_seeds": 2, "accuracy": 0.6, "baseline": 0.5, "gain": [0.3, 0.1, 0.0, 0.1, 0.2, 0.1, -0.05, 0.1, 0.2],
        "ci_low": 0.01, "ci_high": 0.2, "p": 0.01, "q": 0.04,
    }
)  # fmt: skip


def two_models(cells):
    return pl.concat([cells.select(pl.lit(m).alias("model"), pl.lit("t").alias("train_set"), pl.all()) for m in "ab"])


@pytest.mark.parametrize("cells", [GAINS, two_models(GAINS)], ids=["one result", "two models"])
def test_figures_can_be_written(cells, tmp_path):
    figures = [gain_matrix(cells, "gains"), gain_by_distance(cells, "gains", ["a", "b"])]
    chart = as_chart(*figures, tables={"gains": cells})
    assert write_figure(chart, tmp_path / "gains.png", "gains").stat().st_size > 5000
    assert len(chart.to_dict()["datasets"]["gains"]) == cells.height


def test_strategies_keep_their_order():
    names = ["easy", "full", "hard"]
    cells = GAINS.with_columns(strategy=pl.Series(names).gather(GAINS["train_level"])).drop("train_level")
    figure = gain_matrix(cells)
    assert (figure.key, figure.title) == ("strategy", "Strategy by test level")
    assert figure.spec["encoding"]["y"]["sort"] == names


def test_a_panel_per_model_and_training_set():
    cells = two_models(GAINS)
    one = gain_matrix(cells, "gains")
    assert one.spec["facet"]["field"] == "panel"
    assert one.spec["usermeta"]["panels"] == 2
    assert one.spec["transform"][0]["calculate"] == "datum.model"
    several = gain_matrix(pl.concat([cells, cells.with_columns(train_set=pl.lit("u"))]), "gains")
    assert several.spec["usermeta"]["panels"] == 4
    assert "train_set" in several.spec["transform"][0]["calculate"]
    sizes = gain_by_distance(pl.concat([cells.with_columns(examples=pl.lit(n)) for n in (8, 16)]), "gains", ["a", "b"])
    assert sizes.spec["usermeta"]["panels"] == 4
    assert sizes.spec["transform"][0]["calculate"] == "datum.model + ' · ' + datum.examples + ' examples'"
    assert one.drill == {"level": "test_level", "model": "model"}


def test_hue_is_left_to_models():
    alone = str(gain_by_distance(GAINS).spec)
    assert "@model" not in alone
    assert "@ink" in alone
    assert "@model1" in str(gain_by_distance(two_models(GAINS), models=["a", "b"]).spec)
    assert all(token in str(gain_matrix(GAINS).spec) for token in ("@low", "@high"))
    assert "@model" not in str(gain_matrix(two_models(GAINS)).spec)


def test_only_findings_are_strong_and_bold(tmp_path):
    cells = GAINS.with_columns(q=pl.Series([0.04] * 4 + [0.06] * 5))
    chart = as_chart(gain_matrix(cells), tables={"cells": cells})
    picture = write_figure(chart, tmp_path / "f.svg", "gains").read_text()
    assert picture.count('opacity="0.35"') == 5
    labels = [part for part in picture.split("<text ") if 'aria-roledescription="text mark"' in part]
    assert sum('font-weight="bold"' in label for label in labels) == 4
