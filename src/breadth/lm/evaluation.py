"""Evaluating a model on test sets: encoded once, evaluated at every checkpoint, whole or in parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, cast

import numpy as np
import polars as pl
import torch

from breadth.datasets import ItemSet, Task
from breadth.errors import InputError
from breadth.lm.batches import Batch, make_batches, plan_trees, rebatch, tokens_per_batch
from breadth.lm.lanes import map_in_lanes
from breadth.lm.layers import causal_model_of
from breadth.lm.loading import LanguageModel
from breadth.lm.mixed import rescore_close_items
from breadth.lm.placement import MIXED
from breadth.lm.prompts import RESERVE, encode_prompts
from breadth.lm.scores import SCORES, Floats, Outputs
from breadth.lm.scoring import NextToken, Progress, Requests, Scorer, make_scorer
from breadth.lm.split_model import SplitModel


@dataclass
class EncodedTestSet:
    """A test set encoded for one model: prompts, and batches of sequences with states of frozen layers where kept.

    ``written`` lists the items of each batch where the model writes.
    """

    name: str
    items: pl.DataFrame
    scorer: Scorer[Any]
    prompts: list[list[int]]
    requests: Requests | None
    batches: list[Batch] = field(default_factory=list)
    shortened: int = 0
    written: list[list[int]] = field(default_factory=list)

    @property
    def task(self) -> Task:
        """How it is scored."""
        return cast(Task, self.scorer.task)

    @property
    def tokens(self) -> int:
        """Tokens of all batches including padding."""
        return sum(batch.ids.numel() for batch in self.batches)

    @property
    def can_be_mixed(self) -> bool:
        """Whether ``dtype: mixed`` applies: one sequence decides on an item, and none is part of a tree."""
        trees = any(batch.paths is not None for batch in self.batches)
        return bool(self.batches) and isinstance(self.requests, NextToken) and not trees

    def kept_states(self) -> dict[int, torch.Tensor]:
        """Kept states of every sequence that has them; none may be part of a tree."""
        assert self.requests is not None
        return {
            i: batch.states[k, : len(self.requests.sequences[i])]
            for batch in self.batches
            if batch.states is not None
            for k, i in enumerate(batch.index)
        }

    def part(self, index: int, of: int) -> range:
        """Numbers of the batches in part ``index`` of ``of`` parts with about as many tokens each."""
        sizes = [batch.ids.numel() for batch in self.batches] or [
            sum(len(self.prompts[i]) + self.scorer.longest for i in batch) for batch in self.written
        ]
        ends = np.cumsum(sizes)
        middles = (ends - np.array(sizes) / 2) * of / max(int(ends[-1]), 1) if sizes else np.zeros(0)
        first, last = np.searchsorted(middles, [index, index + 1])
        return range(int(first), int(last))

    @property
    def notes(self) -> list[str]:
        """What a user should know about how this set is evaluated."""
        notes = list(self.scorer.notes)
        if self.shortened:
            cut = self.task.shorten
            notes.append(f"{self.shortened} of {self.items.height} prompts were too long; their {cut} was shortened")
        return [f"{self.name}: {note}" for note in notes]


def encode_testset(
    language_model: LanguageModel, testset: ItemSet, *, context: int, before: str = ""
) -> EncodedTestSet:
    """Encode a test set's prompts, with ``before`` in front of each, and plan its batches."""
    tokenizer, task, items = language_model.tokenizer, testset.task, testset.frame
    scorer = make_scorer(language_model, task, items)
    limit = fitting_context(language_model, context, scorer.longest)
    prompts = encode_prompts(
        tokenizer, task, items, context=limit, bos=language_model.bos, before=before, chat=language_model.chat
    )
    requests = scorer.requests(prompts.ids)
    _refuse_unknown_tokens(language_model, testset.name, prompts.ids if requests is None else requests.sequences)
    batches: list[Batch] = []
    if requests is not None:
        config = causal_model_of(language_model.model).config.get_text_config(decoder=True)
        trees = plan_trees(requests.sequences, config.hidden_size, getattr(config, "sliding_window", None))
        device = language_model.device
        batches = make_batches(requests.sequences, device, tokens_per_batch(device), trees)
    written = scorer.plan(language_model, prompts.ids) if requests is None else []
    return EncodedTestSet(testset.name, items, scorer, prompts.ids, requests, batches, prompts.shortened, written)


def _refuse_unknown_tokens(language_model: LanguageModel, name: str, sequences: Sequence[Sequence[int]]) -> None:
    known = getattr(language_model.model.get_input_embeddings(), "num_embeddings", None)
    largest = max((max(each, default=0) for each in sequences), default=0)
    if known is not None and largest >= known:
        raise InputError(
            f"{name}: the tokenizer of {language_model.name} gives token {largest:,}, and the model has only {known:,} "
            "tokens; use the tokenizer that it was trained with"
        )


def fitting_context(language_model: LanguageModel, context: int, longest: int) -> int:
    """The requested context, or what the model's positions leave for prompts with ``longest`` tokens after them."""
    config = causal_model_of(language_model.model).config.get_text_config(decoder=True)
    maximum: int = getattr(config, "max_position_embeddings", None) or context + longest
    return min(context, maximum - longest + RESERVE)


def keep_frozen_states(model: SplitModel, testsets: Sequence[EncodedTestSet], progress: Progress | None = None) -> None:
    """Compute the frozen layers' states of every item once, and keep them with the batches."""
    keep_batches(model, [batch for testset in testsets for batch in testset.batches], progress)


def keep_batches(
    model: SplitModel, batches: Sequence[Batch], progress: Progress | None = None, *, more: bool = False
) -> None:
    """Compute the frozen layers' states of some batches, unless they have them; with ``more``, others will follow."""

    def keep(model: SplitModel, batch: Batch) -> None:
        if batch.states is None:
            batch.states = model.frozen_states(batch)

    map_in_lanes(model, keep, batches, keep=more, done=progress and (lambda batch: progress(len(batch.index))))


def evaluate_model(
    language_model: LanguageModel,
    model: SplitModel,
    testsets: Sequence[EncodedTestSet],
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Evaluate the model on every item of every set: testset, item, correct, margin, answer."""
    outputs: dict[str, Outputs] = {}
    for mixed, compute in ((False, _whole_outputs), (True, _mixed_outputs)):
        own = [each for each in testsets if (language_model.dtype == MIXED and each.can_be_mixed) is mixed]
        outputs |= zip((each.name for each in own), compute(language_model, model, own, progress), strict=True)
    return pl.concat([score_outputs(testset, [outputs[testset.name]]) for testset in testsets])


def _whole_outputs(
    language_model: LanguageModel,
    model: SplitModel,
    testsets: Sequence[EncodedTestSet],
    progress: Progress | None = None,
) -> list[Outputs]:
    return compute_outputs(language_model, model, [(testset, testset.part(0, 1)) for testset in testsets], progress)


def _mixed_outputs(
    language_model: LanguageModel, model: SplitModel, testsets: Sequence[EncodedTestSet], progress: Progress | None
) -> list[Outputs]:
    """Outputs from products in bfloat16, and from products in float32 where these could change the answer."""
    with model.packed.unchanged():
        with model.packed.rounded():
            rough = [_sort_outputs(each) for each in _whole_outputs(language_model, model, testsets, progress)]
        settled = rescore_close_items(rough, partial(_some_outputs, model, testsets))
    return [Outputs(list(range(len(scores))), scores) for scores in settled]


def _some_outputs(
    model: SplitModel, testsets: Sequence[EncodedTestSet], chosen: Sequence[Sequence[int]]
) -> list[Floats]:
    """Logits of some items of every set, by their numbers; in batches across sets, where fewer tokens are padding."""
    all_requests = [cast(NextToken, testset.requests) for testset in testsets]
    tokens = sorted({token for requests in all_requests for token in requests.tokens})
    sequences, states = list[list[int]](), list[torch.Tensor]()
    for testset, requests, own in zip(testsets, all_requests, chosen, strict=True):
        kept = testset.kept_states()
        sequences += [requests.sequences[i] for i in own]
        states += [kept[i] for i in own if i in kept]
    device = testsets[0].batches[0].ids.device
    small = tokens_per_batch(device.type) // 2  # there are few, and every thread should have its share
    batches = rebatch(sequences, states, device, small)
    joined = NextToken(sequences, tokens)
    rows = map_in_lanes(model, _forward, [(joined, batch) for batch in batches])
    parts = np.split(_sort_outputs(_join_outputs(batches, iter(rows))), np.cumsum([len(own) for own in chosen])[:-1])
    columns = [[tokens.index(token) for token in requests.tokens] for requests in all_requests]
    return [part[:, own] for part, own in zip(parts, columns, strict=True)]


def _sort_outputs(outputs: Outputs) -> Floats:
    """Outputs by the numbers of their sequences."""
    values: Floats = outputs.values[np.argsort(outputs.index)]
    return values


def compute_outputs(
    language_model: LanguageModel,
    model: SplitModel,
    parts: Sequence[tuple[EncodedTestSet, range]],
    progress: Progress | None = None,
) -> list[Outputs]:
    """Outputs of some batches of some sets. A batch gives the same outputs whatever is computed along with it."""
    model.model.eval()
    work = [(testset, testset.batches[k]) for testset, batches in parts if testset.requests for k in batches]
    done = _by_item(progress) if progress else None
    rows = iter(map_in_lanes(model, _forward_testset, work, done=done))
    return [
        _write_texts(language_model, model, testset, batches, progress)
        if testset.requests is None
        else _join_outputs([testset.batches[k] for k in batches], rows)
        for testset, batches in parts
    ]


def score_outputs(testset: EncodedTestSet, outputs: Sequence[Outputs]) -> pl.DataFrame:
    """Score all items of a set from the outputs of all its batches: testset, item, correct, margin, answer."""
    values = {i: value for each in outputs for i, value in zip(each.index, each.values, strict=True)}
    rows: Any = [values[i] for i in range(len(values))]
    if testset.requests is not None:
        rows = np.stack(rows)
        if not np.isfinite(rows).all():
            raise InputError(
                f"{testset.name}: the model's outputs are infinite or not numbers; use float32 (recipe.dtype) or, "
                "if it was trained, a lower learning rate (recipe.lr)"
            )
    scores = testset.scorer.score(rows).select(pl.col(name).cast(dtype) for name, dtype in SCORES.items())
    return testset.items.select("testset", "item").hstack(scores)


def _write_texts(
    language_model: LanguageModel,
    model: SplitModel,
    testset: EncodedTestSet,
    batches: range,
    progress: Progress | None,
) -> Outputs:
    # Neighbouring batches without the others are planned as the same batches again.
    index = sorted(i for k in batches for i in testset.written[k])
    prompts = [testset.prompts[i] for i in index]
    with model.packed.enabled():
        return Outputs(index, testset.scorer.generate(language_model, prompts, progress) if prompts else [])


def _forward_testset(model: SplitModel, work: tuple[EncodedTestSet, Batch]) -> Floats:
    testset, batch = work
    assert testset.requests is not None
    return _forward(model, (testset.requests, batch))


def _forward(model: SplitModel, work: tuple[Requests, Batch]) -> Floats:
    requests, batch = work
    with torch.inference_mode():
        values: Floats = requests.forward(model, batch).cpu().double().numpy()
    return values


def _by_item(progress: Progress) -> Callable[[tuple[EncodedTestSet, Batch]], None]:
    """Progress in items, some of which have several sequences."""
    seen: Counter[str] = Counter()

    def done(work: tuple[EncodedTestSet, Batch]) -> None:
        testset, batch = work
        assert testset.requests is not None
        count, items = len(testset.requests.sequences), testset.items.height
        before = seen[testset.name] * items // count
        seen[testset.name] += len(batch.index)
        progress(seen[testset.name] * items // count - before)

    return done


def _join_outputs(batches: Sequence[Batch], rows: Iterator[Floats]) -> Outputs:
    index, values = [i for batch in batches for i in batch.index], list(islice(rows, len(batches)))
    return Outputs(index, np.concatenate(values) if values else np.zeros((0, 1)))
