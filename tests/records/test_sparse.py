"""Answers of which hardly any cell is filled: every question that can be answered from them is."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.records import SparseMatrix
from breadth.records.sensitivity import scored

SUBJECTS = ITEMS = 5000


def answers(subjects=SUBJECTS, items=ITEMS, each=4, seed=0):
    """A row per answer: every subject answers a few items at random."""
    generator = np.random.default_rng(seed)
    item = np.concatenate([generator.choice(items, each, replace=False) for _ in range(subjects)])
    return pl.DataFrame(
        {
            "subject": [f"m{k:05d}" for k in np.repeat(np.arange(subjects), each)],
            "testset": np.where(item % 2 == 0, "even", "odd"),
            "item": [f"q{k:05d}" for k in item],
            "correct": generator.integers(0, 2, subjects * each),
        }
    )


def alone(subjects):
    """Every subject answers an item of its own."""
    return pl.DataFrame(
        {
            "subject": [f"m{k}" for k in range(subjects)],
            "item": [f"q{k}" for k in range(subjects)],
            "correct": [k % 2 for k in range(subjects)],
        }
    )


@pytest.fixture(scope="module")
def table():
    return answers()


@pytest.fixture(scope="module")
def study(table):
    opened = breadth.open(table)
    assert opened.is_sparse
    return opened


def test_scores_are_means_of_the_answers(table, study):
    expected = table.group_by("subject", "testset").agg(pl.col("correct").mean(), pl.len())
    scores, counts = study.scores
    for subject, testset, mean, number in expected.sample(200, seed=0).iter_rows():
        row, column = study.subject_names.index(subject), study.testsets.index(testset)
        assert scores[row, column] == pytest.approx(mean)
        assert counts[row, column] == number
    assert counts.sum() == table.height


def test_responses_are_the_rows_that_were_given(table, study):
    given = table.cast({"correct": pl.Float64}).sort("subject", "item").select("subject", "testset", "item", "correct")
    assert study.responses.collect().select(given.columns).sort("subject", "item").equals(given)


def test_a_part_is_what_the_matrix_would_give(study):
    matrix = study.matrix.filled()
    generator = np.random.default_rng(1)
    rows = generator.choice(SUBJECTS, 300)
    columns = generator.choice(study.items.height, 400, replace=False)
    assert np.array_equal(study.matrix[np.ix_(rows, columns)], matrix[np.ix_(rows, columns)])


def test_means_of_items_over_some_subjects(study):
    rows = np.arange(0, SUBJECTS, 3)
    dense = study.correct.filled()[rows]
    answered = ~np.isnan(dense)
    expected = np.full(study.items.height, np.nan)
    known = answered.any(axis=0)
    expected[known] = np.nanmean(dense[:, known].astype(np.float64), axis=0)
    assert study.correct.means_of_columns(rows) == pytest.approx(expected, nan_ok=True)


def test_one_test_set_of_sparse_answers(study):
    part = study.select(testset="odd")
    assert part.testsets == ["odd"]
    assert part.answers == study.scores[1][:, study.testsets.index("odd")].sum()


def test_what_is_left_for_comparing_has_answers_in_common():
    crowd = answers(60, 80, 40)
    study = breadth.open(pl.concat([alone(6000).with_columns(testset=pl.lit("even")).select(crowd.columns), crowd]))
    assert study.is_sparse
    part = study.comparable()
    assert not part.is_sparse
    assert part.subjects.height == 60
    assert (part.answered.sum(axis=0) >= 2).all()
    assert len(part.warnings) == len(study.warnings) + 1


def test_what_needs_the_matrix_is_refused_in_one_sentence(study):
    with pytest.raises(InputError, match="answers in common"):
        np.asarray(study.matrix)
    assert isinstance(study.matrix, SparseMatrix)


@pytest.mark.parametrize("verb", [breadth.calibrate, breadth.rank, breadth.advise_power, breadth.advise_items])
def test_subjects_that_share_no_items_cannot_be_compared(verb):
    with pytest.raises(InputError, match="nothing compares them"):
        verb(alone(20_000))


def test_subjects_that_share_no_items_have_their_accuracy(tmp_path):
    source = alone(20_000)
    scores = breadth.scores(source).tables()["scores"]
    assert scores.height == 20_000
    page = breadth.report(source, out=tmp_path / "page.html")
    assert page.stat().st_size > 0
    breadth.export(source, out=tmp_path / "answers.csv", to="csv")
    assert pl.read_csv(tmp_path / "answers.csv").height == 20_000


def test_scores_and_halves_are_those_of_the_matrix(study):
    rows = np.arange(0, SUBJECTS, 50)
    columns = np.arange(study.items.height)
    sparse = scored(study, "accuracy", splits=4)
    matrix = study.matrix.dense_part(rows, columns)
    dense = replace(study, subjects=study.subjects[rows], matrix=matrix)
    assert not dense.is_sparse
    plain = scored(dense, "accuracy", splits=4)
    assert sparse.scores[rows] == pytest.approx(plain.scores, nan_ok=True)
    assert sparse.halves[rows] == pytest.approx(plain.halves, nan_ok=True)
