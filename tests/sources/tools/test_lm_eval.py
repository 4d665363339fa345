import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import breadth
from breadth.errors import InputError
from breadth.sources.checkpoint_scores.importing import import_trajectories
from breadth.sources.checkpoint_scores.scores import ScoreOptions
from breadth.sources.logs.log import Metric, Options, SkipFile
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile, log_odds, model_arguments
from breadth.sources.tools import lm_eval
from breadth.sources.tools.lm_eval import (
    RUN_COLUMNS,
    TASK_COLUMNS,
    TASK_OBJECTS,
    HarnessRun,
    HarnessSample,
    LmEval,
    LmEvalResults,
    about_task,
    cut_row,
    document_hash,
    find_choices,
    find_run,
    has_samples,
    items_from_error,
    last_part,
    prompted,
    question,
    read_options,
    read_samples,
    read_written_out,
    results_reason,
    split_endings,
    whole_row,
)

MADE = "lm-eval/made_with_tool"
SMOL, SMOL_AT = f"{MADE}/0.4.13/models__smollm2-135m", "2026-11-16T07-28-07.308747"
DUMMY, DUMMY_AT = f"{MADE}/0.4.13/qouslm4j", "2026-11-16T07-08-35.214270"
RND_A, RND_A_AT = f"{MADE}/0.4.3/acme__rnd-a", "2026-11-16T07-29-33.410379"
RND_B, RND_B_AT = f"{MADE}/0.4.3/acme__rnd-b", "2026-11-16T07-29-57.277122"
FADE, OLOT = "lm-eval/pyFade/gsm8k", "lm-eval/olot"

#: Every real file of samples with its results, the model and the number of items.
REAL = [
    *(
        (f"{folder}/samples_{task}_{stamp}.jsonl", f"{folder}/results_{stamp}.json", model, items)
        for folder, stamp, model in (
            (SMOL, SMOL_AT, "models/smollm2-135m"),
            (DUMMY, DUMMY_AT, "qouslm4j"),
            (RND_A, RND_A_AT, "acme/rnd-a"),
            (RND_B, RND_B_AT, "acme/rnd-b"),
        )
        for task, items in (("arc_local", 13), ("gsm_local", 6), ("multi_local", 3), ("rte_local", 10))
    ),
    (f"{SMOL}/samples_last_word_local_{SMOL_AT}.jsonl", f"{SMOL}/results_{SMOL_AT}.json", "models/smollm2-135m", 10),
    (f"{DUMMY}/samples_last_word_local_{DUMMY_AT}.jsonl", f"{DUMMY}/results_{DUMMY_AT}.json", "qouslm4j", 10),
    *(
        (f"{MADE}/0.4.2/pretrained__acme__rnd-{x}_{task}.jsonl", f"{MADE}/0.4.2/results.json", f"acme/rnd-{x}", items)
        for x in "ab"
        for task, items in (("arc_local", 13), ("gsm_local", 6), ("multi_local", 3), ("rte_local", 10))
    ),
]
PARTIAL = [
    (f"{FADE}/samples_gsm8k_2025-09-09T13-31-53.431753.jsonl", "gemma3:12b-u1", 3, 100),
    (f"{FADE}/samples_gsm8k_2025-09-09T13-42-42.857006.jsonl", "gemma3:12b-it-q4_K_M", 3, 100),
    (f"{OLOT}/samples_gsm8k_2025-04-30T18-24-41.082644.jsonl", "tinyllama", 3, 1319),
]
UNSCORED = [f"{SMOL}/samples_rolling_local_{SMOL_AT}.jsonl", f"{DUMMY}/samples_rolling_local_{DUMMY_AT}.jsonl"]
WINOGRANDE = "samples_metabench_winogrande_secondary_2024-11-26T10-50-23.349203.jsonl"


def part(path):
    detection = LmEval().detect(SourceFile.look(Path(path)))
    if detection is None:
        return None
    assert detection.reason
    assert detection.has_scores is (detection.part is not Part.ANSWERS)
    return detection.part


def read(path, **options):
    assert part(path) is Part.ANSWERS
    logs = list(LmEval().read_answers(SourceFile.look(Path(path)), Options(**options)))
    assert len(logs) == 1 or options.get("epochs") == "each"
    return logs[0] if len(logs) == 1 else logs


def dump(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture
def logs(shared_data):
    return shared_data / "logs"


@pytest.mark.parametrize(("path", "results", "model", "items"), REAL)
def test_real_log_reproduces_every_mean_that_it_states(logs, path, results, model, items):
    log = read(logs / path)
    assert (log.model, len(log.items)) == (model, items)
    assert part(logs / results) is Part.COMPANION
    stated = json.loads((logs / results).read_text())
    if stated["config"]["model_args"] == "pretrained=acme/rnd-b" and model == "acme/rnd-a":
        assert not log.stated  # results.json of 0.4.2 is that of the last model only
        return
    means = {
        Metric(name, "" if variant == "none" else variant): mean
        for key, mean in stated["results"][log.testset].items()
        for name, _, variant in [key.partition(",")]
        if variant and not name.endswith("_stderr") and name in ("acc", "acc_norm", "exact_match")
    }
    assert means
    assert means == {metric: np.mean(values) for metric, values in log.values.items()} == log.stated


@pytest.mark.parametrize(("path", "model", "items", "asked"), PARTIAL)
def test_partial_files_are_said_to_be_partial(logs, path, model, items, asked):
    log = read(logs / path)
    assert (log.model, log.testset, len(log.items)) == (model, "gsm8k", items)
    assert f"has {items} samples of {asked:,}" in log.notes[0]
    assert log.settings["num_fewshot"] == 5


@pytest.mark.parametrize("path", UNSCORED)
def test_metrics_without_a_number_per_answer_are_left_out(logs, path):
    with pytest.raises(SkipFile, match="word_perplexity, bits_per_byte"):
        read(logs / path)


def test_winogrande_log_without_results(logs):
    log = read(logs / WINOGRANDE)
    assert log.model == "unnamed 2024-11-26T10-50-23.349203"
    assert "--subject NAME=PATH" in log.notes[0]
    assert len(log.items) == 106
    margin, correct = log.margins[Metric("acc")], log.values[Metric("acc")]
    assert ((margin > 0) == (correct == 1)).all()
    docs = [json.loads(line)["doc"] for line in (logs / WINOGRANDE).open()]
    assert log.texts["label"] == ["AB"[int(doc["answer"]) - 1] for doc in docs]
    assert log.texts["options"][0] == [docs[0]["option1"], docs[0]["option2"]]


def test_every_other_real_file(logs):
    seen = {logs / path for path, *_ in (*REAL, *PARTIAL)} | {logs / path for path in (*UNSCORED, WINOGRANDE)}
    rest = [path for path in sorted(logs.rglob("*")) if path.is_file() and path not in seen]
    parts = {path.relative_to(logs): part(path) for path in rest}
    assert sum(one is Part.SCORES for one in parts.values()) == 27
    for path, one in parts.items():
        old, results = (
            "pythia_results_0.3" in path.parts,
            path.parts[0] == "lm-eval" and path.name.startswith("results"),
        )
        assert one is (Part.SCORES if old else Part.COMPANION if results else None), path


def test_items_are_the_same_in_all_versions(logs):
    for task in ("arc_local", "gsm_local", "multi_local", "rte_local"):
        paths = [path for path, *_ in REAL if f"_{task}" in path]
        read_logs = [read(logs / path) for path in paths]
        assert len(read_logs) == 6
        assert len({tuple(log.items) for log in read_logs}) == 1
        assert len({tuple(log.texts["text"]) for log in read_logs}) == 1
        assert read_logs[0].items is read_logs[1].items  # one copy in memory


def test_margins_agree_with_the_scores_of_real_logs(logs):
    weighed = 0
    for path, *_ in REAL:
        log = read(logs / path)
        for metric, margin in log.margins.items():
            correct = log.values[metric] == 1
            assert correct[margin > 0].all(), path  # more likely than all others together
            assert np.isfinite(margin).all()
            weighed += 1
    assert weighed == 6 * 2 + 6 + 6  # arc_local has acc and acc_norm


def test_0_4_2_and_0_4_3_give_the_same_logs(logs):
    for x, folder, stamp in (("a", RND_A, RND_A_AT), ("b", RND_B, RND_B_AT)):
        for task in ("arc_local", "gsm_local", "multi_local", "rte_local"):
            old = read(logs / f"{MADE}/0.4.2/pretrained__acme__rnd-{x}_{task}.jsonl")
            new = read(logs / f"{folder}/samples_{task}_{stamp}.jsonl")
            assert list(old.values) == list(new.values)
            for metric, values in old.values.items():
                np.testing.assert_array_equal(values, new.values[metric])
            for metric, margins in old.margins.items():
                np.testing.assert_allclose(margins, new.margins[metric])
            assert (old.answers, old.texts) == (new.answers, new.texts)


def test_real_directory_becomes_a_study(logs):
    study = breadth.read_logs(logs / "lm-eval")
    assert set(study.subjects["subject"]) == {
        *("smollm2-135m", "qouslm4j", "rnd-a", "rnd-b", "tinyllama", "gemma3:12b-u1", "gemma3:12b-it-q4_K_M"),
    }
    assert set(study.testsets) == {"arc_local", "gsm_local", "last_word_local", "multi_local", "rte_local", "gsm8k"}
    wrong = [note for note in study.warnings if "but the log states" in note]
    assert all("gsm8k" in note for note in wrong)  # whose files are partial


# Logs as versions without a real sample here write them.

DOCS = [
    {"question": f"What is {a} + 1?", "choices": {"text": [str(a), str(a + 1), "none"], "label": list("ABC")}}
    for a in range(5)
]
STAMP = "2024-06-20T10-11-12.131415"


def options_of(doc):
    return [f" {text} apples" for text in doc["choices"]["text"]]


def logs_of(k):
    return [-3.0 - k, -2.0 + (k % 2) * -4, -5.0]


def sample(k, target=str, lines=True, hashes=True, **extra):
    """A row; the second option is the right one."""
    logs, doc = logs_of(k), DOCS[k]
    requests = [[f"Some examples.\n\n{doc['question']}", option] for option in options_of(doc)]
    norms = [log / (len(option) - 1) for log, option in zip(logs, options_of(doc), strict=True)]
    row = {"doc_id": k, "doc": doc, "target": target(1), "arguments": requests}
    row["resps"] = [[[log, False]] for log in logs]
    row["filtered_resps"] = [[log, False] for log in logs]
    if lines:
        keys = [{"arg_0": context, "arg_1": option} for context, option in requests]
        row["arguments"] = {f"gen_args_{i}": pair for i, pair in enumerate(keys)}
        row["resps"] = [[[str(log), "False"]] for log in logs]
        row["filtered_resps"] = [[str(log), "False"] for log in logs]
    if hashes:
        row |= {"doc_hash": document_hash(doc, ""), "prompt_hash": "p", "target_hash": "t"}
    right = float(logs.index(max(logs)) == 1), float(norms.index(max(norms)) == 1)
    return row | extra | {"acc": right[0], "acc_norm": right[1]}


def results_of(task="apples", **changes):
    return {
        "results": {task: {"alias": task, "acc,none": 0.6, "acc_stderr,none": 0.2, "acc_norm,none": 0.6}},
        "configs": {task: {"task": task, "target_delimiter": " ", "num_fewshot": 5}},
        "versions": {task: 1.0},
        "n-shot": {task: 5},
        "config": {
            "model": "hf",
            "model_args": "pretrained=acme/one,revision=step2000,dtype=bfloat16,parallelize=True",
            "model_sha": "0123456789abcdef",
            "limit": None,
            "fewshot_seed": 1234,
        },
        "model_name": "acme/one",
        **changes,
    }


def write(path, rows, results=None, layout="lines"):
    path.parent.mkdir(parents=True, exist_ok=True)
    if layout == "lines":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows, ensure_ascii=False, indent=layout))
    if results is not None:
        (path.parent / f"results_{STAMP}.json").write_text(json.dumps(results, indent=2))
    return path


VERSIONS = {
    "0.4.0": ("pretrained__acme__one,revision__step2000_apples.jsonl", {"target": int, "lines": False}, 2),
    "May 2024": (f"samples_apples_{STAMP}.json", {"target": int, "lines": False}, 2),
    "May 2024, compact": (f"samples_apples_{STAMP}.json", {"target": int, "lines": False, "hashes": False}, None),
    "June 2024": (f"samples_apples_{STAMP}.json", {"target": int, "hashes": False}, "lines"),
    "0.4.3": (f"samples_apples_{STAMP}.jsonl", {"target": int}, "lines"),
    "0.4.4": (f"samples_apples_{STAMP}.jsonl", {}, "lines"),
    "0.4.7": (f"samples_apples_{STAMP}.jsonl", {"filter": "none", "metrics": ["acc", "acc_norm"]}, "lines"),
    "stamp without fraction": ("samples_apples_2024-06-20T10-11-12.jsonl", {}, "lines"),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_versions_give_the_same_answers(tmp_path, version):
    name, how, layout = VERSIONS[version]
    path = write(tmp_path / "acme__one" / name, [sample(k, **how) for k in range(5)], layout=layout)
    log = read(path)
    assert log.testset == "apples"
    assert log.model == "acme/one"
    assert list(log.items) == [document_hash(doc, "")[:16] for doc in DOCS]
    assert log.values[Metric("acc")].tolist() == [1, 0, 1, 0, 1]
    assert list(log.answers) == ["B", "A", "B", "C", "B"]
    assert log.texts["label"] == ["B"] * 5
    assert log.texts["options"][1] == ["1 apples", "2 apples", "none apples"]
    assert log.texts["text"][0] == "What is 0 + 1?"
    expected = [logs[1] - math.log(math.exp(logs[0]) + math.exp(logs[2])) for logs in (logs_of(k) for k in range(5))]
    np.testing.assert_allclose(log.margins[Metric("acc")], expected)
    assert ((log.margins[Metric("acc_norm")] > 0) <= (log.values[Metric("acc_norm")] == 1)).all()
    assert "text" not in read(path, texts=False).texts


def test_subject_and_settings_come_from_the_results_of_the_same_stamp(tmp_path):
    path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", [sample(k) for k in range(5)], results_of())
    other = results_of(model_name="acme/two", config={"model_args": "pretrained=acme/two"})
    (tmp_path / "results_2024-06-21T10-11-12.131415.json").write_text(json.dumps(other))
    log = read(path)
    assert log.model == "acme/one"
    assert log.subject == {"revision": "step2000", "dtype": "bfloat16", "model_sha": "0123456789ab"}
    assert log.settings["num_fewshot"] == 5
    assert log.settings["fewshot_seed"] == 1234
    assert log.stated == {Metric("acc"): 0.6, Metric("acc_norm"): 0.6}
    assert log.stamp == STAMP
    assert part(tmp_path / "results_2024-06-21T10-11-12.131415.json") is Part.SCORES
    study = breadth.read_logs(tmp_path)
    assert study.subjects["step"].to_list() == [2000]


@pytest.mark.parametrize(
    "given",
    [
        "peft=out/checkpoint-800,pretrained=acme/one,load_in_4bit=True,batch_size=8",
        {"pretrained": "acme/one", "peft": "out/checkpoint-800", "load_in_4bit": True, "device": "cuda"},
    ],
)
def test_model_arguments_are_a_text_or_an_object(tmp_path, given):
    results = results_of(config={"model_args": given}, chat_template="{{ x }}", chat_template_sha="abcdef0123456789")
    log = read(write(tmp_path / f"samples_apples_{STAMP}.jsonl", [sample(0)], results))
    assert log.model == "out/checkpoint-800"
    assert log.subject == {"pretrained": "acme/one", "load_in_4bit": "True", "chat_template": "abcdef01"}


def test_output_path_that_is_a_file(tmp_path):
    path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", [sample(k) for k in range(5)])
    (tmp_path / f"mine_{STAMP}.json").write_text(json.dumps(results_of()))
    assert read(path).model == "acme/one"
    assert part(tmp_path / f"mine_{STAMP}.json") is Part.COMPANION


def test_newest_of_stale_runs_is_kept_if_asked(tmp_path):
    folder = tmp_path / "acme__one"
    write(folder / f"samples_apples_{STAMP}.jsonl", [sample(k) for k in range(5)])
    later = [sample(k) | {"acc": 1.0} for k in range(5)]
    write(folder / "samples_apples_2025-06-20T10-11-12.131415.jsonl", later)
    with pytest.raises(InputError, match='keep="newest"'):
        breadth.read_logs(tmp_path)
    study = breadth.read_logs(tmp_path, keep="newest")
    assert study.correct.mean() == 1


def generated(k, name=None, text="18", score=1.0, **extra):
    doc = {"question": f"How much is {k}?", "answer": "18"}
    named = {} if name is None else {"filter": name, "metrics": ["exact_match"]}
    arguments = {"gen_args_0": {"arg_0": doc["question"], "arg_1": {"until": ["\n"]}}}
    row = {"doc_id": k, "doc": doc, "target": "18", "arguments": arguments, "resps": [["It is " + text]]}
    row |= {"filtered_resps": [text]} | named | {"doc_hash": document_hash(doc, "")}
    return row | extra | {"exact_match": score}


@pytest.mark.parametrize("named", [True, False])
def test_filters_are_told_apart_by_name_or_by_place(tmp_path, named):
    names = ["strict-match", "flexible-extract"]
    rows = [
        generated(k, name if named else None, "18" if i else "[invalid]", float(i))
        for i, name in enumerate(names)
        for k in range(3)
    ]
    config = {"apples": {"filter_list": [{"name": name} for name in names]}}
    path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", rows, results_of(configs=config))
    log = read(path)
    assert {str(metric): values.tolist() for metric, values in log.values.items()} == {
        "exact_match (strict-match)": [0, 0, 0],
        "exact_match (flexible-extract)": [1, 1, 1],
    }
    assert list(log.answers) == ["[invalid]"] * 3
    assert log.texts["target"] == ["18"] * 3
    assert list(read(path, variant="flexible-extract").answers) == ["18"] * 3
    assert breadth.read_logs(path, scorer="flexible-extract").correct.mean() == 1


def test_filters_without_names_or_configuration_are_numbered(tmp_path):
    rows = [generated(0, text="a", score=0.0), generated(0)]
    log = read(write(tmp_path / f"samples_apples_{STAMP}.jsonl", rows))
    assert [str(metric) for metric in log.values] == ["exact_match (filter-1)", "exact_match (filter-2)"]
    assert any("2 filters without names" in note for note in log.notes)


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", "b", "c"], [None, {}], "ab"])
def test_configurations_that_do_not_fit_the_filters(tmp_path, names):
    config = {"apples": {"filter_list": [{"name": name} for name in names]}}
    rows = [generated(0, text="a", score=0.0), generated(0)]
    log = read(write(tmp_path / f"samples_apples_{STAMP}.jsonl", rows, results_of(configs=config)))
    assert len(log.values) == 2


def test_repeats_of_0_5_are_epochs_if_asked(tmp_path):
    rows = [generated(k, "none", score=0.5, scores_per_repeat={"exact_match": [1.0, float(k)]}) for k in range(2)]
    path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", rows, results_of(lm_eval_version="0.5.0.dev1"))
    assert read(path).values[Metric("exact_match")].tolist() == [0.5, 0.5]
    first, second = read(path, epochs="each")
    assert first.values[Metric("exact_match")].tolist() == [1, 1]
    assert second.values[Metric("exact_match")].tolist() == [0, 1]
    assert (first.subject["epoch"], second.subject["epoch"]) == (1, 2)


def test_new_versions_are_read_with_a_note(tmp_path):
    path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", [sample(0)], results_of(lm_eval_version="1.2.0"))
    assert any("version 1.2.0" in note for note in read(path).notes)


def test_limits_are_noted(tmp_path):
    path = write(
        tmp_path / f"samples_apples_{STAMP}.jsonl",
        [sample(k) for k in range(5)],
        results_of(**{"n-samples": {"apples": {"original": 90, "effective": 5}}}),
    )
    assert any("5 of 90 items" in note for note in read(path).notes)


def test_odd_metrics_do_not_break(tmp_path):
    odd = {
        "f1": [1, 0],
        "brier_score": [1, "[0.1 0.9]"],
        "bleu": 34.5,
        "inst_level_strict_acc": [True, False],
        "nan": None,
    }
    results = results_of(higher_is_better={"apples": {"acc": True, "ter": False}})
    rows = [sample(k, **odd, ter=0.3, prompt_level=True) for k in range(3)]
    path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", rows, results)
    path.write_text(path.read_text().replace('"nan": null', '"nan": NaN'))
    assert {metric.name for metric in read(path).values} == {"acc", "acc_norm", "bleu", "prompt_level"}
    assert Metric("ter") in read(path, metric="ter").values
    assert breadth.read_logs(path).correct.mean() == pytest.approx(2 / 3)
    with pytest.raises(InputError, match=r"34\.5, not between 0 and 1"):
        breadth.read_logs(path, metric="bleu")


def test_predictions_without_scores_are_left_out(tmp_path):
    rows = [generated(k, "none", metrics=["bypass"], bypass=None) for k in range(3)]
    for row in rows:
        del row["exact_match"]
    with pytest.raises(SkipFile, match="--predict_only"):
        read(write(tmp_path / f"samples_apples_{STAMP}.jsonl", rows))


def written_out(k, shots):
    logs, doc = logs_of(k), DOCS[k]
    context = "".join(f"Question: {s} + {k}?\nAnswer: many\n\n" for s in range(shots))
    prompts = {f"prompt_{i}": context + doc["question"] + option for i, option in enumerate(options_of(doc))}
    logits = {f"logit_{i}": log if shots else [log, False] for i, log in enumerate(logs)}
    return {"doc_id": k, **prompts, **logits, "truth": "1", "acc": str(logs.index(max(logs)) == 1), "acc_norm": "0.0"}


def test_write_out_of_2023(tmp_path):
    paths = []
    for shots in (0, 5):
        path = tmp_path / f"model-{shots}" / "apples_write_out_info.json"
        paths.append(write(path, [written_out(k, shots) for k in range(5)], layout=4))
    log, other = map(read, paths)
    assert (log.testset, log.model, other.model) == ("apples", "model-0", "model-5")
    assert log.values[Metric("acc")].tolist() == [1, 0, 1, 0, 1]
    assert log.items == other.items  # whatever few-shot examples there are
    assert log.texts["label"] == ["B"] * 5
    assert log.texts["options"] == other.texts["options"]
    assert (log.margins[Metric("acc")] > 0).tolist() == [True, False] * 2 + [True]
    results = {
        "results": {"apples": {"acc": 0.6}},
        "versions": {"apples": 0},
        "config": {"model_args": "pretrained=b/c"},
    }
    (paths[0].parent / "any.json").write_text(json.dumps(results))
    log = read(paths[0])
    assert (log.model, log.stated) == ("b/c", {Metric("acc"): 0.6})
    assert part(paths[0].parent / "any.json") is Part.COMPANION


def test_results_of_0_4_2_name_task_and_model(tmp_path):
    path = write(
        tmp_path / "pretrained__acme__a_b,dtype__float16_my_task_2.jsonl",
        [sample(k, int, lines=False, hashes=False) for k in range(5)],
        layout=2,
    )
    alone = read(path)
    assert "taken from its name" in alone.notes[0]
    results = results_of("my_task_2", config={"model_args": "pretrained=acme/a_b,dtype=float16"})
    (tmp_path / "results.json").write_text(json.dumps(results))
    log = read(path)
    assert (log.testset, log.model, log.subject) == ("my_task_2", "acme/a_b", {"dtype": "float16"})
    assert log.stated[Metric("acc")] == 0.6


@pytest.mark.parametrize(
    ("name", "task", "model"),
    [
        ("pretrained=EleutherAI__pythia-160m_lambada_openai", "lambada_openai", "EleutherAI/pythia-160m"),
        ("pretrained__open_llama_3b_arc_easy", "arc_easy", "open_llama_3b"),
        ("pretrained__x__y_own_task", "own_task", "x/y"),
        ("samples_own_task", "own_task", "runs"),
        ("_own", "own", "runs"),
        ("renamed", "renamed", "runs"),
    ],
)
def test_names_without_results(tmp_path, name, task, model):
    log = read(write(tmp_path / "runs" / f"{name}.jsonl", [sample(0)]))
    assert (log.testset, log.model) == (task, model)


def test_documents_of_the_same_content_are_different_items(tmp_path):
    rows = [sample(0), sample(1) | {"doc_id": 1}, sample(0) | {"doc_id": 2}]
    log = read(write(tmp_path / f"samples_apples_{STAMP}.jsonl", rows))
    first = document_hash(DOCS[0], "")[:16]
    assert list(log.items) == [first, document_hash(DOCS[1], "")[:16], f"{first}#2"]


@pytest.mark.parametrize("name", ["samples_\udcff_" + STAMP, "pretrained__\udcff_arc_easy", "\udcff_write_out_info"])
def test_names_that_are_not_utf_8(tmp_path, name):
    layout = {"rows": [sample(0)]}
    if "write_out" in name:
        layout = {"rows": [written_out(0, 0)], "layout": 4}
    path = write(tmp_path / "caf\udce9__m" / f"{name}.jsonl", **layout)
    log = read(path)
    for text in (log.path, log.testset, log.model, *log.notes, *map(str, log.subject.values())):
        assert text.isprintable()
    assert breadth.read_logs(tmp_path).correct.mean() == 1


DAMAGED = {
    "filters": (lambda text: text.replace('"none"', "null", 1), "line 2: .* filter"),
    "cut off": (lambda text: text[:-40], "line 3: "),
    "not an object": (lambda text: text + "7\n", "line 4: "),
    "no number": (lambda text: text.replace('"doc_id": 1', '"doc_id": "1"'), "line 2: doc_id is '1'"),
    "two scores": (
        lambda text: text + text.splitlines()[0].replace('"exact_match": 1.0', '"exact_match": 0.0'),
        "line 4: doc_id 0 .* split it",
    ),
    "no document": (
        lambda text: text + '{"doc_id": 3, "target": "1", "exact_match": 1.0}\n',
        "line 4: .*doc_hash",
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_samples_are_refused_with_their_line(tmp_path, damage):
    change, message = DAMAGED[damage]
    path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", [generated(k, "none") for k in range(3)])
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=f"samples_apples.*{message}"):
        read(path)


def test_damaged_results_are_named(tmp_path):
    path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", [sample(0)], results_of())
    (tmp_path / f"results_{STAMP}.json").write_text('{"results": {"apples": ')
    with pytest.raises(InputError, match=r"results_2024.*is not JSON"):
        read(path)


@pytest.mark.parametrize("key", ["results", "configs", "config", "n-shot", "versions", "n-samples"])
def test_results_beside_samples_that_are_no_objects_are_noted(tmp_path, key):
    for value, noted in (([1], True), ("text", True), (None, False)):
        path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", [sample(0)], results_of(**{key: value}))
        log = read(path)
        assert log.values[Metric("acc")].tolist() == [1]
        assert any(f"results_{STAMP}.json: {key!r}" in note for note in log.notes) is noted


ROWS_THAT_ARE_LISTS = {
    "a line": ("{row}\n[1, 2]\n", 2),
    "the first line": ("[1, 2]\n{row}\n", 2),
    "all lines": ("[{row}]\n[{row}]\n", 2),
    "an element": ("[{row}, [1]]", 2),
    "all elements": ("[[{row}], [{row}]]", 1),
    "all elements, indented": ("[\n  [\n    {row}\n  ]\n]", 1),
}


@pytest.mark.parametrize("kind", ROWS_THAT_ARE_LISTS)
def test_rows_that_are_lists_are_refused_with_their_place(tmp_path, kind):
    text, line = ROWS_THAT_ARE_LISTS[kind]
    path = dump(tmp_path / f"samples_apples_{STAMP}.jsonl", text.format(row=json.dumps(sample(0))))
    with pytest.raises(InputError, match=rf"samples_apples.*, line {line}: "):
        read(path)
    with pytest.raises(InputError, match=rf"samples_apples.*, line {line}: "):
        breadth.read_logs(tmp_path)


def test_files_of_other_tools_are_left_alone(tmp_path):
    for k, content in enumerate(
        ("", "[]", "{}", "text", '{"doc_id": 0, "native_id": 1, "doc": {}, "target": 1}', '{"results": {}}', "[1, 2]")
    ):
        path = tmp_path / f"{k}.json"
        path.write_text(content)
        assert part(path) is None


# Runs.


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
    dump(tmp_path / f"results_{STAMP}.json", {"results": {}, "config": {"model_args": given}})
    run = find_run(tmp_path / f"samples_t_{STAMP}.jsonl", False)
    assert (run.model, run.subject) == ("m", {"peak": "3"})


def test_task_is_everything_before_the_stamp(tmp_path):
    run = find_run(tmp_path / f"samples_a_2_b_2024-01-01_{STAMP}.jsonl", False)
    assert (run.task, run.stamp) == ("a_2_b_2024-01-01", STAMP)


def test_results_are_recognised_by_their_first_bytes(tmp_path):
    many = {"results": {f"task_{k}": {"acc,none": 0.5, "acc_stderr,none": 0.1} for k in range(3000)}, "configs": {}}
    file = SourceFile.look(dump(tmp_path / "results.json", many))
    assert file.keys == {"results"}
    assert "standard errors" in results_reason(file)
    for other in ({"results": {}}, {"results": [], "eval": {}, "configs": 1}, [many], {"versions": {}, "config": {}}):
        assert not results_reason(SourceFile.look(dump(tmp_path / "other.json", other)))


def test_results_that_change_are_read_again(tmp_path):
    samples = tmp_path / f"samples_t_{STAMP}.jsonl"
    assert find_run(samples, False).model == f"unnamed {STAMP}"
    path = dump(tmp_path / f"results_{STAMP}.json", {"results": {}, "config": {"model_args": "model=one"}})
    assert find_run(samples, False).model == "one"
    dump(path, {"results": {}, "config": {"model_args": "model=three"}})
    assert find_run(samples, False).model == "three"


def test_results_with_samples_beside_them(tmp_path):
    results = dump(tmp_path / "results.json", {"results": {"t": {}}, "versions": {}, "config": {}})
    assert not has_samples(results)
    dump(tmp_path / "model_t.jsonl", "")
    assert has_samples(results)
    assert not has_samples(dump(tmp_path / "damaged.json", "{"))
    stamped = dump(tmp_path / f"results_{STAMP}.json", {})
    assert not has_samples(stamped)
    dump(tmp_path / f"samples_t_{STAMP}.jsonl", "")
    assert has_samples(stamped)


def test_two_results_without_stamps_name_no_model(tmp_path):
    folder = tmp_path / "mine"
    for name in ("a", "b"):
        content = {"results": {"t": {}}, "versions": {}, "config": {"model_args": f"model={name}"}}
        dump(folder / f"{name}.json", content)
    assert find_run(folder / "t_write_out_info.json", True).model == "mine"
    (folder / "b.json").unlink()
    assert find_run(folder / "t_write_out_info.json", True).model == "a"


def test_only_means_are_stated():
    metrics = [{"metric": "acc", "aggregation": "mean"}, {"metric": "perplexity", "aggregation": "perplexity"}]
    values = {"alias": "t", "acc,none": 0.5, "acc_stderr,none": 0.1, "perplexity,none": 9.0, "em": 0.2, "x,none": "N/A"}
    run = HarnessRun(
        "t", "m", about=about_task({"configs": {"t": {"metric_list": metrics}}, "results": {"t": values}}, "t")
    )
    assert list(run.reported_means()) == [("acc", "none", 0.5), ("em", "none", 0.2)]


@pytest.mark.parametrize(
    ("results", "rows", "note"),
    [
        ({"n-samples": {"t": {"original": 9, "effective": 9}}}, 9, ""),
        ({"n-samples": {"t": {"original": 9, "effective": 9}}}, 4, "has 4 samples of 9"),
        ({"n-samples": {"t": {"original": 9, "effective": 4}}}, 4, "4 of 9 items"),
        ({"config": {"limit": 4}}, 4, "--limit 4"),
        ({"config": {"limit": 0.5}}, 4, "--limit 0.5"),
        ({}, 4, ""),
    ],
)
def test_partial_files(results, rows, note):
    limit = results.get("config", {}).get("limit")
    said = HarnessRun("t", "m", about=about_task(results, "t"), limit=limit).partial_note(rows)
    assert note in said if note else not said


def test_missing_directory_has_no_results():
    assert find_run(Path("no/such/folder/pretrained__a_arc_easy.jsonl"), False).task == "arc_easy"


# Lines.

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
#: What makes cutting hard: keys, quotation marks and backslashes inside of texts.
HARD = st.lists(
    st.sampled_from(
        ['", "arg_1": "', ', "arguments": ', ', "filtered_resps": ', "\\", '"', "}}", '\\"', "\n", "é", "a "]
    )
).map("".join)


def choice_line(prompts, continuations, doc=None, **extra):
    requests = zip(prompts, continuations, strict=True)
    row = {"doc_id": 3, "doc": {"question": "Why?"} if doc is None else doc, "target": "1"}
    row["arguments"] = {f"gen_args_{k}": {"arg_0": a, "arg_1": b} for k, (a, b) in enumerate(requests)}
    row |= {"resps": [[["-1.0", "False"]]] * len(prompts), "filtered_resps": [["-1.0", "False"]] * len(prompts)}
    return row | {"doc_hash": document_hash(row["doc"], "")} | extra


def dumped(row, ascii=False):
    return json.dumps(row, ensure_ascii=ascii).encode()


EXPECTED = frozenset(("filtered_resps", "doc_hash"))


@given(st.lists(st.tuples(HARD | TEXTS, HARD | TEXTS), min_size=2, max_size=5), HARD | TEXTS, st.booleans())
def test_cut_row_says_what_the_whole_row_says(requests, words, ascii):
    prompts, continuations = zip(*requests, strict=True)
    row = choice_line(prompts, continuations, {"question": words, "choices": ["x", "y"]})
    content = dumped(row, ascii)
    cut, whole = cut_row(content, EXPECTED, True), whole_row(content, True, "file", 1)
    assert cut is not None
    assert (cut.document.doc_id, cut.document.target, cut.document.text) == (3, "1", whole.document.text)
    assert cut.document.options == [["x", "y"]]
    assert cut.rest == {key: row[key] for key in EXPECTED}
    for _ in range(2):  # the second time the continuations are known
        again = cut_row(content, EXPECTED, True)
        assert again is not None
        assert read_options(again, content, len(requests), True) == read_options(whole, content, len(requests), True)


def test_continuations_of_the_last_model_are_not_those_of_the_next():
    first, second = choice_line(["P", "P"], [" a", " b"]), choice_line(["QQ", "QQ"], [" a", " c"])
    three = choice_line(["P", "P", "P"], [" a", " b", " c"])
    for row in (first, second, three, first):
        content = dumped(row)
        requests = row["arguments"].values()
        known = cut_row(content, EXPECTED, True)
        assert read_options(known, content, len(requests), True)[0] == [request["arg_1"] for request in requests]


def test_options_are_in_the_contexts_where_continuations_are_alike():
    for name in ("Sarah", "Maria"):  # prompts of one length
        row = choice_line([f"A book. {name}", "A book. Julia"], [" was glad."] * 2)
        content = dumped(row)
        assert read_options(cut_row(content, EXPECTED, True), content, 2, True)[1] == [name, "Julia"]


def test_options_of_the_document_are_shown_where_the_model_saw_letters():
    row = choice_line(["P"] * 2, [" A", " B"], {"question": "Why?", "choices": {"text": ["rain", "snow"]}})
    content = dumped(row)
    assert read_options(cut_row(content, EXPECTED, True), content, 2, True) == ([" A", " B"], ["rain", "snow"])


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row | {"more": 1},
        lambda row: {key: value for key, value in row.items() if key != "doc_hash"},
        lambda row: row | {"doc_id": "3"},
        lambda row: {"x": 1, **row},
        lambda row: {key: row[key] for key in reversed(row)},
    ],
)
def test_rows_of_another_layout_are_not_cut(change):
    assert cut_row(dumped(change(choice_line(["P"], ["c"]))), EXPECTED, True) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"doc_id": 3, "arguments": 1', b"[]", b', "arguments": , "filtered_resps": ']
)
def test_damaged_lines_are_not_cut(content):
    assert cut_row(content, EXPECTED, True) is None
    with pytest.raises(InputError, match="file, line 7: "):
        whole_row(content, True, "file", 7)


def test_arguments_that_cannot_be_parsed_give_no_continuations():
    content = dumped(choice_line(["P", "P"], [" a", " b"])).replace(b'"gen_args_1"', b'"gen_args_1')
    row = cut_row(content, EXPECTED, True)
    assert read_options(row, content, 2, True) == ([], [])


def test_hash_is_that_of_the_tool(shared_data):
    path = next(shared_data.glob("logs/lm-eval/made_with_tool/0.4.13/*/samples_arc*"))
    for row in map(json.loads, path.open()):
        assert document_hash(row["doc"], "") == row["doc_hash"]


def test_question_of_documents():
    assert question({"premise": "It rained.", "hypothesis": "It was wet.", "idx": 3}) == "It rained.\nIt was wet."
    assert question({"Question": "Why?", "answer": "x"}) == "Why?"
    assert question({"passage": "Why? Because.", "question": "Why?"}) == "Why? Because."
    assert question({"page": "text of it", "n": 1}) == "page: text of it"
    assert question({"n": 1}) is None
    assert question("Why?") == "Why?"
    assert question(None) is None


def test_prompt_is_the_question_where_the_document_has_no_text():
    content = dumped(choice_line(["Example.\n\nWhy?"], ["c"], {"n": 1}))
    assert prompted(whole_row(content, True, "file", 1), content) == "Why?"


def test_parts_of_prompts():
    assert split_endings(["The cat sat on", "The cat saw on"]) == ("The cat ", ["sat on", "saw on"])
    assert split_endings(["same", "same"]) == ("", ["same", "same"])
    assert last_part("Example.\n\nWhy? ") == "Why? "
    assert last_part("Why?\n\n") == "Why?\n\n"


# Samples.

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def two_options(k, **changes):
    arguments = {f"gen_args_{i}": {"arg_0": "Why?", "arg_1": option} for i, option in enumerate((" a", " b"))}
    return {
        "doc_id": k,
        "doc": {"question": f"Why {k}?"},
        "target": "1",
        "arguments": arguments,
        "resps": [[["-1", "False"]], [["-2", "True"]]],
        "filtered_resps": [["-1", "False"], ["-2", "True"]],
        "filter": "none",
        "metrics": ["acc"],
        "doc_hash": f"{k:064x}",
        "acc": 1.0,
        **changes,
    }


def outcome(file, fast=True):
    """The samples, or the message with which they are refused."""
    try:
        return read_samples(file, True, fast)
    except InputError as error:
        return str(error)


def sample_file(path, rows, indent=None):
    lines = [json.dumps(one) + "\n" for one in rows]
    path.write_text("".join(lines) if indent is None else json.dumps(rows, indent=indent))
    return SourceFile.look(path)


@pytest.mark.parametrize("fast", [True, False])
def test_samples_are_in_the_order_of_their_documents(tmp_path, fast):
    samples = read_samples(sample_file(tmp_path / "x.jsonl", [two_options(k) for k in (2, 0, 1)]), True, fast)
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
            file = SourceFile.look(path)
            assert read_samples(file, texts) == read_samples(file, texts, fast=False), path


@given(st.lists(st.tuples(st.sampled_from(sorted(two_options(0))), ANYTHING), max_size=3), st.integers(0, 2))
def test_rows_with_anything_in_them_are_read_or_refused(tmp_path_factory, changes, changed):
    rows = [two_options(k) for k in range(3)]
    rows[changed] |= dict(changes)
    file = sample_file(tmp_path_factory.mktemp("rows") / "x.jsonl", rows)
    fast, whole = outcome(file), outcome(file, fast=False)
    assert isinstance(whole, list) or whole.startswith(f"{file.path}, line ")
    assert repr(fast) == repr(whole)  # NaN is not itself


def test_scores_of_every_kind(tmp_path):
    scores = {
        "a": "True",
        "b": "0.5",
        "c": True,
        "d": [1, 0],
        "e": None,
        "f": "text",
        "g": 10**400,
        "h": float("nan"),
        "i": 2,
    }
    changes = {"metrics": None} | scores
    (sample,) = read_samples(sample_file(tmp_path / "x.jsonl", [two_options(0, **changes)]), True)
    assert sample.scores["none"] == {
        "a": 1,
        "b": 0.5,
        "c": 1,
        "d": None,
        "e": None,
        "f": None,
        "g": None,
        "h": None,
        "i": 2,
        "acc": 1,
    }


@pytest.mark.parametrize(
    "responses",
    [[], None, "text", [["-1", "False"]], [["-1"], ["-2"]], [["x", "False"]] * 2, [[-1, 2]] * 2, [[1, []]] * 2],
)
def test_responses_that_are_no_log_likelihoods(tmp_path, responses):
    (sample,) = read_samples(sample_file(tmp_path / "x.jsonl", [two_options(0, filtered_resps=responses)]), True)
    assert sample.logs == []


def test_long_answers_are_not_kept(tmp_path):
    rows = [
        two_options(0, filtered_resps=["x" * 201]),
        two_options(1, filtered_resps=["x" * 200]),
        two_options(2, filtered_resps=[["a"]]),
    ]
    samples = read_samples(sample_file(tmp_path / "x.jsonl", rows), True)
    assert [sample.responses["none"] for sample in samples] == [None, "x" * 200, None]


def test_half_surrogates_and_deep_nesting(tmp_path):
    path = tmp_path / "x.jsonl"
    bare = json.dumps(two_options(0) | {"doc_hash": None})
    for hard in ('"\\ud800"', "[" * 900 + "]" * 900, "[" * 100_000 + "]" * 100_000):
        path.write_text(bare.replace('"Why 0?"', hard))
        result = outcome(SourceFile.look(path))
        assert len(result) == 1 or result.startswith(f"{path}, line 1: ")


def test_written_out_documents_are_told_apart_by_prompts_if_need_be(tmp_path):
    rows = [
        {"doc_id": k, "prompt_0": f"Example {k}.\n\nTL;DR:", "logit_0": "text", "truth": "x", "em": "0.0"}
        for k in range(3)
    ]
    samples = read_written_out(sample_file(tmp_path / "x.json", rows, 4), True)
    assert len({sample.identity for sample in samples}) == 3
    assert [sample.responses[0] for sample in samples] == ["text"] * 3
    assert samples[0].scores == {0: {"em": 0.0}}


@pytest.mark.parametrize("damaged", [{}, {"prompt_0": 3}, 7, {"logit_0": 1.0}])
def test_damaged_written_out_elements_are_named(tmp_path, damaged):
    rows = [{"doc_id": 0, "prompt_0": "Why?", "logit_0": "x", "acc": "1"}, damaged]
    with pytest.raises(InputError, match="element 2: has no prompt_0"):
        read_written_out(sample_file(tmp_path / "x.json", rows, 4), True)


LOGS = st.floats(-50, 0)


def samples_of(rows, targets, options=None):
    names = options or [[f" {'x' * (i + 1)}" for i in range(len(row))] for row in rows]
    return [
        HarnessSample(k, str(k), t, list(row), own)
        for k, (row, t, own) in enumerate(zip(rows, targets, names, strict=True))
    ]


def acc_of(rows, golds):
    return np.array([float(int(np.argmax(row)) in gold) for row, gold in zip(rows, golds, strict=True)])


@given(st.lists(st.tuples(st.lists(LOGS, min_size=3, max_size=5), st.integers(0, 2)), min_size=1, max_size=8))
def test_margin_is_the_log_odds_of_the_right_option(cases):
    rows, golds = [row for row, _ in cases], [gold for _, gold in cases]
    acc = acc_of(rows, [[gold] for gold in golds])
    for form in (
        lambda gold: gold,
        str,
        lambda gold: [gold],
        lambda gold: f"[{gold}]",
        lambda gold: " " + "x" * (gold + 1),
    ):
        choices = find_choices(samples_of(rows, map(form, golds)), {"acc": acc})
        expected = [log_odds(row, [gold]) for row, gold in cases]
        np.testing.assert_allclose(choices.margins["acc"], np.array(expected, float), rtol=1e-9, atol=1e-9)
        assert choices.gold.argmax(axis=1).tolist() == golds
        assert choices.chosen["acc"].tolist() == [int(np.argmax(row)) for row in rows]


@given(st.lists(st.tuples(LOGS, LOGS, st.booleans()), min_size=1, max_size=8))
def test_two_options_are_inferred_whatever_the_target_says(cases):
    rows = [case[:2] for case in cases]
    acc = np.array([float(case[2]) for case in cases])
    choices = find_choices(samples_of(rows, ["no rule"] * len(cases)), {"acc": acc})
    margin = choices.margins["acc"]
    assert (margin[acc == 1] >= 0).all()
    assert (margin[acc == 0] <= 0).all()
    np.testing.assert_allclose(np.abs(margin), [abs(a - b) for a, b in rows], atol=1e-12)


def test_rule_must_explain_every_row():
    rows, targets = [[-1, -2, -3], [-3, -1, -2]], [0, 1]
    assert find_choices(samples_of(rows, targets), {"acc": np.array([1.0, 1.0])}).margins
    wrong = find_choices(samples_of(rows, targets), {"acc": np.array([1.0, 0.0])})
    assert wrong.gold is None
    assert not wrong.margins
    assert wrong.chosen["acc"].tolist() == [0, 1]


def test_rules_that_disagree_give_no_margin():
    options = [[" 1", " 2", " 0"]]  # "1" is the second option, or the first one's text
    assert find_choices(samples_of([[-2, -3, -1]], ["1"], options), {"acc": np.array([0.0])}).gold is None
    assert find_choices(samples_of([[-1, -3, -2]], ["1"], options), {"acc": np.array([1.0])}).gold.tolist() == [
        [True, False, False]
    ]


def test_several_right_options_count_together():
    choices = find_choices(samples_of([[-1.0, -2.0, -3.0]], [[0, 2]]), {"acc": np.array([1.0])})
    assert choices.margins["acc"][0] == pytest.approx(math.log(math.exp(-1) + math.exp(-3)) + 2)


def test_acc_norm_divides_by_the_length_without_the_delimiter():
    options = [[" a", " bbbb", " cc"]]
    logs = [-1.5, -2.0, -9.0]
    choices = find_choices(samples_of([logs], [1], options), {"acc": np.array([0.0]), "acc_norm": np.array([1.0])})
    assert choices.margins["acc_norm"][0] == pytest.approx(log_odds([-1.5, -0.5, -4.5], [1]))
    assert choices.chosen["acc_norm"].tolist() == [1]
    # with an empty delimiter the blank belongs to the option
    choices = find_choices(samples_of([logs], [1], options), {"acc": np.array([0.0]), "acc_norm": np.array([1.0])}, "")
    assert choices.margins["acc_norm"][0] == pytest.approx(log_odds([-0.75, -0.4, -3.0], [1]))
    # the length that explains the scores is used
    choices = find_choices(
        samples_of([[-1.0, -1.5, -9.0]], [0], [[" a", " bbb", " c"]]), {"acc": np.ones(1), "acc_norm": np.ones(1)}
    )
    assert "acc_norm" not in choices.margins


def test_acc_norm_alone():
    choices = find_choices(
        samples_of([[-1.5, -2.0, -9.0]], [1], [[" a", " bbbb", " cc"]]), {"acc_norm": np.array([1.0])}
    )
    assert list(choices.margins) == list(choices.chosen) == ["acc_norm"]
    assert not find_choices(samples_of([[-1.0, -2.0, -3.0]], [1]), {"acc_norm": np.array([0.5])}).margins


def test_second_half_of_mutual_information_is_left_out():
    rows, scores = [[-1.0, -2.0, -3.0, -9.0, -0.1, -9.0]], {"acc": np.ones(1), "acc_mutual_info": np.zeros(1)}
    choices = find_choices(samples_of(rows, [0]), scores)
    assert choices.margins["acc"][0] == pytest.approx(log_odds(rows[0][:3], [0]))


@pytest.mark.parametrize(
    ("rows", "acc"),
    [
        ([], []),
        ([[]], [1.0]),
        ([[-1.0, -2.0, -3.0]], [0.4]),
        ([[-1.0, -2.0, -3.0], []], [1.0, 1.0]),
        ([[math.nan, -2.0, -3.0]], [1.0]),
        ([[-math.inf, -math.inf, -math.inf]], [1.0]),
    ],
)
def test_degenerate_input_has_no_finite_margin(rows, acc):
    choices = find_choices(samples_of(rows, [0] * len(rows)), {"acc": np.array(acc)})
    assert all(np.isnan(column).all() for column in choices.margins.values())


def test_unscored_rows_have_no_margin():
    acc = np.array([1.0, math.nan])
    choices = find_choices(samples_of([[-1.0, -2.0, -3.0]] * 2, [0, 0]), {"acc": acc})
    assert np.isnan(choices.margins["acc"]).tolist() == [False, True]


def test_tables_are_bounded(monkeypatch):
    monkeypatch.setattr(lm_eval, "MOST_OPTION_CELLS", 5)
    assert not find_choices(samples_of([[-1.0, -2.0, -3.0]] * 2, [0, 0]), {"acc": np.ones(2)}).margins


@pytest.mark.parametrize("target", [None, {}, [[]], [None], "", "{", "[", 10**30, -1, True, 1.0, "1.0"])
def test_targets_that_are_no_rule(target):
    assert find_choices(samples_of([[-1.0, -2.0, -3.0]], [target]), {"acc": np.ones(1)}).gold is None


# Scores.


def results_file(path, *, model="org/m", revision="", metrics=None, **entries):
    arguments = f"pretrained={model}" + (f",revision={revision}" if revision else "")
    content = {
        "results": {"arc": metrics or {"acc,none": 0.5}},
        "versions": {},
        "config": {"model": "hf", "model_args": arguments},
        **entries,
    }
    return SourceFile.look(dump(path, content))


def harness(file, pattern=None):
    assert LmEvalResults().detect(file).has_scores
    return list(LmEvalResults().read_scores(file, ScoreOptions([], re.compile(pattern) if pattern else None)))


STRANGE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})


def test_results_of_version_03(shared_data):
    folder = shared_data / "logs/lm-eval/pythia_results_0.3/pythia-70m/zero-shot"
    for path in sorted(folder.iterdir()):
        scores = harness(SourceFile.look(path))
        assert {score.step for score in scores} == {float(re.search(r"step(\d+)", path.name)[1])}
        assert {(score.run.name, score.setting) for score in scores} == {("EleutherAI/pythia-v1.1-70m", "0-shot")}
        stated = json.loads(path.read_text())["results"]
        assert {score.value for score in scores if (score.name, score.metric) == ("wsc", "acc")} == {
            stated["wsc"]["acc"]
        }
        assert {score.items for score in scores if score.name == "piqa"} == {1838}


@pytest.mark.parametrize(
    ("path", "model", "tasks"),
    [
        ("made_with_tool/0.4.2/results.json", "acme/rnd-b", 4),
        ("made_with_tool/0.4.3/acme__rnd-a/*.json", "acme/rnd-a", 4),
        ("made_with_tool/0.4.13/qouslm4j/*.json", "qouslm4j", 7),
        ("made_with_tool/0.4.13/models__smollm2-135m/*.json", "models/smollm2-135m", 7),
        ("olot/*.json", "tinyllama", 1),
        ("pyFade/gsm8k/*13-31*.json", "gemma3:12b-u1", 1),
        ("pyFade/gsm8k/*13-42*.json", "gemma3:12b-it-q4_K_M", 1),
    ],
)
def test_results_of_version_04(shared_data, path, model, tasks):
    (path,) = (shared_data / "logs/lm-eval").glob(path)
    scores = harness(SourceFile.look(path))
    assert {(score.run.model, score.step) for score in scores} == {(model, None)}
    assert len({score.name for score in scores}) == tasks
    stated = json.loads(path.read_text())["results"]
    for score in scores:
        assert stated[score.name][f"{score.metric},{score.variant or 'none'}"] == score.value
    groups = {score.name: score.mean_of for score in scores if score.mean_of}
    assert groups == ({"local_group": ("arc_local", "rte_local")} if tasks == 7 else {})


def test_items_are_those_evaluated(shared_data):
    (path,) = (shared_data / "logs/lm-eval").glob("pyFade/gsm8k/*13-31*.json")
    assert {(score.items, score.setting) for score in harness(SourceFile.look(path))} == {(100, "5-shot")}


@pytest.mark.parametrize(
    ("model", "revision", "folder", "run", "step"),
    [
        ("EleutherAI/pythia-70m", "step143000", "out", "EleutherAI/pythia-70m", 143000),
        ("allenai/OLMo-2", "stage1-step1000-tokens5B", "out", "allenai/OLMo-2@stage1", 1000),
        ("out/my-run/checkpoint-500", "", "res", "out/my-run", 500),
        ("out/my-run/checkpoint-500/", "", "res", "out/my-run", 500),
        ("org/m", "main", "ckpt/global_step_40/m", "org/m", 40),
        ("org/m", "dpo", "res", "org/m@dpo", None),
    ],
)
def test_steps_and_runs(tmp_path, model, revision, folder, run, step):
    (score,) = harness(results_file(tmp_path / folder / "results.json", model=model, revision=revision))
    assert (score.run.name, score.step) == (run, step)


def test_the_pattern_for_steps_is_the_users(tmp_path):
    file = results_file(tmp_path / "a" / "results.json", model="out/run_s20_final")
    assert [(score.run.name, score.step) for score in harness(file, r"_s(\d+)")] == [("out/run_final", 20)]
    assert [score.step for score in harness(file, r"epoch(\d+)")] == [None]
    assert [score.step for score in harness(file, r"run(\D+)")] == [None]


def test_the_step_of_a_model_on_this_machine(tmp_path):
    dump(tmp_path / "final" / "trainer_state.json", {"global_step": 77, "log_history": []})
    file = results_file(tmp_path / "results" / "r.json", model=str(tmp_path / "final"))
    assert [score.step for score in harness(file)] == [77]


@pytest.mark.parametrize(
    "arguments", ["pretrained=a/b,revision=step3", {"pretrained": "a/b", "revision": "step3"}, None]
)
def test_arguments_of_the_model_in_every_form(tmp_path, arguments):
    given = arguments or json.dumps({"pretrained": "a/b", "revision": "step3"})
    (score,) = harness(results_file(tmp_path / "r.json", config={"model": "hf", "model_args": given}))
    assert (score.run.name, score.step) == ("a/b", 3)


def test_what_changes_answers_tells_runs_apart(tmp_path):
    arguments = {"pretrained": "org/base", "peft": "out/adapter/checkpoint-3", "dtype": "float16"}
    config = {"model_args": arguments, "num_fewshot": 5}
    (score,) = harness(results_file(tmp_path / "r.json", config=config, chat_template_sha="0123456789"))
    assert score.run.name == "out/adapter"
    assert score.run.attributes == ("dtype=float16", "chat_template_sha=01234567", "pretrained=org/base")
    assert (score.step, score.setting) == (3, "5-shot")


@pytest.mark.parametrize(
    "content", [{"results": []}, {"results": {}, "versions": {}}, {"results": None, "configs": {}}]
)
def test_results_of_other_tools_are_skipped_with_the_key_that_they_lack(tmp_path, content):
    file = SourceFile.look(dump(tmp_path / "results.json", content))
    with pytest.raises(SkipFile, match=r"'versions'|'config'"):
        harness(file)
    results_file(tmp_path / "mine.json")
    imported = import_trajectories(tmp_path)
    assert imported.frame.height == 1
    assert imported.left_out.filter(what=str(file.path))["reason"].str.contains("'versions'|'config'").all()


@pytest.mark.parametrize("value", [[], [{"acc,none": 0.5}], 7, "text", None, True])
@pytest.mark.parametrize("key", ["results", "versions", "config", "arc"])
def test_results_that_are_no_object_are_refused_with_their_key(tmp_path, key, value):
    changed = {"results": {"arc": value}} if key == "arc" else {key: value}
    file = results_file(tmp_path / "r.json", **changed)
    with pytest.raises(InputError, match=f"r.json: '(results.)?{key}'"):
        harness(file)
    with pytest.raises(InputError, match=f"r.json: '(results.)?{key}'"):
        import_trajectories(tmp_path)


def test_metrics_that_are_no_numbers_are_left_out_with_a_note(tmp_path):
    metrics = {
        "alias": "arc",
        "acc,none": 0.5,
        "acc_stderr,none": "N/A",
        "f1,none": "0.5",
        "em,none": [1],
        "x,none": None,
    }
    notes = []
    scores = list(LmEvalResults().read_scores(results_file(tmp_path / "r.json", metrics=metrics), ScoreOptions(notes)))
    assert [(score.metric, score.value) for score in scores] == [("acc", 0.5)]
    assert len(notes) == 1
    assert all(part in notes[0] for part in ("r.json", "results.arc.f1,none", "results.arc.em,none"))


ODD = [
    None,
    True,
    -1,
    10**30,
    1e300,
    "",
    "text",
    [],
    [[]],
    [{}],
    {},
    {"apples": []},
    {"apples": {"x": None}},
    {"name": 3},
]


def with_value(record, path, value):
    """A copy of a record with another value at a path, whatever stood on the way."""
    if not path:
        return value
    inner = record if isinstance(record, dict) else {}
    return inner | {path[0]: with_value(inner.get(path[0]), path[1:], value)}


def scores_or_message(path):
    try:
        return list(LmEvalResults().read_scores(SourceFile.look(path), ScoreOptions([])))
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("column", [*RUN_COLUMNS.columns, *TASK_COLUMNS.columns], ids=lambda column: column.name)
def test_odd_values_at_every_declared_path_are_survived(tmp_path, column):
    for path in (column.path or column.name).split("|"):
        keys = path.split(".")
        if keys[0] in TASK_OBJECTS:
            keys.insert(1, "apples")
        for value in ODD:
            for k in range(1, len(keys) + 1):
                results = with_value(results_of(), keys[:k], value)
                samples = write(tmp_path / f"samples_apples_{STAMP}.jsonl", [sample(0)], results)
                assert list(next(iter(read(samples).values.values()))) == [1]
                scores = scores_or_message(samples.with_name(f"results_{STAMP}.json"))
                if isinstance(scores, str):
                    assert scores.startswith(str(tmp_path))
                    assert keys[0] in scores
                else:
                    assert all(abs(score.value) < 1e300 for score in scores)


@given(
    st.dictionaries(st.sampled_from(["acc,none", "acc_stderr,none", "alias", "acc", ","]), STRANGE), STRANGE, STRANGE
)
def test_any_results_are_read(tmp_path_factory, metrics, strange, other):
    entries = {"n-shot": strange, "n-samples": {"arc": strange}, "group_subtasks": {"arc": other}, "date": other}
    config = {"model_args": strange, "num_fewshot": other}
    file = results_file(tmp_path_factory.mktemp("r") / "r.json", metrics=metrics, config=config, **entries)
    assert all(abs(score.value) < 1e300 for score in harness(file))


def test_a_number_of_items_that_cannot_be_is_not_taken(tmp_path):
    samples = {"arc": {"effective": 2**64}}
    file = results_file(tmp_path / "r.json", metrics={"acc,none": 0.5}, **{"n-samples": samples})
    assert [score.items for score in harness(file)] == [None]


def test_members_of_a_group_may_be_anything(tmp_path):
    file = results_file(tmp_path / "r.json", metrics={"acc,none": 0.5}, group_subtasks={"arc": [["arc"], {}, 3, None]})
    assert [score.mean_of for score in harness(file)] == [()]


@given(st.integers(2, 20000), st.data())
def test_items_come_from_the_standard_error(n, data):
    right = data.draw(st.integers(1, n - 1))
    p = right / n
    assert items_from_error(p, (p * (1 - p) / (n - 1)) ** 0.5) == n


@pytest.mark.parametrize(
    ("value", "error"), [(0.0, 0.0), (1.0, 0.0), (0.5, None), (0.5, 1e-200), (0.31, 0.1234), (0.5, 1e200)]
)
def test_no_items_where_the_error_says_nothing(value, error):
    assert items_from_error(value, error) is None
