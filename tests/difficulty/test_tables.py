import polars as pl
import pytest
from rich.console import Console

from breadth.difficulty import differences_table, histogram_table, measures_table, profile_table


def printed(table):
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


@pytest.mark.parametrize(("levels", "lines_per_subject"), [(5, 1), (10, 2)])
def test_profile_always_shows_intervals(levels, lines_per_subject):
    cells = [
        {"subject": subject, "level": k, "n": 50, "accuracy": 0.5, "ci_low": 0.37, "ci_high": 0.63}
        for subject in ("owner/model-with-a-name", "b")
        for k in range(levels)
    ]
    text = printed(profile_table(pl.DataFrame(cells)))
    assert text.count("±13") == 2 * levels
    assert "owner/model-with-a-name" in text
    lines = [line for line in text.splitlines() if "50" in line or "±13" in line]
    assert len(lines) == 2 * lines_per_subject
    assert all(len(line) <= 100 for line in lines)


def test_profile_without_answers_at_a_level():
    gap = {"subject": "a", "level": 0, "n": 0, "accuracy": None, "ci_low": None, "ci_high": None}
    row = {"subject": "a", "level": 1, "n": 4, "accuracy": 1.0, "ci_low": 0.5, "ci_high": 1.0}
    assert printed(profile_table(pl.DataFrame([row, gap]))).splitlines()[-2].split() == ["a", "-", "100", "±25"]


def test_measures_show_their_note():
    row = {"measure": "grade", "note": "constant over the items", "n": 40}
    numbers = dict.fromkeys(("rho", "ci_low", "ci_high", "q"), None)
    line = printed(measures_table(pl.DataFrame([row | numbers]))).splitlines()[4]
    assert line.split() == ["grade", "constant", "over", "the", "items", "40", "-", "-", "-"]


def test_histogram_shows_shares():
    histogram = pl.DataFrame(
        {"level": [0, 1], "from": [-2.0, 0.1], "to": [0.0, 2.0], "before": [30, 10], "after": [2, 2]}
    )
    lines = printed(histogram_table(histogram)).splitlines()
    assert lines[4].split() == ["0", "-2.00", "+0.00", "30", "2", "█" * 16, "|", "█" * 16]
    assert lines[5].split() == ["1", "+0.10", "+2.00", "10", "2", "█" * 10, "|", "█" * 16]


def test_differences_by_level():
    row = {"subject_1": "a", "subject_2": "b", "level": None, "n": 9, "difference": 0.1, "ci_low": 0.0, "ci_high": 0.2}
    text = printed(differences_table(pl.DataFrame([row | {"q": 0.0004, "share": 1.0}])))
    assert text.startswith("a minus b")
    assert text.splitlines()[4].split() == ["all", "9", "+0.10", "+0.00", "+0.20", "<.001", "100%"]
