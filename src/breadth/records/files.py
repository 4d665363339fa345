"""Where a study's files are: one small interface, and the local directory behind it.

Everything a study writes goes through a :class:`Store`: a key such as ``runs/a/run.json`` names a file, a write is
whole or not there, a lock ends with its holder. :class:`LocalStore` is the only implementation; an object store would
be a second class with the same methods.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from filelock import FileLock, Timeout

from breadth.errors import InputError

#: Hexadecimal digits of a file's SHA-256 that its name carries.
SUM_DIGITS = 16

#: Directory that damaged files are moved to.
ASIDE = "aside"

LOCK = ".lock"


class Store(Protocol):
    """Files by key, below one place."""

    @property
    def name(self) -> str:
        """What messages call the place."""

    def exists(self, key: str) -> bool:
        """Whether there is a file or a directory of this key."""

    def names(self, key: str = "") -> list[str]:
        """Names directly below a key, sorted; unfinished writes and locks are not listed."""

    def read(self, key: str) -> bytes | None:
        """The content of a file; None if there is none that can be read."""

    def write(self, key: str, content: bytes) -> None:
        """Write a file whole or not at all."""

    def append(self, key: str, line: bytes) -> None:
        """Add a line to a file; a torn last line stays alone on its line."""

    def delete(self, key: str) -> None:
        """Delete a file, if it is there."""

    def set_aside(self, key: str) -> str:
        """Move a damaged file out of the way; returns where it is now, which is where it was if it cannot be moved."""

    def lock(self, key: str, *, wait: bool) -> AbstractContextManager[bool]:
        """Hold the lock of a directory; without ``wait``, give False at once if another process holds it."""

    def clean(self, key: str) -> None:
        """Delete what interrupted writes left in a directory. Only for the holder of its lock."""


@dataclass(frozen=True)
class LocalStore:
    """Files below a directory of this machine."""

    root: Path

    @property
    def name(self) -> str:
        """The directory."""
        return str(self.root)

    def exists(self, key: str) -> bool:  # noqa: D102
        return (self.root / key).exists()

    def names(self, key: str = "") -> list[str]:  # noqa: D102
        folder = self.root / key
        return sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []

    def read(self, key: str) -> bytes | None:  # noqa: D102
        try:
            return (self.root / key).read_bytes()
        except OSError:
            return None

    def write(self, key: str, content: bytes) -> None:  # noqa: D102
        target = self.root / key
        make_folder(target.parent)
        atomic_write(target, lambda temporary: temporary.write_bytes(content))

    def append(self, key: str, line: bytes) -> None:  # noqa: D102
        path = self.root / key
        try:
            with path.open("ab+") as file:
                if file.tell():
                    file.seek(-1, 2)
                    file.write(b"" if file.read(1) == b"\n" else b"\n")
                file.write(line + b"\n")
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from error

    def delete(self, key: str) -> None:  # noqa: D102
        path = self.root / key
        if path.is_file():
            path.unlink(missing_ok=True)

    def set_aside(self, key: str) -> str:  # noqa: D102
        path, folder = self.root / key, self.root / ASIDE
        stem = f"{path.parent.name}.{path.name}"
        target = next(folder / f"{stem}.{k}" for k in range(10**6) if not (folder / f"{stem}.{k}").exists())
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return str(path.rename(target))
        except OSError:  # a read-only directory, or another process was faster
            return str(path)

    @contextmanager
    def lock(self, key: str, *, wait: bool) -> Iterator[bool]:  # noqa: D102
        folder = self.root / key
        make_folder(folder)
        lock = FileLock(folder / LOCK, timeout=-1 if wait else 0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        except (NotImplementedError, OSError) as error:
            raise InputError(
                f"{folder}: cannot be locked ({error}); choose a directory on another file system"
            ) from error
        try:
            yield True
        finally:
            lock.release()

    def clean(self, key: str) -> None:  # noqa: D102
        folder = self.root / key
        for path in folder.glob(f".*{PARTIAL}*") if folder.is_dir() else []:
            if path.is_file():
                path.unlink(missing_ok=True)


#: Marks a file that is being written; its name is hidden until it is whole.
PARTIAL = ".partial-"


def checksum(content: bytes) -> str:
    """First digits of the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()[:SUM_DIGITS]


def make_folder(folder: Path) -> None:
    """Make a directory and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error


def atomic_write(target: Path, write: Callable[[Path], object]) -> None:
    """Have ``write`` fill a temporary file beside ``target``, then put it in place in one step."""
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}{PARTIAL}", suffix=target.suffix)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror})") from error
    temporary = Path(name)
    try:
        os.close(handle)
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
        if os.name != "nt":  # have the system put the new name on the disk; some file systems cannot, and need not
            folder = os.open(target.parent, os.O_RDONLY)
            with suppress(OSError):
                os.fsync(folder)
            os.close(folder)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror})") from error
    finally:
        temporary.unlink(missing_ok=True)
