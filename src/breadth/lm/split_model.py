"""A causal language model split in two: frozen layers below, and the top layers that training changes.

What the frozen layers compute for an item never changes during training, so their hidden states are computed once and
kept. Every training step and every checkpoint then runs the top only. The split works for any decoder whose layers are
in one list: the list is exchanged for one of the same length, in which the first layer returns the kept states and the
other layers below the split pass them on. Masks, positions and layer types remain the model's own business.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from breadth.errors import InputError
from breadth.lm.acceleration import PACKED_ROWS, PackedWeights, Positions, SparseBlock
from breadth.lm.batches import Batch, make_batch, make_batches
from breadth.lm.layers import base_model_of, causal_model_of, decoder_layers, has_attachments, head_of
from breadth.lm.precision import computing_in

#: Logits over the whole vocabulary that are computed at once.
LOGITS = 2**23

#: Weights of a head in half precision that are converted to float32 at a time: 64 MB, however large the vocabulary.
HEAD_BLOCK = 2**24

#: Tokens of a sequence by which a model is tested for trees: few enough for any sliding window.
TREE_TEST = 32


class _StandIn(nn.Module):
    """Stands in for a layer: has the layer's attributes, but is not its parent."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self._replaced = [layer]  # in a list, so that it does not become a submodule

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_replaced"][0], name)


class _Pass(_StandIn):
    """Passes hidden states on unchanged."""

    def forward(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return hidden


class _Inject(_StandIn):
    """Ignores its input and returns the kept states."""

    kept: torch.Tensor | None = None

    def forward(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        assert self.kept is not None
        return self.kept


class _Record(_StandIn):
    """Records its input and passes it on."""

    seen: torch.Tensor | None = None

    def forward(self, hidden: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        self.seen = hidden
        return hidden


class SplitModel:
    """A model with ``top`` layers above the split (None: not split) and its head apart.

    With ``copies=False`` only these very modules compute: those of somebody else may have anything attached. Trees of
    sequences are computed one sequence at a time until ``agrees`` has shown that the model attends to trees.

    ``compute`` is the precision of products where it is not that of the weights: that of a ``LanguageModel``.
    """

    def __init__(
        self, model: Any, top: int | None = None, *, copies: bool = True, compute: torch.dtype | None = None
    ) -> None:
        self.model, self._copies, self.compute = model, copies, compute
        self.attends_to_trees = False
        self.base = base_model_of(model)
        self.head = head_of(model)
        config = causal_model_of(model).config.get_text_config(decoder=True)
        self._softcap = getattr(config, "final_logit_softcapping", None)
        # Cohere multiplies by a scale, Granite divides by one.
        self._scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1)
        self._parent, self._attribute, layers = decoder_layers(model)
        self.layers = layers
        self.packed = PackedWeights(model, allowed=compute is None)
        with self._computing():
            self._last_block = SparseBlock(layers[-1], config.hidden_size, self.head.weight.dtype)
        self.top = top
        frozen = 0 if top is None else len(layers) - top
        self.is_split = frozen > 0
        if self.is_split:
            self._inject = _Inject(layers[0])
            self._record = _Record(layers[frozen])
            below, above = list(layers[:frozen]), list(layers[frozen:])
            passes = [_Pass(layer) for layer in layers]
            self._upper = nn.ModuleList([self._inject, *passes[1:frozen], *above])
            self._lower = nn.ModuleList([*below, self._record, *passes[frozen + 1 :]])

    @property
    def is_copyable(self) -> bool:
        """Whether copies of the modules compute the same: on a CPU, and with nothing attached to single modules."""
        return (
            self._copies
            and self.head.weight.device.type == "cpu"
            and not any(map(has_attachments, self.model.modules()))
        )

    def twin(self) -> SplitModel:
        """The same model once more with the same weights, which another thread may use at the same time."""
        shared = (*self.model.parameters(), *self.model.buffers(), self.packed.weights)
        return deepcopy(self, {id(each): each for each in shared})

    def _computing(self) -> AbstractContextManager[Any]:
        """The context of one forward pass."""
        return computing_in(self.compute, self.head.weight.device)

    @contextmanager
    def _with(self, layers: nn.ModuleList) -> Iterator[None]:
        setattr(self._parent, self._attribute, layers)
        try:
            yield
        finally:
            setattr(self._parent, self._attribute, self.layers)

    def _run(self, batch: Batch) -> torch.Tensor:
        # The mask has the precision of the products: the lowest number of float32 is infinite in bfloat16.
        tree = {} if batch.paths is None else batch.tree_inputs(self.compute or self.head.weight.dtype)
        with self._computing():
            hidden: torch.Tensor = self.base(input_ids=batch.ids, use_cache=False, **tree).last_hidden_state
        return hidden

    def frozen_states(self, batch: Batch) -> torch.Tensor:
        """Hidden states [sequences, tokens, width] of the last frozen layer, without dropout."""
        if batch.paths is not None and not self.attends_to_trees:
            return batch.by_sequence(self.frozen_states)
        self.model.eval()
        with torch.no_grad(), self._with(self._lower):
            self._run(batch)
        seen, self._record.seen = self._record.seen, None
        assert seen is not None
        return seen

    def frozen_bytes(self, tokens: int) -> int:
        """Bytes that the frozen layers' states of so many tokens take."""
        return tokens * self._bytes_per_token

    @cached_property
    def _bytes_per_token(self) -> int:
        """Bytes of one token's state, tried out: under autocast, norms give float32 in some families but not in all."""
        states = self.frozen_states(make_batch([[0]], [0], next(self.model.parameters()).device))
        return states.nbytes

    def hidden_states(self, batch: Batch, positions: Positions | None = None) -> torch.Tensor:
        """Final hidden states [sequences, tokens, width]; only the top runs if the batch has kept states.

        With ``positions``, only these are valid: the last block's feed-forward part skips the others.
        """
        if batch.paths is not None and not self.attends_to_trees:
            return batch.by_sequence(self.hidden_states)
        with self._last_block.at(positions, batch.ids.shape):
            if batch.states is None:
                return self._run(batch)
            self._inject.kept = batch.states
            try:
                with self._with(self._upper):
                    return self._run(batch)
            finally:
                self._inject.kept = None

    def logits(self, hidden: torch.Tensor, tokens: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of some tokens (by default of all) for hidden states [..., width], in float32.

        They are also computed in float32, whatever the precision of the model: rounded to bfloat16, two answers that
        are close would be equal, and a tie counts as wrong.
        """
        hidden = hidden.to(self.head.weight.device)
        if tokens is None and torch.is_grad_enabled():
            # In training on the whole vocabulary no two answers are compared. As in transformers, this product is
            # then like all others: in float32 it would keep a copy of the head for the backward pass, and take longer
            # than the layers below. Its result is float32, and so is the softmax.
            with self._computing():
                return self._scaled(self.head(hidden))
        if not self._converts_head:
            return self._scaled(self._head_as_it_is(hidden, tokens))
        hidden = hidden.float()
        if tokens is not None:
            return self._scaled(self._head_rows(hidden, tokens))
        parts = [self._head_rows(hidden, rows) for rows in self._head_blocks(hidden.shape[:-1].numel())]
        return self._scaled(torch.cat(parts, dim=-1))

    def top_tokens(self, hidden: torch.Tensor) -> torch.Tensor:
        """The most likely token of the whole vocabulary for hidden states [places, width]."""
        rows = max(LOGITS // self.head.weight.shape[0], 1)
        parts = [self.logits(hidden[k : k + rows]).argmax(-1) for k in range(0, len(hidden), rows)]
        return torch.cat(parts)

    def log_probabilities(self, hidden: torch.Tensor, read: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Log-probability of ``tokens[k]`` after ``hidden[read[k]]``, for hidden states [places, width]."""
        if self._converts_head and not torch.is_grad_enabled():
            return self._streamed_log_probabilities(hidden, read, tokens)
        each = torch.zeros(len(tokens), device=tokens.device)
        rows = max(LOGITS // self.head.weight.shape[0], 1)
        for k in range(0, len(hidden), rows):
            own = ((read >= k) & (read < k + rows)).nonzero()[:, 0]
            each[own] = self.logits(hidden[k : k + rows]).log_softmax(-1)[read[own] - k, tokens[own]]
        return each

    def _streamed_log_probabilities(
        self, hidden: torch.Tensor, read: torch.Tensor, tokens: torch.Tensor
    ) -> torch.Tensor:
        """The same block by block of the head, each of which is converted to float32 once for all places."""
        hidden = hidden.to(self.head.weight.device).float()
        total = torch.full((len(hidden),), -torch.inf, device=hidden.device)
        own = torch.zeros(len(tokens), device=hidden.device)
        for rows in self._head_blocks(len(hidden)):
            logits = self._scaled(self._head_rows(hidden, rows))
            total = torch.logaddexp(total, logits.logsumexp(-1))
            inside = ((tokens >= rows.start) & (tokens < rows.stop)).nonzero()[:, 0]
            own[inside] = logits[read[inside], tokens[inside] - rows.start]
        return own - total[read]

    @property
    def _converts_head(self) -> bool:
        """Whether logits in float32 need a conversion of the head's weights; quantised ones are left alone."""
        dtypes = {parameter.dtype for parameter in self.head.parameters()}
        return all(dtype.is_floating_point for dtype in dtypes) and dtypes != {torch.float32}

    def _head_as_it_is(self, hidden: torch.Tensor, tokens: torch.Tensor | None) -> torch.Tensor:
        """The head's result without conversions: of a head in float32, or of a quantised one."""
        if self.head.weight.dtype is torch.float32:
            hidden = hidden.float()
        if tokens is not None and type(self.head) is nn.Linear:
            bias = None if self.head.bias is None else self.head.bias[tokens]
            return nn.functional.linear(hidden, self.head.weight[tokens], bias)
        out: torch.Tensor = self.head(hidden)  # the module itself may have packed weights, or adapters
        return out if tokens is None else out[..., tokens]

    def _head_rows(self, hidden: torch.Tensor, rows: torch.Tensor | slice) -> torch.Tensor:
        """The head's result for some tokens, with its weights for these tokens in float32."""
        size = self.head.weight.shape[0]
        # Of whatever the head consists (a bias, adapters), what has one entry per token is cut.
        weights = {}
        for name, weight in self.head.named_parameters():
            weights[name] = (weight[rows] if weight.shape[:1] == (size,) else weight).float()
        out: torch.Tensor = functional_call(self.head, weights, (hidden,))
        return out

    def _head_blocks(self, places: int) -> list[slice]:
        """The head's rows in blocks, small enough for their weights in float32 and for so many places' logits."""
        size, width = self.head.weight.shape[0], self.head.weight.shape[-1]
        rows = max(min(HEAD_BLOCK // width, 4 * LOGITS // max(places, 1)), 1)
        return [slice(start, min(start + rows, size)) for start in range(0, size, rows)]

    def _scaled(self, out: torch.Tensor) -> torch.Tensor:
        """Logits from the head's result, in float32."""
        out = out.float()
        if self._scale != 1:
            out = out * self._scale
        if self._softcap is not None:
            out = torch.tanh(out / self._softcap) * self._softcap
        return out

    def require_agreement(self, ids: list[int], name: str) -> None:
        """Refuse a model of this name whose logits are not those that the model itself computes.

        Not a mistake of ours alone: settings of a model can make it compute in another way every time it is asked.
        """
        if not self.agrees(ids):
            raise InputError(
                f"{name}: cannot be evaluated, because its logits are not the product of its last hidden states and "
                "its head"
            )

    def agrees(self, ids: list[int], tolerance: float = 1e-2) -> bool:
        """Whether the logits for one sequence are those that the model itself computes.

        Every path is tested: plain, through kept states, at the last token only, with packed weights, and as a branch
        of a tree. The last three are disabled if they differ; the others must agree.
        """
        copies = -(-PACKED_ROWS // len(ids))  # as many as packing needs
        batch = make_batch([ids] * copies, list(range(copies)), next(self.model.parameters()).device)
        self.model.eval()
        with torch.inference_mode():
            with self._computing():
                own = self.model(input_ids=batch.ids[:1], use_cache=False).logits[0, -1].float()
            # Finite weights are no promise: settings such as a scale of positions of 1e308 make numbers that are not.
            if not bool(own.isfinite().all()):
                raise InputError(
                    f"{self.model.name_or_path}: its logits are infinite or not numbers; compute in float32, and if "
                    "they still are, copy the model again, because its settings are damaged"
                )

            some = torch.arange(0, len(own), 7, device=own.device)

            def same(positions: Positions | None = None) -> bool:
                last = self.hidden_states(batch, positions)[0, -1]
                pairs = ((own, self.logits(last)), (own[some], self.logits(last, some.to(self.head.weight.device))))
                limit = tolerance * (1 + own.abs().max())
                return all(bool((one.to(other.device) - other).abs().max() <= limit) for one, other in pairs)

            agreed = same()
            if self.is_split:
                batch.states = self.frozen_states(batch)
                agreed = agreed and same()
            if agreed and not same(Positions([0], [len(ids) - 1])):
                self._last_block.disable()
            if agreed:
                self.packed.test(same)
                self.attends_to_trees = self._same_in_tree(ids[:TREE_TEST])
            return agreed

    def _same_in_tree(self, ids: list[int]) -> bool:
        """Whether a sequence gives the same hidden states after another branch that begins like it."""
        device, half = next(self.model.parameters()).device, len(ids) // 2
        pair = [[*ids[:half], *(int(token == 0) for token in ids)], ids]
        (tree,) = make_batches(pair, device, len(ids), [[0, 1]])
        assert tree.paths is not None
        self.attends_to_trees = True
        try:
            whole = self.hidden_states(tree).flatten(0, 1)[torch.from_numpy(tree.paths[1])]
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):
            return False  # it takes no such mask, or no positions
        alone = self.hidden_states(make_batch(pair, [1], device))[0]
        # SmolLM2 in bfloat16: 0.015 from rounding, 0.25 and more if the mask or the positions are ignored.
        is_exact = alone.dtype is torch.float32 and self.compute is None
        tolerance = 1e-3 if is_exact else 0.08
        return bool((whole - alone).float().norm() <= tolerance * alone.float().norm())
