"""AlpacaEval's preferences and the event logs of OpenAI Evals: real ones, variants, and damaged ones."""

import importlib.util
import json
import random
from pathlib import Path

import numpy as np
import pytest

import breadth
from breadth.sources.logs.log import Metric, Options, SkipFile
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.alpaca_eval import WIN_RATE, AlpacaEval
from breadth.sources.tools.openai_evals import OpenAIEvals

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).parents[2] / "fuzz" / "fuzzing.py")
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)

ACCURACY = Metric("accuracy")


def read(importer, path, **options):
    file = SourceFile.look(path)
    assert importer.part(file) is Part.ANSWERS
    return list(importer.read_answers(file, Options(**options)))


def judgment(instruction, preference, model="m", **more):
    return {"instruction": instruction, "output_1": "x", "generator_1": "base", "output_2": "y",
            "generator_2": model, "annotator": "judge", "preference": preference, **more}  # fmt: skip


@pytest.fixture
def annotations(tmp_path):
    def write(*rows, indent=2):
        path = tmp_path / "annotations.json"
        path.write_text(json.dumps(rows, indent=indent))
        return path

    return write


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


def test_the_real_annotations(shared_data):
    (log,) = read(AlpacaEval(), shared_data / "logs/alpaca_eval/alpaca-7b/annotations.json")
    assert (log.model, len(log.items)) == ("alpaca-7b", 805)
    assert log.testset == "alpaca_eval:annotator=alpaca_eval_gpt4,baseline=text_davinci_003"
    # AlpacaEval's leaderboard states 26.46 % for this file: 205 wins and 16 draws of 805.
    assert log.scores(WIN_RATE).mean() == pytest.approx((205 + 16 / 2) / 805, abs=1e-15)
    assert set(log.texts["subset"]) == {"helpful_base", "koala", "oasst", "selfinstruct", "vicuna"}


@pytest.mark.parametrize("indent", [2, None])
def test_preferences_are_shares_of_a_win(annotations, indent):
    rows = [judgment(f"q{k}", value) for k, value in enumerate([1, 2, 1.5, 0, 1.25, None])]
    (log,) = read(AlpacaEval(), annotations(*rows, indent=indent))
    np.testing.assert_array_equal(log.scores(WIN_RATE), [0, 1, 0.5, 0.5, 0.25, np.nan])
    assert log.notes == ["1 of 6 judgments failed: missing"]


def test_instructions_are_items(annotations):
    rows = [judgment("q", 1), judgment("q", 2), judgment("q", 1, input="more")]
    first, second = (read(AlpacaEval(), annotations(*rows, **{"indent": k}))[0] for k in (2, None))
    assert first.items == second.items
    assert first.items[1] == first.items[0] + "#2"
    assert "#" not in first.items[2]
    assert first.texts["text"] == ["q", "q", "q\n\nmore"]


def test_models_and_annotators_in_one_file_are_logs_of_their_own(annotations):
    rows = [judgment("q", 1, "m"), judgment("q", 2, "n"), judgment("q", 2, "m", annotator="other")]
    logs = read(AlpacaEval(), annotations(*rows))
    assert [(log.model, log.scores(WIN_RATE)[0]) for log in logs] == [("m", 0), ("n", 1), ("m", 1)]
    assert len({log.testset for log in logs}) == 2


def test_a_leaderboard_beside_states_the_win_rate(annotations):
    path = annotations(judgment("q", 1), judgment("r", 2))
    path.with_name("leaderboard.csv").write_text(",win_rate,n_total\nother,99.1,2\nm,50.00,2\n")
    assert read(AlpacaEval(), path)[0].stated == {WIN_RATE: 0.5}
    for damaged in ("", "a,b\n1,2\n", ",win_rate\nm,many\n", "\x00\n", ",win_rate\nm,1e999999\n"):
        path.with_name("leaderboard.csv").write_text(damaged)
        assert not read(AlpacaEval(), path)[0].stated


def test_outputs_without_judgments_say_so(tmp_path):
    path = tmp_path / "model_outputs.json"
    path.write_text(json.dumps([{"instruction": "q", "output": "a", "generator": "m"}]))
    with pytest.raises(SkipFile, match="without judgments"):
        read(AlpacaEval(), path)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (judgment("q", 3), "preference is 3; expected 1 to 2"),
        (judgment("q", -1), "preference is -1; expected 1 to 2"),
        (judgment(None, 1), "has no instruction"),
        (judgment("q", 1, None), "has no instruction, generator_1 or generator_2"),
    ],
)
def test_damaged_annotations_are_one_message_with_the_place(annotations, row, message):
    path = annotations(judgment("p", 1), row)
    with pytest.raises(breadth.InputError, match=message) as refused:
        read(AlpacaEval(), path)
    assert str(refused.value).startswith(str(path))


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
    assert log.notes == ["the run did not finish: it has no final report"]


@pytest.mark.parametrize("spec", [{"model_name": "gpt-x"}, {"model_names": {"completions": ["gpt-x"]}}])
def test_first_versions_named_the_model_elsewhere(events, spec):
    (log,) = read(OpenAIEvals(), events(event("match", correct=1), spec={"eval_name": "t", **spec}))
    assert log.model == "gpt-x"


def test_failed_samples_are_missing(events):
    path = events(event("match", correct=True), event("error", "task.dev.1", message="x"), {"final_report": {}})
    (log,) = read(OpenAIEvals(), path)
    np.testing.assert_array_equal(log.scores(ACCURACY), [1, np.nan])
    assert log.notes == ["1 samples ended in an error: missing"]


def test_chat_prompts_ask_with_their_last_message(events):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    lines = [event("sampling", prompt=messages), event("match", correct=True, expected=["a", "b"])]
    (log,) = read(OpenAIEvals(), events(*lines))
    assert log.texts == {"text": ["q"], "target": ["a | b"]}
    assert not read(OpenAIEvals(), events(*lines), texts=False)[0].texts


def test_logs_without_scores_or_model(events):
    with pytest.raises(SkipFile, match="no sample has a match"):
        read(OpenAIEvals(), events(event("sampling", prompt="q")))
    with pytest.raises(breadth.InputError, match="line 1: spec has no eval_name or no completion_fns"):
        read(OpenAIEvals(), events(event("match", correct=True), spec={"eval_name": "t"}))
    path = events(event("match", correct=True))
    path.write_text(path.read_text() + "\n{")
    with pytest.raises(breadth.InputError, match="line 3: is not JSON"):
        read(OpenAIEvals(), path)


@pytest.mark.parametrize(
    ("importer", "where"),
    [
        (AlpacaEval(), "alpaca_eval/alpaca-7b/annotations.json"),
        (OpenAIEvals(), "openai-evals/evaltrust/openai_evals_log.jsonl"),
    ],
)
def test_mutations_give_logs_or_one_message(shared_data, tmp_path, importer, where):
    messages = []
    chance = random.Random(13)
    content = (shared_data / "logs" / where).read_bytes()
    path = tmp_path / Path(where).name
    for _ in range(60):
        path.write_bytes(fuzzing.mutate(content, chance))
        file = SourceFile.look(path)
        try:
            if importer.part(file) is Part.ANSWERS:
                list(importer.read_answers(file, Options()))
        except (breadth.InputError, SkipFile) as refused:
            messages.append(str(refused))
    assert messages
    assert all(message.strip() and "\n" not in message for message in messages)
