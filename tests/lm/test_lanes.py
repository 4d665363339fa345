import threading
from contextlib import contextmanager

import pytest
import torch

from breadth import datasets
from breadth.lm.batches import Batch
from breadth.lm.evaluation import encode_testset, evaluate_model, keep_frozen_states
from breadth.lm.lanes import lane_count, map_in_lanes
from breadth.lm.layers import attach_lora
from breadth.lm.split_model import SplitModel


@contextmanager
def threads(count):
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
@pytest.mark.parametrize("kept", [False, True])
def test_the_number_of_threads_changes_no_bit(tiny, monkeypatch, family, kept):
    monkeypatch.setattr("breadth.lm.evaluation.tokens_per_batch", lambda device: 128)
    model = tiny(family)
    split = SplitModel(attach_lora(model.model, layers=2), 2)
    answers = []
    for count in (1, 2, 3):
        testsets = [encode_testset(model, datasets.load(name, items=12), context=256) for name in ("plain", "numbers")]
        assert min(len(testset.batches) for testset in testsets) > 1
        with threads(count):
            if kept:
                keep_frozen_states(split, testsets)
            answers.append(evaluate_model(model, split, testsets))
            assert torch.get_num_threads() == count
    assert answers[0].equals(answers[1])
    assert answers[0].equals(answers[2])


def test_every_thread_has_its_own_modules_and_shares_the_weights(tiny):
    split = SplitModel(tiny().model)
    meeting, seen = threading.Barrier(3, timeout=20), []

    def compute(model, number):
        if number < 3:
            meeting.wait()  # all three at the same time
            seen.append((model, threading.get_ident(), torch.get_num_threads()))
        return number

    arrived = []
    with threads(3):
        assert lane_count(split) == 3
        assert map_in_lanes(split, compute, range(8), done=arrived.append) == arrived == list(range(8))
    models, idents, counts = zip(*seen, strict=True)
    assert len({id(model.model) for model in models}) == len(set(idents)) == 3
    assert set(counts) == {1}
    pointers = [[weight.data_ptr() for weight in model.model.parameters()] for model in models]
    assert pointers[0] == pointers[1] == pointers[2]


def test_what_is_attached_to_modules_keeps_a_model_in_one_lane(tiny):
    split = SplitModel(tiny().model)
    with threads(4):
        assert lane_count(split) == 4
        hook = split.layers[0].register_forward_hook(lambda *_: None)
        assert lane_count(split) == 1
        assert map_in_lanes(split, lambda model, _: model, range(3)) == [split] * 3
        hook.remove()
        split.layers[0].forward = split.layers[0].forward  # as accelerate does
        assert lane_count(split) == 1
        assert lane_count(SplitModel(tiny().model, copies=False)) == 1


def test_packed_weights_are_shared_and_those_that_train_given_up(tiny):
    split = SplitModel(attach_lora(tiny().model, layers=1))
    ids = torch.ones((4, 16), dtype=torch.long)

    def compute(model, _):
        with torch.inference_mode():
            model.hidden_states(Batch([], ids))
        return model.packed.weights

    with threads(2):
        first, second = map_in_lanes(split, compute, range(2))
        assert first is second is split.packed.weights
        frozen = len(split.packed.weights)
        assert frozen
        assert not any(weight.requires_grad for weight in split.packed.weights)
        map_in_lanes(split, compute, range(2), keep=False)
        assert len(split.packed.weights) == frozen
        once = SplitModel(tiny().model)
        map_in_lanes(once, compute, range(2), keep=False)
        assert not once.packed.weights


def test_a_failure_ends_the_call_and_gives_the_threads_back(tiny):
    split = SplitModel(tiny().model)

    def compute(model, number):
        if number == 1:
            raise RuntimeError("no memory")

    with threads(2):
        with pytest.raises(RuntimeError, match="no memory"):
            map_in_lanes(split, compute, range(50))
        assert torch.get_num_threads() == 2
        assert lane_count(split) == 2
