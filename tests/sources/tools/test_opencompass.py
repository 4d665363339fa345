import json

import numpy as np
import pytest

from breadth.errors import InputError
from breadth.sources.logs.importing import read_logs
from breadth.sources.logs.log import Metric, Options, SkipFile
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.opencompass import OpenCompass

from .reading import part_of, read

COMPASS = OpenCompass()
ACCURACY = Metric("accuracy")


def generated(details, **aggregates):
    return {**aggregates, "details": {"type": "GEN", **{str(k): row for k, row in enumerate(details)}}, "type": "GEN"}


def row(right, answer="B", **more):
    given = answer if right else "A"
    return {"prompt": f"Q {answer}", "predictions": given, "references": answer, "correct": right, **more}


def run(folder, results, model="llama-2-7b", dataset="ARC-c", predictions=None):
    """A run directory with the results of one model on one data set."""
    path = folder / "20240102_030405" / "results" / model / f"{dataset}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=4))
    if predictions is not None:
        beside = folder / "20240102_030405" / "predictions" / model / f"{dataset}.json"
        beside.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(predictions, indent=4))
    return path


def logs(path, **options):
    return read(COMPASS, path, **options)


def read_whatever_it_is(path):
    """As ``--format opencompass`` does."""
    return list(COMPASS.read_answers(SourceFile.look(path), Options()))


class TestReading:
    def test_details_by_position(self, tmp_path):
        path = run(tmp_path, generated([row(True), row(False), row(True, "C")], accuracy=66.66666666666667))
        (log,) = logs(path)
        assert (log.model, log.testset, log.stamp) == ("llama-2-7b", "ARC-c", "20240102_030405")
        assert log.scores(ACCURACY).tolist() == [1, 0, 1]
        assert [item.split("~")[0] for item in log.items] == ["0", "1", "2"]
        assert log.answers == ["B", "A", "C"]
        assert log.texts == {"prompt": ["Q B", "Q B", "Q C"], "target": ["B", "B", "C"]}
        assert not [warning for warning in read_logs(tmp_path).warnings if "never tried" not in warning]
        assert COMPASS.experimental

    def test_details_that_begin_with_a_long_prompt(self, tmp_path):
        path = run(tmp_path, generated([{**row(True), "prompt": "word " * 20_000}], accuracy=100.0))
        assert part_of(COMPASS, path) is Part.ANSWERS
        assert logs(path)[0].scores(ACCURACY).tolist() == [1]

    def test_a_mean_that_details_do_not_have_is_noted(self, tmp_path):
        run(tmp_path, generated([row(True), row(False)], accuracy=75.0))
        assert any("is 0.5, but the log states 0.75" in warning for warning in read_logs(tmp_path).warnings)

    def test_lists_of_repetitions(self, tmp_path):
        details = [
            {"example_abbr": "math_0", "pred": ["1", "2"], "answer": ["1", "1"], "correct": [True, False]},
            {"example_abbr": "math_1", "pred": ["3", "3"], "answer": ["3", "3"], "correct": [True, True]},
        ]
        (log,) = logs(run(tmp_path, {"accuracy (2 runs average)": 75.0, "details": details}))
        assert log.scores(ACCURACY).tolist() == [0.5, 1]
        assert [item.split("~")[0] for item in log.items] == ["math_0", "math_1"]
        assert log.stated == {ACCURACY: 0.75}
        assert log.answers == ["1 | 2", "3"]
        assert "mean over 2 answers" in log.notes[0]

    def test_items_are_the_same_in_old_and_new_details(self, tmp_path):
        (old,) = logs(run(tmp_path, generated([{"pred": "A", "answer": "B", "correct": False}]), "a"))
        (new,) = logs(run(tmp_path, {"details": [{"pred": ["B"], "answer": ["B"], "correct": [True]}]}, "b"))
        assert old.items == new.items

    def test_another_range_of_a_data_set_has_other_items(self, tmp_path):
        run(tmp_path, generated([row(True, "first")]), "a")
        run(tmp_path, generated([row(True, "second")]), "b")
        assert read_logs(tmp_path).matrix.tolist() == [[1, -1], [-1, 1]]

    def test_perplexity_and_a_second_extraction(self, tmp_path):
        ppl = {"type": "PPL", "0": {"origin_prediction": {"A": {"PPL": 1.2}}, "predictions": "A", "references": "A",
               "correct": True, "model_extract_correct": False}}  # fmt: skip
        (log,) = logs(run(tmp_path, {"accuracy": 100.0, "details": ppl}))
        assert log.scores(ACCURACY).tolist() == [1]
        assert log.scores(Metric("model_postprocess_accuracy")).tolist() == [0]
        assert log.margins == {}

    def test_prompts_come_from_predictions_where_details_have_none(self, tmp_path):
        turns = [
            {"role": "HUMAN", "prompt": "first"},
            {"role": "BOT", "prompt": "x"},
            {"role": "HUMAN", "prompt": "asked"},
        ]
        path = run(
            tmp_path, generated([{"pred": "1", "answer": "1", "correct": True}]),
            predictions={"0": {"origin_prompt": turns, "prediction": "1", "gold": "1"}},
        )  # fmt: skip
        assert logs(path)[0].texts["prompt"] == ["asked"]

    def test_answers_without_correctness_are_missing(self, tmp_path):
        (log,) = logs(run(tmp_path, generated([row(True), row(None)])))
        assert np.isnan(log.scores(ACCURACY)).tolist() == [False, True]

    def test_details_without_correctness_are_left_out(self, tmp_path):
        path = run(tmp_path, generated([{"predictions": "a", "references": "b"}], bleu=12.0))
        with pytest.raises(SkipFile, match="do not say which answers are right"):
            logs(path)


class TestParts:
    def test_results_without_details_are_scores(self, tmp_path):
        assert part_of(COMPASS, run(tmp_path, {"accuracy": 45.3})) is Part.SCORES

    def test_predictions_go_with_their_results(self, tmp_path):
        content = {"0": {"origin_prompt": "Q", "prediction": "A", "gold": "B"}}
        path = run(tmp_path, generated([row(True)]), predictions=content)
        beside = tmp_path / "20240102_030405" / "predictions" / "llama-2-7b" / "ARC-c.json"
        assert part_of(COMPASS, path) is Part.ANSWERS
        assert part_of(COMPASS, beside) is Part.COMPANION
        part = beside.with_name("ARC-c_0.json")
        beside.rename(part)
        assert part_of(COMPASS, part) is Part.COMPANION

    def test_predictions_alone_are_left_out(self, tmp_path):
        path = tmp_path / "ARC-c.json"
        path.write_text(json.dumps({"0": {"origin_prompt": "Q", "prediction": "A"}}))
        assert part_of(COMPASS, path) is Part.ANSWERS
        with pytest.raises(SkipFile, match="--dump-eval-details"):
            logs(path)

    def test_other_logs_are_not_claimed(self, shared_data):
        paths = sorted((shared_data / "logs").rglob("*.json*"))
        assert paths
        assert [path for path in paths if part_of(COMPASS, path) is not None] == []


class TestDamage:
    @pytest.mark.parametrize("details", [None, 3, "x"])
    def test_details_of_another_type(self, tmp_path, details):
        with pytest.raises(InputError, match="details: expected an object or a list"):
            read_whatever_it_is(run(tmp_path, {"details": details}))

    def test_empty_details(self, tmp_path):
        with pytest.raises(SkipFile, match="empty"):
            read_whatever_it_is(run(tmp_path, {"details": {}}))
