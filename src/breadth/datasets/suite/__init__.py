"""Thirteen generated natural-language-inference test sets: any seed, no download, labels true by construction.

A module holds the template families of one set (or two alike), ``templates`` the words and the grammar they share.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from breadth.datasets.suite import (
    chains,
    coreference,
    everyday,
    negation,
    numbers,
    paraphrase,
    plain,
    quantifiers,
    science,
    word_order,
)
from breadth.datasets.suite.templates import SPLITS, Draw, Family, Split, TestSet, Text, Texts
from breadth.errors import InputError, did_you_mean, listed

__all__ = ["MAX_ITEMS", "SCHEMA", "SETS", "SPLITS", "Split", "TestSet", "generate"]

SETS: dict[str, TestSet] = {
    "everyday": TestSet("everyday facts, with the shortcuts of collected sets", "in-domain", 10, everyday.FAMILIES),
    "workplace": TestSet("facts about people at work, with the same shortcuts", "domain", 11, everyday.AT_WORK),
    "plain": TestSet("everyday events and facts in plain words", "in-domain", 1, plain.FAMILIES),
    "science": TestSet("the same kinds of inference on invented science facts", "domain", 2, science.FAMILIES),
    "formal": TestSet("the items of plain in a formal register", "style", 1, plain.FAMILIES, style="formal"),
    "chat": TestSet("the items of plain as people chat", "style", 1, plain.FAMILIES, style="chat"),
    "negation": TestSet("not, never, neither, without, only, and two negations", "adversarial", 3, negation.FAMILIES),
    "quantifiers": TestSet("all, some, no, not all, most and few", "adversarial", 4, quantifiers.FAMILIES),
    "numbers": TestSet("counts, bounds, sums, products and units", "adversarial", 5, numbers.FAMILIES),
    "word_order": TestSet(
        "same words in another order: roles, passives, clauses", "adversarial", 6, word_order.FAMILIES
    ),
    "paraphrase": TestSet("near-paraphrases that keep or change the meaning", "adversarial", 7, paraphrase.FAMILIES),
    "coreference": TestSet("pronouns and other words that point back", "adversarial", 8, coreference.FAMILIES),
    "chains": TestSet("one to six inference steps among distractors", "difficulty", 9, chains.FAMILIES),
}

SCHEMA = {
    "item": pl.String,
    "testset": pl.String,
    "shift": pl.String,
    "premise": pl.String,
    "hypothesis": pl.String,
    "label": pl.String,
    "template": pl.String,
    "pair": pl.String,
    "steps": pl.Int64,
}

#: The most items of one set, seed and split; tested for every set, and about a quarter of what the templates allow.
MAX_ITEMS = 20_000

#: This many repeats in a row mean that a family has run out of new texts, which is a bug below ``MAX_ITEMS``.
MAX_ATTEMPTS = 1000


class Item(NamedTuple):
    """A text with its label, its template family and its number of inference steps."""

    text: Text
    entailed: bool
    template: str
    steps: int | None


def generate(name: str, n: int, *, seed: int = 0, split: Split = "test") -> pl.DataFrame:
    """Generate ``n`` items of the set ``name``; at most 20,000 (``MAX_ITEMS``) per set, seed and split.

    The same arguments give the same frame on every machine, and the first m of n rows equal a call with m. No text
    is repeated. ``train`` and ``test`` use different words, so they share no premise and no hypothesis, whatever the
    seeds; items of one split with different seeds may. Labels are balanced to within one item, in the set and in
    every template family.

    ``item`` numbers the items of a set and split but does not include the seed: add it before you mix seeds in one
    table. Items of ``plain``, ``formal`` and ``chat`` that say the same share a ``pair``. ``steps`` is the number of
    inference steps in ``chains``; for hypotheses that do not follow, the number of steps needed to see that.

    >>> frame = generate("word_order", 4)
    >>> frame["label"].value_counts().sort("label").rows()
    [('entailment', 2), ('not_entailment', 2)]
    """
    _check(name, n, seed, split)
    testset = SETS[name]
    items = _write(testset, n, seed, split)
    paired = testset.stream == SETS["plain"].stream
    return pl.DataFrame(
        {
            "item": [f"{name}-{split}-{i:06d}" for i in range(n)],
            "testset": [name] * n,
            "shift": [testset.shift] * n,
            "premise": [item.text.premise for item in items],
            "hypothesis": [item.text.hypothesis for item in items],
            "label": ["entailment" if item.entailed else "not_entailment" for item in items],
            "template": [item.template for item in items],
            "pair": [f"pair-{split}-{i:06d}" if paired else None for i in range(n)],
            "steps": [item.steps for item in items],
        },
        schema=SCHEMA,
    )


def _write(testset: TestSet, n: int, seed: int, split: Split) -> list[Item]:
    """Write items in pairs: each family in turn writes one item of each label, in random order.

    This balances labels to within one item, overall and in each family. Nothing that is drawn depends on ``n``, so
    the first m of n items equal the m items of a smaller call.
    """
    draw = Draw((testset.stream, SPLITS.index(split), seed), split)
    written: set[Text] = set()
    items: list[Item] = []
    turn = 0
    while len(items) < n:
        family = testset.families[turn % len(testset.families)]
        turn += 1
        first = draw.flip()
        for entailed in (first, not first):
            texts = _new(family, draw, entailed, written)
            text = getattr(texts, testset.style)
            items.append(Item(text, entailed, family.template, family.steps))
    return items[:n]


def _new(family: Family, draw: Draw, entailed: bool, written: set[Text]) -> Texts:
    """Write until no style repeats an earlier text, so that paired styles stay paired."""
    for _ in range(MAX_ATTEMPTS):
        texts = family.write(draw, entailed)
        if written.isdisjoint(texts.written()):
            written.update(texts.written())
            return texts
    raise RuntimeError(f"template family {family.template!r} has run out of new texts")


def _check(name: str, n: int, seed: int, split: str) -> None:
    """Refuse arguments out of range, naming all of them at once."""
    if name not in SETS:
        hint = did_you_mean([name], SETS, most=1)
        raise InputError(f"generated suite: unknown set {name!r}.{hint} Available: {listed(SETS)}")
    wrong = []
    if not 0 <= n <= MAX_ITEMS:
        wrong.append(f"n is {n}, but must be between 0 and {MAX_ITEMS:,} (items per split)")
    if seed < 0:
        wrong.append(f"seed is {seed}, but must not be negative")
    if split not in SPLITS:
        wrong.append(f"unknown split {split!r}; use {' or '.join(SPLITS)}")
    if wrong:
        raise InputError(f"generated suite: {'; '.join(wrong)}")
