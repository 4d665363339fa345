"""Whether a stored file is what its name says, and what becomes of one that is not."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from breadth.errors import InputError

#: Hexadecimal digits of a part's SHA-256 that its name carries.
SUM_DIGITS = 16

#: Name of a part: the step, and how the SHA-256 of its content begins.
PART = re.compile(rf"^step-(\d+)\.([0-9a-f]{{{SUM_DIGITS}}})\.parquet$")

#: What `write_whole` calls a file of a study until it is whole.
_LEFTOVERS = (
    *(".step-*.parquet", ".state-*.safetensors", ".run.json.*", ".environment.json.*", ".study.yaml.*"),
    ".*.parquet.*.parquet",
)


def checksum(content: bytes) -> str:
    """First digits of the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()[:SUM_DIGITS]


def sound_bytes(path: Path) -> bytes | None:
    """The content of a part; None if it is not there or not what its name says."""
    match = PART.match(path.name)
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return content if match and checksum(content) == match[2] else None


def set_aside(path: Path, folder: Path) -> Path:
    """Move a damaged file out of the way, under a name that is not taken; ``path`` itself where it cannot be moved."""
    stem = f"{path.parent.name}.{path.name}"
    target = next(folder / f"{stem}.{k}" for k in range(10**6) if not (folder / f"{stem}.{k}").exists())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return path.rename(target)
    except OSError:  # a directory that may only be read, or another process was faster
        return path


def reject(path: Path, folder: Path, fault: str, remedy: str) -> str:
    """Set a damaged file aside, and say so."""
    aside = set_aside(path, folder)
    return f"{path}: {fault}; {'left there' if aside == path else f'moved to {aside}'}. {remedy}"


def remove_leftovers(folder: Path) -> None:
    """Delete hidden files that a write left when it was interrupted. Only for who holds the lock of the directory."""
    for path in [path for pattern in _LEFTOVERS for path in folder.glob(pattern)]:
        if path.is_file():
            path.unlink(missing_ok=True)


def make_folder(folder: Path) -> None:
    """Make a directory."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
