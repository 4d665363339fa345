"""The directory that ``breadth import`` makes: answers from elsewhere, with where each came from.

    import.json                 names the three tables that belong together
    logs.<sum>.parquet          a row per log: subject, test set, metric, source file and its checksum, tool, version
    items.<sum>.parquet         a row per item, with its texts
    responses.<sum>.parquet     a row per answer; ``log`` and ``item`` are rows of the other two

The tables are written first, then ``import.json`` is replaced in one step: an interrupted import changes nothing.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from breadth.boundary import is_file, reading
from breadth.errors import InputError
from breadth.records.files import DAMAGED, MISSING_FILE, SUM_DIGITS, LocalStore, checksum
from breadth.records.reading import Reading

if TYPE_CHECKING:
    from breadth.records.study import Study

MANIFEST = "import.json"

#: Number of the layout; a directory of another one is refused.
LAYOUT = 2

#: What a log is: where its answers came from, how they were scored, and which subject gave them.
LOGS: dict[str, pl.DataType | type[pl.DataType]] = {
    "subject": pl.String,
    "run": pl.String,
    "model": pl.String,
    "step": pl.Int64,
    "testset": pl.String,
    "metric": pl.String,
    "variant": pl.String,
    "rows": pl.Int64,
    "answered": pl.Int64,
    "mean": pl.Float64,
    "stated": pl.Float64,
    "tool": pl.String,
    "version": pl.String,
    "path": pl.String,
    "checksum": pl.String,
    "stamp": pl.String,
    "identity": pl.String,
    "attributes": pl.String,
    "settings": pl.String,
    "notes": pl.List(pl.String),
    "texts": pl.Boolean,
    "older": pl.String,
}

#: An answer: ``log`` and ``item`` are rows of the other tables.
IMPORTED_RESPONSES = pl.Schema(
    {"log": pl.UInt32, "item": pl.UInt32, "correct": pl.Float64, "margin": pl.Float32, "answer": pl.String}
)

#: Notes on single logs that are shown.
MOST_NOTES = 8

_TABLE = re.compile(rf"^(logs|items|responses)\.[0-9a-f]{{{SUM_DIGITS}}}\.parquet$")


class Imported(NamedTuple):
    """What was imported: a row per log, per item and per answer."""

    logs: pl.DataFrame
    items: pl.DataFrame
    responses: pl.DataFrame


def is_imported(folder: Path) -> bool:
    """Whether a directory was made by ``breadth import``."""
    return is_file(folder / MANIFEST)


def foreign_files(folder: Path) -> list[str]:
    """Files and folders in a directory that no import wrote."""
    return [name for name in LocalStore(folder).names() if not _TABLE.match(name) and not name.startswith(".")]


def write_imported(store: LocalStore, imported: Imported) -> bool:
    """Write what was imported; returns whether anything changed.

    The caller holds the lock of the directory through this ``store``, which then writes nowhere else.
    """
    store.clean("")
    before = store.read(MANIFEST)
    tables = {}
    for name, frame in imported._asdict().items():
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", statistics=False)
        tables[name] = f"{name}.{checksum(buffer.getvalue())}.parquet"
        if store.fault(tables[name]) is not None:
            store.write(tables[name], buffer.getvalue())
    manifest = json.dumps({"layout": LAYOUT, "tables": tables}, indent=1).encode()
    if manifest != before:
        store.write(MANIFEST, manifest)
    for name in store.names():
        if _TABLE.match(name) and name not in tables.values():  # of an earlier or an interrupted import
            store.delete(name)
    return manifest != before


def read_imported(folder: Path) -> Imported:
    """Read the tables of an import; a damaged one is refused by name."""
    store, path = LocalStore(folder), folder / MANIFEST
    content = store.read(MANIFEST)
    try:
        manifest = json.loads(content or b"")
        layout = manifest["layout"]
        names = [str(manifest["tables"][name]) for name in Imported._fields]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: is damaged; delete the directory and run `breadth import` again") from error
    if layout != LAYOUT:
        raise InputError(f"{path}: was written by another version of breadth (layout {layout}); import the logs again")
    frames = []
    for name in names:
        content, fault = None, MISSING_FILE
        if _TABLE.match(name):  # any other name could lead out of the directory
            content, fault = store.read(name), store.fault(name) or DAMAGED
        if content is None or checksum(content) not in name:
            raise InputError(f"{folder / name}: {fault}; delete the directory and run `breadth import` again")
        with reading(folder / name):
            frames.append(pl.read_parquet(io.BytesIO(content)))
    return Imported(*frames)


def imported_study(imported: Imported, name: str, folder: Path | None = None, notes: Sequence[str] = ()) -> Study:
    """Imported answers as a study; subjects are described by what their logs agree on."""
    from breadth.records.study import Study, matrices_of_cells

    logs = imported.logs
    subjects = logs.select("subject").unique(maintain_order=True).with_row_index("row")
    row_of_log = logs.join(subjects, on="subject", how="left", maintain_order="left")["row"].to_numpy()
    rows = row_of_log[imported.responses["log"].to_numpy()]
    columns = imported.responses["item"].to_numpy()
    margins = imported.responses["margin"]
    margin = None
    if margins.is_not_null().any():
        margin = margins.fill_null(np.nan).to_numpy()
    matrix, margin = matrices_of_cells(
        name, (subjects.height, imported.items.height), rows, columns, imported.responses["correct"].to_numpy(), margin
    )
    warnings = [*notes, *_notes_on_logs(logs)]
    # A model may have several logs: the first one leads to the others.
    first = logs.unique("subject", keep="first", maintain_order=True)
    files = dict(first.select("subject", "path").iter_rows())
    files |= dict(first.drop_nulls("model").unique("model", keep="none").select("model", "path").iter_rows())
    return Study(
        name,
        described_subjects(logs),
        imported.items,
        matrix,
        margin,
        folder=folder,
        warnings=tuple(dict.fromkeys(warnings)),
        reading=Reading(files=files if logs["path"].n_unique() > 1 else {}),
    )


def imported_responses(frame: pl.DataFrame) -> pl.DataFrame:
    """A table of answers with the types of an import."""
    columns = [pl.col(name).cast(dtype) for name, dtype in IMPORTED_RESPONSES.items()]
    return frame.select(columns).with_columns(pl.col("margin").fill_nan(None))


def _notes_on_logs(logs: pl.DataFrame) -> list[str]:
    """Each note with its file; where many logs have notes, the first of them and their number."""
    notes = []
    for path, lines in logs.select("path", "notes").iter_rows():
        for note in lines:
            notes.append(note if note.startswith(path) else f"{path}: {note}")
    if len(notes) <= MOST_NOTES:
        return notes
    more = f"{len(notes) - MOST_NOTES:,} more notes on single logs, in the column notes of the table of logs"
    return [*notes[:MOST_NOTES], more]


def described_subjects(logs: pl.DataFrame) -> pl.DataFrame:
    """A row per subject: run and step if any log has a step, model, what tells it apart, tool and version.

    A model that answered in several ways is a model for each of them: reports take the mean over subjects of one model.
    """
    columns = ["model", "tool", "version"]
    if logs["step"].is_not_null().any():
        columns = ["run", "step", *columns]
    ways = pl.col("run").n_unique().over("model")
    model = pl.when(ways > 1).then("run").otherwise("model").alias("model")
    known = logs.with_columns(model).select("subject", *columns)
    for attribute in _attribute_columns(logs):
        if attribute.name not in {"subject", "run", "step", "model", "tool", "version"}:
            known = known.with_columns(attribute)
    first = [pl.col(name).first() for name in columns[:-2]]
    # Logs of one subject may come from several tools and versions.
    names = known.columns[len(first) + 1 :]
    joined = [pl.col(name).drop_nulls().unique(maintain_order=True).str.join(", ") for name in names]
    frame = known.group_by("subject", maintain_order=True).agg(*first, *joined)
    return frame.with_columns(pl.when(pl.col(name) != "").then(name) for name in names)


def _attribute_columns(logs: pl.DataFrame) -> list[pl.Series]:
    """What tells subjects apart, a column for each attribute."""
    rows = [json.loads(text) for text in logs["attributes"]]
    values: dict[str, list[str | None]] = {}
    for place, row in enumerate(rows):
        for name, value in row.items():
            if value is not None:
                values.setdefault(name, [None] * len(rows))[place] = str(value)
    return [pl.Series(name, texts, dtype=pl.String) for name, texts in values.items()]
