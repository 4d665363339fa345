"""What a model is asked, as sequences: answers compared at the last token of a prompt, or continuations read whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from breadth.lm.batches import Batch
from breadth.lm.body import Body

#: Rows of hidden states whose logits over the whole vocabulary are computed at once.
ROWS = 64


@dataclass(frozen=True)
class LastToken:
    """Compare a few single tokens after each prompt."""

    sequences: list[list[int]]
    tokens: list[int]

    def read(self, body: Body, batch: Batch, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [sequences, tokens] at the last token of each prompt."""
        rows = torch.arange(len(batch.index), device=hidden.device)
        last = hidden[rows, batch.lengths.to(hidden.device) - 1]
        return body.logits(last, torch.tensor(self.tokens, device=body.head.weight.device))


@dataclass(frozen=True)
class Continuations:
    """Read whole continuations: the last ``sizes[i]`` positions of sequence i predict ``targets[i]``.

    A sequence is prompt and continuation without its last token, which predicts nothing.
    """

    sequences: list[list[int]]
    targets: list[list[int]]

    def read(self, body: Body, batch: Batch, hidden: torch.Tensor) -> torch.Tensor:
        """Log-probability [sequences, 1] of each continuation."""
        rows: list[int] = []
        places: list[int] = []
        wanted: list[int] = []
        for row, i in enumerate(batch.index):
            size, length = len(self.targets[i]), len(self.sequences[i])
            rows += [row] * size
            places += range(length - size, length)
            wanted += self.targets[i]
        owner = torch.tensor(rows, device=hidden.device)
        picked = hidden[owner, torch.tensor(places, device=hidden.device)]
        target = torch.tensor(wanted, device=hidden.device)
        each = torch.cat(
            [
                -torch.nn.functional.cross_entropy(
                    body.logits(picked[k : k + ROWS]),
                    target[k : k + ROWS].to(body.head.weight.device),
                    reduction="none",
                )
                for k in range(0, len(wanted), ROWS)
            ]
        )
        total = torch.zeros(len(batch.index), dtype=each.dtype, device=each.device)
        return total.index_add(0, owner.to(each.device), each)[:, None]


Query = LastToken | Continuations


def continuations(prompts: list[list[int]], endings: list[list[int]]) -> Continuations:
    """Put endings after prompts, one to one."""
    pairs = zip(prompts, endings, strict=True)
    return Continuations([[*prompt, *ending[:-1]] for prompt, ending in pairs], endings)
