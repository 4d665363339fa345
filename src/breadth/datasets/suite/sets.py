"""The list of test sets: what each measures, and its kind of shift."""

from __future__ import annotations

from breadth.datasets.suite import (
    chains,
    coreference,
    everyday,
    negation,
    numbers,
    paraphrase,
    plain_events,
    plain_states,
    quantifiers,
    science,
    word_order,
)
from breadth.datasets.suite.items import TestSet

_PLAIN = tuple(
    each
    for both in zip(plain_events.FAMILIES, plain_states.FAMILIES, strict=True)
    for each in both  # taking turns, so that a few items already show events and states
)

SETS: dict[str, TestSet] = {
    "everyday": TestSet("everyday facts, with the shortcuts of collected sets", "in-domain", everyday.FAMILIES),
    "plain": TestSet("everyday events and facts in plain words", "in-domain", _PLAIN),
    "science": TestSet("the same kinds of inference on invented science facts", "domain", science.FAMILIES),
    "formal": TestSet("the items of plain in a formal register", "style", _PLAIN, style="formal"),
    "chat": TestSet("the items of plain as people chat", "style", _PLAIN, style="chat"),
    "negation": TestSet("not, never, neither, without, only, and two negations", "adversarial", negation.FAMILIES),
    "quantifiers": TestSet("all, some, no, not all, most and few", "adversarial", quantifiers.FAMILIES),
    "numbers": TestSet("counts, bounds, sums, products and units", "adversarial", numbers.FAMILIES),
    "word_order": TestSet("same words in another order: roles, passives, clauses", "adversarial", word_order.FAMILIES),
    "paraphrase": TestSet("near-paraphrases that keep or change the meaning", "adversarial", paraphrase.FAMILIES),
    "coreference": TestSet("pronouns and other words that point back", "adversarial", coreference.FAMILIES),
    "chains": TestSet("one to six inference steps among distractors", "difficulty", chains.FAMILIES),
}

#: Stable numbers that tell the random streams of sets apart; the three styles share one. Never renumber.
STREAMS = {
    "plain": 1,
    "formal": 1,
    "chat": 1,
    "science": 2,
    "negation": 3,
    "quantifiers": 4,
    "numbers": 5,
    "word_order": 6,
    "paraphrase": 7,
    "coreference": 8,
    "chains": 9,
    "everyday": 10,
}
