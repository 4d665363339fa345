"""Every method and scoring kind, from a study file to stored responses, with a model that takes milliseconds.

Training is saved on the way. A start is trained once per model and study, and every run begins with its weights.
"""

import json
import shutil
from types import SimpleNamespace

import polars as pl
import pytest
import torch
import yaml

from breadth.errors import InputError
from breadth.execute import Events, run
from breadth.execute.session import Checkpointer
from breadth.lm.tiny import write_tiny_model
from breadth.records.files import LocalStore
from breadth.records.store import RunStore
from breadth.sources import open_study
from breadth.study import expand, read_study_file, start_key

from .conftest import LORA, START, parts

EVALUATE = {"on": ["plain", "science"], "items": 8}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(write_tiny_model(tmp_path_factory.mktemp("tiny") / "model"))


@pytest.fixture
def measure(tmp_path, model):
    def execute(**keys):
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump({"name": "methods", "models": model, "evaluate": EVALUATE, **keys}))
        run(path, into=tmp_path / "study")
        return open_study(tmp_path / "study")

    return execute


def test_zero_shot_evaluates_once(measure):
    measured = measure(recipe={"method": "zero-shot"})
    assert measured.subjects["step"].to_list() == [0]
    assert measured.subjects["method"].to_list() == ["zero-shot"]
    assert measured.responses.collect().height == 16
    assert measured.responses.collect()["margin"].is_finite().all()
    assert ((measured.responses.collect()["margin"] > 0) == (measured.responses.collect()["correct"] == 1)).all()


def test_few_shot_examples_change_the_answers(measure, tmp_path):
    train = {"set": "plain", "seeds": [0, 1]}
    measured = measure(recipe={"method": "few-shot", "num_fewshot": 2}, train=train)
    assert measured.subjects["seed"].to_list() == [0, 1]
    by_seed = [
        frame["margin"].to_list() for frame in measured.responses.collect().partition_by("subject", maintain_order=True)
    ]
    assert by_seed[0] != by_seed[1]


@pytest.mark.parametrize("layers", ["all", 2])
def test_full_tuning_changes_the_margins(measure, layers):
    recipe = {"method": "full", "layers": layers, "steps": 3, "batch": 4, "lr": 0.01}
    measured = measure(recipe=recipe, train={"set": "plain", "examples": 8})
    assert measured.subjects["step"].to_list() == [0, 3]
    before, after = measured.responses.collect().partition_by("subject", maintain_order=True)
    assert before["margin"].to_list() != after["margin"].to_list()


@pytest.mark.parametrize("keys", [{"method": "lora"}, {"method": "full", "layers": 2}, {"method": "full"}], ids=str)
def test_training_in_bfloat16_goes_where_float32_goes(measure, tmp_path, keys):
    recipe = {**keys, "steps": 20, "batch": 4, "lr": 1e-3, "clip": None}
    margins = {}
    for dtype in ("float32", "bfloat16"):
        answers = measure(recipe={**recipe, "dtype": dtype}, train={"set": "plain", "examples": 16}).responses.collect()
        margins[dtype] = answers["margin"].to_numpy().reshape(2, -1)
        shutil.rmtree(tmp_path / "study")
    gains = [margins[dtype][1] - margins[dtype][0] for dtype in ("float32", "bfloat16")]
    assert abs(gains[0]).max() > 0.5
    assert gains[1] @ gains[0] / (gains[0] @ gains[0]) == pytest.approx(1, abs=0.15)


def test_a_study_from_when_bfloat16_was_pure_is_not_continued(measure, tmp_path, monkeypatch):
    keys = {
        "recipe": {"method": "lora", "steps": 2, "batch": 4, "dtype": "bfloat16"},
        "train": {"set": "plain", "examples": 4},
    }
    with monkeypatch.context() as patch:
        patch.setattr("breadth.study.expansion._recorded_values", lambda recipe: recipe.model_dump(mode="json"))
        measure(**keys)
    with pytest.raises(InputError, match=r"would orphan 1 of its runs. Changed: what dtype: bfloat16 means"):
        measure(**keys)


@pytest.mark.parametrize("layers", ["all", 2])
def test_vectors_change_the_margins(measure, layers):
    recipe = {"method": "ia3", "layers": layers, "steps": 3, "batch": 4, "lr": 0.1}
    measured = measure(recipe=recipe, train={"set": "plain", "examples": 8})
    before, after = measured.responses.collect().partition_by("subject", maintain_order=True)
    assert before["margin"].to_list() != after["margin"].to_list()


def test_an_own_set_of_choices(measure, tmp_path):
    rows = [{"q": f"Which word is number {i}?", "o": ["red", "green", "blue"], "right": "ABC"[i % 3]} for i in range(9)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)))
    own = {"file": "own.jsonl", "kind": "choice", "fields": {"question": "q"}, "label": "right", "options": "o"}
    measured = measure(
        recipe={"method": "zero-shot"},
        sets={"words": {**own, "pattern": "{question}\n{choices}\nAnswer:", "normalise": True}},
        evaluate={"on": ["words"]},
    )
    assert set(measured.responses.collect()["answer"]) <= {"A", "B", "C"}
    assert measured.responses.collect()["margin"].is_finite().all()


def test_an_own_set_of_numbers_to_write(measure, tmp_path):
    pl.DataFrame({"question": [f"{i} + 1 =" for i in range(6)], "label": [str(i + 1) for i in range(6)]}).write_csv(
        tmp_path / "sums.csv"
    )
    own = {"file": "sums.csv", "kind": "generate", "pattern": "{question}", "metric": "number", "max_tokens": 4}
    measured = measure(recipe={"method": "zero-shot"}, sets={"sums": own}, evaluate={"on": ["sums"]})
    assert measured.responses.collect()["margin"].null_count() == measured.responses.collect().height > 0
    assert measured.responses.collect()["answer"].str.len_chars().max() > 0


def test_completion_loss_trains_what_is_written(measure):
    recipe = {"method": "lora", "rank": 2, "loss": "completion", "steps": 2, "batch": 4, "lr": 0.01}
    measured = measure(recipe=recipe, train={"set": "plain", "examples": 8})
    assert measured.subjects["step"].to_list() == [0, 2]


def test_levels_and_strategies_are_held_out(measure, tmp_path):
    rows = [
        {"id": i, "text": f"Item {i} of kind {i % 7}.", "label": "yes" if i % 2 else "no", "hardness": (i * 37) % 101}
        for i in range(200)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "own.csv")
    own = {"file": "own.csv", "item": "id", "pattern": "{text} Yes or No?", "answers": {"yes": " Yes", "no": " No"}}
    train = {"set": "own", "examples": 8, "levels": 2, "strategies": ["spiral"], "difficulty": {"column": "hardness"}}
    measured = measure(
        recipe={"method": "lora", "rank": 2, "layers": 2, "steps": 2, "batch": 4},
        sets={"own": own},
        train=train,
        evaluate={"on": ["own"], "items": 40},
    )
    assert measured.items.group_by("level").len().sort("level").rows() == [(0, 20), (1, 20)]
    assert measured.subjects.select("train_level", "strategy").unique().height == 3
    starts = measured.subjects.filter(step=0)["subject"]
    margins = [measured.responses.filter(subject=subject).collect()["margin"].to_list() for subject in starts]
    assert margins[0] == margins[1] == margins[2]  # the untrained model is evaluated on the same test halves


LEVELS = """\
train:
  set: mine
  difficulty: {{column: hard}}
  levels: 3
  examples: 8
  seeds: [0, 1]
  start: {{examples: 12, epochs: 1}}
"""


class Counting(Events):
    def __init__(self):
        self.steps = []

    def starting(self, step, steps, loss):
        self.steps.append((step, steps))


def answers(folder, pattern):
    return [pl.read_parquet(path) for path in sorted(folder.glob(f"runs/{pattern}"))]


@pytest.fixture
def execute(tmp_path):
    def start(path, into="out"):
        counting = Counting()
        run(path, into=tmp_path / into, events=counting)
        return tmp_path / into, counting.steps

    return start


def test_runs_begin_where_the_start_ended(study, execute):
    folder, steps = execute(study(START))
    assert steps == [(k, 6) for k in range(1, 7)]  # 24 examples, twice, in batches of 8; once for both seeds
    begun, (untrained,) = answers(folder, "*-plain-*/step-000000*"), answers(folder, "*-zero-shot-*/step-000000*")
    assert len(begun) == 2
    assert begun[0].equals(begun[1])
    assert (begun[0]["margin"] - untrained["margin"]).abs().max() > 0.01
    ended = answers(folder, "*-plain-*/step-000004*")
    assert not ended[0].equals(ended[1])


def test_a_start_is_not_learnt_again(study, execute):
    path = study(START)
    folder, _ = execute(path)
    whole = parts(folder)
    for part in folder.glob("runs/*/step-*"):
        part.unlink()
    assert execute(path)[1] == []
    assert parts(folder) == whole


@pytest.mark.parametrize("harm", ["torn", "flipped"])
def test_a_damaged_start_is_learnt_again(study, execute, harm):
    path = study(START)
    folder, _ = execute(path)
    whole = parts(folder)
    (state,) = folder.glob("starts/*/state-*")
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content if harm == "flipped" else content[:100])
    for part in folder.glob("runs/*/step-*"):
        part.unlink()
    assert len(execute(path)[1]) == 6
    assert parts(folder) == whole
    assert [file.name for file in (folder / "aside").iterdir()]


def test_two_processes_share_one_start(forks, study, tmp_path):
    path = study(START)
    result = forks.run(path, tmp_path / "both", together=["1/2", "2/2"])
    assert result["code"] == 0, result["said"]
    forks.run(path, tmp_path / "alone")
    assert parts(tmp_path / "both") == parts(tmp_path / "alone")
    assert len(list((tmp_path / "both").glob("starts/*/state-*"))) == 1


def test_the_key_of_a_start(study):
    """What a start is made of tells starts apart; what comes after it does not."""

    def key(*changes):
        return start_key(expand(read_study_file(study(START, changes)))[0])

    assert key() == key(("examples: 16", "examples: 8")) == key(("lr: 1.0e-2", "lr: 1.0e-3"))
    assert key() == key(("steps: 4", "steps: 5"))
    for change in (("examples: 24", "examples: 16"), ("lr: 2.0e-2", "lr: 3.0e-2"), ("epochs: 2", "epochs: 3")):
        assert key() != key(change)
    assert key() != key(("dropout: 0.1", "dropout: 0.2"))
    assert key() != key((", start: {examples: 24, epochs: 2, lr: 2.0e-2}", ""))
    # Without lr and epochs of its own, those of the recipe count.
    plain = ("{examples: 24, epochs: 2, lr: 2.0e-2}", "{examples: 24}")
    assert key(plain) != key(plain, ("lr: 1.0e-2", "lr: 1.0e-3"))


def test_a_study_without_start_is_named_as_if_there_were_no_such_key(study):
    runs = expand(read_study_file(study(LORA)))
    assert "start" not in runs[0].record().specification()
    assert [run.start_steps() for run in runs] == [0, 0]


def test_examples_of_a_start_are_held_out_and_of_every_level(study_data, tmp_path):
    rows = [
        {"premise": f"p {k}", "hypothesis": f"h {k}", "label": "ab"[k % 2], "hard": k % 30, "item": f"i{k}"}
        for k in range(240)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "mine.csv")
    sets = (
        "sets: {mine: {file: mine.csv, item: item, pattern: '{premise} {hypothesis}?', answers: {a: ' yes', b: ' no'}}}"
    )
    loaded, runs = study_data(
        LEVELS.format() + "recipe: {method: lora, lr: 1e-3, epochs: 1, batch: 8}\nevaluate: {on: mine}\n" + sets
    )
    trained = [run for run in runs if run.start]
    assert len(trained) == 6
    begun = [loaded.start(run).frame for run in trained]
    assert all(frame.equals(begun[0]) for frame in begun)
    assert begun[0].height == 12
    assert begun[0]["level"].n_unique() == 3
    assert sorted(begun[0]["label"].value_counts()["count"]) == [6, 6]
    tested = set(loaded.testsets["mine"].frame["item"])
    assert not tested & set(begun[0]["item"])
    assert runs[-1].method == "zero-shot"
    assert runs[-1].start is None


def test_nothing_to_start(study):
    recipe = START.partition("recipe: ")[2].partition("\n")[0].replace("{{", "{").replace("}}", "}")
    path = study(START, [(recipe, "{method: zero-shot}")])
    with pytest.raises(InputError, match=r"line 3, train.start: nothing is trained; remove this key"):
        read_study_file(path)


def test_too_few_examples_for_a_start(study, tmp_path):
    with pytest.raises(InputError, match="99999"):
        run(study(START, [("examples: 24", "examples: 99999999")]), into=tmp_path / "out")


def test_states_take_little_of_the_time(tmp_path):
    store = RunStore(LocalStore(tmp_path), "r")
    tuner = SimpleNamespace(step=0, state=lambda: {"step": torch.tensor(0)})
    checkpointer = Checkpointer(store)
    written = []
    for tuner.step in range(1, 200):
        checkpointer.save(tuner)
        written += [path.name for path in store.folder.glob("state-*") if path.name not in written]
    assert len(written) < 100
    assert len(list(store.folder.glob("state-*"))) == 1  # the older ones go
    checkpointer.cost = 0.0
    checkpointer.save(tuner)
    assert [path.name[:12] for path in store.folder.glob("state-*")] == ["state-000199"]
