import math

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from breadth.datasets import Pattern
from breadth.errors import InputError
from breadth.lm.layers import attach_ia3, attach_lora, unfreeze, unfreeze_biases
from breadth.lm.split_model import SplitModel
from breadth.lm.train_set import encode_train_set
from breadth.lm.training import Trainer, derived_seed, examples_of_step, learning_rate_share
from breadth.study import Recipe

WORDS = ["cat", "man", "guitar", "park", "birds", "tree", "mat"]


class Examples:
    name = "e"
    task = Pattern("The {text} is here. Yes or No?", (("yes", " Yes"), ("no", " No")))
    frame = pl.DataFrame(
        {
            "item": [f"e-{i}" for i in range(7)],
            "testset": "e",
            "text": [f"{word} {'in the tree ' * i}" for i, word in enumerate(WORDS)],
            "label": ["yes", "no", "no", "yes", "no", "yes", "no"],
        }
    )


def start(language_model, *, seed=3, keep=True, steps=8, **keys):
    """A trainer on a newly loaded model."""
    recipe = Recipe(**{"lr": 1e-2, "batch": 4, "layers": 2, "steps": steps, "dropout": 0.2, **keys})
    model = language_model.model
    if recipe.method == "lora":
        model = attach_lora(model, rank=4, dropout=recipe.dropout, layers=recipe.layers, seed=derived_seed(seed, 2))
    elif recipe.method == "ia3":
        model = attach_ia3(model, recipe.layers)
    elif recipe.method == "bitfit":
        unfreeze_biases(model, recipe.layers)
    else:
        unfreeze(model, recipe.layers)
    split = SplitModel(model, recipe.layers if keep and recipe.layers != "all" else None)
    train_set = encode_train_set(language_model, Examples(), recipe.loss, context=128)
    if split.is_split:
        train_set.keep_frozen_states(split)
    return Trainer(split, train_set, recipe, seed, steps)


def weights_of(trainer):
    return {name: weight.detach().clone() for name, weight in trainer.weights.items()}


def same(first, second):
    return set(first) == set(second) and all(torch.equal(first[name], second[name]) for name in first)


SETTINGS = {
    "lora": {},
    "lora, nothing kept": {"keep": False},
    "lora, all layers": {"layers": "all"},
    "full": {"method": "full"},
    "full, all layers": {"method": "full", "layers": "all"},
    "full, nothing kept": {"method": "full", "keep": False, "schedule": "cosine", "warmup": 0.25},
    "sgd": {"optimiser": "sgd", "lr": 0.1},
    "sgd, full": {"optimiser": "sgd", "lr": 0.1, "method": "full", "weight_decay": 0.1},
    "completion": {"loss": "completion", "micro_batch": 2, "clip": None},
}


@pytest.mark.parametrize("keys", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("family", ["llama", "opt"])
def test_resuming_gives_the_same_results(tiny, family, keys):
    whole = start(tiny(family), **keys)
    begin = weights_of(whole)
    losses = [whole.advance() for _ in range(6)]
    assert not same(begin, weights_of(whole))
    for stop in (1, 4):
        before = start(tiny(family), **keys)
        assert [before.advance() for _ in range(stop)] == losses[:stop]
        saved = save(before.state())
        torch.manual_seed(999)
        after = start(tiny(family), **keys)
        after.restore(load(saved))
        assert after.step == stop
        # An evaluation in between, or anything else that uses random numbers, changes nothing.
        after.model.model.eval()
        torch.rand(3)
        assert [after.advance() for _ in range(6 - stop)] == losses[stop:]
        assert same(weights_of(after), weights_of(whole))
        assert all(torch.equal(after.state()[name], value) for name, value in whole.state().items())


FEW_WEIGHTS = [("ia3", "llama"), ("ia3", "opt"), ("ia3", "gemma3"), ("bitfit", "opt")]


@pytest.mark.parametrize("layers", [2, "all"])
@pytest.mark.parametrize(("method", "family"), FEW_WEIGHTS)
def test_training_of_few_weights_resumes(tiny, method, family, layers):
    keys = {"method": method, "layers": layers, "lr": 0.05}
    whole = start(tiny(family), **keys)
    before = weights_of(whole)
    losses = [whole.advance() for _ in range(6)]
    assert losses[-1] < losses[0]
    assert not same(before, weights_of(whole))
    stopped, resumed = start(tiny(family), **keys), start(tiny(family), **keys)
    for _ in range(3):
        stopped.advance()
    resumed.restore(load(save(stopped.state())))
    assert [resumed.advance() for _ in range(3)] == losses[3:]
    assert same(weights_of(resumed), weights_of(whole))


@pytest.mark.parametrize(
    ("family", "method"),
    [(family, method) for method in ("lora", "full") for family in ("llama", "opt", "olmo2", "gemma3")]
    + [(family, method) for method, family in FEW_WEIGHTS],
)
def test_kept_states_change_nothing(tiny, family, method):
    results = []
    for keep in (False, True):
        trainer = start(tiny(family), method=method, keep=keep, dropout=0, lr=1e-3)
        losses = [trainer.advance() for _ in range(5)]
        results.append((losses, weights_of(trainer)))
    (plain_losses, plain), (losses, weights) = results
    assert losses == pytest.approx(plain_losses, abs=1e-4)
    # The bias of keys has no gradient, because softmax cancels it; Adam turns rounding errors into steps.
    names = [name for name in plain if not name.endswith("k_proj.bias")]
    assert max(float((plain[name] - weights[name]).abs().max()) for name in names) < 1e-4


def test_seeds_decide(tiny):
    first, again, other = (start(tiny(), seed=seed) for seed in (3, 3, 4))
    for trainer in (first, again, other):
        for _ in range(3):
            trainer.advance()
    assert same(weights_of(first), weights_of(again))
    assert not same(weights_of(first), weights_of(other))


def test_training_learns(tiny):
    trainer = start(tiny(), steps=60, dropout=0)
    losses = [trainer.advance() for _ in range(60)]
    assert sum(losses[-5:]) < 0.2 * sum(losses[:5])


def test_micro_batches_add_up(tiny):
    results = []
    for micro in (None, 2, 1):
        trainer = start(tiny(), micro_batch=micro, dropout=0, lr=1e-3)
        losses = [trainer.advance() for _ in range(3)]
        results.append((losses, weights_of(trainer)))
    for losses, weights in results[1:]:
        assert losses == pytest.approx(results[0][0], abs=1e-4)
        assert max(float((weights[name] - results[0][1][name]).abs().max()) for name in weights) < 1e-4


def test_dropout_works_where_weights_are_adapted_only(tiny):
    language_model = tiny("opt")
    for module in language_model.model.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.3
    trainer = start(language_model, method="full", keep=False)
    trainer.advance()
    layers = language_model.model.model.decoder.layers
    assert [layer.training for layer in layers] == [False, False, True, True]
    assert not language_model.model.model.decoder.training
    everything = start(tiny("opt"), method="full", layers="all")
    everything.advance()
    assert all(module.training for module in everything.model.model.modules())


def test_frozen_layers_ignore_the_dropout_of_the_model(tiny):
    """Frozen layers use no dropout, so their states may be kept although the model has dropout."""
    results = []
    for keep in (True, False):
        language_model = tiny("opt")
        for layer in language_model.model.model.decoder.layers[:2]:
            layer.dropout = 0.5
        trainer = start(language_model, keep=keep, dropout=0, lr=1e-3)
        results.append([trainer.advance() for _ in range(3)])
    assert results[0] == pytest.approx(results[1], abs=1e-4)


def test_a_loss_that_is_not_a_number(tiny):
    trainer = start(tiny(), keep=False)
    with torch.no_grad():
        next(iter(trainer.weights.values())).fill_(math.nan)
    with pytest.raises(InputError, match=r"step 0: the loss is nan; lower recipe\.lr, or set recipe.dtype to float32"):
        trainer.advance()


def test_a_state_of_another_recipe_is_refused(tiny):
    state = start(tiny()).state()
    with pytest.raises(InputError, match="belongs to another model or recipe"):
        start(tiny(), layers=1).restore(state)


def test_the_learning_rate_reaches_the_optimiser(tiny):
    trainer = start(tiny(), schedule="linear", warmup=0.5, lr=0.01)
    seen = []
    for _ in range(8):
        trainer.advance()
        seen.append(trainer.optimiser.param_groups[0]["lr"])
    assert seen == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.0075, 0.005, 0.0025])


def test_gradients_are_clipped(tiny):
    # With plain gradient descent a step is as long as the learning rate times the norm that is allowed.
    trainer = start(tiny(), optimiser="sgd", betas=(0.0, 0.9), clip=1e-3, lr=1.0, dropout=0)
    before = weights_of(trainer)
    trainer.advance()
    moved = sum(float((weight - before[name]).square().sum()) for name, weight in weights_of(trainer).items())
    assert math.sqrt(moved) == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@given(st.integers(1, 300), st.floats(0, 1))
def test_schedules(schedule, steps, warmup):
    rates = [learning_rate_share(step, steps, schedule, warmup) for step in range(steps)]
    rise = round(warmup * steps)
    assert all(0 < each <= 1 for each in rates)
    assert rates[:rise] == sorted(rates[:rise])
    assert rates[rise:] == sorted(rates[rise:], reverse=True)
    if rise:
        assert rates[rise - 1] == 1
    if rise < steps:
        assert rates[rise] == 1
        if schedule == "constant":
            assert set(rates[rise:]) == {1.0}


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 5), st.booleans())
def test_every_epoch_passes_over_all_examples_once(n, batch, seed, keep_order):
    steps = -(-3 * n // batch)
    order = [i for step in range(steps) for i in examples_of_step(n, batch, step, seed, keep_order)]
    for epoch in range(3):
        part = order[epoch * n : (epoch + 1) * n]
        assert sorted(part) == list(range(n))
        if keep_order:
            assert part == list(range(n))


def test_epochs_differ_in_order():
    first, second = (examples_of_step(50, 50, step, 0, False) for step in (0, 1))
    assert first != second
    assert first != examples_of_step(50, 50, 0, 1, False)


def test_derived_seeds_differ():
    assert (
        len({derived_seed(seed, purpose, step) for seed in range(5) for purpose in range(3) for step in range(5)}) == 75
    )
