import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth import InputError
from breadth.sources.checkpoint_scores.scores import Reading
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.lm_eval_scores import is_harness_results, items_from_error, read_harness_results
from breadth.sources.tools.trainer_state import is_trainer_state, read_trainer_state
from breadth.sources.tools.wandb import is_wandb, read_wandb


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return SourceFile.look(path)


def results_file(path, *, model="org/m", revision="", metrics=None, **entries):
    arguments = f"pretrained={model}" + (f",revision={revision}" if revision else "")
    content = {
        "results": {"arc": metrics or {"acc,none": 0.5}},
        "versions": {},
        "config": {"model": "hf", "model_args": arguments},
        **entries,
    }
    return write(path, content)


def harness(file, pattern=None):
    assert is_harness_results(file)
    return list(read_harness_results(file, Reading([], re.compile(pattern) if pattern else None)))


def test_real_trainer_state(shared_data):
    file = SourceFile.look(shared_data / "logs/trajectories/hf_trainer/trainer_state_viz/trainer_state.json")
    assert is_trainer_state(file)
    scores = list(read_trainer_state(file, Reading([])))
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
    (score,) = read_trainer_state(file, Reading([]))
    assert score.run.name == (tmp_path / "run").resolve().as_posix()
    assert (score.run.model, score.time) == ("org/base", 20)


def test_names_of_a_row_of_training_are_no_scores(tmp_path):
    history = [{"step": 1, "loss": 2.0, "mean_token_accuracy": 0.5}, {"step": 1, "hans_accuracy": 0.5, "eval_x": 1}]
    file = write(tmp_path / "trainer_state.json", {"global_step": 1, "log_history": history})
    scores = {score.name: score.training for score in read_trainer_state(file, Reading([]))}
    assert scores == {"loss": True, "mean_token_accuracy": True, "hans_accuracy": False, "eval_x": False}


@pytest.mark.parametrize(
    ("history", "message"),
    [
        ({}, "'log_history' is not a list"),
        ([{"step": 1}, 3], "entry 2 of 'log_history' is not an object"),
    ],
)
def test_damaged_trainer_states(tmp_path, history, message):
    file = write(tmp_path / "trainer_state.json", {"global_step": 1, "log_history": history})
    with pytest.raises(InputError, match=message):
        list(read_trainer_state(file, Reading([])))


def test_entries_without_a_step_are_left_out_and_counted(tmp_path):
    history = [{"step": 1, "eval_x_acc": 0.5}, {"eval_x_acc": 0.25}, {"step": "2", "eval_x_acc": 0.75}]
    file, notes = write(tmp_path / "trainer_state.json", {"log_history": history}), []
    assert [score.value for score in read_trainer_state(file, Reading(notes))] == [0.5]
    assert notes == [f"{file.path}: 2 of 3 entries of 'log_history' have no step, left out"]


def test_truncated_trainer_states(tmp_path):
    file = write(tmp_path / "trainer_state.json", '{"global_step": 1,\n"log_history": [{"step": 1},')
    with pytest.raises(InputError, match=r"trainer_state.json, line 2: is not JSON"):
        list(read_trainer_state(file, Reading([])))


STRANGE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([]) | st.just({})


@given(st.dictionaries(st.sampled_from(["step", "eval_a_acc", "eval_runtime", "eval_samples_per_second"]), STRANGE))
def test_any_row_of_a_trainer_is_read(tmp_path_factory, row):
    state = {"global_step": None, "log_history": [row]}
    file = write(tmp_path_factory.mktemp("state") / "trainer_state.json", state)
    scores = list(read_trainer_state(file, Reading([])))
    assert all(abs(score.value) < 1e300 for score in scores)


def test_huge_speeds_give_no_items(tmp_path):
    row = {"step": 1, "eval_acc": 0.5, "eval_runtime": 1e299, "eval_samples_per_second": 1e299}
    file = write(tmp_path / "trainer_state.json", {"log_history": [row]})
    assert {score.items for score in read_trainer_state(file, Reading([]))} == {None}


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
    write(tmp_path / "final" / "trainer_state.json", {"global_step": 77, "log_history": []})
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


@pytest.mark.parametrize("content", ['{"results": []}', '{"results": {}, "versions": {}}', '{"results": null}'])
def test_results_of_other_tools_are_none(tmp_path, content):
    assert harness(write(tmp_path / "results.json", content)) == []


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


def wandb(path, notes=None):
    file = SourceFile.look(path)
    assert is_wandb(file)
    return list(read_wandb(file, Reading([] if notes is None else notes)))


def test_real_wandb_export(shared_data):
    notes = []
    scores = wandb(shared_data / "logs/trajectories/wandb/nanoGPT_wandb_export.csv", notes)
    assert len({score.run for score in scores}) == 8
    assert {score.name for score in scores} == {"train/loss"}
    first = next(score for score in scores if score.run.name == "gpt2_last_char_to_char1729642919.4054031")
    assert (first.step, first.value) == (0, 25.48284149169922)
    assert notes == []


@pytest.fixture
def export(tmp_path):
    def write(*lines):
        path = tmp_path / "wandb_export.csv"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def test_names_of_runs_may_hold_a_dash(export):
    path = export('"Step","a - b - eval/acc","a - b - eval/acc__MIN","a - b - eval/acc__MAX"', '"1","0.5","0.5","0.5"')
    (score,) = wandb(path)
    assert (score.run.name, score.name, score.step, score.value) == ("a - b", "eval/acc", 1, 0.5)


def test_exports_that_were_saved_again_have_no_quotes(export):
    assert [score.value for score in wandb(export("Step,a - acc,b - acc", "0,0.25,0.5"))] == [0.25, 0.5]


def test_grouped_and_thinned_charts_are_said_to_be_so(export):
    notes = []
    wandb(export('"epoch","lr: 1 - acc","lr: 1 - acc__MIN","lr: 1 - acc__MAX"', '"0.5","0.5","0.4","0.6"'), notes)
    assert "is the x axis of the chart, 'epoch'" in notes[0]
    assert "minima and maxima differ from the values" in notes[1]


def test_steps_of_a_chart_over_epochs_are_not_its_spread(export):
    head = '"epoch","a - _step","a - _step__MIN","a - _step__MAX","a - acc","a - acc__MIN","a - acc__MAX"'
    notes = []
    wandb(export(head, '"1","5","1","9","0.5","0.5","0.5"'), notes)
    assert len(notes) == 1
    assert "is the x axis" in notes[0]


def test_runs_of_one_name_are_numbered(export):
    notes = []
    scores = wandb(export('"Step","a - acc","a - acc","b - acc"', '"0","0.1","0.2","0.3"'), notes)
    assert [score.run[:2] for score in scores] == [("a", ()), ("a", ("(2)",)), ("b", ())]
    assert "several runs are called 'a'; they are numbered" in notes[0]


def test_empty_cells_are_missing(export):
    assert [score.value for score in wandb(export('"Step","a - acc","b - acc"', '"0","","0.3"', '"1","NaN",""'))] == [
        0.3
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"1","0.5"', "line 3: has 2 of 3 fields"),
        ('"Monday","1","2"', "line 3: 'Monday' in column 'Step' is not a number"),
    ],
)
def test_damaged_exports(export, line, message):
    with pytest.raises(InputError, match=message):
        wandb(export('"Step","a - acc","b - acc"', '"0","0.2","0.3"', line))


def test_exports_that_are_no_text(tmp_path):
    path = tmp_path / "w.csv"
    path.write_bytes(b'"Step","a - acc"\n"0","\xff"\n')
    with pytest.raises(InputError, match="cannot be read as CSV"):
        wandb(path)


@pytest.mark.parametrize(
    "content", ["", "Step,acc\n1,2\n", '{"a - b": 1}', "a - b", "model - x\n", "Text, with - a dash\nand more\n"]
)
def test_other_tables_are_not_exports(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_text(content)
    assert not is_wandb(SourceFile.look(path))
