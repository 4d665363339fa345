"""Matrices and tables of answers: NPZ, CSV, TSV, Parquet and JSON lines as :func:`breadth.open` reads them, and R data.

- **Long tables** have columns ``item`` and ``correct`` and say who answered (``subject``, or ``model`` and others). One
  that does not is about one subject, called like the file.
- **Wide tables** have a row per subject and a column per item. Here, unlike in ``breadth.open``, every answer must be
  0, 1 or missing: a table of fractions is usually one of scores, which belong to ``breadth import-scores``.
- **Tabulated patterns** (a column ``Freq``, as in R's LSAT6) become a subject per response.
- **R data** (``.rds``, ``.RData``) are data frames of the same forms (:mod:`breadth.sources.tools.r_data`).

Answers that are not scored yet, such as the chosen options of R's SAT12, are left out. Where a table names no subjects,
they are numbered, apart from those of other files; where it names no test set, the file's name is its test set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from zipfile import ZipFile

import numpy as np
import polars as pl

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.records import Study, is_study
from breadth.sources.answers import UNNAMED, open_study
from breadth.sources.limits import MOST_SUBJECTS, check_size
from breadth.sources.logs.log import Log, Metric, Options, Plain, SkipFile
from breadth.sources.npz_files import COLUMN_NAMES, ROW_NAMES, read_headers
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.reshaping import IDENTITY
from breadth.sources.source_files import SourceFile, number
from breadth.sources.table_files import column_names, first_rows
from breadth.sources.tables import BLANKS, Table, read_table
from breadth.sources.tools.common import drop_empty
from breadth.sources.tools.r_data import is_r_data, read_r_data
from breadth.sources.vocabulary import Role, role_of

METRIC = Metric("correct")

#: Columns of a long table. Other names of them do not count here: many logs have a question and a score.
LONG = frozenset({"item", "correct"})

#: Rows by which a wide table is judged: few, because every table that no tool knows is looked at.
SAMPLED_ROWS = 20

#: An answer in a wide table, if it is not missing: right, wrong, or one that is not scored, a digit or a letter.
ANSWER = re.compile(r"[0-9](?:\.0)?|-1|[A-E]|true|false", re.IGNORECASE)

#: A cell with a number, which names nothing.
NUMBER = re.compile(r"[-+.\d eE]*")

#: A chosen option: no answer that is scored is above 1, or a letter.
CHOSEN_OPTION = r"^[2-9A-Ea-e]$"

#: Names of a column that says how often a pattern of answers occurred.
FREQUENCY = re.compile(r"freq|frequency|freqs|counts?", re.IGNORECASE)

#: Columns of subjects that are no attributes.
NO_ATTRIBUTES = frozenset({"subject", "model", "step", "tool", "version"})


class Matrix(Source):
    """Reads matrices and tables of answers. It comes last: whatever another tool wrote is that tool's."""

    name: ClassVar[str] = "matrix"

    def detect(self, file: SourceFile) -> Detection | None:
        """A file that looks like answers by its columns and first rows; tables beside a long one go with it."""
        # The tables in the directory of a study are records of breadth itself.
        if not file.size or any(is_study(folder) for folder in file.path.absolute().parents[:3]):
            return None
        if file.path.suffix.lower() == ".npz":
            return Detection(Part.ANSWERS, "an NPZ file with one matrix of numbers") if _has_one_matrix(file) else None
        if is_r_data(file):
            return Detection(Part.ANSWERS, "R data")
        if _is_long(file):
            return Detection(Part.ANSWERS, "a table with columns item and correct")
        if file.path.stem in ("items", "subjects"):
            responses = file.path.with_name(f"responses{file.path.suffix}")
            if responses.is_file() and _is_long(SourceFile.look(responses)):
                return Detection(Part.COMPANION, f"lies beside {responses.name}, a table of answers")
        if _looks_like_answers(_first_rows(file)):
            return Detection(Part.ANSWERS, "a table with a row per subject and a column per item")
        return None

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read every test set of every subject."""
        problems: list[str] = []
        has_answers = False
        for name, source in _sources_in(file):
            try:
                study = _read_study(source)
            except SkipFile as reason:  # R data may hold other data frames beside the answers
                problems.append(str(reason))
                continue
            for log in _logs_of_study(file, name, source, study, options):
                has_answers = True
                yield log
        if not has_answers:
            raise SkipFile("; ".join(problems) or "holds no answers")


# ---- What is this file? ----


def _has_one_matrix(file: SourceFile) -> bool:
    """Whether an NPZ file has one matrix of numbers; of a damaged one, whether it names subjects or items."""
    if not file.members:
        return False
    try:
        headers = read_headers(file.path)
    except InputError:
        # It is read all the same, which says what is wrong with it: passed over, its answers would just be missing.
        return any(name.removesuffix(".npy") in (*ROW_NAMES, *COLUMN_NAMES) for name in file.members)
    return sum(header.is_matrix for header in headers) == 1


def _is_long(file: SourceFile) -> bool:
    """Whether a file is a long table of answers."""
    return column_names(file) >= LONG


def _first_rows(file: SourceFile) -> list[list[str]]:
    """The header and the first rows of a table that may be wide, as text; none of another file, or a damaged one."""
    ending = file.path.suffix.lower()
    if ending in (".csv", ".tsv"):
        return first_rows(file.path, SAMPLED_ROWS)
    if ending != ".parquet":
        return []
    try:
        with reading(file.path):
            frame = pl.read_parquet(file.path, n_rows=SAMPLED_ROWS, glob=False)
    except InputError:
        return []
    if any(dtype.is_nested() or dtype.is_temporal() for dtype in frame.dtypes):
        return []
    rows = [frame.columns]
    for row in frame.iter_rows():
        rows.append(["" if cell is None else str(cell) for cell in row])
    return rows


def _looks_like_answers(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a header and some rows look like a row per subject and a column per item."""
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        return False
    items = 0
    for name, *cells in zip(*rows, strict=True):
        if _are_names(cells):
            continue
        if not all(_may_be_answer(cell.strip()) for cell in cells):
            if not _describes_rows(name):
                return False
        elif items < 2 and not _describes_rows(name):  # what a name means takes long to find out for thousands of items
            items += 1
    return items == 2


def _describes_rows(name: str) -> bool:
    """Whether a column is no item by its name: :mod:`breadth.sources.column_roles` takes it for none, or it counts."""
    return role_of(name) in (*IDENTITY, Role.ROW, Role.OTHER) or FREQUENCY.fullmatch(name) is not None


def _may_be_answer(cell: str) -> bool:
    return cell.lower() in BLANKS or ANSWER.fullmatch(cell) is not None


def _are_names(cells: Sequence[str]) -> bool:
    """Whether a column holds names: longer than an answer, and not numbers."""
    return all(len(cell) > 2 and not NUMBER.fullmatch(cell) for cell in cells)


# ---- From files to answers ----


def _sources_in(file: SourceFile) -> Iterator[tuple[str, Path | Table]]:
    """What a file holds, by name: one matrix, the data frames of R data, or one table."""
    if file.path.suffix.lower() == ".npz":
        for header in read_headers(file.path):
            check_size(header.held, f"{file.path}, array {header.name!r}", "save fewer subjects or items in a file")
        yield file.path.stem, file.path
    elif is_r_data(file):
        yield from read_r_data(file)
    else:
        if not file.head.startswith(b"PAR1"):  # other tables take many times their size while they are parsed
            check_size(file.size, file.path, "use Parquet")
        yield file.path.stem, read_table(file.path)


def _read_study(source: Path | Table) -> Study:
    """Answers as :func:`breadth.open` reads them; a matrix or wide table of something else is skipped."""
    if isinstance(source, Path):
        return _read_npz(source)
    if set(source.frame.columns) >= LONG:  # its columns say that these are answers, so whatever is wrong is refused
        return open_study(source)
    table = _repeat_patterns(source)
    _skip_unscored(table)
    try:
        study = open_study(table)
    except InputError as error:
        raise _no_answers(error, table.name) from error
    if study.fractional:
        raise SkipFile(
            "holds fractions in a row per subject, which look like scores of whole test sets; `breadth import "
            "trajectories` reads scores, and answers that are fractions can be imported from a table with columns "
            "subject, item, correct"
        )
    return study


def _read_npz(path: Path) -> Study:
    """The answers of a matrix; skipped if it is one of other numbers, and refused if its file is damaged or unsafe."""
    try:
        return open_study(path)
    except InputError as error:
        for header in read_headers(path):
            if header.dtype.hasobject or header.declared != header.held:
                raise
        with reading(path, "NPZ"), ZipFile(path) as archive:
            is_damaged = archive.testzip() is not None
        if is_damaged:
            raise
        raise _no_answers(error, str(path)) from error


def _no_answers(error: InputError, name: str) -> SkipFile:
    """The file was read, so what is wrong are its values: it is some other table."""
    return SkipFile(f"cannot be read as answers: {str(error).removeprefix(f'{name}: ')}")


def _repeat_patterns(table: Table) -> Table:
    """A row per subject, where rows are patterns of answers with how often they occurred."""
    frame = table.frame
    names = [name for name in frame.columns if FREQUENCY.fullmatch(name)]
    if len(names) != 1 or frame.width < 3:
        return table
    counts = table.numbers(names[0]).fill_null(0).to_numpy()
    if (counts < 0).any() or (counts != np.floor(counts)).any():
        return table
    if counts.sum() > MOST_SUBJECTS:
        raise SkipFile(f"its patterns stand for {counts.sum():,.0f} subjects; at most {MOST_SUBJECTS:,} are read")
    rows = np.repeat(np.arange(frame.height), counts.astype(np.int64))
    if not len(rows):
        raise SkipFile(f"column {names[0]!r} holds no counts")
    # What describes a pattern names no subject: there are several of each.
    items = [name for name in frame.columns if not _describes_rows(name)]
    note = f"{table.name}: patterns with column {names[0]!r} became {len(rows):,} subjects"
    return Table(frame[rows].select(items), table.name, warnings=(note,))


def _skip_unscored(table: Table) -> None:
    """Skip a wide table of chosen options: which of them are right is not known."""
    for column in table.frame.iter_columns():
        if column.dtype != pl.String and not column.dtype.is_numeric():
            continue
        cells = column.cast(pl.String, strict=False).str.strip_chars().str.strip_suffix(".0").drop_nulls()
        chosen = cells.filter(cells.str.contains(CHOSEN_OPTION))
        if chosen.len() and not _describes_rows(column.name):
            raise SkipFile(
                f"not scored: column {column.name!r} holds {chosen[0]}, which looks like a chosen option; score the "
                "answers first (1 right, 0 wrong)"
            )


# ---- From answers to logs ----


def _logs_of_study(file: SourceFile, name: str, source: Path | Table, study: Study, options: Options) -> Iterator[Log]:
    """A log per subject and test set."""
    texts = _texts_of_items(file, study) if options.texts else {}
    subjects = _subjects_of(file.path, study)
    chosen = _chosen_answers(source, study) if isinstance(source, Table) else {}
    for place, testset in enumerate(study.testsets):
        columns = np.flatnonzero(study.set_index == place)
        items = study.items["item"].gather(columns).to_list()
        texts_of_set = drop_empty({key: [cells[column] for column in columns] for key, cells in texts.items()})
        for row, subject in enumerate(subjects):
            if not study.answered[row, columns].any():
                continue
            yield Log(
                path=str(file.path),
                tool=Matrix.name,
                testset=name if study.testsets == [UNNAMED] else testset,
                model=subject.model,
                items=items,
                values={METRIC: study.correct[row, columns]},
                margins={} if study.margin is None else {METRIC: study.margin[row, columns]},
                answers=[chosen.get((row, int(column))) for column in columns] if chosen else None,
                texts=texts_of_set,
                subject=subject.attributes,
                step=subject.step,
                notes=study.warnings,
            )


class _Subject(NamedTuple):
    """A row of a study, as a log names it."""

    model: str
    step: int | None
    attributes: Mapping[str, Plain]


def _subjects_of(path: Path, study: Study) -> list[_Subject]:
    """The subjects of a study: their models and training steps, and what else tells them apart."""
    frame, names = study.subjects, study.subject_names
    are_numbered = names == tuple(str(place) for place in range(len(names)))
    model = "subject"
    if "model" in frame.columns and not frame["model"].null_count():
        model = "model"
    models = frame[model].cast(pl.String).to_list()
    subjects = []
    for row, own_model in zip(frame.iter_rows(named=True), models, strict=True):
        step = number(row.get("step"))
        whole_step = int(step) if step is not None and step.is_integer() else None
        if are_numbered:
            # Subject 0 of another file is somebody else.
            subjects.append(_Subject(f"{path.stem}/{row['subject']}", whole_step, {}))
            continue
        attributes: dict[str, Plain] = {}
        for key, value in row.items():
            if key not in NO_ATTRIBUTES and not frame.schema[key].is_nested():
                attributes[key] = value if isinstance(value, Plain) else str(value)
        subjects.append(_Subject(own_model, whole_step, attributes))
    if len({repr(subject) for subject in subjects}) < len(subjects):
        for place, name in enumerate(names):
            own = subjects[place]
            subjects[place] = own._replace(attributes={**own.attributes, "subject": name})
    return subjects


def _chosen_answers(table: Table, study: Study) -> dict[tuple[int, int], str]:
    """What was answered, where a long table says it, by row and column of the study."""
    frame = table.frame
    if not {"subject", "answer"} <= set(frame.columns) or frame.schema["answer"] != pl.String:
        return {}
    if "testset" not in frame.columns:
        frame = frame.with_columns(testset=pl.lit(UNNAMED))
    cells = frame.select(pl.col("subject", "testset", "item").cast(pl.String), "answer").drop_nulls()
    rows = pl.DataFrame({"subject": study.subject_names}).with_row_index("row")
    columns = study.items.select("testset", "item").with_row_index("column")
    placed = cells.join(rows, on="subject").join(columns, on=["testset", "item"])
    return {(row, column): answer for row, column, answer in placed.select("row", "column", "answer").iter_rows()}


def _texts_of_items(file: SourceFile, study: Study) -> dict[str, list[Any]]:
    """Texts of the items, in the order of the study: of the table itself, and of ``items`` beside a long one."""
    items = study.items
    beside = file.path.with_name(f"items{file.path.suffix}")
    if beside != file.path and beside.is_file() and _is_long(file):
        others = read_table(beside).frame
        if {"testset", "item"} <= set(others.columns):
            new = [name for name in others.columns if name not in items.columns]
            others = others.select(pl.col("testset", "item").cast(pl.String), *new)
            others = others.unique(("testset", "item"), keep="first")
            items = items.join(others, on=["testset", "item"], how="left", maintain_order="left")
    texts: dict[str, list[Any]] = {}
    for column in items.drop("testset", "item", "answer", strict=False).iter_columns():
        if column.name in ("options", "option_labels"):
            texts[column.name] = [_list_of_texts(cell) for cell in column.to_list()]
        elif column.dtype == pl.String:
            texts[column.name] = column.to_list()
    return texts


def _list_of_texts(cell: Any) -> list[str] | None:
    """A list of texts; CSV holds it as JSON."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            return None
    return [str(entry) for entry in cell] if isinstance(cell, list) else None
