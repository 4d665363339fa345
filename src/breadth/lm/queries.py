"""What a model is asked, as sequences: answers compared at the last token of a prompt, or continuations read whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from breadth.lm.batches import Batch
from breadth.lm.body import Body
from breadth.lm.narrowing import Places

#: Rows of hidden states whose logits over the whole vocabulary are computed at once.
ROWS = 64


@dataclass(frozen=True)
class LastToken:
    """Compare a few single tokens after each prompt."""

    sequences: list[list[int]]
    tokens: list[int]

    def places(self, batch: Batch) -> Places:
        """Where a batch is read: at the last token of each prompt."""
        return Places(list(range(len(batch.index))), [len(self.sequences[i]) - 1 for i in batch.index])

    def ask(self, body: Body, batch: Batch) -> torch.Tensor:
        """Logits [sequences, tokens] at the last token of each prompt."""
        last = _read(body, batch, self.places(batch))
        return body.logits(last, torch.tensor(self.tokens, device=body.head.weight.device))


@dataclass(frozen=True)
class Continuations:
    """Read whole continuations: the last so many positions of sequence i predict ``targets[i]``.

    A sequence is prompt and continuation without its last token, which predicts nothing.
    """

    sequences: list[list[int]]
    targets: list[list[int]]

    def places(self, batch: Batch) -> Places:
        """Where a batch is read: at every token that predicts one of a continuation, sequence by sequence."""
        rows: list[int] = []
        tokens: list[int] = []
        for row, i in enumerate(batch.index):
            size, length = len(self.targets[i]), len(self.sequences[i])
            rows += [row] * size
            tokens += range(length - size, length)
        return Places(rows, tokens)

    def ask(self, body: Body, batch: Batch) -> torch.Tensor:
        """Log-probability [sequences, 1] of each continuation."""
        places = self.places(batch)
        picked = _read(body, batch, places)
        device = body.head.weight.device
        target = torch.tensor([token for i in batch.index for token in self.targets[i]], device=device)
        each = torch.cat(
            [
                -torch.nn.functional.cross_entropy(
                    body.logits(picked[k : k + ROWS]), target[k : k + ROWS], reduction="none"
                )
                for k in range(0, len(target), ROWS)
            ]
        )
        total = torch.zeros(len(batch.index), dtype=each.dtype, device=device)
        return total.index_add(0, torch.tensor(places.rows, device=device), each)[:, None]


def _read(body: Body, batch: Batch, places: Places) -> torch.Tensor:
    """Final hidden states [places, width]."""
    hidden = body.features(batch, places)
    return hidden[torch.tensor(places.rows, device=hidden.device), torch.tensor(places.tokens, device=hidden.device)]


Query = LastToken | Continuations


def continuations(prompts: list[list[int]], endings: list[list[int]]) -> Continuations:
    """Put endings after prompts, one to one."""
    pairs = zip(prompts, endings, strict=True)
    return Continuations([[*prompt, *ending[:-1]] for prompt, ending in pairs], endings)
