"""Samples of lm-evaluation-harness, of every version since 2023: scores, which option was chosen, and by what margin.

Logs do not reliably say which option is right: ``target`` is an index, a list of them, the text of an option, or, for
tasks whose options differ in the context, something else. A rule to read it is accepted only if it reproduces the log's
own ``acc`` on every row. With two options the right one follows from ``acc``. Otherwise there is no margin.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from breadth.errors import InputError
from breadth.importers.lm_eval_rows import cut_row, endings, last_part, prompted, weighed, whole_row
from breadth.importers.reading import LogFile, entries, mapping, number, short_answer, text_item, words

#: Keys of a row that are not metrics.
FIELDS = frozenset(
    (
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "scores_per_repeat"),
        *("doc_hash", "prompt_hash", "target_hash"),
    )
)

#: Most characters of a prompt that are shown as a question, where there is no document.
LONGEST_PROMPT = 2000

#: Most cells of a table of options by row; a damaged file could ask for any number.
MOST_CELLS = 5_000_000

_GREEDY = frozenset((True, False, "True", "False"))
_NUMBERED = re.compile(r"(?:prompt|logit)_(\d{1,4})")

Scores = dict[str, float | None]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]


@dataclass(slots=True)
class Sample:
    """One document and what became of it; ``scores`` and ``responses`` by filter, or by its place if it has no name.

    ``logs`` are the log-likelihoods of the options, empty where the model writes freely. ``repeats`` are the scores of
    each attempt by metric, where a log has several attempts.
    """

    doc_id: int
    identity: str
    target: Any
    logs: list[float]
    continuations: list[str]
    text: str | None = None
    options: list[str] | None = None
    scores: dict[str | int, Scores] = field(default_factory=dict)
    responses: dict[str | int, str | None] = field(default_factory=dict)
    repeats: dict[str | int, dict[str, list[float | None]]] = field(default_factory=dict)


def read_samples(file: LogFile, texts: bool, fast: bool = True) -> list[Sample]:
    """Read the samples of a file (0.4 and later), in the order of their documents' numbers.

    Several lines of one document are those of several filters. ``fast=False`` parses every line whole.
    """
    samples: dict[tuple[int, str], Sample] = {}
    expected: set[str] | None = None
    named: bool | None = None
    for line, content in file.rows():
        row = cut_row(content, expected, texts) if expected else None
        if row is None:
            row = whole_row(content, texts, str(file.path), line)
            last = row.rest.keys() - {"doc_id", "doc", "target", "arguments", "resps"}
            expected = last if fast and len(row.rest) - len(last) == 5 and not file.is_list else None
        document, rest, _ = row
        hashed, is_named = rest.get("doc_hash"), type(rest.get("filter")) is str
        if is_named is not named and named is not None:
            raise InputError(
                f"{file.path}, line {line}: some lines name their filter, others do not; the file is damaged"
            )
        named = is_named
        identity = (hashed if type(hashed) is str and hashed else document.hashed or "")[:16]
        sample = samples.get((document.doc_id, identity))
        if sample is None:
            logs = _log_likelihoods(rest.get("filtered_resps"))
            continuations, options = weighed(row, content, len(logs), texts) if logs else ([], None)
            text = (document.text or prompted(row, content)) if texts else None
            sample = Sample(document.doc_id, identity, document.target, logs, continuations, text, options)
            samples[document.doc_id, identity] = sample
        _score_row(sample, rest, file, line)
    return sorted(samples.values(), key=lambda sample: sample.doc_id)


def _score_row(sample: Sample, row: dict[str, Any], file: LogFile, line: int) -> None:
    """Add the scores of one line; a line without a filter's name is that of the next filter."""
    name, responses, repeats = row.get("filter"), row.get("filtered_resps"), row.get("scores_per_repeat")
    key = name if type(name) is str else len(sample.scores)
    scores = _scores(row)
    if sample.scores.setdefault(key, scores) != scores:
        raise InputError(
            f"{file.path}, line {line}: doc_id {sample.doc_id} has two different scores for filter {key!r}; the file "
            "holds several runs, split it"
        )
    first = responses[0] if type(responses) is list and responses else responses
    sample.responses[key] = short_answer(first)
    if repeats:
        attempts = {name: list(map(_score, entries(values))) for name, values in mapping(repeats).items()}
        sample.repeats[key] = {name: values for name, values in attempts.items() if values}


def read_written_out(file: LogFile, texts: bool) -> list[Sample]:
    """Read what ``--write_out`` wrote in 2023: prompts, log-likelihoods and scores as text, no documents.

    A document is identified by the last paragraph of its prompts: those before it are few-shot examples. Documents
    which that does not tell apart are identified by their whole prompts.
    """
    samples: list[Sample] = []
    whole: list[str] = []
    for k, element in enumerate(entries(file.json())):
        row = mapping(element)
        places = sorted({int(match[1]) for key in row if (match := _NUMBERED.fullmatch(key))})
        prompts = [words(row.get(f"prompt_{place}")) or "" for place in places]
        if not any(prompts):
            raise InputError(f"{file.path}, element {k + 1}: has no prompt_0; the file is damaged")
        answers = [row.get(f"logit_{place}") for place in places]
        logs = _log_likelihoods([value if isinstance(value, list) else [value, False] for value in answers])
        start, rests = endings(prompts) if len(prompts) > 1 else (prompts[0], [""])
        last = last_part(start)
        doc_id = row.get("doc_id")
        identity = text_item(*(last + rest for rest in rests))
        sample = Sample(doc_id if type(doc_id) is int else k, identity, row.get("truth"), logs, [])
        whole.append(text_item(*prompts))
        if texts:
            sample.text, sample.options = last[-LONGEST_PROMPT:].strip() or None, rests if logs else None
        sample.scores[0] = {
            key: _score(value)
            for key, value in row.items()
            if key not in ("doc_id", "truth") and not _NUMBERED.fullmatch(key)
        }
        if answers and not logs and (answer := short_answer(answers[0])) is not None:
            sample.responses[0] = answer
        samples.append(sample)
    count = Counter(sample.identity for sample in samples)
    for sample, identity in zip(samples, whole, strict=True):
        if count[sample.identity] > 1:
            sample.identity = identity
    return sorted(samples, key=lambda sample: sample.doc_id)


def _log_likelihoods(responses: Any) -> list[float]:
    """Log-likelihoods of two or more options, each given with whether it is the greedy one; else empty."""
    if type(responses) is not list or len(responses) < 2:
        return []
    try:
        logs = [float(value) for value, greedy in responses if greedy in _GREEDY]
    except (TypeError, ValueError, OverflowError):
        return []
    return logs if len(logs) == len(responses) else []


def _scores(row: dict[str, Any]) -> Scores:
    names = row.get("metrics")
    if type(names) is not list:
        return {key: _score(value) for key, value in row.items() if key not in FIELDS}
    return {name: _score(row.get(name)) for name in names if type(name) is str}


def _score(value: Any) -> float | None:
    """A score; some versions write numbers and truth values as text."""
    if isinstance(value, str):
        if value in ("True", "False"):
            return float(value == "True")
        try:
            value = float(value)
        except ValueError:
            return None
    return number(value)


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
