"""Ties and means of several tries: taken as shares where a question allows it, else refused or rounded on request."""

import numpy as np
import pytest

import breadth
from breadth.datasets import simulate_answers


@pytest.fixture(scope="module")
def halves():
    """Answers of 40 models to 60 items, every tenth of them a tie."""
    answers = simulate_answers(40, 60, seed=3).matrix.astype(float)
    ties = np.random.default_rng(0).random(answers.shape) < 0.1
    answers[ties] = 0.5
    return answers


@pytest.mark.parametrize(
    "ask",
    [
        lambda answers, **options: breadth.advise_items(answers, k=20, **options),
        breadth.advise_together,
        lambda answers, **options: breadth.calibrate(answers, model="3pl", **options),
        lambda answers, **options: breadth.calibrate(answers, copies="drop", **options),
    ],
    ids=["items", "together", "guessing", "copies"],
)
def test_shares_are_refused_with_the_option_that_rounds_them(halves, ask):
    with pytest.raises(breadth.InputError, match="round_shares=True"):
        ask(halves)
    result = ask(halves, round_shares=True)
    whole = ask((halves >= 0.5).astype(float))
    for name, frame in result.tables().items():
        assert frame.equals(whole.tables()[name]), name
    assert any(f"{int((halves == 0.5).sum())} of 2,400" in warning for warning in result.warnings)


def test_scores_of_a_short_form_from_shares(halves):
    form = breadth.advise_items((halves[:30] >= 0.5).astype(float), k=20)
    with pytest.raises(breadth.InputError, match="round_shares=True"):
        breadth.advise_score(form, halves[30:])
    rounded = breadth.advise_score(form, halves[30:], round_shares=True)
    whole = breadth.advise_score(form, (halves[30:] >= 0.5).astype(float))
    assert rounded.scores.equals(whole.scores)


def test_shares_are_taken_as_they_are_where_that_is_possible(halves):
    ranking = breadth.rank(halves)
    best = ranking.ranks.sort("accuracy", descending=True)["accuracy"][0]
    # A tie counts as half a right answer.
    assert best == pytest.approx(halves.mean(axis=1).max())
    assert breadth.calibrate(halves).items.height == 60
