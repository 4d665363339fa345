"""Requests of a HELM run: what the instances ask, what the model answered, and how likely it found the options.

Margins need the log-probability of every option: of the letters, where the completion's first token lists
alternatives (``multiple_choice_joint``), or of each reference, which has its own request
(``multiple_choice_separate_original``). Many clients write 0.0 for every token; such runs have no margins. Runs with
log-probabilities are read as HELM's source code writes them; none was tried.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from breadth.errors import InputError
from breadth.importers.reading import (
    LogFile,
    Object,
    blocks,
    entries,
    log_odds,
    mapping,
    number,
    option_letters,
    parse,
    short_answer,
    words,
)

STATE, INSTANCES = "scenario_state.json", "instances.json"

#: Bytes up to which a file of requests is parsed as a whole.
SMALL = 1 << 26

#: What HELM publishes in place of texts that must not be published. Numbers differ between runs.
_ENCRYPTED = re.compile(r"\[encrypted_text_\d+\]")

Key = tuple[str, int]


class Instance(NamedTuple):
    """What an instance asks; ``gold`` are positions of right options."""

    text: str | None
    options: Sequence[str]
    labels: Sequence[str]
    gold: Sequence[int]
    target: str | None


@dataclass
class Requests:
    """What a run asked and got. ``asked`` are ids of all instances of the split."""

    instances: dict[str, Instance] = field(default_factory=dict)
    replies: dict[str, dict[int, str | None]] = field(default_factory=dict)
    likelihoods: dict[Key, dict[int, float]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    stamp: str = ""
    notes: list[str] = field(default_factory=list)

    def margins(self, scores: Mapping[Key, float]) -> dict[Key, float]:
        """Log-odds of the right options; none at all unless the likeliest one is right exactly where scores are 1."""
        odds: dict[Key, float] = {}
        for key, likelihoods in self.likelihoods.items():
            instance = self.instances.get(key[0])
            if instance is None or key not in scores or set(likelihoods) != set(range(len(instance.options))):
                continue
            ordered = [likelihoods[k] for k in range(len(likelihoods))]
            if (max(range(len(ordered)), key=ordered.__getitem__) in instance.gold) is not (scores[key] == 1):
                return {}
            margin = log_odds(ordered, instance.gold)
            if margin is not None:
                odds[key] = margin
        return odds

    def columns(self, items: Sequence[str]) -> dict[str, list[Any]]:
        """What the items ask, as columns."""
        nothing = Instance(None, (), (), (), None)
        rows = [self.instances.get(item, nothing) for item in items]
        columns: dict[str, list[Any]] = {
            "text": [row.text for row in rows],
            "options": [list(row.options) if any(row.options) else None for row in rows],
            "option_labels": [list(row.labels) or None for row in rows],
            "label": [row.labels[row.gold[0]] if len(row.gold) == 1 and row.labels else None for row in rows],
            "target": [row.target for row in rows],
        }
        return {name: column for name, column in columns.items() if any(column)}


def is_perturbed(row: Object) -> bool:
    """Whether a row or an instance is about a perturbed text."""
    perturbation = row.get("perturbation")
    return bool(perturbation) and mapping(perturbation).get("name") != "identity"


def read_requests(folder: Path, keys: Collection[Key], texts: bool) -> Requests:
    """Read the requests of a run, as far as they are about the given instances and trials.

    A file that is damaged costs texts, answers and margins, not the scores: public runs have truncated ones.
    """
    requests = Requests()
    wanted = {item for item, _ in keys}
    state, instances = folder / STATE, folder / INSTANCES
    try:
        if state.is_file():
            splits: dict[str, set[str]] = {}
            for request in _states(LogFile.look(state)):
                _take(requests, request, wanted, splits)
            # Instances of other splits are not missing: the split is the one of the instances that have scores.
            requests.asked = set().union(*(ids for ids in splits.values() if ids & wanted), set())
        elif texts and instances.is_file():
            for row in entries(LogFile.look(instances).json()):
                instance = mapping(row)
                if instance.get("id") in wanted and not is_perturbed(instance):
                    requests.instances.setdefault(str(instance["id"]), _instance(instance, {}, one_each=False))
    except InputError as error:
        return Requests(notes=[f"no texts, answers and margins: {error}"])
    return requests


def _states(file: LogFile) -> Iterator[Object]:
    """The requests one by one; a large file is not parsed as a whole."""
    if file.size <= SMALL:
        yield from map(mapping, entries(mapping(file.json()).get("request_states")))
        return
    try:
        with file.path.open("rb") as content:
            for line, block in blocks(content, str(file.path), indent=4):
                yield mapping(parse(block, str(file.path), line))
    except OSError as error:
        raise InputError(f"{file.path}: cannot be read ({error.strerror})") from error


def _take(requests: Requests, request: Object, wanted: Collection[str], splits: dict[str, set[str]]) -> None:
    instance, result = mapping(request.get("instance")), mapping(request.get("result"))
    item, trial = instance.get("id"), request.get("train_trial_index")
    if not isinstance(item, str) or is_perturbed(instance):
        return
    splits.setdefault(str(instance.get("split")), set()).add(item)
    if item not in wanted or request.get("request_mode") == "calibration":
        return
    key = (item, trial if type(trial) is int else 0)
    letters = mapping(request.get("output_mapping"))
    reference = request.get("reference_index")
    if item not in requests.instances:
        requests.instances[item] = _instance(instance, letters, one_each=type(reference) is int)
    options, labels = requests.instances[item].options, requests.instances[item].labels
    completion = mapping(next(iter(entries(result.get("completions"))), None))
    tokens = [mapping(token) for token in entries(completion.get("tokens"))]
    if isinstance(reference, int):
        likelihood = _per_token(tokens, options[reference]) if 0 <= reference < len(options) else None
        if likelihood is not None:
            requests.likelihoods.setdefault(key, {})[reference] = likelihood
    else:
        reply = completion.get("text")
        reply = short_answer(reply.strip() if isinstance(reply, str) else None)
        requests.replies.setdefault(item, {})[key[1]] = reply
        if likelihoods := _alternatives(tokens, labels):
            requests.likelihoods[key] = likelihoods
    requests.stamp = max(requests.stamp, _stamp(result.get("request_datetime")))


def _instance(instance: Object, letters: Object, *, one_each: bool) -> Instance:
    """What an instance asks: with letters, with one request per reference, or freely."""
    text = _text(mapping(instance.get("input")))
    references = [mapping(reference) for reference in entries(instance.get("references"))]
    outputs = [str(_text(mapping(reference.get("output"))) or "") for reference in references]
    right = [k for k, reference in enumerate(references) if "correct" in entries(reference.get("tags"))]
    if letters or one_each:
        options = [str(option) for option in letters.values()] if letters else outputs
        labels = [str(letter) for letter in letters] if letters else option_letters(len(outputs))
        if len(options) != len(outputs):  # letters may be for fewer classes than there are references
            right = [k for k, option in enumerate(options) if option in {outputs[one] for one in right}]
        if not any(_ENCRYPTED.search(option) for option in options):
            return Instance(text, options, labels, right, None)
        return Instance(text, [""] * len(options), labels, right, None)
    target = " | ".join(outputs[k] for k in right)
    return Instance(text, (), (), (), target if target.strip() and not _ENCRYPTED.search(target) else None)


def _text(content: Object) -> str | None:
    """The text of an input or output: plain, of messages, or of the parts of several media."""
    text = words(content.get("text"))
    if text is None:
        parts = [mapping(part) for part in entries(content.get("messages"))]
        texts = [words(part.get("content")) for part in parts]
        media = entries(mapping(content.get("multimedia_content")).get("media_objects"))
        texts += [words(mapping(part).get("text")) or f"[{mapping(part).get('content_type')}]" for part in media]
        text = "\n\n".join(part for part in texts if part) or None
    return None if text is None or _ENCRYPTED.search(text) else text


def _alternatives(tokens: Sequence[Object], labels: Sequence[str]) -> dict[int, float]:
    """The log-probability of every letter as first token; nothing if one is not listed or they do not differ."""
    listed: dict[str, float] = {}
    for token, value in mapping(tokens[0].get("top_logprobs")).items() if tokens else ():
        likelihood = number(value)
        if likelihood is not None:
            listed[token.strip()] = max(likelihood, listed.get(token.strip(), likelihood))
    known = {k: listed[label] for k, label in enumerate(labels) if label in listed}
    return known if len(known) == len(labels) and len(set(known.values())) > 1 else {}


def _per_token(tokens: Sequence[Object], reference: str) -> float | None:
    """Mean log-probability of the last tokens that spell the reference; None where clients wrote zeros."""
    wanted, spelled, values = reference.strip(), "", list[float]()
    for token in reversed(tokens):
        value = number(token.get("logprob"))
        if value is None or len(spelled.strip()) >= len(wanted):
            break
        spelled = str(token.get("text")) + spelled
        values.append(value)
    return fmean(values) if values and any(values) and spelled.strip() == wanted else None


def _stamp(seconds: Any) -> str:
    """When a request was made, as text that sorts."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if number(seconds) else ""
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
