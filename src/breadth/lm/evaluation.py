"""Evaluating a model on test sets: encoded once, evaluated at every checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import polars as pl
import torch

from breadth.datasets import Task
from breadth.errors import InputError
from breadth.lm.layers import causal_model_of
from breadth.lm.loading import LanguageModel
from breadth.lm.prompts import RESERVE, encode_prompts
from breadth.lm.scoring import SCORES, Floats, Progress, Requests, Scorer, scorer_of
from breadth.lm.split_model import Batch, SplitModel, make_batch, plan_batches, tokens_per_batch


class TestSet(Protocol):
    """A loaded test set."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def task(self) -> Task:
        """How it is scored."""

    @property
    def frame(self) -> pl.DataFrame:
        """Its items."""


@dataclass
class EncodedTestSet:
    """A test set encoded for one model: prompts, and batches of sequences with states of frozen layers where kept."""

    name: str
    items: pl.DataFrame
    scorer: Scorer[Any]
    prompts: list[list[int]]
    requests: Requests | None
    batches: list[Batch] = field(default_factory=list)
    shortened: int = 0

    @property
    def task(self) -> Task:
        """How it is scored."""
        return cast(Task, self.scorer.task)

    @property
    def tokens(self) -> int:
        """Tokens of all batches including padding."""
        return sum(batch.ids.numel() for batch in self.batches)

    @property
    def notes(self) -> list[str]:
        """What a user should know about how this set is evaluated."""
        notes = list(self.scorer.notes)
        if self.shortened:
            cut = self.task.shorten
            notes.append(f"{self.shortened} of {self.items.height} prompts were too long; their {cut} was shortened")
        return [f"{self.name}: {note}" for note in notes]


def encode_testset(
    language_model: LanguageModel, testset: TestSet, *, context: int, before: str = ""
) -> EncodedTestSet:
    """Encode a test set's prompts, with ``before`` in front of each, and plan its batches."""
    tokenizer, task, items = language_model.tokenizer, testset.task, testset.frame
    scorer = scorer_of(task)(tokenizer, task, items)
    limit = fitting_context(language_model, context, scorer.longest)
    prompts = encode_prompts(tokenizer, task, items, context=limit, bos=language_model.bos, before=before)
    requests = scorer.requests(prompts.ids)
    batches: list[Batch] = []
    if requests is not None:
        plan = plan_batches(list(map(len, requests.sequences)), tokens_per_batch(language_model.device))
        batches = [make_batch(requests.sequences, index, language_model.device) for index in plan]
    return EncodedTestSet(testset.name, items, scorer, prompts.ids, requests, batches, prompts.shortened)


def fitting_context(language_model: LanguageModel, context: int, longest: int) -> int:
    """The requested context, or what the model's positions leave for prompts with ``longest`` tokens after them."""
    config = causal_model_of(language_model.model).config.get_text_config(decoder=True)
    maximum: int = getattr(config, "max_position_embeddings", None) or context + longest
    return min(context, maximum - longest + RESERVE)


def keep_frozen_states(model: SplitModel, testsets: Sequence[EncodedTestSet], progress: Progress | None = None) -> None:
    """Compute the frozen layers' states of every item once, and keep them with the batches."""
    with model.packed.enabled(keep=False):
        for testset in testsets:
            for batch in testset.batches:
                if batch.states is None:
                    batch.states = model.frozen_states(batch)
                if progress:
                    progress(len(batch.index))


def evaluate(
    language_model: LanguageModel,
    model: SplitModel,
    testsets: Sequence[EncodedTestSet],
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Evaluate the model on every item of every set: testset, item, correct, margin, answer."""
    model.model.eval()
    results = []
    with model.packed.enabled():
        for testset in testsets:
            outputs: Any = (
                testset.scorer.generate(language_model, testset.prompts, progress)
                if testset.requests is None
                else _outputs(model, testset, testset.requests, progress)
            )
            scores = testset.scorer.score(outputs).select(pl.col(name).cast(dtype) for name, dtype in SCORES.items())
            results.append(testset.items.select("testset", "item").hstack(scores))
    return pl.concat(results)


def _outputs(model: SplitModel, testset: EncodedTestSet, requests: Requests, progress: Progress | None) -> Floats:
    count, items = len(requests.sequences), testset.items.height
    rows: dict[int, Any] = {}
    with torch.inference_mode():
        for batch in testset.batches:
            before = len(rows) * items // count
            rows.update(zip(batch.index, requests.forward(model, batch).cpu().double().numpy(), strict=True))
            if progress:
                progress(len(rows) * items // count - before)
    outputs: Floats = np.stack([rows[i] for i in range(count)])
    if not np.isfinite(outputs).all():
        raise InputError(
            f"{testset.name}: the model's outputs are infinite or not numbers; set recipe.dtype to float32, or lower "
            "recipe.lr if it was trained"
        )
    return outputs
