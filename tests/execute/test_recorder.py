"""Answers of a model that somebody else's loop trains."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
import torch

import breadth
from breadth.datasets import load
from breadth.errors import InputError

from .conftest import parts

ROOT = Path(__file__).resolve().parents[2]
OWN = {
    "name": "reviews",
    "file": pl.DataFrame({"text": [f"number {k}" for k in range(20)], "label": ["good", "bad"] * 10}),
    "pattern": "{text} was it good?",
    "answers": {"good": " Yes", "bad": " No"},
}
SETS = ("plain", "negation")


@pytest.fixture
def make(tiny):
    """A model and its tokenizer, afresh every time; attention has dropout."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    def load_it(**options):
        options = {"attention_dropout": 0.1, **options}
        return AutoModelForCausalLM.from_pretrained(tiny, **options), AutoTokenizer.from_pretrained(tiny)

    return load_it


@pytest.fixture
def record(tmp_path, make):
    """A recorder of 24 items of two sets in ``study``."""

    def begin(into="study", testsets=SETS, **options):
        options = {"tokenizer": make()[1], "items": 24, **options}
        return breadth.Recorder(tmp_path / into, testsets=testsets, **options)

    return begin


def train(model, steps, recorder=None, first=0):
    """A loop with dropout and random batches; returns the weights and what the recorder said at each step."""
    optimiser = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=0.1)
    torch.manual_seed(first)
    model.train()
    said = []
    for step in range(first, first + steps + 1):
        if recorder is not None:
            said.append(recorder.evaluate(model, step))
        if step < first + steps:
            ids = torch.randint(3, 300, (4, 16))
            model(input_ids=ids, labels=ids).loss.backward()
            optimiser.step()
            optimiser.zero_grad()
    return {name: weight.detach().clone() for name, weight in model.state_dict().items()}, said


def test_training_is_not_changed_by_a_bit(make, record):
    plain, _ = train(make()[0], 4)
    watched, said = train(make()[0], 4, record())
    assert all(torch.equal(plain[name], watched[name]) for name in plain)
    assert len({tuple(scores.values()) for scores in said}) > 1, "the answers change, so something was trained"


def test_the_first_use_leaves_pythons_random_state_alone():
    code = "import random, breadth; random.seed(0); breadth.Recorder; print(random.random())"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(out.stdout) == random.Random(0).random()


def test_a_training_that_diverged_is_said_to_have(make, record):
    model, _ = make()
    with torch.no_grad():
        next(model.parameters())[0, 0] = float("nan")
    with pytest.raises(InputError, match="step 7: its weights are not finite numbers: training diverged"):
        record().evaluate(model, 7)


def test_gradients_that_accumulate_are_kept(make, record):
    model, _ = make()
    ids = torch.arange(3, 40)[None]
    model.train()
    model(input_ids=ids, labels=ids).loss.backward()
    before = [weight.grad.clone() for weight in model.parameters()]
    record().evaluate(model, 0)
    assert all(torch.equal(one, weight.grad) for one, weight in zip(before, model.parameters(), strict=True))


def test_answers_are_those_of_a_study(make, record, command, study, tmp_path):
    """Step 0 has the answers that ``breadth run`` gets from the same model and items, byte by byte."""
    text = "name: s\nmodels: {model}\nrecipe: {{method: zero-shot}}\nevaluate: {{on: [plain, negation], items: 24}}\n"
    out = command("run", study(text), "--into", tmp_path / "run")
    assert out.returncode == 0, out.stderr
    record().evaluate(make()[0], 0)
    assert list(parts(tmp_path / "run").values()) == list(parts(tmp_path / "study").values())


def test_weights_are_those_of_the_step(make, record, tmp_path):
    """Neither trained weights nor frozen ones that somebody changes are kept from one evaluation to the next."""
    model, _ = make()
    recorder = record()
    recorder.evaluate(model, 0)
    model.requires_grad_(False)
    recorder.evaluate(model, 1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.data.mul_(1.5)
    recorder.evaluate(model, 2)
    model.save_pretrained(tmp_path / "saved")
    fresh = type(model).from_pretrained(tmp_path / "saved")
    record("other", name="tiny").evaluate(fresh, 2)
    steps = {Path(name).name: content for name, content in parts(tmp_path / "study").items()}
    (name, content), *more = parts(tmp_path / "other").items()
    assert not more
    assert steps[Path(name).name] == content
    assert len(set(steps.values())) == 2, "step 1 repeats step 0"


@pytest.mark.parametrize("wrap", ["peft", "data parallel", "bfloat16"])
def test_models_as_loops_have_them(make, record, wrap):
    from breadth.lm import attach_lora

    model, _ = make(**({"dtype": torch.bfloat16} if wrap == "bfloat16" else {}))
    if wrap == "peft":
        model = attach_lora(model, dropout=0.1)
    watched = torch.nn.DataParallel(model) if wrap == "data parallel" else model
    recorder = record()
    assert set(recorder.evaluate(watched, 0)) == set(SETS)
    assert next(model.parameters()).dtype == (torch.bfloat16 if wrap == "bfloat16" else torch.float32)
    train(model, 1, recorder, first=1)


def test_steps(make, record, tmp_path):
    model, _ = make()
    recorder = record(every=2)
    said = train(model, 5, recorder)[1]
    assert [scores is not None for scores in said] == [True, False, True, False, True, False]
    recorder.evaluate(model, 5, force=True)
    assert breadth.open(tmp_path / "study").subjects["step"].to_list() == [0, 2, 4, 5]
    for wrong in (-1, 1.5, True, "3", None):
        with pytest.raises(InputError, match="is not a number of training steps"):
            recorder.evaluate(model, wrong)


def test_a_restarted_loop_goes_on(make, record, tmp_path, monkeypatch):
    said = train(make()[0], 2, record())[1]
    before = parts(tmp_path / "study")
    import breadth.lm.evaluation

    with monkeypatch.context() as patch:
        patch.setattr(breadth.lm.evaluation, "compute_outputs", lambda *_: pytest.fail("evaluated again"))
        assert train(make()[0], 2, record())[1] == said
    assert train(make()[0], 3, record())[1][:3] == said
    after = parts(tmp_path / "study")
    assert {name: after[name] for name in before} == before
    assert len(after) == 4


def test_a_damaged_part_is_evaluated_again(make, record, tmp_path):
    train(make()[0], 2, record())
    before = parts(tmp_path / "study")
    victim = tmp_path / "study" / list(before)[1]
    victim.write_bytes(b"PAR1")
    with pytest.warns(UserWarning, match="is damaged"):
        train(make()[0], 2, record())
    assert parts(tmp_path / "study") == before


def own_sets():
    choice = pd.DataFrame(
        {
            "question": [f"{k} and {k}?" for k in range(12)],
            "options": [["one", "two", "three"]] * 12,
            "label": ["A"] * 12,
        }
    )
    written = pl.DataFrame({"question": [f"What is {k}?" for k in range(6)], "label": [str(k) for k in range(6)]})
    return [
        OWN,
        {
            "name": "quiz",
            "kind": "choice",
            "file": choice,
            "options": "options",
            "pattern": "{question}\n{choices}\nAnswer:",
        },
        {"name": "sums", "kind": "generate", "metric": "number", "max_tokens": 4, "file": written},
        load("science", items=10),
    ]


def test_own_frames_of_every_kind(make, record, tmp_path):
    recorder = record(testsets=own_sets(), items=None)
    assert set(recorder.evaluate(make()[0], 0)) == {"reviews", "quiz", "sums", "science"}
    study = breadth.open(tmp_path / "study")
    counts = dict(study.items.group_by("testset").len().iter_rows())
    assert counts == {"reviews": 20, "quiz": 12, "sums": 6, "science": 10}, "all items are tested"
    assert record(testsets=own_sets(), items=None).evaluate(make()[0], 0) == dict(
        zip(study.testsets, study.scores[0][0], strict=True)
    )


def test_an_own_file(make, record, tmp_path):
    OWN["file"].write_csv(tmp_path / "reviews.csv")
    scores = record("a", testsets=[{**OWN, "file": tmp_path / "reviews.csv"}]).evaluate(make()[0], 0)
    assert scores == record("b", testsets=[OWN]).evaluate(make()[0], 0)


def test_a_study_that_every_command_reads(make, record, tmp_path):
    """Two seeds and two training sets in one directory."""
    sets = [*SETS, "science"]
    for seed in (0, 1):
        train(make()[0], 9, record(testsets=sets, seed=seed, trained_on="plain"))
    train(make()[0], 9, record(testsets=sets, seed=0, trained_on="negation"))
    study = breadth.open(tmp_path / "study")
    assert study.warnings == ()
    assert study.unfinished == {}
    assert set(study.subjects["run"]) == {"tiny-plain-s0", "tiny-plain-s1", "tiny-negation-s0"}
    assert study.shifts["plain"] == "in-domain"
    assert breadth.correlate(tmp_path / "study").pairs.height > 0
    assert breadth.calibrate(tmp_path / "study").items.height == 72
    page = breadth.report(tmp_path / "study", out=tmp_path / "report.html")
    assert "tiny-plain-s1" in Path(page).read_text()


def test_notes(make, record):
    recorder = record(context=64, testsets=["plain"])
    recorder.evaluate(make()[0], 0)
    assert any("were too long" in note for note in recorder.notes)


def test_settings_of_the_training_are_kept(make, record, tmp_path):
    record(config={"lr": 0.1, "data": ["a"]}).evaluate(make()[0], 0)
    kept = json.loads(next((tmp_path / "study").glob("runs/*/run.json")).read_text())
    assert kept["recipe"] == {"lr": 0.1, "data": ["a"], "context": 512}
    with pytest.raises(InputError, match=r"began with other settings\. Changed: recipe\.lr: 0\.1 -> 0\.2\. Undo the"):
        record(config={"lr": 0.2, "data": ["a"]}).evaluate(make()[0], 0)
    record(config={"lr": 0.2, "data": ["a"]}, name="other").evaluate(make()[0], 0)


def test_settings_may_change_until_something_is_recorded(make, record, recwarn):
    long = {**OWN, "file": OWN["file"].with_columns(text=pl.col("text") + " very" * 2000)}
    with pytest.raises(InputError, match=r"\(set `shorten`\); raise context \(recipe.context in a study file\)"):
        record(testsets=[long]).evaluate(make()[0], 0)
    assert set(record(testsets=[{**long, "shorten": "text"}]).evaluate(make()[0], 0)) == {"reviews"}
    assert not recwarn


@pytest.mark.parametrize("targets", [["q_proj", "lm_head"], ["lm_head"], ["embed_tokens"]])
def test_adapters_of_head_and_embedding(make, record, tmp_path, targets):
    """Margins are the log-odds that the model itself gives, adapters of the head included."""
    from peft import LoraConfig, get_peft_model

    model, tokenizer = make(attention_dropout=0.0)
    model = get_peft_model(model, LoraConfig(target_modules=targets))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_" in name:
                weight.add_(0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    record(testsets=[OWN]).evaluate(model, 0)
    answers = breadth.open(tmp_path / "study").responses.collect()
    items = breadth.open(tmp_path / "study").items.select("item", "text", "label")
    yes, no = (tokenizer(word, add_special_tokens=False)["input_ids"][0] for word in (" Yes", " No"))
    model.eval()
    for row in answers.join(items, on="item").iter_rows(named=True):
        ids = tokenizer(f"{row['text']} was it good?", return_tensors="pt")
        with torch.no_grad():
            logits = model(**ids).logits[0, -1]
        wanted = float(logits[yes] - logits[no]) * (1 if row["label"] == "good" else -1)
        assert row["margin"] == pytest.approx(wanted, abs=1e-4)


def test_other_items(make, record):
    record(testsets=[OWN]).evaluate(make()[0], 0)
    with pytest.raises(InputError, match=r"evaluate\.items: 24 -> 10"):
        record(testsets=[OWN], items=10).evaluate(make()[0], 0)
    with pytest.raises(InputError, match=r"evaluate\.on: plain added"):
        record(testsets=[OWN, "plain"]).evaluate(make()[0], 1)
    changed = OWN["file"].with_columns(text=pl.col("text") + "!")
    with pytest.raises(InputError, match="the items of 'reviews' differ from those the study began with"):
        record(testsets=[{**OWN, "file": changed}]).evaluate(make()[0], 0)


def test_other_directories(make, record, command, study, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InputError, match="contains other files; choose an empty or a new directory"):
        record("mine")
    with pytest.raises(InputError, match="is a file"):
        record("mine/thesis.tex")
    text = "name: s\nmodels: {model}\nrecipe: {{method: zero-shot}}\nevaluate: {{on: plain, items: 8}}\n"
    command("run", study(text), "--into", tmp_path / "run")
    with pytest.raises(InputError, match="holds a study that `breadth run`"):
        record("run")
    record().evaluate(make()[0], 0)
    out = command("run", study(text), "--into", tmp_path / "study")
    assert out.returncode == 2
    assert "would orphan 1 of its runs" in out.stderr


def test_a_run_that_another_process_records(make, record, tmp_path):
    recorder = record()
    recorder.evaluate(make()[0], 0)
    code = "import sys, filelock as f; lock = f.FileLock(sys.argv[1]); lock.acquire(); print(flush=True); input()"
    lock = tmp_path / "study" / "runs" / "tiny" / ".lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    holder.stdout.readline()
    with pytest.raises(InputError, match="another process is evaluating this run"):
        recorder.evaluate(make()[0], 1)
    holder.communicate("\n")
    assert recorder.evaluate(make()[0], 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"testsets": []}, "testsets: is empty"),
        ({"testsets": ["plane"]}, "unknown data set 'plane'. Did you mean plain?"),
        ({"testsets": ["plain", "plain"]}, "'plain' is listed twice"),
        ({"testsets": [3]}, "int is not a test set"),
        ({"testsets": None}, "testsets: None is not a list of test sets; name data sets"),
        ({"testsets": [{"file": OWN["file"]}]}, "the name of a set of your own is None"),
        ({"testsets": [{**OWN, "name": "../x"}]}, "the name of a set of your own is '../x'"),
        ({"testsets": [{**OWN, "name": "hans"}]}, "'hans' is the name of a data set that breadth knows"),
        ({"testsets": [{"name": "mine"}]}, "mine has no file"),
        ({"testsets": [{**OWN, "pattern": "{body}?"}]}, "reviews: there is no column 'body'"),
        ({"testsets": [{**OWN, "answer": {}}]}, "unknown option 'answer'. Did you mean answers?"),
        ({"tokenizer": None}, "tokenizer must be the model's tokenizer"),
        ({"every": 0}, "every is 0"),
        ({"items": 1}, "items is 1"),
        ({"seed": True}, "seed is True"),
        ({"trained_on": "negatoin"}, "is not one of the test sets (plain, negation). Did you mean negation?"),
        ({"trained_on": 3}, "trained_on is 3; it must be a non-empty string"),
        ({"name": 3}, "name is 3; it must be a non-empty string"),
        ({"name": " "}, "name is ' '; it must be a non-empty string"),
        ({"config": {"model": object()}}, "config: holds what JSON cannot"),
        ({"config": "lr"}, "config: 'lr' is not a mapping"),
    ],
)
def test_bad_options(record, options, message):
    with pytest.raises(InputError) as error:
        record(**options)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_model_that_is_not_one(record):
    with pytest.raises(InputError, match="Linear: is not a causal language model"):
        record().evaluate(torch.nn.Linear(2, 2), 0)


@pytest.mark.slow
def test_a_loop_that_is_killed(tmp_path):
    """At three random instants; benchmarks/recorder.py does it at ten."""
    code = (
        "import recorder, sys, pathlib\n"
        "there, same = recorder.killed(recorder.model_folder('tiny', folder := pathlib.Path(sys.argv[1])), folder, 3)\n"
        "assert same and len(there) >= 3, there\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, cwd=ROOT / "benchmarks", check=False
    )
    assert out.returncode == 0, out.stderr
