"""What sets there are and which of them are at hand, found without loading anything or asking the network."""

from __future__ import annotations

import os

import polars as pl

from breadth.datasets.entry import Entry
from breadth.datasets.hub import is_cached
from breadth.datasets.load import find_file
from breadth.datasets.registry import REGISTRY

SCHEMA = {
    "name": pl.String,
    "kind": pl.String,
    "shift": pl.String,
    "items": pl.Int64,
    "licence": pl.String,
    "source": pl.String,
    "available": pl.String,
    "description": pl.String,
}


def describe_datasets(data: str | os.PathLike[str] | None = None) -> pl.DataFrame:
    """One row per set: name, kind, shift, items, licence, source, whether it is at hand, and what it is.

    ``available`` begins with yes or no, and then says where it is or how to get it.
    """
    rows = [
        {
            "name": entry.name,
            "kind": entry.kind,
            "shift": entry.shift,
            "items": entry.items,
            "licence": entry.licence,
            "source": entry.source,
            "available": _available(entry, data),
            "description": entry.description,
        }
        for entry in REGISTRY.values()
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def _available(entry: Entry, data: str | os.PathLike[str] | None) -> str:
    if entry.kind == "generated":
        return "yes: generated"
    path = find_file(entry.name, data)
    if path is not None:
        return f"yes: {path.parent}"
    return "yes: cached" if is_cached(entry) else f"no: {entry.how}"
