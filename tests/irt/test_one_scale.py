from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import Answers, Parameters, one_scale
from breadth.irt.one_scale import (
    Component,
    above_chance,
    are_separate,
    expected_shares,
    given_by_ability,
    linked_components,
    main_component,
    score_correlation,
    stray_warning,
)
from breadth.results import Answer


def blocks_of(matrix, anchored=None, weights=None):
    matrix = np.asarray(matrix, dtype=np.int8)
    answers = Answers.of(matrix, weights)
    return linked_components(answers, np.ones(matrix.shape[1], dtype=np.bool_), anchored)


def disjoint(subjects=100, items=30):
    """Two groups of subjects with items of their own."""
    matrix = simulate_answers(2 * subjects, 2 * items).matrix.astype(np.int8)
    matrix[:subjects, items:] = -1
    matrix[subjects:, :items] = -1
    return matrix


def merged(sets):
    """Join sets that have something in common until none have."""
    parts = []
    for one in sets:
        linked = [part for part in parts if part & one]
        parts = [part for part in parts if not part & one] + [one.union(*linked)]
    return parts


@pytest.mark.parametrize("share", [0.01, 0.03, 0.1])
def test_components_are_those_of_the_graph_of_answers(share):
    generator = np.random.default_rng(3)
    for _ in range(20):
        matrix = np.where(generator.random((40, 30)) < share, 1, -1)
        matrix[0, 0] = 1
        parts = merged([{("s", i), ("i", j)} for i, j in np.argwhere(matrix >= 0)])
        sizes = [[sum(kind == one for kind, _ in part) for one in "si"] for part in parts]
        assert sorted(map(list, blocks_of(matrix))) == sorted(sizes)


def test_one_answer_an_anchor_or_a_dropped_subject_decides():
    matrix = disjoint(10, 5)
    assert blocks_of(matrix) == [(10, 5), (10, 5)]
    anchored = np.zeros(10, dtype=np.bool_)
    anchored[[0, 9]] = True
    assert blocks_of(matrix, anchored) == [(20, 10)]
    matrix[0, 9] = 1
    assert blocks_of(matrix) == [(20, 10)]
    assert blocks_of(matrix, weights=np.array([0.0] + [1.0] * 19)) == [(10, 5), (9, 5)]
    assert blocks_of(np.ones((3, 4))) == [(3, 4)]


@pytest.mark.parametrize(
    ("blocks", "separate"),
    [
        ([(100, 30)], False),
        ([(100, 30), (100, 30)], True),
        ([(100, 30), (1, 30)], False),
        ([(100, 30), (50, 1)], False),
        ([(100, 30), (1, 1), (1, 1)], False),
        ([(1, 20)] * 100, True),
    ],
)
def test_a_stray_subject_or_item_is_not_serious(blocks, separate):
    assert are_separate([Component(*block) for block in blocks]) is separate


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_a_calibration_of_separate_blocks_is_not_trusted(model, tmp_path):
    result = breadth.calibrate(disjoint(), model=model)
    sizes = "100 subjects x 30 items and 100 subjects x 30 items"
    assert result.warnings[0] == result.scale_warning
    assert "2 blocks" in result.scale_warning
    assert sizes in result.scale_warning
    verdict = result.verdict()
    assert verdict.answer is Answer.UNKNOWN
    assert verdict.facts["blocks"] == 2
    assert verdict.needed
    assert sizes in result.details()
    result.save(tmp_path / "c.csv")
    assert breadth.Calibration.load(tmp_path / "c.csv").verdict().reason == verdict.reason


def test_a_stray_subject_is_mentioned_only():
    matrix = simulate_answers(400, 60).matrix.astype(np.int8)
    matrix[0, :59], matrix[1:, 59] = -1, -1
    result = breadth.calibrate(matrix)
    assert result.scale_warning is None
    assert result.verdict().answer is Answer.YES
    assert result.warnings[0].startswith("1 model and 1 question share no answers")
    assert stray_warning([Component(400, 60)]) is None


def test_blocks_are_those_of_the_answers_that_are_fitted():
    """The one item that links two blocks has too few answers to be fitted."""
    matrix = np.pad(disjoint(), ((0, 0), (0, 1)), constant_values=-1)
    matrix[[0, 199], 60] = 0, 1
    assert breadth.calibrate(matrix).scale_warning is None
    assert "2 blocks" in breadth.calibrate(matrix, min_responses=5).scale_warning


def test_ability_against_the_score_is_spearman_s_rho():
    generator = np.random.default_rng(0)
    matrix = generator.integers(0, 2, (50, 12)).astype(np.int8)
    ability = generator.standard_normal(50)
    ability[3] = np.nan
    known = np.arange(50) != 3
    expected = stats.spearmanr(ability[known], matrix[known].mean(axis=1)).statistic
    assert score_correlation(Answers.of(matrix), ability) == pytest.approx(expected)
    assert score_correlation(Answers.of(matrix), np.exp(matrix.sum(axis=1))) == pytest.approx(1)
    assert np.isnan(score_correlation(Answers.of(matrix), np.zeros(50)))


def test_the_score_makes_up_for_easier_items():
    """Half of the subjects answered easy items, half hard ones: the share right would rank them by that."""
    generator = np.random.default_rng(1)
    ability = generator.standard_normal(400)
    easy = np.arange(80) < 40
    chance = 1 / (1 + np.exp(-(ability[:, None] + np.where(easy, 2, -2))))
    matrix = (generator.random((400, 80)) < chance).astype(np.int8)
    given = np.where((np.arange(400) < 200)[:, None] == easy, matrix, -1).astype(np.int8)
    share = np.where(given >= 0, given, 0).sum(axis=1) / (given >= 0).sum(axis=1)
    assert abs(stats.spearmanr(ability, share).statistic) < 0.6
    assert score_correlation(Answers.of(given), ability) > 0.8


def test_guessing_is_told_from_knowing():
    generator = np.random.default_rng(2)
    chance = np.repeat([0.25, 0.5, np.nan], [200, 200, 50])
    share = np.where(np.arange(400)[:, None] < 300, np.nan_to_num(chance, nan=0.5), 0.7)
    matrix = (generator.random((400, 450)) < share).astype(np.int8)
    matrix[0, :400] = -1
    above = above_chance(Answers.of(matrix), chance)
    assert above.subjects[0], "nothing is known about it"
    assert 0.01 < above.subjects[1:300].mean() < 0.1, "5 % of guessers"
    assert above.subjects[300:].all()
    assert above.items[400:].all(), "chance is not known there"
    assert above.items[:200].mean() > 0.9
    guessers = above_chance(Answers.of(matrix[1:300]), chance)
    assert 0.01 < guessers.items[:400].mean() < 0.1


def principal(matrix):
    """Rank correlation with the score, and share of items against it, from a singular value decomposition."""
    varied = matrix[:, matrix.std(axis=0) > 0]
    left, _, _ = np.linalg.svd(varied - varied.mean(axis=0), full_matrices=False)
    rho = stats.spearmanr(left[:, 0], matrix.mean(axis=1)).statistic
    correlations = [np.corrcoef(left[:, 0], column)[0, 1] * np.sign(rho) for column in varied.T]
    return abs(rho), np.mean(np.array(correlations) < -1.645 / np.sqrt(len(matrix)))


def preference(subjects, items, seed):
    generator = np.random.default_rng(seed)
    lean, ability = generator.standard_normal((2, subjects, 1))
    logit = 0.3 * (ability - generator.standard_normal(items)) + np.where(np.arange(items) % 2, 1.5, -1.5) * lean
    return (generator.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(np.int8)


@pytest.mark.parametrize(
    "matrix", [preference(150, 60, 1), simulate_answers(200, 50, 1, "2pl").matrix], ids=["two", "one"]
)
def test_the_main_component_is_that_of_a_singular_value_decomposition(matrix):
    matrix = matrix.copy()
    matrix[:, 3] = 1
    found = main_component(Answers.of(matrix), np.zeros(matrix.shape[1]))
    rho, against = principal(matrix.astype(float))
    assert found.correlation == pytest.approx(rho, abs=0.02)
    assert found.against == pytest.approx(against, abs=0.03)


def test_of_large_matrices_a_part_says_the_same(monkeypatch):
    matrix = preference(400, 120, 3)
    whole = main_component(Answers.of(matrix), np.zeros(120))
    monkeypatch.setattr(one_scale, "MOST_SUBJECTS", 200)
    monkeypatch.setattr(one_scale, "MOST_CELLS", 200 * 60)
    part = main_component(Answers.of(matrix), np.zeros(120))
    assert part != whole
    assert part.against == pytest.approx(whole.against, abs=0.15)
    assert max(part.correlation, whole.correlation) < 0.7


def test_noise_and_constant_answers_have_no_main_component():
    noise = np.random.default_rng(0).integers(0, 2, (200, 100)).astype(np.int8)
    assert main_component(Answers.of(noise), np.zeros(100)) is None
    assert main_component(Answers.of(np.ones((20, 5), dtype=np.int8)), np.zeros(5)) is None


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_the_headline_does_not_depend_on_the_model(model):
    doubted = breadth.calibrate(preference(150, 60, 2), model=model)
    assert doubted.scale_warning.startswith("these questions do not measure one ability")
    text = doubted.summary()
    for claim in ("the questions suit", "the questions are", "Nine in ten"):
        assert claim not in text
    trusted = breadth.calibrate(simulate_answers(150, 60, 2, "2pl").matrix, model=model)
    assert trusted.scale_warning is None
    assert "Nine in ten" in trusted.summary()


@pytest.mark.parametrize(
    ("name", "one"), [("rte", False), ("sst2", False), ("legalbench", False), ("med_qa", True), ("bigcodebench", True)]
)
def test_the_1pl_on_real_matrices(shared_data, name, one):
    """As the 2PL says; `benchmarks/irt_one_ability.py` has all matrices and both models."""
    found = breadth.calibrate(shared_data / "responses" / f"{name}.npz", model="1pl")
    assert ("one ability" in (found.scale_warning or "")) != one


@pytest.mark.parametrize("model", ["1pl", "2pl"])
def test_a_test_that_adapts_measures_one_ability(adapted, model):
    """The able answer harder items, so that their shares right are those of the others."""
    matrix, ability = adapted(600)
    found = breadth.calibrate(matrix, model=model)
    assert found.scale_warning is None
    assert found.verdict().answer is Answer.YES
    assert found.fit["score_correlation"].item() > 0.95
    assert np.corrcoef(found.subjects["ability"], ability)[0, 1] > 0.9
    assert any(line.startswith("abler models were given harder questions") for line in found.warnings)
    assert found.items.filter(pl.col("flag") == "wrong_key").height == 0


def test_shares_that_are_expected_of_everybody():
    matrix = simulate_answers(300, 20).matrix
    items = Parameters.of(np.zeros(20), np.ones(20))
    assert np.allclose(expected_shares(Answers.of(matrix), items), matrix.mean(axis=0)), "of everybody, by counting"
    gaps = matrix.copy()
    gaps[:150, :10] = -1
    assert np.allclose(expected_shares(Answers.of(gaps), items), 0.5, atol=1e-3), "of everybody, by the curves"
    easier = items._replace(intercept=np.full(20, np.nan))
    assert np.isfinite(expected_shares(Answers.of(gaps), easier)).all()


@pytest.mark.parametrize("missing", [0.2, 0.5])
def test_a_preference_shows_where_answers_are_missing(missing):
    matrix = preference(300, 60, 5)
    matrix[np.random.default_rng(6).random(matrix.shape) < missing] = -1
    found = breadth.calibrate(matrix)
    assert found.verdict().answer is Answer.NO
    assert found.fit["main_correlation"].item() < 0.6


def test_items_given_at_random_are_not_given_by_ability(adapted):
    matrix, ability = adapted(300)
    difficulty = np.random.default_rng(0).standard_normal(60)
    assert given_by_ability(Answers.of(np.where(matrix < 0, 0, matrix)), difficulty, ability) == 0
    found = breadth.calibrate(simulate_answers(300, 60, missing=0.5).matrix)
    assert not any("were given" in line for line in found.warnings)
