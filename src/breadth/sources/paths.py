"""Which files are there: from the paths, directories and patterns that the user names to single files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from breadth.errors import InputError, escape_bytes

#: What is said of pipes and devices, from which reading may never end.
NOT_REGULAR = "is not a regular file; copy what it holds into a file"

#: One or several files, directories and patterns.
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def expand_paths(paths: Paths, what: str = "to read") -> list[Path]:
    """Every path that the user named, in the same order; a pattern such as ``logs/*.eval`` becomes what it matches.

    A shell expands patterns itself, but Python and quotation marks do not. A file whose name holds such characters is
    that file. Matches are sorted; hidden files match only a pattern that names them. ``what`` ends the message for an
    empty list: name files or directories ``what``.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise InputError(f"name files or directories {what}")
    expanded: list[Path] = []
    for path in given:
        if os.path.exists(path):
            if not (os.path.isdir(path) or os.path.isfile(path)):
                raise InputError(f"{path_text(path)}: {NOT_REGULAR}")
            expanded.append(Path(path))
            continue
        pattern = os.fspath(path)
        if not glob.has_magic(pattern):
            raise InputError(f"{pattern}: no such file or directory")
        matches = sorted(glob.glob(pattern, recursive=True))
        if not matches:
            raise InputError(f"{pattern}: no such file or directory, and nothing matches it as a pattern")
        expanded.extend(map(Path, matches))
    return expanded


def files_below(paths: Sequence[Path], but: Path | None = None) -> Iterator[Path]:
    """Every regular file at or below some paths, once, in order; the directory ``but`` is left alone.

    In a directory, hidden files and links are left out: a link may lead out of it, or around in a circle.
    """
    seen: set[Path] = set()
    for path in paths:
        candidates = _walk(path, but) if path.is_dir() else [path]
        for file in candidates:
            resolved = file.resolve()
            if resolved not in seen and file.is_file():
                seen.add(resolved)
                yield file


def path_text(path: str | os.PathLike[str]) -> str:
    """A path as messages and tables show it: bytes that are not UTF-8, which they cannot hold, are written as \\xff."""
    return escape_bytes(os.fspath(path))


def _walk(top: Path, but: Path | None) -> Iterator[Path]:
    for at, folders, names in os.walk(top):
        folder = Path(at)
        if but is not None and folder.resolve() == but.resolve():
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            file = folder / name
            if not name.startswith(".") and not file.is_symlink():
                yield file
