"""A causal language model cut in two: the trunk below the adapted layers, and the top that training changes.

What the trunk computes for an item never changes during training, so it is computed once and kept; every training
step and every checkpoint then runs the top only. The cut works for any decoder whose layers stand in one list: the
list is exchanged for one of the same length, in which the first layer hands out the kept states and the others below
the cut pass them on. Masks, positions and layer kinds stay the model's own business.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from breadth.lm.batches import Batch, make_batch
from breadth.lm.layers import base_model_of, causal_model_of, decoder_layers, head_of
from breadth.lm.narrowing import Narrow, Places
from breadth.lm.packing import ROWS, Packing


class _Stand(nn.Module):
    """Stands in for a layer: answers for its attributes, but is not its parent."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self._replaced = [layer]  # in a list, so that it does not become a submodule

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_replaced"][0], name)


class _Pass(_Stand):
    """Passes hidden states on unchanged."""

    def forward(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return hidden


class _Inject(_Stand):
    """Forgets what comes in and hands out the kept states."""

    kept: torch.Tensor | None = None

    def forward(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        assert self.kept is not None
        return self.kept.to(hidden.dtype)


class _Record(_Stand):
    """Keeps what comes in, and passes it on."""

    seen: torch.Tensor | None = None

    def forward(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.seen = hidden
        return hidden


class Body:
    """A model without its head; ``top`` is the number of layers above the cut, None if it is not cut."""

    def __init__(self, model: Any, top: int | None = None) -> None:
        self.model = model
        self.base = base_model_of(model)
        self.head = head_of(model)
        config = causal_model_of(model).config.get_text_config(decoder=True)
        self._softcap = getattr(config, "final_logit_softcapping", None)
        # Cohere multiplies by a scale, Granite divides by one.
        self._scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1)
        self._parent, self._attribute, layers = decoder_layers(model)
        self.layers = layers
        self.packing = Packing(model)
        self._narrow = Narrow(layers[-1], config.hidden_size, self.head.weight.dtype)
        self.top = top
        cut = 0 if top is None else len(layers) - top
        self.cut = cut > 0
        if self.cut:
            self._inject = _Inject(layers[0])
            self._record = _Record(layers[cut])
            below, above = list(layers[:cut]), list(layers[cut:])
            passes = [_Pass(layer) for layer in layers]
            self._upper = nn.ModuleList([self._inject, *passes[1:cut], *above])
            self._lower = nn.ModuleList([*below, self._record, *passes[cut + 1 :]])

    @contextmanager
    def _with(self, layers: nn.ModuleList) -> Iterator[None]:
        setattr(self._parent, self._attribute, layers)
        try:
            yield
        finally:
            setattr(self._parent, self._attribute, self.layers)

    def _run(self, ids: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.base(input_ids=ids, use_cache=False).last_hidden_state
        return hidden

    def trunk(self, batch: Batch) -> torch.Tensor:
        """Hidden states [sequences, tokens, width] just below the cut; nothing is dropped out."""
        self.model.eval()
        with torch.no_grad(), self._with(self._lower):
            self._run(batch.ids)
        seen, self._record.seen = self._record.seen, None
        assert seen is not None
        return seen

    def trunk_bytes(self, tokens: int) -> int:
        """Bytes that the trunk's states of so many tokens take."""
        config, weight = causal_model_of(self.model).config.get_text_config(decoder=True), self.head.weight
        return int(tokens * config.hidden_size * weight.element_size())

    def features(self, batch: Batch, read: Places | None = None) -> torch.Tensor:
        """Final hidden states [sequences, tokens, width]: through the top alone where the batch has trunk states.

        With ``read`` only these places hold what they should: the last block's feed-forward part skips the others.
        """
        with self._narrow.to(read, batch.ids.shape):
            if batch.states is None:
                return self._run(batch.ids)
            self._inject.kept = batch.states
            try:
                with self._with(self._upper):
                    return self._run(batch.ids)
            finally:
                self._inject.kept = None

    def logits(self, hidden: torch.Tensor, tokens: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of some tokens (by default of all) for hidden states [..., width]: the head's own rows, no others."""
        weight, bias = self.head.weight, getattr(self.head, "bias", None)
        if tokens is not None:
            weight, bias = weight[tokens], None if bias is None else bias[tokens]
        out = nn.functional.linear(hidden.to(weight.device), weight, bias)
        if self._scale != 1:
            out = out * self._scale
        if self._softcap is not None:
            out = torch.tanh(out / self._softcap) * self._softcap
        return out.float()

    def agrees(self, ids: list[int], tolerance: float = 1e-2) -> bool:
        """Whether this reading of the model gives the logits that the model itself gives for one sequence.

        Every way of reading it is tried: plain, through kept trunk states, at the last token only, and with packed
        weights. The last two are given up where they differ; the others must agree.
        """
        copies = -(-ROWS // len(ids))  # as many as make packing worth while
        batch = make_batch([ids] * copies, list(range(copies)), next(self.model.parameters()).device)
        self.model.eval()
        with torch.inference_mode():
            own = self.model(input_ids=batch.ids[:1], use_cache=False).logits[0, -1].float()

            def same(read: Places | None = None) -> bool:
                ours = self.logits(self.features(batch, read)[0, -1])
                return bool((own.to(ours.device) - ours).abs().max() <= tolerance * (1 + own.abs().max()))

            plain = same()
            if self.cut:
                batch.states = self.trunk(batch)
                plain = plain and same()
            if plain and not same(Places([0], [len(ids) - 1])):
                self._narrow.give_up()
            if plain:
                self.packing.try_out(same)
            return plain
