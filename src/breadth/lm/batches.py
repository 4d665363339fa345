"""Sequences of tokens in batches that waste nothing: sorted by length, filled by tokens, padded on the right.

With causal attention a token never sees what stands to its right, so padding there changes nothing and no mask is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

#: Tokens per batch on a CPU: larger batches fall out of the cache, smaller ones spend their time between calls.
CPU_TOKENS = 512

#: Tokens per batch on an accelerator.
GPU_TOKENS = 32768


@dataclass
class Batch:
    """Sequences padded on the right to one length.

    ``index`` says which sequences they are, ``lengths`` how long; ``states`` are the hidden states below the adapted
    layers where these are kept.
    """

    index: list[int]
    ids: torch.Tensor
    lengths: torch.Tensor
    states: torch.Tensor | None = None


def plan_batches(lengths: Sequence[int], tokens: int) -> list[list[int]]:
    """Positions of the sequences of each batch: longest first, at most ``tokens`` tokens with padding.

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


def make_batch(sequences: Sequence[Sequence[int]], index: list[int], device: torch.device | str) -> Batch:
    """Pad the chosen sequences on the right; the padding is token 0, which nothing ever looks at."""
    lengths = torch.tensor([len(sequences[i]) for i in index])
    ids = torch.zeros((len(index), int(lengths.max())), dtype=torch.long)
    for row, i in enumerate(index):
        ids[row, : len(sequences[i])] = torch.tensor(sequences[i], dtype=torch.long)
    return Batch(index, ids.to(device), lengths.to(device))


def pad_states(states: Sequence[torch.Tensor]) -> torch.Tensor:
    """Stack hidden states [tokens, width] of several sequences, padded with zeros on the right."""
    return torch.nn.utils.rnn.pad_sequence(list(states), batch_first=True)
