"""The store: a study is a directory, a run a directory in it, a checkpoint one file that is whole or not there.

    DIR/study.yaml                          the study as it was resolved
    DIR/items/<testset>.parquet             the items it is measured on, texts and all
    DIR/runs/<run>/run.json                 what determines the run
    DIR/runs/<run>/step-000064.<sum>.parquet  its answers at a checkpoint; <sum> begins the file's SHA-256
    DIR/aside/                              files that failed their check, set aside

What is done is derived from what is there. A part is never overwritten; one that is torn, or whose content is not
what its name says, is moved to ``aside/`` with a warning, and its work is done again. Files that do not look like
breadth's own (a user's notes) are left where they are.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from breadth.errors import InputError, listed
from breadth.records.soundness import (
    PART,
    SUM_DIGITS,
    checksum,
    make_folder,
    reject,
    remove_leftovers,
    set_aside,
    sound_bytes,
)
from breadth.records.tables import read_table, write_whole

__all__ = ["SUM_DIGITS", "RunStore", "StudyStore", "checksum", "is_study", "open_study", "set_aside"]

_FAULT = "is torn or was changed (its checksum is wrong)"
_PART_SCHEMA = {
    "testset": pl.String,
    "item": pl.String,
    "correct": pl.Float32,
    "margin": pl.Float32,
    "answer": pl.String,
}


@dataclass
class RunStore:
    """One run's directory: what determines it, and an answer file per checkpoint."""

    folder: Path
    warnings: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The run's name: the name of its directory."""
        return self.folder.name

    def spec(self) -> dict[str, Any]:
        """What determines the run, as it was written when the run began."""
        path = self.folder / "run.json"
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read ({error}); `breadth run` writes it again") from error
        if not isinstance(found, dict):
            raise InputError(f"{path}: does not describe a run; `breadth run` writes it again")
        return found

    def write_spec(self, spec: Mapping[str, Any]) -> None:
        """Write what determines the run, once; a file that says anything else is set aside."""
        path = self.folder / "run.json"
        try:
            if json.loads(path.read_bytes()) == spec:
                return
        except FileNotFoundError:
            make_folder(self.folder)
        except (OSError, ValueError):
            pass
        if path.exists():
            self._reject(path, "is torn or was changed", "It is written again")
        text = json.dumps(spec, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
        write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def parts(self) -> dict[int, Path]:
        """Steps that have an answer file, in order, without looking into the files."""
        return {step: paths[0] for step, paths in self._candidates().items()}

    def sound_parts(self) -> dict[int, Path]:
        """Like ``parts``, but only files that are what their names say. Changes nothing."""
        found = {}
        for step, paths in self._candidates().items():
            for path in paths:
                if sound_bytes(path) is not None:
                    found[step] = path
                    break
        return found

    def sound_part(self, step: int) -> bytes | None:
        """The content of one checkpoint's file; None if there is none that is what its name says."""
        contents = (sound_bytes(path) for path in self._candidates().get(step, []))
        return next((content for content in contents if content is not None), None)

    def mend(self) -> None:
        """Set aside what is damaged, and delete what an interrupted write left. Only for who holds the run's lock."""
        remove_leftovers(self.folder)
        for path in sorted(self.folder.glob("step-*")):
            if sound_bytes(path) is None:
                self._reject(path, _FAULT, "The checkpoint will be evaluated again")

    def read_part(self, path: Path) -> pl.DataFrame | None:
        """Answers of a checkpoint; None, and the file set aside, if it is not what its name says."""
        content = sound_bytes(path)
        if content is not None:
            return pl.read_parquet(io.BytesIO(content))
        if path.exists():
            self._reject(path, _FAULT, "The checkpoint will be evaluated again by `breadth run`")
        return None

    def write_part(self, step: int, answers: pl.DataFrame) -> Path:
        """Write the answers of a checkpoint whole: columns testset, item, correct, margin, answer."""
        frame = answers.select(pl.col(name).cast(dtype) for name, dtype in _PART_SCHEMA.items())
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", statistics=False)
        return self.write_part_bytes(step, buffer.getvalue())

    def write_part_bytes(self, step: int, content: bytes) -> Path:
        """Write the bytes of a part under the name that carries their sum."""
        path = self.folder / f"step-{step:06d}.{checksum(content)}.parquet"
        write_whole(path, lambda temporary: temporary.write_bytes(content))
        return path

    def _candidates(self) -> dict[int, list[Path]]:
        found: dict[int, list[Path]] = {}
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else []:
            match = PART.match(path.name)
            if match:
                found.setdefault(int(match[1]), []).append(path)
        return dict(sorted(found.items()))

    def _reject(self, path: Path, fault: str, remedy: str) -> None:
        self.warnings.append(reject(path, self.folder.parents[1] / "aside", fault, remedy))


@dataclass
class StudyStore:
    """A study's directory."""

    folder: Path
    warnings: list[str] = field(default_factory=list)

    def run(self, name: str) -> RunStore:
        """The store of one run; it need not exist yet."""
        return RunStore(self.folder / "runs" / name)

    def runs(self) -> list[RunStore]:
        """Every run that has begun."""
        folder = self.folder / "runs"
        return (
            [RunStore(path) for path in sorted(folder.iterdir()) if (path / "run.json").exists()]
            if folder.is_dir()
            else []
        )

    def testsets(self) -> dict[str, Path]:
        """Test sets whose items are stored."""
        folder = self.folder / "items"
        # An interrupted write leaves a hidden file behind.
        paths = [path for path in sorted(folder.glob("*.parquet")) if not path.name.startswith(".")]
        return {path.stem: path for path in paths}

    def read_items(self, testset: str) -> pl.DataFrame:
        """The items of a test set."""
        return read_table(self.testsets()[testset]).frame

    def write_items(self, testset: str, items: pl.DataFrame) -> None:
        """Store the items of a test set, once; other items under the same name are refused."""
        path = self.folder / "items" / f"{testset}.parquet"
        before = None
        if path.exists():
            try:
                before = self.read_items(testset)
            except InputError:
                fault, remedy = "is torn or was changed (it cannot be read)", "It is written again"
                self.warnings.append(reject(path, self.folder / "aside", fault, remedy))
        if before is None:
            buffer = io.BytesIO()
            items.write_parquet(buffer)
            make_folder(path.parent)
            write_whole(path, lambda temporary: temporary.write_bytes(buffer.getvalue()))
            return
        if before.equals(items):
            return
        old, new = set(before["item"]), set(items["item"])
        gone, come = sorted(old - new), sorted(new - old)
        what = (
            f"{len(gone)} are gone (such as {listed(gone[:3])}) and {len(come)} are new (such as {listed(come[:3])})"
            if gone or come
            else "the same items have other texts, labels or columns"
        )
        raise InputError(
            f"{self.folder}: the items of {testset!r} are not those the study began with: {what}. "
            "Bring the data back, or start a new study directory"
        )


def is_study(source: object) -> bool:
    """Whether a path is the directory of a study."""
    try:
        folder = Path(source)  # type: ignore[arg-type]
    except TypeError:
        return False
    begun = [(folder / name).is_dir() for name in ("runs", "items")]
    return all(begun) or (any(begun) and (folder / "study.yaml").is_file())


def open_study(source: str | os.PathLike[str]) -> StudyStore:
    """The store of a study that is there; any other directory is refused."""
    folder = Path(source)
    if not is_study(folder):
        raise InputError(
            f"{folder}: is not the directory of a study (it has no runs/ and items/); `breadth run` makes one"
        )
    return StudyStore(folder)
