"""Training examples of several sets in one: the sums of what each set gives by itself."""

import polars as pl
import pytest
import torch

from breadth.datasets import Choice, Loaded, Mixture, Pattern
from breadth.lm.layers import unfreeze
from breadth.lm.split_model import SplitModel
from breadth.lm.train_set import EncodedTrainSet, encode_train_set


def pattern_set(n=3):
    frame = {"item": [f"p{k}" for k in range(n)], "premise": [f"text {k}" for k in range(n)], "label": ["l0"] * n}
    return Loaded("p", "in-domain", Pattern("{premise}", (("l0", " Yes"), ("l1", " No"))), pl.DataFrame(frame), "")


def choice_set(n=2):
    frame = {
        "item": [f"c{k}" for k in range(n)],
        "question": ["what is it"] * n,
        "options": [["a dog", "a small cat"]] * n,
        "option_labels": [["A", "B"]] * n,
        "label": ["B"] * n,
    }
    return Loaded("c", "in-domain", Choice("{question}"), pl.DataFrame(frame), "")


def test_losses_of_two_kinds_add_up(tiny):
    model = tiny()
    split = SplitModel(model.model)
    sets = [pattern_set(), choice_set()]
    mixed = encode_train_set(model, Mixture("p+c", tuple(sets)), "completion", context=64)
    alone = [encode_train_set(model, each, "completion", context=64) for each in sets]
    assert len(mixed) == 5
    assert mixed.tokens == sum(each.tokens for each in alone)
    chosen = [4, 0, 2]
    assert mixed.loss_weight(chosen) == alone[0].loss_weight([0, 2]) + alone[1].loss_weight([1])
    with torch.inference_mode():
        whole = float(mixed.summed_loss(split, chosen))
        parts = float(alone[0].summed_loss(split, [0, 2])) + float(alone[1].summed_loss(split, [1]))
        assert whole == pytest.approx(parts, abs=1e-4)
        batches = mixed.micro_batches(chosen, 1)
        assert sorted(example for batch in batches for example in batch) == [0, 2, 4]
        assert sum(float(mixed.summed_loss(split, batch)) for batch in batches) == pytest.approx(whole, abs=1e-4)


def test_kept_states_give_the_same_loss(tiny):
    model = tiny()
    unfreeze(model.model, 1)
    split = SplitModel(model.model, 1)
    mixed = encode_train_set(model, Mixture("p+c", (pattern_set(), choice_set())), "completion", context=64)
    with torch.inference_mode():
        before = float(mixed.summed_loss(split, [0, 3, 4]))
        assert not mixed.states
        mixed.keep_frozen_states(split)
        assert len(mixed.states) == 5
        assert float(mixed.summed_loss(split, [0, 3, 4])) == pytest.approx(before, abs=1e-3)


def test_a_mixture_of_one_set_is_that_set(tiny):
    assert isinstance(encode_train_set(tiny(), Mixture("p", (pattern_set(),)), "answers", context=64), EncodedTrainSet)
