"""The one boundary around readers and writers: whatever a library raises becomes one message that names the file."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from breadth.errors import InputError


@contextmanager
def reading(name: object, form: str = "") -> Iterator[None]:
    """The one boundary around readers: whatever a library raises becomes a message that names the file."""
    try:
        with _silenced():
            yield
    except BaseException as error:  # a panic of a Rust library is none of Python's usual exceptions
        what = f"{name}: cannot be read{f' as {form}' if form else ''}"
        if message := _explained(error, what, "; it is truncated, damaged or in another format"):
            raise InputError(message) from error
        raise


@contextmanager
def writing(name: object) -> Iterator[None]:
    """The same around writers."""
    try:
        yield
    except BaseException as error:
        if message := _explained(error, f"{name}: cannot be written"):
            raise InputError(message) from error
        raise


def _explained(error: BaseException, what: str, fault: str = "") -> str:
    """The message for what a library raised; empty for a mistake of our own, which keeps its traceback.

    That is a built-in exception that was raised by a line of breadth.
    """
    if isinstance(error, InputError | KeyboardInterrupt | SystemExit | GeneratorExit):
        return ""
    if isinstance(error, OSError):
        return f"{what} ({error.strerror or first_line(error)})"
    origin, trace = type(error).__module__, error.__traceback__
    if origin == "builtins" and not isinstance(error, UnicodeError | MemoryError | RecursionError):
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        origin = str(trace.tb_frame.f_globals.get("__name__", "")) if trace is not None else ""
    if origin.startswith("breadth."):
        return ""
    panicked = type(error).__name__ == "PanicException"  # its message is about the library
    return f"{what}{fault}{'' if panicked else f' ({first_line(error)})'}"


class _Silence:
    """How many readers are at work in any thread, and a copy of standard error as it was, or -1 if there is none."""

    lock, inside, kept = threading.Lock(), 0, -1


@contextmanager
def _silenced() -> Iterator[None]:
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
