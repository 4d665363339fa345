"""Lines of lm-evaluation-harness's files of samples, parsed without their prompts.

Most of a row is ``arguments``: the prompt with its few-shot examples, once per option. It is cut out of the line before
the rest is parsed. The cut is safe: a quotation mark inside a JSON string is escaped, so ``, "arguments": `` can only
be a key, and a row that lacks a key after the cut, or no longer parses, is parsed as a whole. What is before it, the
document, is the same for every model: it is parsed once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from breadth.errors import InputError
from breadth.importers.reading import entries, mapping, parse, words

#: Keys of a document that hold what is asked, in any case of letters.
QUESTION = frozenset(
    (
        *("question", "question1", "question2", "question_stem", "query", "qtext", "problem", "goal", "instruction"),
        *("premise", "hypothesis", "sentence", "sentence1", "sentence2", "startphrase", "ctx", "context", "passage"),
        *("article", "narrative", "story", "support", "text", "input", "prompt", "body"),
    )
)

#: Keys of a document that hold the texts of options which the model sees as mere letters.
OPTIONS = ("choices", "options", "endings")

#: Documents that are remembered for the next file, and the most bytes of each.
MOST_DOCUMENTS, LONGEST_HEAD = 20_000, 2_000

_HEAD = {"doc_id", "doc", "target"}
_ARGUMENTS, _RESPONSES = b', "arguments": ', b', "filtered_resps": '
_FIRST, _CONTINUATION = b'{"gen_args_0": {"arg_0": "', b'", "arg_1": "'
_BACKSLASH = ord("\\")


@dataclass(slots=True)
class Document:
    """What a row says before its arguments: a document, its options where it lists them, and the target.

    ``pieces`` are the bytes around each continuation of the last model that was asked, by which those of the next model
    are recognised; ``continuations`` and ``shown``, the options as a reader wants them, belong to them.
    """

    doc_id: int
    target: Any
    text: str | None
    options: list[list[str]]
    hashed: str | None
    pieces: list[bytes] = field(default_factory=list)
    continuations: list[str] = field(default_factory=list)
    shown: list[str] | None = None


class Row(NamedTuple):
    """A line, parsed but for the arguments if they were cut out: these are at ``span`` then."""

    document: Document
    rest: dict[str, Any]
    span: tuple[int, int] | None = None


def whole_row(content: bytes, texts: bool, path: str, line: int) -> Row:
    """Parse a line whole."""
    row, where = parse(content, path, line), f"{path}, line {line}"
    if not isinstance(row, dict):
        raise InputError(f"{where}: is not a JSON object; the file is damaged")
    doc_id, hashed = row.get("doc_id"), row.get("doc_hash")
    if type(doc_id) is not int:
        raise InputError(f"{where}: doc_id is {doc_id!r:.40}, not a whole number")
    if type(hashed) is not str or not hashed:
        if "doc" not in row:
            raise InputError(f"{where}: has neither doc nor doc_hash; the file is damaged")
        hashed = document_hash(row["doc"], where)
    return Row(_document(doc_id, row, texts, hashed), row)


def cut_row(line: bytes, expected: set[str], texts: bool) -> Row | None:
    """Parse a line without ``arguments`` and ``resps``; None if it must be parsed whole."""
    start = line.find(_ARGUMENTS)
    end = line.rfind(_RESPONSES)
    if not 0 < start < end:
        return None
    head, documents = line[:start], _documents(texts)
    try:
        rest = orjson.loads(b"{" + line[end + 2 :])
        if rest.keys() != expected:
            return None
        document, hashed = documents.get(head), rest.get("doc_hash")
        is_hashed = type(hashed) is str and hashed != ""
        if document is None or not (is_hashed or document.hashed):
            row = orjson.loads(head + b"}")
            if row.keys() != _HEAD or type(row["doc_id"]) is not int:
                return None
            hashed = None if is_hashed else document_hash(row["doc"], "")
            document = _document(row["doc_id"], row, texts, hashed)
            if len(documents) >= MOST_DOCUMENTS:
                documents.clear()
            if len(head) <= LONGEST_HEAD:
                documents[head] = document
    except (orjson.JSONDecodeError, InputError):
        return None
    return Row(document, rest, (start + len(_ARGUMENTS), end))


@lru_cache(maxsize=1)
def _documents(texts: bool) -> dict[bytes, Document]:
    """Documents of this process, with texts or without, by the bytes in which they are written."""
    return {}


def _document(doc_id: int, row: dict[str, Any], texts: bool, hashed: str | None) -> Document:
    doc = row.get("doc")
    options: list[list[str]] = []
    for key in OPTIONS if texts else ():
        choices = mapping(doc).get(key)
        choices = choices.get("text") if isinstance(choices, dict) else choices
        if isinstance(choices, list) and all(map(words, choices)):
            options.append(choices)
    return Document(doc_id, row.get("target"), question(doc) if texts else None, options, hashed)


def weighed(row: Row, content: bytes, count: int, texts: bool) -> tuple[list[str], list[str] | None]:
    """The continuations of which log-likelihoods are given and, if asked for, the options as a reader wants them."""
    document, span = row.document, row.span
    if span and _are_known(document, content, *span, count):
        return document.continuations, document.shown
    requests: list[tuple[str, str]] | None = None
    continuations = _continuations(document, content, *span, count) if span else None
    if continuations is None:
        requests = _requests(row.rest, content)
        continuations = [request[1] for request in requests]
    document.continuations, document.shown = continuations, None
    if texts and len(set(continuations)) == 1:  # the options are in the contexts, as in Winogrande
        requests = requests or _requests(row.rest, content)
        document.shown = endings([request[0] for request in requests])[1] if requests else None
    elif texts:
        document.shown = _options(document.options, continuations)
    return continuations, document.shown


def prompted(row: Row, content: bytes) -> str | None:
    """What the prompt asks, where the document has no texts."""
    requests = _requests(row.rest, content)
    return words(last_part(requests[0][0])) if requests else None


def _are_known(document: Document, line: bytes, start: int, end: int, count: int) -> bool:
    """Whether a document's continuations are those of the last model: the same bytes after prompts of one length."""
    if len(document.pieces) != count:
        return False
    at = line.find(_CONTINUATION, start, end)
    length = at - start - len(_FIRST)
    for piece in document.pieces:
        if not line.startswith(piece, at):
            return False
        at += len(piece) + length
    return line.startswith(_FIRST, start)


def _continuations(document: Document, line: bytes, start: int, end: int, count: int) -> list[str] | None:
    """The continuation of each request, found by its key; None if the layout is not the usual one.

    Prompts of one document are mostly the same, so the next continuation is looked for at the same distance first.
    """
    document.pieces = []
    first = start + len(_FIRST)
    at = line.find(_CONTINUATION, first, end)
    if at < 0 or not line.startswith(_FIRST, start):
        return None
    length = at - first
    texts: list[str] = []
    pieces: list[bytes] = []
    for k in range(1, count + 1):
        begin = at + len(_CONTINUATION)
        stop = line.find(b'"', begin, end)
        while stop > 0 and line[stop - 1] == _BACKSLASH and _is_escaped(line, stop):
            stop = line.find(b'"', stop + 1, end)
        after = b'}, "gen_args_%d": {"arg_0": "' % k if k < count else b"}}"
        if stop < 0 or not line.startswith(after, stop + 1):
            return None
        try:
            texts.append(orjson.loads(line[begin - 1 : stop + 1]))
        except orjson.JSONDecodeError:
            return None
        prompt = stop + 1 + len(after)
        pieces.append(line[at:prompt])
        at = prompt + length
        if k < count and not line.startswith(_CONTINUATION, at):
            at = line.find(_CONTINUATION, prompt, end)
            if at < 0:
                return None
    # In Winogrande the options are in the prompts: they must be looked at in every line.
    document.pieces = pieces if len(set(texts)) > 1 else []
    return texts


def _is_escaped(line: bytes, place: int) -> bool:
    """Whether an odd number of backslashes stands before a place."""
    first = place
    while line[first - 1] == _BACKSLASH:
        first -= 1
    return (place - first) % 2 == 1


def _requests(row: dict[str, Any], content: bytes) -> list[tuple[str, str]]:
    """Context and continuation of every request, however the version writes them; whole rows are parsed if need be.

    Arguments that were cut out and cannot be parsed give no requests: the scores do not need them.
    """
    if "arguments" in row:
        arguments = row["arguments"]
    else:
        try:
            arguments = mapping(parse(content, "")).get("arguments")
        except InputError:
            return []
    requests: list[tuple[str, str]] = []
    for request in arguments.values() if isinstance(arguments, dict) else entries(arguments):
        pair = [request.get("arg_0"), request.get("arg_1")] if isinstance(request, dict) else entries(request)
        texts = [value if isinstance(value, str) else "" for value in (*pair[:2], "", "")]
        requests.append((texts[0], texts[1]))
    return requests


def document_hash(doc: Any, where: str) -> str:
    """A document's hash, as the tool has written it since 0.4.3."""
    try:
        text = json.dumps(doc, indent=2, ensure_ascii=False)
    except RecursionError:
        raise InputError(f"{where}: doc is nested too deeply; the file is damaged") from None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def question(doc: Any) -> str | None:
    """What a document asks: its fields that usually hold it, else all its texts."""
    if not isinstance(doc, dict):
        return words(doc)
    parts = [value for key, value in doc.items() if type(value) is str and value and key.lower() in QUESTION]
    if len(parts) > 1:
        parts = [part for part in dict.fromkeys(parts) if not any(part in other for other in parts if other != part)]
    if not parts:
        parts = [f"{key}: {value}" for key, value in doc.items() if isinstance(value, str)]
    return "\n".join(parts) or None


def _options(listed: Sequence[list[str]], continuations: Sequence[str]) -> list[str]:
    """The options as a reader wants them: where the model saw mere letters, the document may list the texts."""
    if all(len(text) <= 3 for text in continuations):
        for choices in listed:
            if len(choices) == len(continuations):
                return choices
    return [text.strip() for text in continuations]


def endings(prompts: Sequence[str]) -> tuple[str, list[str]]:
    """What prompts begin with, all alike, and the rest of each, from the beginning of a word."""
    low, high = min(prompts), max(prompts)
    alike = next((k for k, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), len(low))
    start = low[: max(low.rfind(" ", 0, alike), low.rfind("\n", 0, alike)) + 1]
    return start, [prompt[len(start) :] for prompt in prompts]


def last_part(prompt: str) -> str:
    """The last paragraph of a prompt: those before it are few-shot examples."""
    return prompt[prompt.rstrip().rfind("\n\n") + 1 :].lstrip()
