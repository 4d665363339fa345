import torch
from hypothesis import given
from hypothesis import strategies as st

from breadth.lm.batches import make_batch, pad_states, plan_batches


@given(st.lists(st.integers(1, 60), max_size=80), st.integers(1, 200))
def test_every_sequence_once_within_the_budget(lengths, tokens):
    plan = plan_batches(lengths, tokens)
    assert sorted(i for batch in plan for i in batch) == list(range(len(lengths)))
    for batch in plan:
        # A sequence that is longer than the budget goes alone.
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= tokens
    firsts = [lengths[batch[0]] for batch in plan]
    assert firsts == sorted(firsts, reverse=True)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(1, 200))
def test_no_batch_could_have_taken_the_next_sequence(lengths, tokens):
    plan = plan_batches(lengths, tokens)
    for batch in plan[:-1]:
        assert (len(batch) + 1) * lengths[batch[0]] > tokens


@given(st.lists(st.lists(st.integers(1, 99), min_size=1, max_size=9), min_size=1, max_size=9))
def test_padding_stands_on_the_right(sequences):
    index = list(range(len(sequences)))[::-1]
    batch = make_batch(sequences, index, "cpu")
    for row, i in enumerate(index):
        length = int(batch.lengths[row])
        assert batch.ids[row, :length].tolist() == sequences[i]
        assert not batch.ids[row, length:].any()
    assert batch.ids.shape == (len(sequences), max(map(len, sequences)))


def test_states_are_padded_with_zeros():
    first, second = torch.ones(2, 3), torch.ones(4, 3)
    padded = pad_states([first, second])
    assert padded.shape == (2, 4, 3)
    assert padded[0, 2:].abs().sum() == 0
    assert torch.equal(padded[1], second)
