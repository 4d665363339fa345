"""``breadth.export``: a study as tables, as a matrix, or as records of every_eval_ever, for other tools to read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from breadth.boundary import writing
from breadth.errors import InputError, listed
from breadth.records import (
    DIRECTORY,
    LINK,
    Folder,
    Imported,
    Study,
    atomic_write,
    is_imported,
    read_imported,
    unfinished_target,
)
from breadth.results.table_writing import check_target, write_table, write_table_in
from breadth.sources.answers import open_study

ExportFormat = Literal["parquet", "csv", "npz", "eee"]

#: Columns of the long table, a row per answer.
LONG_COLUMNS = ("subject", "run", "step", "model", "testset", "item", "correct", "margin", "answer", "label")

#: Columns of items that one file holds.
KEPT_OF_ITEMS = ("testset", "item", "label")

#: Types of the columns that a study may lack.
OPTIONAL_TYPES: Mapping[str, type[pl.DataType]] = {
    "run": pl.String,
    "step": pl.Int64,
    "model": pl.String,
    "answer": pl.String,
    "label": pl.String,
}


@dataclass(frozen=True)
class Exported:
    """What was written, what the format could not hold, and what of the study is not in it, such as damaged files."""

    paths: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def export(source: Any, *, to: ExportFormat, out: str | os.PathLike[str]) -> Exported:
    """Write the answers of a study in a format that other tools read.

    Parameters
    ----------
    source
        Whatever :func:`breadth.open` opens, or a study.
    to
        ``parquet`` or ``csv``: a long table, a row per answer, with columns ``subject, run, step, model, testset, item,
        correct, margin, answer, label``. ``npz``: a matrix ``R`` of subjects x items (int8 with -1 for missing answers,
        or real with NaN where answers are shares) with ``models``, ``items``, ``testset`` and ``label``. ``eee``:
        records of every_eval_ever 0.3.0, one per subject and test set.
    out
        A file with the ending of the format; or, for ``parquet`` and ``csv``, a directory that gets ``responses``,
        ``items`` (with all texts) and ``subjects`` (with all that is known about them). ``eee`` always makes a
        directory, ``data/<test set>/<developer>/<model>/<uuid>.json`` and ``<uuid>_samples.jsonl``. A directory that
        holds anything else is refused.

    Returns
    -------
    Exported
        The files, notes about what the format could not hold, and warnings about what was left out of the study.

    Examples
    --------
    >>> import breadth
    >>> breadth.export("answers", to="npz", out="answers.npz")  # doctest: +SKIP
    """
    if to not in get_args(ExportFormat):
        raise InputError(f"--to is {to!r}; choose {listed(get_args(ExportFormat))}")
    study, target = open_study(source), Path(out)
    return replace(_write_study(study, to, target), warnings=study.warnings)


def _write_study(study: Study, to: ExportFormat, target: Path) -> Exported:
    if to == "eee":
        from breadth.sources.exporting_eee import write_records

        return write_records(study, answers_of_study(study), target)
    if to == "npz":
        return _write_npz(study, check_target(target, [".npz"]))
    if target.suffix.lower() == f".{to}":
        return _write_file(study, to, check_target(target, [f".{to}"]))
    if target.suffix.lower() in (".csv", ".tsv", ".parquet", ".npz", ".json", ".jsonl"):
        raise InputError(f"--out {target}: ends in {target.suffix}, but --to is {to}; name a .{to} file or a directory")
    return _write_folder(study, to, target)


def answers_of_study(study: Study) -> pl.DataFrame:
    """Every answer of a study: ``subject, testset, item, correct, margin, answer``, in the order of the study."""
    frame = study.responses.collect()
    if "answer" not in frame.columns and study.folder is not None and is_imported(study.folder):
        # An imported study keeps in memory which answers are right, not what they are.
        answers = _imported_answers(read_imported(study.folder))
        frame = frame.join(answers, on=["subject", "testset", "item"], how="left")
    frame = _add_missing(frame, ["answer"])
    return frame.select("subject", "testset", "item", pl.col("correct", "margin").cast(pl.Float64), pl.col("answer"))


def _imported_answers(imported: Imported) -> pl.DataFrame:
    logs, items = imported.logs["subject"], imported.items
    answers = imported.responses.filter(pl.col("answer").is_not_null())
    columns = {
        "subject": logs.gather(answers["log"]),
        "testset": items["testset"].gather(answers["item"]),
        "item": items["item"].gather(answers["item"]),
        "answer": answers["answer"],
    }
    return pl.DataFrame(columns).unique(("subject", "testset", "item"), keep="first")


def _long_table(study: Study) -> pl.DataFrame:
    """The long table; what a study does not know is null."""
    subjects = _add_missing(study.subjects, ("run", "step", "model")).select("subject", "run", "step", "model")
    items = _add_missing(study.items, ("label",)).select(KEPT_OF_ITEMS)
    answers = answers_of_study(study)
    frame = answers.join(subjects, on="subject", how="left", maintain_order="left")
    return frame.join(items, on=["testset", "item"], how="left", maintain_order="left").select(LONG_COLUMNS)


def _add_missing(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """A frame with these columns, of their types."""
    columns = []
    for name in names:
        known = pl.col(name) if name in frame.columns else pl.lit(None)
        columns.append(known.cast(OPTIONAL_TYPES[name], strict=False).alias(name))
    return frame.with_columns(columns)


def _write_file(study: Study, to: str, target: Path) -> Exported:
    frame = _long_table(study)
    notes = []
    lost = _columns_besides(study.items, KEPT_OF_ITEMS) + _columns_besides(study.subjects, LONG_COLUMNS)
    if lost:
        notes.append(f"not in one file: {listed(lost, 8)}; name a directory to get tables of items and subjects")
    if to == "csv":
        notes += _csv_notes(frame)
    write_table(frame, target)
    return Exported((target,), tuple(notes))


def _write_folder(study: Study, to: str, target: Path) -> Exported:
    tables = {"responses": _long_table(study), "items": study.items, "subjects": study.subjects}
    names = {name: f"{name}.{to}" for name in tables}
    notes: dict[str, None] = {}  # tables share names of subjects, so the same note may come twice
    with open_target(target, map(PurePosixPath, names.values())) as folder:
        for name, frame in tables.items():
            if to == "csv":
                flat = _without_lists(frame)
                notes |= dict.fromkeys(_csv_notes(flat))
                write_table_in(folder, names[name], flat)
            else:
                write_table_in(folder, names[name], frame)
    return Exported(tuple(target / name for name in names.values()), tuple(notes))


@contextmanager
def open_target(target: Path, files: Iterable[PurePosixPath]) -> Iterator[Folder]:
    """The directory that an export of several ``files`` goes to, made if need be and held open until all are written.

    Every file is written relative to it. A path would be looked up again for each one, and who may write in the
    directory could lead the next file elsewhere by a link. A directory that holds anything else is refused. What an
    interrupted export of the same files was writing is removed, so that the same command resumes.
    """
    if target.exists() and not target.is_dir():
        raise InputError(f"--out {target}: is a file; name a directory")
    own = set(files)
    with ExitStack() as stack:
        with writing(f"--out {target}"):
            folder = stack.enter_context(Folder.open_or_make(target))
            # Nothing is removed before all is known to be ours.
            for path in _unfinished_files(folder, own):
                with folder.below(path.parent) as inner:
                    inner.remove(path.name)
        yield folder


def _unfinished_files(target: Folder, own: set[PurePosixPath]) -> list[PurePosixPath]:
    """What an interrupted export of these files left unfinished; anything that is not part of them is refused."""
    root = PurePosixPath()
    on_the_way = {root}
    for file in own:
        on_the_way.update(file.parents)
    unfinished: list[PurePosixPath] = []

    def look_into(folder: Folder, at: PurePosixPath) -> None:
        for name in sorted(folder.names()):
            path = at / name
            if unfinished_target(path) in own:
                unfinished.append(path)
                continue
            if path in own:
                continue
            fault = folder.fault(name)
            # An empty directory harms nobody; all that is in one of somebody else is somebody else's.
            is_looked_into = fault == DIRECTORY and at in on_the_way
            if is_looked_into or (fault == LINK and path in on_the_way):
                with folder.enter(name) as inner:  # which refuses the link
                    look_into(inner, path)
                continue
            raise InputError(
                f"--out {target.path}: already holds {path}, which is not part of this export; choose an empty "
                "directory"
            )

    look_into(target, root)
    return unfinished


def _columns_besides(frame: pl.DataFrame, known: Iterable[str]) -> list[str]:
    return [name for name in frame.columns if name not in known]


def _without_lists(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame that CSV can hold: lists are written as JSON."""
    for name, dtype in frame.schema.items():
        if dtype.is_nested():
            texts: list[str | None] = []
            for value in frame[name].to_list():
                texts.append(None if value is None else json.dumps(value, ensure_ascii=False))
            frame = frame.with_columns(pl.Series(name, texts, dtype=pl.String))
    return frame


def _csv_notes(frame: pl.DataFrame) -> list[str]:
    """Names that look like numbers come back from CSV as other text: 007 as 7."""
    notes = []
    for column in frame.select(pl.col(pl.String)).iter_columns():
        texts = column.drop_nulls().unique()
        numbers = texts.cast(pl.Float64, strict=False)
        if texts.is_empty() or numbers.has_nulls():
            continue
        whole = texts.cast(pl.Int64, strict=False)
        read_back = numbers if whole.has_nulls() else whole
        if (read_back.cast(pl.String) != texts).any():
            notes.append(f"CSV readers take {column.name} for a number, which changes it (007 becomes 7); use Parquet")
    return notes


def _write_npz(study: Study, target: Path) -> Exported:
    arrays: dict[str, Any] = {
        "R": study.matrix,
        "models": np.array(study.subject_names, dtype=np.str_),
        "items": np.array(study.items["item"].to_list(), dtype=np.str_),
        "testset": np.array(study.items["testset"].to_list(), dtype=np.str_),
    }
    if "label" in study.items.columns and study.items["label"].is_not_null().any():
        arrays["label"] = np.array(study.items["label"].cast(pl.String).fill_null("").to_list(), dtype=np.str_)

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    atomic_write(target, write)
    lost = _columns_besides(study.items, KEPT_OF_ITEMS) + _columns_besides(study.subjects, ("subject",))
    if study.margin is not None and not np.isnan(study.margin).all():
        lost.insert(0, "margin")
    if not lost:
        return Exported((target,))
    return Exported((target,), (f"a matrix does not hold {listed(lost, 12)}",))
