"""The store of a study: what each file is called, what is in it, and when it is damaged.

    study.yaml                              the study as it was resolved; its last line is its checksum
    items/<testset>.<sum>.parquet           the items it is measured on, with their texts
    runs/<run>/run.json                     what determines the run, with its checksum
    runs/<run>/step-000064.<sum>.parquet    its answers at a checkpoint; <sum> begins the file's SHA-256
    aside/                                  damaged files, moved out of the way

What is done is derived from what is there. A part is never overwritten. Readers report a damaged file and leave it;
only ``breadth run`` moves it to ``aside/`` and does its work again. Damaged is a file whose checksum is wrong, and what
stands in place of a file and is none, such as a link. A file that the system does not let anybody read (no permission,
a disk that fails, too many open files) may be sound: that stops whoever needs it, with the reason.

Files that do not look like breadth's own (a user's notes) are left alone. Items, records and studies from before they
had checksums are read as they are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from breadth.boundary import is_directory, is_file, reading
from breadth.errors import InputError, escape_bytes, listed
from breadth.records.files import (
    DAMAGED,
    MISSING_FILE,
    SEAL,
    SUM_DIGITS,
    DamagedError,
    LocalStore,
    checksum,
    sealed,
    unsealed,
)
from breadth.records.imported import MANIFEST
from breadth.records.schemas import ITEMS

_PART = re.compile(rf"^step-([0-9]+)\.([0-9a-f]{{{SUM_DIGITS}}})\.parquet$")
_ITEMS = re.compile(rf"^(.+?)(?:\.([0-9a-f]{{{SUM_DIGITS}}}))?\.parquet$")
_SEAL = b"# checksum: "
_SUM_AT_END = re.compile(rb"[0-9a-f]{%d}\s*$" % SUM_DIGITS)
PART_SCHEMA = {
    "testset": pl.String,
    "item": pl.String,
    "correct": pl.Float32,
    "margin": pl.Float32,
    "answer": pl.String,
}

#: What of a run's record describes every one of its subjects.
SUBJECT_KEYS = ("model", "train_set", "examples", "seed", "train_level", "strategy", "method")

_AGAIN = "`breadth run` writes it again"

#: Whole numbers of a table are below this.
LARGEST = 1 << 63

_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("examples", "seed", "train_level"), (int, type(None))),
    **dict.fromkeys(("train_set", "strategy", "method"), (str, type(None))),
    **dict.fromkeys(("recipe", "evaluate", "tasks", "own_sets"), (dict,)),
    **dict.fromkeys(("difficulty", "start", "endpoint", "mix"), (dict, type(None))),
    "model": (str,),
    "checkpoints": (list,),
}


def set_of_testset(testset: str, names: Iterable[str]) -> str:
    """The data set among ``names`` that a test set is, or is a part of: parts are named after their set.

    >>> set_of_testset("hans.constituent", ["mnli", "hans"]), set_of_testset("hans", ["hans"])
    ('hans', 'hans')
    """
    known = list(names)
    if testset in known:
        return testset
    around = [name for name in known if testset.startswith(f"{name}.")]
    return max(around, key=len, default=testset)


@dataclass(frozen=True)
class RunRecord:
    """What determines a run, and the steps at which it is evaluated.

    ``examples`` counts training examples, or those in the prompt of a few-shot run; ``start`` is what the model learns
    before step 0. ``mix`` has the shares of the sets if ``train_set`` is a mixture (``mnli+hans``). ``endpoint`` has
    the address of a model that was asked over HTTP, and its name there.
    """

    model: str
    train_set: str | None = None
    examples: int | None = None
    seed: int | None = None
    train_level: int | None = None
    strategy: str | None = None
    method: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    evaluate: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Any] = field(default_factory=dict)
    own_sets: Mapping[str, Any] = field(default_factory=dict)
    difficulty: Mapping[str, Any] | None = None
    start: Mapping[str, Any] | None = None
    endpoint: Mapping[str, Any] | None = None
    mix: Mapping[str, float] | None = None
    checkpoints: tuple[int, ...] = ()

    @property
    def start_examples(self) -> int:
        """Examples that the model learns before step 0."""
        return int((self.start or {}).get("examples", 0))

    def task_of(self, testset: str) -> Mapping[str, Any]:
        """How a test set is prompted and scored; empty if that is not recorded."""
        return dict(self.tasks.get(set_of_testset(testset, self.tasks)) or {})

    def specification(self) -> dict[str, Any]:
        """What the run's name is a hash of: everything but the checkpoints, and start, endpoint and mix if absent."""
        values = dataclasses.asdict(self)
        absent = {"checkpoints", *(key for key in ("start", "endpoint", "mix") if values[key] is None)}
        return {key: value for key, value in values.items() if key not in absent}

    def to_json(self) -> bytes:
        """The content of ``run.json``."""
        values = {**self.specification(), "checkpoints": list(self.checkpoints)}
        return sealed(values)

    @classmethod
    def parse(cls, content: bytes, where: str) -> RunRecord:
        """Read the content of ``run.json``; ``where`` is what messages call the file."""
        try:
            values = json.loads(content)
            json.dumps(values, ensure_ascii=False).encode()  # half a character is no text
        except (ValueError, RecursionError) as error:
            raise DamagedError(f"{where}: is not JSON ({error}); {_AGAIN}") from error
        if not isinstance(values, dict):
            raise DamagedError(f"{where}: does not describe a run; {_AGAIN}")
        if "shots" in values:
            raise InputError(
                f"{where}: was written by breadth 0.1, which this version does not read; run the study again into a "
                "new directory"
            )
        values.pop(SEAL, None)
        problems = [f"{key!r} is not a key of a run" for key in values if key not in _TYPES]
        for key, value in values.items():
            fits = type(value) in _TYPES.get(key, (type(value),))  # so true and false are not numbers
            steps = value if key == "checkpoints" and fits else ()
            fits &= not isinstance(value, int) or abs(value) < LARGEST
            if not fits or not all(type(step) is int and 0 <= step < LARGEST for step in steps):
                problems.append(f"{key} is {value!r}"[:80])
        problems += ["model is missing"] if "model" not in values else []
        if problems:
            raise DamagedError(f"{where}: does not describe a run ({'; '.join(problems)}); {_AGAIN}")
        if unsealed(content) is None:
            raise DamagedError(f"{where}: is damaged or was changed (its checksum is wrong); {_AGAIN}")
        return cls(**{**values, "checkpoints": tuple(values.get("checkpoints") or ())})


class RunStore:
    """One run: what determines it, and a file of answers per checkpoint."""

    def __init__(self, store: LocalStore, name: str) -> None:
        self.store, self.name = store, name
        self.key = f"runs/{name}"
        self.folder = store.root / self.key
        self.warnings: list[str] = []

    def record(self) -> RunRecord:
        """What determines the run, as it was written when the run began."""
        self.check_name()
        key, path = f"{self.key}/run.json", self.folder / "run.json"
        content = self.store.read(key)
        if content is None:
            raise DamagedError(f"{path}: {self.store.fault(key) or MISSING_FILE}; {_AGAIN}")
        return RunRecord.parse(content, str(path))

    def check_name(self) -> None:
        """Refuse a run whose name tables and JSON cannot hold: breadth made none of such a name."""
        if not is_utf8(self.name):
            raise InputError(f"{self.folder}: the name of the run is not UTF-8; give the directory another name")

    def write_record(self, record: RunRecord) -> None:
        """Write what determines the run, once; a file that says anything else is set aside. Checkpoints may change."""
        key, content = f"{self.key}/run.json", record.to_json()
        there = self.store.read(key)
        if there == content:
            return
        same = False
        if there is not None:
            with suppress(DamagedError):
                same = RunRecord.parse(there, str(self.folder / "run.json")).specification() == record.specification()
        if not same:
            fault = self.store.fault(key) or "is damaged or was changed"
            self.set_aside("run.json", fault, "It is written again")
        self.store.write(key, content)

    def parts(self) -> dict[int, str]:
        """Names of the files of answers by step, in order, without looking into them."""
        steps: dict[int, str] = {}
        for name in self.store.names(self.key):
            if match := _PART.match(name):
                if int(match[1]) >= LARGEST:
                    raise InputError(
                        f"{self.folder / name}: its step is larger than a table can hold; the file is not one of "
                        "breadth's"
                    )
                steps.setdefault(int(match[1]), name)
        return dict(sorted(steps.items()))

    def part_path(self, step: int) -> Path:
        """Where the answers of a checkpoint are."""
        return self.folder / self.parts()[step]

    def sound_part(self, step: int) -> bytes | None:
        """The content of a checkpoint's file; None if there is none whose checksum is right."""
        names = [name for name in self.store.names(self.key) if (match := _PART.match(name)) and int(match[1]) == step]
        contents = (self.read_sound(name) for name in names)
        return next((content for content in contents if content is not None), None)

    def sound_steps(self) -> list[int]:
        """Checkpoints that have been evaluated: steps with a file whose checksum is right. Changes nothing."""
        return [step for step in self.parts() if self.sound_part(step) is not None]

    def read_sound(self, name: str) -> bytes | None:
        """The content of a part; None if it is not there, is no file (``part_fault``), or its checksum is wrong."""
        match = _PART.match(name)
        content = self.store.read(f"{self.key}/{name}") if match else None
        sound = content is not None and match and hashlib.sha256(content).hexdigest().startswith(match[2])
        return content if sound else None

    def part_fault(self, name: str) -> str:
        """Why a part cannot be used."""
        return self.store.fault(f"{self.key}/{name}") or DAMAGED

    def log(self, **values: Any) -> None:
        """Add a line of JSON with the time to the run's log, which is not part of the results."""
        self.store.append(f"{self.key}/log.jsonl", json.dumps({**values, "time": time.time()}).encode())

    def repair(self) -> None:
        """Set damaged files aside and delete unfinished ones. Only for the holder of the run's lock."""
        self.store.clean(self.key)
        for name in self.store.names(self.key):
            if name.startswith("step-") and self.read_sound(name) is None:
                self.set_aside(name, self.part_fault(name), "The checkpoint will be evaluated again")

    def write_part(self, step: int, answers: pl.DataFrame) -> Path:
        """Write the answers of a checkpoint: columns testset, item, correct, margin, answer."""
        frame = answers.select(pl.col(name).cast(dtype) for name, dtype in PART_SCHEMA.items())
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", statistics=False)
        return self.write_part_bytes(step, buffer.getvalue())

    def write_part_bytes(self, step: int, content: bytes) -> Path:
        """Write the bytes of a part under the name that carries their checksum."""
        key = f"{self.key}/step-{step:06d}.{checksum(content)}.parquet"
        self.store.write(key, content)
        return self.store.root / key

    def set_aside(self, name: str, fault: str, remedy: str) -> None:
        """Move one of the run's files out of the way, and keep a warning about it."""
        self.warnings += _set_aside(self.store, f"{self.key}/{name}", fault, remedy)


class StudyStore:
    """A study's directory, which need not exist yet."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.store = LocalStore(self.folder)
        self.warnings: list[str] = []

    def run(self, name: str) -> RunStore:
        """The store of one run; it need not exist yet."""
        return RunStore(self.store, name)

    def runs(self) -> list[RunStore]:
        """Every run that has begun."""
        runs = []
        for name in self.store.names("runs"):
            if "run.json" in self.store.names(f"runs/{name}"):
                run = RunStore(self.store, name)
                run.check_name()
                runs.append(run)
        return runs

    def read_study(self) -> str | None:
        """The resolved study; None if there is none. One that is damaged or was changed is an error."""
        content, path = self.store.read("study.yaml"), self.folder / "study.yaml"
        if content is None:
            fault = self.store.fault("study.yaml")
            if fault in (None, MISSING_FILE):
                return None
            raise DamagedError(f"{path}: {fault}; {_AGAIN}")
        text, seal, last = content.rpartition(_SEAL)
        if content and not seal and not _SUM_AT_END.search(content):
            return content.decode(errors="replace")
        if last.strip() != checksum(text).encode():
            raise DamagedError(f"{path}: is damaged or was changed (its checksum is wrong); {_AGAIN}")
        return text.decode(errors="replace")

    def write_study(self, text: str) -> None:
        """Write the resolved study, if it is not there already."""
        content = text.encode() + _SEAL + checksum(text.encode()).encode() + b"\n"
        if self.store.read("study.yaml") != content:
            self.store.write("study.yaml", content)

    def item_files(self) -> dict[str, list[str]]:
        """Keys of the files of items by test set, without looking into them."""
        files: dict[str, list[str]] = {}
        for name in self.store.names("items"):
            match = _ITEMS.match(name)
            if match is None:
                continue
            if not is_utf8(name):
                raise InputError(
                    f"{self.folder / 'items' / name}: the name of the test set is not UTF-8, so breadth did not write "
                    "this file; move it out of the study"
                )
            files.setdefault(match[1], []).append(f"items/{name}")
        return files

    def read_items(self, testset: str) -> pl.DataFrame:
        """The items of a test set."""
        for key in (keys := self.item_files().get(testset, [])):
            content, match = self.store.read(key), _ITEMS.match(PurePosixPath(key).name)
            if content is None or not match or match[2] not in (None, checksum(content)):
                continue
            try:
                return _items_of_file(content, testset, self.folder / key)
            except InputError as error:
                # With a checksum that is right nothing is damaged: memory may be short, or somebody wrote the file.
                if match[2] is None:
                    raise DamagedError(str(error)) from error
                raise
        if not keys:
            raise InputError(f"{self.folder}: the items of {testset!r} are missing; `breadth run` writes them again")
        raise DamagedError(f"{self.folder / keys[0]}: {self.store.fault(keys[0]) or DAMAGED}; {_AGAIN}")

    def write_items(self, testset: str, items: pl.DataFrame, *, may_grow: bool = False) -> None:
        """Store the items of a test set, once; other items under the same name are refused.

        With ``may_grow``, new items are added to those that are there: more runs have more training examples.
        """
        before, files = None, self.item_files().get(testset, [])
        try:
            before = self.read_items(testset) if files else None
        except DamagedError:
            for key in files:
                fault = self.store.fault(key) or DAMAGED
                self.warnings += _set_aside(self.store, key, fault, "It is written again")
        if before is None:
            self._write_item_file(testset, items)
            return
        if may_grow:
            added = items.filter(~pl.col("item").is_in(before["item"].implode()))
            known = items.filter(pl.col("item").is_in(before["item"].implode()))
            if before.filter(pl.col("item").is_in(known["item"].implode())).equals(known):
                if added.height:
                    self._write_item_file(testset, pl.concat([before, added], how="diagonal_relaxed").sort("item"))
                    for key in files:
                        self.store.delete(key)
                return
        if before.equals(items):
            return
        old, new = set(before["item"]), set(items["item"])
        gone, come = sorted(old - new), sorted(new - old)
        sides = [(gone, "gone"), (come, "new")]
        parts = [f"{len(names):,} {word} (such as {listed(names[:3])})" for names, word in sides if names]
        what = " and ".join(parts) or "their texts, labels or columns have changed"
        raise InputError(
            f"{self.folder}: the items of {testset!r} differ from those the study began with: {what}. "
            "Restore the data, or start a new study directory"
        )

    def _write_item_file(self, testset: str, items: pl.DataFrame) -> None:
        buffer = io.BytesIO()
        items.write_parquet(buffer)
        content = buffer.getvalue()
        self.store.write(f"items/{testset}.{checksum(content)}.parquet", content)


def _items_of_file(content: bytes, testset: str, path: Path) -> pl.DataFrame:
    """The items in a file, whose name need not carry a checksum: older versions wrote none."""
    with reading(path):
        frame = pl.read_parquet(io.BytesIO(content))
    _check_item_columns(frame, path)
    with reading(path):
        named = pl.col("testset") if "testset" in frame.columns else pl.lit(testset).alias("testset")
        frame = frame.with_columns(named.cast(pl.String), pl.col("item").cast(pl.String))
    check_item_names(frame, path)
    return frame


def _check_item_columns(items: pl.DataFrame, path: Path) -> None:
    """Refuse items in which a column that analyses use is of another kind than breadth writes, checksum or not."""
    for name, dtype in ITEMS.items():
        held = items.schema.get(name, pl.Null())
        fits = held.is_numeric() if dtype.is_numeric() else not held.is_nested() and not held.is_temporal()
        if held != pl.Null and (not fits or held == pl.Binary):
            raise InputError(
                f"{path}: column {name!r} holds {held}, not {dtype.__name__}; the file is not one of breadth's"
            )


def read_answers(content: bytes, path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Some columns of a part; refused where a column has another type than breadth writes, checksum or not."""
    with reading(path):
        schema = pl.read_parquet_schema(io.BytesIO(content))
    for name, dtype in PART_SCHEMA.items():
        if schema.get(name) != dtype:
            raise InputError(
                f"{path}: column {name!r} holds {schema.get(name, 'nothing')}, not {dtype}; the file is not one of "
                "breadth's"
            )
    with reading(path):
        answers = pl.read_parquet(io.BytesIO(content), columns=list(columns))
    # What nobody can be right by would make accuracies that are none; NaN stands for no answer.
    wrong = answers.filter(pl.col("correct").is_not_nan() & ~pl.col("correct").is_between(0, 1))
    if wrong.height:
        raise InputError(
            f"{path}: column 'correct' holds {wrong['correct'][0]:g}, not a number from 0 (wrong) to 1 (right); the "
            "file is not one of breadth's"
        )
    return answers


def check_item_names(items: pl.DataFrame, path: Path) -> None:
    """Refuse a part or items in which an item has no name, or occurs twice: nobody could say which counts."""
    if items.select(pl.any_horizontal(pl.col("testset", "item").is_null()).any()).item():
        raise InputError(f"{path}: an item or a test set has no name; the file is not one of breadth's")
    repeated = items.select("testset", "item").is_duplicated()
    if repeated.any():
        testset, item = items.filter(repeated).row(0)[:2]
        raise InputError(f"{path}: item {item!r} of {testset} occurs more than once; the file is not one of breadth's")


def is_utf8(name: str) -> bool:
    """Whether a file's name is text. Tables and JSON cannot hold any other."""
    return escape_bytes(name) == name


def is_study(source: object) -> bool:
    """Whether a path is the directory of a study, run or imported."""
    try:
        folder = Path(source)  # type: ignore[arg-type]
    except TypeError:
        return False
    begun = [is_directory(folder / name) for name in ("runs", "items")]
    resolved, imported = (is_file(folder / name) for name in ("study.yaml", MANIFEST))
    return imported or all(begun) or (any(begun) and resolved)


def is_announced(folder: Path) -> bool:
    """Whether a directory holds a study that ``breadth run`` has written, whether or not anything else is there yet."""
    try:
        content = LocalStore(folder).read("study.yaml")
    except InputError:
        return False
    return content is not None and _SEAL in content and _SUM_AT_END.search(content) is not None


def _set_aside(store: LocalStore, key: str, fault: str, remedy: str) -> list[str]:
    """Move a damaged file out of the way; returns the warning, or none if the file was not there any more."""
    if fault == MISSING_FILE:
        return []
    moved = store.set_aside(key)
    return [f"{store.root / key}: {fault}; moved to {moved}. {remedy}"] if moved else []
