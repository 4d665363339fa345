"""Faster forward passes with the same results: less work in the last block, and packed weights on a CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from breadth.lm.layers import GatedFeedForward, feed_forward_of, gated_feed_forward, query_projections
from breadth.lm.placement import available_memory

#: Products with fewer rows are left alone: packing the weights would take longer than it saves.
PACKED_ROWS = 32
#: Rows of hidden states that weights are packed for: those of a full batch. The layout, and with it the rounding, must
#: not depend on which batch happens to be first.
PACKED_FOR = 512
#: Share of the free memory that packed copies of weights may take.
PACKED_SHARE = 0.25


@contextmanager
def replaced_forward(module: nn.Module, by: Callable[..., Any]) -> Iterator[None]:
    """Replace a module's forward by ``by``, which gets the original as its first argument; these may be nested."""
    own = module.__dict__.get("forward")  # accelerate puts one there
    forward = module.forward
    module.__dict__["forward"] = lambda *args, **kwargs: by(forward, *args, **kwargs)
    try:
        yield
    finally:
        del module.__dict__["forward"]
        if own is not None:
            module.__dict__["forward"] = own


class Positions(NamedTuple):
    """Positions in a batch: ``tokens[k]`` of sequence ``rows[k]``."""

    rows: list[int]
    tokens: list[int]


class SparseBlock:
    """The last block, computed only at the positions whose result is read, as far as nothing passes between tokens.

    Above the last attention nothing does, so the feed-forward part of a token that is not read changes nothing. Most of
    a block's weights are there: with four trained blocks this saves about a fifth of the time. Within the attention,
    keys and values serve other tokens, but queries and output do not; these are skipped without gradients only, so that
    dropout in training draws the same random numbers as ever.

    The feed-forward part consists either of modules that work token by token (whatever they are called: this is
    tested), or of two linear modules of the block itself with an activation between them, as in OPT. Otherwise all of
    it is computed.
    """

    def __init__(self, block: nn.Module, width: int, dtype: torch.dtype) -> None:
        modules, linear = feed_forward_of(block)
        self._modules = [module for module in modules if _works_by_token(module, width, dtype)]
        self._pair = linear if len(linear) == 2 and not modules else []
        self._queries = query_projections(block)

    @property
    def supported(self) -> bool:
        """Whether the feed-forward part can be skipped."""
        return bool(self._modules or self._pair)

    def disable(self) -> None:
        """Compute everything from now on."""
        self._modules, self._pair, self._queries = [], [], []

    @contextmanager
    def at(self, positions: Positions | None, shape: torch.Size) -> Iterator[None]:
        """Compute only these positions of a batch [sequences, tokens]; elsewhere the modules give zeros."""
        if positions is None:
            yield
            return
        with ExitStack() as stack:
            for module in [*self._modules, *([] if torch.is_grad_enabled() else self._queries)]:
                stack.enter_context(replaced_forward(module, _Rows(positions, shape).around))
            if self._pair:
                rows = _Rows(positions, shape)
                stack.enter_context(replaced_forward(self._pair[0], rows.first))
                stack.enter_context(replaced_forward(self._pair[1], rows.second))
            yield


class _Rows:
    """Selects rows of hidden states, and puts their results back among zeros."""

    def __init__(self, positions: Positions, shape: torch.Size) -> None:
        # Sequences that begin alike may be read at the same token.
        self.index = torch.tensor(sorted({row * shape[1] + token for row, token in zip(*positions, strict=True)}))
        self.count = shape.numel()
        self.shape: torch.Size | None = None

    def select(self, hidden: torch.Tensor) -> torch.Tensor | None:
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
        some = self.select(hidden)
        if some is None:
            return forward(hidden, *args, **kwargs)
        out = forward(some[None], *args, **kwargs)
        # A mixture of experts may also return the choices of its router, which are not used here.
        return (self.put_back(out[0]), *out[1:]) if isinstance(out, tuple) else self.put_back(out)

    def first(self, forward: Callable[..., Any], hidden: torch.Tensor) -> Any:
        """The first of two linear modules; between them there are fewer rows."""
        some = self.select(hidden)
        return forward(hidden if some is None else some)

    def second(self, forward: Callable[..., Any], hidden: torch.Tensor) -> Any:
        """The second of two linear modules."""
        out = forward(hidden)
        return out if self.shape is None else self.put_back(out)


def _works_by_token(module: nn.Module, width: int, dtype: torch.dtype) -> bool:
    """Test whether a module's result for a token is independent of the other tokens."""
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
        return False  # its input is not hidden states
    finally:
        module.train(training)


class PackedWeights:
    """Weights of a model's linear modules, laid out once for oneDNN instead of by every matrix product.

    Evaluation is almost entirely products of hidden states with weights. The layout that oneDNN wants does not depend
    on the hidden states, and weights do not change while a checkpoint is evaluated. Results equal those of the plain
    product up to rounding. Packed weights of frozen modules are kept from one use to the next.

    ``precision`` is that of the products: float32, or bfloat16 inside ``rounded``. A model that computes under autocast
    is not ``allowed``: packed products would be more precise than those that it is trained with.
    """

    def __init__(self, model: nn.Module, *, allowed: bool = True) -> None:
        self.model = model
        self.supported = allowed and _has_onednn()
        self.precision = torch.float32
        self._unchanged = False
        self._gated = [parts for module in model.modules() if (parts := gated_feed_forward(module))]
        #: By the parameter that they are copies of, then by precision.
        self.weights: dict[torch.Tensor, dict[torch.dtype, torch.Tensor]] = {}

    @contextmanager
    def enabled(self, keep: bool = True) -> Iterator[None]:
        """Inside this context, linear modules in float32 on the CPU use packed weights, without gradients.

        Weights are packed when a module is first used. The copies are as large as the weights: without enough memory,
        or without oneDNN, nothing changes. With ``keep=False`` no copy outlives the context, which suits single passes.
        """
        modules = [module for module in self.model.modules() if type(module) is nn.Linear and _is_suited(module.weight)]
        self._drop_changed()
        new = [module.weight for module in modules if self.precision not in self.weights.get(module.weight, {})]
        size = sum(weight.numel() * self.precision.itemsize for weight in new)
        with ExitStack() as stack:
            if self.supported and size <= PACKED_SHARE * available_memory():
                gated = [parts for parts in self._gated if parts.is_plain and _is_suited(parts.gate.weight)]
                for module in modules:
                    stack.enter_context(replaced_forward(module, partial(self._multiply, module)))
                for parts in gated:
                    stack.enter_context(replaced_forward(parts.module, partial(self._feed_forward, parts)))
                stack.callback(self._drop_changed)
                for weight in () if keep else new:
                    stack.callback(self.weights.pop, weight, None)
            yield

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Inside this context no weight changes, so packed copies of trained ones are kept to its end as well."""
        self._drop_changed()
        self._unchanged = True
        try:
            yield
        finally:
            self._unchanged = False
            self._drop_changed()

    def _drop_changed(self) -> None:
        """Drop packed copies of weights that training may have changed since, or will."""
        for weight in [] if self._unchanged else [weight for weight in self.weights if weight.requires_grad]:
            del self.weights[weight]

    @contextmanager
    def rounded(self) -> Iterator[None]:
        """Inside this context, factors and results of products with packed weights are rounded to bfloat16."""
        self.precision = torch.bfloat16
        try:
            yield
        finally:
            self.precision = torch.float32

    def test(self, same: Callable[[], bool]) -> None:
        """Disable packing if ``same`` is false with it, or if this machine cannot do it."""
        if not self.supported:
            return
        try:
            with self.enabled():
                self.supported = same()
        except RuntimeError:
            self.supported = False

    def _multiply(self, module: nn.Linear, plain: Callable[..., Any], hidden: torch.Tensor) -> Any:
        if not _is_worth_packing(hidden):
            return plain(hidden)
        return self._product(hidden.to(self.precision), module).to(hidden.dtype)

    def _feed_forward(self, parts: GatedFeedForward, plain: Callable[..., Any], hidden: torch.Tensor) -> Any:
        """All of a gated feed-forward part in one precision: fewer passes over the memory, and fewer roundings."""
        if not _is_worth_packing(hidden):
            return plain(hidden)
        rounded = hidden.to(self.precision)
        gate = self._product(rounded, parts.gate, *parts.activation)
        gated = torch.ops.mkldnn._linear_pointwise.binary(rounded, gate, *self._packed(parts.up), "mul")
        return self._product(gated, parts.down).to(hidden.dtype)

    def _product(
        self, rounded: torch.Tensor, module: nn.Linear, function: str = "none", variant: str = ""
    ) -> torch.Tensor:
        """A linear module's result, followed by an activation function, in the precision of its input."""
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(
            rounded, *self._packed(module), function, [], variant
        )
        return product

    def _packed(self, module: nn.Linear) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Weight and bias in the current precision."""
        packed = self.weights.setdefault(module.weight, {})
        if self.precision not in packed:
            rounded = module.weight.detach().to(self.precision)
            packed[self.precision] = torch.ops.mkldnn._reorder_linear_weight(rounded, PACKED_FOR)
        return packed[self.precision], None if module.bias is None else module.bias.to(self.precision)


def _is_worth_packing(hidden: torch.Tensor) -> bool:
    """Whether products with these hidden states use packed weights."""
    rows = hidden.shape[:-1].numel()
    return rows >= PACKED_ROWS and hidden.dtype is torch.float32 and not torch.is_grad_enabled()


def _is_suited(weight: torch.Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype is torch.float32


def _has_onednn() -> bool:
    """Whether this build of torch has the packed products, which are not part of its stable interface."""
    products = ("_reorder_linear_weight", "_linear_pointwise")
    return torch._C._has_mkldnn and all(hasattr(torch.ops.mkldnn, name) for name in products)
