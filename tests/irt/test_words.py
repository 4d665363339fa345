import io

import polars as pl
import pytest
from rich.console import Console

from breadth.irt import ItemFlag, items_table, levels_table, stability_table, subjects_table
from breadth.irt.words import Checks, Rule, calibration_findings, flagged


def test_findings_follow_the_checks(result):
    def text(**checks):
        return calibration_findings(result.items, result.subjects, result.fit, Checks(**checks))

    assert "one ability describes" in text(residual_share=0.01, residual_ratio=1.2)
    assert "something besides one ability" in text(residual_share=0.1, residual_ratio=3.0)
    assert "no near-copies among them" in text(distinct=300, copies=0, groups=300)
    assert "12 pairs are near-copies, which leaves 290 groups" in text(distinct=299, copies=12, groups=290)
    hard = result.items.with_columns(pl.col("difficulty") + 3)
    assert "too hard for the typical subject" in calibration_findings(hard, result.subjects, result.fit, Checks())


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
    assert says in calibration_findings(items, result.subjects, result.fit, Checks())


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
