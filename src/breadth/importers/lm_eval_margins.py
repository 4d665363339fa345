"""Which option was chosen, which is right, and by what margin, from the log-likelihoods of a file of samples.

Logs do not reliably say which option is right: ``target`` is an index, a list of them, the text of an option, or, for
tasks whose options differ in the context, something else. A rule to read it is accepted only if it reproduces the log's
own ``acc`` on every row. With two options the right one follows from ``acc``. Otherwise there is no margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from breadth.importers.lm_eval_samples import Sample

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]

#: Most cells of a table of options by row; a damaged file could ask for any number.
MOST_CELLS = 5_000_000


@dataclass(frozen=True)
class Choices:
    """Options by row: ``gold`` marks the right ones (None if no rule explains the scores), ``chosen`` by metric."""

    gold: Bools | None = None
    chosen: dict[str, Ints] = field(default_factory=dict)
    margins: dict[str, Floats] = field(default_factory=dict)


def weigh(samples: Sequence[Sample], scores: dict[str, Floats], delimiter: str | None = None) -> Choices:
    """Find choices, right options and margins of ``acc`` and ``acc_norm``; ``scores`` are those of one filter.

    ``delimiter`` stands between context and continuation; ``acc_norm`` divides by the length of the option without it.
    """
    counts = np.array([len(sample.logs) for sample in samples], dtype=np.intp)
    if "acc_mutual_info" in scores:
        counts //= 2  # the second half are log-likelihoods without the context
    acc, acc_norm = scores.get("acc"), scores.get("acc_norm")
    first = acc if acc is not None else acc_norm
    if first is None or not len(samples) or not 2 <= counts.max() <= MOST_CELLS // len(samples):
        return Choices()
    inside = np.arange(counts.max()) < counts[:, None]
    logs = _table((s.logs[:n] for s, n in zip(samples, counts, strict=True)), inside)
    chosen = {"acc": logs.argmax(axis=1)}
    lengths = _lengths(samples, counts, inside, delimiter) if acc_norm is not None else iter(())
    shares = [logs / some for some in lengths]
    if acc is None:
        shares = [share for share in shares if _gold(samples, counts, share.argmax(axis=1), first) is not None]
        if not shares:
            return Choices()
        del chosen["acc"]
        gold = _gold(samples, counts, shares[0].argmax(axis=1), first)
    else:
        gold = _gold(samples, counts, chosen["acc"], first)
    margins: dict[str, Floats] = {}
    if gold is not None and acc is not None:
        margins["acc"] = _log_odds(logs, gold, inside, acc)
    for share in shares:
        norm = share.argmax(axis=1)
        if gold is not None and acc_norm is not None and _explains(gold, norm, acc_norm):
            chosen["acc_norm"], margins["acc_norm"] = norm, _log_odds(share, gold, inside, acc_norm)
            break
    return Choices(gold, chosen, margins)


def _table(rows: Iterator[Sequence[float]], inside: Bools) -> Floats:
    table = np.full(inside.shape, -np.inf)
    table[inside] = np.fromiter(chain.from_iterable(rows), dtype=np.float64)
    return table


def _lengths(samples: Sequence[Sample], counts: Ints, inside: Bools, delimiter: str | None) -> Iterator[Floats]:
    """Lengths of the options in characters: without the delimiter if every continuation begins with it, then with."""
    if any(len(s.continuations) < n for s, n in zip(samples, counts, strict=True)):
        return
    texts = [s.continuations[:n] for s, n in zip(samples, counts, strict=True)]
    lengths = _table(([len(text) for text in row] for row in texts), inside)
    delimiter = " " if delimiter is None else delimiter
    shorter = lengths - len(delimiter)
    if delimiter and all(text.startswith(delimiter) for row in texts for text in row) and shorter[inside].min() > 0:
        yield np.where(inside, shorter, 1.0)
    if lengths[inside].min() > 0:
        yield np.where(inside, lengths, 1.0)


def _gold(samples: Sequence[Sample], counts: Ints, chosen: Ints, acc: Floats) -> Bools | None:
    """The right options, by the rule that explains ``acc``; None if none does, or two do that disagree."""
    scored = ~np.isnan(acc)
    if not np.isin(acc[scored], (0.0, 1.0)).all() or (counts[scored] < 2).any():
        return None
    width = int(counts.max())
    if (counts[scored] == 2).all():
        right = np.where(acc == 1, chosen, 1 - chosen)
        inferred: Bools = (np.arange(width) == right[:, None]) & scored[:, None]
        return inferred
    accepted: list[Bools] = []
    for rule in (_by_index, _by_text):
        gold = _marked(samples, counts, width, rule)
        if _explains(gold, chosen, acc):
            accepted.append(gold)
    return accepted[0] if accepted and all((gold == accepted[0])[scored].all() for gold in accepted) else None


def _explains(gold: Bools, chosen: Ints, acc: Floats) -> bool:
    scored = ~np.isnan(acc)
    right = gold[np.arange(len(gold)), chosen]
    return bool(gold[scored].any(axis=1).all() and (right == (acc == 1))[scored].all())


def _marked(
    samples: Sequence[Sample], counts: Ints, width: int, rule: Callable[[Any, Sequence[str]], list[int]]
) -> Bools:
    gold = np.zeros((len(samples), width), dtype=bool)
    right = [
        (k, place)
        for k, (sample, count) in enumerate(zip(samples, counts.tolist(), strict=True))
        for place in rule(sample.target, sample.continuations[:count])
        if 0 <= place < count
    ]
    if right:
        gold[tuple(np.array(right).T)] = True
    return gold


def _by_index(target: Any, _: Sequence[str]) -> list[int]:
    """An index or a list of them; since 0.4.4 they are written as text."""
    if isinstance(target, str):
        try:
            target = orjson.loads(target)
        except orjson.JSONDecodeError:
            return []
    places = target if isinstance(target, list) else [target]
    return [place for place in places if type(place) is int]


def _by_text(target: Any, continuations: Sequence[str]) -> list[int]:
    """The text of an option, or a list of such texts; blanks around it do not count."""
    texts = {text.strip() for text in (target if isinstance(target, list) else [target]) if isinstance(text, str)}
    return [place for place, text in enumerate(continuations) if text.strip() in texts]


def _log_odds(logs: Floats, gold: Bools, inside: Bools, acc: Floats) -> Floats:
    """Log-odds of the right options against all others; NaN where they are not finite."""
    sides = [np.where(side & inside, logs, -np.inf) for side in (gold, ~gold)]
    with np.errstate(invalid="ignore", divide="ignore"):
        right, wrong = (np.logaddexp.reduce(side, axis=1) for side in sides)
        odds: Floats = right - wrong
    odds[~np.isfinite(odds) | np.isnan(acc)] = np.nan
    return odds
