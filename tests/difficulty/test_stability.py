import numpy as np

from breadth.difficulty import level_stability


def test_more_subjects_make_levels_stabler():
    generator = np.random.default_rng(0)
    ability, difficulty = generator.standard_normal((1200, 1)), generator.standard_normal(60)
    answers = (generator.random((1200, 60)) < 1 / (1 + np.exp(difficulty - ability))).astype(np.int8)
    found = level_stability(answers, lambda matrix: -matrix.mean(axis=0), levels=5, repeats=4)
    assert found.subjects.tolist() == [25, 50, 100, 200, 500]
    assert found.same_level[-1] > found.same_level[0] + 0.2
    assert found.rank_correlation[-1] > 0.97
    assert np.all(found.within_one >= found.same_level)


def test_few_subjects_are_split_in_two():
    answers = np.random.default_rng(1).integers(0, 2, (30, 12)).astype(np.int8)
    found = level_stability(answers, lambda matrix: -matrix.mean(axis=0), levels=3, repeats=2)
    assert found.subjects.tolist() == [15]
