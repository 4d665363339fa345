"""Whatever a person has, as something to report on: a study, logs, answers, scores, or a calibration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from breadth.errors import InputError, NothingFoundError
from breadth.importers import import_trajectories, read_logs
from breadth.irt import Calibration
from breadth.records import Study, Trajectories, is_study, open_any, read_table, regular_file
from breadth.results.words import count, joined

Names = str | Sequence[str] | None

#: Endings of files that hold one table or one matrix. Everything else is looked at as the log of some tool.
TABLES = (".csv", ".tsv", ".parquet", ".npz", ".feather", ".arrow", ".xlsx")

#: Endings of weights.
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


def read_source(
    source: Any, *, by: Names = None, order: str | None = None, control: Names = None, testsets: Names = None
) -> Study | Trajectories | Calibration:
    """Open ``source`` as what it is; the options settle what the columns of a table of scores stand for.

    A directory is that of a study or an import; else one of logs of other tools; else one of checkpoints with their
    scores (``trainer_state.json``, event files and the like); else one of tables. A file is a table or a log.
    """
    options: dict[str, Any] = {"by": by, "order": order, "control": control, "testsets": testsets}
    if not isinstance(source, str | os.PathLike):
        return source if isinstance(source, Calibration) else open_any(source, **options)
    path = Path(source)
    if not os.path.exists(path):  # which is False, not an error, below a directory that may not be entered
        raise InputError(f"{path}: no such file or directory")
    if not path.is_dir():
        regular_file(path)
    if is_study(path):
        return open_any(path, **options)
    if path.suffix.lower() in TABLES:
        return Calibration.load(path) if _is_calibration(path) else open_any(path, **options)
    try:
        return read_logs(path)
    except NothingFoundError as no_logs:
        try:
            imported = import_trajectories(path)
        except NothingFoundError:
            if path.is_file() or any(file.suffix.lower() in TABLES for file in path.iterdir()):
                return open_any(path, **options)
            weights = any(next(path.rglob(ending), None) for ending in WEIGHTS)
            hint = " It holds weights of models, but no scores or answers: evaluate them first" if weights else ""
            raise InputError(
                f"{path}: nothing to report on. Looked for a study (runs/ and items/), an import, tables (CSV, "
                f"Parquet, NPZ), scores of checkpoints (trainer_state.json, event files) and logs of other tools.{hint}"
            ) from no_logs
    except InputError as error:
        hint = f"`breadth import {path} --into DIR` has options for this; then report on DIR"
        raise InputError(f"{error}\n{hint}") from error
    names: dict[str, Any] = {"by": "run", "order": "step" if "step" in imported.frame.columns else None}
    return open_any(imported.frame, **names | {name: value for name, value in options.items() if value is not None})


def understood(source: Study | Trajectories | Calibration) -> tuple[str, ...]:
    """What a source was understood to be, in at most two lines."""
    if isinstance(source, Calibration):
        return (f"a calibration of {count(source.items.height, 'item')} ({source.model.upper()})",)
    if source.understood:
        return source.understood
    if isinstance(source, Trajectories):
        return (f"scores: {count(source.frame.height, 'row')} x {count(len(source.testsets), 'test set')}",)
    sizes = f"{count(source.subjects.height, 'subject')} x {count(source.items.height, 'item')}"
    return (f"answers: {sizes} of {count(len(source.testsets), 'test set')} ({joined(source.testsets, 4)})",)


def _is_calibration(path: Path) -> bool:
    """Whether a table holds calibrated items: difficulties, and no answers."""
    if path.suffix.lower() == ".npz":
        return False
    columns = set(read_table(path).frame.columns)
    return {"item", "difficulty"} <= columns and not columns & {"correct", "subject", "model"}
