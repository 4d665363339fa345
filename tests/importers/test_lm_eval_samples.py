import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.importers.lm_eval_samples import read_samples, read_written_out
from breadth.importers.reading import LogFile

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def row(k, **changes):
    arguments = {f"gen_args_{i}": {"arg_0": "Why?", "arg_1": option} for i, option in enumerate((" a", " b"))}
    return {
        "doc_id": k, "doc": {"question": f"Why {k}?"}, "target": "1", "arguments": arguments,
        "resps": [[["-1", "False"]], [["-2", "True"]]], "filtered_resps": [["-1", "False"], ["-2", "True"]],
        "filter": "none", "metrics": ["acc"], "doc_hash": f"{k:064x}", "acc": 1.0, **changes,
    }  # fmt: skip


def outcome(file, fast=True):
    """The samples, or the message with which they are refused."""
    try:
        return read_samples(file, True, fast)
    except InputError as error:
        return str(error)


def write(path, rows, indent=None):
    lines = [json.dumps(one) + "\n" for one in rows]
    path.write_text("".join(lines) if indent is None else json.dumps(rows, indent=indent))
    return LogFile.look(path)


@pytest.mark.parametrize("fast", [True, False])
def test_samples_are_in_the_order_of_their_documents(tmp_path, fast):
    samples = read_samples(write(tmp_path / "x.jsonl", [row(k) for k in (2, 0, 1)]), True, fast)
    assert [sample.doc_id for sample in samples] == [0, 1, 2]
    assert samples[1].text == "Why 1?"
    assert samples[1].logs == [-1, -2]
    assert samples[1].continuations == [" a", " b"]
    assert samples[1].options == ["a", "b"]
    assert samples[1].scores == {"none": {"acc": 1.0}}


def test_real_samples_are_the_same_read_fast_and_whole(shared_data):
    paths = [*shared_data.glob("logs/lm-eval/**/samples_*.jsonl"), *shared_data.glob("logs/samples_*.jsonl")]
    assert len(paths) == 24
    for path in paths:
        for texts in (True, False):
            file = LogFile.look(path)
            assert read_samples(file, texts) == read_samples(file, texts, fast=False), path


@given(st.lists(st.tuples(st.sampled_from(sorted(row(0))), ANYTHING), max_size=3), st.integers(0, 2))
def test_rows_with_anything_in_them_are_read_or_refused(tmp_path_factory, changes, changed):
    rows = [row(k) for k in range(3)]
    rows[changed] |= dict(changes)
    file = write(tmp_path_factory.mktemp("rows") / "x.jsonl", rows)
    fast, whole = outcome(file), outcome(file, fast=False)
    assert isinstance(whole, list) or whole.startswith(f"{file.path}, line ")
    assert repr(fast) == repr(whole)  # NaN is not itself


def test_scores_of_every_kind(tmp_path):
    scores = {
        "a": "True", "b": "0.5", "c": True, "d": [1, 0], "e": None, "f": "text", "g": 10**400, "h": float("nan"), "i": 2
    }  # fmt: skip
    changes = {"metrics": None} | scores
    (sample,) = read_samples(write(tmp_path / "x.jsonl", [row(0, **changes)]), True)
    assert sample.scores["none"] == {
        "a": 1, "b": 0.5, "c": 1, "d": None, "e": None, "f": None, "g": None, "h": None, "i": 2, "acc": 1
    }  # fmt: skip


@pytest.mark.parametrize(
    "responses",
    [[], None, "text", [["-1", "False"]], [["-1"], ["-2"]], [["x", "False"]] * 2, [[-1, 2]] * 2, [[1, []]] * 2],
)
def test_responses_that_are_no_log_likelihoods(tmp_path, responses):
    (sample,) = read_samples(write(tmp_path / "x.jsonl", [row(0, filtered_resps=responses)]), True)
    assert sample.logs == []


def test_long_answers_are_not_kept(tmp_path):
    rows = [row(0, filtered_resps=["x" * 201]), row(1, filtered_resps=["x" * 200]), row(2, filtered_resps=[["a"]])]
    samples = read_samples(write(tmp_path / "x.jsonl", rows), True)
    assert [sample.responses["none"] for sample in samples] == [None, "x" * 200, None]


def test_half_surrogates_and_deep_nesting(tmp_path):
    path = tmp_path / "x.jsonl"
    bare = json.dumps(row(0) | {"doc_hash": None})
    for hard in ('"\\ud800"', "[" * 900 + "]" * 900, "[" * 100_000 + "]" * 100_000):
        path.write_text(bare.replace('"Why 0?"', hard))
        result = outcome(LogFile.look(path))
        assert len(result) == 1 or result.startswith(f"{path}, line 1: ")


def test_written_out_documents_are_told_apart_by_prompts_if_need_be(tmp_path):
    rows = [
        {"doc_id": k, "prompt_0": f"Example {k}.\n\nTL;DR:", "logit_0": "text", "truth": "x", "em": "0.0"}
        for k in range(3)
    ]
    samples = read_written_out(write(tmp_path / "x.json", rows, 4), True)
    assert len({sample.identity for sample in samples}) == 3
    assert [sample.responses[0] for sample in samples] == ["text"] * 3
    assert samples[0].scores == {0: {"em": 0.0}}


@pytest.mark.parametrize("damaged", [{}, {"prompt_0": 3}, 7, {"logit_0": 1.0}])
def test_damaged_written_out_elements_are_named(tmp_path, damaged):
    rows = [{"doc_id": 0, "prompt_0": "Why?", "logit_0": "x", "acc": "1"}, damaged]
    with pytest.raises(InputError, match="element 2: has no prompt_0"):
        read_written_out(write(tmp_path / "x.json", rows, 4), True)
