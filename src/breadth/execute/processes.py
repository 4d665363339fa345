"""The processes of a training that uses torch.distributed: the first one reads and writes files for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch import distributed

from breadth.errors import InputError

_Value = TypeVar("_Value")


class Processes:
    """This process among those that train together; alone if there are no others.

    Every process must make the same calls in the same order.
    """

    def __init__(self) -> None:
        together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if together else 0
        self.size = distributed.get_world_size() if together else 1

    def first(self, work: Callable[[], _Value]) -> _Value:
        """What ``work`` returns in the first process, in all of them; an ``InputError`` is raised in all of them, too.

        Otherwise the others would wait for a process that has stopped.
        """
        outcome: list[Any] = [None, None]
        if self.rank == 0:
            try:
                outcome[0] = work()
            except InputError as error:
                if self.size == 1:
                    raise
                outcome[1] = str(error)
        if self.size > 1:
            distributed.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise InputError(outcome[1])
        value: _Value = outcome[0]
        return value

    def gather(self, value: _Value) -> list[_Value]:
        """The values of all processes, in all of them."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values
