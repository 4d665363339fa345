"""AlpacaEval's preferences: real ones, variants, and damaged ones."""

import json

import numpy as np
import pytest

import breadth
from breadth.sources.logs.log import SkipFile
from breadth.sources.tools.alpaca_eval import WIN_RATE, AlpacaEval

from .reading import read


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
    (note,) = log.notes
    assert "1 of 6 judgments failed" in note


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
        (judgment("q", 3), "preference is 3"),
        (judgment("q", -1), "preference is -1"),
        (judgment(None, 1), "has no instruction"),
        (judgment(["q"], 1), "instruction is "),
        (judgment("q", 1, None), "has no generator_2"),
    ],
)
def test_damaged_annotations_are_one_message_with_the_place(annotations, row, message):
    path = annotations(judgment("p", 1), row)
    with pytest.raises(breadth.InputError, match=message) as refused:
        read(AlpacaEval(), path)
    assert str(refused.value).startswith(f"{path}, line 11: ")  # the second object of the list
