"""``breadth.open``: whatever a person has as a study (answers) or a table of scores, by one way of telling them apart.

What a path is decided in this order: the directory of a study or an import; logs of a tool, by the registry; scores of
checkpoints, by the registry; tables. Several paths, directories and patterns are read together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from breadth.errors import InputError, NothingFoundError, listed
from breadth.records import BIAS, Score, Study, is_study
from breadth.sources import answers
from breadth.sources.column_roles import NONE, ColumnRoles, Kind, Names, infer_columns, names_in
from breadth.sources.paths import expand_paths, files_below, path_text
from breadth.sources.registry import Part, detect
from breadth.sources.reshaping import are_answers, roles_in
from breadth.sources.score_tables import ScoreTable, scores_of_columns, scores_of_study
from breadth.sources.source_files import SourceFile
from breadth.sources.table_files import READERS, column_names
from breadth.sources.tables import Table, read_table
from breadth.sources.vocabulary import Role

#: Columns beyond which a table of shares holds answers, and the share of its values that are 0 or 1 if it does.
MOST_TESTSETS, MOSTLY = 100, 0.5

#: Endings of files that hold weights of models, for a hint where nothing else is there.
WEIGHTS = (".safetensors", ".bin", ".pt", ".gguf")

#: Sources that are tables as well: read as tables, they need no import.
TABLES_TOO = ("matrix", "wandb")


class Content(StrEnum):
    """What some paths hold."""

    STUDY = "directory that breadth run or breadth import made"
    LOGS = "logs of other tools"
    SCORES = "scores of checkpoints, as trainers, harnesses and trackers write them"
    TABLES = "tables"


class Found(NamedTuple):
    """What some paths hold, and the files or the directory to read.

    ``unread`` are tables that lie beside files of a tool: a directory is read as one thing.
    """

    content: Content
    paths: list[Path]
    unread: tuple[Path, ...] = ()


def open_source(
    *sources: Any,
    by: Names = None,
    order: str | None = None,
    control: Names = None,
    testsets: Names = None,
    lower_is_better: Names = None,
) -> Study | ScoreTable:
    """Open whatever you have: answers as a :class:`breadth.Study`, scores as a :class:`breadth.ScoreTable`.

    Question: what is in this file, these files or this directory? Both kinds of result have ``reading``: what every
    column was taken for and why, what was left out, and how to overrule it.

    Parameters
    ----------
    sources
        A path or several (patterns such as ``'runs/*.csv'`` are allowed), or one table, frame or array: the directory
        of a study or an import; logs of other tools; ``trainer_state.json``, event files and other scores of
        checkpoints; tables (CSV, TSV, Parquet, JSON, JSON lines, Markdown) and matrices (NPZ). Several tables of
        scores are put together; a table that names no run is the run that its file is called.
    by, order, control, testsets, lower_is_better
        What the columns of a table of scores stand for, as in :func:`breadth.correlate`. Without them it is recognised.

    Returns
    -------
    Study or ScoreTable
        Nothing is changed or moved.

    Examples
    --------
    >>> import breadth
    >>> import polars as pl
    >>> scores = breadth.open(pl.DataFrame({"model": ["a", "b"], "mnli": [0.6, 0.7], "hans": [0.5, 0.6]}))
    >>> scores.testsets, scores.controls
    (('hans',), ('mnli',))
    >>> scores.reading.columns.rows()[0]
    ('model', 'model', 'its name')
    """
    source = sources[0] if len(sources) == 1 else list(sources)
    if isinstance(source, Study | ScoreTable):
        return source
    opened = _read(source, by, order, control, testsets, lower_is_better)
    if isinstance(opened, Study):
        return opened
    if opened.kind is Kind.ANSWERS:
        return answers.open_study(opened)
    return replace(scores_of_columns(opened), lower_is_better=lower_is_better)


def load_scores(
    source: Any,
    control: Names = None,
    testsets: Names = None,
    by: Names = None,
    order: str | None = None,
    *,
    also: Names = None,
    score: Score = "accuracy",
    square_bias: bool = False,
    splits: int = 10,
    seed: int = 0,
) -> ScoreTable:
    """Open a source and give its scores: those of a table, or those of the subjects of a study.

    ``also`` are losses to take as test sets beside accuracies. The other options are those of
    :func:`scores_of_study` and :func:`open_source`.
    """
    if isinstance(source, ScoreTable):
        return source
    opened = source if isinstance(source, Study) else _read(source, by, order, control, testsets, also)
    if isinstance(opened, ColumnRoles) and opened.kind is Kind.SCORES:
        _refuse_scores_of_answers(opened, score)
        return scores_of_columns(opened)
    if isinstance(opened, ColumnRoles):
        columns = opened.renamed
        if by is not None:
            by = [columns.get(name, name) for name in names_in(by, list(columns))]
        if order is not None:
            order = columns.get(order, order)
        keys = [*(by or ())]
        if order not in (None, NONE):
            keys.append(order)
        opened = answers.open_study(opened, keys=keys)
    return scores_of_study(
        opened, control, testsets, by, order, score=score, square_bias=square_bias, splits=splits, seed=seed
    )


def open_study(*sources: Any, keys: Sequence[str] = ()) -> Study:
    """Open answers, item by item, whatever they are in; ``keys`` are columns that tell subjects of a table apart."""
    source = sources[0] if len(sources) == 1 else list(sources)
    if isinstance(source, Study):
        return source
    paths = _as_paths(source)
    if paths is None:
        return answers.open_study(source, keys=keys)
    found = _look(paths)
    if found.content is Content.LOGS:
        return _read_logs(found.paths)
    if found.content is Content.SCORES:
        raise InputError(f"{_named(paths)}: holds {found.content}, and no answers to single items")
    if len(found.paths) == 1:
        return answers.open_study(found.paths[0], keys=keys)
    name = _named(paths)
    long = {path: read_table(path) for path in found.paths if are_answers(column_names(SourceFile.look(path)))}
    if long:
        joined = _joined_answers(long, [path for path in found.paths if path not in long], name)
        return answers.open_study(joined, keys=keys)
    return answers.read_matrices(found.paths, name)


def open_answers(source: Any, *, keys: Sequence[str] = ()) -> Study:
    """Open answers, item by item; scores are refused with a word on what takes them.

    Shares may be either: a wide table of them holds scores if that is what its columns are taken for, unless it looks
    like answers with partial credit; an NPZ matrix of them holds answers. ``keys`` are those of :func:`open_study`.
    """
    study = None
    cause = None
    try:
        study = open_study(source, keys=keys)
    except InputError as error:
        cause = error
    if study is not None and (isinstance(source, Study) or _are_certainly_answers(study)):
        return study
    if study is not None and answers.format_of(source) is answers.Format.NPZ:
        return study
    opened: Study | ScoreTable | None = None
    with suppress(InputError):
        opened = open_source(source)
    if isinstance(opened, ScoreTable):
        raise InputError(
            f"{opened.name}: holds scores of test sets; this takes answers, item by item. `breadth correlate`, "
            "`breadth report`, `breadth advise testsets` and `breadth advise power` (for seeds) take scores"
        ) from cause
    if study is None:
        assert cause is not None
        raise cause
    return study


def _are_certainly_answers(study: Study) -> bool:
    """Whether a study holds answers beyond doubt, and not scores of test sets.

    Shares are answers if most are 0 or 1, if there are more columns than tables have test sets, or if columns have
    numbers for names.
    """
    if study.matrix.dtype == np.int8:
        return True
    shares = study.matrix[study.answered] if study.cells is None else study.cells.values
    numbered = sum(name.isdecimal() for name in study.item_names)
    return bool(
        np.isin(shares, (0, 1)).mean() > MOSTLY
        or len(study.item_names) > MOST_TESTSETS
        or numbered > MOSTLY * len(study.item_names)
    )


def _refuse_scores_of_answers(roles: ColumnRoles, score: Score) -> None:
    """Refuse what only single answers can give where there are only scores."""
    wants_bias = BIAS in roles.controls and BIAS not in roles.table.frame.columns
    if score == "accuracy" and not wants_bias:
        return
    option = f"--score {score}" if score != "accuracy" else f"--control {BIAS}"
    raise InputError(
        f"{roles.table.name}: holds scores, and {option} needs single answers: columns testset, item, correct, label "
        "and margin, or a study"
    )


def _read(
    source: Any, by: Names, order: str | None, control: Names, testsets: Names, also: Names = None
) -> Study | ColumnRoles:
    """Read a source: as a study where it is one, else the columns of its table with what they were taken for."""
    paths = _as_paths(source)
    if paths is None:
        if isinstance(source, np.ndarray):
            return answers.open_study(source)
        return infer_columns(read_table(source), by, order, control, testsets, also=also)
    return _read_paths(paths, by, order, control, testsets, also)


def _read_paths(
    paths: Sequence[Path], by: Names, order: str | None, control: Names, testsets: Names, also: Names
) -> Study | ColumnRoles:
    """Read what is at some paths."""
    found = _look(paths)
    name = _named(paths)
    if found.content is Content.STUDY:
        return answers.open_study(found.paths[0])
    if found.content is Content.LOGS:
        return _read_logs(found.paths)
    if found.content is Content.SCORES:
        return _read_checkpoint_scores(found, name, by, order, control, testsets, also)
    if len(found.paths) > 1:
        return _read_tables(found.paths, name, by, order, control, testsets, also)
    path = found.paths[0]
    if table_ending(path) == ".npz" and _is_answer_matrix(path):
        return answers.open_study(path)
    return infer_columns(read_table(path), by, order, control, testsets, also=also)


def _read_checkpoint_scores(
    found: Found, name: str, by: Names, order: str | None, control: Names, testsets: Names, also: Names
) -> ColumnRoles:
    """Files of trainers, harnesses and trackers, which name the run and the step of every score."""
    from breadth.sources.checkpoint_scores.importing import import_trajectories

    imported = import_trajectories(found.paths)
    warnings = list(imported.notes)
    if found.unread:
        unread = listed([path.name for path in found.unread], 4)
        warnings.append(f"{name}: read as {found.content}; these tables beside them are not read: {unread}")
    frame = imported.frame
    if by is None:
        by = "run"
    if order is None and "step" in frame.columns:
        order = "step"
    return infer_columns(Table(frame, name, warnings=tuple(warnings)), by, order, control, testsets, also=also)


def _is_answer_matrix(path: Path) -> bool:
    """Whether a matrix holds right and wrong answers, and not shares or percentages."""
    study = answers.read_matrix(path)
    return study.matrix.dtype == np.int8 and int(study.matrix.max(initial=0)) <= 1


def _read_logs(paths: Sequence[Path]) -> Study:
    """Logs of other tools; where they need an option (a metric, which of two runs), the verb that has it is named."""
    from breadth.sources.logs.importing import read_logs  # a table needs none of what logs need

    try:
        return read_logs(paths)
    except NothingFoundError:
        raise
    except InputError as error:
        given = " ".join(map(str, paths))
        hint = f"`breadth import {given} --into DIR` has options for this; then use DIR"
        raise InputError(f"{error}\n{hint}") from error


def _as_paths(source: Any) -> list[Path] | None:
    """Paths that were given, one or several; None for frames, arrays and tables."""
    if isinstance(source, str | os.PathLike):
        return expand_paths([source])
    if isinstance(source, list | tuple) and source and all(isinstance(one, str | os.PathLike) for one in source):
        return expand_paths(source)
    return None


def _look(paths: Sequence[Path]) -> Found:
    """Find out what some paths hold: by the directory of a study, the registry of tools, and the endings of tables."""
    if len(paths) == 1 and is_study(paths[0]):
        return Found(Content.STUDY, list(paths))
    if len(paths) == 1 and _is_plain_table(paths[0]):
        return Found(Content.TABLES, list(paths))
    tables: list[Path] = []
    kinds: set[Content] = set()
    weights = False
    for path in files_below(paths):
        named = path.parent in paths or path in paths  # tables further below may be anybody's
        if named and table_ending(path) in READERS:
            tables.append(path)
        if path.suffix.lower() in WEIGHTS:
            weights = True
        kinds |= _kinds_by_tool(path)
    if Content.LOGS in kinds:
        return Found(Content.LOGS, list(paths))
    if Content.SCORES in kinds:
        return Found(Content.SCORES, list(paths), tuple(path for path in tables if not _kinds_by_tool(path)))
    if tables:
        return Found(Content.TABLES, tables)
    if any(is_study(path) for path in paths):
        raise InputError(f"{_named(paths)}: holds the directory of a study; open one study at a time")
    hint = ""
    if weights:
        hint = " It holds weights of models, but no scores or answers: evaluate them first"
    raise NothingFoundError(
        f"{_named(paths)}: nothing to read. Looked for a study (runs/ and items/), an import, tables "
        f"({listed(READERS)}), scores of checkpoints (trainer_state.json, event files) and logs of other tools.{hint}"
    )


def _kinds_by_tool(path: Path) -> set[Content]:
    """What a file holds if a tool wrote it; nothing for tables, which need no import."""
    detected = detect(SourceFile.look(path))
    if detected is None or detected[0].name in TABLES_TOO:
        return set()
    kinds = set()
    if detected[1].part is Part.ANSWERS:
        kinds.add(Content.LOGS)
    if detected[1].has_scores:
        kinds.add(Content.SCORES)
    return kinds


def _named(paths: Sequence[Path]) -> str:
    """What messages call some paths."""
    return listed(map(path_text, paths), 3)


def table_ending(path: Path) -> str:
    """The ending that says which kind of table a file is, without that of compression."""
    suffixes = path.suffixes
    if path.suffix.lower() == ".gz" and len(suffixes) > 1:
        return suffixes[-2].lower()
    return path.suffix.lower()


def _is_plain_table(path: Path) -> bool:
    """Whether a single file is read as the table its name says, whatever tool may have written it."""
    return table_ending(path) in (".csv", ".tsv", ".npz", ".md") and not path.is_dir()


def _read_tables(
    paths: Sequence[Path], name: str, by: Names, order: str | None, control: Names, testsets: Names, also: Names
) -> Study | ColumnRoles:
    """Several tables as one: long answers one below the other, matrices side by side, scores by run and step."""
    tables: dict[Path, Table] = {}
    matrices: list[Path] = []
    for path in paths:
        if path.suffix.lower() == ".npz":
            matrices.append(path)
        else:
            tables[path] = read_table(path)
    long = {path: table for path, table in tables.items() if are_answers(table.frame.columns)}
    if long:
        return _joined_answers(long, [path for path in paths if path not in long], name, by, order)
    kinds = {path: infer_columns(table).kind for path, table in tables.items()}
    wide = [path for path, kind in kinds.items() if kind is Kind.ANSWERS]
    if len(wide) == len(tables):
        return answers.read_matrices(paths, name)
    if wide or matrices:
        scores = next(path for path, kind in kinds.items() if kind is Kind.SCORES)
        raise InputError(
            f"{name}: {(wide + matrices)[0]} holds answers and {scores} holds scores; give them one by one"
        )
    combined = _combined_scores(tables, name)
    return infer_columns(combined, by, order, control, testsets, also=also)


def _joined_answers(
    tables: Mapping[Path, Table],
    others: Sequence[Path],
    name: str,
    by: Names = None,
    order: str | None = None,
) -> ColumnRoles:
    """Long tables of answers one below the other; ``others`` are files beside them that hold something else."""
    warnings: list[str] = []
    if others:
        unread = listed([path.name for path in others], 4)
        warnings.append(
            f"{name}: read as answers, a row each; these files beside them hold none and are not read: {unread}"
        )
    files: dict[str, str] = {}
    frames = []
    for path, table in tables.items():
        frames.append(table.frame)
        warnings += table.warnings
        for column, role in roles_in(table.frame).items():
            if role is Role.MODEL:
                models = table.frame[column].drop_nulls().unique().cast(pl.String)
                files |= dict.fromkeys(models.to_list(), path_text(path))
    try:
        frame = pl.concat(frames, how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{name}: columns of one name hold different types ({str(error).splitlines()[0]})") from error
    roles = infer_columns(Table(frame, name, warnings=tuple(warnings)), by, order)
    return replace(roles, reading=replace(roles.reading, files=files))


def _combined_scores(tables: dict[Path, Table], name: str) -> Table:
    """Tables of scores one below the other; a table that names no run or model is the run its file is called."""
    frames = []
    warnings: list[str] = []
    names = _run_names(list(tables))
    for path, table in tables.items():
        frame = table.frame
        roles = roles_in(frame).values()
        if Role.RUN not in roles and Role.MODEL not in roles:
            frame = frame.with_columns(pl.lit(names[path]).alias("run"))
        frames.append(frame)
        warnings += table.warnings
    try:
        frame = pl.concat(frames, how="diagonal_relaxed")
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{name}: columns of one name hold different types ({str(error).splitlines()[0]})") from error
    return Table(frame, name, warnings=tuple(warnings))


def _run_names(paths: Sequence[Path]) -> dict[Path, str]:
    """What the runs of some files are called: the file's name, with its directory where two have the same."""
    stems = [path.name.split(".")[0] for path in paths]
    names = {}
    for path, stem in zip(paths, stems, strict=True):
        names[path] = stem if stems.count(stem) == 1 else f"{path.parent.name}/{stem}"
    return names
