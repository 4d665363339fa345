import polars as pl
from rich.console import Console

from breadth.level_transfer import Transfer, best_table, gains_table
from breadth.level_transfer.words import findings

CELLS = pl.DataFrame(
    {
        "train_level": [0, 0, 1, 1], "test_level": [0, 1, 0, 1], "gain": [0.1, -0.2, 0.0, 0.05],
        "ci_low": [0.02, -0.3, None, -0.1], "ci_high": [0.2, -0.1, None, 0.2],
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
    rows = [("fading", *fading), ("asymmetry", *asymmetry)]
    return pl.DataFrame(rows, schema=["effect", "estimate", "ci_low", "ci_high"], orient="row")


def printed(table):
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_findings():
    text = findings(Transfer(CELLS, effects((-0.03, -0.05, -0.01), (0.01, -0.1, 0.1)), pl.DataFrame(), BEST, (), 0.81))
    assert text.startswith("Of 4 cells (training level x test level), 1 gained over the model before training, 1 lost")
    assert "gain changes by -3.0 points (-5.0 to -1.0): gains fade with distance." in text
    assert "Easy-to-hard gains +1.0 points (-10.0 to +10.0) more than hard-to-easy: undecided." in text
    assert "the best training level is 0, ahead of 1 by 5.0 points (undecided)" in text
    assert "is decided on 1 of 2 test levels" in text
    assert "are 0.81 times what they would be unpaired" in text


def test_findings_of_effects_without_an_interval():
    text = findings(Transfer(CELLS, effects((0.02, 0.01, 0.03), (0.0, None, None)), pl.DataFrame(), BEST))
    assert "gains grow with distance" in text
    assert "Easy-to-hard gains +0.0 points more than hard-to-easy: undecided." in text


def test_tables_fit_the_terminal():
    gains = printed(gains_table(CELLS, "train_level"))
    assert "+10*" in gains
    assert "-20*" in gains
    assert "training level" in gains
    best = printed(best_table(BEST))
    assert best.splitlines()[4].split()[:4] == ["all", "0", "1", "undecided"]
    assert all(len(line) <= 100 for line in (gains + best).splitlines())
