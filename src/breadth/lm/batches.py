"""Sequences side by side in one pass of a model, with beginnings that they share computed once.

The options of a question repeat its prompt, and few-shot prompts repeat their examples. Under causal attention, what a
model computes for a token depends on the tokens before it alone, so a common beginning has to be computed only once.
Sequences that begin alike are therefore laid out as a tree in one row: every token of the tree has the position that
it has in its sequences, and attends to the tokens that lead to it (tree attention, as in speculative decoding).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

#: Tokens per batch on a CPU: larger batches do not fit the cache, smaller ones waste time between calls.
CPU_TOKENS = 512

#: Tokens per batch on an accelerator.
GPU_TOKENS = 32768

#: Most tokens of a tree; its mask has this number squared.
TREE_TOKENS = 8192

#: Sequences are computed alone if trees would save a smaller share of the tokens, padding included: masks cost, too.
WORTH_TREES = 0.1


@dataclass
class Batch:
    """Sequences (by ``index``) in rows of token ids, padded on the right to one length.

    Without ``paths`` each row is one sequence. With causal attention a token never attends to tokens on its right, so
    the padding changes nothing and no mask is needed. With ``paths`` rows are trees: ``paths[k]`` lists where in the
    flattened rows the tokens of sequence ``index[k]`` are. ``states`` are kept states of the frozen layers.
    """

    index: list[int]
    ids: torch.Tensor
    paths: list[np.ndarray] | None = None
    states: torch.Tensor | None = None

    def places(self, k: int, tokens: range) -> tuple[Iterable[int], Iterable[int]]:
        """Rows and columns of some tokens of sequence ``index[k]``."""
        if self.paths is None:
            return [k] * len(tokens), tokens
        rows, columns = np.divmod(self.paths[k][tokens.start : tokens.stop], self.ids.shape[1])
        return rows.tolist(), columns.tolist()

    def tree_inputs(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """The positions of a tree's tokens, and a mask under which each attends to those that lead to it."""
        assert self.paths is not None
        rows, width = self.ids.shape
        positions = np.zeros(rows * width, dtype=np.int64)
        seen = np.zeros((rows, width, width), dtype=bool)
        seen[:, range(width), range(width)] = True  # padding attends to itself
        for path in self.paths:
            positions[path] = np.arange(len(path))
            row, columns = path[0] // width, path % width
            seen[row, columns[:, None], columns] |= np.tri(len(path), dtype=bool)
        mask = torch.zeros((rows, 1, width, width), dtype=dtype)
        mask.masked_fill_(~torch.from_numpy(seen)[:, None], torch.finfo(dtype).min)
        places = torch.from_numpy(positions).reshape(rows, width)
        return {"position_ids": places.to(self.ids.device), "attention_mask": mask.to(self.ids.device)}

    def by_sequence(self, compute: Callable[[Batch], torch.Tensor]) -> torch.Tensor:
        """Hidden states of a tree, computed without shared beginnings: for models that cannot attend to trees."""
        assert self.paths is not None
        paths = [torch.from_numpy(path).to(self.ids.device) for path in self.paths]
        whole: torch.Tensor | None = None
        for part in plan_batches(list(map(len, paths)), self.ids.numel()):
            places = torch.nn.utils.rnn.pad_sequence([paths[k] for k in part], batch_first=True)
            states = None if self.states is None else self.states.flatten(0, 1)[places]
            hidden = compute(Batch([self.index[k] for k in part], self.ids.flatten()[places], states=states))
            if whole is None:
                whole = hidden.new_zeros((self.ids.numel(), hidden.shape[-1]))
            for k, row in zip(part, hidden, strict=True):
                whole[paths[k]] = row[: len(paths[k])]
        assert whole is not None
        return whole.reshape(*self.ids.shape, -1)


def tokens_per_batch(device: str) -> int:
    """How many tokens a batch holds on a device."""
    return CPU_TOKENS if torch.device(device).type == "cpu" else GPU_TOKENS


def plan_batches(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """The sequences of each batch by index: longest first, at most ``tokens`` tokens including padding.

    >>> plan_batches([3, 9, 4], 9)
    [[1], [2, 0]]
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    batches: list[list[int]] = []
    longest = 0
    for i in order.tolist():
        if batches and (len(batches[-1]) + 1) * longest <= tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
            longest = lengths[i]
    return batches


def plan_trees(sequences: Sequence[Sequence[int]], width: int, longest: int | None = None) -> list[list[int]]:
    """Which sequences, by index, are computed as a tree; a list with a single one is computed alone.

    A tree saves the shared tokens, but its tokens are masked from those of other branches only after they were
    multiplied. In a model of this width, attention to T tokens costs about T / (2 width) of everything else. Where all
    sequences share P tokens, the cost of each is therefore lowest with P + sqrt(P^2 + 2 P width) tokens in a tree.
    Sequences of more than ``longest`` tokens (a sliding window) stay alone.

    >>> plan_trees([[1, 2, 3, 4], [9], [1, 2, 3, 5], [1, 2, 3]], 8)
    [[3, 0, 2], [1]]
    """
    trees: list[list[int]] = []
    last: Sequence[int] = ()
    size = 0
    for i in sorted(range(len(sequences)), key=lambda i: (sequences[i], i)):
        own = sequences[i]
        shared = _common(last, own)
        grown = size + len(own) - shared
        best = shared + math.sqrt(shared * (shared + 2 * width))
        if trees and grown <= min(best, TREE_TOKENS) and (longest is None or len(own) <= longest >= len(last)):
            trees[-1].append(i)
            size = grown
        else:
            trees.append([i])
            size = len(own)
        last = own
    return trees


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens two sequences have in common at their beginning."""
    return next((k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def make_batches(
    sequences: Sequence[Sequence[int]], device: torch.device | str, tokens: int, trees: Sequence[Sequence[int]]
) -> list[Batch]:
    """Batches of all sequences: those that are alone, then trees; all alone if trees save little."""
    alone = [tree[0] for tree in trees if len(tree) == 1]
    rows = [_Row(sequences, tree) for tree in trees if len(tree) > 1]
    parts = plan_batches([len(row.ids) for row in rows], tokens)
    batches = [
        *_plain_batches(sequences, alone, device, tokens),
        *(_tree_batch([rows[k] for k in part], device) for part in parts),
    ]
    if not rows:
        return batches
    plain = _plain_batches(sequences, range(len(sequences)), device, tokens)
    size, whole = (sum(batch.ids.numel() for batch in each) for each in (batches, plain))
    return batches if size <= (1 - WORTH_TREES) * whole else plain


def _plain_batches(
    sequences: Sequence[Sequence[int]], index: Sequence[int], device: torch.device | str, tokens: int
) -> list[Batch]:
    plan = plan_batches([len(sequences[i]) for i in index], tokens)
    return [make_batch(sequences, [index[k] for k in part], device) for part in plan]


def make_batch(sequences: Sequence[Sequence[int]], index: list[int], device: torch.device | str) -> Batch:
    """Pad the chosen sequences on the right with token 0, which no other token attends to."""
    return Batch(index, _padded([sequences[i] for i in index]).to(device))


def rebatch(
    sequences: Sequence[Sequence[int]], states: Sequence[torch.Tensor], device: torch.device | str, tokens: int
) -> list[Batch]:
    """Batches of sequences, each computed alone; ``states`` are their kept states, if they have any."""
    batches = _plain_batches(sequences, range(len(sequences)), device, tokens)
    for batch in batches if states else ():
        batch.states = torch.nn.utils.rnn.pad_sequence([states[i] for i in batch.index], batch_first=True)
    return batches


class _Row:
    """A tree of sequences as one row of tokens, and the places of each sequence in it.

    In sorted order a sequence shares with the one before it whatever it shares with any of them.
    """

    def __init__(self, sequences: Sequence[Sequence[int]], tree: Sequence[int]) -> None:
        self.tree, self.ids = tree, list[int]()
        self.paths: list[np.ndarray] = []
        for before, i in zip([None, *tree[:-1]], tree, strict=True):
            own = sequences[i]
            shared = 0 if before is None else _common(sequences[before], own)
            new = np.arange(len(self.ids), len(self.ids) + len(own) - shared)
            self.ids += own[shared:]
            self.paths.append(np.concatenate([self.paths[-1][:shared], new]) if shared else new)


def _tree_batch(rows: Sequence[_Row], device: torch.device | str) -> Batch:
    ids = _padded([row.ids for row in rows])
    paths = [k * ids.shape[1] + path for k, row in enumerate(rows) for path in row.paths]
    return Batch(list(chain.from_iterable(row.tree for row in rows)), ids.to(device), paths)


def _padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    ids = torch.zeros((len(rows), max(map(len, rows))), dtype=torch.long)
    for k, row in enumerate(rows):
        ids[k, : len(row)] = torch.tensor(row, dtype=torch.long)
    return ids
