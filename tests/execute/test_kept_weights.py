"""Trained weights that a study keeps: the right ones, and `breadth evaluate` gives the answers the study has."""

import shutil
from collections import namedtuple
from pathlib import Path

import polars as pl
import pytest
import torch

import breadth
from breadth.errors import InputError
from breadth.execute import kept_weights, run
from breadth.execute.kept_weights import KeptWeights, Rank, rank_checkpoint
from breadth.lm import load_model, read_weights_record
from breadth.lm.models import RECORD
from breadth.records.store import StudyStore
from breadth.study import expand, read_study_file

from .conftest import FULL, LORA, START, parts


@pytest.fixture
def keeping(study):
    """A study file with some value of ``keep``."""

    def write(text, keep, changes=(), name=None):
        return study(text, [("batch: 8", f"batch: 8, keep: {keep}"), *changes], name or f"{keep}.yaml")

    return write


def kept(folder):
    """Names and bytes of all kept weights."""
    paths = [path for path in sorted(Path(folder).glob("runs/*/weights/**/*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def steps(folder):
    """Steps whose weights are kept, by run."""
    return [
        [int(path.name.removeprefix("step-")) for path in sorted(each.glob("weights/step-*"))]
        for each in sorted(Path(folder).glob("runs/*"))
    ]


def ranks(path, folder):
    """How good every trained checkpoint of the first run is."""
    spec = expand(read_study_file(path))[0]
    own = StudyStore(folder).run(spec.name)
    frames = {step: pl.read_parquet(own.part_path(step)) for step in own.parts() if step > 0}
    return {step: rank_checkpoint(spec, step, frame) for step, frame in frames.items()}


@pytest.mark.parametrize("text", [LORA, FULL], ids=["lora", "full"])
def test_the_four_words(keeping, tmp_path, text):
    for keep in ("none", "last", "best", "all"):
        outcome = run(keeping(text, keep), into=tmp_path / keep)
        assert outcome.without_weights == []
    assert parts(tmp_path / "none") == parts(tmp_path / "all")  # and the same names of runs
    every = [step for step in (2, 4, 6, 8) if text is LORA or step < 8]
    runs = len(steps(tmp_path / "all"))
    assert steps(tmp_path / "none") == [[]] * runs
    assert steps(tmp_path / "last") == [every[-1:]] * runs
    assert steps(tmp_path / "all") == [every] * runs
    assert all(len(each) == 1 for each in steps(tmp_path / "best"))
    best = max(ranks(keeping(text, "best"), tmp_path / "best").values()).step
    first = expand(read_study_file(keeping(text, "best")))[0].name
    assert [path.name for path in tmp_path.glob(f"best/runs/{first}/weights/*")] == [f"step-{best:06d}"]
    # The same bytes whichever word kept them, but for the word.
    everything = kept(tmp_path / "all")
    for name, content in {**kept(tmp_path / "best"), **kept(tmp_path / "last")}.items():
        assert name.endswith(RECORD) or everything[name] == content


def test_the_best_is_that_of_the_training_set_and_the_earliest_of_equals(keeping, tmp_path):
    spec = expand(read_study_file(keeping(LORA, "best")))[0]

    def rank(step, plain, other):
        frame = pl.DataFrame({"testset": ["plain"] * 2 + ["negation"] * 2, "correct": [*plain, *other]})
        return rank_checkpoint(spec, step, frame)

    assert rank(2, (1, 1), (0, 0)) > rank(4, (1, 0), (1, 1))
    assert rank(2, (1, 0), (0, 0)) > rank(4, (0, 1), (1, 1))
    assert rank(2, (1, 0), (0, 0)).accuracy == 0.5
    away = expand(read_study_file(keeping(LORA, "best", [("on: [plain, negation]", "on: [negation, chains]")])))[0]
    frame = pl.DataFrame({"testset": ["negation"] * 4 + ["chains"], "correct": [1.0, 1, 1, 0, 0]})
    assert rank_checkpoint(away, 6, frame) == Rank(0.375, -6)


def test_parts_out_of_order_leave_the_same_best(keeping, tmp_path):
    """On a cluster, checkpoints are scored in any order."""
    spec = expand(read_study_file(keeping(LORA, "best")))[0]
    scores = {2: 0.25, 4: 0.75, 6: 0.75, 8: 0.5}
    for number, order in enumerate([(2, 4, 6, 8), (8, 6, 4, 2), (6, 8, 2, 4), (4, 6, 8, 2)]):
        own = StudyStore(tmp_path / str(number)).run(spec.name)
        weights = KeptWeights(spec, own)
        for step in order:
            correct = [1.0] * int(4 * scores[step]) + [0.0] * int(4 - 4 * scores[step])
            answers = pl.DataFrame(
                {"testset": "plain", "item": ["a", "b", "c", "d"], "correct": correct, "margin": 0.0, "answer": ""}
            )
            if weights.wants(step, answers):
                weights.write_files(step, {"adapter_config.json": b"%d" % step})
            own.write_part(step, answers)
            weights.written(step, answers)
            assert len(weights.steps()) == 1
        assert list(weights.steps()) == [4]
        assert weights.lacking() == ()


@pytest.mark.parametrize(
    ("text", "changes"),
    [(LORA, []), (FULL, []), (FULL, [('trunk: "off"', "layers: 2")]), (START, [("items: 24", "every: 2, items: 24")])],
    ids=["lora", "full", "full-top-layers", "start"],
)
def test_evaluate_gives_the_answers_of_the_study(keeping, tmp_path, text, changes):
    run(keeping(text, "all", changes), into=tmp_path / "s")
    folders = sorted(tmp_path.glob("s/runs/*/weights"))
    assert folders
    for weights in folders:
        into = tmp_path / f"evaluated-{weights.parent.name[-8:]}"
        breadth.evaluate(f"{weights}/step-*", on=["plain", "negation"], items=24, trained_on="plain", into=into)
        assert set(breadth.open(into).subjects["model"]) == {weights.parent.name}
        again = next(into.glob("runs/*"))
        for folder in sorted(weights.iterdir()):
            before, after = (pl.read_parquet(*each.glob(f"{folder.name}.*")) for each in (weights.parent, again))
            both = before.join(after, on=["testset", "item"], suffix="_again")
            assert both.height == before.height == after.height
            assert both["answer"].to_list() == both["answer_again"].to_list()
            assert both["correct"].to_list() == both["correct_again"].to_list()
            # Adapters are merged for evaluation, and layers are computed in other batches: both round.
            assert (both["margin"] - both["margin_again"]).abs().max() < 1e-4


def test_the_libraries_load_what_a_study_kept(keeping, tmp_path, tiny):
    from peft import AutoPeftModelForCausalLM
    from transformers import AutoModelForCausalLM

    ids = torch.tensor([[5, 9, 30, 77, 12]])
    before = load_model(str(tiny)).model(input_ids=ids).logits
    for text, loader in ((LORA, AutoPeftModelForCausalLM), (FULL, AutoModelForCausalLM)):
        into = tmp_path / loader.__name__
        run(keeping(text, "last"), into=into)
        folder = next(into.glob("runs/*/weights/step-*"))
        after = loader.from_pretrained(folder).eval()(input_ids=ids).logits
        assert (after - before).abs().max() > 1e-3


def test_a_study_that_was_complete_before_is_left_as_it_is(keeping, tmp_path):
    run(keeping(LORA, "none"), into=tmp_path / "s")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("s/runs/*/step-*")}
    for keep in ("best", "last", "all"):
        outcome = run(keeping(LORA, keep), into=tmp_path / "s")
        assert (outcome.complete, len(outcome.done_before)) == ([], 2)
        assert sorted(outcome.without_weights) == sorted(outcome.done_before)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("s/runs/*/step-*")} == before
    assert kept(tmp_path / "s") == {}


def test_keep_may_be_changed_and_deletes_nothing(keeping, tmp_path):
    run(keeping(LORA, "all"), into=tmp_path / "s")
    before = kept(tmp_path / "s")
    for keep in ("best", "none", "last"):
        outcome = run(keeping(LORA, keep), into=tmp_path / "s")
        assert outcome.without_weights == []
    assert kept(tmp_path / "s") == before


def test_a_second_best_that_a_killed_call_left_is_deleted(keeping, tmp_path):
    path = keeping(LORA, "best")
    run(path, into=tmp_path / "s")
    before = kept(tmp_path / "s")
    spec = expand(read_study_file(path))[0]
    weights = KeptWeights(spec, StudyStore(tmp_path / "s").run(spec.name))
    other = next(step for step in (2, 4, 6, 8) if step not in weights.steps())
    weights.write_files(other, {"adapter_config.json": b"{}"})
    shutil.copytree(weights.folder / f"step-{other:06d}", weights.folder / ".step-000099.partial-x")
    run(path, into=tmp_path / "s")
    assert kept(tmp_path / "s") == before


def test_damaged_weights_are_refused_and_not_computed_again(keeping, tmp_path, command):
    path = keeping(LORA, "all")
    run(path, into=tmp_path / "s")
    weights = sorted(tmp_path.glob("s/runs/*/weights"))[0]
    damaged = weights / "step-000004" / "adapter_model.safetensors"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="step-000004: is damaged"):
        breadth.evaluate(f"{weights}/step-*", on="plain", items=8, into=tmp_path / "e")
    assert not (tmp_path / "e").exists()
    damaged.write_bytes(content[:-9])
    with pytest.raises(InputError, match="step-000004: is damaged"):
        breadth.evaluate(f"{weights}/step-*", on="plain", items=8, into=tmp_path / "e")
    outcome = run(path, into=tmp_path / "s")
    assert outcome.complete == []
    assert outcome.without_weights == [weights.parent.name]
    assert damaged.read_bytes() == content[:-9]


def test_a_disk_that_is_nearly_full_stops_the_run_before_it_is(keeping, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    path, free = keeping(FULL, "all"), kept_weights.SPARE + 10_000
    monkeypatch.setattr(kept_weights.shutil, "disk_usage", lambda _: usage(0, 0, free))
    with pytest.raises(InputError, match=r"recipe\.keep: the weights of a checkpoint take 0\.2 MB"):
        run(path, into=tmp_path / "s")
    assert parts(tmp_path / "s") == {}
    left = [10**9] * 3
    monkeypatch.setattr(kept_weights.shutil, "disk_usage", lambda _: usage(0, 0, left.pop() if left else free))
    with pytest.raises(InputError, match="the disk has"):
        run(path, into=tmp_path / "s")
    assert steps(tmp_path / "s") == [[2, 4]]
    monkeypatch.undo()
    run(path, into=tmp_path / "s")
    run(path, into=tmp_path / "whole")
    assert kept(tmp_path / "s") == kept(tmp_path / "whole")
    assert parts(tmp_path / "s") == parts(tmp_path / "whole")


def test_the_command_says_what_it_takes_and_what_is_missing(keeping, tmp_path, command):
    out = command("run", keeping(LORA, "all"), "--into", tmp_path / "s", "--dry-run")
    assert out.returncode == 0, out.stderr
    # 2 runs of 4 checkpoints: rank 8 in q, k, v, o of 2 layers.
    size = 2 * 4 * 4 * 8 * 2 * (64 + 48 + 48 + 64)
    assert f"about {size / 1e6:.1f} MB of disk, in 8 directories" in " ".join(out.stdout.split())
    assert command("run", keeping(LORA, "none"), "--into", tmp_path / "s").returncode == 0
    out = command("run", keeping(LORA, "best"), "--into", tmp_path / "s")
    assert out.returncode == 0
    assert out.stderr.count("recipe.keep") == 1
    assert "--into" in out.stderr


def test_the_record_says_whose_weights_they_are(keeping, tmp_path):
    run(keeping(LORA, "last"), into=tmp_path / "s")
    folder = next(tmp_path.glob("s/runs/*/weights/step-000008"))
    record = read_weights_record(folder)
    assert (record["step"], record["kept"], record["run"]) == (8, "last", folder.parent.parent.name)
