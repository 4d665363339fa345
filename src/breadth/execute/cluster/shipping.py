"""What travels to the workers of a cluster: the study's data, outputs on their way back, models where they are missing.

Nothing here knows Ray, and workers need no disk in common. Whatever a worker makes is sealed where it is made, with a
checksum of its bytes and of what they are: of which run, step and cells. Whoever uses it compares both: neither memory
or a network that changes a byte, nor a worker that mixes up its tasks, may change a result.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from filelock import FileLock
from safetensors import SafetensorError
from safetensors.numpy import load, save

from breadth.datasets import Examples, Loaded
from breadth.execute.cluster.tasks import Cell
from breadth.execute.data import StudyData, run_testsets
from breadth.lm import BUILT_IN, Outputs, Weights, convert_pickled, fault_of, has_safetensors, locate
from breadth.lm.models import cache_root
from breadth.records import checksum
from breadth.study import RunSpec, start_key

#: What answers have besides the test set and the item.
SCORE_COLUMNS = ("correct", "margin", "answer")

#: Bytes of a model's file that are one object.
CHUNK = 256 * 2**20


@dataclass(frozen=True)
class ShippedData:
    """The data of some runs, drawn on the driver: the same items for every worker, and no files to read."""

    runs: Mapping[str, RunSpec]
    testsets: Mapping[str, Loaded]
    _training: Mapping[str, Examples] = field(default_factory=dict)
    _starts: Mapping[str, Examples] = field(default_factory=dict)
    _ordered: frozenset[str] = frozenset()

    @classmethod
    def of(cls, runs: Iterable[RunSpec], data: StudyData) -> ShippedData:
        """What the runs need of a study's data."""
        every = {run.name: run for run in runs}
        return cls(
            every,
            data.testsets,
            {name: data.training(run) for name, run in every.items() if run.train_set},
            {name: data.start(run) for name, run in every.items() if run.start},
            frozenset(name for name, run in every.items() if data.keeps_order(run)),
        )

    def testsets_of(self, run: RunSpec) -> dict[str, Loaded]:
        """What a run is evaluated on by name, in order."""
        return run_testsets(run, self)

    def training(self, run: RunSpec) -> Examples:
        """The training examples of a run."""
        return self._training[run.name]

    def start(self, run: RunSpec) -> Examples:
        """The examples of a run's start."""
        return self._starts[run.name]

    def keeps_order(self, run: RunSpec) -> bool:
        """Whether every epoch goes through the examples in the given order."""
        return run.name in self._ordered


class DamagedShipmentError(Exception):
    """What arrived is not what was sent, or not what was asked for."""


class Origin(NamedTuple):
    """What some bytes are (a plural, for messages), and of which run, step and cells.

    The weights of a start belong to all runs that begin with it: there, ``run`` is the key of the start.
    """

    what: str
    run: str
    step: int
    cells: tuple[Cell, ...] = ()

    def __str__(self) -> str:
        """For messages."""
        text = f"{self.what} of {self.run}, step {self.step}"
        if self.cells:
            text += f", {', '.join(f'{cell.testset} {cell.index + 1}/{cell.of}' for cell in self.cells)}"
        return text


class Sealed(NamedTuple):
    """Bytes and what they are, with the checksum that both had where they were made."""

    content: bytes
    origin: Origin
    seal: str


def seal(content: bytes, origin: Origin) -> Sealed:
    """Seal what was just made."""
    return Sealed(content, origin, _seal_of(content, origin))


def unseal(sealed: Any, *expected: Origin) -> bytes:
    """The bytes as they were made; they must be what one of the ``expected`` origins says."""
    what = expected[0].what
    if not isinstance(sealed, Sealed) or not isinstance(sealed.content, bytes):
        raise DamagedShipmentError(f"{what} did not arrive")
    if _seal_of(sealed.content, sealed.origin) != sealed.seal:
        raise DamagedShipmentError(f"{what} arrived with another checksum than they were sent with")
    if sealed.origin not in expected:
        raise DamagedShipmentError(f"{str(sealed.origin)[:200]}: arrived instead of {str(expected[0])[:200]}")
    return sealed.content


def _seal_of(content: bytes, origin: Origin) -> str:
    """A checksum of both; the bytes, which may be gigabytes, are not copied."""
    return checksum(f"{checksum(content)} {origin!r}".encode("utf-8", "surrogatepass"))


def start_origin(run: RunSpec) -> Origin:
    """What the weights of a run's start are."""
    return Origin("the weights of the start", start_key(run), run.start_steps())


def answers_origin(run: str, step: int, cells: Iterable[Cell]) -> Origin:
    """What the answers of a checkpoint are; outputs arrive in any order, so that of the cells means nothing."""
    return Origin("the answers", run, step, tuple(sorted(cells, key=lambda cell: (cell.testset, cell.index))))


def pack_answers(answers: pl.DataFrame, origin: Origin) -> Sealed:
    """The answers of a checkpoint, sealed."""
    buffer = io.BytesIO()
    answers.write_ipc(buffer)
    return seal(buffer.getvalue(), origin)


def unpack_answers(sealed: Any, origin: Origin, expected: pl.DataFrame) -> pl.DataFrame:
    """The answers of a checkpoint; they must be those to the ``expected`` items (testset, item), in the same order."""
    content = unseal(sealed, origin)
    try:
        answers = pl.read_ipc(io.BytesIO(content))
        items = answers.select(pl.col("testset", "item").cast(pl.String))
    except pl.exceptions.PolarsError as error:
        raise DamagedShipmentError("the answers are no table of answers") from error
    if not set(SCORE_COLUMNS) <= set(answers.columns):
        raise DamagedShipmentError(f"the answers lack columns; they have {', '.join(answers.columns)[:200]}")
    if not items.equals(expected.select(pl.col("testset", "item").cast(pl.String))):
        raise DamagedShipmentError(
            f"the answers are {answers.height:,}, and not those to the {expected.height:,} items"
        )
    return answers


#: Outputs by cell of a checkpoint.
Pieces = dict[Cell, Outputs]


def pack_pieces(pieces: Pieces) -> bytes:
    """Outputs as bytes: numbers as they are, texts as JSON; never a pickle."""
    arrays: dict[str, Any] = {}
    for cell, outputs in pieces.items():
        name = f"{cell.testset}/{cell.index}/{cell.of}"
        texts = isinstance(outputs.values, list)
        values = np.frombuffer(json.dumps(outputs.values).encode(), np.uint8) if texts else outputs.values
        arrays[f"index/{name}"] = np.asarray(outputs.index, dtype=np.int64)
        arrays[f"{'texts' if texts else 'values'}/{name}"] = np.ascontiguousarray(values)
    return bytes(save(arrays))


def unpack_pieces(content: bytes, cells: Iterable[Cell]) -> Pieces:
    """The outputs for those of the ``cells`` that the bytes hold; nothing if they are not what ``pack_pieces`` made."""
    try:
        arrays = load(content)
    except SafetensorError:
        return {}
    pieces: Pieces = {}
    for cell in cells:
        name = f"{cell.testset}/{cell.index}/{cell.of}"
        if f"index/{name}" in arrays:
            index = arrays[f"index/{name}"].tolist()
            texts = arrays.get(f"texts/{name}")
            values = arrays[f"values/{name}"] if texts is None else json.loads(texts.tobytes())
            pieces[cell] = Outputs(index, values)
    return pieces


@dataclass(frozen=True)
class ModelFiles:
    """The files of a local model with their sizes, and a hash that names their content."""

    folder: str
    sizes: Mapping[str, int]
    digest: str

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(self.sizes.values())


def local_files(model: str, weights: Weights = "safetensors") -> ModelFiles | None:
    """The files of a model that lies in a directory of this machine; None for one of the Hub.

    Pickled weights are converted here, so that workers get safetensors.
    """
    folder = Path(locate(model)[0])
    if model in BUILT_IN and fault_of(folder) is not None:
        return None
    if not folder.is_dir():
        return None
    if weights == "bin" and not has_safetensors(folder):
        folder = convert_pickled(folder)
    folder = folder.resolve()
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
    digest = hashlib.sha256()
    for name, size in sizes.items():
        digest.update(f"{name} {size}\n".encode())
        with (folder / name).open("rb") as file:  # weights of the same sizes differ in their first megabyte, too
            digest.update(file.read(2**20))
    return ModelFiles(str(folder), sizes, digest.hexdigest()[:16])


def has_files(files: ModelFiles, folder: Path) -> bool:
    """Whether a directory holds the files, judged by their sizes."""
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == size for name, size in files.sizes.items()
    )


def shipped_folder(files: ModelFiles) -> Path:
    """Where a node keeps a model that was sent to it."""
    return cache_root() / "shipped" / files.digest


def read_chunks(files: ModelFiles) -> Iterable[tuple[str, bytes]]:
    """The files of a model in pieces, in order."""
    for name in files.sizes:
        with (Path(files.folder) / name).open("rb") as file:
            while chunk := file.read(CHUNK):
                yield name, chunk


def write_chunks(files: ModelFiles, chunks: Iterable[tuple[str, bytes]]) -> Path:
    """Write a model that was sent; one worker of a node does it while the others wait."""
    target = shipped_folder(files)
    target.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        if has_files(files, target):
            return target
        with tempfile.TemporaryDirectory(dir=target.parent) as temporary:
            folder = Path(temporary) / "model"
            folder.mkdir()
            for name in files.sizes:
                (folder / name).touch()
            for name, chunk in chunks:
                with (folder / name).open("ab") as file:
                    file.write(chunk)
            if target.exists():
                target.rename(Path(temporary) / "damaged")
            os.replace(folder, target)
    return target
