"""What ends a command although its input is sound: a full device, limits of the process, closed streams."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from typing import Any

import typer

from breadth.boundary import lacking_resource
from breadth.errors import InputError, printable

#: Bytes of address space below which libraries end the process themselves, without an exception: OpenBLAS and polars
#: were seen to at 1.2 GB, on two cores. Figures need about 2 GB; there, Python still gets an ImportError.
LEAST_ADDRESS_SPACE = 1_500_000_000

_show_warning = warnings.showwarning


def open_standard_streams() -> None:
    """Give standard streams that are closed to the null device.

    A file that a library opens would get their number, and whatever is printed would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one


def check_address_space() -> None:
    """Refuse to start where libraries could not be loaded."""
    try:
        import resource
    except ImportError:  # on Windows, which has no such limit
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESS_SPACE:
        raise InputError(
            f"this process may use {limit / 1e6:,.0f} MB of memory addresses (ulimit -v {limit // 1024}), and its "
            f"libraries need {LEAST_ADDRESS_SPACE / 1e6:,.0f} MB at least; allow more, such as with `ulimit -v 4000000`"
        )


def print_python_warning(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
    """Print a warning of ours as others are printed, without a line of code; those of libraries as Python does."""
    if category.__module__.startswith("breadth."):
        typer.echo(f"warning: {printable(str(message))}", err=True)
    else:
        _show_warning(message, category, *place, **options)


def flush_output() -> None:
    """Print what is still held back, while an error can be told."""
    if sys.stdout is not None:
        sys.stdout.flush()


def failure_message(error: BaseException) -> str:
    """The one message for what ended a command; empty for a bug, which keeps its traceback."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return lacking_resource(error)


def end_with_message(message: str) -> None:
    """Print a message on standard error and end with exit code 2, even if nothing can be printed."""
    with suppress(OSError):
        typer.echo(f"breadth: {printable(message)}", err=True)
    # All is said. Threads of a Rust library that lacks something may panic once more while the process ends.
    discard_stream(2)
    try:
        flush_output()
    except OSError:  # the device that is full
        discard_stream(1)
    sys.exit(2)


def discard_stream(number: int) -> None:
    """Let a standard stream lead nowhere, so that Python does not fail again where it ends."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
    except OSError:  # no more files may be opened
        os.close(number)
        return
    os.dup2(nowhere, number)
    os.close(nowhere)
