"""How many functions of breadth does a command cross?

    python benchmarks/hops.py correlate scores.csv --control in_domain --by run --order step
    python benchmarks/hops.py --list report my-study

Counts the distinct functions entered from ``main`` to the end, in every thread, as a measure of how much one has to
read to follow a command. Calls made while modules are imported do not count. ``--list`` names the functions in the
order of their first call.
"""

from __future__ import annotations

import os
import sys
import threading
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import breadth

SOURCE = str(Path(breadth.__file__).parent) + os.sep


def crossed(arguments: list[str]) -> list[str]:
    """Functions of breadth that a command enters, by module and name, in the order of their first call."""
    from breadth.cli import main

    codes: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or code in codes or not code.co_filename.startswith(SOURCE):
            return
        # Templates are compiled to functions too, but read as pages.
        if not code.co_filename.endswith(".py"):
            return
        # Comprehensions and lambdas are read with the function that holds them; bodies of classes have no fast locals.
        if code.co_name[0] != "<" and code.co_flags & CO_NEWLOCALS and not importing(frame):
            codes[code] = None

    sys.argv = ["breadth", *arguments]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return [f"{code.co_filename.removeprefix(SOURCE)}:{code.co_firstlineno} {code.co_qualname}" for code in codes]


def importing(frame: FrameType | None) -> bool:
    """Whether a function runs because one of breadth's modules is being imported."""
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(SOURCE)


def main() -> None:
    arguments = sys.argv[1:]
    wanted = arguments[:1] == ["--list"]
    functions = crossed(arguments[1:] if wanted else arguments)
    if wanted:
        print(*functions, sep="\n")
    print(f"{len(functions)} functions")


if __name__ == "__main__":
    main()
