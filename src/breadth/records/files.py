"""Where a study's files are: one small interface, and the local directory behind it.

Everything a study writes goes through a :class:`Store`: a key such as ``runs/a/run.json`` names a file, a write is
whole or not there, a lock ends with its holder. :class:`LocalStore` is the only implementation; an object store would
be a second class with the same methods.

Files are opened relative to an open directory (:class:`Folder`), name by name from the directory of the study. A path
would be looked up again at every operation: who may write in the study could put a link in place of a directory
between a check and the operation after it, and have files written anywhere.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import psutil

from breadth.boundary import first_line, writing
from breadth.errors import InputError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

#: Hexadecimal digits of a file's SHA-256 that its name carries.
SUM_DIGITS = 16

#: Marks a file that is being written; its name is hidden until it is whole.
PARTIAL = ".partial-"

#: Directory that damaged files are moved to.
ASIDE = "aside"

LOCK = ".lock"

#: Seconds to wait for another process before saying so.
PATIENCE = 5.0

#: Seconds between two attempts to get a lock.
POLL = 0.05

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

    def read(self, key: str, last: int | None = None) -> bytes | None:
        """The content of a file, or its ``last`` bytes; None if there is no regular file of this name.

        A file that is there and cannot be read is an ``InputError`` with the reason: nobody knows whether it is
        damaged, so nobody may take it for that.
        """

    def fault(self, key: str) -> str | None:
        """What stands where a file should be and is none, such as a link, or ``is missing``; None for a file."""

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
        """Move a damaged file out of the way; returns where it is now, or nothing if it was gone already."""

    def lock(
        self, key: str, *, wait: bool, waiting: Callable[[str], None] | None = None
    ) -> AbstractContextManager[bool]:
        """Hold the lock of a directory; without ``wait``, give False at once if another process holds it.

        ``waiting`` is told for whom, after some seconds.
        """

    def clean(self, key: str) -> None:
        """Delete what interrupted writes left in a directory. Only for the holder of its lock."""


class DamagedError(InputError):
    """A file is not what breadth wrote: it was cut or changed. This alone is why ``breadth run`` writes one again."""


#: Whether this system opens files relative to an open directory; Linux and macOS do, Windows does not.
HAS_HANDLES = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir} <= os.supports_dir_fd and {
    os.listdir,
    os.scandir,
} <= os.supports_fd

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)

#: A pipe is not waited for, and Windows changes no line breaks.
_AS_IT_IS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

#: The errors that say: there is nothing of this name.
_ABSENT = (FileNotFoundError, NotADirectoryError)

#: Errors of file systems that cannot put the names of a directory on the disk one by one, and need not.
_NO_FLUSH = {errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}

#: Errors of ``flock`` that say: another process has the lock.
_HELD = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES}

#: What is said of a file that is not what was written.
DAMAGED = "is damaged (its checksum is wrong)"

#: What is said of a file that is not there, and of what may be in its place.
MISSING_FILE, LINK, DIRECTORY = "is missing", "is a link", "is a directory"

_KINDS = {
    stat.S_IFLNK: LINK,
    stat.S_IFDIR: DIRECTORY,
    stat.S_IFIFO: "is a pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}

Inode = tuple[int, int]


@dataclass(frozen=True)
class Folder:
    """An open directory: what is done in it happens in this very directory, whatever its name leads to by then.

    ``path`` is what it was opened as, for messages. Methods take the name of one file each, never a path, and refuse
    links when they open something. ``handle`` is None where the system has none (``HAS_HANDLES``): there every name is
    looked up again below ``path``, and a link that is swapped in between two operations is not noticed.
    """

    path: Path
    handle: int | None

    @classmethod
    def open(cls, path: Path) -> Folder:
        """Open a directory that the user named: links on the way to it are the user's own, and are followed."""
        if not HAS_HANDLES:
            if not path.is_dir():
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            return cls(path, None)
        return cls(path, os.open(path, _DIRECTORY))

    @classmethod
    def open_or_make(cls, path: Path) -> Folder:
        """The same; what is missing of the directory is made.

        What was made here is no choice of the user's: a link that somebody puts in its place is refused.
        """
        above, missing = path, []
        while True:
            try:
                folder = cls.open(above)
                break
            except FileNotFoundError:
                if above.parent == above:
                    raise
                missing.append(above.name)
                above = above.parent
        for name in reversed(missing):
            with folder:
                inner = folder.enter_or_make(name)
            folder = inner
        return folder

    def enter(self, name: str) -> Folder:
        """Open a directory in this one; a link is refused."""
        path = self.path / name
        if self.handle is None:
            self._refuse_link(name)
            return Folder.open(path)
        try:
            return Folder(path, os.open(name, _DIRECTORY | _NOFOLLOW, dir_fd=self.handle))
        except OSError:
            # Systems differ in what they raise for a link.
            self._refuse_link(name)
            raise

    def enter_or_make(self, name: str) -> Folder:
        """The same; a directory that is missing is made."""
        try:
            return self.enter(name)
        except FileNotFoundError:
            self.make(name)
            return self.enter(name)

    @contextmanager
    def below(self, path: PurePosixPath, *, make: bool = False) -> Iterator[Folder]:
        """A directory below this one, opened name by name; with ``make``, what is missing is made."""
        with ExitStack() as stack:
            folder = self
            for name in path.parts:
                folder = stack.enter_context(folder.enter_or_make(name) if make else folder.enter(name))
            yield folder

    def _refuse_link(self, name: str) -> None:
        if self.fault(name) == LINK:
            path = self.path / name
            raise InputError(f"{path}: is a link, which is not followed here; replace it by what it points to")

    def __enter__(self) -> Folder:
        """The directory, which is closed at the end."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the directory."""
        self.close()

    def close(self) -> None:
        """Give the handle back."""
        if self.handle is not None:
            os.close(self.handle)

    def _at(self, name: str) -> str:
        """What the system calls a file in here: its name where there is a handle, else its path."""
        return name if self.handle is not None else str(self.path / name)

    def names(self) -> list[str]:
        """The names of everything in here."""
        return os.listdir(self.path if self.handle is None else self.handle)

    def status(self, name: str) -> os.stat_result:
        """What the system knows about a name, a link itself included."""
        return os.stat(self._at(name), dir_fd=self.handle, follow_symlinks=False)

    def inode(self, name: str) -> Inode | None:
        """The identity of a file; None if there is none."""
        try:
            status = self.status(name)
        except _ABSENT:
            return None
        return status.st_dev, status.st_ino

    def fault(self, name: str) -> str | None:
        """What stands where a file should be and is none, or that it is missing; None for a regular file."""
        try:
            kind = stat.S_IFMT(self.status(name).st_mode)
        except _ABSENT:
            return MISSING_FILE
        return None if kind == stat.S_IFREG else _KINDS.get(kind, "is not a regular file")

    def open_file(self, name: str, flags: int) -> int:
        """Open a regular file; raises ``FileNotFoundError`` for whatever else has this name."""
        handle = -1
        try:
            handle = os.open(self._at(name), flags | _NOFOLLOW | _AS_IT_IS, 0o666, dir_fd=self.handle)
            if stat.S_ISREG(os.fstat(handle).st_mode):
                return handle
        except OSError:
            # What is no file fails in many ways: a link as a loop, a socket as a missing device.
            if handle >= 0 or self.fault(name) in (None, MISSING_FILE):
                raise
        if handle >= 0:
            os.close(handle)
        raise FileNotFoundError(errno.ENOENT, self.fault(name) or "was replaced", str(self.path / name))

    def read(self, name: str, last: int | None = None) -> bytes:
        """The content of a regular file, or its ``last`` bytes."""
        handle = self.open_file(name, os.O_RDONLY)
        try:
            if last is not None:
                os.lseek(handle, max(0, os.fstat(handle).st_size - last), os.SEEK_SET)
            blocks = []
            # One byte more than it has: then a single call is enough to see the end of most files.
            while block := os.read(handle, os.fstat(handle).st_size + 1):
                blocks.append(block)
        finally:
            os.close(handle)
        return b"".join(blocks)

    def write(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all, in place of one that is there."""
        temporary = _hidden_name(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _AS_IT_IS
        handle = os.open(self._at(temporary), flags, 0o666, dir_fd=self.handle)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(handle)
            self.move(temporary, self, name)
        except BaseException:
            self.remove(temporary)
            raise

    def write_by_path(self, name: str, write: Callable[[Path], object]) -> None:
        """The same for libraries that take only paths: ``write`` fills a temporary file."""
        with self.workplace(name) as place:
            # Some writers choose the format by the ending, and some refuse names that are not UTF-8.
            temporary = f"{PARTIAL}file{PurePosixPath(name).suffix}"
            write(place.reachable / temporary)
            place.flush_file(temporary)
            place.move(temporary, self, name)

    def move(self, name: str, to: Folder, new: str) -> None:
        """Give a file or directory another name, in this or another directory, and put that on the disk."""
        os.replace(self._at(name), to._at(new), src_dir_fd=self.handle, dst_dir_fd=to.handle)
        to.flush()

    def make(self, name: str) -> None:
        """Make a directory, if it is not there, and put its name on the disk."""
        with suppress(FileExistsError):
            os.mkdir(self._at(name), dir_fd=self.handle)
            self.flush()

    def remove(self, name: str) -> None:
        """Remove a file, or a directory and what is in it, if it is there; a link is removed, not followed."""
        fault = self.fault(name)
        if fault == DIRECTORY:
            shutil.rmtree(self._at(name), dir_fd=self.handle)
        elif fault != MISSING_FILE:
            with suppress(FileNotFoundError):
                os.unlink(self._at(name), dir_fd=self.handle)

    def flush(self) -> None:
        """Have the system put the names in here on the disk."""
        if self.handle is None:  # Windows cannot, and need not
            return
        try:
            os.fsync(self.handle)
        except OSError as error:
            if error.errno not in _NO_FLUSH:
                raise

    def flush_file(self, name: str, mode: int | None = None) -> None:
        """Have the system put the content of a file on the disk; ``mode`` are its permissions from now on."""
        handle = self.open_file(name, os.O_RDWR)
        try:
            os.fsync(handle)
            if mode is not None and self.handle is not None:
                os.fchmod(handle, mode)
        finally:
            os.close(handle)

    def flush_all(self) -> None:
        """Have the system put all files in here and below on the disk, as readable as other new files are."""
        for name in sorted(self.names()):
            if self.fault(name) == DIRECTORY:
                with self.enter(name) as inner:
                    inner.flush_all()
                continue
            # Libraries make files that only their owner can read. The directory has the permissions of new files.
            self.flush_file(name, 0o666 & self.status_here().st_mode)
        self.flush()

    def status_here(self) -> os.stat_result:
        """What the system knows about this directory."""
        return os.stat(self.path if self.handle is None else self.handle)

    @contextmanager
    def workplace(self, name: str) -> Iterator[Folder]:
        """A hidden directory of this user alone, to make a file or directory in that is then moved here.

        Whoever is killed leaves it behind, and nothing that looks like what was to be made.
        """
        hidden = _hidden_name(name)
        with writing(self.path / name):
            os.mkdir(self._at(hidden), 0o700, dir_fd=self.handle)
        try:
            with writing(self.path / name):
                place = self.enter(hidden)
            with place:
                yield place
        finally:
            with writing(self.path / name):
                self.remove(hidden)

    @property
    def reachable(self) -> Path:
        """A path to this directory, for libraries that take only paths.

        On Linux it goes through the handle, so it leads here whatever happens to names; elsewhere it is ``path``.
        """
        if self.handle is not None:
            through = f"/proc/self/fd/{self.handle}"
            with suppress(OSError):  # there is no /proc
                if os.path.samestat(os.stat(through), os.fstat(self.handle)):
                    return Path(through)
        return self.path


def _hidden_name(name: str) -> str:
    """A new name that says that what has it is not whole."""
    return f".{name}{PARTIAL}{secrets.token_hex(4)}"


@dataclass(frozen=True)
class LocalStore:
    """Files below a directory of this machine. Links are not followed: a study consists of its own regular files.

    ``_inodes`` are those of the locks that were taken, by key.
    """

    root: Path
    _inodes: dict[str, Inode] = field(default_factory=dict, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The directory."""
        return str(self.root)

    def exists(self, key: str) -> bool:  # noqa: D102
        return self.fault(key) != MISSING_FILE

    def fault(self, key: str) -> str | None:  # noqa: D102
        above, name = _split(key)
        with self._reading(key):
            try:
                with self._folder(above) as folder:
                    return folder.fault(name)
            except _ABSENT:
                return MISSING_FILE

    def names(self, key: str = "") -> list[str]:  # noqa: D102
        with self._reading(key):
            try:
                with self._folder(key) as folder:
                    names = folder.names()
            except _ABSENT:
                return []
        return sorted(name for name in names if not name.startswith("."))

    def read(self, key: str, last: int | None = None) -> bytes | None:  # noqa: D102
        above, name = _split(key)
        with self._reading(key):
            try:
                with self._folder(above) as folder:
                    return folder.read(name, last)
            except _ABSENT:
                return None

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        """What the system refuses is an error that names the file and the reason."""
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self.root / key}: cannot be read ({_reason(error)}); nothing was changed. "
                "Make it readable, then run the same command again"
            ) from error

    @contextmanager
    def _folder(self, key: str, *, changes: bool = False, make: bool = False) -> Iterator[Folder]:
        """The directory of a key, opened name by name from the root; a link on the way is refused.

        For who ``changes`` files there, it must be the one that was locked. With ``make``, what is missing is made.
        """
        folder, at = self._open_root(changes, make), ""
        try:
            for part in PurePosixPath(key).parts:
                at = f"{at}/{part}" if at else part
                try:
                    inner = folder.enter(part)
                except FileNotFoundError:
                    self._refuse_lost(at, changes)
                    if not make:
                        raise
                    inner = folder.enter_or_make(part)
                folder.close()
                folder = inner
                self._refuse_moved(at, folder, changes)
            yield folder
        finally:
            folder.close()

    def _open_root(self, changes: bool, make: bool) -> Folder:
        try:
            root = Folder.open(self.root)
        except FileNotFoundError:
            self._refuse_lost("", changes)
            if not make:
                raise
            root = Folder.open_or_make(self.root)
        try:
            self._refuse_moved("", root, changes)
        except BaseException:
            root.close()
            raise
        return root

    def _refuse_lost(self, key: str, changes: bool) -> None:
        """Refuse to change anything if a missing directory held, or was, one that is locked: it would be made again."""
        for locked in list(self._inodes):
            if changes and (not key or locked == key or locked.startswith(f"{key}/")):
                raise self._moved(locked)

    def _refuse_moved(self, key: str, folder: Folder, changes: bool) -> None:
        """Refuse to change anything in another directory than the one that was locked under this key."""
        locked = self._inodes.get(key)
        if changes and locked is not None and folder.inode(LOCK) != locked:
            raise self._moved(key)

    def _moved(self, key: str) -> InputError:
        return InputError(
            f"{self.root / key}: was moved or removed while it was in use, so nothing more is written; run the "
            "study again in the directory where it is now"
        )

    def write(self, key: str, content: bytes) -> None:  # noqa: D102
        above, name = _split(key)
        with writing(self.root / key), self._folder(above, changes=True, make=True) as folder:
            folder.write(name, content)

    def append(self, key: str, line: bytes) -> None:  # noqa: D102
        with self.appending(key) as add:
            add(line)

    @contextmanager
    def appending(self, key: str) -> Iterator[Callable[[bytes], None]]:
        """A function that adds lines to a file, which stays open; a line outlives this process when it returns."""
        above, name = _split(key)
        path = self.root / key
        with writing(path), self._folder(above, changes=True) as folder:
            file = os.fdopen(folder.open_file(name, os.O_RDWR | os.O_APPEND | os.O_CREAT), "ab+")
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

    def delete(self, key: str) -> None:  # noqa: D102
        above, name = _split(key)
        with writing(self.root / key), suppress(*_ABSENT), self._folder(above, changes=True) as folder:
            if folder.fault(name) is None:
                folder.remove(name)

    def write_folder(self, key: str, fill: Callable[[Path], None]) -> None:  # noqa: D102
        above, name = _split(key)
        with self._folder_to_write(above, self.root / key) as folder, _made_in(folder, name) as place:
            with writing(self.root / key):
                place.make(name)
            fill(place.reachable / name)
            with writing(self.root / key):
                with place.enter(name) as made:
                    made.flush_all()
                _hide_and_remove(folder, name)
                place.move(name, folder, name)

    @contextmanager
    def _folder_to_write(self, key: str, target: Path) -> Iterator[Folder]:
        """The directory of a key, made if need be, in which ``target`` will be written."""
        with ExitStack() as stack:
            with writing(target):
                folder = stack.enter_context(self._folder(key, changes=True, make=True))
            yield folder

    def delete_folder(self, key: str) -> None:  # noqa: D102
        above, name = _split(key)
        with writing(self.root / key), suppress(*_ABSENT), self._folder(above, changes=True) as folder:
            _hide_and_remove(folder, name)

    def set_aside(self, key: str) -> str:  # noqa: D102
        above, name = _split(key)
        with writing(self.root / key), self._folder(ASIDE, changes=True, make=True) as aside:
            stem = f"{PurePosixPath(above).name}.{name}"
            number = 0
            while aside.inode(f"{stem}.{number}") is not None:
                number += 1
            try:
                with self._folder(above, changes=True) as folder:
                    folder.move(name, aside, f"{stem}.{number}")
            except FileNotFoundError:  # another process was faster
                return ""
        return str(self.root / ASIDE / f"{stem}.{number}")

    @contextmanager
    def lock(  # noqa: D102
        self, key: str, *, wait: bool, waiting: Callable[[str], None] | None = None
    ) -> Iterator[bool]:
        with self._folder_to_write(key, self.root / key) as folder:
            lock = _acquired(folder, wait, waiting)
            if lock is not None:
                status = os.fstat(lock)
                self._inodes[key] = (status.st_dev, status.st_ino)
        if lock is None:
            yield False
            return
        try:
            yield True
        finally:
            if key:  # that of the study itself tells for as long as the store is used whether it is still there
                del self._inodes[key]
            os.close(lock)

    def discard(self) -> None:
        """Remove the directory if there is nothing in it but the lock that was taken; what is in its place stays."""
        if "" not in self._inodes:
            return
        with suppress(OSError, InputError):
            with self._folder("", changes=True) as folder:
                folder.remove(LOCK)
            self.root.rmdir()

    def clean(self, key: str) -> None:  # noqa: D102
        with writing(self.root / key), suppress(*_ABSENT), self._folder(key, changes=True) as folder:
            for name in folder.names():
                if name.startswith(".") and PARTIAL in name:
                    folder.remove(name)


def _reason(error: OSError) -> str:
    """Why the system refused something."""
    return error.strerror or first_line(error)


def _split(key: str) -> tuple[str, str]:
    """The directory of a key, and the name in it."""
    above, _, name = key.rpartition("/")
    return above, name


def _hide_and_remove(folder: Folder, name: str) -> None:
    """Remove a directory, if it is there.

    It is gone in one step: whoever is killed while files are removed leaves nothing that looks like a directory.
    """
    try:
        folder.enter(name).close()
    except FileNotFoundError:
        return
    hidden = _hidden_name(name)
    folder.move(name, folder, hidden)
    folder.remove(hidden)


@contextmanager
def _made_in(folder: Folder, name: str) -> Iterator[Folder]:
    """A directory to make something of this name in; messages name the place where it will be."""
    with folder.workplace(name) as place:
        try:
            yield place
        except InputError as error:
            raise InputError(str(error).replace(str(place.reachable), str(folder.path))) from error


def unfinished_target(path: PurePosixPath) -> PurePosixPath | None:
    """What an unfinished file, or the directory it is written in, was to become, by its hidden name; else None."""
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


def _acquired(folder: Folder, wait: bool, waiting: Callable[[str], None] | None) -> int | None:
    """Take the lock of a directory; its handle, or None if another process holds it and is not waited for."""
    began, told = time.monotonic(), False
    while True:
        try:
            lock = _try_lock(folder)
        except OSError as error:
            raise InputError(
                f"{folder.path}: cannot be locked ({_reason(error)}); choose a directory on another file system"
            ) from error
        if lock is not None or not wait:
            return lock
        if not told and time.monotonic() - began > PATIENCE:
            told = True
            if waiting:
                waiting(f"waiting for {_holder(folder.path / LOCK)}, which is writing to {folder.path}")
        time.sleep(POLL)


def _try_lock(folder: Folder) -> int | None:
    """Take the lock of a directory if nobody holds it."""
    handle = folder.open_file(LOCK, os.O_RDWR | os.O_CREAT)
    try:
        # The file may have been deleted after it was opened: then somebody else can lock a new one of this name.
        if _flock(handle) and folder.inode(LOCK) == (os.fstat(handle).st_dev, os.fstat(handle).st_ino):
            return handle
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _flock(handle: int) -> bool:
    """Lock an open file until it is closed, or until the process ends; False if somebody else has locked it."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


def _holder(path: Path) -> str:
    """The process that has a lock open, as far as the system tells."""
    for process in psutil.process_iter(["pid"]):
        with suppress(psutil.Error, OSError):  # another user's process, or one that has ended
            if process.pid != os.getpid() and any(Path(file.path) == path.resolve() for file in process.open_files()):
                return f"process {process.pid}"
    return "another process"


def atomic_write(target: Path, write: Callable[[Path], object]) -> None:
    """Have ``write`` fill a temporary file, then put it in place of ``target`` in one step.

    The directory is the user's choice, so links on the way to it are followed. It is opened once.
    """
    with writing(target), Folder.open(target.parent) as folder:
        folder.write_by_path(target.name, write)
