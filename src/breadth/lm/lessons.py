"""Training examples as sequences with a loss: on the answer among the answers, or on the completion."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Literal

import torch

from breadth.datasets.tasks import Choice, Generate, Pattern
from breadth.errors import InputError
from breadth.lm.batches import make_batch, pad_states, plan_batches
from breadth.lm.body import Body
from breadth.lm.choices import choice_query, encode_options
from breadth.lm.examination import TestSet, fitting_context, tokens_per_batch
from breadth.lm.patterns import encode_answers, pattern_query
from breadth.lm.prompts import RESERVE, completion_of, encode_endings, encode_prompts
from breadth.lm.queries import Continuations, LastToken, Query, continuations

Loss = Literal["answers", "completion"]


@dataclass
class Lesson:
    """Training examples of one run. ``owned`` lists the sequences of each example, ``right`` its right answer."""

    query: Query
    owned: list[list[int]]
    right: list[int]
    loss: Loss
    device: Any
    tokens: int
    states: list[torch.Tensor] = field(default_factory=list)

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.owned)

    def count_tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(len(sequence) for sequence in self.query.sequences)

    def parts(self, examples: list[int], most: int | None) -> list[list[int]]:
        """Cut a step's examples into parts of like length that fit the device; the gradients are added up."""
        sizes = [sum(len(self.query.sequences[i]) for i in self.owned[example]) for example in examples]
        parts = [[examples[k] for k in part] for part in plan_batches(sizes, self.tokens)]
        return [part[k : k + most] for part in parts for k in range(0, len(part), most)] if most else parts

    def keep_trunk(self, body: Body) -> None:
        """Compute the trunk's states of every example once."""
        lengths = [len(sequence) for sequence in self.query.sequences]
        found: dict[int, torch.Tensor] = {}
        with body.packing.on(keep=False):
            for index in plan_batches(lengths, self.tokens):
                states = body.trunk(make_batch(self.query.sequences, index, self.device))
                for row, i in enumerate(index):
                    found[i] = states[row, : lengths[i]].clone()
        self.states = [found[i] for i in range(len(lengths))]

    def weight_of(self, examples: list[int]) -> int:
        """What the loss of some examples is divided by: their number, or that of their completion tokens."""
        if isinstance(self.query, Continuations) and self.loss == "completion":
            return sum(len(self.query.targets[i]) for example in examples for i in self.owned[example])
        return len(examples)

    def loss_of(self, body: Body, examples: list[int]) -> torch.Tensor:
        """Sum of the loss over some examples: of the right answer among the answers, or of the completion."""
        index = [i for example in examples for i in self.owned[example]]
        batch = make_batch(self.query.sequences, index, self.device)
        if self.states:
            batch.states = pad_states([self.states[i] for i in index])
        out = self.query.ask(body, batch)
        if self.loss == "completion":
            return -out.sum()
        right = torch.tensor([self.right[example] for example in examples], device=out.device)
        return torch.nn.functional.cross_entropy(self._compared(out, examples), right, reduction="sum")

    def _compared(self, out: torch.Tensor, examples: list[int]) -> torch.Tensor:
        """Scores [examples, answers]; an example with fewer answers is filled with what never wins."""
        if isinstance(self.query, LastToken):
            return out
        parts = torch.split(out[:, 0], [len(self.owned[example]) for example in examples])
        return torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True, padding_value=-torch.inf)


def make_lesson(language_model: Any, examples: TestSet, loss: Loss, *, context: int) -> Lesson:
    """Encode training examples for a loss."""
    tokenizer, task, items = language_model.tokenizer, examples.task, examples.frame
    tokens = tokens_per_batch(language_model)
    rows = list(items.iter_rows(named=True))
    answers = encode_answers(tokenizer, task) if isinstance(task, Pattern) else None
    options = encode_options(tokenizer, task, items) if isinstance(task, Choice) else []
    if loss == "completion":
        endings = encode_endings(tokenizer, [completion_of(task, row) for row in rows])
        if isinstance(task, Generate) and tokenizer.eos_token_id is not None:
            endings = [[*ending, tokenizer.eos_token_id] for ending in endings]
        reserve = [max(RESERVE, len(ending)) for ending in endings]
        room = fitting_context(language_model, context, RESERVE)
    else:
        reserve = [RESERVE] * len(rows)
        compared = [*(answers.tokens if answers else ()), *(ending for own in options for ending in own)]
        room = fitting_context(language_model, context, max(map(len, compared), default=RESERVE))
    prompts = encode_prompts(tokenizer, task, items, context=room, bos=language_model.bos, reserve=reserve).ids
    if loss == "completion":
        each = [[i] for i in range(len(rows))]
        return Lesson(continuations(prompts, endings), each, [0] * len(rows), loss, language_model.device, tokens)
    if answers is not None:
        query: Query = pattern_query(answers, prompts)
        right = [answers.labels.index(row["label"]) for row in rows]
        sizes = [len(answers.labels) if answers.whole else 1] * len(rows)
    elif options:
        query = choice_query(options, prompts)
        right = [row["option_labels"].index(row["label"]) for row in rows]
        sizes = [len(row["options"]) for row in rows]
    else:
        raise InputError(
            f"{examples.name}: is answered by writing, so there are no answers to compare; use loss: completion"
        )
    ends = accumulate(sizes)
    owned = [list(range(end - size, end)) for end, size in zip(ends, sizes, strict=True)]
    return Lesson(query, owned, right, loss, language_model.device, tokens)
