import polars as pl
import pytest

from breadth.level_transfer import Effect, Transfer, gain_by_distance, gain_matrix, transfer_verdict
from breadth.results import Answer, Question, as_chart, write_figure

CELLS = pl.DataFrame(
    {
        "train_level": [0, 0, 1, 1], "test_level": [0, 1, 0, 1], "gain": [0.1, -0.2, 0.0, 0.05],
        "ci_low": [0.02, -0.3, None, -0.1], "ci_high": [0.2, -0.1, None, 0.2], "se": [0.04, 0.05, None, 0.08],
        "q": [0.03, 0.01, None, 0.6], "flag": [None, None, "no_variation", "one_seed"], "n_items": [40] * 4,
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
    rows = [(Effect.FADING.value, *fading), (Effect.ASYMMETRY.value, *asymmetry)]
    return pl.DataFrame(rows, schema=["effect", "estimate", "ci_low", "ci_high", "q"], orient="row")


def result(cells=CELLS, fading=(-0.03, -0.05, -0.01, 0.01), asymmetry=(0.01, -0.1, 0.1, 0.8), **options):
    return Transfer(cells, effects(fading, asymmetry), pl.DataFrame(), BEST, **options)


def test_details():
    text = Transfer.details(result(pairing=0.81))
    assert "Of all 4 cells (training level x test level), 1 gained" in text
    assert "1 lost" in text
    assert "−3.0 points (−5.0 to −1.0), decided" in text
    assert "+1.0 points (−10.0 to +10.0), undecided" in text
    assert "flag one_seed" in text
    assert "0.81 times" in text


def test_details_of_effects_without_an_interval():
    text = Transfer.details(result(fading=(0.02, 0.01, 0.03, 0.04), asymmetry=(0.0, None, None, None)))
    assert "+2.0 points (+1.0 to +3.0), decided" in text
    assert "+0.0 points, undecided" in text


def test_an_interval_that_excludes_0_is_not_enough():
    some = result(CELLS.with_columns(q=pl.lit(0.06)), fading=(-0.03, -0.05, -0.01, 0.07))
    text = Transfer.details(some)
    assert "0 gained" in text
    assert "−3.0 points (−5.0 to −1.0), undecided" in text
    assert not any("*" in cell for row in some.shown()[0].rows for cell in row)
    assert "each level between" not in transfer_verdict(some).findings


def cells(gains, se, q, n=40):
    """Two training levels by two test levels; the diagonal always gains."""
    rows = [(0, 0, 0.5, 0.0), (0, 1, gains[0], q[0]), (1, 0, gains[1], q[1]), (1, 1, 0.5, 0.0)]
    frame = pl.DataFrame(rows, schema=["train_level", "test_level", "gain", "q"], orient="row")
    ends = {"ci_low": pl.col("gain") - 2 * se, "ci_high": pl.col("gain") + 2 * se}
    return frame.with_columns(se=pl.lit(se), n_items=pl.lit(n), **ends)


def test_the_verdict_is_about_other_levels():
    small, none = 0.01, (0.5, 0.5)
    yes = transfer_verdict(result(cells((0.2, 0.1), small, (0.0, 0.0))))
    assert (yes.answer, yes.question) == (Answer.YES, Question.LEVEL_TRANSFER)
    assert "hardest half (level 1) by training on the easiest half (level 0): 20 points" in yes.reason
    assert "95% interval 18 to 22" in yes.reason
    assert "50" not in yes.numbers(), "what was trained on itself is not asked about"
    assert "drops by 3 points" in yes.findings
    harm = transfer_verdict(result(cells((-0.2, -0.1), small, (0.0, 0.0)), asymmetry=(-0.1, -0.2, -0.05, 0.01)))
    assert harm.answer is Answer.NO
    assert "20 points (95% interval 18 to 22)" in harm.reason
    assert "Hard-to-easy transfer is 10 points larger" in harm.findings
    mixed = transfer_verdict(result(cells((0.2, 0.0), small, (0.0, 0.9))))
    assert mixed.answer is Answer.MIXED
    assert "level 1" in mixed.reason
    assert "easiest half (level 0)" in mixed.findings, "what was not improved is named"
    both = transfer_verdict(result(cells((0.2, -0.1), small, (0.0, 0.0))))
    assert both.answer is Answer.MIXED
    assert "made worse" in both.findings
    no = transfer_verdict(result(cells((0.01, 0.0), small, none)))
    assert (no.answer, no.needed) == (Answer.NO, "")
    unknown = transfer_verdict(result(cells((0.01, 0.0), 0.1, none)))
    assert unknown.answer is Answer.UNKNOWN
    needed = float(unknown.facts["questions needed"].replace(",", ""))
    assert needed == pytest.approx(80 * (2.8 * 0.1 / 0.05) ** 2, rel=0.02)


def test_the_verdict_by_strategy_is_about_all_cells():
    frame = cells((0.0, 0.0), 0.01, (0.9, 0.9)).rename({"train_level": "strategy"})
    frame = frame.with_columns(strategy=pl.Series(["easy", "easy", "spiral", "spiral"]))
    best = BEST.with_columns(best=pl.lit("spiral"), second=pl.lit("easy"))
    verdict = transfer_verdict(Transfer(frame, effects(*[(0.0, None, None, None)] * 2).head(0), pl.DataFrame(), best))
    assert (verdict.answer, verdict.question) == (Answer.MIXED, Question.STRATEGIES)
    assert "easy" in verdict.reason
    assert "spiral (50 points)" in verdict.findings
    assert "spiral" in verdict.advice


def test_a_break_is_named_with_the_training_that_shows_it():
    schema = {"train_level": pl.String, "breaks_at": pl.Int64, "drop": pl.Float64, "flag": pl.String}
    breaks = pl.DataFrame([("before", None, None, "steady"), ("0", 1, 0.4, None)], schema=schema, orient="row")
    some = result(cells((0.2, 0.0), 0.01, (0.0, 0.9)))
    verdict = transfer_verdict(Transfer(some.cells, some.effects, breaks, BEST))
    assert "hardest half (level 1) after training on the easiest half (level 0), by 40 points" in verdict.findings
    assert "breaks off" not in transfer_verdict(Transfer(some.cells, some.effects, breaks.head(1), BEST)).findings


def test_what_to_train_on_says_whether_that_is_decided():
    frame = cells((0.2, 0.0), 0.01, (0.0, 0.9))
    undecided = transfer_verdict(result(frame)).advice
    assert undecided.index("(level 0)") < undecided.index("(level 1)")
    clear = BEST.with_columns(verdict=pl.lit("decided"))
    decided = Transfer(frame, result(frame).effects, pl.DataFrame(), clear)
    assert "(level 1)" not in transfer_verdict(decided).advice


def test_one_seed_each_is_said_last():
    frame = cells((0.2, 0.1), 0.01, (0.0, 0.0))
    assert transfer_verdict(result(frame.with_columns(n_seeds=pl.lit(2)))).needed == ""
    assert "one seed" in transfer_verdict(result(frame.with_columns(n_seeds=pl.lit(1)))).needed


def test_shown_gains_have_a_star_where_they_are_findings():
    gains, best = result().shown()
    assert gains.rows == [["0", "+10*", "-20*"], ["1", "+0 ", "+5 "]]
    assert best.rows[0][:2] == ["all", "0"]
    assert best.rows[2][-1] == "decided"


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
