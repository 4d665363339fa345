"""The one boundary around readers and writers: whatever a library raises becomes one message that names the file."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from breadth.errors import InputError


@contextmanager
def reading(name: object, form: str = "") -> Iterator[None]:
    """The one boundary around readers: whatever a library raises becomes a message that names the file."""
    try:
        with silenced():
            yield
    except BaseException as error:  # a panic of a Rust library is none of Python's usual exceptions
        what = f"{name}: cannot be read{f' as {form}' if form else ''}"
        if message := _explained(error, what, "; it is truncated, damaged or in another format"):
            raise InputError(message) from error
        raise


#: Errors of looking at a path that say: nothing of this name can be there.
_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a regular file is there. A path that the system does not let us look at is an ``InputError``.

    ``os.path.isfile`` says False there: what a disk keeps back for a moment would count as absent, and be replaced.
    """
    return stat.S_ISREG(_mode(path))


def is_directory(path: str | os.PathLike[str]) -> bool:
    """Whether a directory is there; the same as :func:`is_file` otherwise."""
    return stat.S_ISDIR(_mode(path))


def _mode(path: str | os.PathLike[str]) -> int:
    """The mode of what is there; 0 if nothing is."""
    with reading(path):
        try:
            return os.stat(path).st_mode
        except OSError as error:
            if error.errno in _ABSENT:
                return 0
            raise
        except ValueError:  # no file has a name with a null character
            return 0


@contextmanager
def writing(name: object) -> Iterator[None]:
    """The same around writers."""
    try:
        yield
    except BaseException as error:
        if message := _explained(error, f"{name}: cannot be written"):
            raise InputError(message) from error
        raise


@contextmanager
def drawing(name: object) -> Iterator[None]:
    """The same around the library that draws figures."""
    try:
        with silenced():
            yield
    except BaseException as error:
        # What it panicked at is often only that another thread of it had panicked before.
        fault = f" ({_ENDED_HINT})" if _is_panic(error) and not lacking_resource(error) else ""
        if message := _explained(error, f"{name}: cannot be drawn", fault):
            raise InputError(message) from error
        raise


#: What a library says if it may open no more files, if it gets no more memory or threads, or if one of its threads
#: ended because of that.
_TOO_MANY_FILES = ("too many open files",)
_ENDED = ("receiver is gone", "oneshot canceled")
_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "can't start new thread", "memory allocation")

_ENDED_HINT = "a thread of a library ended; allow more open files and memory if they are limited (`ulimit -a`)"
_FILES_HINT = "too many open files; allow more, such as with `ulimit -n 1024`"
_MEMORY_HINT = "not enough memory; use a larger machine, or allow more if it is limited (`ulimit -v`)"

#: What the system says of a disk or file system that fails, or that it keeps from us, where a call names no file: a
#: read of a file that is open. Other numbers (a bad handle, a bad argument) are mistakes of our own.
_REFUSALS = {
    getattr(errno, name)
    for name in ("EIO", "ESTALE", "EACCES", "EPERM", "EROFS", "ENODEV", "ENXIO", "ETIMEDOUT", "EREMOTEIO", "ENOTCONN")
    if hasattr(errno, name)
}


def lacking_resource(error: BaseException) -> str:
    """What the system refused: room on a disk, memory, open files, a disk; empty for any other exception."""
    if isinstance(error, MemoryError):
        return _MEMORY_HINT
    if isinstance(error, OSError):
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return _FILES_HINT
        if error.errno in (errno.ENOMEM, errno.EAGAIN):
            return _MEMORY_HINT
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return f"{error.strerror}; what is printed or written needs another place"
        if error.errno in _REFUSALS:
            return f"{error.strerror}; a disk or file system refused what was read or written. Try again, or elsewhere"
        if error.errno == errno.ENOENT:  # of a call that names no file: where we are, or where temporary files go
            return f"{error.strerror}; the working directory, or every directory for temporary files, is gone or full"
        return ""
    # A library that could not be loaded, a thread that could not be started or ended, a panic of a Rust library.
    if isinstance(error, ImportError | RuntimeError | ValueError) or _is_panic(error):
        text = str(error).lower()
        if any(words in text for words in _TOO_MANY_FILES):
            return _FILES_HINT
        if any(words in text for words in _NO_MEMORY):
            return _MEMORY_HINT
        if any(words in text for words in _ENDED):
            return _ENDED_HINT
    return ""


def _is_panic(error: BaseException) -> bool:
    return type(error).__name__ == "PanicException"


def _explained(error: BaseException, what: str, fault: str = "") -> str:
    """The message for what a library raised; empty for a mistake of our own, which keeps its traceback.

    That is a built-in exception that was raised by a line of breadth.
    """
    if isinstance(error, InputError | KeyboardInterrupt | SystemExit | GeneratorExit):
        return ""
    if isinstance(error, OSError):
        return f"{what} ({error.strerror or first_line(error)})"
    lacking = lacking_resource(error)
    if lacking:
        return f"{what} ({lacking})"
    origin, trace = type(error).__module__, error.__traceback__
    if origin == "builtins" and not isinstance(error, UnicodeError | MemoryError | RecursionError):
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        origin = str(trace.tb_frame.f_globals.get("__name__", "")) if trace is not None else ""
    if origin.startswith("breadth."):
        return ""
    if _is_panic(error):  # its message is about the library
        return f"{what}{fault}"
    return f"{what}{fault} ({first_line(error)})"


class _Silence:
    """How many readers are at work in any thread, and a copy of standard error as it was, or -1 if there is none."""

    lock, inside, kept = threading.Lock(), 0, -1


@contextmanager
def silenced() -> Iterator[None]:
    """Hold back what threads of a Rust library print to standard error when they panic."""
    with _Silence.lock:
        _Silence.inside += 1
        if _Silence.inside == 1:
            try:
                _Silence.kept = os.dup(2)
            except OSError:
                _Silence.kept = -1
            else:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, 2)
                os.close(nowhere)
    try:
        yield
    finally:
        with _Silence.lock:
            _Silence.inside -= 1
            if _Silence.inside == 0 and _Silence.kept >= 0:
                os.dup2(_Silence.kept, 2)
                os.close(_Silence.kept)


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its type if it has none."""
    lines = str(error).strip().splitlines()
    return lines[0].strip()[:300] if lines else type(error).__name__
