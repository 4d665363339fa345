import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from breadth.errors import InputError
from breadth.sources.logs.importing import read_logs
from breadth.sources.logs.log import Metric, Options, SkipFile
from breadth.sources.logs.log_files import read_log_files
from breadth.sources.registry import Part
from breadth.sources.tools.eee import EveryEvalEver

from .reading import part_of, read

EEE = EveryEvalEver()

HASHES = {number: hashlib.sha256(str(number).encode()).hexdigest() for number in (7, 8)}


def line(sample="q1", score=1.0, **changes):
    row = {
        "schema_version": "0.3.0", "evaluation_id": "e/1", "model_id": "org/model", "evaluation_name": "bench",
        "evaluation_result_id": "bench.acc", "sample_id": sample, "interaction_type": "single_turn",
        "input": {"raw": f"What is {sample}?", "reference": ["B"], "choices": ["one", "two"]},
        "output": {"raw": ["It is B."]},
        "answer_attribution": [
            {"turn_idx": 0, "source": "output.raw", "extracted_value": "B", "extraction_method": "regex",
             "is_terminal": True}
        ],
        "evaluation": {"score": score, "is_correct": score == 1},
    }  # fmt: skip
    return {**row, **changes}


def aggregate(**changes):
    result = {
        "evaluation_result_id": "bench.acc", "evaluation_name": "bench",
        "source_data": {"dataset_name": "bench", "source_type": "other"},
        "metric_config": {"metric_name": "accuracy", "lower_is_better": False, "score_type": "binary"},
        "score_details": {"score": 0.5},
        "generation_config": {"generation_args": {"temperature": 0.0}, "additional_details": {"num_fewshot": "5"}},
    }  # fmt: skip
    return {
        "schema_version": "0.3.0", "evaluation_id": "e/1", "retrieved_timestamp": "1750000001",
        "model_info": {"name": "model", "id": "org/model", "additional_details": {"revision": "step100"}},
        "evaluation_results": [result], **changes,
    }  # fmt: skip


def written(folder, rows, about=None, name="0b4d9a44-0000-4000-8000-000000000000"):
    samples = folder / f"{name}_samples.jsonl"
    samples.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if about is not None:
        (folder / f"{name}.json").write_text(json.dumps(about, indent=2))
    return samples


def logs(path, **options):
    return read(EEE, path, **options)


class TestRealFiles:
    @pytest.fixture
    def folder(self, shared_data):
        return shared_data / "logs" / "every_eval_ever"

    def test_every_file_is_imported_or_refused_for_the_right_reason(self, folder):
        collected = read_log_files([folder], Options())
        reasons = {Path(path).relative_to(folder).as_posix(): why for path, why in collected.left_out.items()}
        scores = next(why for path, why in reasons.items() if path.startswith("community_evals_converter/datastore"))
        assert scores.startswith("scores of whole test sets")
        assert reasons["community_evals_converter/aggregate.jsonl"].startswith("an index of every_eval_ever records")
        foreign = {"LICENSE", "schemas/eval.schema.json", "schemas/instance_level_eval.schema.json"}
        foreign.add("skill_reference_conversion/README.md")
        assert {path for path, why in reasons.items() if why == "not a log of a known format"} == foreign
        assert [len(file.logs) for file in collected.files if not file.left_out] == [1]

    def test_the_reference_conversion(self, folder):
        study = read_logs(folder / "skill_reference_conversion")
        assert study.subjects["model"].to_list() == ["demo-org/demo-model"]
        assert study.items.row(0, named=True) == {
            "testset": "demo-source.demo_bench", "item": "demo_0001", "text": "What is 2 + 2?", "target": "4",
        }  # fmt: skip
        assert study.matrix.tolist() == [[1]]
        # The record states a mean that its only sample does not have.
        assert any("is 1, but the log states 0.75" in warning for warning in study.warnings)
        assert not any("checksum" in warning or "partial" in warning for warning in study.warnings)


class TestReading:
    def test_metric_settings_and_subject_come_from_the_aggregate(self, tmp_path):
        path = written(tmp_path, [line("a"), line("b", 0.0)], aggregate())
        (log,) = logs(path)
        assert log.items == ["a", "b"]
        assert log.scores(Metric("accuracy")).tolist() == [1, 0]
        assert log.stated == {Metric("accuracy"): 0.5}
        assert log.settings == {"temperature": 0.0, "num_fewshot": 5}
        assert log.subject == {"revision": "step100"}
        assert log.stamp.startswith("2025-06-15T")
        assert log.answers == ["B", "B"]
        assert log.texts["options"] == [["one", "two"]] * 2
        assert log.texts["label"] == ["B", "B"]
        assert read_logs(path).subjects["step"].to_list() == [100]

    def test_a_reference_that_is_the_text_of_a_choice_gives_its_label(self, tmp_path):
        (log,) = logs(written(tmp_path, [line(input={"raw": "?", "reference": ["two"], "choices": ["one", "two"]})]))
        assert log.texts["label"] == ["B"]
        assert "target" not in log.texts

    def test_one_sample_with_several_metrics_is_one_item(self, tmp_path):
        rows = [
            line("a", 0.4, evaluation_result_id="f1:test"), line("a", 1.0, evaluation_result_id="exact_match:test"),
            line("b", 0.0, evaluation_result_id="exact_match:test"),
        ]  # fmt: skip
        (log,) = logs(written(tmp_path, rows))
        assert log.items == ["a", "b"]
        assert log.scores(Metric("exact_match", "test")).tolist() == [1, 0]
        assert log.scores(Metric("f1", "test")).tolist()[0] == 0.4
        assert any("aggregate" in note and "missing" in note for note in log.notes)

    def test_results_of_the_same_metric_stay_apart(self, tmp_path):
        about = aggregate()
        other = {**about["evaluation_results"][0], "evaluation_result_id": "other"}
        about["evaluation_results"].append(other)
        rows = [line("a", 1.0), line("a", 0.0, evaluation_result_id="other")]
        (log,) = logs(written(tmp_path, rows, about))
        assert log.scores(Metric("accuracy")).tolist() == [1]
        assert log.scores(Metric("accuracy", "other")).tolist() == [0]

    def test_converted_lm_eval_samples_meet_their_items_and_metrics(self, tmp_path):
        def converted(number, score, metrics, name="flexible-extract"):
            metadata = {"doc_hash": HASHES[number], "filter": name, "lm_eval_metrics": json.dumps(metrics)}
            return line(
                str(number), score, evaluation_name=f"gsm8k/{name}", evaluation_result_id=None, metadata=metadata,
                input={"raw": f"examples {number}", "reference": ["1"], "choices": ["x", "y"]},
            )  # fmt: skip

        rows = [converted(7, 0.0, {"exact_match": 0.0, "f1": 0.5}), converted(8, 0.0, {}),
                converted(7, 1.0, {"exact_match": 1.0}, "strict-match")]  # fmt: skip
        (log,) = logs(written(tmp_path, rows, aggregate()))
        assert log.testset == "gsm8k"
        assert log.items == [HASHES[7][:16], HASHES[8][:16]]
        # The converter writes score 0 where lm-evaluation-harness had none: it is missing, not wrong.
        assert log.scores(Metric("exact_match", "flexible-extract")).tolist()[0] == 0
        assert log.values[Metric("exact_match", "flexible-extract")][1] != 0
        assert log.scores(Metric("f1", "flexible-extract")).tolist()[0] == 0.5
        assert log.scores(Metric("exact_match", "strict-match")).tolist()[0] == 1
        assert "text" not in log.texts
        assert log.texts["prompt"] == ["examples 7", "examples 8"]
        assert log.texts["label"] == ["B", "B"]

    def test_errors_and_unknown_levels_are_missing(self, tmp_path):
        about = aggregate()
        about["evaluation_results"][0]["metric_config"]["has_unknown_level"] = True
        rows = [line("a", 0.0, error="timeout"), line("b", -1), line("c", 1.0)]
        (log,) = logs(written(tmp_path, rows, about))
        values = log.scores(Metric("accuracy"))
        assert np.isnan(values).tolist() == [True, True, False]

    def test_lower_is_better_is_left_out(self, tmp_path):
        about = aggregate()
        about["evaluation_results"][0]["metric_config"]["lower_is_better"] = True
        with pytest.raises(SkipFile, match="lower is better: accuracy"):
            logs(written(tmp_path, [line()], about))

    def test_epochs(self, tmp_path):
        rows = [line("a", score, metadata={"epoch": str(epoch)}) for epoch, score in ((1, 1.0), (2, 0.0))]
        path = written(tmp_path, rows, aggregate())
        (mean,) = logs(path)
        assert mean.scores(Metric("accuracy")).tolist() == [0.5]
        each = logs(path, epochs="each")
        assert [log.subject["epoch"] for log in each] == [1, 2]
        assert [log.scores(Metric("accuracy")).tolist() for log in each] == [[1], [0]]

    def test_an_id_with_several_inputs_is_several_items(self, tmp_path):
        rows = [line("1"), line("1", 0.0, input={"raw": "another question", "reference": ["B"]}), line("2")]
        (log,) = logs(written(tmp_path, rows, aggregate()))
        assert len(log.items) == 3
        assert log.items[2] == "2"
        assert [item.split("~")[0] for item in log.items[:2]] == ["1", "1"]
        (again,) = logs(written(tmp_path, rows[::-1], aggregate()))
        assert set(again.items) == set(log.items)

    def test_is_correct_only_if_asked_for(self, tmp_path):
        path = written(tmp_path, [line("a", 73.5, evaluation={"score": 73.5, "is_correct": True})], aggregate())
        assert list(logs(path)[0].values) == [Metric("accuracy")]
        with pytest.raises(InputError, match="no metric between 0 and 1"):
            read_logs(path)
        assert read_logs(path, metric="is_correct").matrix.tolist() == [[1]]

    def test_several_models_and_test_sets_in_one_file(self, tmp_path):
        rows = [line(), line(model_id="org/other", score=0.0), line(evaluation_name="second")]
        study = read_logs(written(tmp_path, rows))
        assert study.subject_names == ("model", "other")
        assert study.testsets == ["bench", "second"]
        assert study.matrix.tolist() == [[1, 1], [0, -1]]

    def test_percentages_are_not_compared_with_means(self, tmp_path):
        about = aggregate()
        about["evaluation_results"][0]["metric_config"]["max_score"] = 100
        assert logs(written(tmp_path, [line()], about))[0].stated == {}


class TestNotes:
    def test_partial_changed_and_unknown(self, tmp_path):
        details = {"total_rows": 9, "hash_algorithm": "sha256", "checksum": "0" * 64}
        rows = [line(schema_version="7.0")]
        (log,) = logs(written(tmp_path, rows, aggregate(detailed_evaluation_results=details)))
        notes = " ".join(log.notes)
        assert "partial: 1 lines, but its aggregate states 9" in notes
        assert "sha256 checksum" in notes
        assert "schema 7.0 is not known" in notes

    def test_a_right_checksum_is_not_noted(self, tmp_path):
        path = written(tmp_path, [line()])
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()
        details = {"total_rows": 1, "hash_algorithm": "sha256", "checksum": checksum}
        path.with_name(path.name.replace("_samples.jsonl", ".json")).write_text(
            json.dumps(aggregate(detailed_evaluation_results=details))
        )
        assert logs(path)[0].notes == []

    def test_an_aggregate_of_another_evaluation_is_not_used(self, tmp_path):
        (log,) = logs(written(tmp_path, [line()], aggregate(evaluation_id="another")))
        assert "about another evaluation" in log.notes[0]
        assert log.settings == {}


class TestParts:
    def test_parts(self, tmp_path):
        samples = written(tmp_path, [line()], aggregate())
        beside = samples.with_name(samples.name.replace("_samples.jsonl", ".json"))
        assert part_of(EEE, samples) is Part.ANSWERS
        assert part_of(EEE, beside) is Part.COMPANION
        samples.unlink()
        assert part_of(EEE, beside) is Part.SCORES

    @pytest.mark.parametrize("content", ["", "[]", "{}", "[{}]", "x", '{"evaluation_id": 1}', "\x00\x01"])
    def test_other_files_are_not_claimed(self, tmp_path, content):
        path = tmp_path / "file.json"
        path.write_text(content)
        assert part_of(EEE, path) is None


class TestDamage:
    def test_the_line_is_named(self, tmp_path):
        path = written(tmp_path, [line(), {"evaluation_id": "e/1"}])
        with pytest.raises(InputError, match=r"_samples\.jsonl, line 2: has no model_id"):
            logs(path)

    def test_a_truncated_file(self, tmp_path):
        path = written(tmp_path, [line(), line("b")])
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(InputError, match="line 2: is not JSON"):
            logs(path)

    def test_no_scores_at_all(self, tmp_path):
        with pytest.raises(SkipFile, match="no sample is scored"):
            logs(written(tmp_path, [line(evaluation={})]))
