"""Scalars of TensorBoard event files, read without TensorBoard.

An event file is a sequence of TFRecords (length, checksum of the length, content, checksum of the content), each an
``Event`` protocol buffer. Only its fields for scalars are decoded, from TensorFlow's ``event.proto``,
``summary.proto`` and ``tensor.proto``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from breadth.errors import InputError
from breadth.importers.reading import LogFile
from breadth.importers.score_files import CHECKPOINT, Reading, Run, Score, real

#: What the first event of a file says, and where it ends at the latest.
SIGNATURE, WITHIN = b"brain.Event:", 64

#: Longer records are images, audio or graphs, never scalars.
LONGEST = 1 << 20


#: Where the Hugging Face trainer puts TensorBoard files in its output folder; PyTorch's own default is the same.
_RUNS_FOLDER = re.compile(r"[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.*")

#: Folders beside those of training in which TensorFlow and Keras write what they evaluate.
_STAGE_FOLDER = re.compile(r"(?:train|validation|eval)(?:_.*)?")


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
