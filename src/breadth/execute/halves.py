"""Levels of difficulty for training by level: every level cut into a half to train on and a half to test on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.datasets import Loaded, draw_items, draw_shots
from breadth.datasets.shots import places
from breadth.datasets.tasks import Choice, Task, fields_of
from breadth.difficulty import cut_levels
from breadth.errors import InputError, listed
from breadth.irt import Answers, fit_rasch
from breadth.records import read_responses, read_table
from breadth.study.schema import Train

#: Levels to cut into where only strategies are asked for.
DEFAULT_LEVELS = 10


@dataclass(frozen=True)
class LevelHalves:
    """The items of a set with ``difficulty`` and ``level`` (0 is the easiest), cut in two level by level."""

    name: str
    train: pl.DataFrame
    test: pl.DataFrame
    notes: tuple[str, ...] = ()

    @property
    def levels(self) -> list[int]:
        """The levels there are."""
        return sorted(self.train["level"].unique().to_list())

    def shots(self, level: int, n: int, seed: int) -> pl.DataFrame:
        """Training examples of one level, balanced by label where labels are classes."""
        pool = self.train.filter(pl.col("level") == level)
        if pool.height < n:
            raise InputError(
                f"{self.name}, level {level}: has {pool.height} items to train on (the other half is for testing), and "
                f"{n} shots are asked for; ask for fewer, or for fewer levels"
            )
        return draw_shots(pool, n, seed)

    def draw(self, n: int | None, seed: int) -> pl.DataFrame:
        """Test items: as many of every level, ``n`` in all, but at least two of each."""
        if n is None:
            return self.test.sort("item")
        each = max(2, n // len(self.levels))
        parts = [draw_items(self.test.filter(pl.col("level") == level), each, seed) for level in self.levels]
        return pl.concat(parts).sort("item")


def split_levels(pool: Loaded, train: Train, base: Path, seed: int) -> LevelHalves:
    """Give every item its difficulty and level, then cut each level in two by a hash of the seed and the item's id."""
    difficulty, notes = _difficulty(pool, train, base)
    frame = pool.frame.drop("difficulty", "level", strict=False).with_columns(pl.Series("difficulty", difficulty))
    unknown = frame.filter(pl.col("difficulty").is_nan() | pl.col("difficulty").is_null())
    if unknown.height:
        notes.append(f"{unknown.height:,} of {frame.height:,} items have no difficulty and are left out")
        frame = frame.join(unknown.select("item"), on="item", how="anti")
    if not frame.height:
        raise InputError(f"{pool.name}: no item has a difficulty that is a number, so there are no levels")
    wanted = train.levels or DEFAULT_LEVELS
    level = cut_levels(frame["difficulty"].to_numpy(), wanted)
    found = int(level.max()) + 1
    if found < wanted:
        remedy = f"ask for {found} or fewer" if found > 1 else "take another measure of difficulty"
        raise InputError(
            f"{pool.name}: {frame.height:,} items have {frame['difficulty'].n_unique()} different difficulties, which "
            f"makes {found} levels, not {wanted}; {remedy}"
        )
    frame = frame.with_columns(pl.Series("level", level.astype(np.int64)))
    hashed = pl.Series("place", places(frame["item"].to_list(), f"halves {seed}"), dtype=pl.UInt64)
    frame = frame.with_columns(hashed)
    rank, size = (pl.col("place").rank("ordinal").over("level"), pl.len().over("level"))
    frame = frame.with_columns((2 * rank <= size).alias("trained")).drop("place")
    trained, tested = (
        frame.filter(which).drop("trained").sort("item") for which in (pl.col("trained"), ~pl.col("trained"))
    )
    counts = trained.group_by("level").len().sort("level")["len"].to_list()
    small = [k for k in range(wanted) if frame.filter(pl.col("level") == k).height < 4]
    if small:
        raise InputError(
            f"{pool.name}: level {listed(map(str, small))} has too few items to be cut into a train and a test half; "
            "ask for fewer levels"
        )
    notes.append(
        f"{wanted} levels, each cut into a train and a test half; items to train on: {listed(map(str, counts), 100)}"
    )
    kept = held_out(tested, trained, pool.task)
    if kept.height < tested.height:
        notes.append(f"{tested.height - kept.height:,} test items, whose texts are those of train items, left out")
    bare = sorted(set(range(wanted)) - set(kept["level"].to_list()))
    if bare:
        raise InputError(f"{pool.name}: level {listed(map(str, bare))} has no test item that is not also trained on")
    return LevelHalves(pool.name, trained, kept, tuple(notes))


def held_out(test: pl.DataFrame, train: pl.DataFrame, task: Task) -> pl.DataFrame:
    """The test items that are no train items, neither by name nor by the texts that a prompt shows.

    Spaces at the ends of a text are not shown, so they make no difference here.
    """
    shown = [*fields_of(task.template), *(["options"] if isinstance(task, Choice) else [])]
    texts = [name for name in shown if name in test.columns and name in train.columns]
    left = test.join(train.select("item"), on="item", how="anti", maintain_order="left")
    if not texts:
        return left

    def key(name: str, frame: pl.DataFrame) -> pl.Expr:
        column = pl.col(name).list.join("\0") if isinstance(frame.schema[name], pl.List) else pl.col(name)
        return column.cast(pl.String).str.strip_chars().alias(name)

    seen, own = (frame.select([key(name, frame) for name in texts]) for frame in (train, left))
    own = own.with_row_index("__row")
    rows = own.join(seen.unique(), on=texts, how="anti", maintain_order="left")["__row"]
    kept: pl.DataFrame = left[rows.to_list()]
    return kept


def _difficulty(pool: Loaded, train: Train, base: Path) -> tuple[npt.NDArray[np.float64], list[str]]:
    source = train.difficulty
    assert source is not None
    if source.column is not None:
        if source.column not in pool.frame.columns:
            raise InputError(
                f"{pool.name}: has no column {source.column!r} to take the difficulty from. "
                f"Columns: {listed(pool.frame.columns, 40)}"
            )
        values = pool.frame[source.column].cast(pl.Float64, strict=False).fill_null(np.nan).to_numpy()
        return (values if source.hard_is == "high" else -values), []
    if source.calibration is not None:
        path = base / Path(source.calibration).expanduser()
        table = read_table(path)
        for column in ("item", "difficulty"):
            if column not in table.frame.columns:
                raise InputError(f"{path}: is no calibration, because it has no column {column!r}")
        known = dict(zip(table.frame["item"].cast(pl.String), table.numbers("difficulty"), strict=True))
        return _matched(pool, known, str(path))
    responses = read_responses(base / Path(source.study or "").expanduser())
    fit = fit_rasch(Answers.of(responses.matrix))
    return _matched(pool, dict(zip(responses.items, fit.difficulty.tolist(), strict=True)), f"study {source.study}")


def _matched(pool: Loaded, known: dict[str, float | None], where: str) -> tuple[npt.NDArray[np.float64], list[str]]:
    """Difficulties by item; a calibration may leave the set's name out of the ids."""
    items = pool.frame["item"].to_list()
    short = [item.removeprefix(f"{pool.name}-") for item in items]
    found = [known.get(item, known.get(bare)) for item, bare in zip(items, short, strict=True)]
    values = np.array([np.nan if value is None else value for value in found], dtype=np.float64)
    matched = int((~np.isnan(values)).sum())
    strange = sorted(set(known) - set(items) - set(short))[:3]
    if not matched:
        raise InputError(
            f"{where}: none of its {len(known):,} items is in {pool.name} (there: {listed(strange)}; "
            f"here: {listed(items[:3])}); calibrate answers to the same items"
        )
    notes = [f"{matched:,} of the {len(known):,} items of {where} are in the data"]
    if strange:
        notes[0] += f"; not in the data: {listed(strange)}"
    return values, notes
