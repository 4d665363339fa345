import json
import math
from pathlib import Path

import numpy as np
import pytest

from breadth.errors import InputError
from breadth.sources.logs.importing import read_logs
from breadth.sources.logs.log import Metric, SkipFile
from breadth.sources.registry import Part
from breadth.sources.tools.olmes import Olmes

from .reading import part_of, read

OLMES = Olmes()


def output(total, chars=4, tokens=2, **more):
    return {
        "sum_logits": total, "num_tokens": tokens, "num_chars": chars, "is_greedy": False,
        "logits_per_token": total / tokens, "bits_per_byte": -total / chars / math.log(2), **more,
    }  # fmt: skip


def prediction(number, right, gold=0, outputs=None, **metrics):
    """A line of OLMES: ``right`` by the raw sum of log-probabilities."""
    best = gold if right else 1 - gold
    outputs = outputs or [output(-1.0 if k == best else -3.0) for k in range(2)]
    return {
        "doc_id": number, "native_id": f"Mercury_{number}",
        "metrics": {
            "predicted_index_raw": best, "correct_choice": gold, "acc_raw": int(right), "acc_per_char": int(right),
            "acc_uncond": None, "no_answer": 0, "sum_logits_corr": outputs[gold]["sum_logits"],
            "bits_per_byte_corr": 0.4, **metrics,
        },
        "model_output": outputs, "label": gold, "task_hash": "t", "model_hash": "m",
    }  # fmt: skip


def old(folder, rows, task="arc_easy:rc", **changes):
    """What OLMES writes for one task."""
    stem = folder / f"task-000-{task}"
    path = Path(f"{stem}-predictions.jsonl")
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    right = [row["metrics"]["acc_raw"] for row in rows]
    metrics = {
        "task_name": task, "num_instances": len(rows), "current_date": "2025-01-02 03:04:05 UTC",
        "task_config": {"primary_metric": "acc_per_char", "num_shots": 5, "metadata": {"alias": f"{task}::olmes"}},
        "model_config": {"model": "allenai/OLMo-2-1B", "revision": "stage1-step1000-tokens3B", "model_path": None},
        "metrics": {"acc_raw": np.mean(right), "acc_per_char": np.mean(right), "extra_metrics": {"num_tokens": 3}},
    }  # fmt: skip
    Path(f"{stem}-metrics.json").write_text(json.dumps({**metrics, **changes}))
    requests = [
        {"request_type": "loglikelihood", "doc": {"query": f"Q{row['doc_id']}", "choices": ["x", "y"]},
         "request": {"context": "examples"}, "idx": k, "doc_id": row["doc_id"], "native_id": row["native_id"]}
        for row in rows for k in range(2)
    ]  # fmt: skip
    Path(f"{stem}-requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in requests))
    return path


def new(folder, rows, flat=False):
    """What olmo-eval writes for one task."""
    path = folder / "predictions" / "org_model" / "arc_challenge_mc_abcdef-predictions.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {
        "task": "arc_challenge:mc", "task_hash": "0123456789abcdef", "num_instances": len(rows),
        "primary_metric": "accuracy:logprob", "config": {"num_fewshot": 5},
        "metrics": {"accuracy": {"logprob": 0.5}, "bpb": {"logprob": 0.8}},
    }  # fmt: skip
    config = {"name": "default", "provider": {"model": "org/model", "revision": "step20", "dtype": "auto"}}
    about = {"timestamp": "2026-02-03T04:05:06", "config": config, "tasks": [task], "summary": {}}
    (folder / "metrics.json").write_text(json.dumps(about))
    return path


def new_row(number, right, flat=False):
    metrics = (
        {"accuracy": right * 1.0, "bpb": 0.7} if flat else {"accuracy": {"logprob": right * 1.0}, "bpb": {"bpb": 0.7}}
    )
    outputs = [output(-1.0 if k == (0 if right else 1) else -2.0, text="t") for k in range(3)]
    return {"doc_id": number, "native_id": number, "model_output": outputs, "instance_metrics": metrics, "label": 0}


def logs(path, **options):
    return read(OLMES, path, **options)


class TestOlmes:
    def test_a_task(self, tmp_path):
        path = old(tmp_path, [prediction(0, True), prediction(1, False), prediction(2, True, gold=1)])
        (log,) = logs(path)
        assert (log.testset, log.model) == ("arc_easy:rc", "allenai/OLMo-2-1B")
        assert log.items == ["Mercury_0", "Mercury_1", "Mercury_2"]
        # Positions, log-likelihoods and bits per byte look like shares, but do not score answers.
        assert set(log.values) == {Metric("acc_raw"), Metric("acc_per_char")}
        assert log.scores(Metric("acc_raw")).tolist() == [1, 0, 1]
        assert log.prefer[0] == "acc_per_char"
        assert log.stated[Metric("acc_raw")] == pytest.approx(2 / 3)
        assert log.settings == {"num_fewshot": 5, "regime": "olmes"}
        assert log.texts["text"] == ["Q0", "Q1", "Q2"]
        assert log.texts["label"] == ["A", "A", "B"]
        study = read_logs(tmp_path)
        assert study.subjects["step"].to_list() == [1000]
        assert not [warning for warning in study.warnings if "never tried" not in warning]
        assert OLMES.experimental

    def test_margins_are_those_of_the_metric(self, tmp_path):
        rows = [prediction(0, True, outputs=[output(-2.0, chars=10), output(-3.0, chars=5)])]
        (log,) = logs(old(tmp_path, rows))
        assert log.margins[Metric("acc_raw")].tolist() == pytest.approx([1.0])
        assert log.margins[Metric("acc_per_char")].tolist() == pytest.approx([-0.2 + 0.6])

    def test_margins_need_every_document_to_agree(self, tmp_path):
        contradicted = prediction(1, False)
        contradicted["metrics"]["acc_raw"] = 1
        (log,) = logs(old(tmp_path, [prediction(0, True), contradicted]))
        assert Metric("acc_raw") not in log.margins
        assert Metric("acc_per_char") in log.margins

    def test_unconditional_scores(self, tmp_path):
        outputs = [output(-2.0, sum_logits_uncond=-5.0), output(-1.0, sum_logits_uncond=-1.0)]
        (log,) = logs(old(tmp_path, [prediction(0, False, outputs=outputs, acc_uncond=1)]))
        assert log.margins[Metric("acc_uncond")].tolist() == pytest.approx([3.0])

    def test_options_that_vllm_did_not_see_have_no_margin(self, tmp_path):
        rows = [prediction(0, True, outputs=[output(-1.0), output(-999)]), prediction(1, True)]
        (log,) = logs(old(tmp_path, rows))
        assert np.isnan(log.margins[Metric("acc_raw")]).tolist() == [True, False]

    def test_generated_answers(self, tmp_path):
        row = {"doc_id": 0, "native_id": None, "metrics": {"exact_match": 1.0, "num_tokens": 0.5},
               "model_output": [{"continuation": "It is 4", "model_answer": "4"}], "label": "4"}  # fmt: skip
        path = tmp_path / "task-001-gsm8k-predictions.jsonl"
        path.write_text(json.dumps(row))
        (log,) = logs(path)
        assert list(log.values) == [Metric("exact_match")]
        assert (log.items, log.answers, log.testset, log.model) == (["0"], ["4"], "gsm8k", tmp_path.name)
        assert log.texts["target"] == ["4"]
        assert "metrics.json is missing" in log.notes[0]

    def test_cloze_and_letters_are_two_test_sets(self, tmp_path):
        old(tmp_path, [prediction(0, True)], "arc_easy:rc")
        old(tmp_path, [prediction(0, False)], "arc_easy:mc")
        study = read_logs(tmp_path)
        assert sorted(study.testsets) == ["arc_easy:mc", "arc_easy:rc"]
        assert len(study.subject_names) == 1

    def test_partial_files_and_repeated_ids(self, tmp_path):
        rows = [prediction(0, True), prediction(0, False)]
        (log,) = logs(old(tmp_path, rows, num_instances=9))
        assert log.items == ["Mercury_0", "Mercury_0#2"]
        assert "partial: 2 of 9 documents" in log.notes[0]

    def test_only_log_likelihoods_are_left_out(self, tmp_path):
        row = prediction(0, True)
        path = old(tmp_path, [row])
        row["metrics"] = {"bits_per_byte_corr": 0.4, "predicted_index_raw": 1}
        path.write_text(json.dumps(row))
        with pytest.raises(SkipFile, match="only log-likelihoods"):
            logs(path)


class TestOlmoEval:
    @pytest.mark.parametrize("flat", [False, True])
    def test_a_task(self, tmp_path, flat):
        path = new(tmp_path, [new_row(k, k % 2, flat) for k in range(4)])
        (log,) = logs(path)
        metric = Metric("accuracy") if flat else Metric("accuracy", "logprob")
        assert list(log.values) == [metric]
        assert log.scores(metric).tolist() == [0, 1, 0, 1]
        assert (log.testset, log.model, log.items) == ("arc_challenge:mc", "org/model", ["0", "1", "2", "3"])
        assert log.settings == {"num_fewshot": 5}
        if not flat:
            assert log.margins[metric].tolist()[1] == pytest.approx(1 - math.log(2))
            assert log.stated == {metric: 0.5}
        assert read_logs(tmp_path).subjects["step"].to_list() == [20]

    def test_without_metrics_names_come_from_the_path(self, tmp_path):
        path = new(tmp_path, [new_row(0, 1)])
        (tmp_path / "metrics.json").unlink()
        (log,) = logs(path)
        assert (log.testset, log.model) == ("arc_challenge_mc", "org_model")
        assert "metrics.json is missing" in log.notes[0]


class TestParts:
    def test_parts(self, tmp_path):
        path = old(tmp_path, [prediction(0, True)])
        parts = {file.name.rpartition("-")[2]: part_of(OLMES, file) for file in tmp_path.iterdir()}
        assert parts == {
            "predictions.jsonl": Part.ANSWERS, "metrics.json": Part.COMPANION, "requests.jsonl": Part.COMPANION,
        }  # fmt: skip
        path.unlink()
        assert part_of(OLMES, next(tmp_path.glob("*metrics.json"))) is Part.SCORES

    def test_samples_of_lm_eval_are_not_claimed(self, shared_data):
        paths = sorted((shared_data / "logs").rglob("*.json*"))
        assert paths
        assert [path for path in paths if part_of(OLMES, path) is not None] == []


class TestDamage:
    def test_the_line_is_named(self, tmp_path):
        path = old(tmp_path, [prediction(0, True)])
        path.write_text(path.read_text() + '{"doc_id": 1}\n')
        with pytest.raises(InputError, match="line 2: has no instance_metrics or metrics"):
            logs(path)
