import shutil

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.records import StudyStore, read_answers, read_matrix, read_responses, read_trajectories


@pytest.fixture(scope="module")
def matrix(simulated_study):
    return read_matrix(simulated_study.folder)


def test_the_matrix_holds_the_answers_of_the_long_table(matrix, simulated_study):
    found = read_responses(simulated_study.folder)
    assert matrix.responses.subjects == found.subjects
    assert matrix.responses.items == found.items
    assert (matrix.responses.matrix == found.matrix).all()


def test_trajectories_are_those_of_the_long_table(matrix, simulated_study):
    facets = [name for name in matrix.testsets if name != "plain"]
    here = matrix.trajectories(simulated_study.runs, "plain", facets)
    there = read_trajectories(simulated_study.folder, "plain", facets, "run", "step")
    assert here.frame.equals(there.frame.select(here.frame.columns))
    np.testing.assert_allclose(here.halves, there.halves, atol=1e-12)


def test_correlate_takes_a_study_and_its_trajectories(matrix, simulated_study):
    facets = [name for name in matrix.testsets if name != "plain"]
    quick = breadth.correlate(
        matrix.trajectories(simulated_study.runs, "plain", facets), "plain", by="run", order="step"
    )
    long = breadth.correlate(simulated_study.folder, "plain", facets, "run", "step")
    assert "r_corrected" in quick.pairs.columns
    assert quick.pairs.equals(long.pairs)


def test_nothing_is_moved_when_a_part_is_damaged(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "study")
    path = StudyStore(folder).run(simulated_study.runs[0]).parts()[16]
    path.write_bytes(path.read_bytes()[:-7])
    before = sorted(str(entry) for entry in folder.rglob("*"))
    found = read_matrix(folder)
    assert "checksum" in found.warnings[0]
    assert found.subjects.height == 4 * 24 - 1
    assert sorted(str(entry) for entry in folder.rglob("*")) == before


def test_parts_with_other_items_and_missing_answers(tmp_path):
    store = StudyStore(tmp_path)
    store.write_items("a", pl.DataFrame({"item": ["1", "2"], "testset": ["a", "a"], "shift": ["domain"] * 2}))
    store.write_items("b", pl.DataFrame({"item": ["1"], "testset": ["b"], "shift": ["style"]}))
    run = store.run("r")
    run.write_spec({"model": "m"})
    base = {"margin": None, "answer": None}
    run.write_part(
        0,
        pl.DataFrame({"testset": ["a", "b"], "item": ["1", "1"], "correct": [1.0, 0.0]}).with_columns(
            **{k: pl.lit(v) for k, v in base.items()}
        ),
    )
    run.write_part(
        1,
        pl.DataFrame({"testset": ["b", "a"], "item": ["1", "2"], "correct": [1.0, 0.5]}).with_columns(
            **{k: pl.lit(v) for k, v in base.items()}
        ),
    )
    found = read_matrix(tmp_path)
    assert found.item_names == ["a / 1", "b / 1", "a / 2"]
    np.testing.assert_array_equal(found.correct, [[1, 0, np.nan], [np.nan, 1, 0.5]])
    assert found.scores[0].tolist() == [[1, 0], [0.5, 1]]
    long = read_responses(read_answers(tmp_path))
    assert long.items == tuple(found.item_names)


def test_no_study_no_matrix(tmp_path):
    with pytest.raises(InputError, match="is not the directory of a study"):
        read_matrix(tmp_path)
    for name in ("runs", "items"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="no checkpoint has been evaluated"):
        read_matrix(tmp_path)
