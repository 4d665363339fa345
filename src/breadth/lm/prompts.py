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


@dataclass(frozen=True)
class Prompts:
    """The prompt of every item as tokens, and how many had to be shortened to fit."""

    ids: list[list[int]]
    shortened: int = 0


def encode_text(tokenizer: Any, text: str, bos: bool = False) -> list[int]:
    """Tokens of a text, with the token that begins a sequence where the model wants it."""
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return [tokenizer.bos_token_id, *ids] if bos else ids


def encode_prompts(
    tokenizer: Any,
    task: Task,
    items: pl.DataFrame,
    *,
    context: int,
    bos: bool = False,
    reserve: int = 8,
    before: str = "",
) -> Prompts:
    """Fill the task's template for every item and encode it, in at most ``context`` tokens less ``reserve``.

    A prompt that is too long loses words from the end of the field ``task.shorten``, never anything else. ``before``
    is put in front of every prompt (examples). An item that cannot be made to fit is an error that names it.
    """
    fields = fields_of(task.template)
    missing = [name for name in fields if name not in items.columns and name != "choices"]
    if missing:
        raise InputError(
            f"test set {_name_of(items)}: the pattern uses {listed(f'{{{name}}}' for name in missing)}, which is no "
            f"column of the data. Columns: {listed(items.columns, 40)}"
        )
    rows = [_fields(row, fields) for row in items.iter_rows(named=True)]
    texts = [before + task.template.format(**row) for row in rows]
    room = context - reserve
    encoded = [encode_text(tokenizer, text, bos) for text in texts]
    long = [i for i, ids in enumerate(encoded) if len(ids) > room]
    for i in long:
        encoded[i] = _shortened(tokenizer, task, rows[i], room, bos, before, str(items["item"][i]), len(encoded[i]))
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
    if "choices" in fields:
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
    if field is not None and field in row:
        tokens = encode_text(tokenizer, row[field])
        keep = len(tokens) - (length - room)
        while keep >= 0:
            cut = {**row, field: tokenizer.decode(tokens[:keep]).strip()}
            ids = encode_text(tokenizer, before + task.template.format(**cut), bos)
            if len(ids) <= room:
                return ids
            keep -= max(1, len(ids) - room)
    allowed = f"even without its {field}" if field else "and no field may be shortened (`shorten`)"
    raise InputError(
        f"item {item!r}: its prompt has {length} tokens, room is for {room}, {allowed}; raise recipe.context"
    )
