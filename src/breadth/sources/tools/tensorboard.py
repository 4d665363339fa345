"""TensorBoard's event files.

TensorBoard is not needed, which takes 160 MB. An event file is a sequence of TFRecords (length, checksum of the length,
content, checksum of the content), each an ``Event`` protocol buffer. Only its fields for scalars are decoded, from
TensorFlow's ``event.proto``, ``summary.proto`` and ``tensor.proto``.

Libraries were tried on 100,000 scalars: tensorboard's own loader reads them in 3.5 s, the package ``protobuf`` with
messages declared here and checksums in C in 0.3 s, this module with checksums in C in 0.6 s (1.2 s with its own). That
``protobuf`` saves five lines does not make up for one more package whose versions other tools pin.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, ClassVar, NamedTuple

from breadth.errors import InputError
from breadth.sources.checkpoint_scores.scores import CheckpointScore, ScoreOptions, TrainingRun, real
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.trainer_state import is_checkpoint_folder

#: What the first event of a file says, and where it ends at the latest.
SIGNATURE = b"brain.Event:"
WITHIN = 64

#: Longer records are images, audio or graphs, never scalars.
LONGEST_RECORD = 1 << 20

#: Where the Hugging Face trainer puts TensorBoard files in its output folder; PyTorch's own default is the same.
RUNS_FOLDER = re.compile(r"[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.*")

#: Folders beside those of training in which TensorFlow and Keras write what they evaluate.
STAGE_FOLDER = re.compile(r"(?:train|validation|eval)(?:_.*)?")

#: Plug-ins whose values are scalars; old writers name none.
SCALAR_PLUGINS = (b"scalars", b"")

#: How a tensor of one number is laid out, and the field that lists its numbers, by type: float and double.
NUMBER_TYPES: dict[int | bytes | None, tuple[str, int]] = {1: ("<f", 5), 2: ("<d", 6)}

Fields = dict[int, int | bytes]


class Scalar(NamedTuple):
    """One value, and when it was written."""

    tag: str
    step: int
    value: float
    time: float


class DamagedRecordError(Exception):
    """The file ends inside a record, or a record is not what its checksum says; what came before is sound."""


class TensorBoard(Source):
    """The scalars of event files; the run is the folder, or one above where a tool splits runs."""

    name: ClassVar[str] = "tensorboard"
    looks_like: ClassVar[str] = "TensorBoard event files"

    def detect(self, file: SourceFile) -> Detection | None:
        """A file whose first event says what it is."""
        if SIGNATURE not in file.head[:WITHIN]:
            return None
        return Detection(Part.SCORES, f"the first record says {SIGNATURE.decode()}", has_scores=True)

    def read_scores(self, file: SourceFile, options: ScoreOptions) -> Iterator[CheckpointScore]:
        """Yield the scalars; of a file that ends inside a record, those before its end."""
        place = _EventFolder(file.path.resolve().parent)
        any_scalar = False
        try:
            with file.path.open("rb") as stream:
                for scalar in scalars(stream):
                    any_scalar = True
                    run, name = place.run_and_name(scalar.tag)
                    value = real(scalar.value)
                    if value is not None:
                        yield CheckpointScore(run, scalar.step, name, value, real(scalar.time) or 0.0)
        except DamagedRecordError as damage:
            if not any_scalar:
                raise InputError(f"{file.path}: {damage}, before any scalar; the file is damaged") from damage
            options.notes.append(f"{file.path}: {damage}; what comes after is not read")
        except OSError as error:
            raise InputError(f"{file.path}: cannot be read ({error.strerror})") from error


class _EventFolder:
    """What the folder of an event file says about its run."""

    def __init__(self, folder: Path) -> None:
        output = folder.parent.parent
        if folder.parent.name == "runs" and RUNS_FOLDER.fullmatch(folder.name) and _is_trainer_output(output):
            # Each folder below runs is a start of one run.
            folder = output
        self.name = folder.name
        self.is_part = any(folder.parent.glob("*tfevents*")) or (folder.parent / "train").is_dir()
        self.is_stage = self.is_part and STAGE_FOLDER.fullmatch(folder.name) is not None
        self.own, self.above = TrainingRun(folder.as_posix()), TrainingRun(folder.parent.as_posix())

    def run_and_name(self, tag: str) -> tuple[TrainingRun, str]:
        """The run of a value, and what the value is called there."""
        if self.is_stage:
            return self.above, f"{self.name}/{tag}"
        # add_scalars("accuracy", {"hans": ...}) writes to the folder accuracy_hans.
        start = tag.replace("/", "_") + "_"
        if self.is_part and self.name.startswith(start):
            return self.above, f"{self.name.removeprefix(start)}/{tag}"
        return self.own, tag


def _is_trainer_output(folder: Path) -> bool:
    """Whether the Hugging Face trainer wrote here."""
    names = {path.name for path in folder.iterdir()}
    return bool({"trainer_state.json", "training_args.bin"} & names) or any(map(is_checkpoint_folder, names))


def scalars(file: BinaryIO) -> Iterator[Scalar]:
    """Yield the scalars of an event file in the order in which they were written."""
    plugins: dict[bytes, bytes] = {}
    try:
        for record in _records(file):
            yield from _scalars_of_event(record, plugins)
    except (struct.error, IndexError) as error:
        raise DamagedRecordError("holds a record that cannot be decoded") from error


def _scalars_of_event(record: bytes, plugins: dict[bytes, bytes]) -> Iterator[Scalar]:
    """The scalars of one event. ``plugins`` are those of its tags: some writers name them with the first value only."""
    event: Fields = dict(_fields(record))  # a field that occurs several times counts as its last, as the format says
    time, step, summary = event.get(1), event.get(2, 0), event.get(5)
    if not isinstance(summary, bytes) or not isinstance(step, int):
        return
    if step >= 1 << 63:
        step -= 1 << 64
    seconds = struct.unpack("<d", time)[0] if isinstance(time, bytes) and len(time) == 8 else 0.0
    for number, content in _fields(summary):
        if number != 1 or not isinstance(content, bytes):
            continue
        value: Fields = dict(_fields(content))
        tag, metadata = value.get(1), value.get(9)
        if not isinstance(tag, bytes):
            continue
        if isinstance(metadata, bytes):
            plugins[tag] = _message_in(_message_in(metadata))
        if plugins.get(tag, b"") in SCALAR_PLUGINS:
            scalar = _number_in(value)
            if scalar is not None:
                yield Scalar(tag.decode(errors="replace"), step, scalar, seconds)


def _number_in(value: Fields) -> float | None:
    """A number, as ``simple_value`` or as a tensor with one element of type float or double."""
    simple, tensor = value.get(2), value.get(8)
    if isinstance(simple, bytes) and len(simple) == 4:
        return float(struct.unpack("<f", simple)[0])
    if not isinstance(tensor, bytes):
        return None
    fields: Fields = dict(_fields(tensor))
    if fields.get(1) not in NUMBER_TYPES:
        return None
    layout, listed = NUMBER_TYPES[fields.get(1)]
    content = fields.get(4) or fields.get(listed)
    if isinstance(content, bytes) and len(content) == struct.calcsize(layout):
        return float(struct.unpack(layout, content)[0])
    return None


def _message_in(message: bytes) -> bytes:
    """The first field of a message, which is a message or a text itself."""
    inner = dict(_fields(message)).get(1)
    return inner if isinstance(inner, bytes) else b""


def _records(file: BinaryIO) -> Iterator[bytes]:
    """The contents of TFRecords that may hold scalars."""
    while header := file.read(12):
        if len(header) < 12:
            raise DamagedRecordError("ends inside a record")
        length, checksum = struct.unpack("<QI", header)
        if masked_checksum(header[:8]) != checksum:
            raise DamagedRecordError(f"holds a damaged record at byte {file.tell() - 12:,}")
        if length > LONGEST_RECORD:
            file.seek(length + 4, 1)
            continue
        content, footer = file.read(length), file.read(4)
        if len(content) < length or len(footer) < 4:
            raise DamagedRecordError("ends inside a record")
        if masked_checksum(content) != struct.unpack("<I", footer)[0]:
            raise DamagedRecordError(f"holds a damaged record at byte {file.tell() - length - 16:,}")
        yield content


def masked_checksum(content: bytes) -> int:
    """TFRecord's checksum: a CRC-32C, rotated, with a constant added."""
    from google_crc32c import value as crc32c  # no process needs it that reads no event files

    crc: int = crc32c(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


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
        elif kind == 1:
            size = 8
        elif kind == 5:
            size = 4
        else:
            raise struct.error("unknown kind of field")
        if place + size > len(message):
            raise struct.error("field is cut off")
        yield key >> 3, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """A number of seven bits per byte, and the place after it."""
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
