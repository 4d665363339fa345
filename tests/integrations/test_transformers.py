"""The callback in a real Trainer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainerCallback, TrainingArguments, set_seed

import breadth
from breadth.errors import InputError
from breadth.integrations.transformers import BreadthCallback

SCRIPT = Path(__file__).with_name("two_processes.py")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    from breadth.lm import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture
def make(tiny, tmp_path):
    """A Trainer of a tiny model with dropout; ``tokenizer=False`` for one without tokenizer."""

    def build(tokenizer=True, callbacks=(), **arguments):
        set_seed(0)
        model = AutoModelForCausalLM.from_pretrained(tiny, attention_dropout=0.1)
        known = AutoTokenizer.from_pretrained(tiny)
        texts = [f"The cat number {k} sat on the mat" for k in range(32)]
        rows = [known(text, padding="max_length", max_length=24)["input_ids"] for text in texts]
        given = {
            "output_dir": str(tmp_path / "trainer"), "max_steps": 6, "per_device_train_batch_size": 4,
            "learning_rate": 0.01, "report_to": [], "save_strategy": "no", "use_cpu": True, "disable_tqdm": True,
            "logging_steps": 2, **arguments,
        }  # fmt: skip
        data = [{"input_ids": row, "labels": row} for row in rows]
        return Trainer(
            model,
            TrainingArguments(**given),
            train_dataset=data,
            eval_dataset=data[:4],
            processing_class=known if tokenizer else None,
            callbacks=list(callbacks),
        )

    return build


@pytest.fixture
def watch(tmp_path):
    def add(trainer, into="study", **options):
        options = {"testsets": ["plain", "negation"], "items": 16, "every": 2, **options}
        callback = BreadthCallback(trainer, tmp_path / into, **options)
        trainer.add_callback(callback)
        return callback

    return add


def weights(trainer):
    return {name: weight.clone() for name, weight in trainer.model.state_dict().items()}


def parts(folder):
    return {path.name: path.read_bytes() for path in sorted(Path(folder).glob("runs/*/step-*"))}


def steps(folder):
    return breadth.open(folder).subjects["step"].to_list()


def logged(trainer):
    return {entry["step"]: entry for entry in trainer.state.log_history if "eval_breadth/plain" in entry}


def losses(trainer):
    return [(entry["step"], entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize("arguments", [{}, {"bf16": True}], ids=["float32", "mixed precision"])
def test_weights_are_identical_bit_by_bit(make, watch, tmp_path, arguments):
    plain = make(**arguments)
    plain.train()
    watched = make(**arguments)  # sets the random state again
    watch(watched, trained_on="plain")
    watched.train()
    before, after = weights(plain), weights(watched)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert losses(watched) == losses(plain)
    assert steps(tmp_path / "study") == [0, 2, 4, 6]
    record = next(iter(breadth.open(tmp_path / "study").runs.values()))
    assert (record.model, record.seed, record.recipe["learning_rate"]) == ("tiny", 42, 0.01)


class Tracker(TrainerCallback):
    """What TensorBoard or wandb would get; before ours in the list of callbacks, as they are."""

    def __init__(self):
        self.logs = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.logs.append((state.global_step, dict(logs)))


def test_scores_reach_trackers(make, watch, tmp_path):
    tracker = Tracker()
    trainer = make(callbacks=[tracker])
    watch(trainer)
    trainer.train()
    scores = {step: logs["eval_breadth/plain"] for step, logs in tracker.logs if "eval_breadth/plain" in logs}
    study = breadth.open(tmp_path / "study")
    assert scores == dict(study.trajectories.select("step", "plain").iter_rows())
    assert scores == {step: entry["eval_breadth/plain"] for step, entry in logged(trainer).items()}
    assert [step for step, logs in tracker.logs if "loss" in logs] == [2, 4, 6]


def test_averages_of_a_trainer_are_not_restarted(make, watch):
    """As TRL's trainers do it: whatever they log carries their averages so far."""
    calls = []
    trainer = make()
    trainer.__class__ = type("Averaging", (Trainer,), {"log": lambda self, logs, *_: calls.append(logs)})
    watch(trainer)
    trainer.train()
    assert set(logged(trainer)) == {0, 2, 4, 6}
    assert not any("eval_breadth/plain" in logs for logs in calls)
    assert sum("loss" in logs for logs in calls) == 3


@pytest.mark.parametrize(
    ("every", "arguments", "expected"),
    [
        (4, {}, [0, 4, 6]),
        ("save", {"save_strategy": "steps", "save_steps": 3}, [0, 3, 6]),
        ("evaluate", {"eval_strategy": "steps", "eval_steps": 5}, [0, 5, 6]),
        ("evaluate", {}, [0, 6]),
        ("evaluate", {"eval_strategy": "epoch", "max_steps": -1, "num_train_epochs": 1}, [0, 8]),
    ],
)
def test_when(make, watch, tmp_path, every, arguments, expected):
    trainer = make(**arguments)
    watch(trainer, every=every)
    trainer.train()
    assert steps(tmp_path / "study") == expected
    trainer.evaluate()
    assert steps(tmp_path / "study") == expected


class Stop(TrainerCallback):
    def __init__(self, step, error=None):
        self.step, self.error = step, error

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            if self.error is not None:
                raise self.error
            control.should_training_stop = True


@pytest.mark.parametrize("best", [False, True])
def test_the_last_step_of_a_training_that_is_stopped(make, watch, tmp_path, best):
    saving = {"eval_strategy": "steps", "save_strategy": "steps", "save_steps": 1, "eval_steps": 1} if best else {}
    trainer = make(callbacks=[Stop(3)], load_best_model_at_end=best, **saving)
    watch(trainer)
    trainer.train()
    assert steps(tmp_path / "study") == ([0, 2] if best else [0, 2, 3])


@pytest.mark.parametrize("every", [1, "save"])
def test_resumed_from_a_checkpoint(make, watch, tmp_path, every):
    saving = {"save_strategy": "steps", "save_steps": 2}
    whole = make(**saving)
    watch(whole, "whole", every=every)
    whole.train()
    torn = make(callbacks=[Stop(5, KeyboardInterrupt())], output_dir=str(tmp_path / "torn-trainer"), **saving)
    watch(torn, "torn", every=every)
    with pytest.raises(KeyboardInterrupt):
        torn.train()
    again = make(output_dir=str(tmp_path / "torn-trainer"), **saving)
    watch(again, "torn", every=every)
    again.train(resume_from_checkpoint=True)
    assert parts(tmp_path / "torn") == parts(tmp_path / "whole")
    assert logged(again).keys() == logged(whole).keys()


def test_resumed_from_the_last_checkpoint(make, watch, tmp_path):
    """A Trainer takes one more step then, which is no step of the training."""
    for again in (False, True):
        trainer = make(save_strategy="steps", save_steps=2)
        watch(trainer)
        trainer.train(resume_from_checkpoint=again)
    assert trainer.state.global_step == 7
    assert steps(tmp_path / "study") == [0, 2, 4, 6]


def test_adapters(make, watch, tmp_path):
    from breadth.lm import attach_lora

    trainer = make()
    trainer.model = trainer.model_wrapped = attach_lora(trainer.model, dropout=0.1)
    watch(trainer)
    trainer.train()
    assert steps(tmp_path / "study") == [0, 2, 4, 6]
    assert len(set(parts(tmp_path / "study").values())) > 1


def test_a_trainer_without_a_tokenizer(make, watch, tiny, tmp_path):
    trainer = make(tokenizer=False)
    with pytest.raises(InputError) as error:
        watch(trainer)
    assert str(error.value) == (
        "BreadthCallback: the Trainer has no tokenizer; pass processing_class=tokenizer to the Trainer, or "
        "tokenizer=tokenizer to BreadthCallback"
    )
    watch(trainer, tokenizer=AutoTokenizer.from_pretrained(tiny))
    trainer.train()
    assert steps(tmp_path / "study") == [0, 2, 4, 6]


def test_bad_options(make, watch, tmp_path):
    trainer = make()
    with pytest.raises(InputError, match=r"first argument is the Trainer, not str; add it with trainer\.add_callback"):
        BreadthCallback("study", testsets=["plain"], directory=tmp_path)
    with pytest.raises(InputError, match="every is 'epoch'; give a number of steps or save, evaluate"):
        watch(trainer, every="epoch")
    with pytest.raises(InputError, match="unknown data set 'plane'"):
        watch(trainer, testsets=["plane"])
    with pytest.raises(InputError, match="every is 0"):
        watch(trainer, every=0)


def test_a_training_with_other_arguments(make, watch):
    trainer = make()
    watch(trainer)
    trainer.train()
    other = make(learning_rate=0.02)
    watch(other)
    with pytest.raises(InputError, match=r"Changed: recipe\.learning_rate: 0\.01 -> 0\.02\. Undo the change, or give"):
        other.train()


@pytest.mark.slow
def test_two_processes(tiny, tmp_path):
    """Shared out between processes, evaluation gives the same bytes, and training the same weights."""
    record_alone(tmp_path / "other", ["plain"], {0: tiny})
    out = subprocess.run(
        [sys.executable, SCRIPT, tiny, tmp_path], capture_output=True, text=True, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
    )  # fmt: skip
    assert out.returncode == 0, out.stderr
    results = json.loads(out.stdout)

    first, second = results["watched"]
    assert first == second, "every process logs the same scores"
    assert first["processes"] == 2
    assert len(first["scores"]) == 3
    record_alone(tmp_path / "alone", ["plain", "negation"], {0: tiny, 4: tmp_path / "watched"})
    together, alone = parts(tmp_path / "study"), parts(tmp_path / "alone")
    assert len(together) == 3
    assert alone.items() <= together.items()

    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("watched", "plain")]
    assert weights[0] == weights[1]

    for result in results["refused"]:
        assert "this run began with other settings" in result["refused"], "no process waits for one that was refused"


def record_alone(into, testsets, steps):
    """Evaluate saved models in this process."""
    first = AutoTokenizer.from_pretrained(steps[0])
    recorder = breadth.Recorder(into, testsets=testsets, items=24, name="tiny", seed=42, tokenizer=first)
    for step, folder in steps.items():
        recorder.evaluate(AutoModelForCausalLM.from_pretrained(folder), step)
