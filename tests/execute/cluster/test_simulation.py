"""Simulated clusters: what must hold of any schedule."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breadth.execute.cluster.simulation import Costs, simulate
from breadth.execute.cluster.tasks import Chain, cut

CELLS = cut({"a": 400, "b": 200})
ITEMS = 600


def chains(runs=1, checkpoints=9, every=4):
    return [Chain(f"r{k}", "g", "s", CELLS, tuple(every * i for i in range(checkpoints))) for k in range(runs)]


def test_one_worker_takes_as_long_as_the_work():
    costs = Costs(load=5, trunk=0.1, answer=0.05, step=1.0)
    seconds = simulate(chains(2), {"g": costs}, {"s": 1}).seconds
    work = 5 + ITEMS * 0.1 + 2 * 9 * ITEMS * 0.05 + 2 * 32 * 1.0
    assert seconds == pytest.approx(work, rel=0.02)


@pytest.mark.parametrize("trunk", [0.0, 0.1])
def test_two_workers_share_a_single_run(trunk):
    costs = {"g": Costs(load=2, trunk=trunk, answer=0.05, step=1.0)}
    one, two = (simulate(chains(), costs, {"s": workers}).seconds for workers in (1, 2))
    assert one / two > 1.8


def test_no_number_of_workers_is_faster_than_the_longest_chain():
    costs = {"g": Costs(load=2, trunk=0, answer=0.001, step=10.0)}
    many = simulate(chains(), costs, {"s": 64})
    assert many.seconds >= many.chain
    assert many.seconds < 1.1 * many.chain
    assert many.limit == "the longest training chain"
    assert simulate(chains(8), {"g": Costs(2, 0, 1.0, 0.1)}, {"s": 4}).limit == "the number of workers"


@given(
    st.integers(1, 4), st.integers(1, 6), st.floats(0, 0.5), st.floats(0.001, 0.5), st.floats(0.001, 5.0),
    st.integers(1, 9),
)  # fmt: skip
@settings(max_examples=40)
def test_workers_are_never_idle_for_long_while_work_waits(runs, checkpoints, trunk, answer, step, workers):
    costs = {"g": Costs(load=1.0, trunk=trunk, answer=answer, step=step)}
    result = simulate(chains(runs, checkpoints), costs, {"s": workers})
    work = runs * (checkpoints * ITEMS * answer + 4 * (checkpoints - 1) * step) + workers * (1 + ITEMS * trunk)
    slack = 130 + 2 * ITEMS * (trunk + answer) / workers + 16 * 4 * step
    assert result.seconds <= work / workers + result.chain + slack


def test_no_work():
    result = simulate([], {}, {"s": 3})
    assert (result.seconds, result.tasks) == (0.0, 0)
