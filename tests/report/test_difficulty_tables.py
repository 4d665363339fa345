import polars as pl
import pytest
from rich.console import Console

from breadth.report.difficulty_tables import profile_table


def printed(levels):
    cells = [
        {"subject": subject, "level": k, "n": 50, "accuracy": 0.5, "ci_low": 0.37, "ci_high": 0.63}
        for subject in ("owner/model-with-a-name", "b")
        for k in range(levels)
    ]
    console = Console(width=100)
    with console.capture() as capture:
        console.print(profile_table(pl.DataFrame(cells)))
    return capture.get()


@pytest.mark.parametrize(("levels", "lines_per_subject"), [(5, 1), (10, 2)])
def test_profile_always_shows_intervals(levels, lines_per_subject):
    text = printed(levels)
    assert text.count("±13") == 2 * levels
    assert "owner/model-with-a-name" in text
    lines = [line for line in text.splitlines() if "50" in line or "±13" in line]
    assert len(lines) == 2 * lines_per_subject
    assert all(len(line) <= 100 for line in lines)


def test_profile_without_answers_at_a_level():
    gap = {"subject": "a", "level": 0, "n": 0, "accuracy": None, "ci_low": None, "ci_high": None}
    row = {"subject": "a", "level": 1, "n": 4, "accuracy": 1.0, "ci_low": 0.5, "ci_high": 1.0}
    console = Console(width=100)
    with console.capture() as capture:
        console.print(profile_table(pl.DataFrame([row, gap])))
    assert capture.get().splitlines()[-2].split() == ["a", "-", "100", "±25"]
