"""Studies that train on a mixture of sets: drawn by shares, held out, in-domain all of them, wherever they run."""

import polars as pl
import pytest

from breadth.correlation import correlate
from breadth.execute import run
from breadth.execute.data import fewshot_prefix, held_out
from breadth.sources import open_study

from .cluster.in_process import run_in_process
from .conftest import LORA, START, parts

MIX = [
    ("set: plain", "mix: {plain: 0.7, negation: 0.3}"),
    ("on: [plain, negation]", "on: [plain, negation, science, chat]"),
]


def test_examples_are_drawn_by_shares_and_held_out(study_data):
    data, (first, second) = study_data(
        "train: {mix: {plain: 3, negation: 1}, examples: 16, seeds: [0, 1]}\nrecipe: {method: lora, steps: 2}\n"
        "evaluate: {on: [plain, negation, science], items: 50}"
    )
    drawn = data.training(first)
    assert [(part.name, part.frame.height) for part in drawn.parts] == [("plain", 12), ("negation", 4)]
    assert set(drawn.parts[1].frame["testset"]) == {"negation"}
    assert drawn.parts[0].frame["label"].value_counts()["count"].to_list() == [6, 6]
    other = data.training(second)
    assert set(other.parts[0].frame["item"]) != set(drawn.parts[0].frame["item"])
    for name in ("plain", "negation", "science"):
        test = data.testsets[name]
        for pool in data._pools.values():
            assert held_out(test.frame, pool.frame, test.task).height == test.frame.height
    shifts = {name: each.shift for name, each in data.testsets.items()}
    assert shifts == {"plain": "in-domain", "negation": "in-domain", "science": shifts["science"]}
    assert shifts["science"] != "in-domain"


def test_prompts_hold_examples_of_all_sets(study_data):
    data, runs = study_data(
        "train: {mix: {plain: 1, negation: 1}, seeds: [0, 1]}\nrecipe: {method: few-shot, num_fewshot: 4}\n"
        "evaluate: {on: [plain, science], items: 10}"
    )
    prefixes = [fewshot_prefix(each, data) for each in runs]
    assert prefixes[0] != prefixes[1]
    for each, prefix in zip(runs, prefixes, strict=True):
        examples = pl.concat([part.frame.select("premise") for part in data.training(each).parts])
        assert all(premise in prefix for premise in examples["premise"])
        assert prefix.count("\n\n") == 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny):
    folder = tmp_path_factory.mktemp("mixture")
    text = LORA.format(model=tiny)
    for old, new in MIX:
        text = text.replace(old, new)
    path = folder / "study.yaml"
    path.write_text(text.replace("items: 24", "items: 24, training: true"))
    run(path, into=folder / "s")
    return path, folder / "s"


def test_all_sets_of_the_mixture_are_the_control(finished):
    measured = open_study(finished[1])
    assert set(measured.subjects["train_set"]) == {"plain+negation"}
    assert measured.in_domain("plain+negation") == ("negation", "plain")
    result = correlate(measured, adjust="linear")
    assert set(result.trajectories.controls) == {"plain", "negation"}
    assert set(result.pairs["a"]) | set(result.pairs["b"]) == {"science", "chat"}
    assert set(measured.training.testsets) == {"plain.training", "negation.training"}
    sizes = measured.training.items["testset"].value_counts().rows()
    assert all(count > 0 for _, count in sizes)
    assert (measured.training.answered.sum(axis=1) == 16).all()


@pytest.mark.slow
def test_a_mixture_on_workers_and_after_a_stop(finished, tmp_path):
    path, folder = finished
    whole = parts(folder)
    outcome, _, _ = run_in_process(path, tmp_path / "workers", workers=3)
    assert not outcome.failed
    assert parts(tmp_path / "workers") == whole
    for name in whole:
        if "step-000004" in name or "step-000008" in name:
            (folder / name).unlink()
    run(path, into=folder)
    assert parts(folder) == whole


@pytest.mark.slow
def test_a_start_of_a_mixture(study, tmp_path):
    path = study(START, [("set: plain", "mix: {plain: 0.5, negation: 0.5}")])
    run(path, into=tmp_path / "local")
    outcome, _, _ = run_in_process(path, tmp_path / "workers", workers=2)
    assert not outcome.failed
    assert parts(tmp_path / "workers") == parts(tmp_path / "local")
    assert len(list((tmp_path / "local" / "starts").iterdir())) == 1
