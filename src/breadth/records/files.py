"""Where a study's files are: one small interface, and the local directory behind it.

Everything a study writes goes through a :class:`Store`: a key such as ``runs/a/run.json`` names a file, a write is
whole or not there, a lock ends with its holder. :class:`LocalStore` is the only implementation; an object store would
be a second class with the same methods.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

import psutil
from filelock import BaseFileLock, FileLock, Timeout

from breadth.boundary import writing
from breadth.errors import InputError

#: Hexadecimal digits of a file's SHA-256 that its name carries.
SUM_DIGITS = 16

#: Directory that damaged files are moved to.
ASIDE = "aside"

LOCK = ".lock"

#: Seconds to wait for another process before saying so.
PATIENCE = 5.0

#: Key of the checksum in files of JSON.
SEAL = "checksum"


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

    def write_folder(self, key: str, fill: Callable[[Path], None]) -> None:
        """Write a directory whole or not at all, in place of one that is there; ``fill`` puts files into it."""

    def delete_folder(self, key: str) -> None:
        """Delete a directory with all its files, if it is there."""

    def set_aside(self, key: str) -> str:
        """Move a damaged file out of the way; returns where it is now, which is where it was if it cannot be moved."""

    def lock(
        self, key: str, *, wait: bool, waiting: Callable[[str], None] | None = None
    ) -> AbstractContextManager[bool]:
        """Hold the lock of a directory; without ``wait``, give False at once if another process holds it.

        ``waiting`` is told for whom, after some seconds.
        """

    def clean(self, key: str) -> None:
        """Delete what interrupted writes left in a directory. Only for the holder of its lock."""


@dataclass(frozen=True)
class LocalStore:
    """Files below a directory of this machine. Links are not followed: a study consists of its own regular files.

    ``_inodes`` are those of the locks that were taken, by key.
    """

    root: Path
    _inodes: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The directory."""
        return str(self.root)

    def exists(self, key: str) -> bool:  # noqa: D102
        return (self.root / key).exists()

    def names(self, key: str = "") -> list[str]:  # noqa: D102
        folder = self._folder(key)
        return sorted(path.name for path in folder.iterdir() if path.name[0] != ".") if folder.is_dir() else []

    def read(self, key: str) -> bytes | None:  # noqa: D102
        try:
            with _opened(self._folder(key, above=1), os.O_RDONLY) as file:
                return file.read()
        except OSError:
            return None

    def write(self, key: str, content: bytes) -> None:  # noqa: D102
        self._refuse_moved()
        target = self._folder(key, above=1)
        make_folder(target.parent)
        atomic_write(target, lambda temporary: temporary.write_bytes(content))

    def append(self, key: str, line: bytes) -> None:  # noqa: D102
        with self.appending(key) as add:
            add(line)

    @contextmanager
    def appending(self, key: str) -> Iterator[Callable[[bytes], None]]:
        """A function that adds lines to a file, which stays open; a line outlives this process when it returns."""
        self._refuse_moved()
        path = self._folder(key, above=1)
        with writing(path):
            opened = _opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            file = opened.__enter__()
        try:
            with writing(path):
                if file.seek(0, 2):
                    file.seek(-1, 2)
                    file.write(b"" if file.read(1) == b"\n" else b"\n")

            def add(line: bytes) -> None:
                with writing(path):
                    file.write(line + b"\n")
                    file.flush()

            yield add
        finally:
            with writing(path):
                file.close()

    def _folder(self, key: str, above: int = 0) -> Path:
        """Where a key is; refused if a directory on the way (all but the last ``above`` names) is a link."""
        path, parts = self.root, PurePosixPath(key).parts
        for number, part in enumerate(parts, 1):
            path = path / part
            if number <= len(parts) - above and path.is_symlink():
                raise InputError(f"{path}: is a link; a study holds its own files, so replace it by what it points to")
        return path

    def delete(self, key: str) -> None:  # noqa: D102
        path = self.root / key
        if path.is_file():
            path.unlink(missing_ok=True)

    def write_folder(self, key: str, fill: Callable[[Path], None]) -> None:  # noqa: D102
        self._refuse_moved()
        target = self._folder(key)
        make_folder(target.parent)
        temporary = _hidden_folder(target)
        try:
            fill(temporary)
            with writing(target):
                _flush_tree(temporary)
                self.delete_folder(key)
                temporary.rename(target)
                flush_folder(target.parent)
        finally:
            _remove_tree(temporary)

    def delete_folder(self, key: str) -> None:  # noqa: D102
        self._refuse_moved()
        folder = self._folder(key)
        if not folder.is_dir():
            return
        hidden = _hidden_folder(folder)
        with writing(folder):
            # Gone in one step: whoever is killed while files are removed leaves nothing that looks like a directory.
            folder.rename(hidden / folder.name)
            _remove_tree(hidden)
            flush_folder(folder.parent)

    def set_aside(self, key: str) -> str:  # noqa: D102
        self._refuse_moved()
        path, folder = self.root / key, self._folder(ASIDE)
        stem = f"{path.parent.name}.{path.name}"
        target = next(folder / f"{stem}.{k}" for k in range(10**6) if not (folder / f"{stem}.{k}").exists())
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return str(path.rename(target))
        except OSError:  # a read-only directory, or another process was faster
            return str(path)

    @contextmanager
    def lock(  # noqa: D102
        self, key: str, *, wait: bool, waiting: Callable[[str], None] | None = None
    ) -> Iterator[bool]:
        self._refuse_moved()
        folder = self._folder(key)
        make_folder(folder)
        lock = FileLock(folder / LOCK, timeout=PATIENCE if wait else 0, thread_local=False)
        if not _acquired(lock, folder, wait, waiting):
            yield False
            return
        status = (folder / LOCK).stat()
        self._inodes[key] = (status.st_dev, status.st_ino)
        try:
            yield True
        finally:
            if key:  # that of the study itself tells for as long as the store is used whether it is still there
                del self._inodes[key]
            lock.release()

    def _refuse_moved(self) -> None:
        """Refuse to write once a directory that was locked here has been moved or removed: it would be made again."""
        for key, inode in self._inodes.items():
            try:
                status = (self.root / key / LOCK).stat()
                there = (status.st_dev, status.st_ino) == inode
            except OSError:
                there = False
            if not there:
                raise InputError(
                    f"{self.root / key}: was moved or removed while it was in use, so nothing more is written; run the "
                    "study again in the directory where it is now"
                )

    def clean(self, key: str) -> None:  # noqa: D102
        folder = self.root / key
        for path in folder.glob(f".*{PARTIAL}*") if folder.is_dir() else []:
            if path.is_file():
                path.unlink(missing_ok=True)
            else:
                _remove_tree(path)


#: Marks a file that is being written; its name is hidden until it is whole.
PARTIAL = ".partial-"


def unfinished_target(path: Path) -> Path | None:
    """The file that an unfinished one was to become, by its hidden name; None for any other file."""
    name, marked, _ = path.name.rpartition(PARTIAL)
    if not marked or not name.startswith("."):
        return None
    return path.with_name(name.removeprefix("."))


def checksum(content: bytes) -> str:
    """First digits of the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()[:SUM_DIGITS]


def sealed(values: Mapping[str, Any]) -> bytes:
    """Values as JSON that carries its own checksum."""
    body = json.dumps(values, indent=1, sort_keys=True, ensure_ascii=False)
    return json.dumps({**values, SEAL: checksum(body.encode())}, indent=1, sort_keys=True, ensure_ascii=False).encode()


def unsealed(content: bytes | None) -> dict[str, Any] | None:
    """The values of :func:`sealed`; None if they are not there, damaged or were changed.

    A file from before there were checksums has none, and is taken as it is.
    """
    try:
        values = json.loads(content or b"")
        seal = values.pop(SEAL, None)
        return values if seal is None or content == sealed(values) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def make_folder(folder: Path) -> None:
    """Make a directory and those above it, and have the system put their names on the disk."""
    with writing(folder):
        new = [path for path in (folder, *folder.parents) if not path.is_dir()]
        folder.mkdir(parents=True, exist_ok=True)
        for path in new:
            flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Have the system put the names in a directory on the disk; some file systems cannot, and need not."""
    if os.name != "nt":
        handle = os.open(folder, os.O_RDONLY)
        with suppress(OSError):
            os.fsync(handle)
        os.close(handle)


def _hidden_folder(target: Path) -> Path:
    """A new, empty directory beside ``target`` whose name says that it is not whole."""
    with writing(target):
        return Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}{PARTIAL}"))


def _flush_tree(folder: Path) -> None:
    """Have the system put the files of a directory on the disk, as readable as other new files are."""
    mask = os.umask(0)
    os.umask(mask)
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            flush_folder(path)
            continue
        with path.open("rb+") as file:
            os.fsync(file.fileno())
        path.chmod(0o666 & ~mask)
    folder.chmod(0o777 & ~mask)
    flush_folder(folder)


def _remove_tree(folder: Path) -> None:
    """Remove a directory and what is in it, if it is there; a link is removed, not followed."""
    if folder.is_symlink() or not folder.is_dir():
        return
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
    folder.rmdir()


def _acquired(lock: BaseFileLock, folder: Path, wait: bool, waiting: Callable[[str], None] | None) -> bool:
    """Take a lock; False if another process holds it and is not waited for."""
    try:
        lock.acquire()
    except Timeout:
        if wait:
            if waiting:
                waiting(f"waiting for {_holder(folder / LOCK)}, which is writing to {folder}")
            lock.acquire(timeout=-1)
        return wait
    except (NotImplementedError, OSError) as error:
        raise InputError(f"{folder}: cannot be locked ({error}); choose a directory on another file system") from error
    return True


def _holder(path: Path) -> str:
    """The process that has a lock open, as far as the system tells."""
    for process in psutil.process_iter(["pid"]):
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and any(Path(file.path) == path.resolve() for file in process.open_files()):
                return f"process {process.pid}"
    return "another process"


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[BinaryIO]:
    """Open a regular file; a link, a pipe or a device is an ``OSError``, and none of them is waited for."""
    handle = os.open(
        path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0), 0o666
    )
    with os.fdopen(handle, "rb" if flags == os.O_RDONLY else "ab+") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path}: is not a regular file")
        yield file


def atomic_write(target: Path, write: Callable[[Path], object]) -> None:
    """Have ``write`` fill a temporary file beside ``target``, then put it in place in one step."""
    with writing(target):
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}{PARTIAL}", suffix=target.suffix)
    temporary = Path(name)
    try:
        with writing(target):
            os.close(handle)
            write(temporary)
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            temporary.chmod(0o666 & ~mask)
            temporary.replace(target)
            flush_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)
