"""Tokenizers and chat templates are programs: they are tried in a child process with limits before they are used here.

A few bytes can make a regular expression run for years, or a normalizer write gigabytes, and neither can be seen in the
file. The child takes about a tenth of a second for a small tokenizer and one second for one of 33 MB; a file that was
tried is not tried again in the same process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from breadth.errors import InputError
from breadth.lm.models import cached_sum

#: Seconds of computing that a trial may take: this, and so many more per megabyte of the file.
SECONDS, SECONDS_PER_MB = 4, 1

#: How many times as long the clock on the wall may run, on a machine that has other things to do.
PATIENCE = 3

#: Bytes of memory that a trial may take: this, and so many times the file's size. The libraries take a fifth of it.
MEMORY, MEMORY_PER_BYTE = 1_000_000_000, 30

_CHILD = Path(__file__).with_name("trial_child.py")


def try_tokenizer(path: Path) -> None:
    """Refuse a tokenizer.json that cannot be used within the limits."""
    fault = _tokenizer_fault(path, cached_sum(path))
    if fault:
        raise InputError(f"{path}: the tokenizer cannot be loaded ({fault}); take it from its author again")


def try_template(template: str, name: str) -> None:
    """Refuse a chat template that does not end, or writes without end, for a short conversation."""
    fault = _template_fault(template)
    if fault:
        raise InputError(
            f"{name}: its chat template cannot be used ({fault}); set chat_template to none or to a file with another "
            "template"
        )


@lru_cache(maxsize=64)
def _tokenizer_fault(path: Path, checksum: str) -> str:
    """What is wrong with a tokenizer of this content; empty if nothing."""
    return _run("tokenizer", str(path.absolute()), path.stat().st_size)


@lru_cache(maxsize=64)
def _template_fault(template: str) -> str:
    return _run("template", template, len(template))


def _run(kind: str, subject: str, size: int) -> str:
    """Have the child try something; what it says, or why it could not say anything."""
    seconds = SECONDS + SECONDS_PER_MB * (size // 1_000_000)
    memory = MEMORY + MEMORY_PER_BYTE * size
    request: dict[str, Any] = {
        "kind": kind, "subject": subject, "seconds": seconds, "memory": memory, "path": sys.path,
    }  # fmt: skip
    # Each thread of a pool would take address space of its own; one is enough.
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    # Isolated: neither the working directory nor variables of the user's decide what is imported.
    command = [sys.executable, "-I", str(_CHILD)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request).encode() + b"\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE * seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a short text takes more than {PATIENCE * seconds} seconds"
    try:
        fault = str(json.loads(done.stdout)["fault"])
    except (ValueError, KeyError, TypeError):
        return _reason_of_death(done.returncode, seconds, memory)
    if fault == "memory":
        return _too_much(memory)
    return fault


def _reason_of_death(code: int, seconds: int, memory: int) -> str:
    """Why a child died without a word: the system stops one that computes too long, libraries abort without memory."""
    import signal

    too_long = {-getattr(signal, name) for name in ("SIGXCPU", "SIGKILL") if hasattr(signal, name)}
    if code in too_long:
        return f"a short text takes more than {seconds} seconds"
    if code in {-signal.SIGABRT, -signal.SIGSEGV}:
        return _too_much(memory)
    return f"trying it on a short text failed with status {code}"


def _too_much(memory: int) -> str:
    return f"a short text takes more than {memory / 1e9:.1f} GB of memory"
