import numpy as np
import pytest

import breadth
from breadth.datasets import simulate_answers
from breadth.irt import Answers
from breadth.irt.components import Component, are_separate, linked_components, stray_warning
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
    assert result.scale_warning.startswith(
        f"the answers fall into 2 blocks that share no subject and no item ({sizes})"
    )
    verdict = result.verdict()
    assert verdict.answer is Answer.UNKNOWN
    assert sizes in verdict.reason
    assert verdict.needed.startswith("Calibrate each block by itself")
    result.save(tmp_path / "c.csv")
    assert breadth.Calibration.load(tmp_path / "c.csv").verdict().reason == verdict.reason


def test_a_stray_subject_is_mentioned_only():
    matrix = simulate_answers(400, 60).matrix.astype(np.int8)
    matrix[0, :59], matrix[1:, 59] = -1, -1
    result = breadth.calibrate(matrix)
    assert result.scale_warning is None
    assert result.verdict().answer is Answer.YES
    assert result.warnings[0].startswith("1 subject and 1 item share no answers with the others")
    assert stray_warning([Component(400, 60)]) is None


def test_blocks_are_those_of_the_answers_that_are_fitted():
    """The one item that links two blocks has too few answers to be fitted."""
    matrix = np.pad(disjoint(), ((0, 0), (0, 1)), constant_values=-1)
    matrix[[0, 199], 60] = 0, 1
    assert breadth.calibrate(matrix).scale_warning is None
    assert "2 blocks" in breadth.calibrate(matrix, min_responses=5).scale_warning
