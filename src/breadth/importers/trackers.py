"""Logs of experiment trackers: MLflow's database and its ``mlruns/``, and TensorBoard event files.

TensorBoard is not needed. An event file is a sequence of TFRecords (length, checksum of the length, content, checksum
of the content), each an ``Event`` protocol buffer. Only its fields for scalars are decoded, from TensorFlow's
``event.proto``, ``summary.proto`` and ``tensor.proto``.
"""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from breadth.errors import InputError
from breadth.importers.reading import LogFile
from breadth.importers.score_files import CHECKPOINT, Reading, Run, Score, decimal, real

#: A line of a metric's file in ``mlruns/``: milliseconds, value, step.
_MLRUNS_LINE = re.compile(rb"\d{9,17} \S{1,40}( -?\d{1,18}.*)?\r?\n")

_MLFLOW_RUNS = """
SELECT run_uuid,
       COALESCE((SELECT value FROM tags WHERE tags.run_uuid = runs.run_uuid AND key = 'mlflow.runName'), name),
       COALESCE((SELECT name FROM experiments WHERE experiments.experiment_id = runs.experiment_id), ''),
       lifecycle_stage,
       (SELECT value FROM params WHERE params.run_uuid = runs.run_uuid AND key IN ('model', '_name_or_path') LIMIT 1)
FROM runs
"""
_MLFLOW_METRICS = "SELECT run_uuid, key, step, value, timestamp FROM metrics WHERE is_nan = 0"

#: What the first event of a file says, and where it ends at the latest.
SIGNATURE, WITHIN = b"brain.Event:", 64

#: Longer records are images, audio or graphs, never scalars.
LONGEST = 1 << 20


#: Where the Hugging Face trainer puts TensorBoard files in its output folder; PyTorch's own default is the same.
_RUNS_FOLDER = re.compile(r"[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.*")

#: Folders beside those of training in which TensorFlow and Keras write what they evaluate.
_STAGE_FOLDER = re.compile(r"(?:train|validation|eval)(?:_.*)?")


def is_mlflow(file: LogFile) -> bool:
    """Whether this is an SQLite database."""
    return file.head.startswith(b"SQLite format 3\0")


def read_mlflow(file: LogFile, reading: Reading) -> Iterator[Score]:
    """Yield the metrics in MLflow's database, opened read-only, as it is; its write-ahead log is not seen."""
    try:
        address = f"{file.path.resolve().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as database:
            tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if not {"metrics", "runs"} <= tables:
                return
            runs = {
                str(row[0]): Run(f"{row[2]}/{row[1] or row[0]}", (str(row[0])[:8],), row[4] and str(row[4]))
                for row in database.execute(_MLFLOW_RUNS)
                if row[3] != "deleted"
            }
            for identity, key, step, value, time in database.execute(_MLFLOW_METRICS):
                place, score, run = real(step), real(value), runs.get(str(identity))
                if run is not None and isinstance(key, str) and place is not None and score is not None:
                    yield Score(run, place, key, score, real(time) or 0.0)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file.path}: cannot be read as an MLflow database ({error}); it is damaged, or of a version before 1.0"
        ) from error
    log = Path(f"{file.path}-wal")
    if log.is_file() and log.stat().st_size:
        reading.notes.append(f"{file.path}: is in use; values that are only in {log.name} are not read")


def is_mlruns(file: LogFile) -> bool:
    """Whether this is one metric of one run in MLflow's folder layout."""
    return b"\0" not in file.head and _MLRUNS_LINE.match(file.head) is not None and _run_folder(file) is not None


def _run_folder(file: LogFile) -> Path | None:
    """The folder of the run: the one that holds ``metrics`` and ``meta.yaml``."""
    above = (folder.parent for folder in file.path.resolve().parents if folder.name == "metrics")
    return next((folder for folder in above if (folder / "meta.yaml").is_file()), None)


def read_mlruns(file: LogFile, _: Reading) -> Iterator[Score]:
    """Yield one metric of one run in MLflow's folder layout."""
    folder = _run_folder(file)
    assert folder is not None
    described, experiment = _plain_yaml(folder / "meta.yaml"), _plain_yaml(folder.parent / "meta.yaml")
    if described.get("lifecycle_stage") == "deleted":
        return
    name = described.get("run_name") or _line(folder / "tags" / "mlflow.runName") or folder.name
    model = _line(folder / "params" / "model") or None
    run = Run(f"{experiment.get('name') or folder.parent.name}/{name}", (folder.name[:8],), model)
    key = file.path.resolve().relative_to(folder / "metrics").as_posix()
    for line, text in enumerate(file.read().decode(errors="replace").splitlines(), 1):
        fields = text.split(" ")
        time, step = decimal(fields[0]), decimal(fields[2]) if len(fields) > 2 else 0.0
        if time is None or step is None or len(fields) < 2:
            raise InputError(f"{file.path}, line {line}: is not 'time value step'; the file is damaged")
        if (value := decimal(fields[1])) is not None:
            yield Score(run, step, key, value, time)


def _line(path: Path) -> str:
    """A small file of one line; empty if there is none."""
    try:
        return path.read_text(errors="replace").strip() if path.stat().st_size < 1 << 12 else ""
    except OSError:
        return ""


def _plain_yaml(path: Path) -> dict[str, str]:
    """The plain entries of a ``meta.yaml``; it only names things, so it need not be there."""
    try:
        lines = path.read_text(errors="replace").splitlines() if path.stat().st_size < 1 << 16 else []
    except OSError:
        return {}
    pairs = (line.partition(": ") for line in lines if line[:1].isalpha())
    return {key: value.strip().strip("'\"") for key, _, value in pairs}


class Scalar(NamedTuple):
    """One value, and when it was written."""

    tag: str
    step: int
    value: float
    time: float


class Damaged(Exception):  # noqa: N818
    """The file ends inside a record, or a record is not what its checksum says; what came before is sound."""


def is_tensorboard(file: LogFile) -> bool:
    """Whether this is an event file."""
    return SIGNATURE in file.head[:WITHIN]


def read_tensorboard(file: LogFile, reading: Reading) -> Iterator[Score]:
    """Yield the scalars of a TensorBoard event file; the run is its folder, or one above where a tool splits runs."""
    folder = file.path.resolve().parent
    output = folder.parent.parent
    if folder.parent.name == "runs" and _RUNS_FOLDER.fullmatch(folder.name) and _is_trainer_output(output):
        folder = output
    below = any(folder.parent.glob("*tfevents*")) or (folder.parent / "train").is_dir()
    stage = below and _STAGE_FOLDER.fullmatch(folder.name) is not None
    own, above, any_scalar = Run(folder.as_posix()), Run(folder.parent.as_posix()), False
    try:
        with file.path.open("rb") as stream:
            for tag, step, value, time in scalars(stream):
                any_scalar = True
                run, name, main = own, tag, tag.replace("/", "_") + "_"
                if stage:
                    run, name = above, f"{folder.name}/{tag}"
                elif below and folder.name.startswith(main):  # add_scalars("accuracy", {"hans": ...})
                    run, name = above, f"{folder.name.removeprefix(main)}/{tag}"
                if (score := real(value)) is not None:
                    yield Score(run, step, name, score, real(time) or 0.0)
    except Damaged as damage:
        if not any_scalar:
            raise InputError(f"{file.path}: {damage}, before any scalar; the file is damaged") from damage
        reading.notes.append(f"{file.path}: {damage}; what comes after is not read")
    except OSError as error:
        raise InputError(f"{file.path}: cannot be read ({error.strerror})") from error


def _is_trainer_output(folder: Path) -> bool:
    """Whether the Hugging Face trainer wrote here; each of its folders below ``runs`` is then a start of one run."""
    names = {path.name for path in folder.iterdir()}
    return bool({"trainer_state.json", "training_args.bin"} & names) or any(map(CHECKPOINT.fullmatch, names))


def scalars(file: BinaryIO) -> Iterator[Scalar]:
    """Yield the scalars of an event file in the order in which they were written."""
    plugins: dict[bytes, bytes] = {}
    try:
        for record in _records(file):
            fields = dict(_fields(record))  # a field that occurs several times counts as its last, as the format says
            time, step, summary = fields.get(1), fields.get(2, 0), fields.get(5)
            if not isinstance(summary, bytes) or not isinstance(step, int):
                continue
            seconds = struct.unpack("<d", time)[0] if isinstance(time, bytes) and len(time) == 8 else 0.0
            for number, value in _fields(summary):
                if number != 1 or not isinstance(value, bytes):
                    continue
                parts = dict(_fields(value))
                tag, metadata = parts.get(1), parts.get(9)
                if not isinstance(tag, bytes):
                    continue
                if isinstance(metadata, bytes):  # written once per tag, or every time
                    plugins[tag] = _path(metadata, 1, 1)
                if plugins.get(tag, b"scalars") in (b"scalars", b"") and (scalar := _value(parts)) is not None:
                    yield Scalar(
                        tag.decode(errors="replace"), step if step < 1 << 63 else step - (1 << 64), scalar, seconds
                    )
    except (struct.error, IndexError) as error:
        raise Damaged("holds a record that cannot be decoded") from error


def _value(parts: dict[int, int | bytes]) -> float | None:
    """A number, as ``simple_value`` or as a tensor with one element of type float or double."""
    simple, tensor = parts.get(2), parts.get(8)
    if isinstance(simple, bytes) and len(simple) == 4:
        return float(struct.unpack("<f", simple)[0])
    if not isinstance(tensor, bytes):
        return None
    fields = dict(_fields(tensor))
    kind = fields.get(1)
    layout, listed = {1: ("<f", 5), 2: ("<d", 6)}.get(kind if isinstance(kind, int) else 0, ("", 0))
    content = fields.get(4) or fields.get(listed)
    if layout and isinstance(content, bytes) and len(content) == struct.calcsize(layout):
        return float(struct.unpack(layout, content)[0])
    return None


def _path(message: bytes, *numbers: int) -> bytes:
    for number in numbers:
        inner = dict(_fields(message)).get(number, b"")
        message = inner if isinstance(inner, bytes) else b""
    return message


def _records(file: BinaryIO) -> Iterator[bytes]:
    while header := file.read(12):
        if len(header) < 12:
            raise Damaged("ends inside a record")
        length, checksum = struct.unpack("<QI", header)
        if _masked(header[:8]) != checksum:
            raise Damaged(f"holds a damaged record at byte {file.tell() - 12:,}")
        if length > LONGEST:
            file.seek(length + 4, 1)
            continue
        content, footer = file.read(length), file.read(4)
        if len(content) < length or len(footer) < 4:
            raise Damaged("ends inside a record")
        if _masked(content) != struct.unpack("<I", footer)[0]:
            raise Damaged(f"holds a damaged record at byte {file.tell() - length - 16:,}")
        yield content


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Fields of a protocol buffer: number, and the integer or the bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if kind == 2:
            size, place = _varint(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise struct.error("unknown kind of field")
        if place + size > len(message):
            raise struct.error("field is cut off")
        yield key >> 3, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[place]
        place += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, place
        if shift > 63:
            raise struct.error("number is too long")


def _masked(content: bytes) -> int:
    """TFRecord's masked CRC-32C, two bytes at a time."""
    single, double = _tables()
    crc = 0xFFFFFFFF
    if len(content) % 2:
        crc, content = single[crc & 255 ^ content[0]] ^ crc >> 8, content[1:]
    for pair in struct.unpack(f"<{len(content) // 2}H", content):
        crc = double[crc & 65535 ^ pair] ^ crc >> 16
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@cache
def _tables() -> tuple[list[int], list[int]]:
    """What a byte and what two bytes make of the checksum."""
    single = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        single.append(crc)
    after_one = [single[pair & 255] ^ pair >> 8 for pair in range(1 << 16)]
    return single, [single[crc & 255] ^ crc >> 8 for crc in after_one]
