"""From items to tokens: templates filled, examples put in front, and only the field that may give way cut short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from breadth.datasets.tasks import Choice, Pattern, Task, fields_of
from breadth.errors import InputError, listed

#: What stands between the examples of a few-shot prompt.
BETWEEN = "\n\n"

#: Tokens of the context that are kept free for answers.
RESERVE = 8

#: A word that endings are encoded behind.
WORD = "a"


@dataclass(frozen=True)
class Prompts:
    """The prompt of every item as tokens, and how many had to be shortened to fit."""

    ids: list[list[int]]
    shortened: int = 0


def encode_texts(tokenizer: Any, texts: Sequence[str], bos: bool = False) -> list[list[int]]:
    """Tokens of texts, with the token that begins a sequence in front, once, where the model wants it."""
    if not texts:
        return []
    encoded = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)
    found: list[list[int]] = encoded["input_ids"]
    begin = [tokenizer.bos_token_id]
    return [begin + ids if bos and ids[:1] != begin else ids for ids in found]


def encode_text(tokenizer: Any, text: str, bos: bool = False) -> list[int]:
    """Tokens of one text."""
    return encode_texts(tokenizer, [text], bos)[0]


def encode_endings(tokenizer: Any, endings: Sequence[str]) -> list[list[int]]:
    """Tokens of texts as they are when something stands before them.

    Some tokenizers put a space in front of every text; behind a word they do not.
    """
    start = encode_text(tokenizer, WORD)
    behind = encode_texts(tokenizer, [WORD + text for text in endings])
    return [
        ids[len(start) :] if ids[: len(start)] == start else encode_text(tokenizer, text)
        for ids, text in zip(behind, endings, strict=True)
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
) -> Prompts:
    """Fill the task's template for every item and encode it, in at most ``context`` tokens less ``reserve``.

    A prompt that is too long loses the end of the field ``task.shorten``, never anything else. ``before`` is put in
    front of every prompt (examples). An item that cannot be made to fit is an error that names it.
    """
    fields = fields_of(task.template)
    there = {*items.columns, *(["choices"] if {"options", "option_labels"} <= set(items.columns) else [])}
    missing = [name for name in fields if name not in there]
    if missing:
        raise InputError(
            f"test set {_name_of(items)}: the pattern uses {listed(f'{{{name}}}' for name in missing)}, which is no "
            f"column of the data. Columns: {listed(items.columns, 40)}"
        )
    rows = [_fields(row, fields) for row in items.iter_rows(named=True)]
    encoded = encode_texts(tokenizer, [before + task.template.format(**row) for row in rows], bos)
    kept_free = [reserve] * len(rows) if isinstance(reserve, int) else list(reserve)
    long = [i for i, ids in enumerate(encoded) if len(ids) > context - kept_free[i]]
    for i in long:
        room = context - kept_free[i]
        encoded[i] = _shortened(tokenizer, task, rows[i], room, bos, before, str(items["item"][i]), len(encoded[i]))
    empty = [i for i, ids in enumerate(encoded) if not ids]
    if empty:
        raise InputError(f"item {items['item'][empty[0]]!r}: its prompt is empty; give the pattern words of its own")
    return Prompts(encoded, len(long))


def examples_text(task: Task, items: pl.DataFrame) -> str:
    """Items with their right answers, as they stand in front of a few-shot prompt."""
    fields = fields_of(task.template)
    return "".join(
        task.template.format(**_fields(row, fields)) + completion_of(task, row) + BETWEEN
        for row in items.iter_rows(named=True)
    )


def completion_of(task: Task, row: dict[str, Any]) -> str:
    """The text that rightly follows an item's prompt."""
    if isinstance(task, Pattern):
        return dict(task.answers)[row["label"]]
    if isinstance(task, Choice):
        return f" {option_texts(task, row)[row['option_labels'].index(row['label'])]}"
    return f" {row[task.completion]}"


def option_texts(task: Choice, row: dict[str, Any]) -> list[str]:
    """What is compared for an item: the options' labels, or their texts."""
    return list(row["option_labels"] if task.continuation == "label" else row["options"])


def _fields(row: dict[str, Any], fields: Sequence[str]) -> dict[str, str]:
    values = {name: str(row[name]).strip() for name in fields if name != "choices"}
    if "choices" in fields and "option_labels" not in row:
        values["choices"] = str(row["choices"]).strip()
    elif "choices" in fields:
        pairs = zip(row["option_labels"], row["options"], strict=True)
        values["choices"] = "\n".join(f"{label}. {text}" for label, text in pairs)
    return values


def _name_of(items: pl.DataFrame) -> str:
    return repr(items["testset"][0]) if items.height else "(empty)"


def _shortened(
    tokenizer: Any, task: Task, row: dict[str, str], room: int, bos: bool, before: str, item: str, length: int
) -> list[int]:
    """Cut the end of the field that may give way until the prompt fits; tokens at the seam may merge, so look again."""
    field = task.shorten
    if field is not None and field in row and room > 0:
        ends = _token_ends(tokenizer, row[field])
        keep = max(len(ends) - (length - room), 0)
        while keep >= 0:
            cut = {**row, field: row[field][: ends[keep - 1]].strip() if keep else ""}
            ids = encode_text(tokenizer, before + task.template.format(**cut), bos)
            if len(ids) <= room:
                return ids
            keep = min(keep - 1, max(keep - (len(ids) - room), 0)) if keep else -1
    allowed = f"even without its {field}" if field else "and no field may be shortened (`shorten`)"
    raise InputError(
        f"item {item!r}: its prompt has {length} tokens, room is for {max(room, 0)}, {allowed}; raise recipe.context, "
        "as far as the model allows"
    )


def _token_ends(tokenizer: Any, text: str) -> list[int]:
    """Where in a text every token ends, so that cutting there changes nothing before it."""
    if getattr(tokenizer, "is_fast", False):
        found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [end for _, end in found["offset_mapping"]]
    # Without offsets: pieces as long as the text is on average per token.
    count = len(encode_text(tokenizer, text))
    return [round((k + 1) * len(text) / count) for k in range(count)]
