import numpy as np
import polars as pl
import pytest

import breadth
from breadth.records.store import RunRecord, StudyStore
from breadth.reporting import ReportData
from breadth.reporting.items import DOUBT_WORDS, MOST_CHARACTERS, Doubt, ItemsSection, item_rest
from breadth.sources import open_study


def test_item_rest_is_the_plain_correlation(simulated_study):
    study = open_study(simulated_study.folder)
    columns = np.flatnonzero(study.set_index == 2)
    x = study.correct[:, columns].astype(float)
    for values in (study.correct, study.margin):
        correlation = item_rest(study, values)
        for place in (0, 7, 31):
            rest = x.sum(axis=1) - x[:, place]
            assert correlation[columns[place]] == pytest.approx(np.corrcoef(values[:, columns[place]], rest)[0, 1])


def test_items_without_a_calibration(simulated_study):
    study = open_study(simulated_study.folder)
    few = ReportData(study.select(pl.col("step") >= 352))
    items = ItemsSection().compute(few)["items"]
    assert few.reasons["calibration"].endswith("there are 8 and 400")
    assert items.height == study.items.height
    assert items["text"][0].startswith("premise: ")
    assert "difficulty" not in items.columns
    last = study.subjects.with_row_index().filter(
        (pl.col("step") == pl.col("step").max()) & (pl.col("model") == "model-a")
    )
    assert items["right_model-a"][5] == study.correct[last["index"].to_numpy(), 5].mean()


def test_a_doubt_has_a_code_and_a_sentence(simulated_study):
    items = ItemsSection().compute(ReportData(open_study(simulated_study.folder)))["items"]
    doubted = items.drop_nulls("doubt_flag")
    assert doubted.height == items["doubt"].drop_nulls().len() > 0
    assert [DOUBT_WORDS[Doubt(flag)] for flag in doubted["doubt_flag"]] == doubted["doubt"].to_list()
    wrong = set(doubted["item"]) & set(simulated_study.wrong_labels)
    assert len(wrong) >= 0.5 * len(simulated_study.wrong_labels)
    assert len(wrong) >= 0.8 * doubted.height, "an item that is merely hard is not doubted"


def test_a_large_table_is_sampled_with_its_doubts(simulated_study, monkeypatch):
    data = ReportData(open_study(simulated_study.folder))
    items = ItemsSection().compute(data)["items"]
    assert ItemsSection().compute(data)["items"].equals(items)
    doubted = items["doubt"].drop_nulls().len()
    monkeypatch.setattr("breadth.reporting.items.MOST_ITEMS", doubted + 40)
    sample = ItemsSection().compute(data)["items"]
    assert sample.height == doubted + 40
    assert sample["doubt"].drop_nulls().len() == doubted
    assert sample.equals(items.join(sample.select("testset", "item"), on=["testset", "item"], maintain_order="left"))
    assert ItemsSection().compute(data)["items"].equals(sample)


def test_long_texts_are_cut(tmp_path):
    store = StudyStore(tmp_path)
    store.write_items("a", pl.DataFrame({"item": ["1", "2"], "testset": ["a", "a"], "question": ["x" * 5000, None]}))
    run = store.run("r")
    run.write_record(RunRecord("m"))
    answers = {"testset": ["a", "a"], "item": ["1", "2"], "correct": [1, 0], "margin": [None, None], "answer": ["", ""]}
    run.write_part(0, pl.DataFrame(answers))
    items = ItemsSection().compute(ReportData(breadth.open(tmp_path)))["items"]
    assert len(items["text"][0]) <= MOST_CHARACTERS + 2
    assert items["text"][1] in (None, "")
