import io

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from breadth.irt import Dimension, ItemFlag, Patterns, items_table, levels_table, stability_table, subjects_table
from breadth.irt.words import Rule, calibration_findings, flagged


def test_findings_follow_the_checks(result):
    def text(**checks):
        return calibration_findings(result.items, result.subjects, result.fit, **checks)

    def copies(distinct, pairs, groups):
        none = np.empty(0)
        return Patterns(distinct, np.zeros((pairs, 2), int), none, none, np.arange(groups), none)

    few, many = (Dimension(share, 0.03, ratio, np.empty(0)) for share, ratio in ((0.01, 1.2), (0.1, 3.0)))
    assert "holds 1.0% of the residual variance, 1.2 times" in text(dimension=few)
    assert "one ability describes" in text(dimension=few)
    assert "something besides one ability" in text(dimension=many)
    assert "300 distinct answer patterns, and there are no near-copies among them" in text(copies=copies(300, 0, 300))
    assert "12 pairs are near-copies, which leaves 290 groups" in text(copies=copies(299, 12, 290))
    assert "residual" not in text()
    assert "patterns" not in text()
    hard = result.items.with_columns(pl.col("difficulty") + 3)
    assert "too hard for the typical subject" in calibration_findings(hard, result.subjects, result.fit)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "No item looks broken."),
        ([ItemFlag.WRONG_KEY], "Of 40 items, 1 may have a wrong key (column flag)."),
        ([ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG, ItemFlag.MISFIT], "1 are noisier than the model expects, 2 were"),
    ],
)
def test_flags_are_counted(result, flags, says):
    items = result.items.with_columns(flag=pl.Series([*flags, *[None] * (40 - len(flags))], dtype=pl.String))
    assert says in calibration_findings(items, result.subjects, result.fit)


def test_the_first_rule_that_applies_gives_flag_and_note():
    frame = pl.DataFrame({"x": [1, 2, 3, None]})
    rules = [
        Rule(ItemFlag.WRONG_KEY, pl.col("x") > 2, pl.lit("large")),
        Rule(ItemFlag.MISFIT, pl.col("x") > 1, pl.format("{} is more than 1", "x")),
    ]
    found = flagged(frame, rules)
    assert found["flag"].to_list() == [None, "misfit", "wrong_key", None]
    assert found["note"].to_list() == [None, "2 is more than 1", "large", None]


def test_terminal_tables(result):
    tables = {
        items_table(result.items): ["Items: the easiest, the hardest and some with a note, of 40", "q00"],
        subjects_table(result.subjects): ["Subjects: the 30 ablest of 400"],
        levels_table(result.levels(4)): ["Difficulty levels, 0 is the easiest"],
        stability_table(result.level_stability(4, repeats=1)): ["200"],
    }
    for table, words in tables.items():
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(table)
        text = console.export_text()
        assert all(word in text for word in words)
        assert max(len(line) for line in text.splitlines()) <= 100
