"""MLflow's database, ``mlflow.db``, and its folders, ``mlruns/``."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from breadth.errors import InputError
from breadth.sources.checkpoint_scores.scores import CheckpointScore, ScoreOptions, TrainingRun, decimal, real
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import SourceFile

#: Runs that were not deleted: identity, name, name of the experiment, model.
RUNS = """
SELECT run_uuid,
       COALESCE((SELECT value FROM tags WHERE tags.run_uuid = runs.run_uuid AND key = 'mlflow.runName'), name),
       COALESCE((SELECT name FROM experiments WHERE experiments.experiment_id = runs.experiment_id), ''),
       (SELECT value FROM params WHERE params.run_uuid = runs.run_uuid AND key IN ('model', '_name_or_path') LIMIT 1)
FROM runs
WHERE lifecycle_stage IS NOT 'deleted'
"""

METRICS = "SELECT run_uuid, key, step, value, timestamp FROM metrics WHERE is_nan = 0"

#: A line of a metric's file in ``mlruns/``: milliseconds, value, step.
MLRUNS_LINE = re.compile(rb"\d{9,17} \S{1,40}( -?\d{1,18}.*)?\r?\n")

#: Digits of the identity of a run that tell runs of one name apart.
SHORT_IDENTITY = 8

#: Most bytes of a file that only names something, and of a meta.yaml.
MOST_NAME, MOST_META = 1 << 12, 1 << 16


class MlflowDatabase(Source):
    """MLflow's database, opened read-only, as it is; its write-ahead log is not seen."""

    name: ClassVar[str] = "mlflow"
    looks_like: ClassVar[str] = "MLflow mlflow.db"

    def detect(self, file: SourceFile) -> Detection | None:
        """Any database of SQLite: what its tables are shows when it is opened."""
        if not file.head.startswith(b"SQLite format 3\0"):
            return None
        return Detection(Part.SCORES, "a database of SQLite", has_scores=True)

    def read_scores(self, file: SourceFile, options: ScoreOptions) -> Iterator[CheckpointScore]:
        """Yield the metrics of the runs that were not deleted; none from a database of another program."""
        try:
            address = f"{file.path.resolve().as_uri()}?mode=ro&immutable=1"
            with closing(sqlite3.connect(address, uri=True)) as database:
                yield from _scores_in(database)
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
            raise InputError(
                f"{file.path}: cannot be read as an MLflow database ({error}); it is damaged, or of a version before "
                "1.0"
            ) from error
        log = Path(f"{file.path}-wal")
        if log.is_file() and log.stat().st_size:
            options.notes.append(f"{file.path}: is in use; values that are only in {log.name} are not read")


def _scores_in(database: sqlite3.Connection) -> Iterator[CheckpointScore]:
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {"metrics", "runs"} <= tables:
        return
    runs: dict[str, TrainingRun] = {}
    for identity, name, experiment, model in database.execute(RUNS):
        own = str(identity)
        runs[own] = TrainingRun(f"{experiment}/{name or own}", (own[:SHORT_IDENTITY],), str(model) if model else None)
    for identity, key, step, value, time in database.execute(METRICS):
        run, place, score = runs.get(str(identity)), real(step), real(value)
        if run is not None and isinstance(key, str) and place is not None and score is not None:
            yield CheckpointScore(run, place, key, score, real(time) or 0.0)


class MlflowFolder(Source):
    """One metric of one run in MLflow's folder layout."""

    name: ClassVar[str] = "mlruns"
    looks_like: ClassVar[str] = "MLflow mlruns/"

    def detect(self, file: SourceFile) -> Detection | None:
        """Lines of time, value and step below the folder ``metrics`` of a run."""
        if b"\0" in file.head or MLRUNS_LINE.match(file.head) is None or _run_folder(file.path) is None:
            return None
        return Detection(Part.SCORES, "lines of time, value and step in metrics/ beside a meta.yaml", has_scores=True)

    def read_scores(self, file: SourceFile, options: ScoreOptions) -> Iterator[CheckpointScore]:
        """Yield the values of the metric; none of a deleted run."""
        folder = _run_folder(file.path)
        assert folder is not None
        about_run, about_experiment = _plain_yaml(folder / "meta.yaml"), _plain_yaml(folder.parent / "meta.yaml")
        if about_run.get("lifecycle_stage") == "deleted":
            return
        experiment = about_experiment.get("name") or folder.parent.name
        name = about_run.get("run_name") or _line(folder / "tags" / "mlflow.runName") or folder.name
        model = _line(folder / "params" / "model") or None
        run = TrainingRun(f"{experiment}/{name}", (folder.name[:SHORT_IDENTITY],), model)
        key = file.path.resolve().relative_to(folder / "metrics").as_posix()
        for line, text in enumerate(file.read().decode(errors="replace").splitlines(), 1):
            fields = text.split(" ")
            if len(fields) < 3:
                # Before MLflow 1.0 there were no steps.
                fields.append("0")
            time, step = decimal(fields[0]), decimal(fields[2]) if len(fields) > 2 else None
            if time is None or step is None:
                raise InputError(f"{file.path}, line {line}: is not 'time value step'; the file is damaged")
            value = decimal(fields[1])
            if value is not None:
                yield CheckpointScore(run, step, key, value, time)


def _run_folder(path: Path) -> Path | None:
    """The folder of the run: the one that holds ``metrics`` and ``meta.yaml``."""
    for folder in path.resolve().parents:
        if folder.name == "metrics" and (folder.parent / "meta.yaml").is_file():
            return folder.parent
    return None


def _line(path: Path) -> str:
    """A small file of one line; empty if there is none."""
    return _small_text(path, MOST_NAME).strip()


def _plain_yaml(path: Path) -> dict[str, str]:
    """The plain entries of a ``meta.yaml``; it only names things, so it need not be there."""
    entries: dict[str, str] = {}
    for line in _small_text(path, MOST_META).splitlines():
        if line[:1].isalpha():
            key, _, value = line.partition(": ")
            entries[key] = value.strip().strip("'\"")
    return entries


def _small_text(path: Path, most: int) -> str:
    """What a file says if it is there and small, else nothing."""
    try:
        return path.read_text(errors="replace") if path.stat().st_size < most else ""
    except OSError:
        return ""
