import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import breadth
from breadth import InputError
from breadth.sources.checkpoint_scores.importing import import_trajectories, read_trajectories
from breadth.sources.registry import each_source

EVENTS = Path(__file__).parents[1] / "data" / "tensorboard"


def trainer_state(folder, rows, reached=None):
    folder.mkdir(parents=True, exist_ok=True)
    state = {"global_step": reached or max(row["step"] for row in rows), "log_history": rows}
    (folder / "trainer_state.json").write_text(json.dumps(state))
    return folder


def evaluated(step, **scores):
    return [{"step": step, "epoch": 1.0, f"eval_{name}": value} for name, value in scores.items()]


def results(path, tasks, *, model="org/m", shots=0, date=1.0, **entries):
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "results": tasks, "versions": {}, "config": {"model_args": f"pretrained={model}"}, "date": date,
        "n-shot": dict.fromkeys(tasks, shots), **entries,
    }  # fmt: skip
    path.write_text(json.dumps(content))
    return path


def by_step(frame, column, run=None):
    rows = frame if run is None else frame.filter(pl.col("run") == run)
    return dict(rows.select("step", column).iter_rows())


def reasons(result):
    return dict(result.left_out.iter_rows())


# Real files


def test_pythia_is_as_published(shared_data):
    result = import_trajectories(shared_data / "logs/lm-eval/pythia_results_0.3")
    published = pl.read_csv(shared_data / "trajectories/pythia_zero_shot.csv").filter(pl.col("model") == "pythia-70m")
    testsets = [name for name in published.columns if name not in ("model", "step")]
    assert result.frame.select("step", *testsets).equals(published.select("step", *testsets).sort("step"))
    assert result.frame["run"].unique().to_list() == ["pythia-v1.1-70m"]
    items = dict(result.testsets.select("testset", "items").iter_rows())
    assert (items["piqa"], items["arc_challenge"], items["lambada_openai"], items["wsc"]) == (1838, 1172, 5153, 104)
    assert set(result.testsets["metric"]) == {"acc"}
    assert "crows_pairs_english/pct_stereotype" in reasons(result)


def test_pythia_can_be_correlated(shared_data):
    frame = read_trajectories(shared_data / "logs/lm-eval/pythia_results_0.3")
    result = breadth.correlate(
        frame, control="lambada_openai", testsets=["arc_easy", "piqa", "sciq"], by="run", order="step"
    )
    assert result.pairs.select("n").to_series().to_list() == [27, 27, 27]
    assert result.pairs["r"].is_not_null().all()


def test_another_metric_of_pythia(shared_data):
    result = import_trajectories(shared_data / "logs/lm-eval/pythia_results_0.3", metric="acc_norm")
    chosen = dict(result.testsets.select("testset", "metric").iter_rows())
    assert (chosen["piqa"], chosen["winogrande"]) == ("acc_norm", "acc")  # winogrande has no acc_norm
    path = shared_data / "logs/lm-eval/pythia_results_0.3/pythia-70m/zero-shot/70m_step512.json"
    assert by_step(result.frame, "piqa")[512] == json.loads(path.read_text())["results"]["piqa"]["acc_norm"]


def test_results_of_models_have_no_steps(shared_data):
    result = import_trajectories(shared_data / "logs/lm-eval/made_with_tool")
    assert result.frame.columns == [
        *("run", "model", "arc_local", "gsm_local", "last_word_local", "multi_local", "rte_local")
    ]
    assert set(result.frame["run"]) == {"rnd-a", "rnd-b", "smollm2-135m", "qouslm4j"}
    assert reasons(result)["local_group"] == "mean of arc_local, rte_local, which are here themselves"
    assert reasons(result)["rolling_local/word_perplexity"].startswith("a loss")
    assert any("no score has a training step" in note for note in result.notes)
    assert dict(result.testsets.select("testset", "metric").iter_rows())["gsm_local"] == "exact_match (strict-match)"
    other = import_trajectories(shared_data / "logs/lm-eval/made_with_tool", metric="exact_match,flexible-extract")
    assert dict(other.testsets.select("testset", "metric").iter_rows())["gsm_local"] == "exact_match (flexible-extract)"


def test_real_trainer_state(shared_data):
    folder = shared_data / "logs/trajectories/hf_trainer"
    result = import_trajectories(folder)
    assert result.frame.columns == ["run", "step", "g0", "g1", "g2", "g3", "g4", "g5"]
    assert result.frame.height == 31
    assert set(result.testsets["items"]) == {401}
    with_losses = read_trajectories(folder, losses=True)
    assert with_losses.columns[2:6] == ["g0", "g0_loss", "g1", "g1_loss"]
    correlated = breadth.correlate(result.frame, control="g0", by="run", order="step")
    assert correlated.pairs.height == 10


def test_real_mlflow_database(shared_data):
    frame = read_trajectories(shared_data / "logs/trajectories/mlflow_made/mlflow.db")
    assert frame.columns == ["run", "model", "step", "hans", "mnli"]
    assert frame["run"].to_list() == ["alpha"] * 5 + ["beta"] * 5
    assert frame["model"].unique().sort().to_list() == ["m-alpha", "m-beta"]
    assert frame["step"].to_list() == [0, 10, 20, 30, 40] * 2


def test_real_wandb_export(shared_data):
    frame = read_trajectories(shared_data / "logs/trajectories/wandb/nanoGPT_wandb_export.csv")
    assert frame.columns == ["run", "step", "train_loss"]
    assert frame["run"].n_unique() == 8


def test_any_mixture(shared_data):
    result = import_trajectories([shared_data / "logs/trajectories", shared_data / "logs/lm-eval"])
    formats = {source.looks_like for source in each_source() if source.holds_scores()}
    assert set(result.sources["format"]) == formats - {"", "TensorBoard event files", "MLflow mlruns/"}
    assert result.frame["run"].n_unique() == 1 + 2 + 8 + 1
    lost = {name for name, reason in reasons(result).items() if "without a training step" in reason}
    assert {"rnd-a", "tinyllama", "gemma3:12b-u1"} <= lost


def test_real_event_files_after_a_restart():
    result = import_trajectories(EVENTS)
    assert result.frame.columns == ["run", "step", "hans", "mnli"]
    # The second file begins again at step 200, with all values 0.125 higher.
    expected = {0: 0.25, 100: 0.35, 200: 0.575, 300: 0.675, 400: 0.775}
    assert by_step(result.frame, "hans", "run-a") == pytest.approx(expected)
    assert by_step(result.frame, "hans", "run-b") == {0: 0.25, 100: 0.375}
    assert result.notes == ("run-a: 4 values were logged again with another result; the later one counts",)
    assert reasons(result)["train/loss"] == "of training, not of a test set"


# Rules


def test_rows_of_one_step_are_merged(tmp_path):
    rows = [*evaluated(10, hans_accuracy=0.5, mnli_accuracy=0.75), *evaluated(20, hans_accuracy=0.625)]
    frame = read_trajectories(trainer_state(tmp_path / "run", rows))
    assert frame.rows(named=True) == [
        {"run": "run", "step": 10, "hans": 0.5, "mnli": 0.75},
        {"run": "run", "step": 20, "hans": 0.625, "mnli": None},
    ]


def test_checkpoints_of_a_run_and_their_order(tmp_path):
    trainer_state(tmp_path / "run" / "checkpoint-20", evaluated(20, x_acc=0.75) + evaluated(10, x_acc=0.5))
    trainer_state(tmp_path / "run" / "checkpoint-10", evaluated(10, x_acc=0.25))
    trainer_state(tmp_path / "other" / "checkpoint-10", evaluated(10, x_acc=0.125))
    result = import_trajectories(tmp_path)
    assert by_step(result.frame, "x", "run") == {10: 0.5, 20: 0.75}
    assert by_step(result.frame, "x", "other") == {10: 0.125}


def test_event_files_of_the_trainer_add_to_its_state(tmp_path):
    out = trainer_state(tmp_path / "out", evaluated(100, hans_accuracy=0.35))
    shutil.copytree(EVENTS / "run-a", out / "runs" / "May04_22-14-54_host")
    frame = read_trajectories(tmp_path)
    assert frame["run"].unique().to_list() == ["out"]
    assert by_step(frame, "hans")[100] == 0.35  # not 0.3499999940395355, as in the event file
    assert frame["step"].to_list() == [0, 100, 200, 300, 400]


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (("eval_accuracy",), ["eval_accuracy"]),
        (("eval_hans_accuracy", "eval_hans_f1"), ["hans"]),
        (("eval_hans_accuracy", "test_hans_accuracy"), ["eval_hans", "test_hans"]),
        (("eval_step_accuracy", "eval_seed_acc"), ["seed_acc", "step_accuracy"]),
        (("eval_asr_wer",), ["asr_wer"]),
        (("eval_hans",), ["hans"]),
        (("eval_accuracy", "eval_hans_accuracy"), ["eval_accuracy", "hans"]),
        (("eval_accuracy", "eval_f1", "eval_loss"), ["eval_accuracy", "eval_f1"]),
        (("eval_accuracy", "eval_f1", "eval_hans_acc"), ["eval_accuracy", "hans"]),
        (("eval_accuracy", "test_accuracy"), ["eval_accuracy", "test_accuracy"]),
        (("eval_arc_rc_5shot_len_norm", "eval_arc_rc_5shot_hard", "eval_piqa_soft_log"), ["arc_rc_5shot", "piqa"]),
    ],
)
def test_names_of_columns(tmp_path, names, columns):
    folder = trainer_state(tmp_path / "run", [{"step": 1, name: 0.5} for name in names])
    assert read_trajectories(folder).columns == ["run", "step", *columns]


def test_one_metric_for_each_test_set_is_said(tmp_path):
    folder = trainer_state(tmp_path / "run", evaluated(1, hans_f1=0.5, hans_accuracy=0.25, mnli_f1=0.5))
    result = import_trajectories(folder)
    assert result.testsets.select("testset", "metric", "reason").rows() == [
        ("hans", "accuracy", "default; also f1"),
        ("mnli", "f1", "the only metric"),
    ]
    asked = import_trajectories(folder, metric="f1")
    assert asked.testsets.select("metric", "reason").rows() == [("f1", "asked for")] * 2
    with pytest.raises(InputError, match=r'metric="acuracy": no file has it. Did you mean accuracy'):
        import_trajectories(folder, metric="acuracy")


def test_the_metric_is_one_that_all_runs_have(tmp_path):
    trainer_state(tmp_path / "a", evaluated(1, x_accuracy=0.5, x_f1=0.25))
    trainer_state(tmp_path / "b", evaluated(1, x_f1=0.75))
    result = import_trajectories(tmp_path)
    assert result.frame["x"].to_list() == [0.25, 0.75]
    trainer_state(tmp_path / "c", evaluated(1, x_precision=0.75))
    result = import_trajectories(tmp_path)
    assert result.notes == ("x: metrics differ between runs; f1 is taken, which 1 of 3 runs lack",)


def test_the_log_of_a_trainer_with_one_evaluation_set(tmp_path):
    rows = []
    for step in range(1, 5):
        rows.append({"step": step, "epoch": step / 4, "loss": 2 - step / 4, "grad_norm": 1.0, "learning_rate": 5e-5})
        scores = {"eval_loss": 1 - step / 8, "eval_accuracy": 0.5 + step / 16, "eval_f1": 0.25 + step / 8}
        speed = {"eval_runtime": 2.0, "eval_samples_per_second": 64.0, "eval_steps_per_second": 8.0}
        rows.append({"step": step, "epoch": step / 4, **scores, **speed})
    rows.append({"step": 4, "epoch": 1.0, "total_flos": 1e15, "train_loss": 1.5, "train_runtime": 60.0})
    result = import_trajectories(trainer_state(tmp_path / "run", rows))
    assert result.frame.columns == ["run", "step", "eval_accuracy", "eval_f1"]
    assert by_step(result.frame, "eval_f1") == {1: 0.375, 2: 0.5, 3: 0.625, 4: 0.75}
    assert result.testsets["items"].to_list() == [128, 128]
    assert reasons(result)["eval_loss"].startswith("a loss")
    assert {reasons(result)[name] for name in ("loss", "train_loss")} == {"of training, not of a test set"}
    with_losses = read_trajectories(tmp_path, losses=True)
    assert with_losses.columns == ["run", "step", "eval_accuracy", "eval_f1", "eval_loss"]
    assert read_trajectories(tmp_path, metric="f1").columns == ["run", "step", "eval_f1"]


def test_metrics_of_one_test_set_in_the_logs_of_olmo(tmp_path):
    names = [
        "downstream/hellaswag_rc_5shot_len_norm",
        "downstream_soft/hellaswag_rc_5shot_soft",
        "downstream_soft_log/hellaswag_rc_5shot_soft_log",
        "downstream/piqa_rc_5shot_acc",
        "downstream_bpb/piqa_rc_5shot_bpb",
        "downstream/boolq (accuracy v2)",
        "downstream/boolq (BPB v2)",
    ]
    header = ",".join(f'"run-1 - eval/{name}"' for name in names)
    (tmp_path / "w.csv").write_text(f'"Step",{header}\n"0","0.3","0.2","-1.5","0.5","0.9","0.6","1.1"\n')
    result = import_trajectories(tmp_path)
    assert dict(result.testsets.select("testset", "metric").iter_rows()) == {
        "boolq": "accuracy v2",
        "boolq_BPB v2": "BPB v2",
        "hellaswag_rc_5shot": "len_norm",
        "piqa_rc_5shot": "acc",
        "piqa_rc_5shot_bpb": "bpb",
    }


def test_a_loss_can_be_asked_for(tmp_path):
    folder = trainer_state(tmp_path / "run", evaluated(1, x_accuracy=0.5, x_loss=2.5, y_loss=1.5, y_acc=0.5))
    assert read_trajectories(folder, metric="loss").columns == ["run", "step", "x_loss", "y_loss"]
    assert read_trajectories(folder, losses=True).columns == ["run", "step", "x", "x_loss", "y", "y_loss"]


def test_few_shot_settings_are_kept_apart(tmp_path):
    results(tmp_path / "0" / "r.json", {"arc": {"acc,none": 0.25}, "piqa": {"acc,none": 0.5}}, model="m/step7")
    results(tmp_path / "5" / "r.json", {"arc": {"acc,none": 0.75}}, model="m/step7", shots=5)
    frame = read_trajectories(tmp_path)
    assert frame.rows(named=True) == [
        {"run": "m", "model": "m", "step": 7, "arc 0-shot": 0.25, "arc 5-shot": 0.75, "piqa": 0.5}
    ]


def test_the_newest_results_count(tmp_path):
    for name, value, date in (("a", 0.5, 9.0), ("b", 0.25, 8.0)):
        results(tmp_path / name, {"arc": {"acc,none": value}}, model="m/step7", date=date)
    result = import_trajectories(tmp_path)
    assert result.frame["arc"].to_list() == [0.5]
    assert "1 value was logged again" in result.notes[0]


def test_runs_of_one_name_are_told_apart(tmp_path):
    for dtype in ("float16", "float32"):
        config = {"model_args": {"pretrained": "m/step7", "dtype": dtype, "trust_remote_code": True}}
        results(tmp_path / dtype / "r.json", {"arc": {"acc,none": 0.5}}, config=config)
    assert read_trajectories(tmp_path)["run"].to_list() == ["m dtype=float16", "m dtype=float32"]
    trainer_state(tmp_path / "x" / "run", evaluated(1, arc_acc=0.5))
    trainer_state(tmp_path / "y" / "run", evaluated(1, arc_acc=0.5))
    assert {"x/run", "y/run"} <= set(read_trajectories(tmp_path)["run"])


def test_steps_by_the_users_pattern(tmp_path):
    for step in (10, 20):
        results(tmp_path / f"{step}.json", {"arc": {"acc,none": step / 100}}, model=f"out/run_s{step}")
    assert read_trajectories(tmp_path)["run"].to_list() == ["run_s10", "run_s20"]
    frame = read_trajectories(tmp_path, step_from=r"_s(\d+)")
    assert frame.rows() == [("run", "out/run", 10, 0.1), ("run", "out/run", 20, 0.2)]


def test_steps_may_be_fractions(tmp_path):
    (tmp_path / "w.csv").write_text('"epoch","a - acc"\n"0.5","0.25"\n"1","0.5"\n')
    frame = read_trajectories(tmp_path)
    assert frame["step"].to_list() == [0.5, 1.0]
    assert frame.columns == ["run", "step", "acc"]


def test_the_summary_says_what_there_is(tmp_path):
    folder = trainer_state(tmp_path / "run", evaluated(1, x_accuracy=0.5, x_loss=2.5, y_accuracy=0.5))
    (folder / "config.json").write_text("{}")
    assert import_trajectories(folder).summary().splitlines() == [
        "1 run, 1 checkpoint, 2 columns of scores, from 1 file (Hugging Face trainer_state.json).",
        "x, y: accuracy (the only metric).",
        "Left out: epoch (not a score).",
        "Left out: eval_x_loss (a loss; --losses keeps losses).",
        "Left out: 1 other file (without scores of checkpoints: config.json).",
    ]


# Bad input


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match=r"no scores of checkpoints. Looked for .*trainer_state.json.*W&B"):
        import_trajectories(tmp_path)
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(InputError, match=r"no scores of checkpoints. 1 other file, such as notes.txt. Looked for"):
        import_trajectories(tmp_path)
    with pytest.raises(InputError, match="no such file or directory"):
        import_trajectories(tmp_path / "missing")
    with pytest.raises(InputError, match="name files or directories"):
        import_trajectories([])


def test_files_of_which_nothing_can_be_used_say_why(tmp_path):
    folder = trainer_state(tmp_path / "run", [{"step": "one", "eval_x_acc": 0.5}], reached=1)
    with pytest.raises(InputError, match="1 of 1 entries of log_history have no step"):
        import_trajectories(folder)


def test_only_losses(tmp_path):
    folder = trainer_state(tmp_path / "run", evaluated(1, loss=2.5))
    with pytest.raises(
        InputError, match=r"no score of a test set. Left out: .*eval_loss: a loss; losses=True keeps losses"
    ):
        import_trajectories(folder)
    assert read_trajectories(folder, losses=True).columns == ["run", "step", "eval_loss"]


def test_all_damaged_files_are_named_at_once(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "trainer_state.json").write_text('{"log_history": [')
    with pytest.raises(
        InputError, match=r"(?s)a.trainer_state.json, line 1: is not JSON.*b.trainer_state.json, line 1"
    ):
        import_trajectories(tmp_path)


@pytest.mark.parametrize(("pattern", "message"), [("(", "is not a regular expression"), ("x", "needs one group")])
def test_bad_patterns(tmp_path, pattern, message):
    with pytest.raises(InputError, match=message):
        import_trajectories(tmp_path, step_from=pattern)


@pytest.fixture(scope="module")
def originals(shared_data):
    """A small file of every format."""
    logs = shared_data / "logs"
    harness = logs / "lm-eval/made_with_tool/0.4.3/acme__rnd-a"
    return [
        logs / "trajectories/hf_trainer/trainer_state_viz/trainer_state.json",
        *harness.glob("results_*.json"),
        next((EVENTS / "run-a").glob("*.1.0")),
        logs / "trajectories/wandb/nanoGPT_wandb_export.csv",
        logs / "trajectories/mlflow_made/mlflow.db",
    ]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_damage_gives_a_table_or_one_message(originals, tmp_path_factory, data):
    original = data.draw(st.sampled_from(originals))
    content = bytearray(original.read_bytes()[:200_000])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "word"]))
        if kind == "flip":
            content[place] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "cut":
            del content[place + 1 :]
        else:
            word = data.draw(st.sampled_from([b"null", b"1e999", b"NaN", b'""', b"[", b"-1", b"{}", b"\0", b"9" * 400]))
            content[place : place + 1] = word
    path = tmp_path_factory.mktemp("damaged") / original.name
    path.write_bytes(content)
    try:
        frame = read_trajectories(path)
    except InputError as error:
        assert str(path) in str(error)  # noqa: PT017
    else:
        assert frame.height
        assert not frame.select("run").is_duplicated().all() or "step" in frame.columns
