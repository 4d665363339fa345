"""A calibration: what is known about items and subjects on one scale, and what can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.difficulty import assign_levels, level_stability
from breadth.errors import InputError, listed
from breadth.irt import (
    Answers,
    Dimension,
    Patterns,
    distinct_patterns,
    fit_2pl,
    fit_3pl,
    fit_rasch,
    residual_dimension,
    score,
)
from breadth.records import Responses, Table, read_responses, read_table, write_table
from breadth.verbs.items import LEAST_RELIABILITY, PARAMETERS, numbers, subjects_frame
from breadth.verbs.profiles import accuracy_by_level, evenly, item_curves

if TYPE_CHECKING:
    import altair as alt

Model = Literal["1pl", "2pl", "3pl"]
FITS = {"1pl": fit_rasch, "2pl": fit_2pl, "3pl": fit_3pl}

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Items and subjects on one scale.

    ``items``, ``subjects`` and ``fit`` are tidy frames; ``warnings`` what the user should know. A calibration that was
    loaded from a file has no responses, so it can score and sort into levels but not diagnose.
    """

    items: pl.DataFrame
    subjects: pl.DataFrame
    fit: pl.DataFrame
    warnings: tuple[str, ...] = ()
    responses: Responses | None = None
    seed: int = 0

    @property
    def model(self) -> Model:
        """Which model was fitted; guessed from the parameters if that is not on record."""
        if "model" in self.fit.columns and self.fit.height:
            return self.fit["model"][0]  # type: ignore[no-any-return]
        if (self.items["guessing"].fill_null(0) > 0).any():
            return "3pl"
        return "1pl" if self.items["discrimination"].drop_nulls().n_unique() <= 1 else "2pl"

    def parameters(self) -> tuple[Floats, Floats, Floats]:
        """Difficulty, discrimination and guessing of every item; NaN where unknown."""
        difficulty, discrimination, guessing = (numbers(self.items, name) for name in PARAMETERS)
        return difficulty, discrimination, guessing

    def probability(self, ability: float | Sequence[float] | Floats) -> Floats:
        """Chance of a right answer to every item: [items] for one ability, [abilities, items] for several."""
        difficulty, discrimination, guessing = self.parameters()
        theta = np.asarray(ability, dtype=np.float64)
        with np.errstate(over="ignore"):
            logistic = 1 / (1 + np.exp(-discrimination * (theta[..., None] - difficulty)))
        chance: Floats = guessing + (1 - guessing) * logistic
        return chance

    def information(self, ability: float | Sequence[float] | Floats) -> Floats:
        """Fisher information of every item about ability; its sum over items is one over the squared standard error.

        a^2 (Q / P) ((P - g) / (1 - g))^2 (Birnbaum 1968).
        """
        _, discrimination, guessing = self.parameters()
        p = self.probability(ability)
        held: Floats = discrimination**2 * (1 - p) / np.maximum(p, 1e-300) * ((p - guessing) / (1 - guessing)) ** 2
        return held

    def score(self, responses: Any, method: Literal["eap", "wle"] = "eap") -> pl.DataFrame:
        """Measure new subjects on these items without calibrating again: ``subject, n, ability, ability_se, ...``."""
        new = read_responses(responses)
        place = {name: index for index, name in enumerate(self.items["item"])}
        known = [j for j, name in enumerate(new.items) if name in place]
        if not known:
            raise InputError(
                f"{new.name}: none of its {len(new.items)} items is in the calibration. Its items: "
                f"{listed(new.items, 3)}; calibrated: {listed(self.items['item'].head(3))}"
            )
        index = [place[new.items[j]] for j in known]
        difficulty, discrimination, guessing = (values[index] for values in self.parameters())
        answers = Answers.of(np.ascontiguousarray(new.matrix[:, known]))
        mean, sd = (float(self.fit[name][0]) if name in self.fit.columns else default for name, default in POPULATION)
        found = score(answers, difficulty, discrimination, guessing, method, mean, sd)
        return subjects_frame(new.subjects, answers, found, difficulty, discrimination, guessing)

    def levels(self, n: int = 10) -> pl.DataFrame:
        """Item, difficulty, level from 0 (easiest) to n - 1, the range it could be in, and how sure that is.

        There are at most as many levels as items.
        """
        if n < 2:
            raise InputError(f"--n is {n}; choose at least 2 levels")
        difficulty, error = numbers(self.items, "difficulty"), numbers(self.items, "difficulty_se")
        found = assign_levels(difficulty, error, min(n, self.items.height))
        columns = ("level", "level_low", "level_high")
        return self.items.select("item", "difficulty", "difficulty_se").with_columns(
            *(
                pl.Series(name, values, nan_to_null=True).cast(pl.Int64)
                for name, values in zip(columns, found, strict=False)
            ),
            pl.Series("certainty", found.certainty, nan_to_null=True),
        )

    def level_stability(self, levels: int = 10, repeats: int = 5) -> pl.DataFrame:
        """For growing numbers of subjects: how alike the levels are that two disjoint samples of them give."""
        fit = FITS[self.model]
        found = level_stability(
            self._answered().matrix,
            lambda matrix: fit(Answers.of(matrix), errors=False).difficulty,
            levels,
            repeats,
            self.seed,
        )
        return pl.DataFrame(
            {
                "subjects": found.subjects,
                "repeats": [found.repeats] * len(found.subjects),
                "same_level": found.same_level,
                "within_one": found.within_one,
                "rank_correlation": found.rank_correlation,
            }
        )

    def accuracy_by_level(self, subjects: Sequence[str] | None = None, levels: int = 10) -> pl.DataFrame:
        """Accuracy of subjects per difficulty level, and what the model expects of them."""
        answered = self._answered()
        level, ability = numbers(self.levels(levels), "level"), numbers(self.subjects, "ability")
        chosen = answered.subjects if subjects is None else subjects
        return accuracy_by_level(answered, level, ability, self.probability, chosen)

    @cached_property
    def copies(self) -> Patterns:
        """Near-copies among the subjects: see :func:`breadth.irt.distinct_patterns`."""
        difficulty, discrimination, guessing = self.parameters()
        return distinct_patterns(self._answers, difficulty, discrimination, numbers(self.subjects, "ability"), guessing)

    @cached_property
    def dimension(self) -> Dimension:
        """Whether one ability is enough: see :func:`breadth.irt.residual_dimension`."""
        difficulty, discrimination, guessing = self.parameters()
        ability = numbers(self.subjects, "ability")
        return residual_dimension(self._answers, difficulty, discrimination, ability, guessing, self.seed)

    @cached_property
    def _answers(self) -> Answers:
        return Answers.of(self._answered().matrix)

    def _answered(self) -> Responses:
        if self.responses is None:
            raise InputError(
                "this calibration was loaded from a file; the question needs the responses, so calibrate again"
            )
        return self.responses

    def curves(self, items: Sequence[str] | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Curves of items (``item, ability, probability``), and shares right in ten groups of subjects (with ``n``).

        By default five items spread over the range of difficulty.
        """
        known = self.items.filter(pl.col("difficulty").is_finite()).sort("difficulty")["item"]
        chosen = evenly(known) if items is None else items
        ability = numbers(self.subjects, "ability") if self.responses is not None else np.empty(0)
        return item_curves(self.items["item"].to_list(), chosen, self.probability, self.responses, ability)

    def figure(self, items: Sequence[str] | None = None, subjects: Sequence[str] | None = None) -> alt.TopLevelMixin:
        """The difficulty/ability map, the curves of chosen items, and accuracy by difficulty of chosen subjects.

        By default five items spread over difficulty and five subjects spread over ability.
        """
        from breadth.report.calibration import calibration_figure

        profiles = pl.DataFrame()
        if self.responses is not None:
            ranked = self.subjects.filter(pl.col("n") > 0).sort("ability")["subject"]
            count = int(self.items["level"].drop_nulls().n_unique()) or 1
            profiles = self.accuracy_by_level(evenly(ranked) if subjects is None else subjects, max(2, count))
        return calibration_figure(self.items, self.subjects, *self.curves(items), profiles)

    @property
    def warning_alike(self) -> str | None:
        """What to know where abilities are measured too badly to trust what rests on them; None where they are not."""
        found = float(self.fit["reliability"][0])
        if found >= LEAST_RELIABILITY:
            return None
        return (
            f"the subjects are too alike to be told apart (reliability {found:.2f}): difficulties say little more than "
            "the share of right answers, and no key is doubted; add subjects of other abilities"
        )

    def summary(self) -> str:
        """What the calibration says, in plain language, after checks for a second dimension and (if quick) copies."""
        from breadth.report.difficulty_findings import Checks, calibration_findings

        checks = Checks()
        if self.responses is not None:
            rows, columns = self.responses.matrix.shape
            quick = rows * rows * columns < MOST_COMPARISONS and not self._answers.fractional
            checks = Checks(
                self.copies.distinct if quick else None,
                len(self.copies.pairs) if quick else None,
                int(self.copies.cluster.max()) + 1 if quick else None,
                self.dimension.share,
                self.dimension.ratio,
            )
        return calibration_findings(self.items, self.subjects, self.fit, checks)

    def save(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write the items to ``path``, subjects and fit beside it (``NAME.subjects.parquet``, ``NAME.fit.parquet``)."""
        written = [write_table(self.items, path)]
        for name, frame in (("subjects", self.subjects), ("fit", self.fit)):
            if frame.height:
                written.append(write_table(frame, _beside(Path(path), name)))
        return written

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        """Read a calibration back. Any table of items with a difficulty will do; slope 1 and no guessing by default."""
        table = read_table(path)
        items = _checked_items(table)
        frames = {}
        for name in ("subjects", "fit"):
            other = _beside(Path(path), name)
            frames[name] = read_table(other).frame if other.exists() else pl.DataFrame()
        return cls(items, frames["subjects"], frames["fit"])


#: Mean and standard deviation of ability where a calibration does not say.
POPULATION = (("ability_mean", 0.0), ("ability_sd", 1.0))


#: Comparisons of answers above which near-copies are only looked for on request: a second or two of work.
MOST_COMPARISONS = 5e10


def _beside(path: Path, name: str) -> Path:
    return path.with_name(f"{path.stem}.{name}{path.suffix}")


def _checked_items(table: Table) -> pl.DataFrame:
    frame = table.frame
    for name in ("item", "difficulty"):
        if name not in frame.columns:
            raise InputError(
                f"{table.name}: is no calibration; it has no column {name!r}. Columns: {listed(frame.columns, 40)}"
            )
    defaults = {"difficulty_se": 0.0, "discrimination": 1.0, "guessing": 0.0}
    columns = {name: table.numbers(name) for name in ("difficulty", *defaults) if name in frame.columns}
    frame = frame.with_columns(series.alias(name) for name, series in columns.items())
    missing = [pl.lit(value).alias(name) for name, value in defaults.items() if name not in frame.columns]
    return frame.with_columns(pl.col("item").cast(pl.String), *missing)
