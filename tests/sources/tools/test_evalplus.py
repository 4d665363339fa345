"""EvalPlus and BigCodeBench: real results, other versions of them, and damaged ones."""

import json

import numpy as np
import pytest

import breadth
from breadth.sources.registry import Part
from breadth.sources.tools.evalplus import PASSED, EvalPlus

from .reading import is_experimental, part_of, read


@pytest.fixture
def write(tmp_path):
    def to(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return to


def evaluated(tasks, **more):
    return {"date": "2024-05-01 10:00", "hash": "abc", "eval": tasks, **more}


def sample(base, plus=None):
    return {"task_id": "x", "solution": "...", "base_status": base, "plus_status": plus}


def test_the_real_results_of_evalplus(shared_data):
    base, plus = read(EvalPlus(), shared_data / "logs/evalplus/burakyetistiren/samples_eval_results.json")
    assert (base.testset, plus.testset) == ("humaneval", "humaneval+")
    assert (base.model, base.stamp) == ("burakyetistiren", "2023-10-17 15:24")
    assert len(base.items) == len(plus.items) == 164
    assert not base.scores(PASSED).any()  # every task timed out
    assert not plus.scores(PASSED).any()
    assert not is_experimental(base)


def test_added_tests_count_only_with_the_original_ones(write):
    tasks = {
        "HumanEval/0": [sample("pass", "pass")],
        "HumanEval/1": [sample("pass", "fail")],
        "HumanEval/2": [sample("fail", "pass")],
        "HumanEval/3": [sample("timeout", "timeout")],
        "HumanEval/4": [sample("pass", None)],
    }
    base, plus = read(EvalPlus(), write("m_eval_results.json", evaluated(tasks)))
    assert base.scores(PASSED).tolist() == [1, 1, 0, 0, 1]
    np.testing.assert_array_equal(plus.scores(PASSED), [1, 0, 0, 0, np.nan])
    assert is_experimental(base)  # version 0.2


def test_both_versions_say_the_same(write):
    new = {"Mbpp/2": [sample("pass", "pass"), sample("pass", "fail")], "Mbpp/3": [sample("fail", "fail")] * 2}
    words = {"pass": "success", "fail": "failed"}
    old = {
        task: {
            "nfiles": 2,
            "base": [[words[one["base_status"]], []] for one in samples],
            "plus": [[words[one["plus_status"]], [True]] for one in samples],
        }
        for task, samples in new.items()
    }
    results = [read(EvalPlus(), write(f"{k}_eval_results.json", evaluated(one))) for k, one in enumerate((old, new))]
    for before, after in zip(*results, strict=True):
        assert before.testset == after.testset
        assert before.items == after.items
        assert before.scores(PASSED).tolist() == after.scores(PASSED).tolist()
    assert [log.testset for log in results[0]] == ["mbpp", "mbpp+"]
    assert results[0][1].scores(PASSED).tolist() == [0.5, 0]


def test_samples_are_averaged_or_epochs(write):
    path = write("m_eval_results.json", evaluated({"HumanEval/0": [sample("pass"), sample("fail"), sample("fail")]}))
    (log,) = read(EvalPlus(), path)  # the added tests were not run
    assert log.scores(PASSED).tolist() == [1 / 3]
    each = read(EvalPlus(), path, epochs="each")
    assert [log.scores(PASSED)[0] for log in each] == [1, 0, 0]
    assert [log.subject["epoch"] for log in each] == [1, 2, 3]


def test_stated_shares(write):
    tasks = {"HumanEval/0": [sample("pass", "fail")], "HumanEval/1": [sample("fail", "fail")]}
    stated = {"base": {"pass@1": 0.5}, "plus": {"pass@1": 0.0}}
    base, plus = read(EvalPlus(), write("m_eval_results.json", evaluated(tasks, pass_at_k=stated)))
    assert (base.stated, plus.stated) == ({PASSED: 0.5}, {PASSED: 0.0})


def test_bigcodebench(write):
    stem = "acme--small--bigcodebench-hard-instruct--vllm-0-1-sanitized_calibrated"
    tasks = {"BigCodeBench/0": [{"status": "pass"}], "BigCodeBench/1": [{"status": "timeout"}]}
    beside = write(f"{stem}_pass_at_k.json", {"pass@1": 0.5, "model": "acme/small"})
    assert part_of(EvalPlus(), beside) is Part.SCORES
    (log,) = read(EvalPlus(), write(f"{stem}_eval_results.json", {"date": "d", "eval": tasks}))
    assert part_of(EvalPlus(), beside) is Part.COMPANION
    assert (log.testset, log.model, log.settings) == (
        "bigcodebench-hard-instruct",
        "acme/small",
        {"temperature": 0},
    )
    assert (log.scores(PASSED).tolist(), log.stated) == ([1, 0], {PASSED: 0.5})


@pytest.mark.parametrize(
    ("name", "model", "settings"),
    [
        ("evalplus_results/humaneval/acme--small_vllm_temp_0.0.eval_results.json", "acme/small", {"temperature": 0}),
        ("acme--small_hf_temp_0.8-sanitized_eval_results.json", "acme/small", {"temperature": 0.8}),
        ("small_temp_0.2/eval_results.json", "small", {"temperature": 0.2}),
        ("small/humaneval/samples_eval_results.json", "small", {}),
        ("gpt-4_eval_results.json", "gpt-4", {}),
    ],
)
def test_the_path_names_the_model(write, name, model, settings):
    (log,) = read(EvalPlus(), write(name, evaluated({"HumanEval/0": [sample("pass")]})))
    assert (log.model, log.settings) == (model, settings)


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "eval is "),
        ({"HumanEval/0": 3}, "eval, HumanEval/0: expected a list of samples"),
        ({"HumanEval/0": [3]}, "eval, HumanEval/0: expected a JSON object"),
        ({"HumanEval/0": [{"solution": "x"}]}, "eval, HumanEval/0: has no base_status or status"),
        ({"HumanEval/0": [sample("crashed")]}, "eval, HumanEval/0: base_status is 'crashed'"),
        ({"HumanEval/0": [sample("pass", "crashed")]}, "eval, HumanEval/0: plus_status is 'crashed'"),
        ({"HumanEval/0": {"nfiles": 1, "base": [[["a"]]]}}, "eval, HumanEval/0: base_status is "),
    ],
)
def test_damaged_results_are_one_message_with_the_place(write, tasks, message):
    path = write("m_eval_results.json", evaluated(tasks))
    with pytest.raises(breadth.InputError, match=message) as refused:
        read(EvalPlus(), path)
    assert str(refused.value).startswith(str(path))
