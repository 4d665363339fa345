"""Batches side by side on a CPU: every thread computes batches of its own, with a copy of the modules.

Two threads that share every matrix product of a few hundred rows wait for each other; with a batch each they do not.
What a batch gives then does not depend on the number of threads either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import TypeVar

import torch

from breadth.lm.split_model import SplitModel

T = TypeVar("T")
R = TypeVar("R")


def lane_count(model: SplitModel) -> int:
    """How many batches are computed side by side."""
    return torch.get_num_threads() if model.is_copyable else 1


def map_in_lanes(
    model: SplitModel,
    compute: Callable[[SplitModel, T], R],
    batches: Sequence[T],
    *,
    keep: bool = True,
    done: Callable[[T], None] | None = None,
) -> list[R]:
    """What ``compute`` gives for every batch, in their order; ``done`` is called with each as results arrive.

    Packed weights of frozen modules are kept for the next call unless ``keep`` is false.
    """
    if not batches:
        return []
    results = []
    with ExitStack() as stack:
        models = [model]
        if model.is_copyable:
            models += [model.twin() for _ in range(min(torch.get_num_threads(), len(batches)) - 1)]
            stack.enter_context(_one_thread_each())
        for each in models:
            stack.enter_context(each.packed.enabled(keep))
        for batch, result in zip(batches, _results(models, compute, batches), strict=True):
            results.append(result)
            if done:
                done(batch)
    return results


def _results(models: list[SplitModel], compute: Callable[[SplitModel, T], R], batches: Sequence[T]) -> Iterator[R]:
    if len(models) == 1:
        yield from (compute(models[0], batch) for batch in batches)
        return
    free: SimpleQueue[SplitModel] = SimpleQueue()
    for model in models:
        free.put(model)

    def with_any(batch: T) -> R:
        model = free.get()
        try:
            return compute(model, batch)
        finally:
            free.put(model)

    # Threads of OpenMP are counted by the thread that starts them.
    with ThreadPoolExecutor(len(models), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.map(with_any, batches)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
