"""SWE-bench: real results of SWE-bench Pro, reports of other kinds, and damaged ones."""

import json

import numpy as np
import pytest

import breadth
from breadth.sources.logs.log import SkipFile
from breadth.sources.registry import Part
from breadth.sources.tools.evalplus import EvalPlus
from breadth.sources.tools.swe_bench import RESOLVED, SweBench

from .reading import is_experimental, part_of, read

PRO = {
    "claude-45sonnet-10132025": (730, 319),
    "claude-4sonnet-10132025": (562, 240),
    "claude-sonnet-4-paper": (663, 166),
    "gpt-4o-paper": (619, 36),
    "gpt-5-250-turns-10132025": (729, 265),
    "gptoss-paper": (728, 118),
    "kimi-k2-instruct-10132025": (729, 202),
}


@pytest.fixture
def write(tmp_path):
    def to(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return to


@pytest.mark.parametrize("model", PRO)
def test_the_real_results_of_swe_bench_pro(shared_data, model):
    (log,) = read(SweBench(), shared_data / "logs/swe-bench/pro" / model / "eval_results.json")
    count, resolved = PRO[model]
    assert (log.testset, log.model, len(log.items)) == ("swe-bench-pro", model, count)
    assert log.scores(RESOLVED).sum() == resolved
    assert not is_experimental(log)


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
    failed, waiting, _ = log.notes
    assert "1 instances ended in an error" in failed
    assert "2 instances were not run" in waiting
    assert is_experimental(log)


def test_reports_longer_than_the_head_are_recognised(write):
    ids = [f"a__a-{k}" for k in range(9000)]
    counts = {"total_instances": len(ids), "submitted_instances": len(ids), "completed_ids": ids}
    first_harness = {"no_generation": [], "generated": ids, "resolved": ids[:1]}
    for name, report in (("m.r.json", {**counts, "resolved_ids": ids[:1]}), ("lite/results.json", first_harness)):
        path = write(name, report)
        assert part_of(SweBench(), path) is Part.ANSWERS
        (log,) = read(SweBench(), path)
        assert (len(log.items), log.scores(RESOLVED).sum()) == (9000, 1)
    with pytest.raises(SkipFile, match="without the list of resolved instances"):
        read(SweBench(), write("counts.json", counts))


def test_reports_that_contradict_themselves(write):
    (log,) = read(SweBench(), write("m.r.json", {**REPORT, "resolved_instances": 3}))
    assert "the report counts 3 resolved instances, but lists 1" in log.notes
    with pytest.raises(breadth.InputError, match="a__a-2 is listed as resolved and as not resolved"):
        read(SweBench(), write("m.r.json", {**REPORT, "resolved_ids": ["a__a-2"]}))
    with pytest.raises(breadth.InputError, match=r"m\.r\.json: error_ids is \[1\]"):
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
    assert is_experimental(log)


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
    path = write("m/x.json", content)
    assert part_of(SweBench(), path) is None
    assert part_of(EvalPlus(), path) is None
