import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from breadth.lm.batches import TREE_TOKENS, make_batch, make_batches, plan_batches, plan_trees

SEQUENCES = st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=12), min_size=1, max_size=20)


@given(st.lists(st.integers(1, 60), max_size=80), st.integers(1, 200))
def test_every_sequence_once_within_the_budget(lengths, tokens):
    plan = plan_batches(lengths, tokens)
    assert sorted(i for batch in plan for i in batch) == list(range(len(lengths)))
    for batch in plan:
        # A sequence longer than the budget is a batch of its own.
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= tokens
    firsts = [lengths[batch[0]] for batch in plan]
    assert firsts == sorted(firsts, reverse=True)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(1, 200))
def test_no_batch_could_have_taken_the_next_sequence(lengths, tokens):
    plan = plan_batches(lengths, tokens)
    for batch in plan[:-1]:
        assert (len(batch) + 1) * lengths[batch[0]] > tokens


@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=9))
def test_padding_is_on_the_right(sequences):
    index = list(range(len(sequences)))[::-1]
    batch = make_batch(sequences, index, "cpu")
    for row, i in enumerate(index):
        length = len(sequences[i])
        assert batch.ids[row, :length].tolist() == sequences[i]
        assert not batch.ids[row, length:].any()
    assert batch.ids.shape == (len(sequences), max(map(len, sequences)))


@given(SEQUENCES, st.integers(1, 64), st.none() | st.integers(1, 12))
def test_every_sequence_is_in_one_tree_and_long_ones_are_alone(sequences, width, longest):
    trees = plan_trees(sequences, width, longest)
    assert sorted(i for tree in trees for i in tree) == list(range(len(sequences)))
    for tree in trees:
        if len(tree) > 1 and longest is not None:
            assert max(len(sequences[i]) for i in tree) <= longest


@given(SEQUENCES, st.integers(1, 64), st.integers(1, 60))
def test_trees_hold_their_sequences_and_only_what_leads_to_a_token_is_seen(sequences, width, tokens):
    batches = make_batches(sequences, "cpu", tokens, plan_trees(sequences, width))
    assert sorted(i for batch in batches for i in batch.index) == list(range(len(sequences)))
    assert sum(batch.paths is None for batch in batches) <= len(sequences)
    for batch in batches:
        for k, i in enumerate(batch.index):
            rows, columns = batch.places(k, range(len(sequences[i])))
            assert batch.ids[list(rows), list(columns)].tolist() == sequences[i]
        if batch.paths is None:
            continue
        inputs = batch.tree_inputs(torch.float32)
        seen = inputs["attention_mask"][:, 0] == 0
        for k, i in enumerate(batch.index):
            rows, columns = batch.places(k, range(len(sequences[i])))
            row = next(iter(rows))
            for t, column in enumerate(columns):
                assert inputs["position_ids"][row, column] == t
                assert np.flatnonzero(seen[row, column]).tolist() == sorted(list(columns)[: t + 1])


def test_trees_are_made_where_they_save():
    shared = [*range(100, 140)]
    options = [[*shared, k, k + 1, k + 2] for k in range(4)]
    assert [sorted(tree) for tree in plan_trees(options, 576)] == [[0, 1, 2, 3]]
    # One common token is not worth a mask.
    assert len(plan_trees([[1, *range(k, k + 40)] for k in range(10, 60)], 576)) == 50
    # Few-shot prompts share their examples, in trees of the size at which each costs least.
    prompts = [[*range(400), *range(1000 * k, 1000 * k + 40)] for k in range(1, 101)]
    sizes = [400 + 40 * len(tree) for tree in plan_trees(prompts, 576)]
    assert max(sizes) <= 400 + (400**2 + 2 * 400 * 576) ** 0.5 < max(sizes) + 40
    assert all(len(tree) == 1 for tree in plan_trees(prompts, 576, longest=439))
    long = [[*range(TREE_TOKENS - 16), *range(k, k + 8)] for k in range(20_000, 20_050)]
    assert max(len(tree) for tree in plan_trees(long, 4096)) == 2
