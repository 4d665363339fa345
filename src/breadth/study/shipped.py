"""Studies that come with breadth: published designs and the demonstration, as files to run or to copy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_FOLDER = Path(__file__).parent / "files"


def shipped_studies() -> dict[str, Path]:
    """Studies by name.

    >>> list(shipped_studies())
    ['cross-difficulty', 'generalisation', 'mnli-levels', 'mnli-small', 'small']
    """
    return {path.stem: path for path in sorted(_FOLDER.glob("*.yaml"))}


def describe_studies() -> pl.DataFrame:
    """One row per study that comes with breadth: name, models, runs, description."""
    import polars as pl

    from breadth.study.expansion import expand
    from breadth.study.read import read_study_file

    rows = []
    for name in shipped_studies():
        file = read_study_file(name)
        models = [entry.name for entry in file.study.models]
        rows.append((name, len(models), len(expand(file)), file.study.description))
    schema = {"name": pl.String, "models": pl.Int64, "runs": pl.Int64, "description": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
