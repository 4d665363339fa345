"""Every set that has a name, and which sets are available on this machine; nothing is read or downloaded.

A public set is one `Entry` in ``public``, a generated one is listed in ``suite``. To make a set of your
own available by name, add its entry to ``REGISTRY``.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import polars as pl

from breadth.datasets.canonical import Entry
from breadth.datasets.kinds import NLI_PATTERN
from breadth.datasets.public import NLI, QUESTIONS
from breadth.datasets.suite import MAX_ITEMS, SETS
from breadth.errors import InputError, did_you_mean, listed

_generated = partial(
    Entry, kind="generated", task=NLI_PATTERN, licence="Apache-2.0", items=MAX_ITEMS, train_split="train"
)
_GENERATED = tuple(
    _generated(name=name, description=testset.description, shift=testset.shift) for name, testset in SETS.items()
)

#: Name to entry: inference sets, question sets, generated sets.
REGISTRY: dict[str, Entry] = {entry.name: entry for entry in (*NLI, *QUESTIONS, *_GENERATED)}

#: File formats in a data directory, in order of preference.
ENDINGS = (".parquet", ".jsonl", ".csv", ".tsv")

#: How to use a local copy, for messages.
LOCAL_COPY = "put {name}.parquet (or .jsonl, .csv, .tsv) into a directory and pass it with --data or BREADTH_DATA"


def find(name: str) -> Entry:
    """The entry of a name; an unknown name gives a hint.

    >>> find("hans").items
    30000
    """
    if name not in REGISTRY:
        hint = did_you_mean([name.replace("-", "_")], REGISTRY, most=1)
        raise InputError(
            f"unknown data set {name!r}.{hint} Available: {listed(REGISTRY, most=30)} (see `breadth ls datasets`). "
            "To use a file of your own, add it under `sets` in the study file"
        )
    return REGISTRY[name]


def find_file(name: str, data: str | os.PathLike[str] | None = None) -> Path | None:
    """The file of a set in ``data`` (or BREADTH_DATA), or None."""
    where = data if data is not None else os.environ.get("BREADTH_DATA") or None
    if where is None:
        return None
    folder = Path(os.path.expanduser(where))
    if not folder.is_dir():
        option = "--data" if data is not None else "BREADTH_DATA"
        raise InputError(f"{folder}: not a directory; {option} must name a directory with files such as mnli.parquet")
    paths = [folder / subfolder / f"{name}{ending}" for subfolder in ("", "nli", "qa") for ending in ENDINGS]
    return next((path for path in paths if path.is_file()), None)


def cache_directory() -> Path:
    """Where the `datasets` library caches downloads, worked out without importing it."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface")
    return Path(os.environ.get("HF_DATASETS_CACHE") or Path(home, "datasets")).expanduser()


def is_cached(entry: Entry) -> bool:
    """Whether every configuration of a set is in the cache, judged by directory names."""
    if entry.hub is None:
        return False
    folder = cache_directory() / entry.hub.replace("/", "___")
    return all(
        next(folder.glob(f"{config or '*'}/*/*/*.arrow"), None) or next(folder.glob(f"{config or '*'}/*/*.arrow"), None)
        for config in entry.configs
    )


def describe_datasets(data: str | os.PathLike[str] | None = None) -> pl.DataFrame:
    """One row per set: name, kind, shift, items, licence, source, available, where, description.

    ``available`` is true if the set can be loaded without a download; ``where`` says where it is, or how to get it.
    """
    rows = []
    for entry in REGISTRY.values():
        available, where = _availability(entry, data)
        rows.append(
            {
                "name": entry.name,
                "kind": entry.kind,
                "shift": entry.shift,
                "items": entry.items,
                "licence": entry.licence,
                "source": entry.source,
                "available": available,
                "where": where,
                "description": entry.description,
            }
        )
    return pl.DataFrame(rows)


def _availability(entry: Entry, data: str | os.PathLike[str] | None) -> tuple[bool, str]:
    if entry.kind == "generated":
        return True, "generated"
    path = find_file(entry.name, data)
    if path is not None:
        return True, str(path.parent)
    if is_cached(entry):
        return True, "cached"
    return False, f"{LOCAL_COPY.format(name=entry.name)}, or install breadth[lm] to download {entry.source}"
