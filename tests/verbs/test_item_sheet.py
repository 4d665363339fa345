import numpy as np
import polars as pl
import pytest

from breadth.records import StudyStore, read_matrix
from breadth.verbs.item_sheet import MOST_CHARACTERS, item_rest, item_sheet, shown_items


def test_item_rest_is_the_plain_correlation(simulated_study):
    study = read_matrix(simulated_study.folder)
    found = item_rest(study)
    columns = np.flatnonzero(study.set_index == 2)
    x = study.correct[:, columns].astype(float)
    for place in (0, 7, 31):
        rest = x.sum(axis=1) - x[:, place]
        assert found[columns[place]] == pytest.approx(np.corrcoef(x[:, place], rest)[0, 1])


def test_a_sheet_without_calibration(simulated_study):
    study = read_matrix(simulated_study.folder)
    sheet = item_sheet(study, None)
    assert sheet.height == study.items.height
    assert sheet["text"][0].startswith("premise: ")
    assert "difficulty" not in sheet.columns
    last = study.subjects.with_row_index().filter(
        (pl.col("step") == pl.col("step").max()) & (pl.col("model") == "model-a")
    )
    assert sheet["right_model-a"][5] == study.correct[last["index"].to_numpy(), 5].mean()


def test_a_large_sheet_is_sampled_with_its_doubts():
    sheet = pl.DataFrame(
        {"item": [str(i) for i in range(1000)], "doubt": ["why" if i % 100 == 0 else None for i in range(1000)]}
    )
    found = shown_items(sheet, most=50)
    assert found.height == 50
    assert found["doubt"].drop_nulls().len() == 10
    assert found["item"].cast(pl.Int64).is_sorted()
    assert shown_items(sheet, most=50).equals(found)
    assert shown_items(sheet, most=1000).equals(sheet)


def test_long_texts_are_cut(tmp_path):
    store = StudyStore(tmp_path)
    store.write_items("a", pl.DataFrame({"item": ["1", "2"], "testset": ["a", "a"], "question": ["x" * 5000, None]}))
    run = store.run("r")
    run.write_spec({"model": "m"})
    answers = {"testset": ["a", "a"], "item": ["1", "2"], "correct": [1, 0], "margin": [None, None], "answer": ["", ""]}
    run.write_part(0, pl.DataFrame(answers))
    sheet = item_sheet(read_matrix(tmp_path), None)
    assert len(sheet["text"][0]) <= MOST_CHARACTERS + 2
    assert sheet["text"][1] in (None, "")
