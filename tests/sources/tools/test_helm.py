"""HELM run directories: real ones, their variants, and damaged ones."""

import importlib.util
import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import breadth
from breadth.sources.logs.log import Metric, Options, SkipFile
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile
from breadth.sources.tools import helm
from breadth.sources.tools.helm import CORRECTNESS, Helm

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).parents[2] / "fuzz" / "fuzzing.py")
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)

RUNS = {
    "commonsense-dataset=hellaswag,method=multiple_choice_joint,model=eleutherai_pythia-1b-v0": (
        "commonsense:dataset=hellaswag", "eleutherai/pythia-1b-v0", 10, 0.3, "valid",
    ),
    "mmlu-subject=philosophy,method=multiple_choice_joint,model=openai_gpt2": (
        "mmlu:subject=philosophy", "openai/gpt2", 9, 1 / 9, "test",
    ),
}  # fmt: skip
EXACT = Metric("exact_match")


def read(folder, name="per_instance_stats.json", **options):
    return list(Helm().read_answers(SourceFile.look(folder / name), Options(**options)))


@pytest.fixture(params=RUNS)
def real(request, shared_data):
    return shared_data / "logs/helm/every_eval_ever" / request.param, RUNS[request.param]


def test_real_runs_reproduce_every_mean_that_they_state(real):
    folder, (testset, model, count, mean, split) = real
    (log,) = read(folder)
    assert (log.testset, log.model, len(log.items)) == (testset, model, count)
    assert log.scores(EXACT).mean() == pytest.approx(mean, abs=0)
    stats = json.loads((folder / "stats.json").read_text())
    stated = {
        row["name"]["name"]: row["mean"]
        for row in stats
        if row["name"].get("split") == split and "perturbation" not in row["name"] and "mean" in row
    }
    for metric in log.values:
        assert log.stated[metric] == stated[metric.name]
        assert log.scores(metric).mean() == pytest.approx(stated[metric.name], abs=1e-15)


def test_real_runs_have_texts_gold_and_answers(real):
    folder, _ = real
    (log,) = read(folder)
    right = [answer == label for answer, label in zip(log.answers, log.texts["label"], strict=True)]
    assert right == (log.scores(EXACT) == 1).tolist()
    assert all(log.texts["text"])
    assert {len(options) for options in log.texts["options"]} == {4}
    assert log.subject["model_deployment"].startswith("huggingface/")
    assert log.settings == {"method": "multiple_choice_joint", "num_fewshot": 5, "temperature": 0}
    assert not log.margins  # all log-probabilities of this client are 0.0
    assert log.stamp.startswith("2025-")


def test_every_file_of_a_real_run_is_known(real):
    folder, _ = real
    parts = {path.name: Helm().detect(SourceFile.look(path)).part for path in folder.iterdir()}
    assert parts.pop("per_instance_stats.json") is Part.ANSWERS
    assert set(parts.values()) == {Part.COMPANION}


def test_split(real):
    folder, (*_, split) = real
    (log,) = read(folder)
    assert any("valid" in note for note in log.notes)
    assert len(read(folder, split="valid")[0].items) == (10 if split == "valid" else 1)
    with pytest.raises(SkipFile, match="no split 'train'"):
        read(folder, split="train")


def test_texts_can_be_left_out(real):
    (log,) = read(real[0], texts=False)
    assert not log.texts
    assert log.items == read(real[0])[0].items


def stat(name, mean, split="test", **more):
    return {"name": {"name": name, "split": split, **more}, "count": 1, "sum": mean, "sum_squared": mean, "mean": mean}


def row(item, stats, trial=0, **more):
    return {"instance_id": item, "train_trial_index": trial, "stats": stats, **more}


def request(item, text="Q", references=("x", "y"), gold=0, completion=None, split="test", trial=0, **more):
    tags = [["correct"] if k == gold else [] for k in range(len(references))]
    listed = [{"output": {"text": one}, "tags": tag} for one, tag in zip(references, tags, strict=True)]
    return {
        "instance": {"id": item, "split": split, "input": {"text": text}, "references": listed},
        "train_trial_index": trial,
        "result": {"success": True, "completions": [completion or {"text": "x", "tokens": []}]},
        **more,
    }


@pytest.fixture
def run(tmp_path):
    """Write a run directory."""

    def write(rows, requests=None, stats=None, name="gsm:model=a_b", method="generation", groups=(), **files):
        adapter = {"method": method, "model": "a/b", "max_train_instances": 0}
        spec = {"name": name, "scenario_spec": {}, "adapter_spec": adapter, "groups": list(groups)}
        state = None if requests is None else {"adapter_spec": adapter, "request_states": requests}
        contents = {"run_spec": spec, "per_instance_stats": rows, "scenario_state": state, "stats": stats, **files}
        for file, content in contents.items():
            if content is not None:
                (tmp_path / f"{file}.json").write_text(json.dumps(content, indent=2))
        return tmp_path

    return write


def test_perturbed_instances_are_left_out(run):
    rows = [
        row("id1", [stat("exact_match", 1.0)]),
        row("id1", [stat("exact_match", 0.0)], perturbation={"name": "typos"}),
        row("id2", [stat("exact_match", 0.0)], perturbation={"name": "identity"}),
    ]
    (log,) = read(run(rows))
    assert list(log.items) == ["id1", "id2"]
    assert log.scores(EXACT).tolist() == [1, 0]
    assert any("1 answers to perturbed" in note for note in log.notes)
    with pytest.raises(SkipFile, match="all instances are perturbed"):
        read(run(rows[1:2]))


def test_train_trials_are_averaged_or_subjects_of_their_own(run):
    rows = [row(f"id{k}", [stat("exact_match", float(k == trial))], trial) for trial in (0, 1) for k in (0, 1, 2)]
    folder = run(rows, stats=[stat("exact_match", 1 / 3), stat("exact_match", 0.1, perturbation={"name": "worst"})])
    (log,) = read(folder)
    assert log.scores(EXACT).tolist() == [0.5, 0.5, 0]
    assert log.stated == {EXACT: 1 / 3}
    first, second = read(folder, epochs="each")
    assert (first.scores(EXACT).tolist(), second.scores(EXACT).tolist()) == ([1, 0, 0], [0, 1, 0])
    assert (first.subject["epoch"], second.subject["epoch"]) == (0, 1)
    assert not first.stated


def test_statistics_of_one_instance_may_be_in_several_rows(run):
    rows = [row("id1", [stat("num_bytes", 3)]), row("id1", [stat("exact_match", 1.0)])]
    (log,) = read(run(rows))
    assert log.scores(EXACT).tolist() == [1]


def test_means_of_parts_of_a_split_are_not_compared(run):
    rows = [row("id1", [stat("exact_match", 1.0, sub_split="a")]), row("id2", [stat("exact_match", 0, sub_split="b")])]
    (log,) = read(run(rows, stats=[stat("exact_match", 1.0, sub_split="a")]))
    assert not log.stated


@pytest.mark.parametrize(
    ("name", "groups", "metrics", "chosen"),
    [
        ("mmlu:subject=a", ["mmlu"], ["quasi_exact_match", "exact_match"], "exact_match"),
        ("legalbench:subset=a", [], ["exact_match", "quasi_exact_match"], "quasi_exact_match"),
        ("other", ["med_qa"], ["exact_match", "quasi_exact_match"], "quasi_exact_match"),
        ("narrative_qa", [], ["exact_match", "f1_score"], "f1_score"),
        ("gsm", [], ["exact_match", "final_number_exact_match"], "final_number_exact_match"),
        ("math:level=1", [], ["exact_match", "math_equiv_chain_of_thought"], "math_equiv_chain_of_thought"),
        ("gpqa:subset=main", [], ["chain_of_thought_correctness", "exact_match"], "chain_of_thought_correctness"),
        ("medcalc", [], ["max_prob", "medcalc_bench_accuracy"], "medcalc_bench_accuracy"),
    ],
)
def test_the_metric_is_the_one_of_the_leaderboards(run, name, groups, metrics, chosen):
    rows = [row("id1", [*(stat(metric, 0.5) for metric in metrics), stat("num_references", 1), stat("max_prob", 0.9)])]
    folder = run(rows, name=f"{name}{',' if ':' in name else ':'}model=a_b", groups=groups)
    imported = breadth.import_logs(folder, into=folder / "answers", dry_run=True)
    assert imported.testsets["metric"].to_list() == [chosen]


def test_bookkeeping_is_never_correctness(run):
    folder = run([row("id1", [stat("num_bytes", 1), stat("max_prob", 0.7), stat("toxic_frac", 0.2)])])
    with pytest.raises(SkipFile, match=r"choose one with --metric: num_bytes, max_prob, toxic_frac"):
        read(folder)
    (log,) = read(folder, metric="toxic_frac")
    assert list(log.values) == [Metric("toxic_frac")]
    assert not {"num_bytes", "max_prob", "logprob", "batch_size"} & set(CORRECTNESS)


@pytest.mark.parametrize(
    ("name", "testset", "setting"),
    [
        ("gsm:model=a_b", "gsm", {}),
        ("gsm", "gsm", {}),
        ("mmlu:subject=anatomy,method=multiple_choice_joint,model=a_b,eval_split=test,data_augmentation=canonical",
         "mmlu:subject=anatomy", {}),
        ("gpqa:subset=gpqa_main,use_chain_of_thought=true,use_few_shot=false,model=a_b",
         "gpqa:subset=gpqa_main", {"use_chain_of_thought": "true", "use_few_shot": "false"}),
        ("babi_qa:task=1,2,model=a_b,stop=hash", "babi_qa:task=1,2", {"stop": "hash"}),
    ],
)  # fmt: skip
def test_the_test_set_is_what_was_asked_not_how(run, name, testset, setting):
    (log,) = read(run([row("id1", [stat("exact_match", 1.0)])], name=name))
    assert log.testset == testset
    assert {key: log.settings[key] for key in log.settings if key not in ("method", "num_fewshot")} == setting


def test_margins_from_alternatives_of_the_first_token(run):
    def completion(letter, **alternatives):
        return {"text": f" {letter}", "tokens": [{"text": letter, "logprob": -0.1, "top_logprobs": alternatives}]}

    letters = {"output_mapping": {"A": "x", "B": "y"}}
    rows = [row("id1", [stat("exact_match", 1.0)]), row("id2", [stat("exact_match", 0.0)])]
    asked = [
        request("id1", completion=completion("A", **{" A": -0.5, "B": -1.5}), **letters),
        request("id2", completion=completion("B", A=-2.0, B=-0.5), **letters),
    ]
    (log,) = read(run(rows, asked, method="multiple_choice_joint"))
    np.testing.assert_allclose(log.margins[EXACT], [1.0, -1.5])
    rows[1] = row("id2", [stat("exact_match", 1.0)])  # the score contradicts the log-probabilities
    assert not read(run(rows, asked))[0].margins


def test_margins_from_one_request_per_reference(run):
    def completion(reference, *values):
        words = reference.split()
        tokens = [{"text": f" {word}", "logprob": value} for word, value in zip(words, values, strict=True)]
        return {"text": "Q " + reference, "tokens": [{"text": "Q", "logprob": -9.0}, *tokens]}

    rows = [row("id1", [stat("exact_match", 1.0)])]
    references = ("a b", "c")
    asked = [
        request("id1", references=references, completion=completion("a b", -1.0, -3.0), reference_index=0),
        request("id1", references=references, completion=completion("c", -4.0), reference_index=1),
    ]
    asked.append({**asked[1], "request_mode": "calibration", "result": {"completions": [completion("c", -1.0)]}})
    (log,) = read(run(rows, asked, method="multiple_choice_separate_original"))
    np.testing.assert_allclose(log.margins[EXACT], [2.0])
    assert log.texts["options"] == [["a b", "c"]]
    assert log.texts["label"] == ["A"]
    zeros = [{**one, "result": {"completions": [completion(r, *[0.0] * len(r.split()))]}}
             for one, r in zip(asked, references, strict=False)]  # fmt: skip
    assert not read(run(rows, zeros))[0].margins


def test_free_answers_and_several_right_references(run):
    asked = [request("id1", references=("4", "four", "5"), gold=1, completion={"text": " four ", "tokens": []})]
    (log,) = read(run([row("id1", [stat("exact_match", 1.0)])], asked))
    assert (log.texts["target"], list(log.answers)) == (["four"], ["four"])
    assert "options" not in log.texts


def test_encrypted_texts_are_not_texts(run):
    hidden = {"text": "[encrypted_text_7]", "references": ("[encrypted_text_8]", "[encrypted_text_9]")}
    rows = [row("id1", [stat("exact_match", 1.0)])]
    assert not read(run(rows, [request("id1", **hidden)]))[0].texts
    letters = {"A": "[encrypted_text_8]", "B": "[encrypted_text_9]"}
    (log,) = read(run(rows, [request("id1", **hidden, output_mapping=letters)]))
    assert log.texts == {"option_labels": [["A", "B"]], "label": ["A"]}


def test_instances_without_scores_make_a_run_partial(run):
    asked = [request("id1"), request("id2"), request("id3", split="valid")]
    (log,) = read(run([row("id1", [stat("exact_match", 1.0)])], asked))
    assert "partial: 1 of 2 instances have no scores" in log.notes


def test_large_files_of_requests_are_read_in_pieces(real, monkeypatch):
    whole = read(real[0])[0]
    monkeypatch.setattr(helm, "LARGEST_WHOLE", 0)
    pieces = read(real[0])[0]
    assert (pieces.texts, pieces.answers, pieces.stamp) == (whole.texts, whole.answers, whole.stamp)


def test_directories_of_the_web_page(run):
    predictions = [
        {"instance_id": "id1", "train_trial_index": 0, "predicted_text": "x", "stats": {"exact_match": 1.0}},
        {"instance_id": "id2", "train_trial_index": 0, "predicted_text": "y", "stats": {"exact_match": 0.0}},
    ]
    predictions.append({**predictions[0], "stats": {"exact_match": 0.0}, "perturbation": {"name": "typos"}})
    instances = [request("id1")["instance"], request("id2", split="valid")["instance"]]
    folder = run(None, display_predictions=predictions, instances=instances)
    parts = {path.stem: Helm().detect(SourceFile.look(path)).part for path in folder.iterdir()}
    assert parts == {"display_predictions": Part.ANSWERS, "instances": Part.COMPANION, "run_spec": Part.COMPANION}
    (log,) = read(folder, "display_predictions.json")
    assert (list(log.items), log.scores(EXACT).tolist(), log.texts["text"]) == (["id1"], [1], ["Q"])


def test_a_directory_without_scores_says_so(run):
    folder = run(None)
    assert Helm().detect(SourceFile.look(folder / "run_spec.json")).part is Part.ANSWERS
    with pytest.raises(SkipFile, match=r"no per_instance_stats\.json"):
        read(folder, "run_spec.json")


def test_scores_without_a_specification_are_left_out(run):
    folder = run([row("id1", [stat("exact_match", 1.0)])])
    (folder / "run_spec.json").unlink()
    with pytest.raises(SkipFile, match=r"no run_spec\.json"):
        read(folder)


@pytest.mark.parametrize(
    ("file", "content", "place"),
    [
        ("per_instance_stats", "[{}]", "line 1: has no instance_id"),
        ("per_instance_stats", '[{"instance_id": 1, "stats": []}]', "line 1: instance_id is 1"),
        ("per_instance_stats", '[{"instance_id": "a"}]', "line 1: has no stats"),
        ("per_instance_stats", '[{"instance_id": "a", "train_trial_index": "0", "stats": []}]', "line 1: train_trial"),
        ("per_instance_stats", '[{"instance_id": "a", "stats": [{}]}]', "line 1, stats: has no name.name"),
        ("per_instance_stats", "[1]", "line 1: "),
        ("per_instance_stats", "[{", "line 1: "),
        ("run_spec", "[]", "expected a JSON object"),
        ("run_spec", '{"name": "gsm"}', "has no adapter_spec.model"),
        ("stats", "[1]", "statistic 1: expected a JSON object"),
    ],
)
def test_damage_is_one_message_with_file_and_place(run, file, content, place):
    folder = run([row("id1", [stat("exact_match", 1.0)])])
    (folder / f"{file}.json").write_text(content)
    with pytest.raises(breadth.InputError, match=rf"{file}\.json[:,].* ?{place}"):
        read(folder)


def test_any_value_may_stand_anywhere(run):
    tokens = [{"text": "A", "logprob": -1.0, "top_logprobs": {"A": -1.0, "B": -2.0}}]
    completion = {"text": " A", "tokens": tokens}
    spec = {"name": "gsm:a=b", "adapter_spec": {"model": "a/b", "method": "joint"}, "groups": ["gsm"]}
    asked = [
        request("id1", completion=completion, output_mapping={"A": "x", "B": "y"}),
        request("id1", reference_index=0),
    ]
    files = {
        "run_spec": spec,
        "per_instance_stats": [row("id1", [stat("exact_match", 1.0)]), row("id1", [stat("exact_match", 0.0)], trial=1)],
        "scenario_state": {"request_states": asked},
        "stats": [stat("exact_match", 0.5)],
    }
    chance = random.Random(4)
    outcomes, messages = set(), []
    for place in fuzzing.every_place(files):
        for value in (..., *chance.sample(fuzzing.VALUES, 2)):
            changed = fuzzing.replace_at(files, place, value)
            if changed.keys() != files.keys():
                continue
            try:
                outcomes.add(len(read(run(None, **changed), epochs=chance.choice(["mean", "each"]))) > 0)
            except (breadth.InputError, SkipFile) as refused:
                outcomes.add(type(refused))
                messages.append(str(refused))
    assert {True, breadth.InputError} <= outcomes <= {True, breadth.InputError, SkipFile}
    assert all(message.strip() and "\n" not in message for message in messages)


@pytest.mark.parametrize("damage", [{"id": 5}, {"id": None}])
def test_damaged_requests_cost_the_texts_only(run, damage):
    asked = [request("id1"), request("id2")]
    asked[1]["instance"] |= damage
    (log,) = read(run([row("id1", [stat("exact_match", 1.0)])], asked))
    assert not log.texts
    assert any("scenario_state.json, request 2: " in note for note in log.notes)


def test_truncated_requests_cost_the_texts_only(real, tmp_path):
    folder = shutil.copytree(real[0], tmp_path / "run")
    state = folder / "scenario_state.json"
    state.write_bytes(state.read_bytes()[:-2000])
    (log,) = read(folder)
    assert not log.texts
    assert log.scores(EXACT).tolist() == read(real[0])[0].scores(EXACT).tolist()
    assert any(note.startswith("no texts, answers and margins: ") for note in log.notes)


def test_mutations_give_logs_or_one_message(shared_data, tmp_path):
    messages = []
    chance = random.Random(5)
    for number, name in enumerate([*RUNS] * 40):
        folder = shutil.copytree(shared_data / "logs/helm/every_eval_ever" / name, tmp_path / str(number))
        victim = chance.choice(sorted(folder.iterdir()))
        victim.write_bytes(fuzzing.mutate(victim.read_bytes(), chance))
        try:
            for path in folder.iterdir():
                Helm().detect(SourceFile.look(path))
            read(folder)
        except (breadth.InputError, SkipFile) as refused:
            messages.append(str(refused))
    assert messages
    assert all(message.strip() and "\n" not in message for message in messages)
