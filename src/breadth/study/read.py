"""Read a study file: a study that can run, or all of its problems at once, each with its line."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from breadth.boundary import reading
from breadth.errors import InputError, did_you_mean, listed
from breadth.sources import regular_file
from breadth.study.checks import study_problems, study_warnings
from breadth.study.document import PLACEHOLDER, Document, Place, Problem, read_document
from breadth.study.schema import StudySpec
from breadth.study.sections import plain_problems

#: Replace required values that are missing or wrong while the rest of the file is checked.
_PLACEHOLDERS: dict[str, Any] = {
    "name": "unknown",
    "models": [PLACEHOLDER],
    "recipe": {},
    "evaluate": {"on": [PLACEHOLDER]},
    "on": [PLACEHOLDER],
    "set": [PLACEHOLDER],
    "file": PLACEHOLDER,
}

#: Most bytes of a study file: reading YAML takes a thousand times as much memory.
MOST_BYTES = 1_000_000

_FOLDER = Path(__file__).parent / "files"


@dataclass(frozen=True)
class StudyFile:
    """A study that was read and checked; paths in it are relative to the directory ``base``."""

    study: StudySpec
    path: Path
    text: str
    base: Path
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name

    def wrong(self, place: Place, message: str) -> InputError:
        """An error about a key that only the data shows to be wrong, with the line of the key."""
        (line,) = read_document(self.text, str(self.path)).describe([Problem(place, message)])
        return InputError(f"{self.path}: {line}")


def shipped_studies() -> dict[str, Path]:
    """Studies that come with breadth (published designs and demonstrations), by name.

    >>> list(shipped_studies())
    ['generalisation', 'level-transfer', 'level-transfer-matched', 'mnli-levels', 'mnli-small', 'small']
    """
    return {path.stem: path for path in sorted(_FOLDER.glob("*.yaml"), key=lambda path: path.stem)}


def read_study_file(source: str | os.PathLike[str]) -> StudyFile:
    """Read a study from a YAML file, or one that comes with breadth by its name.

    All problems are raised as one ``InputError``: a first line with their number, then a line for each.

    >>> read_study_file("small").study.evaluate.items
    100
    """
    with reading(source):
        path = _find(source)
    text = read_study_text(path)
    # Files that a shipped study names are in the user's working directory, not in the package.
    base = Path.cwd() if path in shipped_studies().values() else path.parent
    return parse_study(text, path, base)


def read_study_text(path: Path) -> str:
    """The text of a study file."""
    size = regular_file(path)
    if size > MOST_BYTES:
        raise InputError(f"{path}: has {size:,} bytes; a study file has at most {MOST_BYTES:,}")
    with reading(path, "UTF-8 text"):
        return path.read_text(encoding="utf-8")


def parse_study(text: str, path: Path, base: Path) -> StudyFile:
    """Check the text of a study file; messages call it ``path``."""
    document = read_document(text, str(path))
    if document.value is None:
        raise InputError(f"{path}: is empty; a study file begins with `name:`")
    if not isinstance(document.value, dict):
        raise InputError(f"{path}: is not a study file; it needs keys such as name:, models:, recipe: and evaluate:")
    problems = list(document.problems)
    study, broken = _validate(document, problems)
    if study is not None:
        problems += [each for each in study_problems(study, base) if not each.follows_from(broken)]
    if problems or study is None:
        lines = document.describe(problems)
        first = f"{path}: {len(lines)} problem{'s' if len(lines) != 1 else ''}"
        raise InputError("\n".join([first, *(f"  {line}" for line in lines)]))
    return StudyFile(study, path, text, base, tuple(document.describe(study_warnings(study, base))))


def _find(source: str | os.PathLike[str]) -> Path:
    path, shipped = Path(source), shipped_studies()
    if path.is_dir() and str(source) in shipped:
        return shipped[str(source)]  # the study ran into the directory of its name, and the command resumes it
    if path.is_dir():
        inside = f"; did you mean {path / 'study.yaml'}?" if (path / "study.yaml").is_file() else ""
        raise InputError(f"{path}: is a directory; give a study file{inside}")
    if path.exists():
        return path
    if str(source) in shipped:
        return shipped[str(source)]
    names = [*shipped, *(each.name for each in path.parent.glob("*.y*ml"))] if path.parent.is_dir() else list(shipped)
    hint = did_you_mean([path.name], names, most=1)
    raise InputError(
        f"{path}: is neither a file nor the name of a study that comes with breadth.{hint} Studies: {listed(shipped)}"
    )


def _validate(document: Document, problems: list[Problem]) -> tuple[StudySpec | None, list[Place]]:
    """The study, with placeholders where it is wrong, and the places where it is; adds to ``problems``."""
    try:
        return StudySpec.model_validate(document.value), []
    except ValidationError as error:
        wrong = plain_problems(error, StudySpec)
        # A key under another name is one problem: that its own name is missing only follows from it.
        broken: list[Place] = [each.meant for each in wrong if each.meant and each.meant not in document.lines]
        problems += [each for each in wrong if each.place not in broken]
        filled = copy.deepcopy(document.value)
        # A placeholder can uncover another error in its section; a few rounds are enough, or the rest is not checked.
        for _ in range(4):
            places: list[Place] = [each["loc"] for each in error.errors()]
            broken += places
            for place in places:
                _fill(filled, place)
            try:
                return StudySpec.model_validate(filled), broken
            except ValidationError as again:
                error = again
        return None, broken


def _fill(value: Any, place: Place) -> None:
    """Put a placeholder at a place, or remove the innermost key that leads there."""
    parents, here = [value], value
    for part in place[:-1]:
        try:
            here = here[part]
        except (LookupError, TypeError):
            break
        parents.append(here)
    for depth in range(len(parents) - 1, -1, -1):
        parent, key = parents[depth], place[depth]
        if isinstance(parent, dict) and str(key) in _PLACEHOLDERS:
            parent[str(key)] = copy.deepcopy(_PLACEHOLDERS[str(key)])
            return
        if isinstance(parent, dict) and key in parent:
            del parent[str(key)]
            return
        if isinstance(parent, list) and place[depth - 1] in ("on", "set", "models") and isinstance(key, int):
            parent[key] = PLACEHOLDER
            return
