"""Read a study file: all of its problems at once, each with its line, or a study that can run."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from breadth.errors import InputError, listed
from breadth.study.checks import (
    evaluation_problems,
    model_problems,
    recipe_problems,
    study_warnings,
    training_problems,
    wording_problems,
)
from breadth.study.known import known_sets
from breadth.study.lines import Document, read_document
from breadth.study.own_sets import own_set_problems
from breadth.study.problems import STAND_IN, Place, Problem, did_you_mean, is_void
from breadth.study.schema import Study
from breadth.study.shipped import shipped_studies
from breadth.study.wording import plain_problems

#: What stands in for a required value that is missing or wrong while the rest of the file is checked.
_STAND_INS: dict[str, Any] = {
    "name": "unknown",
    "models": [STAND_IN],
    "recipe": {},
    "evaluate": {"on": [STAND_IN]},
    "on": [STAND_IN],
    "set": [STAND_IN],
    "file": STAND_IN,
}


@dataclass(frozen=True)
class StudyFile:
    """A study that was read and checked; ``base`` is the directory that paths in it are relative to."""

    study: Study
    path: Path
    text: str
    base: Path
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The study's name."""
        return self.study.name


def read_study_file(source: str | os.PathLike[str]) -> StudyFile:
    """Read a study from a YAML file, or one that comes with breadth by its name.

    All problems are raised as one ``InputError``: a first line with their number, then a line for each.

    >>> read_study_file("small").study.evaluate.items
    32
    """
    path = _find(source)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not text in UTF-8") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    # What comes with the package lies among its files; what such a study needs lies where the user works.
    base = Path.cwd() if path in shipped_studies().values() else path.parent
    return parse_study(text, path, base)


def parse_study(text: str, path: Path, base: Path) -> StudyFile:
    """Check the text of a study file; ``path`` is what messages call it."""
    document = read_document(text, str(path))
    if document.value is None:
        raise InputError(f"{path}: is empty; a study file begins with `name:`")
    if not isinstance(document.value, dict):
        raise InputError(f"{path}: is not a study file; it has keys such as name:, models:, recipe: and evaluate:")
    problems = list(document.problems)
    study, broken = _validate(document.value, problems)
    warnings: list[Problem] = []
    if study is not None:
        known = known_sets()
        found = [
            *model_problems(study, base),
            *recipe_problems(study),
            *training_problems(study, known),
            *evaluation_problems(study, known),
            *wording_problems(study, known),
            *own_set_problems(study, known, base),
        ]
        problems += [each for each in found if not is_void(each, broken)]
        warnings = list(study_warnings(study, known, base))
    if problems or study is None:
        raise InputError(_report(path, document, problems))
    return StudyFile(study, path, text, base, tuple(_shown(document, warnings)))


def _find(source: str | os.PathLike[str]) -> Path:
    path, shipped = Path(source), shipped_studies()
    if path.is_dir() and str(source) in shipped:
        return shipped[str(source)]  # the directory is where the study was carried out, and goes on
    if path.is_dir():
        inside = f"; did you mean {path / 'study.yaml'}?" if (path / "study.yaml").is_file() else ""
        raise InputError(f"{path}: is a directory; name a study file{inside}")
    if path.exists():
        return path
    if str(source) in shipped:
        return shipped[str(source)]
    there = [*shipped, *(each.name for each in path.parent.glob("*.y*ml"))] if path.parent.is_dir() else list(shipped)
    hint = did_you_mean(path.name, there)
    raise InputError(
        f"{path}: there is no such file, nor does breadth come with a study of that name.{hint} "
        f"It comes with {listed(shipped)}"
    )


def _validate(value: dict[str, Any], problems: list[Problem]) -> tuple[Study | None, list[Place]]:
    """The study, with stand-ins where it is wrong, and the places where it is; wrong places are added to problems."""
    try:
        return Study.model_validate(value), []
    except ValidationError as error:
        problems += plain_problems(error)
        broken: list[Place] = [error_place["loc"] for error_place in error.errors()]
        mended = copy.deepcopy(value)
        # Mending one place can uncover another of its section; a few rounds are enough, or the rest is not checked.
        for _ in range(4):
            for place in [each["loc"] for each in error.errors()]:
                _mend(mended, place)
            try:
                return Study.model_validate(mended), broken
            except ValidationError as again:
                error = again
                broken += [each["loc"] for each in again.errors()]
        return None, broken


def _mend(value: Any, place: Place) -> None:
    """Put a stand-in at a place, or take out the innermost key that leads there."""
    parents, here = [value], value
    for part in place[:-1]:
        try:
            here = here[part]
        except (LookupError, TypeError):
            break
        parents.append(here)
    for depth in range(len(parents) - 1, -1, -1):
        parent, key = parents[depth], place[depth]
        if isinstance(parent, dict) and str(key) in _STAND_INS:
            parent[str(key)] = copy.deepcopy(_STAND_INS[str(key)])
            return
        if isinstance(parent, dict) and key in parent:
            del parent[str(key)]
            return
        if isinstance(parent, list) and place[depth - 1] in ("on", "set", "models") and isinstance(key, int):
            parent[key] = STAND_IN
            return


def _report(path: Path, document: Document, problems: Iterable[Problem]) -> str:
    lines = _shown(document, problems)
    return "\n".join(
        [f"{path}: {len(lines)} problem{'s' if len(lines) != 1 else ''}", *(f"  {line}" for line in lines)]
    )


def _shown(document: Document, problems: Iterable[Problem]) -> list[str]:
    """Problems in the order of their lines, each once."""
    ordered = sorted(problems, key=lambda each: each.line or document.line(each.place))
    return list(dict.fromkeys(document.shown(each) for each in ordered))
