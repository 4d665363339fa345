"""How a model's outputs become scores: one ``Scorer`` per scoring kind, registered for the kind's ``Task``.

A scorer says which sequences to run for the prompts of a test set (``Requests``), and turns their outputs into
correct, margin and answer. It also says what to train on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np
import polars as pl
import torch

from breadth.datasets import NEITHER, Choice, Generate, Pattern, Task
from breadth.errors import InputError, listed
from breadth.lm.acceleration import Positions
from breadth.lm.batches import Batch
from breadth.lm.chat import Chat
from breadth.lm.generation import generate_texts, plan_generation
from breadth.lm.loading import LanguageModel
from breadth.lm.prompts import encode_continuations
from breadth.lm.scores import Floats, choice_scores, pattern_scores, vocabulary_scores, written_scores
from breadth.lm.split_model import SplitModel

#: Called with the number of items that were just evaluated.
Progress = Callable[[int], None]

TaskT = TypeVar("TaskT", bound=Task)
ScorerT = TypeVar("ScorerT", bound="type[Scorer[Any]]")


@dataclass(frozen=True)
class Requests(ABC):
    """Sequences to run through a model, and what to read from them."""

    sequences: list[list[int]]

    @abstractmethod
    def read_tokens(self, i: int) -> int:
        """At how many of its last tokens sequence ``i`` is read."""

    @abstractmethod
    def forward(self, model: SplitModel, batch: Batch) -> torch.Tensor:
        """Run a batch: outputs [sequences, values]."""

    @abstractmethod
    def by_item(self, outputs: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:
        """Outputs as scores [items, answers], where item k has ``counts[k]`` sequences; -inf where it has fewer."""

    def positions(self, batch: Batch) -> Positions:
        """Where a batch is read, sequence by sequence."""
        rows: list[int] = []
        tokens: list[int] = []
        for k, i in enumerate(batch.index):
            length = len(self.sequences[i])
            own_rows, own_tokens = batch.places(k, range(length - self.read_tokens(i), length))
            rows += own_rows
            tokens += own_tokens
        return Positions(rows, tokens)

    def _hidden(self, model: SplitModel, batch: Batch, positions: Positions) -> torch.Tensor:
        """Final hidden states [positions, width]."""
        hidden = model.hidden_states(batch, positions)
        rows, tokens = (torch.tensor(each, device=hidden.device) for each in positions)
        return hidden[rows, tokens]


@dataclass(frozen=True)
class NextToken(Requests):
    """Logits of a few tokens after each prompt."""

    tokens: list[int]

    def read_tokens(self, i: int) -> int:  # noqa: D102
        return 1

    def forward(self, model: SplitModel, batch: Batch) -> torch.Tensor:
        """Logits [sequences, tokens] at the last token of each prompt."""
        last = self._hidden(model, batch, self.positions(batch))
        return model.logits(last, torch.tensor(self.tokens, device=model.head.weight.device))

    def by_item(self, outputs: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:  # noqa: D102
        return outputs


@dataclass(frozen=True)
class NextOfAll(Requests):
    """Logits of a few tokens after each prompt, and which token of the whole vocabulary is the most likely."""

    tokens: list[int]

    def read_tokens(self, i: int) -> int:  # noqa: D102
        return 1

    def forward(self, model: SplitModel, batch: Batch) -> torch.Tensor:
        """Logits of the tokens, and the number of the most likely one [sequences, tokens + 1]."""
        last = self._hidden(model, batch, self.positions(batch))
        logits = model.logits(last, torch.tensor(self.tokens, device=model.head.weight.device))
        # In double precision, so that every token's number is exact whatever the logits' own format.
        return torch.cat([logits.double(), model.top_tokens(last)[:, None].double()], dim=1)

    def by_item(self, outputs: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:  # noqa: D102
        return outputs[:, :-1]


@dataclass(frozen=True)
class Continuations(Requests):
    """Log-likelihoods of whole continuations: the last positions of sequence i predict ``targets[i]``.

    A sequence is a prompt and its continuation without the last token, which predicts nothing. With ``finds_top``, the
    outputs also say which token of the whole vocabulary is the most likely after each prompt.
    """

    targets: list[list[int]]
    finds_top: bool = False

    @classmethod
    def after(
        cls, prompts: Sequence[list[int]], continuations: Sequence[list[int]], finds_top: bool = False
    ) -> Continuations:
        """Append continuations to prompts, one to one."""
        pairs = zip(prompts, continuations, strict=True)
        sequences = [[*prompt, *continuation[:-1]] for prompt, continuation in pairs]
        return cls(sequences, list(continuations), finds_top)

    def read_tokens(self, i: int) -> int:  # noqa: D102
        return len(self.targets[i])

    def forward(self, model: SplitModel, batch: Batch) -> torch.Tensor:
        """Log-likelihood [sequences, 1] of each continuation, and in a second column the most likely first token."""
        positions = self.positions(batch)
        places = {place: k for k, place in enumerate(dict.fromkeys(zip(*positions, strict=True)))}  # shared in trees
        hidden = self._hidden(model, batch, Positions(*map(list, zip(*places, strict=True))))
        device = model.head.weight.device
        read = torch.tensor([places[place] for place in zip(*positions, strict=True)], device=device)
        target = torch.tensor([token for i in batch.index for token in self.targets[i]], device=device)
        each = model.log_probabilities(hidden, read, target)
        total = torch.zeros(len(batch.index), dtype=each.dtype, device=device)
        owners = [k for k, i in enumerate(batch.index) for _ in self.targets[i]]
        total = total.index_add(0, torch.tensor(owners, device=device), each)
        if not self.finds_top:
            return total[:, None]
        # The first position that a continuation is read at is the last token of its prompt.
        firsts = list(accumulate((len(self.targets[i]) for i in batch.index[:-1]), initial=0))
        top = model.top_tokens(hidden[read[firsts]])
        return torch.stack([total.double(), top.double()], dim=1)

    def by_item(self, outputs: torch.Tensor, counts: Sequence[int]) -> torch.Tensor:  # noqa: D102
        parts = list(torch.split(outputs[:, 0], list(counts)))
        return torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=-torch.inf)


class Scorer(ABC, Generic[TaskT]):
    """Scores the items of one test set, or trains on them, with one tokenizer. A subclass is one scoring kind.

    A subclass encodes in ``__init__`` what may follow the prompts, and sets ``longest``, the maximum number of tokens
    that follow a prompt. To be trainable with ``loss: answers``, it also sets ``counts``, the number of sequences per
    item, and ``correct``, the index of each item's correct answer.
    """

    longest: int
    counts: Sequence[int] = ()
    correct: Sequence[int] | None = None
    notes: Sequence[str] = ()

    def __init__(self, tokenizer: Any, task: TaskT, items: pl.DataFrame, chat: Chat | None = None) -> None:
        task.check_items(items)
        self.tokenizer, self.task, self.items, self.chat = tokenizer, task, items, chat

    @abstractmethod
    def score(self, outputs: Any) -> pl.DataFrame:
        """Columns correct, margin and answer, from the outputs of ``requests`` (an array) or ``generate`` (texts)."""

    def requests(self, prompts: list[list[int]]) -> Requests | None:
        """The sequences to run for these prompts, item by item; None if the model writes."""
        return None

    def generate(self, language_model: Any, prompts: list[list[int]], progress: Progress | None = None) -> list[str]:
        """What the model writes after each prompt, for kinds without requests."""
        raise NotImplementedError

    def plan(self, language_model: Any, prompts: list[list[int]]) -> list[list[int]]:
        """The items of each batch in which ``generate`` works, so that workers can share them; by default one batch."""
        return [list(range(len(prompts)))]

    def completions(self) -> list[list[int]]:
        """The tokens after each prompt to train on with ``loss: completion``; in a chat, the assistant's whole turn."""
        texts = [self.task.target_of(row) for row in self.items.iter_rows(named=True)]
        if self.chat is not None:
            texts = [self.chat.turn(text) for text in texts]
        return encode_continuations(self.tokenizer, texts, self.chat)


#: Scorers by the task they score.
SCORERS: dict[type[Task], type[Scorer[Any]]] = {}


def register_scorer(task: type[Task]) -> Callable[[ScorerT], ScorerT]:
    """Register the scorer of a scoring kind; a class decorator."""

    def register(scorer: ScorerT) -> ScorerT:
        SCORERS[task] = scorer
        return scorer

    return register


def make_scorer(language_model: LanguageModel, task: Task, items: pl.DataFrame) -> Scorer[Any]:
    """The scorer of some items for a model, which may be asked in chat form."""
    scorer = scorer_of(task)
    if language_model.chat is None:
        return scorer(language_model.tokenizer, task, items)
    return scorer(language_model.tokenizer, task, items, chat=language_model.chat)


def scorer_of(task: Task) -> type[Scorer[Any]]:
    """The scorer of a task's kind."""
    if type(task) not in SCORERS:
        raise InputError(f"kind {task.kind!r} has no scorer; register one with breadth.lm.register_scorer")
    return SCORERS[type(task)]


@register_scorer(Pattern)
class PatternScorer(Scorer[Pattern]):
    """Log-odds of the correct answer among the answers, from the language model's own head."""

    def __init__(self, tokenizer: Any, task: Pattern, items: pl.DataFrame, chat: Chat | None = None) -> None:
        super().__init__(tokenizer, task, items, chat)
        self.answers = encode_continuations(tokenizer, [words for _, words in task.answers], chat)
        self.notes = _answer_notes(task, self.answers)
        if task.predict == "vocabulary" and NEITHER in task.labels:
            raise InputError(f"evaluate.predict: a label is called {NEITHER!r}, as other tokens are; rename the label")
        self.longest = max(map(len, self.answers))
        self.counts = [1 if self.longest == 1 else len(self.answers)] * items.height
        self.correct = [task.labels.index(label) for label in items["label"]]

    def requests(self, prompts: list[list[int]]) -> Requests:
        """Every answer after every prompt: at one position if all are single tokens, else as whole continuations."""
        of_all = self.task.predict == "vocabulary"
        if self.longest == 1:
            tokens = [ids[0] for ids in self.answers]
            return NextOfAll(prompts, tokens) if of_all else NextToken(prompts, tokens)
        repeated = [prompt for prompt in prompts for _ in self.answers]
        return Continuations.after(repeated, [ids for _ in prompts for ids in self.answers], of_all)

    def score(self, outputs: Floats) -> pl.DataFrame:
        """From the scores of all answers, and the most likely token where that decides."""
        shape = (self.items.height, len(self.answers))
        if self.task.predict == "answers":
            return pattern_scores(self.task, self.items, outputs.reshape(shape))
        if self.longest == 1:
            scores, top = outputs[:, :-1], outputs[:, -1]
        else:
            scores = outputs[:, 0].reshape(shape)
            top = outputs[:, 1].reshape(shape)[:, 0]  # every answer follows the same prompt
        begins = np.array([ids[0] for ids in self.answers])[None, :] == top[:, None]
        if self.longest == 1:
            # Of tokens with equal scores the model names one; an answer that ties with it is as likely.
            begins |= begins.any(axis=1, keepdims=True) & (scores == scores.max(axis=1, keepdims=True))
        return vocabulary_scores(self.task, self.items, scores, begins)


def _answer_notes(task: Pattern, tokens: list[list[int]]) -> list[str]:
    """Refuse answers that a model cannot tell apart, and note those that share tokens."""
    words = [words for _, words in task.answers]
    empty = [label for label, ids in zip(task.labels, tokens, strict=True) if not ids]
    if empty:
        raise InputError(f"the answer for {listed(empty)} is empty; give every label words")
    if len(set(map(tuple, tokens))) < len(tokens):
        raise InputError(f"two answers have the same tokens: {listed(map(repr, words))}")
    notes = []
    if len({ids[0] for ids in tokens}) < len(tokens):
        notes.append(f"answers {listed(map(repr, words))} begin with the same token, so whole answers are scored")
    for short, start in zip(words, tokens, strict=True):
        for long, ids in zip(words, tokens, strict=True):
            if start != ids and ids[: len(start)] == start:
                notes.append(
                    f"answer {long!r} begins with answer {short!r}, which is therefore always at least as likely"
                )
    return notes


@register_scorer(Choice)
class ChoiceScorer(Scorer[Choice]):
    """Which of an item's options the model finds most likely after the prompt (acc, acc_norm)."""

    def __init__(self, tokenizer: Any, task: Choice, items: pl.DataFrame, chat: Chat | None = None) -> None:
        super().__init__(tokenizer, task, items, chat)
        rows = list(items.iter_rows(named=True))
        self.texts = [task.option_texts(row) for row in rows]
        self.options = encode_continuations(tokenizer, [f" {text}" for own in self.texts for text in own], chat)
        self.longest = max(map(len, self.options))
        self.counts = [len(own) for own in self.texts]
        self.correct = [row["option_labels"].index(row["label"]) for row in rows]

    def requests(self, prompts: list[list[int]]) -> Requests:
        """One continuation per option of every item."""
        repeated = [prompt for prompt, count in zip(prompts, self.counts, strict=True) for _ in range(count)]
        return Continuations.after(repeated, self.options)

    def score(self, outputs: Floats) -> pl.DataFrame:
        """From the log-likelihoods of all options."""
        return choice_scores(self.task, self.items, outputs)


@register_scorer(Generate)
class GenerateScorer(Scorer[Generate]):
    """Whether the answer extracted from what the model writes is the label."""

    def __init__(self, tokenizer: Any, task: Generate, items: pl.DataFrame, chat: Chat | None = None) -> None:
        super().__init__(tokenizer, task, items, chat)
        self.longest = task.max_tokens

    def generate(self, language_model: Any, prompts: list[list[int]], progress: Progress | None = None) -> list[str]:
        """Continue every prompt by greedy decoding."""
        return generate_texts(language_model, prompts, self.task, progress)

    def plan(self, language_model: Any, prompts: list[list[int]]) -> list[list[int]]:  # noqa: D102
        return plan_generation(language_model, prompts, self.task)

    def completions(self) -> list[list[int]]:
        """The text to write, and the end of the sequence; in a chat, the end of the turn is part of the text."""
        end = self.tokenizer.eos_token_id
        if self.chat is not None:
            return super().completions()
        return [[*ids, *([] if end is None else [end])] for ids in super().completions()]

    def score(self, outputs: list[str]) -> pl.DataFrame:
        """From what the model wrote."""
        return written_scores(self.task, self.items, outputs)
