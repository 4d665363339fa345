"""Weights that a study kept, as they lie on the disk: their record with the checksum of every file. Needs no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from breadth.errors import InputError
from breadth.lm.loading import locate
from breadth.lm.models import BUILT_IN, RECORD, file_sum, files_fault
from breadth.records import sealed, unsealed


def base_name(model: str) -> str:
    """What the adapters of a model call their base: its name, or its directory by a path that holds anywhere."""
    if model in BUILT_IN:
        return model
    place, _ = locate(model)
    return os.path.abspath(place) if os.path.isdir(place) else model


def record_weights(folder: Path, values: Mapping[str, Any]) -> None:
    """Write the record of a directory: ``values``, and the size and checksum of every file in it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != RECORD)
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    files = {name: path.stat().st_size for name, path in names.items()}
    checksums = {name: file_sum(path) for name, path in names.items()}
    (folder / RECORD).write_bytes(sealed({**values, "files": files, "checksums": checksums}))


def read_weights_record(folder: Path) -> dict[str, Any] | None:
    """The record of kept weights; None if the directory has none, empty if it is damaged."""
    try:
        content = (folder / RECORD).read_bytes()
    except FileNotFoundError:
        return None
    except (NotADirectoryError, IsADirectoryError):
        return {}
    except OSError as error:  # it may be sound
        raise InputError(f"{folder / RECORD}: cannot be read ({error.strerror}); make it readable") from error
    record = unsealed(content)
    if record is None:
        return {}
    if "kept" not in record:  # the record of a built-in model, which has the same name
        return None
    sound = all(isinstance(record.get(key), dict) for key in ("files", "checksums"))
    return record if sound and record["files"] else {}


def kept_fault(folder: Path, whole: bool = True) -> str | None:
    """What is wrong with weights that breadth kept; None if nothing is, or if they are somebody else's.

    Without ``whole``, files are judged by their sizes.
    """
    record = read_weights_record(folder)
    if record is None:
        return None
    if not record:
        return f"{RECORD} is damaged"
    return files_fault(folder, record["files"], record["checksums"], whole)


def refuse_damaged_weights(folder: Path) -> None:
    """Refuse kept weights that are not what was written."""
    fault = kept_fault(folder)
    if fault is not None:
        raise InputError(
            f"{folder}: is damaged ({fault}); restore it from a copy, or leave it out. To get these weights again, run "
            "their study into a new directory"
        )
