"""One thread for the linear-algebra library while breadth computes.

The products here are many and small. A threaded BLAS spends more time handing them out than computing them, and stalls
when another process holds a core: a calibration of 5,000 x 10,000 answers was seen to take 7 s instead of 0.3 s.
breadth uses threads of its own where there is enough to share out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")

_controller = cache(ThreadpoolController)


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run ``function`` with a single BLAS thread, and give the others back afterwards."""

    @wraps(function)
    def single(*args: P.args, **kwargs: P.kwargs) -> R:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return single
