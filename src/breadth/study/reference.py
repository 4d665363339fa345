"""The table of every key of a study file, made from the schema, for the documentation."""

from __future__ import annotations

import json
import typing
from typing import Any

from pydantic.fields import FieldInfo

from breadth.study.schema import Difficulty, Evaluate, ModelEntry, OwnSet, Recipe, Section, Start, Study, Train

#: Sections in the order of the documentation, with what comes before their keys.
PARTS: dict[str, type[Section]] = {
    "": Study,
    "models[].": ModelEntry,
    "train.": Train,
    "train.difficulty.": Difficulty,
    "train.start.": Start,
    "recipe.": Recipe,
    "evaluate.": Evaluate,
    "sets.NAME.": OwnSet,
}


def key_tables() -> str:
    """Markdown tables of key, default and meaning, one per section."""
    parts = []
    for prefix, section in PARTS.items():
        title = f"### `{prefix.rstrip('.')}`" if prefix else "### The whole file"
        rows = [
            f"| `{prefix}{name}` | {_default(field)} | {_meaning(field)} |"
            for name, field in section.model_fields.items()
        ]
        parts.append(
            "\n".join([f"{title}\n", f"{section.__doc__}\n", "| key | default | meaning |", "|---|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, str):
        return f"`{value}`" if value else "empty"
    if isinstance(value, float):
        return f"`{value:g}`"
    return "none" if value in ([], {}) else f"`{json.dumps(value)}`"


def _meaning(field: FieldInfo) -> str:
    choices = list(dict.fromkeys(_choices(field.annotation)))
    listed = f"; one of {', '.join(f'`{choice}`' for choice in choices)}" if len(choices) > 1 else ""
    return f"{field.description}{listed}".replace("|", "\\|")


def _choices(annotation: Any) -> list[str]:
    if typing.get_origin(annotation) is typing.Literal:
        return [str(choice) for choice in typing.get_args(annotation)]
    return [choice for part in typing.get_args(annotation) for choice in _choices(part)]
