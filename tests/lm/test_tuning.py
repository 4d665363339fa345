import math

import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from breadth.datasets.tasks import Pattern
from breadth.errors import InputError
from breadth.lm.adapters import attach_lora, unfreeze
from breadth.lm.body import Body
from breadth.lm.lessons import make_lesson
from breadth.lm.states import read_state, write_state
from breadth.lm.tuning import Tuner, example_positions, rate, stream
from breadth.study.schema import Recipe

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


def start(language_model, *, seed=3, trunk=True, steps=8, **keys):
    """A tuner on a fresh model."""
    recipe = Recipe(**{"lr": 1e-2, "batch": 4, "layers": 2, "steps": steps, "dropout": 0.2, **keys})
    model = language_model.model
    if recipe.method == "lora":
        model = attach_lora(model, rank=4, dropout=recipe.dropout, layers=recipe.layers, seed=stream(seed, 2))
    else:
        unfreeze(model, recipe.layers)
    body = Body(model, recipe.layers if trunk and recipe.layers != "all" else None)
    lesson = make_lesson(language_model, Examples(), recipe.loss, context=128)
    if body.cut:
        lesson.keep_trunk(body)
    return Tuner(body, lesson, recipe, seed, steps)


def weights_of(tuner):
    return {name: weight.detach().clone() for name, weight in tuner.weights.items()}


def same(first, second):
    return set(first) == set(second) and all(torch.equal(first[name], second[name]) for name in first)


SETTINGS = {
    "lora": {},
    "lora, no trunk": {"trunk": False},
    "lora, all layers": {"layers": "all"},
    "full": {"method": "full"},
    "full, all layers": {"method": "full", "layers": "all"},
    "full, no trunk": {"method": "full", "trunk": False, "schedule": "cosine", "warmup": 0.25},
    "sgd": {"optimiser": "sgd", "lr": 0.1},
    "sgd, full": {"optimiser": "sgd", "lr": 0.1, "method": "full", "weight_decay": 0.1},
    "completion": {"loss": "completion", "micro_batch": 2, "clip": None},
}


@pytest.mark.parametrize("keys", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("family", ["llama", "opt"])
def test_stopped_and_resumed_is_never_stopped(tiny, tmp_path, family, keys):
    whole = start(tiny(family), **keys)
    begin = weights_of(whole)
    losses = [whole.advance() for _ in range(6)]
    assert not same(begin, weights_of(whole))
    for stop in (1, 4):
        before = start(tiny(family), **keys)
        assert [before.advance() for _ in range(stop)] == losses[:stop]
        path = write_state(tmp_path / str(stop), before.step, before.state())
        torch.manual_seed(999)
        after = start(tiny(family), **keys)
        after.restore(read_state(path, tmp_path / "aside"))
        assert after.step == stop
        # An evaluation in between, or whatever else uses random numbers, changes nothing.
        after.body.model.eval()
        torch.rand(3)
        assert [after.advance() for _ in range(6 - stop)] == losses[stop:]
        assert same(weights_of(after), weights_of(whole))
        assert all(torch.equal(after.state()[name], value) for name, value in whole.state().items())


@pytest.mark.parametrize("method", ["lora", "full"])
@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
def test_a_kept_trunk_changes_nothing(tiny, family, method):
    found = []
    for trunk in (False, True):
        tuner = start(tiny(family), method=method, trunk=trunk, dropout=0, lr=1e-3)
        losses = [tuner.advance() for _ in range(5)]
        found.append((losses, weights_of(tuner)))
    (plain_losses, plain), (losses, weights) = found
    assert losses == pytest.approx(plain_losses, abs=1e-4)
    # A bias of keys has no gradient, for softmax does not see it; Adam makes steps of whatever rounding leaves of it.
    names = [name for name in plain if not name.endswith("k_proj.bias")]
    assert max(float((plain[name] - weights[name]).abs().max()) for name in names) < 1e-4


def test_seeds_decide(tiny):
    first, again, other = (start(tiny(), seed=seed) for seed in (3, 3, 4))
    for tuner in (first, again, other):
        for _ in range(3):
            tuner.advance()
    assert same(weights_of(first), weights_of(again))
    assert not same(weights_of(first), weights_of(other))


def test_training_learns(tiny):
    tuner = start(tiny(), steps=60, dropout=0)
    losses = [tuner.advance() for _ in range(60)]
    assert sum(losses[-5:]) < 0.2 * sum(losses[:5])


def test_micro_batches_add_up(tiny):
    found = []
    for micro in (None, 2, 1):
        tuner = start(tiny(), micro_batch=micro, dropout=0, lr=1e-3)
        losses = [tuner.advance() for _ in range(3)]
        found.append((losses, weights_of(tuner)))
    for losses, weights in found[1:]:
        assert losses == pytest.approx(found[0][0], abs=1e-4)
        assert max(float((weights[name] - found[0][1][name]).abs().max()) for name in weights) < 1e-4


def test_dropout_works_where_weights_are_adapted_only(tiny):
    language_model = tiny("opt")
    for module in language_model.model.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.3
    tuner = start(language_model, method="full", trunk=False)
    tuner.advance()
    layers = language_model.model.model.decoder.layers
    assert [layer.training for layer in layers] == [False, False, True, True]
    assert not language_model.model.model.decoder.training
    everything = start(tiny("opt"), method="full", layers="all")
    everything.advance()
    assert all(module.training for module in everything.body.model.modules())


def test_the_trunk_is_the_same_with_dropout_in_the_model(tiny):
    """Frozen layers drop nothing out, so their states may be kept although the model has dropout."""
    found = []
    for trunk in (True, False):
        language_model = tiny("opt")
        for layer in language_model.model.model.decoder.layers[:2]:
            layer.dropout = 0.5
        tuner = start(language_model, trunk=trunk, dropout=0, lr=1e-3)
        found.append([tuner.advance() for _ in range(3)])
    assert found[0] == pytest.approx(found[1], abs=1e-4)


def test_a_loss_that_is_no_number(tiny):
    tuner = start(tiny(), trunk=False)
    with torch.no_grad():
        next(iter(tuner.weights.values())).fill_(math.nan)
    with pytest.raises(InputError, match=r"step 0: the loss is nan; lower recipe\.lr, or train in float32"):
        tuner.advance()


def test_a_state_of_another_recipe_is_refused(tiny):
    state = start(tiny()).state()
    with pytest.raises(InputError, match="belongs to another model or recipe"):
        start(tiny(), layers=1).restore(state)


def test_the_learning_rate_reaches_the_optimiser(tiny):
    tuner = start(tiny(), schedule="linear", warmup=0.5, lr=0.01)
    seen = []
    for _ in range(8):
        tuner.advance()
        seen.append(tuner.optimiser.param_groups[0]["lr"])
    assert seen == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.0075, 0.005, 0.0025])


def test_gradients_are_clipped(tiny):
    # With plain gradient descent a step is as long as the learning rate times the norm that is allowed.
    tuner = start(tiny(), optimiser="sgd", betas=(0.0, 0.9), clip=1e-3, lr=1.0, dropout=0)
    before = weights_of(tuner)
    tuner.advance()
    moved = sum(float((weight - before[name]).square().sum()) for name, weight in weights_of(tuner).items())
    assert math.sqrt(moved) == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@given(st.integers(1, 300), st.floats(0, 1))
def test_schedules(schedule, steps, warmup):
    rates = [rate(step, steps, schedule, warmup) for step in range(steps)]
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
    order = [i for step in range(steps) for i in example_positions(n, batch, step, seed, keep_order)]
    for epoch in range(3):
        part = order[epoch * n : (epoch + 1) * n]
        assert sorted(part) == list(range(n))
        if keep_order:
            assert part == list(range(n))


def test_epochs_differ_in_order():
    first, second = (example_positions(50, 50, step, 0, False) for step in (0, 1))
    assert first != second
    assert first != example_positions(50, 50, 0, 1, False)


def test_streams_differ():
    assert len({stream(seed, purpose, step) for seed in range(5) for purpose in range(3) for step in range(5)}) == 75
