"""The store: a study is a directory, a run a directory in it, a checkpoint one file that is whole or not there.

    DIR/study.yaml                          the study as it was resolved
    DIR/items/<testset>.parquet             the items it is measured on, texts and all
    DIR/runs/<run>/run.json                 what determines the run
    DIR/runs/<run>/step-000064.<sum>.parquet  its answers at a checkpoint; <sum> begins the file's SHA-256
    DIR/aside/                              files that failed their check, set aside

What is done is derived from what is there. A part is never overwritten; one that is torn, or whose content is not
what its name says, is moved to ``aside/`` with a warning, and its work is done again.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from breadth.errors import InputError, listed
from breadth.records.tables import read_table, write_whole

#: Hexadecimal digits of a part's SHA-256 that its name carries.
SUM_DIGITS = 16

_PART = re.compile(rf"^step-(\d+)\.([0-9a-f]{{{SUM_DIGITS}}})\.parquet$")
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
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{path}: cannot be read ({error}); delete the directory of this run to do it again"
            ) from error
        if not isinstance(found, dict):
            raise InputError(f"{path}: does not describe a run; delete the directory of this run to do it again")
        return found

    def write_spec(self, spec: Mapping[str, Any]) -> None:
        """Write what determines the run, once."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "run.json"
        if not path.exists():
            text = json.dumps(spec, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
            write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))

    def parts(self) -> dict[int, Path]:
        """Steps that have an answer file, in order, without looking into the files."""
        if not self.folder.is_dir():
            return {}
        found = {}
        for path in sorted(self.folder.iterdir()):
            match = _PART.match(path.name)
            if match:
                found[int(match[1])] = path
        return dict(sorted(found.items()))

    def sound_parts(self) -> dict[int, Path]:
        """Like ``parts``, but every file is checked against its sum, and one that fails is set aside."""
        return {step: path for step, path in self.parts().items() if self._sound_bytes(path) is not None}

    def read_part(self, path: Path) -> pl.DataFrame | None:
        """Answers of a checkpoint; None, and the file set aside, if it is not what its name says."""
        content = self._sound_bytes(path)
        return None if content is None else pl.read_parquet(io.BytesIO(content))

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

    def _sound_bytes(self, path: Path) -> bytes | None:
        match = _PART.match(path.name)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        if match and checksum(content) == match[2]:
            return content
        aside = set_aside(path, self.folder.parents[1] / "aside")
        self.warnings.append(
            f"{path}: is torn or was changed (its checksum is wrong); moved to {aside}. "
            "The checkpoint will be evaluated again by `breadth run`"
        )
        return None


@dataclass
class StudyStore:
    """A study's directory."""

    folder: Path

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
        return {path.stem: path for path in sorted(folder.glob("*.parquet"))} if folder.is_dir() else {}

    def read_items(self, testset: str) -> pl.DataFrame:
        """The items of a test set."""
        return read_table(self.testsets()[testset]).frame

    def write_items(self, testset: str, items: pl.DataFrame) -> None:
        """Store the items of a test set, once; other items under the same name are refused."""
        path = self.folder / "items" / f"{testset}.parquet"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, items.write_parquet)
            return
        before = self.read_items(testset)
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


def checksum(content: bytes) -> str:
    """First digits of the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()[:SUM_DIGITS]


def set_aside(path: Path, folder: Path) -> Path:
    """Move a damaged file out of the way, under a name that is not taken."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{path.parent.name}.{path.name}"
    target = next(folder / f"{stem}.{k}" for k in range(10**6) if not (folder / f"{stem}.{k}").exists())
    path.rename(target)
    return target


def is_study(source: object) -> bool:
    """Whether a path is the directory of a study."""
    try:
        folder = Path(source)  # type: ignore[arg-type]
    except TypeError:
        return False
    begun = [(folder / name).is_dir() for name in ("runs", "items")]
    return all(begun) or (any(begun) and (folder / "study.yaml").is_file())
