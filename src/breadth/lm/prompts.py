"""From items to tokens: fill the template, put few-shot examples in front, shorten only the field that may be cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from breadth.datasets import Task, fields_of
from breadth.errors import InputError, listed
from breadth.lm.chat import Chat, encode_in_chat

#: Separates the examples of a few-shot prompt.
SEPARATOR = "\n\n"

#: Tokens of the context that are kept free for answers.
RESERVE = 8

#: A word that continuations are encoded after.
WORD = "a"


@dataclass(frozen=True)
class Prompts:
    """The prompt of every item as tokens, and how many were shortened to fit."""

    ids: list[list[int]]
    shortened: int = 0


def encode_texts(tokenizer: Any, texts: Sequence[str], bos: bool = False) -> list[list[int]]:
    """Tokens of texts; with ``bos``, each begins with exactly one BOS token."""
    if not texts:
        return []
    encoded = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)
    sequences: list[list[int]] = encoded["input_ids"]
    start = [tokenizer.bos_token_id]
    return [start + ids if bos and ids[:1] != start else ids for ids in sequences]


def encode_text(tokenizer: Any, text: str, bos: bool = False) -> list[int]:
    """Tokens of one text."""
    return encode_texts(tokenizer, [text], bos)[0]


def encode_continuations(tokenizer: Any, texts: Sequence[str], chat: Chat | None = None) -> list[list[int]]:
    """Tokens of texts that follow another text, or begin the assistant's turn of a chat.

    Some tokenizers add a space in front of every text, but not after a word.
    """
    if chat is not None:
        return encode_in_chat(tokenizer, texts, chat)
    start = encode_text(tokenizer, WORD)
    after = encode_texts(tokenizer, [WORD + text for text in texts])
    return [
        ids[len(start) :] if ids[: len(start)] == start else encode_text(tokenizer, text)
        for ids, text in zip(after, texts, strict=True)
    ]


def encode_prompts(
    tokenizer: Any,
    task: Task,
    items: pl.DataFrame,
    *,
    context: int,
    bos: bool = False,
    reserve: int | Sequence[int] = RESERVE,
    before: str = "",
    chat: Chat | None = None,
) -> Prompts:
    """Fill the task's template for every item and encode it, in at most ``context`` tokens minus ``reserve``.

    A prompt that is too long loses the end of the field ``task.shorten`` and nothing else. ``before`` (few-shot
    examples) precedes every prompt; in a ``chat`` both are the user's turn. An item that cannot be made to fit raises
    an error that names it.
    """

    def whole_prompt(row: dict[str, str]) -> str:
        text = before + task.template.format(**row)
        return text if chat is None else chat.prompt(text)

    rows = prompt_rows(task, items)
    encoded = encode_texts(tokenizer, [whole_prompt(row) for row in rows], bos)
    reserved = [reserve] * len(rows) if isinstance(reserve, int) else list(reserve)
    long = [i for i, ids in enumerate(encoded) if len(ids) > context - reserved[i]]
    for i in long:
        limit, item = context - reserved[i], str(items["item"][i])
        encoded[i] = _shortened(tokenizer, task, rows[i], limit, bos, whole_prompt, item, len(encoded[i]))
    empty = [i for i, ids in enumerate(encoded) if not ids]
    if empty:
        raise InputError(f"item {items['item'][empty[0]]!r}: its prompt is empty; add words to the pattern")
    return Prompts(encoded, len(long))


def prompt_rows(task: Task, items: pl.DataFrame) -> list[dict[str, str]]:
    """The values of the template's fields for every item; a field that the data does not have is refused."""
    columns = {*items.columns, *(["choices"] if {"options", "option_labels"} <= set(items.columns) else [])}
    missing = [name for name in fields_of(task.template) if name not in columns]
    if missing:
        testset = repr(items["testset"][0]) if items.height else "(empty)"
        raise InputError(
            f"test set {testset}: the pattern uses {listed(f'{{{name}}}' for name in missing)}, which is not a column "
            f"of the data. Columns: {listed(items.columns, 40)}"
        )
    return [task.prompt_fields(row) for row in items.iter_rows(named=True)]


def prompt_texts(task: Task, items: pl.DataFrame, before: str = "") -> list[str]:
    """The whole prompt of every item as text, with ``before`` (few-shot examples) in front."""
    return [before + task.template.format(**row) for row in prompt_rows(task, items)]


def few_shot_text(task: Task, items: pl.DataFrame) -> str:
    """Items with their correct completions, to put before a prompt."""
    return "".join(
        task.template.format(**task.prompt_fields(row)) + task.target_of(row) + SEPARATOR
        for row in items.iter_rows(named=True)
    )


def _shortened(
    tokenizer: Any,
    task: Task,
    row: dict[str, str],
    limit: int,
    bos: bool,
    whole_prompt: Callable[[dict[str, str]], str],
    item: str,
    length: int,
) -> list[int]:
    """Cut the end of the field that may be cut until the prompt fits; tokens at the cut may merge, so encode again."""
    field = task.shorten
    if field is not None and field in row and limit > 0:
        ends = _token_ends(tokenizer, row[field])
        keep = max(len(ends) - (length - limit), 0)
        while keep >= 0:
            cut = {**row, field: row[field][: ends[keep - 1]].strip() if keep else ""}
            ids = encode_text(tokenizer, whole_prompt(cut), bos)
            if len(ids) <= limit:
                return ids
            keep = min(keep - 1, max(keep - (len(ids) - limit), 0)) if keep else -1
    allowed = f"even without its {field}" if field else "and no field may be cut (set `shorten`)"
    raise InputError(
        f"item {item!r}: its prompt has {length} tokens, but at most {max(limit, 0)} fit, {allowed}; raise "
        "context (recipe.context in a study file), as far as the model allows"
    )


def _token_ends(tokenizer: Any, text: str) -> list[int]:
    """Where in a text every token ends, so that a cut there changes nothing before it."""
    if getattr(tokenizer, "is_fast", False):
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [end for _, end in encoded["offset_mapping"]]
    # Without offsets: pieces of the average length of a token.
    count = len(encode_text(tokenizer, text))
    return [round((k + 1) * len(text) / count) for k in range(count)]
