"""EvalPlus, BigCodeBench and SWE-bench: real results, other versions of them, and damaged ones."""

import importlib.util
import json
import random
from pathlib import Path

import numpy as np
import pytest

import breadth
from breadth.sources.logs.log import Options, SkipFile
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.evalplus import PASSED, EvalPlus
from breadth.sources.tools.swe_bench import RESOLVED, SweBench

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).parents[2] / "fuzz" / "fuzzing.py")
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)

PRO = {
    "claude-45sonnet-10132025": (730, 319),
    "claude-4sonnet-10132025": (562, 240),
    "claude-sonnet-4-paper": (663, 166),
    "gpt-4o-paper": (619, 36),
    "gpt-5-250-turns-10132025": (729, 265),
    "gptoss-paper": (728, 118),
    "kimi-k2-instruct-10132025": (729, 202),
}


def read(importer, path, **options):
    file = SourceFile.look(path)
    assert importer.part(file) is Part.ANSWERS
    return list(importer.read_answers(file, Options(**options)))


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
    assert EvalPlus().part(SourceFile.look(beside)) is Part.SCORES
    (log,) = read(EvalPlus(), write(f"{stem}_eval_results.json", {"date": "d", "eval": tasks}))
    assert EvalPlus().part(SourceFile.look(beside)) is Part.COMPANION
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
        ([], "eval: expected an object"),
        ({"HumanEval/0": 3}, "HumanEval/0: expected a list of samples"),
        ({"HumanEval/0": [{"solution": "x"}]}, "HumanEval/0: a sample has no status"),
        ({"HumanEval/0": [sample("crashed")]}, "status 'crashed' is not known"),
        ({"HumanEval/0": {"nfiles": 1, "base": [[["a"]]]}}, r"status .* is not known"),
    ],
)
def test_damaged_results_are_one_message_with_the_place(write, tasks, message):
    path = write("m_eval_results.json", evaluated(tasks))
    with pytest.raises(breadth.InputError, match=message) as refused:
        read(EvalPlus(), path)
    assert str(refused.value).startswith(str(path))


@pytest.mark.parametrize("model", PRO)
def test_the_real_results_of_swe_bench_pro(shared_data, model):
    (log,) = read(SweBench(), shared_data / "logs/swe-bench/pro" / model / "eval_results.json")
    count, resolved = PRO[model]
    assert (log.testset, log.model, len(log.items)) == ("swe-bench-pro", model, count)
    assert log.scores(RESOLVED).sum() == resolved


def test_real_results_of_seven_models_are_one_test_set(shared_data):
    study = breadth.read_logs(shared_data / "logs/swe-bench")
    assert (study.answered.shape, study.answered.all(axis=0).sum()) == ((7, 730), 421)


REPORT = {
    "total_instances": 6,
    "resolved_instances": 1,
    "resolved_ids": ["a__a-1"],
    "unresolved_ids": ["a__a-2"],
    "completed_ids": ["a__a-1", "a__a-2"],
    "empty_patch_ids": ["a__a-3"],
    "error_ids": ["a__a-4"],
    "incomplete_ids": ["a__a-5", "a__a-6"],
}


def test_reports_of_the_harness(write):
    (log,) = read(SweBench(), write("acme__small-1.5.run_7.json", REPORT))
    outcomes = dict(zip(log.items, log.scores(RESOLVED), strict=True))
    np.testing.assert_equal(
        outcomes, {"a__a-1": 1, "a__a-2": 0, "a__a-3": 0, "a__a-4": np.nan, "a__a-5": np.nan, "a__a-6": np.nan}
    )
    assert (log.model, log.settings, log.testset) == ("acme/small-1.5", {"run_id": "run_7"}, "swe-bench")
    assert log.notes == [
        "the evaluation of 1 instances ended in an error: missing",
        "partial: 2 instances were not run: missing",
    ]


def test_reports_longer_than_the_head_are_recognised(write):
    ids = [f"a__a-{k}" for k in range(9000)]
    counts = {"total_instances": len(ids), "submitted_instances": len(ids), "completed_ids": ids}
    first_harness = {"no_generation": [], "generated": ids, "resolved": ids[:1]}
    for name, report in (("m.r.json", {**counts, "resolved_ids": ids[:1]}), ("lite/results.json", first_harness)):
        path = write(name, report)
        assert SweBench().part(SourceFile.look(path)) is Part.ANSWERS
        (log,) = read(SweBench(), path)
        assert (len(log.items), log.scores(RESOLVED).sum()) == (9000, 1)
    with pytest.raises(SkipFile, match="without the list of resolved instances"):
        read(SweBench(), write("counts.json", counts))


def test_reports_that_contradict_themselves(write):
    (log,) = read(SweBench(), write("m.r.json", {**REPORT, "resolved_instances": 3}))
    assert "the report counts 3 resolved instances, but lists 1" in log.notes
    with pytest.raises(breadth.InputError, match="a__a-2 is listed as resolved and as not resolved"):
        read(SweBench(), write("m.r.json", {**REPORT, "resolved_ids": ["a__a-2"]}))
    with pytest.raises(breadth.InputError, match="error_ids: expected a list of instances"):
        read(SweBench(), write("m.r.json", {**REPORT, "error_ids": [1]}))


def test_reports_without_unresolved_instances_have_completed_ones(write):
    report = {"resolved_ids": ["a__a-1"], "completed_ids": ["a__a-1", "a__a-2"]}
    (log,) = read(SweBench(), write("m.r.json", report))
    assert dict(zip(log.items, log.scores(RESOLVED), strict=True)) == {"a__a-1": 1, "a__a-2": 0}


@pytest.mark.parametrize(("total", "split"), [(500, "-verified"), (300, "-lite"), (2294, "-full"), (12, "")])
def test_the_number_of_instances_tells_the_split(write, total, split):
    (log,) = read(SweBench(), write("m.r.json", {**REPORT, "total_instances": total}))
    assert log.testset == f"swe-bench{split}"


def test_resolved_instances_alone_are_left_out_unless_predictions_say_what_else_there_was(write):
    folder = "evaluation/verified/20240620_agent_model"
    path = write(f"{folder}/results/results.json", {"no_generation": ["a__a-3"], "no_logs": [], "resolved": ["a__a-1"]})
    with pytest.raises(SkipFile, match="lists only the resolved instances"):
        read(SweBench(), path)
    write(f"{folder}/all_preds.jsonl", '{"instance_id": "a__a-1"}\n{"instance_id": "a__a-2"}\n')
    (log,) = read(SweBench(), path)
    assert dict(zip(log.items, log.scores(RESOLVED), strict=True)) == {"a__a-3": 0, "a__a-1": 1, "a__a-2": 0}
    assert (log.testset, log.model, log.stamp) == ("swe-bench-verified", "20240620_agent_model", "20240620")


def test_the_first_harness_lists_every_patch(write):
    lists = {"no_generation": ["a__a-1"], "generated": ["a__a-2", "a__a-3", "a__a-4"], "with_logs": [],
             "install_fail": ["a__a-4"], "no_apply": ["a__a-3"], "resolved": ["a__a-2"]}  # fmt: skip
    (log,) = read(SweBench(), write("lite/results.json", lists))
    outcomes = dict(zip(log.items, log.scores(RESOLVED), strict=True))
    np.testing.assert_equal(outcomes, {"a__a-1": 0, "a__a-2": 1, "a__a-3": 0, "a__a-4": np.nan})
    assert log.model == "lite"


def test_objects_per_instance(write):
    details = {"a__a-1": {"cost": 0.7, "resolved": True}, "a__a-2": {"cost": 0.1, "resolved": False}}
    (log,) = read(SweBench(), write("evaluation/bash-only/20250720_mini/per_instance_details.json", details))
    assert (log.testset, log.model) == ("swe-bench-verified", "20250720_mini")
    assert log.scores(RESOLVED).tolist() == [1, 0]


def test_reports_of_single_instances_make_one_subject(write, tmp_path):
    for name, resolved in (("a__a-1", True), ("a__a-2", False)):
        write(f"logs/run_evaluation/r1/acme__small/{name}/report.json", {name: {"resolved": resolved}})
    study = breadth.read_logs(tmp_path, format="swe-bench")
    assert study.answered.shape == (1, 2)
    assert list(study.testsets) == ["swe-bench"]


@pytest.mark.parametrize("content", [{"instance_a__a-1": None}, {"instance_a__a-1": True, "instance_b__b-2": None}])
def test_unknown_outcomes_are_missing(write, content):
    (log,) = read(SweBench(), write("m/eval_results.json", content))
    assert np.isnan(log.scores(RESOLVED)).sum() == 1


def test_outcomes_that_are_not_truth_values(write):
    path = write("m/eval_results.json", {"instance_a__a-1": True, "instance_b__b-2": "yes"})
    with pytest.raises(breadth.InputError, match="instance_b__b-2: expected true or false, got 'yes'"):
        read(SweBench(), path)


@pytest.mark.parametrize("content", [{}, [], {"a": True}, {"resolved": []}, {"a__b": 1}, {"a__b": {"x": 1}}, "{"])
def test_other_files_are_not_claimed(write, content):
    file = SourceFile.look(write("m/x.json", content))
    assert SweBench().part(file) is None
    assert EvalPlus().part(file) is None


@pytest.mark.parametrize(
    ("importer", "where"),
    [
        (EvalPlus(), "evalplus/burakyetistiren/samples_eval_results.json"),
        (SweBench(), "swe-bench/pro/gpt-4o-paper/eval_results.json"),
    ],
)
def test_mutations_give_logs_or_one_message(shared_data, tmp_path, importer, where):
    messages = []
    chance = random.Random(11)
    content = (shared_data / "logs" / where).read_bytes()
    path = tmp_path / Path(where).name
    for _ in range(80):
        path.write_bytes(fuzzing.mutate(content, chance))
        file = SourceFile.look(path)
        try:
            if importer.part(file) is Part.ANSWERS:
                list(importer.read_answers(file, Options()))
        except (breadth.InputError, SkipFile) as refused:
            messages.append(str(refused))
    assert messages
    assert all(message.strip() and "\n" not in message for message in messages)
