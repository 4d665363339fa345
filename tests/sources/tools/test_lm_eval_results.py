import json
from pathlib import Path

import pytest

from breadth.sources.source_files import SourceFile, model_arguments
from breadth.sources.tools.lm_eval_results import Run, has_samples, is_results, run_of

STAMP = "2024-06-20T10-11-12.131415"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ("pretrained=a/b,dtype=float16", {"pretrained": "a/b", "dtype": "float16"}),
        ({"pretrained": "a/b", "load_in_8bit": True, "x": None}, {"pretrained": "a/b", "load_in_8bit": "True"}),
        ('{"pretrained": "a/b"}', {"pretrained": "a/b"}),
        ("pretrained=a=b, ,=,c", {"pretrained": "a=b"}),
        ("{", {}),
        ("", {}),
        (None, {}),
        ([1], {}),
    ],
)
def test_model_arguments(given, arguments):
    assert model_arguments(given) == arguments


def test_arguments_that_do_not_change_answers_are_left_out(tmp_path):
    given = "model=m,base_url=http://x,api_key=s,num_concurrent=4,tokenizer_backend=None,max_length=2048,max_model_len=9,revision=main,peak=3"
    write(tmp_path / f"results_{STAMP}.json", {"results": {}, "config": {"model_args": given}})
    run = run_of(tmp_path / f"samples_t_{STAMP}.jsonl", False)
    assert (run.model, run.subject) == ("m", {"peak": "3"})


def test_task_is_everything_before_the_stamp(tmp_path):
    run = run_of(tmp_path / f"samples_a_2_b_2024-01-01_{STAMP}.jsonl", False)
    assert (run.task, run.stamp) == ("a_2_b_2024-01-01", STAMP)


def test_results_are_recognised_by_their_first_bytes(tmp_path):
    many = {"results": {f"task_{k}": {"acc,none": 0.5, "acc_stderr,none": 0.1} for k in range(3000)}, "configs": {}}
    file = SourceFile.look(write(tmp_path / "results.json", many))
    assert file.keys == {"results"}
    assert is_results(file)
    for other in ({"results": {}}, {"results": [], "eval": {}, "configs": 1}, [many], {"versions": {}, "config": {}}):
        assert not is_results(SourceFile.look(write(tmp_path / "other.json", other)))


def test_results_that_change_are_read_again(tmp_path):
    samples = tmp_path / f"samples_t_{STAMP}.jsonl"
    assert run_of(samples, False).model == f"unnamed {STAMP}"
    path = write(tmp_path / f"results_{STAMP}.json", {"results": {}, "config": {"model_args": "model=one"}})
    assert run_of(samples, False).model == "one"
    write(path, {"results": {}, "config": {"model_args": "model=three"}})
    assert run_of(samples, False).model == "three"


def test_results_with_samples_beside_them(tmp_path):
    results = write(tmp_path / "results.json", {"results": {"t": {}}, "versions": {}, "config": {}})
    assert not has_samples(results)
    write(tmp_path / "model_t.jsonl", "")
    assert has_samples(results)
    assert not has_samples(write(tmp_path / "damaged.json", "{"))
    stamped = write(tmp_path / f"results_{STAMP}.json", {})
    assert not has_samples(stamped)
    write(tmp_path / f"samples_t_{STAMP}.jsonl", "")
    assert has_samples(stamped)


def test_two_results_without_stamps_name_no_model(tmp_path):
    folder = tmp_path / "mine"
    for name in ("a", "b"):
        content = {"results": {"t": {}}, "versions": {}, "config": {"model_args": f"model={name}"}}
        write(folder / f"{name}.json", content)
    assert run_of(folder / "t_write_out_info.json", True).model == "mine"
    (folder / "b.json").unlink()
    assert run_of(folder / "t_write_out_info.json", True).model == "a"


def test_only_means_are_stated():
    metrics = [{"metric": "acc", "aggregation": "mean"}, {"metric": "perplexity", "aggregation": "perplexity"}]
    values = {"alias": "t", "acc,none": 0.5, "acc_stderr,none": 0.1, "perplexity,none": 9.0, "em": 0.2, "x,none": "N/A"}
    run = Run("t", "m", task_config={"metric_list": metrics}, results={"results": {"t": values}})
    assert list(run.stated()) == [("acc", "none", 0.5), ("em", "none", 0.2)]


@pytest.mark.parametrize(
    ("results", "rows", "note"),
    [
        ({"n-samples": {"t": {"original": 9, "effective": 9}}}, 9, None),
        ({"n-samples": {"t": {"original": 9, "effective": 9}}}, 4, "has 4 samples of 9"),
        ({"n-samples": {"t": {"original": 9, "effective": 4}}}, 4, "4 of 9 items"),
        ({"config": {"limit": 4}}, 4, "--limit 4"),
        ({"config": {"limit": 0.5}}, 4, "--limit 0.5"),
        ({}, 4, None),
    ],
)
def test_partial_files(results, rows, note):
    said = Run("t", "m", results=results).partial(rows)
    assert said is None if note is None else note in said


def test_missing_directory_has_no_results():
    assert run_of(Path("no/such/folder/pretrained__a_arc_easy.jsonl"), False).task == "arc_easy"
