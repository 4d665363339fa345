import json
import math
from pathlib import Path

import numpy as np
import pytest

import breadth
from breadth.errors import InputError
from breadth.sources.logs.log import Metric, Options, SkipFile
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.lm_eval import LmEval
from breadth.sources.tools.lm_eval_rows import document_hash

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
    return LmEval().part(SourceFile.look(Path(path)))


def read(path, **options):
    assert part(path) is Part.ANSWERS
    logs = list(LmEval().read_answers(SourceFile.look(Path(path)), Options(**options)))
    assert len(logs) == 1 or options.get("epochs") == "each"
    return logs[0] if len(logs) == 1 else logs


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
    "given", ["peft=out/checkpoint-800,pretrained=acme/one,load_in_4bit=True,batch_size=8",
              {"pretrained": "acme/one", "peft": "out/checkpoint-800", "load_in_4bit": True, "device": "cuda"}],
)  # fmt: skip
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
    with pytest.raises(InputError, match="--keep newest"):
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
    assert breadth.read_logs(path, filter="flexible-extract").correct.mean() == 1


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


DAMAGED = {
    "filters": (lambda text: text.replace('"none"', "null", 1), "line 2: some lines name their filter"),
    "cut off": (lambda text: text[:-40], "line 3: is not JSON"),
    "not an object": (lambda text: text + "7\n", "line 4: is not a JSON object"),
    "no number": (lambda text: text.replace('"doc_id": 1', '"doc_id": "1"'), "line 2: doc_id is '1', not"),
    "two scores": (
        lambda text: text + text.splitlines()[0].replace('"exact_match": 1.0', '"exact_match": 0.0'),
        "line 4: doc_id 0 has two different scores",
    ),
    "no document": (
        lambda text: text + '{"doc_id": 3, "target": "1", "exact_match": 1.0}\n',
        "line 4: has neither doc nor doc_hash",
    ),
}  # fmt: skip


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


@pytest.mark.parametrize("value", [None, 7, "text", [], [1], {"apples": None}, {"apples": [{}]}, {"apples": {"x": {}}}])
@pytest.mark.parametrize(
    "key", ["results", "configs", "config", "n-shot", "versions", "n-samples", "model_name", "date"]
)
def test_results_of_any_type_are_survived(tmp_path, key, value):
    path = write(tmp_path / f"samples_apples_{STAMP}.jsonl", [sample(0)], results_of(**{key: value}))
    assert read(path).values[Metric("acc")].tolist() == [1]


def test_files_of_other_tools_are_left_alone(tmp_path):
    for k, content in enumerate(
        ("", "[]", "{}", "text", '{"doc_id": 0, "native_id": 1, "doc": {}, "target": 1}', '{"results": {}}', "[1, 2]")
    ):
        path = tmp_path / f"{k}.json"
        path.write_text(content)
        assert part(path) is None
