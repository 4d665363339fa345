"""lighteval's details: the real file, both layouts, and damaged ones."""

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import breadth
from breadth.sources.logs.log import Metric, SkipFile
from breadth.sources.registry import Part
from breadth.sources.tools import lighteval
from breadth.sources.tools.lighteval import Lighteval, _parts_of_task

from . import reading
from .reading import is_experimental, part_of

STAMP = "2024-05-01T10-00-00.123456"
ACC, NORM = Metric("acc"), Metric("acc_norm")


def read(path, **options):
    (log,) = reading.read(Lighteval(), path, **options)
    return log


@pytest.fixture(scope="module")
def real(shared_data):
    return next((shared_data / "logs/lighteval").rglob("*.parquet"))


@pytest.fixture
def write(tmp_path):
    """Write details, with results beside them if any are given."""

    def details(rows, key="leaderboard|arc:challenge|25", results=None, general=None, model="acme/small"):
        path = tmp_path / "details" / model / STAMP / f"details_{key}_{STAMP}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(rows, strict=False).write_parquet(path)
        if results is not None:
            beside = tmp_path / "results" / model / f"results_{STAMP}.json"
            beside.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(json.dumps({"config_general": general or {}, "results": results}))
        return path

    return details


def new(query="Q", choices=(" x", " yy"), gold=0, logprobs=(-1.0, -3.0), metric=None, text=()):
    return {
        "doc": {"query": query, "choices": list(choices), "gold_index": gold, "task_name": "arc:challenge|25"},
        "model_response": {"text": list(text), "logprobs": list(logprobs), "input_tokens": [1, 2]},
        "metric": metric or {"acc": 1, "acc_norm": 0},
    }


def old(query="Q", choices=(" x", " yy"), gold=(0,), predictions=(-1.0, -3.0), **metrics):
    return {
        "example": query, "full_prompt": "examples " + query, "choices": list(choices), "gold_index": list(gold),
        "gold": [], "predictions": list(predictions), "pred_logits": [], "metrics": metrics or {"acc": 1.0},
    }  # fmt: skip


def test_the_real_file(real):
    log = read(real)
    table = pl.read_parquet(real)
    assert (log.testset, log.model) == ("arc_local", "HuggingFaceTB/SmolLM2-135M-Instruct")
    for name in ("acc", "acc_norm"):
        assert log.scores(Metric(name)).tolist() == table["metric"].struct.field(name).to_list()
    assert len(set(log.items)) == 13
    assert log.items[12] == log.items[3] + "#2"  # the same question twice
    assert log.settings["num_fewshot"] == 0
    assert log.stamp == "2026-11-16T07-39-02.659455"
    assert not log.notes


def test_margins_of_the_real_file_agree_with_its_scores(real):
    log = read(real)
    table = pl.read_parquet(real)
    rows = zip(table["model_response"].struct.field("logprobs"), table["doc"].struct.field("gold_index"), strict=True)
    expected = []
    for logprobs, gold in rows:
        p = np.exp(np.array(logprobs) - max(logprobs))
        expected.append(np.log(p[gold]) - np.log(p.sum() - p[gold]))
    np.testing.assert_allclose(log.margins[ACC], expected)
    chosen = [answer == label for answer, label in zip(log.answers, log.texts["label"], strict=True)]
    assert chosen == (log.scores(ACC) == 1).tolist()
    assert set(log.margins) == {ACC, NORM}
    assert (log.margins[NORM][log.scores(NORM) == 0] < 0).all()


def test_real_results_are_a_companion_but_scores_where_their_details_are_not(real, shared_data, tmp_path):
    results = next((shared_data / "logs/lighteval").rglob("results_*.json"))
    assert part_of(Lighteval(), results) is Part.COMPANION
    assert part_of(Lighteval(), Path(shutil.copy(results, tmp_path))) is Part.SCORES


def test_old_and_new_layout_give_the_same_items(write):
    queries = ["Q1", "Q2", "Q1"]
    after = read(write([new(query) for query in queries]))
    before = read(write([old(query) for query in queries], key="arc:challenge|0"))
    assert list(before.items) == list(after.items)
    assert before.testset == after.testset == "arc:challenge"
    assert before.margins[ACC].tolist() == after.margins[ACC].tolist() == [2.0] * 3
    assert before.texts == after.texts
    assert before.settings["num_fewshot"] == 0
    assert is_experimental(before)
    assert not is_experimental(after)


def test_choices_tell_questions_with_one_query_apart_and_gold_answers_do_not(write):
    rows = [new(choices=(" x", " y")), new(choices=(" x", " z"))]
    assert not any("#" in item for item in read(write(rows)).items)
    free = [new(choices=("4",), logprobs=(), text=[" 4 "]), new(choices=("four",), logprobs=(), text=["?" * 500])]
    log = read(write(free))
    assert log.items[1] == log.items[0] + "#2"
    assert (log.texts["target"], list(log.answers)) == (["4", "four"], ["4", None])
    assert not log.margins


def test_cells_that_were_cast_to_text(write):
    rows = [old("Q1", predictions=((-1.0, False), (-3.0, True)), acc=1.0), old("Q2", gold=(1,), acc=0.0, em=True)]
    plain = read(write([old("Q1"), old("Q2", gold=(1,), acc=0.0)]))
    text = [{key: value if key == "example" else str(value) for key, value in row.items()} for row in rows]
    log = read(write(text))
    assert list(log.items) == list(plain.items)
    assert log.scores(ACC).tolist() == [1, 0]
    assert log.margins[ACC].tolist() == plain.margins[ACC].tolist() == [2.0, -2.0]


def test_metrics_as_columns_of_their_own(write):
    rows = [{**{k: v for k, v in old().items() if k != "metrics"}, "acc": 1.0, "acc_norm": 0.0}]
    assert set(read(write(rows)).values) == {ACC, NORM}


def test_a_rule_that_does_not_reproduce_the_scores_gives_no_margin(write):
    rows = [new("Q1"), new("Q2", metric={"acc": 0, "acc_norm": 0})]  # the gold choice is the likeliest, but acc is 0
    assert ACC not in read(write(rows)).margins


def test_normalised_margins_divide_by_length_with_or_without_the_space(write):
    # " x" against " yyyyyyyyy": by all characters 2 and 10, without the space 1 and 9.
    row = new(choices=(" x", " yyyyyyyyy"), logprobs=(-2.0, -12.0), metric={"acc": 1, "acc_norm": 1})
    np.testing.assert_allclose(read(write([row])).margins[NORM], [-1 + 1.2])
    row["metric"]["acc_norm"] = 0
    assert read(write([row])).margins[NORM][0] == pytest.approx(-2 + 12 / 9)


def test_results_state_means_model_and_weights(write):
    general = {
        **{"model_name": "acme/other", "lighteval_sha": "abc", "model_sha": "f00", "model_dtype": "bfloat16"},
        "model_config": {"revision": "step1000", "generation_parameters": {"temperature": 0.6, "seed": None}},
    }
    results = {"leaderboard|arc:challenge|25": {"acc": 1.0, "acc_stderr": 0.1}, "all": {"acc": 0.3}}
    log = read(write([new()], results=results, general=general))
    assert (log.model, log.version, log.stated) == ("acme/other", "abc", {ACC: 1.0})
    assert (log.subject["revision"], log.subject["model_sha"], log.subject["dtype"]) == ("step1000", "f00", "bfloat16")
    assert log.settings == {"num_fewshot": 25, "suite": "leaderboard", "temperature": 0.6}


def test_without_results_the_path_names_the_model(write, tmp_path):
    path = write([new()])
    assert read(path).model == "acme/small"
    hub = tmp_path / "details_acme__small_private" / STAMP / path.name
    hub.parent.mkdir(parents=True)
    log = read(Path(shutil.copy(path, hub)))
    assert log.model == "acme/small"
    assert any("named by the path" in note for note in log.notes)


def test_a_renamed_file_still_names_its_task(write, tmp_path):
    log = read(Path(shutil.copy(write([new()]), tmp_path / "copy.parquet")))
    assert (log.testset, log.settings["num_fewshot"]) == ("arc:challenge", 25)


@pytest.mark.parametrize(
    ("metrics", "first"),
    [
        (["acc_norm", "acc"], "acc"),
        (["f1", "em"], "em"),
        (["acc", "extractive_match"], "extractive_match"),
        (["pass@k:k=16", "pass@k:k=1"], "pass@k:k=1"),
        (["mc2", "mc1"], "mc1"),
    ],
)
def test_the_preferred_metric(write, metrics, first):
    assert read(write([new(metric=dict.fromkeys(metrics, 0.5))])).prefer[0] == first


def test_values_that_are_not_numbers_are_missing(write):
    rows = [new("a", metric={"acc": 1.0, "inst": [1.0]}), new("b", metric={"acc": float("nan"), "inst": [0.0]})]
    log = read(write(rows))
    assert list(log.values) == [ACC]
    np.testing.assert_array_equal(log.scores(ACC), [1, np.nan])
    with pytest.raises(SkipFile, match="no metric"):
        read(write([new(metric={"inst": [1.0]})]))


def test_large_files_are_read_in_pieces(real, monkeypatch):
    whole = read(real)
    monkeypatch.setattr(lighteval, "READ_AT_ONCE", 0)
    monkeypatch.setattr(lighteval, "ROWS_AT_A_TIME", 5)
    pieces = read(real)
    assert (pieces.items, pieces.texts, pieces.answers) == (whole.items, whole.texts, whole.answers)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("leaderboard|mmlu:anatomy|5", ("leaderboard", "mmlu:anatomy", 5)),
        ("arc:easy|0", (None, "arc:easy", 0)),
        ("lighteval|a|b|5|0", ("lighteval", "a|b", 5)),
        ("plain", (None, "plain", None)),
        ("5", (None, "5", None)),
    ],
)
def test_parts_of_a_task(key, parts):
    assert _parts_of_task(key) == parts


@given(st.text(max_size=30))
def test_every_name_gives_a_test_set(key):
    assert _parts_of_task(key)[1] or not key.strip("|")


def test_damaged_files_are_one_message_with_the_file(write, real, tmp_path):
    with pytest.raises(breadth.InputError, match=r"parquet, row 1: has no doc\.query"):
        read(write([{**new(), "doc": {"choices": ["a"]}}]))
    with pytest.raises(SkipFile, match="no rows"):
        read(write(pl.DataFrame([new()]).clear()))
    content = bytearray(real.read_bytes())
    content[4:3000] = bytes(2996)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(content)
    with pytest.raises(breadth.InputError, match=r"broken\.parquet: cannot be read; it is truncated, damaged"):
        read(broken)
