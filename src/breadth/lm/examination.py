"""Asking a model every item of every test set: prepared once, asked at every checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import polars as pl
import torch

from breadth.datasets.tasks import Choice, Generate, Pattern, Task
from breadth.errors import InputError
from breadth.lm.batches import CPU_TOKENS, GPU_TOKENS, Batch, make_batch, plan_batches
from breadth.lm.body import Body
from breadth.lm.choices import choice_query, choice_results, encode_options
from breadth.lm.generation import generate_texts, generation_results
from breadth.lm.layers import causal_model_of
from breadth.lm.patterns import Answers, encode_answers, pattern_query, pattern_results
from breadth.lm.prompts import RESERVE, encode_prompts
from breadth.lm.queries import Query

#: Called with the number of items that were just answered.
Progress = Callable[[int], None]


class TestSet(Protocol):
    """A test set as the registry loads it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def task(self) -> Task:
        """What is asked."""

    @property
    def frame(self) -> pl.DataFrame:
        """Its items."""


@dataclass
class Paper:
    """A test set made ready for one model: prompts encoded, sequences batched, trunk states kept where they help."""

    name: str
    task: Task
    items: pl.DataFrame
    prompts: list[list[int]]
    query: Query | None
    answers: Answers | None
    batches: list[Batch] = field(default_factory=list)
    shortened: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of all batches with their padding: what the trunk states of this set would take."""
        return sum(batch.ids.numel() for batch in self.batches)

    @property
    def notes(self) -> list[str]:
        """What a user should know about how this set is asked."""
        said = list(self.answers.notes) if self.answers else []
        if self.shortened:
            said.append(
                f"{self.shortened} of {self.items.height} prompts were too long; their {self.task.shorten} was cut"
            )
        return [f"{self.name}: {note}" for note in said]


def prepare(language_model: Any, testset: TestSet, *, context: int, before: str = "") -> Paper:
    """Encode a test set's prompts and plan its batches."""
    tokenizer, task, items = language_model.tokenizer, testset.task, testset.frame
    answers = encode_answers(tokenizer, task) if isinstance(task, Pattern) else None
    options = encode_options(tokenizer, task, items) if isinstance(task, Choice) else []
    endings = [*(answers.tokens if answers else ()), *(ending for own in options for ending in own)]
    longest = task.most_tokens if isinstance(task, Generate) else max(map(len, endings))
    room = fitting_context(language_model, context, longest)
    prompts = encode_prompts(tokenizer, task, items, context=room, bos=language_model.bos, before=before)
    query: Query | None = None
    if answers is not None:
        query = pattern_query(answers, prompts.ids)
    elif options:
        query = choice_query(options, prompts.ids)
    paper = Paper(testset.name, task, items, prompts.ids, query, answers, shortened=prompts.shortened)
    if query is not None:
        plan = plan_batches([len(sequence) for sequence in query.sequences], tokens_per_batch(language_model))
        paper.batches = [make_batch(query.sequences, index, language_model.device) for index in plan]
    return paper


def fitting_context(language_model: Any, context: int, longest: int) -> int:
    """The context asked for, or what the model's positions leave for prompts beside the longest ending."""
    config = causal_model_of(language_model.model).config.get_text_config(decoder=True)
    most: int = getattr(config, "max_position_embeddings", None) or context + longest
    return min(context, most - longest + RESERVE)


def tokens_per_batch(language_model: Any) -> int:
    """How many tokens a batch holds on the model's device."""
    return CPU_TOKENS if torch.device(language_model.device).type == "cpu" else GPU_TOKENS


def keep_trunk(body: Body, papers: Sequence[Paper], progress: Progress | None = None) -> None:
    """Compute what the trunk makes of every item, once, and keep it with the batches."""
    with body.packing.on(keep=False):
        for paper in papers:
            for batch in paper.batches:
                if batch.states is None:
                    batch.states = body.trunk(batch)
                if progress:
                    progress(len(batch.index))


def examine(language_model: Any, body: Body, papers: Sequence[Paper], progress: Progress | None = None) -> pl.DataFrame:
    """Answers of the model to every item of every set: testset, item, correct, margin, answer."""
    body.model.eval()
    with body.packing.on():
        return pl.concat([_examine_one(language_model, body, paper, progress) for paper in papers])


def _examine_one(language_model: Any, body: Body, paper: Paper, progress: Progress | None) -> pl.DataFrame:
    if isinstance(paper.task, Generate):
        tokens = 8 * tokens_per_batch(language_model)
        texts = generate_texts(language_model, paper.prompts, paper.task, tokens, progress)
        results = generation_results(paper.task, paper.items, texts)
    else:
        scores = _scores(body, paper, progress)
        if isinstance(paper.task, Pattern):
            assert paper.answers is not None
            results = pattern_results(paper.answers, scores, paper.items["label"].to_list())
        else:
            results = choice_results(paper.task, paper.items, scores.ravel())
    return paper.items.select("testset", "item").hstack(results)


def _scores(body: Body, paper: Paper, progress: Progress | None) -> np.ndarray[Any, np.dtype[np.float64]]:
    assert paper.query is not None
    count, items = len(paper.query.sequences), paper.items.height
    rows: dict[int, Any] = {}
    with torch.inference_mode():
        for batch in paper.batches:
            before = len(rows) * items // count
            found = paper.query.ask(body, batch).cpu().double().numpy()
            rows.update(zip(batch.index, found, strict=True))
            if progress:
                progress(len(rows) * items // count - before)
    scores = np.stack([rows[i] for i in range(count)])
    if not np.isfinite(scores).all():
        raise InputError(
            f"{paper.name}: the model's answers are no numbers (infinite or NaN); use recipe.dtype float32, or lower "
            "recipe.lr if it was trained"
        )
    return scores
