"""Event logs of OpenAI Evals: a real one, variants, and damaged ones."""

import json

import numpy as np
import pytest

import breadth
from breadth.sources.logs.log import Metric, SkipFile
from breadth.sources.tools.openai_evals import OpenAIEvals

from .reading import is_experimental, read

ACCURACY = Metric("accuracy")


@pytest.fixture
def events(tmp_path):
    def write(*lines, spec=None):
        first = {"spec": spec or {"completion_fns": ["gpt-x"], "eval_name": "task.dev.v0"}}
        path = tmp_path / "log.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in (first, *lines)))
        return path

    return write


def event(kind, sample="task.dev.0", **data):
    return {"run_id": "r", "event_id": 0, "sample_id": sample, "type": kind, "data": data}


def test_the_real_log_of_openai_evals(shared_data):
    (log,) = read(OpenAIEvals(), shared_data / "logs/openai-evals/evaltrust/openai_evals_log.jsonl")
    assert (log.model, log.testset) == ("gpt-3.5-turbo", "coqa-match")
    assert list(log.items) == ["coqa.dev.0", "coqa.dev.1", "coqa.dev.2"]
    assert log.scores(ACCURACY).tolist() == [1, 0, 1]
    assert log.stated == {ACCURACY: log.scores(ACCURACY).mean()}
    assert list(log.answers) == ["Paris", "Berlin", "4"]
    assert log.texts["text"][2] == "What is 2 + 2?"
    assert log.texts["target"] == ["Paris", "Madrid", "4"]
    assert not log.notes


def test_repeated_samples_are_averaged_or_epochs(events):
    path = events(
        event("match", correct=True, picked="a"), event("match", correct=False, picked="b"),
        event("match", "task.dev.1", correct=True, picked="a"), {"final_report": {"accuracy": 0.7}},
    )  # fmt: skip
    (log,) = read(OpenAIEvals(), path)
    assert (log.scores(ACCURACY).tolist(), list(log.answers)) == ([0.5, 1], [None, "a"])
    first, second = read(OpenAIEvals(), path, epochs="each")
    assert first.scores(ACCURACY).tolist() == [1, 1]
    np.testing.assert_array_equal(second.scores(ACCURACY), [0, np.nan])
    assert (second.subject, second.stated) == ({"epoch": 2}, {})


def test_numbers_of_metrics_events(events):
    spec = {"completion_fns": ["gpt-x", "grader"], "eval_name": "t"}
    (log,) = read(OpenAIEvals(), events(event("metrics", choice="B", score=0.5, f1_score=0.2), spec=spec))
    assert {str(metric): column.tolist() for metric, column in log.values.items()} == {
        "score": [0.5],
        "f1_score": [0.2],
    }
    assert log.settings["grader"] == "grader"
    assert "no final report" in log.notes[0]
    assert is_experimental(log)


@pytest.mark.parametrize("spec", [{"model_name": "gpt-x"}, {"model_names": {"completions": ["gpt-x"]}}])
def test_first_versions_named_the_model_elsewhere(events, spec):
    (log,) = read(OpenAIEvals(), events(event("match", correct=1), spec={"eval_name": "t", **spec}))
    assert log.model == "gpt-x"


def test_failed_samples_are_missing(events):
    path = events(event("match", correct=True), event("error", "task.dev.1", message="x"), {"final_report": {}})
    (log,) = read(OpenAIEvals(), path)
    np.testing.assert_array_equal(log.scores(ACCURACY), [1, np.nan])
    (note,) = log.notes
    assert "1 samples ended in an error" in note


def test_chat_prompts_ask_with_their_last_message(events):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    lines = [event("sampling", prompt=messages), event("match", correct=True, expected=["a", "b"])]
    (log,) = read(OpenAIEvals(), events(*lines))
    assert log.texts == {"text": ["q"], "target": ["a | b"]}
    assert not read(OpenAIEvals(), events(*lines), texts=False)[0].texts


def test_logs_without_scores_or_model(events):
    with pytest.raises(SkipFile, match="no sample has a match"):
        read(OpenAIEvals(), events(event("sampling", prompt="q")))
    with pytest.raises(breadth.InputError, match=r"log\.jsonl, line 1: spec: has no completion_fns or "):
        read(OpenAIEvals(), events(event("match", correct=True), spec={"eval_name": "t"}))
    path = events(event("match", correct=True))
    path.write_text(path.read_text() + "\n{")
    with pytest.raises(breadth.InputError, match="line 3: is not JSON"):
        read(OpenAIEvals(), path)
