"""``dtype: mixed``: the answers of float32 from products in bfloat16, and when it looks twice."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from breadth import datasets
from breadth.datasets import Pattern
from breadth.errors import InputError
from breadth.lm import evaluation, placement
from breadth.lm.evaluation import encode_testset, evaluate_model, keep_frozen_states
from breadth.lm.layers import attach_lora
from breadth.lm.loading import load_model
from breadth.lm.mixed import SAMPLE, WRONG, RoundingErrors, open_items, rescore_close_items, rounding_errors
from breadth.lm.placement import MIXED, place
from breadth.lm.split_model import SplitModel

needs_bfloat16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN has no products in bfloat16 on this machine"
)


class Exact:
    """True scores, handed out for the items that are asked for."""

    def __init__(self, scores):
        self.scores, self.asked = scores, [[] for _ in scores]

    def __call__(self, chosen):
        for asked, items in zip(self.asked, chosen, strict=True):
            asked.extend(items)
        return [scores[items] for scores, items in zip(self.scores, chosen, strict=True)]


def simulate(seed, draw, sets=4, items=200, answers=2, spread=1.0, sd=0.03, shift=0.1):
    """True scores, the rough ones, and what is settled; every set has a shift of its own."""
    random = np.random.default_rng(seed)
    exact = Exact([random.normal(0, spread, (items, answers)) for _ in range(sets)])
    rough = [scores + shift * random.normal(size=answers) + sd * draw(random, scores.shape) for scores in exact.scores]
    return exact, rough, rescore_close_items(rough, exact)


def wrong(exact, settled):
    return sum(int((a.argmax(1) != b.argmax(1)).sum()) for a, b in zip(exact.scores, settled, strict=True))


def test_errors_are_estimated_beyond_the_shift_of_a_set():
    random = np.random.default_rng(0)
    rough = [random.normal(size=(20, 2)), random.normal(size=(12, 2))]
    errors = [shift + random.normal(0, 0.03, (len(scores), 2)) for scores, shift in zip(rough, (0.5, -2), strict=True)]
    exact, known = [a + b for a, b in zip(rough, errors, strict=True)], [np.ones(20, bool), np.ones(12, bool)]
    estimated = rounding_errors(rough, exact, known)
    apart = [np.diff(own)[:, 0] - np.diff(own).mean() for own in errors]  # of two answers
    pooled = np.sqrt(sum(own @ own for own in apart) / 30)
    assert estimated.free == 30
    assert estimated.largest == pytest.approx(max(np.abs(own).max() for own in apart))
    for k, own in enumerate(errors):
        assert estimated.shifts[k] == pytest.approx(own.mean(axis=0))
        assert estimated.scales[k] == pytest.approx(pooled * np.sqrt(1 + 1 / len(own)))
    alone = [np.arange(len(scores)) == 3 for scores in rough]
    assert rounding_errors(rough, exact, alone).scales == [np.inf, np.inf]  # one item of each says nothing


def test_items_are_open_until_few_wrong_answers_are_expected():
    distances = np.linspace(0, 0.5, 501)
    scores, known = [np.stack([distances, 0 * distances], axis=1)], [np.zeros(501, bool)]
    errors = RoundingErrors([np.zeros(2)], [0.03], 40, 0.01)
    (chosen,) = open_items(scores, known, errors)
    expected = stats.t.sf(distances / 0.03, 40)
    assert chosen.tolist() == list(range(len(chosen)))
    assert expected[len(chosen) :].sum() <= WRONG < expected[len(chosen) - 1 :].sum()
    known[0][:300] = True
    assert open_items(scores, known, errors)[0].tolist() == []
    far = errors._replace(largest=0.32)  # one error far out counts more than their spread
    assert open_items(scores, known, far)[0].tolist() == list(range(300, 400))


@pytest.mark.parametrize(("answers", "share"), [(2, 0.2), (3, 0.3), (5, 0.5)])
def test_normal_errors_change_no_answer_and_few_items_are_scored_twice(answers, share):
    flips = twice = 0
    for seed in range(200):
        exact, rough, settled = simulate(seed, lambda random, shape: random.normal(size=shape), answers=answers)
        assert sum(map(len, exact.asked)) == len({(k, i) for k, own in enumerate(exact.asked) for i in own})
        flips += wrong(exact, rough)
        twice += sum(map(len, exact.asked))
        assert wrong(exact, settled) == 0
    assert flips > 1000  # the rough scores alone would be wrong
    assert twice / (200 * 800) < share


def test_heavy_tails_change_few_answers():
    """What would fool it: an error many times as large as the others, in an item that seems clear."""
    draws = [simulate(seed, lambda random, shape: random.standard_t(3, shape)) for seed in range(200)]
    flips = sum(wrong(exact, rough) for exact, rough, _ in draws)
    assert flips > 2000
    assert sum(wrong(exact, settled) for exact, _, settled in draws) < 0.01 * flips


def test_other_sets_size_spread_and_scale():
    for sets, items, spread, sd in ((1, 40, 0.1, 0.01), (12, 30, 3.0, 0.2), (2, 2000, 1.0, 0.5), (3, 5, 1.0, 0.01)):
        exact, _, settled = simulate(
            7, lambda random, shape: random.normal(size=shape), sets=sets, items=items, spread=spread, sd=sd
        )
        assert wrong(exact, settled) == 0
        assert all(len(own) >= min(items, 8) for own in exact.asked)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 60), st.floats(0, 2))
def test_what_is_scored_twice_is_exact_and_everything_else_is_clear(seed, sets, items, sd):
    exact, rough, settled = simulate(seed, lambda random, shape: random.normal(size=shape), sets, items, sd=sd)
    known = [np.isin(np.arange(items), own) for own in exact.asked]
    errors = rounding_errors(rough, exact.scores, known)
    for k, own in enumerate(known):
        assert np.array_equal(settled[k][own], exact.scores[k][own])
        assert np.allclose(settled[k][~own], rough[k][~own] + errors.shifts[k])
    assert not any(map(len, open_items(settled, known, errors)))


def test_without_sets_nothing_is_asked():
    assert rescore_close_items([], Exact([])) == []


@needs_bfloat16
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
def test_the_answers_of_float32(tiny, monkeypatch, family, kept):
    """Items are scored twice in other batches, with their kept states, and only some of them."""
    monkeypatch.setattr("breadth.lm.evaluation.tokens_per_batch", lambda device: 256)
    model = tiny(family)
    split = SplitModel(attach_lora(model.model, layers=2), 2)
    testsets = [encode_testset(model, datasets.load(name, items=40), context=256) for name in ("plain", "chains")]
    assert split.agrees(testsets[0].prompts[0])
    if kept:
        keep_frozen_states(split, testsets)
    exact, again, own = evaluate_model(model, split, testsets), [], evaluation.rebatch
    monkeypatch.setattr("breadth.lm.evaluation.rebatch", lambda *args: again.append(len(args[0])) or own(*args))
    mixed = evaluate_model(replace(model, dtype=MIXED), split, testsets)
    assert mixed.drop("margin").equals(exact.drop("margin"))
    difference = (mixed["margin"] - exact["margin"]).abs()
    assert 1e-4 < difference.max() < 0.1  # it was rounded
    assert SAMPLE <= sum(again) <= 80
    assert split.packed.precision is torch.float32
    assert evaluate_model(replace(model, dtype=MIXED), split, testsets).equals(mixed)


@needs_bfloat16
def test_other_kinds_are_computed_in_float32(tiny):
    """Where several sequences decide on an item, or prompts share their beginnings."""
    model = tiny()
    split = SplitModel(model.model)
    short = Pattern("{k} Yes or No?", (("yes", " Yes"), ("no", " No")))
    long = Pattern("{premise} {hypothesis}", (("yes", " Yes it is"), ("no", " No it is not")))
    frame = datasets.load("plain", items=12).frame.with_row_index("k").with_columns(label=pl.lit("yes"))
    whole = datasets.Loaded("whole", "domain", long, frame, "")
    fewshot = datasets.Loaded("fewshot", "domain", short, frame, "")
    testsets = [
        encode_testset(model, whole, context=256),
        encode_testset(model, fewshot, context=256, before="The cat is in the park. No\n\n" * 6),
    ]
    assert [testset.can_be_mixed for testset in testsets] == [False, False]
    assert evaluate_model(replace(model, dtype=MIXED), split, testsets).equals(evaluate_model(model, split, testsets))


@needs_bfloat16
def test_a_real_model(smollm2):
    loaded = load_model(str(smollm2), dtype="float32", device="cpu")
    split = SplitModel(loaded.model, 8)
    testsets = [encode_testset(loaded, datasets.load(name, items=30), context=256) for name in ("plain", "negation")]
    assert split.agrees(testsets[0].prompts[0])
    keep_frozen_states(split, testsets)
    exact, mixed = (evaluate_model(replace(loaded, dtype=dtype), split, testsets) for dtype in ("float32", MIXED))
    assert mixed.drop("margin").equals(exact.drop("margin"))
    assert 1e-3 < (mixed["margin"] - exact["margin"]).abs().max() < 0.2


def test_where_it_can_be_used(monkeypatch):
    monkeypatch.setattr(placement, "has_bfloat16", lambda: True)
    placed = place(MIXED, "cpu")
    assert (placed.dtype, placed.dtype_name) == (torch.float32, MIXED)
    monkeypatch.setattr(placement, "has_bfloat16", lambda: False)
    placed = place(MIXED, "cpu")
    assert (placed.dtype, placed.dtype_name) == (torch.float32, "float32")
    assert "float32 instead of mixed: this CPU has no bfloat16 instructions" in placed.notes
    monkeypatch.setattr(placement, "_choose_device", lambda device: ("cuda", ""))
    with pytest.raises(InputError, match="dtype: mixed is for CPUs, and the model runs on cuda; use bfloat16"):
        place(MIXED)
