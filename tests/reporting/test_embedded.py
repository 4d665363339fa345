import base64
import zlib

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.records.store import RunRecord, StudyStore
from breadth.reporting import ReportData
from breadth.reporting.embedded import (
    CHUNK,
    FINENESS,
    MANY_ROWS,
    coded,
    item_texts,
    kept_checkpoints,
    shown_items,
    single_answers,
    table_columns,
)
from breadth.reporting.items import ItemsSection
from breadth.sources import open_study


def inflated(text, kind):
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=kind)


def with_items(study):
    data = ReportData(study)
    data.tables |= ItemsSection().compute(data)
    return data


@pytest.fixture(scope="module")
def data(simulated_study):
    return with_items(open_study(simulated_study.folder))


def test_long_columns_are_packed_and_short_ones_are_not():
    rows = MANY_ROWS + 1
    frame = pl.DataFrame(
        {
            "value": [None, *np.linspace(0, 1, rows - 1)],
            "count": [None, *range(rows - 1)],
            "name": [None, *(f"n{k % 3}" for k in range(rows - 1))],
            "text": [f"text {k}" for k in range(rows)],
            "large": [2**40] * rows,
            "yes": [True] * rows,
        }
    )
    columns = table_columns(frame)
    value = inflated(columns["value"]["packed"], "<f4")
    assert np.isnan(value[0])
    assert value[1:] == pytest.approx(frame["value"].to_numpy()[1:], rel=1e-6)
    count = inflated(columns["count"]["packed"], "<i4")
    assert count[0] == columns["count"]["null"]
    assert count[1:].tolist() == frame["count"].to_list()[1:]
    codes = inflated(columns["name"]["codes"]["packed"], "<i4")
    names = [None if code == -1 else columns["name"]["names"][code] for code in codes]
    assert names == frame["name"].to_list()
    for name in ("text", "large", "yes"):
        assert columns[name] == frame[name].to_list()
    short = table_columns(frame.head(5))
    assert short["value"] == pytest.approx(frame["value"].head(5).to_list())
    assert short["count"] == frame["count"].head(5).to_list()


def test_answers_come_back_from_their_bytes():
    matrix = np.array([[0, 1, -1, 1, 0]], dtype=np.int8)
    margin = np.array([[-3.0, 0.4, 2.0, np.nan, 1e9]], dtype=np.float32)
    codes = coded(matrix, margin)[0]
    assert codes[2] == 0
    assert [(code - 1) & 1 for code in codes[[0, 1, 3, 4]]] == [0, 1, 1, 0]
    size = (codes.astype(int) - 1) >> 1
    back = np.sinh((size - 32) / FINENESS)
    assert np.arcsinh(back[:2]) == pytest.approx(np.arcsinh([-3.0, 0.4]), abs=0.5 / FINENESS)
    assert size[3] == 0
    assert size[4] == 63
    assert coded(matrix, None)[0].tolist() == [1, 2, 0, 2, 1]
    assert coded(np.array([[0.25, np.nan, 1.0]]), margin[:, :3])[0].tolist() == [26, 0, 101]


def test_every_answer_is_embedded(data):
    study, answers = data.described, single_answers(data)
    subjects, items = study.matrix.shape
    blocks = [inflated(text, np.uint8).reshape(-1, subjects) for text in answers["chunks"]]
    assert {len(block) for block in blocks[:-1]} == {CHUNK}
    codes = np.concatenate(blocks)
    assert codes.shape == (items, subjects)
    order = study.subjects.with_row_index("row").sort("run", "step")["row"].to_numpy()
    assert np.array_equal((codes.T - 1) & 1, study.matrix[order])
    ends = inflated(answers["ends"], np.uint8).reshape(-1, items)
    assert np.array_equal(ends - 1, study.matrix[study.ends["last"].to_numpy()])
    said = inflated(answers["said"], "<u2").reshape(-1, items)
    labels = study.items["label"].to_numpy()
    right = np.array(answers["names"])[said - 1] == labels
    assert np.array_equal(right, ends == 2)
    assert answers["checkpoints"] == [subjects, subjects]


def test_what_does_not_fit_is_thinned_and_then_left_out(data, monkeypatch):
    subjects, items = data.described.subjects, data.table("items").height
    runs = subjects["run"].n_unique()
    monkeypatch.setattr("breadth.reporting.embedded.MOST_ANSWERS", 5 * runs * items + 1)
    kept = subjects[kept_checkpoints(subjects, items)]
    steps = kept.group_by("run", maintain_order=True).agg("step")["step"].to_list()
    last = subjects["step"].max()
    assert [len(each) for each in steps] == [5] * runs
    assert all(each[0] == 0 and each[-1] == last and each == sorted(each) for each in steps)
    assert single_answers(data)["checkpoints"] == [5 * runs, subjects.height]
    monkeypatch.setattr("breadth.reporting.embedded.MOST_ANSWERS", runs * items - 1)
    assert single_answers(data) == {"reason": f"{runs} x {items} answers are more than a page can carry"}


def test_a_sample_of_items_takes_its_own_answers(simulated_study, monkeypatch):
    monkeypatch.setattr("breadth.reporting.items.MOST_ITEMS", 90)
    data = with_items(open_study(simulated_study.folder))
    places = shown_items(data)
    assert data.study.items["item"].gather(places).to_list() == data.table("items")["item"].to_list()
    ends = inflated(single_answers(data)["ends"], np.uint8).reshape(-1, 90)
    last = data.described.ends["last"].to_numpy()
    assert np.array_equal(ends - 1, data.study.matrix[np.ix_(last, places)])


def test_tables_without_runs_or_margins_have_answers():
    matrix = np.random.default_rng(0).random((12, 30)) < 0.6
    data = with_items(breadth.open(matrix))
    answers = single_answers(data)
    codes = np.concatenate([inflated(text, np.uint8).reshape(-1, 12) for text in answers["chunks"]])
    order = data.described.subjects.with_row_index("row").sort("run", "step")["row"].to_numpy()
    assert np.array_equal(codes.T - 1, matrix[order])
    assert "said" not in answers
    assert item_texts(data)["prompts"] == {}


def test_prompts_are_as_the_runs_recorded_them(tmp_path):
    store = StudyStore(tmp_path)
    items = {"item": ["1", "2"], "testset": ["a", "a"], "question": [" what? ", "x" * 9000], "label": ["A", "B"]}
    options = {"options": [["yes", "no"]] * 2, "option_labels": [["A", "B"]] * 2}
    store.write_items("a", pl.DataFrame(items | options))
    run = store.run("r")
    task = {"kind": "choice", "template": "Q: {{literal}} {question}\n{choices}\nAnswer:"}
    run.write_record(RunRecord("m", method="few-shot", examples=3, tasks={"a": task, "broken": {"template": "{"}}))
    answers = {
        "testset": ["a", "a"],
        "item": ["1", "2"],
        "correct": [1, 0],
        "margin": [0.1, None],
        "answer": ["A", "A"],
    }
    run.write_part(0, pl.DataFrame(answers))
    data = with_items(breadth.open(tmp_path))
    texts = item_texts(data)
    assert list(texts["prompts"]) == ["a"]
    parts = texts["prompts"]["a"]["parts"]
    row = {"question": "what?", "choices": "A. yes\nB. no"}
    prompt = "".join(text + (row[field] if field else "") for text, field in parts)
    assert prompt == "Q: {literal} what?\nA. yes\nB. no\nAnswer:"
    assert texts["options"] == {name: [list(each) for each in values] for name, values in options.items()}
    assert texts["examples"] == 3
    assert texts["columns"]["question"] == ["what?", "x" * 9000]


def test_long_texts_are_cut_where_items_are_many(simulated_study, monkeypatch):
    monkeypatch.setattr("breadth.reporting.embedded.MOST_CHARACTERS", 10)
    monkeypatch.setattr("breadth.reporting.embedded.MOST_TEXT", 100)
    texts = item_texts(with_items(open_study(simulated_study.folder)))
    column = texts["columns"]["premise"]
    values = column["names"] if isinstance(column, dict) else column
    assert max(map(len, values)) <= 12
