"""Faster matrix products on a CPU: weights laid out once for oneDNN, instead of anew by every product.

Asking a model is almost nothing but products of hidden states with the weights of its linear modules. How the product
wants the weights to lie in memory does not depend on the hidden states, and weights stand still while a checkpoint is
examined. The results are those of the plain product up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from breadth.lm.memory import available_memory
from breadth.lm.replacing import replaced

#: Products with fewer rows are left alone: laying out the weights would take longer than it saves.
ROWS = 32
#: The copies may take this share of the memory that is free.
SHARE = 0.25


class Packing:
    """The packed weights of a model's linear modules; those of frozen modules are kept from one use to the next."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.works = _has_products()
        self._frozen: dict[int, torch.Tensor] = {}

    @contextmanager
    def on(self, keep: bool = True) -> Iterator[None]:
        """While this lasts, linear modules in float32 on the CPU multiply with packed weights, without gradients.

        A module's weights are packed when it is first used, so what is never asked costs nothing. The copies are as
        large as the weights; where memory has no room for them, or oneDNN is missing, everything stays as it was.
        Without ``keep`` no copy outlasts it, which is right for what is done once.
        """
        modules = [module for module in self.model.modules() if type(module) is nn.Linear and _suits(module.weight)]
        size = sum(module.weight.nbytes for module in modules) - sum(kept.nbytes for kept in self._frozen.values())
        with ExitStack() as stack:
            if self.works and size <= SHARE * available_memory():
                for module in modules:
                    stack.enter_context(replaced(module, self._product(module, keep)))
            yield

    def try_out(self, same: Callable[[], bool]) -> None:
        """Give packing up where ``same``, done with it, is not true, or where this machine cannot do it."""
        try:
            with self.on():
                self.works = same()
        except RuntimeError:
            self.works = False

    def _product(self, module: nn.Linear, keep: bool) -> Callable[..., Any]:
        weight = None if module.weight.requires_grad else self._frozen.get(id(module))

        def multiply(plain: Callable[..., Any], hidden: torch.Tensor) -> Any:
            nonlocal weight
            rows = hidden.shape[:-1].numel()
            if rows < ROWS or hidden.dtype is not torch.float32 or torch.is_grad_enabled():
                return plain(hidden)
            if weight is None:
                weight = torch.ops.mkldnn._reorder_linear_weight(module.weight.detach(), rows)
                if keep and not module.weight.requires_grad:
                    self._frozen[id(module)] = weight
            return torch.ops.mkldnn._linear_pointwise(hidden, weight, module.bias, "none", [], "")

        return multiply


def _suits(weight: torch.Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype is torch.float32


def _has_products() -> bool:
    """Whether this build of torch has the products; they are not among what it promises to keep."""
    products = ("_reorder_linear_weight", "_linear_pointwise")
    return torch._C._has_mkldnn and all(hasattr(torch.ops.mkldnn, name) for name in products)
