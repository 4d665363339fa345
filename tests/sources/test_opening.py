"""Several files as one source: which file is the cause where one does not fit, and what beside them is not read."""

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.sources import open_source, open_study


def answers(model, items, seed=0):
    generator = np.random.default_rng(seed)
    return pl.DataFrame({"model": model, "item": items, "correct": generator.integers(0, 2, len(items))})


@pytest.fixture
def folder(tmp_path):
    """A file of answers for each of six models; one of them answered other items."""
    folder = tmp_path / "answers"
    folder.mkdir()
    for k in range(6):
        first = 1000 if k == 3 else 0
        answers(f"m{k}", [f"q{first + i}" for i in range(40)], k).write_csv(folder / f"file-{k}.csv")
    return folder


def test_the_file_of_a_model_that_answered_other_items_is_named(folder):
    ranking = breadth.rank(folder)
    assert "m3" not in ranking.ranks["model"].to_list()
    assert ranking.ranks.height == 5
    (warning,) = [line for line in ranking.warnings if "m3" in line]
    assert "file-3.csv" in warning


@pytest.mark.parametrize("door", [open_source, open_study])
def test_a_directory_of_answers_is_read_in_one_way(folder, door):
    study = door(folder)
    assert study.matrix.shape == (6, 80)
    assert study.reading.files["m5"].endswith("file-5.csv")
    assert door([folder / f"file-{k}.csv" for k in range(6)]).matrix.shape == (6, 80)
    assert door(str(folder / "*.csv")).matrix.shape == (6, 80)


@pytest.mark.parametrize("door", [open_source, open_study])
def test_files_beside_answers_that_hold_none_are_named(folder, door):
    pl.DataFrame({"model": ["m0", "m1"], "mnli": [0.5, 0.6], "hans": [0.4, 0.3]}).write_csv(folder / "scores.csv")
    study = door(folder)
    assert study.matrix.shape == (6, 80)
    assert any("scores.csv" in line for line in study.warnings)


@pytest.mark.parametrize("door", [open_source, open_study])
def test_a_directory_with_one_table(tmp_path, door):
    answers("m", [f"q{i}" for i in range(5)]).write_csv(tmp_path / "only.csv")
    assert door(tmp_path).matrix.shape == (1, 5)
