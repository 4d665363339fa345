"""One number has one value on a page: counts of answers, items, runs and models agree between sections."""

import re

import numpy as np
import polars as pl
import pytest

from breadth.reporting import build_report


def words_of(data, key):
    """Everything that a section says, as one text."""
    for section, content in data.contents.items():
        if section.key == key:
            return " ".join([*content.lines, *content.details, *content.absent])
    return ""


def numbers_before(text, noun):
    """Numbers in front of a noun: 1,600 answers."""
    return {int(number.replace(",", "")) for number in re.findall(rf"\b([\d,]*\d) {noun}s?\b", text)}


@pytest.fixture(scope="module")
def untrained_twice(write_study, tmp_path_factory):
    """The report of a study whose runs begin alike, so that some of its answers repeat others."""
    one = {"train_set": "plain", "examples": 32, "steps": 5}
    runs = [{"model": model, "seed": seed, **one} for model in ("model-a", "model-b") for seed in range(2)]
    return build_report(write_study(tmp_path_factory.mktemp("studies") / "study", runs))


def test_sections_count_the_same_answers(untrained_twice):
    data = untrained_twice
    every = int(data.study.answered.sum())
    assert numbers_before(words_of(data, "overview"), "answer") == {every}
    assert numbers_before(words_of(data, "methods"), "answer") == {every}
    # Difficulty counts answers that repeat others once, and says of how many that is.
    distinct = int(data.study.distinct().answered.sum())
    assert distinct < every
    assert numbers_before(words_of(data, "difficulty"), "answer") == {distinct, every}


def test_sections_count_the_same_models_runs_and_items(untrained_twice):
    data = untrained_twice
    items, runs = data.study.items.height, data.study.subjects["run"].n_unique()
    overview = words_of(data, "overview")
    assert numbers_before(overview, "item") == {items}
    assert max(numbers_before(overview, "run")) == runs == data.table("runs").height
    assert data.table("ranks")["runs"].sum() == runs
    # Two models, each with its runs, are compared on the items that the overview counts.
    assert data.table("comparison")["n_items"][0] == items
    assert data.table("ranks")["model"].sort().to_list() == sorted(data.facts["models"])
    assert data.table("ranks")["accuracy"].to_list() == pytest.approx(
        [float(np.mean(data.table("profile").filter(model=name, when="after")["accuracy"].to_list()))
         for name in data.table("ranks")["model"]]
    )  # fmt: skip


def test_a_model_trained_in_several_ways_is_not_called_several_models(levels_data):
    data = levels_data
    assert data.results["ranking"].noun == "recipe"
    assert len(data.facts["models"]) < data.table("ranks").height
    names = data.table("ranks")["model"]
    assert names.n_unique() == names.len()


@pytest.mark.parametrize("models", [2, 3, 10])
def test_what_the_page_says_of_the_best_model_is_one_thing(models):
    for seed in range(4):
        share = np.linspace(0.5, 0.5 + 0.15 * (seed % 2), models)
        luck = np.random.default_rng(seed).random(300)
        own = np.random.default_rng(seed + 100).random((models, 300))
        answers = ((0.5 * luck + 0.5 * own) < share[:, None]).astype(np.int8)
        data = build_report(answers)
        verdict = next(content.finding for section, content in data.contents.items() if section.key == "ranking")
        ranks, near, pair = data.table("ranks"), data.table("neighbours"), data.table("comparison")
        alone = ranks.filter(pl.col("rank_low") == 1).height == 1
        assert near["apart"][0] == alone or models > 2
        if alone:
            assert near["apart"][0]
            assert pair["ci_low"][0] > 0 or pair["ci_high"][0] < 0
        if models == 2:
            decided = str(verdict).startswith(("Yes", "No: 1 is worse", "It depends"))
            assert decided == alone
        else:
            assert str(verdict).startswith("Yes") == alone
        said = [float(number) for number in (near["difference"][0], abs(pair["difference"][0]))]
        assert said[0] == pytest.approx(said[1])
