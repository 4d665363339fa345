"""Who works on what: a lock per directory that the system releases when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from breadth.errors import InputError


@contextmanager
def locked(folder: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock of a directory; without ``wait``, yield False at once where somebody else holds it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("w")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            raise InputError(f"{folder}: its file system has no locks ({error.strerror}); choose another") from error
        yield True  # closing the file releases the lock
