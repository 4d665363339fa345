"""One number has one value on a page: counts of answers, items, runs and models agree between sections."""

import copy
import re

import numpy as np
import polars as pl
import pytest

from breadth.level_transfer import Effect
from breadth.reporting import build_report
from breadth.reporting.analysis import _levels_words
from breadth.results import State


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
    assert numbers_before(overview, "question") == {items}
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
        assert (verdict.state is State.YES) == alone
        assert (verdict.answer == ranks["model"][0]) == alone
        said = [float(number) for number in (near["difference"][0], abs(pair["difference"][0]))]
        assert said[0] == pytest.approx(said[1])


def test_the_two_best_are_compared_on_the_items_of_the_ranking():
    generator = np.random.default_rng(0)
    answers = (generator.random((4, 400)) < np.array([[0.5], [0.75], [0.6], [0.4]])).astype(np.int8)
    answers[3, 380:] = -1
    data = build_report(answers)
    ranking = data.results["ranking"]
    assert ranking.n_items == data.table("comparison")["n_items"][0] == 380
    assert data.table("neighbours")["difference"][0] == pytest.approx(data.table("comparison")["difference"][0])
    # That 20 of the 400 items which the overview counts are not in the ranking stands on the page.
    assert {380, 400} <= numbers_before(words_of(data, "ranking").replace(" of ", " items of "), "item")


def test_gains_fade_only_where_that_is_a_finding(levels_data):
    effects = levels_data.table("transfer_effects").filter(effect=Effect.FADING)
    models = effects.height
    columns = {"estimate": -0.1, "ci_low": -0.2, "ci_high": -0.001}
    for q, said in ((0.01, {models}), (0.09, set())):
        # An interval may exclude 0 where q does not reach a finding; the sentence on the model then says undecided.
        changed = effects.with_columns(pl.lit(value).alias(name) for name, value in {**columns, "q": q}.items())
        data = copy.copy(levels_data)
        data.tables = {**levels_data.tables, "transfer_effects": changed}
        assert numbers_before(_levels_words(data), f"of {models} model") == said
