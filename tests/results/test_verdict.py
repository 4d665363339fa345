import pytest
from scipy import stats

from breadth.results import SEEN, Answer, Verdict, about, times_more


def test_lines_leave_out_what_is_not_said():
    verdict = Verdict(Answer.UNKNOWN, "too few rows.", needed="Add rows.")
    assert verdict.lines() == ("Not enough data: too few rows.", "Add rows.")
    assert str(verdict) == "Not enough data: too few rows. Add rows."


def test_what_is_needed_is_seen_with_a_probability_of_80_percent():
    error, effect = 0.1, 0.05
    enough = error / times_more(error, effect) ** 0.5
    assert 1 - stats.norm.cdf(1.96 - effect / enough) == pytest.approx(0.8, abs=0.001)
    assert times_more(effect / SEEN, effect) == pytest.approx(1)


@pytest.mark.parametrize(
    ("number", "text"),
    [(1.04, "1"), (2.96, "3"), (3.14, "3.1"), (9.96, "10"), (12.6, "13"), (99.7, "100"), (147, "150"), (1234, "1,200")],
)
def test_numbers_that_are_not_known_exactly(number, text):
    assert about(number) == text
