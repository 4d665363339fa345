"""Less work in the last block: its feed-forward part is computed only where the result is read.

Above the last attention nothing passes from one token to another, so what the feed-forward part makes of a token that
nobody reads changes nothing. Most of a block's weights are there: of four trained blocks this saves about a fifth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from breadth.lm.layers import feed_forward_of
from breadth.lm.replacing import replaced


class Places(NamedTuple):
    """Places in a batch: ``tokens[k]`` of sequence ``rows[k]``."""

    rows: list[int]
    tokens: list[int]


class Narrow:
    """The feed-forward part of a block, which can be told to compute some places only.

    It is either modules that work token by token (this is tried out, whatever they are called), or two linear modules
    of the block itself with an activation between them, as in OPT. Where it is neither, everything is computed.
    """

    def __init__(self, block: nn.Module, width: int, dtype: torch.dtype) -> None:
        modules, linear = feed_forward_of(block)
        self._whole = [module for module in modules if _token_by_token(module, width, dtype)]
        self._chain = linear if len(linear) == 2 and not modules else []

    @property
    def works(self) -> bool:
        """Whether there is anything to save."""
        return bool(self._whole or self._chain)

    def give_up(self) -> None:
        """Compute everything from now on."""
        self._whole, self._chain = [], []

    @contextmanager
    def to(self, places: Places | None, shape: torch.Size) -> Iterator[None]:
        """Compute only these places of a batch [sequences, tokens]; elsewhere the feed-forward part gives zeros."""
        if places is None or not self.works:
            yield
            return
        with ExitStack() as stack:
            for module in self._whole:
                stack.enter_context(replaced(module, _Rows(places, shape).around))
            if self._chain:
                rows = _Rows(places, shape)
                stack.enter_context(replaced(self._chain[0], rows.before))
                stack.enter_context(replaced(self._chain[1], rows.after))
            yield


class _Rows:
    """Picks rows of hidden states, and puts what became of them back among zeros."""

    def __init__(self, places: Places, shape: torch.Size) -> None:
        self.index = torch.tensor([row * shape[1] + token for row, token in zip(*places, strict=True)])
        self.count = shape.numel()
        self.shape: torch.Size | None = None

    def pick(self, hidden: torch.Tensor) -> torch.Tensor | None:
        """The rows, if these are hidden states of the whole batch, with or without a dimension for sequences."""
        self.shape = hidden.shape if hidden.shape[:-1].numel() == self.count else None
        return None if self.shape is None else hidden.reshape(self.count, -1)[self.index.to(hidden.device)]

    def put_back(self, some: torch.Tensor) -> torch.Tensor:
        assert self.shape is not None
        width = some.shape[-1]
        zeros = some.new_zeros((self.count, width))
        whole = zeros.index_copy(0, self.index.to(some.device), some.reshape(-1, width))
        return whole.reshape(*self.shape[:-1], width)

    def around(self, forward: Callable[..., Any], hidden: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """A module that works token by token."""
        some = self.pick(hidden)
        if some is None:
            return forward(hidden, *args, **kwargs)
        out = forward(some[None], *args, **kwargs)
        # A mixture of experts may return what its router chose, too; nobody asks for that here.
        return (self.put_back(out[0]), *out[1:]) if isinstance(out, tuple) else self.put_back(out)

    def before(self, forward: Callable[..., Any], hidden: torch.Tensor) -> Any:
        """The first of two linear modules; in between there are fewer rows."""
        some = self.pick(hidden)
        return forward(hidden if some is None else some)

    def after(self, forward: Callable[..., Any], hidden: torch.Tensor) -> Any:
        """The second of two linear modules."""
        out = forward(hidden)
        return out if self.shape is None else self.put_back(out)


def _token_by_token(module: nn.Module, width: int, dtype: torch.dtype) -> bool:
    """Try out whether a module does the same to a token whatever stands beside it."""
    training = module.training
    module.eval()
    device = next(module.parameters()).device
    hidden = torch.linspace(-1, 1, 4 * width, dtype=torch.float32, device=device).reshape(1, 4, width).sin().to(dtype)
    try:
        with torch.inference_mode():
            whole, some = module(hidden), module(hidden[:, 2:])
        whole, some = ((out[0] if isinstance(out, tuple) else out).float() for out in (whole, some))
        return bool((whole[:, 2:] - some).abs().max() <= 1e-2 * (1e-6 + whole.abs().max()))
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False  # it wants something else than hidden states, so it is none of ours
    finally:
        module.train(training)
