import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth import InputError
from breadth.sources.checkpoint_scores.scores import ScoreOptions
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.trainer_state import TrainerState, is_checkpoint_folder


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return SourceFile.look(path)


def trainer_state(file, notes=None):
    assert TrainerState().detect(file).has_scores
    return list(TrainerState().read_scores(file, ScoreOptions([] if notes is None else notes)))


def test_real_trainer_state(shared_data):
    file = SourceFile.look(shared_data / "logs/trajectories/hf_trainer/trainer_state_viz/trainer_state.json")
    scores = trainer_state(file)
    rows = json.loads(file.path.read_text())["log_history"]
    expected = {(row["step"], key): value for row in rows for key, value in row.items() if key != "step"}
    assert {(score.step, score.name): score.value for score in scores} == expected
    assert {score.items for score in scores if score.name.endswith("accuracy")} == {401}
    assert {score.run.name.rpartition("/")[2] for score in scores} == {"trainer_state_viz"}
    assert {score.name for score in scores if score.training} == {"loss", "grad_norm", "learning_rate", "epoch"}


def test_checkpoints_are_of_the_run_above(tmp_path):
    state = {"global_step": 20, "log_history": [{"step": 20, "eval_loss": 1.0}]}
    file = write(tmp_path / "run" / "checkpoint-20" / "trainer_state.json", state)
    write(tmp_path / "run" / "checkpoint-20" / "adapter_config.json", {"base_model_name_or_path": "org/base"})
    (score,) = trainer_state(file)
    assert score.run.name == (tmp_path / "run").resolve().as_posix()
    assert (score.run.model, score.time) == ("org/base", 20)


def test_names_of_a_row_of_training_are_no_scores(tmp_path):
    history = [{"step": 1, "loss": 2.0, "mean_token_accuracy": 0.5}, {"step": 1, "hans_accuracy": 0.5, "eval_x": 1}]
    file = write(tmp_path / "trainer_state.json", {"global_step": 1, "log_history": history})
    scores = {score.name: score.training for score in trainer_state(file)}
    assert scores == {"loss": True, "mean_token_accuracy": True, "hans_accuracy": False, "eval_x": False}


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ({}, r"trainer_state.json: log_history is \{\}"),
        (None, r"trainer_state.json: has no log_history"),
        ([{"step": 1}, 3], r"trainer_state.json: entry 2 of log_history"),
    ],
)
def test_damaged_trainer_states(tmp_path, history, message):
    file = write(tmp_path / "trainer_state.json", {"global_step": 1, "log_history": history})
    with pytest.raises(InputError, match=message):
        trainer_state(file)


def test_entries_without_a_step_are_left_out_and_counted(tmp_path):
    history = [{"step": 1, "eval_x_acc": 0.5}, {"eval_x_acc": 0.25}, {"step": "2", "eval_x_acc": 0.75}]
    file, notes = write(tmp_path / "trainer_state.json", {"log_history": history}), []
    assert [score.value for score in trainer_state(file, notes)] == [0.5]
    (note,) = notes
    assert note.startswith(f"{file.path}: 2 of 3 entries")


def test_truncated_trainer_states(tmp_path):
    file = write(tmp_path / "trainer_state.json", '{"global_step": 1,\n"log_history": [{"step": 1},')
    with pytest.raises(InputError, match=r"trainer_state.json, line 2: is not JSON"):
        trainer_state(file)


STRANGE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})


@given(st.dictionaries(st.sampled_from(["step", "eval_a_acc", "eval_runtime", "eval_samples_per_second"]), STRANGE))
def test_any_row_of_a_trainer_is_read(tmp_path_factory, row):
    state = {"global_step": None, "log_history": [row]}
    file = write(tmp_path_factory.mktemp("state") / "trainer_state.json", state)
    scores = trainer_state(file)
    assert all(abs(score.value) < 1e300 for score in scores)


def test_huge_speeds_give_no_items(tmp_path):
    row = {"step": 1, "eval_acc": 0.5, "eval_runtime": 1e299, "eval_samples_per_second": 1e299}
    file = write(tmp_path / "trainer_state.json", {"log_history": [row]})
    assert {score.items for score in trainer_state(file)} == {None}


@pytest.mark.parametrize("content", ['[{"log_history": []}]', '{"history": []}', "log_history", ""])
def test_other_files_are_no_states(tmp_path, content):
    assert TrainerState().detect(write(tmp_path / "trainer_state.json", content)) is None


def test_folders_of_checkpoints():
    names = ("checkpoint-500", "checkpoint-500-merged", "checkpoint-7b", "checkpoint", "step-500", "my-checkpoint-5")
    assert [name for name in names if is_checkpoint_folder(name)] == ["checkpoint-500"]


def test_the_base_model_is_not_needed(tmp_path):
    file = write(tmp_path / "run" / "trainer_state.json", {"log_history": [{"step": 1, "eval_x_acc": 0.5}]})
    write(tmp_path / "run" / "adapter_config.json", "{damaged")
    write(tmp_path / "run" / "config.json", {"_name_or_path": "org/m"})
    assert [score.run.model for score in trainer_state(file)] == ["org/m"]
