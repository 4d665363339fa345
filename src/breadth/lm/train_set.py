"""Training examples as sequences with a loss.

That is the cross-entropy of the right answer among the answers (``answers``) or among all tokens of the vocabulary
(``vocabulary``; an answer of several tokens counts with all of them), as a mean over examples; or that of the text to
write, as a mean over its tokens (``completion``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeAlias

import torch

from breadth.datasets import ItemSet, Loss, Mixture
from breadth.errors import InputError
from breadth.lm.batches import make_batch, plan_batches, tokens_per_batch
from breadth.lm.evaluation import fitting_context
from breadth.lm.lanes import map_in_lanes
from breadth.lm.loading import LanguageModel
from breadth.lm.prompts import RESERVE, encode_prompts
from breadth.lm.scoring import Continuations, NextToken, Requests, make_scorer
from breadth.lm.split_model import SplitModel


@dataclass
class EncodedTrainSet:
    """Training examples encoded for one model.

    ``owned`` lists the sequences of each example, and ``correct`` the index of its correct answer. ``states`` are kept
    states of the frozen layers, one tensor per sequence.
    """

    requests: Requests
    owned: list[list[int]]
    correct: Sequence[int]
    loss: Loss
    device: str
    states: list[torch.Tensor] = field(default_factory=list)

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.owned)

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(map(len, self.requests.sequences))

    def micro_batches(self, examples: list[int], largest: int | None) -> list[list[int]]:
        """Divide a step's examples into parts of similar length that fit the device; their gradients are added."""
        sizes = [sum(len(self.requests.sequences[i]) for i in self.owned[example]) for example in examples]
        parts = [[examples[k] for k in part] for part in plan_batches(sizes, tokens_per_batch(self.device))]
        return [part[k : k + largest] for part in parts for k in range(0, len(part), largest)] if largest else parts

    def keep_frozen_states(self, model: SplitModel) -> None:
        """Compute the frozen layers' states of every example once."""
        lengths = list(map(len, self.requests.sequences))
        kept: dict[int, torch.Tensor] = {}

        def keep(model: SplitModel, index: list[int]) -> None:
            states = model.frozen_states(make_batch(self.requests.sequences, index, self.device))
            for row, i in enumerate(index):
                kept[i] = states[row, : lengths[i]].clone()

        map_in_lanes(model, keep, plan_batches(lengths, tokens_per_batch(self.device)), keep=False)
        self.states = [kept[i] for i in range(len(lengths))]

    def loss_weight(self, examples: list[int]) -> int:
        """What the summed loss of some examples is divided by: their number, or that of their completion tokens."""
        if self.loss != "completion":
            return len(examples)
        return sum(self.requests.read_tokens(i) for example in examples for i in self.owned[example])

    def summed_loss(self, model: SplitModel, examples: list[int]) -> torch.Tensor:
        """Sum of the loss over some examples."""
        index = [i for example in examples for i in self.owned[example]]
        batch = make_batch(self.requests.sequences, index, self.device)
        if self.states:
            batch.states = torch.nn.utils.rnn.pad_sequence([self.states[i] for i in index], batch_first=True)
        outputs = self.requests.forward(model, batch)
        if self.loss != "answers":
            return -outputs.sum()
        scores = self.requests.by_item(outputs, [len(self.owned[example]) for example in examples])
        correct = torch.tensor([self.correct[example] for example in examples], device=outputs.device)
        return torch.nn.functional.cross_entropy(scores, correct, reduction="sum")


@dataclass
class MixedTrainSet:
    """Training examples of several sets, one set after the other: each example is prompted and scored as its set is.

    Does what an ``EncodedTrainSet`` does, by asking the set that an example belongs to.
    """

    parts: list[EncodedTrainSet]

    def __len__(self) -> int:
        """Number of examples."""
        return sum(map(len, self.parts))

    @property
    def tokens(self) -> int:
        """Tokens of all sequences."""
        return sum(part.tokens for part in self.parts)

    @property
    def states(self) -> list[torch.Tensor]:
        """Kept states of the frozen layers, if there are any."""
        return [state for part in self.parts for state in part.states]

    def _by_part(self, examples: list[int]) -> Iterator[tuple[int, EncodedTrainSet, list[int]]]:
        """Where each set begins, the set, and which of the examples are its own, as it counts them."""
        first = 0
        for part in self.parts:
            own = [example - first for example in examples if first <= example < first + len(part)]
            if own:
                yield first, part, own
            first += len(part)

    def micro_batches(self, examples: list[int], largest: int | None) -> list[list[int]]:
        """Divide a step's examples into parts that fit the device; none has examples of two sets."""
        batches: list[list[int]] = []
        for first, part, own in self._by_part(examples):
            batches += [[first + example for example in batch] for batch in part.micro_batches(own, largest)]
        return batches

    def keep_frozen_states(self, model: SplitModel) -> None:
        """Compute the frozen layers' states of every example once."""
        for part in self.parts:
            part.keep_frozen_states(model)

    def loss_weight(self, examples: list[int]) -> int:
        """What the summed loss of some examples is divided by."""
        return sum(part.loss_weight(own) for _, part, own in self._by_part(examples))

    def summed_loss(self, model: SplitModel, examples: list[int]) -> torch.Tensor:
        """Sum of the loss over some examples."""
        losses = [part.summed_loss(model, own) for _, part, own in self._by_part(examples)]
        return torch.stack(losses).sum()


#: Training examples of one set, or of a mixture.
TrainSet: TypeAlias = EncodedTrainSet | MixedTrainSet


def encode_train_set(
    language_model: LanguageModel, examples: ItemSet | Mixture, loss: Loss, *, context: int
) -> TrainSet:
    """Encode training examples for a loss: of one set, or of a mixture, whose sets have tasks of their own."""
    if not isinstance(examples, Mixture):
        return _encode_one(language_model, examples, loss, context)
    parts = [_encode_one(language_model, part, loss, context) for part in examples.parts]
    return parts[0] if len(parts) == 1 else MixedTrainSet(parts)


def _encode_one(language_model: LanguageModel, examples: ItemSet, loss: Loss, context: int) -> EncodedTrainSet:
    """Encode training examples of one set."""
    tokenizer, items = language_model.tokenizer, examples.frame
    # What is trained depends on the loss alone, whatever the answers are compared with in evaluation.
    task = examples.task.in_training().predicting("answers")
    scorer = make_scorer(language_model, task, items)

    def prompts(longest: int, reserve: int | list[int]) -> list[list[int]]:
        limit = fitting_context(language_model, context, longest)
        return encode_prompts(
            tokenizer, task, items, context=limit, bos=language_model.bos, reserve=reserve, chat=language_model.chat
        ).ids

    if loss == "completion":
        completions = scorer.completions()
        reserve = [max(RESERVE, len(each)) for each in completions]
        requests: Requests | None = Continuations.after(prompts(RESERVE, reserve), completions)
        counts, correct = [1] * items.height, [0] * items.height
    else:
        requests = None if scorer.correct is None else scorer.requests(prompts(scorer.longest, RESERVE))
        counts, correct = list(scorer.counts), list(scorer.correct or ())
    if requests is None:
        raise InputError(f"{examples.name}: kind {task.kind} has no answers to compare; use loss: completion")
    if loss == "vocabulary":
        requests = _right_answers(requests, counts, correct)
        counts, correct = [1] * items.height, [0] * items.height
    owned = [list(range(end - count, end)) for end, count in zip(accumulate(counts), counts, strict=True)]
    return EncodedTrainSet(requests, owned, correct, loss, language_model.device)


def _right_answers(requests: Requests, counts: Sequence[int], correct: Sequence[int]) -> Continuations:
    """The right answer of every example, one sequence each: its log-likelihood is over the whole vocabulary.

    ``counts`` are the sequences of every example among ``requests``, and ``correct`` the index of the right answer.
    """
    if isinstance(requests, NextToken):
        answers = [[requests.tokens[right]] for right in correct]
        return Continuations.after(requests.sequences, answers)
    assert isinstance(requests, Continuations)
    firsts = accumulate(counts[:-1], initial=0)
    chosen = [first + right for first, right in zip(firsts, correct, strict=True)]
    return Continuations([requests.sequences[i] for i in chosen], [requests.targets[i] for i in chosen])
