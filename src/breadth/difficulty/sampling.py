"""Choose training items by difficulty, and the order in which they come.

Which items (selection) and when (order) are separate: a strategy names one of each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.difficulty.strategies import STRATEGIES, Order, Selection, Strategy
from breadth.errors import InputError, listed, unknown_column
from breadth.inference import Floats
from breadth.irt import DEFAULT_LEVELS, Calibration, cut_levels, numbers
from breadth.results import Column, Columns, Question, Result, Shown, State, Verdict
from breadth.results.words import count, number_words
from breadth.sources import Table, read_table

Indices = npt.NDArray[np.intp]

#: Standard deviation of the quantiles that ``centred`` draws: nine in ten items come from the middle two thirds.
SPREAD = 0.2

#: Times that ``spiral`` starts again from the easiest items.
TURNS = 4


def sample_items(
    difficulty: Floats, n: int | None, strategy: Strategy, order: Order | None = None, seed: int = 0
) -> Indices:
    """Draw n items without repetition; return their positions, in the order in which to train on them.

    Items are ranked by difficulty (equal ones in an order that the seed decides) and drawn by their quantile u:

    - ``easy``, ``middle``, ``hard``: evenly over the lowest, middle or highest third;
    - ``full``: evenly over the whole range;
    - ``centred``: from a normal distribution around the median with standard deviation 0.2, truncated to [0, 1].

    The draw is stratified: one item from each n-th part of the target distribution, so the sample follows it more
    closely than independent draws would. ``order`` replaces the strategy's own order. Items whose difficulty is NaN
    are never drawn. By default n is as many as the strategy can draw.
    """
    if strategy not in STRATEGIES:
        raise InputError(f"strategy is {strategy!r}; choose one of {', '.join(STRATEGIES)}")
    generator = np.random.default_rng(seed)
    known = generator.permutation(np.flatnonzero(~np.isnan(difficulty)))
    ranked = known[np.argsort(difficulty[known], kind="stable")]
    plan = STRATEGIES[strategy]
    most = _most(plan.selection, len(ranked))
    wanted = most if n is None else n
    if not 1 <= wanted <= most:
        raise InputError(
            f"strategy {strategy} can draw 1 to {most:,} of {len(ranked):,} items with a difficulty, not {wanted:,}; "
            "choose fewer, or a strategy that draws from the whole range"
        )
    drawn = ranked[_draw_ranks(plan.selection, wanted, len(ranked), generator)]
    return drawn[_ordering(order or plan.order, wanted, generator)]


def _target_quantiles(selection: Selection, p: Floats) -> Floats:
    """Quantile function of a selection's target distribution over difficulty quantiles."""
    thirds = {"easy": 0, "middle": 1, "hard": 2}
    if selection in thirds:
        return (thirds[selection] + p) / 3
    if selection == "full":
        return p
    low, high = special.ndtr(-0.5 / SPREAD), special.ndtr(0.5 / SPREAD)
    centred: Floats = 0.5 + SPREAD * special.ndtri(low + p * (high - low))
    return centred


def _most(selection: Selection, items: int) -> int:
    """Items that can be drawn before the densest part of the distribution runs out of them."""
    if selection == "full":
        return items
    if selection == "centred":
        inside = special.ndtr(0.5 / SPREAD) - special.ndtr(-0.5 / SPREAD)
        return int(items * inside * SPREAD * np.sqrt(2 * np.pi))
    return items // 3


def _draw_ranks(selection: Selection, n: int, items: int, generator: np.random.Generator) -> Indices:
    """Ranks of n different items: one drawn in each n-th part of the distribution, neighbours moved apart on a tie."""
    step = np.arange(n)
    wanted = np.floor(_target_quantiles(selection, (step + generator.random(n)) / n) * items).astype(np.intp)
    apart = np.maximum.accumulate(wanted - step) + step
    end = int(_target_quantiles(selection, np.ones(1))[0] * items)
    return np.minimum(apart, end - n + step)


def _ordering(order: Order, n: int, generator: np.random.Generator) -> Indices:
    """Positions of n items, sorted from easy to hard, in the order in which they come."""
    rising = np.arange(n)
    if order == "rising":
        return rising
    if order == "falling":
        return rising[::-1]
    if order == "shuffled":
        return generator.permutation(n)
    if order == "spiral":
        # An item of the k-th easiest part may come in every turn from the k-th on; each turn rises from the easiest.
        part = rising * TURNS // n
        turn = part + np.floor(generator.random(n) * (TURNS - part)).astype(np.intp)
        return np.lexsort((rising, turn))
    raise InputError(f"order is {order!r}; choose one of {', '.join(get_args(Order))}")


@dataclass
class DifficultySampler:
    """Positions of training items for a data loader: iterate it, or pass it as ``sampler=`` to a PyTorch DataLoader.

    Every epoch draws new items, from the seed and the epoch; ``set_epoch`` works as in PyTorch's samplers.

    >>> sampler = DifficultySampler(np.linspace(-2, 2, 100), n=10, strategy="curriculum")
    >>> positions = list(sampler)
    >>> positions == sorted(positions), len(sampler)
    (True, 10)
    """

    difficulty: Floats
    n: int | None = None
    strategy: Strategy = "full"
    order: Order | None = None
    seed: int = 0
    epoch: int = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration draws for."""
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        """Iterate over the positions of this epoch's items."""
        seed = int(np.random.SeedSequence([self.seed, self.epoch]).generate_state(1)[0])
        return iter(sample_items(np.asarray(self.difficulty), self.n, self.strategy, self.order, seed).tolist())

    def __len__(self) -> int:
        """Items per epoch."""
        known = int((~np.isnan(np.asarray(self.difficulty))).sum())
        return _most(STRATEGIES[self.strategy].selection, known) if self.n is None else self.n


#: What a strategy draws, and in which order it comes, as a sentence says it.
SELECTION_WORDS: Mapping[Selection, str] = {
    "easy": "the easiest third",
    "middle": "the middle third",
    "hard": "the hardest third",
    "full": "the whole range of difficulty",
    "centred": "around the middle of difficulty",
}
ORDER_WORDS: Mapping[Order, str] = {
    "shuffled": "in random order",
    "rising": "from easy to hard",
    "falling": "from hard to easy",
    "spiral": "rising in difficulty, and returning to easy ones",
}

HISTOGRAM = Columns(
    Column("level", format="d", priority=1, meaning="level of difficulty of the table; 0 is the easiest"),
    Column("from", "to", header="difficulty", format="+.2f", priority=2, meaning="its easiest and hardest question"),
    Column("before", header="in the table", format=",d", priority=1, meaning="questions of the table"),
    Column("after", header="drawn", format=",d", priority=1, meaning="questions that were drawn"),
    Column("bar", header="share of those drawn", priority=3, words=True, meaning="drawn questions, as a bar"),
)

#: Cells of a bar that stands for all questions.
BAR = 40


@dataclass(frozen=True, repr=False)
class Sample(Result):
    """Items drawn for training, in the order to train in.

    ``items`` has the columns of the table it was drawn from, then ``difficulty`` and ``quantile`` (0 easiest, 1
    hardest). ``histogram`` counts items per level of the table's difficulties before and after the draw; ``warnings``
    name items that were left out.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"histogram": HISTOGRAM}

    items: pl.DataFrame
    histogram: pl.DataFrame
    warnings: tuple[str, ...] = ()
    strategy: Strategy = "full"
    #: The order that was asked for instead of the strategy's own.
    order: Order | None = None

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The drawn items, and the histogram."""
        return {"items": self.items, "histogram": self.histogram}

    def verdict(self) -> Verdict:
        """Which questions to train on: how many, of which difficulty, in which order."""
        plan = STRATEGIES[self.strategy]
        drawn, every = self.items.height, int(self.histogram["before"].sum())
        low, middle, high = (number_words(float(self._quantile(q))) for q in (0, 0.5, 1))
        reason = (
            f"Train on these {drawn:,} of {count(every, 'question')}: {SELECTION_WORDS[plan.selection]}, "
            f"{ORDER_WORDS[self.order or plan.order]} (strategy {self.strategy}). Their difficulty is {low} to {high}, "
            f"half of them above {middle}."
        )
        facts: dict[str, float | str] = {"drawn": drawn, "questions": every, "lowest": low, "highest": high}
        facts["median"] = middle
        answer = count(drawn, "question")
        return Verdict(answer, reason, question=Question.SAMPLE, state=State.YES, facts=facts)

    def _quantile(self, q: float) -> float:
        return self.items["difficulty"].quantile(q, "linear") or 0.0

    def shown(self) -> Sequence[Shown]:
        """Questions per level of difficulty, before and after the draw."""
        total = max(1, int(self.histogram["after"].sum()))
        bars = ["█" * round(BAR * after / total) for after in self.histogram["after"]]
        frame = self.histogram.with_columns(bar=pl.Series(bars, dtype=pl.String))
        return [Shown("Difficulty before and after the draw", frame, HISTOGRAM)]


def sample(
    items: Any,
    calibration: str | os.PathLike[str] | Calibration | None = None,
    *,
    strategy: Strategy = "full",
    n: int | None = None,
    order: Order | None = None,
    difficulty: str = "difficulty",
    ease: str | None = None,
    seed: int = 0,
) -> Sample:
    """Draw training items by difficulty, without repetition.

    Parameters
    ----------
    items
        Table with a column ``item`` or ``id`` if there is a calibration, else with a column of difficulties.
    calibration
        Where the difficulties come from.
    strategy
        ``easy``, ``middle``, ``hard`` (a third each), ``full`` (whole range), ``centred`` (around the middle),
        ``spiral`` (whole range; rises, and returns to easy items), ``curriculum`` (easy to hard), ``anti-curriculum``.
    n
        Number of items; by default as many as the strategy can draw.
    order
        ``shuffled``, ``rising``, ``falling`` or ``spiral`` instead of the strategy's own order.
    difficulty
        Column of difficulties where there is no calibration; higher is harder.
    ease
        Column to use instead in which higher is easier, such as the number of models that answered correctly.
    seed
        Decides the draw, the shuffling, and the order of items of equal difficulty.

    Examples
    --------
    >>> import breadth, polars as pl
    >>> items = pl.DataFrame({"item": range(9), "difficulty": range(9)})
    >>> sorted(breadth.sample(items, strategy="hard").items["item"])
    [6, 7, 8]
    """
    table = read_table(items)
    if ease is not None and calibration is not None:
        raise InputError("difficulty comes from the calibration or from --ease, not from both; choose one")
    values, warnings = _difficulties(table, calibration, difficulty if ease is None else ease)
    values = values if ease is None else -values
    by_name = _order_by_name(table.frame)
    values = values[by_name]
    positions = sample_items(values, n, strategy, order, seed)
    known = ~np.isnan(values)
    rank = np.full(len(values), np.nan)
    rank[known] = (np.argsort(np.argsort(values[known], kind="stable"), kind="stable") + 0.5) / known.sum()
    frame = (
        table.frame[by_name]
        .drop("difficulty", "quantile", strict=False)
        .with_columns(pl.Series("difficulty", values, nan_to_null=True), pl.Series("quantile", rank, nan_to_null=True))
    )
    return Sample(frame[positions], _histogram(values, positions), tuple(warnings), strategy, order)


def _order_by_name(frame: pl.DataFrame) -> Indices:
    """Positions of the rows by the names of their items, then by all else, so that shuffled rows give one draw."""
    plain = [name for name in frame.columns if not frame[name].dtype.is_nested()]
    keys = [name for name in plain if name in ("item", "id")][:1]
    if not keys or frame[keys[0]].is_duplicated().any():
        keys += [name for name in plain if name not in keys]
    if not keys:
        return np.arange(frame.height)
    return frame.select(pl.arg_sort_by(keys, maintain_order=True)).to_series().to_numpy().astype(np.intp)


def _histogram(values: Floats, positions: Indices) -> pl.DataFrame:
    """Items per level of the difficulties of the table, before and after."""
    level = cut_levels(values, DEFAULT_LEVELS).astype(np.int64)
    drawn = np.zeros(len(values), dtype=bool)
    drawn[positions] = True
    return (
        pl.DataFrame({"level": level, "difficulty": values, "drawn": drawn})
        .filter(pl.col("level") >= 0)
        .group_by("level")
        .agg(
            pl.col("difficulty").min().alias("from"),
            pl.col("difficulty").max().alias("to"),
            pl.len().cast(pl.Int64).alias("before"),
            pl.col("drawn").sum().cast(pl.Int64).alias("after"),
        )
        .sort("level")
    )


def _difficulties(
    table: Table, calibration: str | os.PathLike[str] | Calibration | None, column: str
) -> tuple[Floats, list[str]]:
    """Difficulty of every row, NaN where it has none, and warnings about those."""
    frame = table.frame
    if calibration is None:
        if column not in frame.columns:
            raise unknown_column(column, frame.columns, table.name, "difficulty; or name a calibration")
        values = table.numbers(column).fill_null(float("nan")).to_numpy()
        missing = int(np.isnan(values).sum())
        if missing == len(values):
            raise InputError(f"{table.name}, column {column!r}: no item has a difficulty")
        return values, [f"{missing:,} of {len(values):,} items have no difficulty and are left out"] if missing else []
    matched = with_difficulty(table, calibration)
    unmatched = matched["item"].filter(matched["difficulty"].is_null())
    values = numbers(matched, "difficulty")
    if not unmatched.len():
        return values, []
    return values, [
        f"{matched.height - unmatched.len():,} of {matched.height:,} items have a difficulty; left out, for instance: "
        f"{listed(unmatched.head(3))}"
    ]


def item_column(table: Table) -> str:
    """Name of the column that says which item a row is about."""
    key = next((name for name in ("item", "id") if name in table.frame.columns), None)
    if key is None:
        raise unknown_column("item", table.frame.columns, table.name, "which item a row is about")
    if table.frame[key].dtype.is_nested():
        raise InputError(f"{table.name}: column {key!r} holds lists or objects, not names of items; give items names")
    return key


def with_difficulty(table: Table, calibration: str | os.PathLike[str] | Calibration) -> pl.DataFrame:
    """The items of a table (column ``item`` or ``id``) in their order, with the difficulty that a calibration gives."""
    key = item_column(table)
    loaded = Calibration.of(calibration)
    columns = pl.col("item").cast(pl.String), pl.col("difficulty").cast(pl.Float64)
    calibrated = loaded.items.select(columns).unique("item", keep="first", maintain_order=True)
    names = table.frame.select(pl.col(key).cast(pl.String).alias("item"))
    matched = names.join(calibrated, on="item", how="left", maintain_order="left")
    if matched["difficulty"].is_null().all():
        raise InputError(
            f"{table.name}: none of its {names.height:,} items has a difficulty in the calibration. Its items: "
            f"{listed(names['item'].head(3))}; calibrated: {listed(calibrated['item'].head(3))}"
        )
    return matched
