"""Sets of the Hugging Face Hub, through the `datasets` library: fetched once, then read from its cache."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from breadth.datasets.entry import Entry
from breadth.errors import InputError

#: Seconds to wait for the Hub's first answer; a machine without a network should hear so at once.
PATIENCE = 10.0
_YES = {"1", "ON", "YES", "TRUE"}


def cache_directory() -> Path:
    """Where the `datasets` library keeps what it fetched, worked out without importing it."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface")
    return Path(os.environ.get("HF_DATASETS_CACHE") or Path(home, "datasets")).expanduser()


def is_cached(entry: Entry) -> bool:
    """Whether a set (each of its configurations) has been fetched before, judged by the names of directories."""
    if entry.hub is None:
        return False
    folder = cache_directory() / entry.hub.replace("/", "___")
    return all(
        next(folder.glob(f"{config or '*'}/*/*/*.arrow"), None) or next(folder.glob(f"{config or '*'}/*/*.arrow"), None)
        for config in entry.configs
    )


def fetch(entry: Entry, split: str) -> pl.DataFrame:
    """One split of a set (of all its configurations), with columns and labels as the Hub has them.

    Asks the Hub once, for at most ten seconds, whether it is there; without it (or with HF_HUB_OFFLINE=1) only the
    cache is read. Every failure is one `InputError` with the ways to go on.
    """
    try:
        import datasets
    except ImportError as error:
        raise InputError(f"{entry.name}: reading from the Hub needs more packages: install breadth[lm]") from error
    offline = "HF_HUB_OFFLINE is set"
    if not _offline():
        offline = _unreachable(entry)
    if offline and not is_cached(entry) and not Path(str(entry.hub)).is_dir():
        raise _failure(entry, offline)
    try:
        with _cache_only() if offline else contextlib.nullcontext():
            parts = [_load(datasets, entry, config, split) for config in entry.configs]
    except Exception as error:  # the libraries below raise a dozen kinds, none of which is breadth's own mistake
        raise _failure(entry, " ".join(str(error).split())[:200] or type(error).__name__) from error
    return pl.concat(parts, how="diagonal_relaxed").with_columns(pl.lit(split).alias("split"))


def _load(datasets: Any, entry: Entry, config: str | None, split: str) -> pl.DataFrame:
    try:
        found = datasets.load_dataset(entry.hub, config, split=split)
    except RuntimeError as error:
        if "scripts are no longer supported" not in str(error):
            raise
        # Old sets are a script, which is never run; the Hub keeps a copy as Parquet on a branch of its own.
        copy = f"hf://datasets/{entry.hub}@~parquet/{config or '*'}/{split}/*.parquet"
        found = datasets.load_dataset("parquet", data_files={split: copy}, split=split)
    frame = pl.from_arrow(found.data.table)
    assert isinstance(frame, pl.DataFrame)
    frame = frame if found._indices is None else frame[found._indices.column(0).to_pylist()]
    return frame if len(entry.configs) == 1 else frame.with_columns(pl.lit(config).alias("subtask"))


def _offline() -> bool:
    return any(os.environ.get(name, "").upper() in _YES for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"))


def _unreachable(entry: Entry) -> str:
    """Why the Hub cannot be asked, or nothing."""
    from huggingface_hub import HfApi

    try:
        HfApi().dataset_info(str(entry.hub), timeout=PATIENCE)
    except Exception as error:
        return f"the Hub did not answer ({' '.join(str(error).split())[:120] or type(error).__name__})"
    return ""


@contextlib.contextmanager
def _cache_only() -> Iterator[None]:
    """Have the libraries read their cache without asking the network again and again."""
    import datasets.config
    import huggingface_hub.constants

    settings = [(datasets.config, "HF_HUB_OFFLINE"), (huggingface_hub.constants, "HF_HUB_OFFLINE")]
    before = [getattr(module, name, False) for module, name in settings]
    for module, name in settings:
        setattr(module, name, True)
    try:
        yield
    finally:
        for (module, name), value in zip(settings, before, strict=True):
            setattr(module, name, value)


def _failure(entry: Entry, reason: str) -> InputError:
    return InputError(
        f"{entry.name}: not found in a data directory nor in the cache ({cache_directory()}), and {entry.source} could "
        f"not be fetched: {reason}. Offline: put {entry.name}.parquet (or .jsonl, .csv, .tsv) into a directory and "
        "name it with --data or BREADTH_DATA, or use a generated set (`breadth ls datasets`)"
    )
