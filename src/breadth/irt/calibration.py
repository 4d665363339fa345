"""A calibration: items and subjects on one scale, as tidy tables, and what can be computed from them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, listed
from breadth.irt.abilities import Abilities, score
from breadth.irt.answers import Answers, Bools, Floats
from breadth.irt.columns import FIT, ITEMS, SUBJECTS
from breadth.irt.diagnostics import (
    Dimension,
    FitDiagnostics,
    Patterns,
    distinct_patterns,
    fit_statistics,
    residual_dimension,
)
from breadth.irt.difficulty_levels import (
    Difficulties,
    assign_levels,
    known_difficulties,
    level_stability,
    without_guesses,
)
from breadth.irt.figure import (
    SCALE_MAP_FIGURE,
    accuracy_by_level,
    accuracy_by_level_figure,
    evenly,
    indices_of,
    item_curves,
    item_curves_figure,
    scale_map,
    scale_map_reason,
)
from breadth.irt.flags import SUBJECT_RULES, flagged, scale_warning
from breadth.irt.models import DEFAULT_LEVELS, MODELS, Method
from breadth.irt.parameters import ITEM_PARAMETERS, ItemEstimates, Parameters
from breadth.irt.saved import saved_fit, saved_items, saved_subjects
from breadth.irt.scale_results import levels_shown
from breadth.irt.words import calibration_details, calibration_verdict
from breadth.records import Study
from breadth.results import Columns, Result, Shown, Verdict, as_chart
from breadth.results.table_writing import write_table
from breadth.results.terminal import MOST_ROWS
from breadth.sources import open_study, read_table

if TYPE_CHECKING:
    import altair as alt

#: Every item parameter with its standard error.
ESTIMATES = tuple(column for name in ITEM_PARAMETERS for column in (name, f"{name}_se"))

ITEM_COLUMNS = (
    *("item", "n", "p_correct", *ESTIMATES, "intercept"),
    *("infit", "outfit", "point_biserial", "level", "level_low", "level_high", "label_doubt", "flag", "note"),
)
SUBJECT_COLUMNS = ("subject", "n", "ability", "ability_se", "infit", "outfit", "flag", "note")

#: Mean and standard deviation of ability where a calibration does not have them.
POPULATION = (("ability_mean", 0.0), ("ability_sd", 1.0))

#: Decimals of difficulties. The rounding of sums leaves about fourteen.
DECIMALS = 10

#: Comparisons of answers above which near-copies are only looked for on request: a second or two of work.
MOST_COMPARISONS = 5e10

#: Of more questions than fit a screen, the easiest and hardest that are shown, and those with a note.
EACH_END, MOST_NOTED = 5, 10


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """Items and subjects on one scale.

    ``items``, ``subjects`` and ``fit`` are tidy frames; ``flag`` says in a code, and ``note`` in a sentence, what is
    wrong with an item or a subject. ``responses`` are the answers that were calibrated. A calibration that was loaded
    from a file has none, so it can score subjects and sort items into levels but not diagnose. ``scale_warning`` says
    where the answers do not measure one ability, or measure it too poorly to trust what rests on it.

    An item without a known difficulty (``flag`` says why) has no level either; ``discrimination`` and ``intercept``,
    the log-odds of a right answer at ability 0, describe its curve all the same, and abilities make use of it.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"items": ITEMS, "subjects": SUBJECTS, "fit": FIT}

    items: pl.DataFrame
    subjects: pl.DataFrame
    fit: pl.DataFrame
    warnings: tuple[str, ...] = ()
    responses: Study | None = None
    seed: int = 0
    scale_warning: str | None = None

    def tables(self) -> dict[str, pl.DataFrame]:
        """Items, subjects and fit."""
        return {"items": self.items, "subjects": self.subjects, "fit": self.fit}

    @property
    def noun(self) -> str:
        """What answered: checkpoints where answers are those of training runs, else models."""
        return noun_of_subjects(self.responses)

    @property
    def model(self) -> str:
        """Name of the model that was fitted; the simplest that has these parameters if that is not on record."""
        if "model" in self.fit.columns and self.fit.height:
            return str(self.fit["model"][0])
        asymptotes = [name for name in ITEM_PARAMETERS if name not in ("difficulty", "discrimination")]
        needed = [name for name in asymptotes if (self.items[name].drop_nulls() != ITEM_PARAMETERS[name]).any()]
        own_slopes = self.items["discrimination"].drop_nulls().n_unique() > 1
        slopes = ("item",) if own_slopes else ("item", "common")
        fitting = (
            name
            for name, model in MODELS.items()
            if model.slope in slopes and all(getattr(model, asymptote) for asymptote in needed)
        )
        return next(fitting)

    @cached_property
    def parameters(self) -> Parameters:
        """The curve of every item; NaN where unknown. The intercept, if there is one, goes before the difficulty."""
        parameters = Parameters.of(*(numbers(self.items, name) for name in ITEM_PARAMETERS))
        if "intercept" not in self.items.columns:
            return parameters
        intercept = numbers(self.items, "intercept")
        return parameters._replace(intercept=np.where(np.isnan(intercept), parameters.intercept, intercept))

    def probability(self, ability: float | Sequence[float] | Floats) -> Floats:
        """Chance of a right answer to every item: [items] for one ability, [abilities, items] for several."""
        return self.parameters.probability(np.asarray(ability, dtype=np.float64))

    def information(self, ability: float | Sequence[float] | Floats) -> Floats:
        """Fisher information of every item about ability; its sum over items is one over the squared standard error."""
        return self.parameters.information(np.asarray(ability, dtype=np.float64))

    def score(self, responses: Any, method: Method = "eap") -> pl.DataFrame:
        """Measure new subjects on these items without calibrating again: ``subject, n, ability, ability_se, ...``."""
        new = open_study(responses)
        place = {name: index for index, name in enumerate(self.items["item"])}
        known = [j for j, name in enumerate(new.item_names) if name in place]
        if not known:
            raise InputError(
                f"{new.name}: none of its {len(new.item_names)} items is in the calibration. Its items: "
                f"{listed(new.item_names, 3)}; calibrated: {listed(self.items['item'].head(3))}"
            )
        chosen = [place[new.item_names[j]] for j in known]
        items = Parameters(*(array[chosen] for array in self.parameters))
        answers = Answers.of(np.ascontiguousarray(new.with_items(np.array(known)).matrix))
        mean, sd = (float(self.fit[name][0]) if name in self.fit.columns else default for name, default in POPULATION)
        abilities = score(answers, items, method, mean, sd)
        fit = fit_statistics(answers, items, abilities.ability)
        return subjects_frame(new.subject_names, answers, abilities, fit)

    def levels(self, n: int = DEFAULT_LEVELS) -> pl.DataFrame:
        """Item, difficulty, level from 0 (easiest) to n - 1, the range it could be in, and how sure that is.

        There are at most as many levels as different difficulties; items without a difficulty have none.
        """
        if n < 2:
            raise InputError(f"--n is {n}; choose at least 2 levels")
        difficulty, error = numbers(self.items, "difficulty"), numbers(self.items, "difficulty_se")
        assigned = assign_levels(difficulty, error, n)
        columns = ("level", "level_low", "level_high")
        return self.items.select("item", "difficulty", "difficulty_se").with_columns(
            *(
                pl.Series(name, values, nan_to_null=True).cast(pl.Int64)
                for name, values in zip(columns, assigned, strict=False)
            ),
            pl.Series("certainty", assigned.certainty, nan_to_null=True),
        )

    def level_stability(self, n: int = DEFAULT_LEVELS, repeats: int = 5) -> pl.DataFrame:
        """For growing numbers of subjects: how alike the levels are that two disjoint samples of them give."""
        model, known = MODELS[self.model], ~np.isnan(numbers(self.items, "difficulty"))
        # The same floor as in the calibration; a model with guessing of its own estimates it again.
        floor = None if model.guessing else np.nan_to_num(numbers(self.items, "guessing"))
        study = self._answered[0]
        # Subjects are drawn by their place among the names, not by that in the file.
        by_name = pl.Series(study.subject_names).arg_sort().to_numpy()

        def difficulty_of(matrix: npt.NDArray[Any]) -> Floats:
            fitted = model.fit(Answers.of(matrix), errors=False, floor=floor)
            return np.where(known, fitted.difficulty.round(DECIMALS), np.nan)

        stability = level_stability(study.matrix[by_name], difficulty_of, n, repeats, self.seed)
        return pl.DataFrame(stability._asdict() | {"repeats": [repeats] * len(stability.subjects)}).fill_nan(None)

    def accuracy_by_level(self, subjects: Sequence[str] | None = None, n: int = DEFAULT_LEVELS) -> pl.DataFrame:
        """Accuracy of subjects per difficulty level, and what the model expects of them."""
        study = self._answered[0]
        level, ability = numbers(self.levels(n), "level"), numbers(self.subjects, "ability")
        chosen = study.subject_names if subjects is None else subjects
        indices_of(study.subject_names, chosen, f"{study.name}: there is no subject")
        return accuracy_by_level(study, level, ability, self.probability, chosen)

    @cached_property
    def copies(self) -> Patterns:
        """Near-copies among the subjects: see :func:`breadth.irt.distinct_patterns`."""
        return distinct_patterns(self._answered[1], self.parameters, numbers(self.subjects, "ability"))

    @cached_property
    def dimension(self) -> Dimension:
        """Whether one ability is enough: see :func:`breadth.irt.residual_dimension`."""
        return residual_dimension(self._answered[1], self.parameters, numbers(self.subjects, "ability"), self.seed)

    @cached_property
    def _answered(self) -> tuple[Study, Answers]:
        if self.responses is None:
            raise InputError("this calibration was loaded from a file without the responses; calibrate them again")
        return self.responses, Answers.of(self.responses.matrix)

    def curves(self, items: Sequence[str] | None = None) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Curves of items (``item, ability, probability``), and shares right in ten groups of subjects (with ``n``).

        By default five items spread over the range of difficulty.
        """
        known = self.items.filter(pl.col("difficulty").is_finite()).sort("difficulty")["item"]
        chosen = evenly(known) if items is None else items
        ability = numbers(self.subjects, "ability") if self.responses is not None else np.empty(0)
        return item_curves(self.items["item"].to_list(), chosen, self.probability, self.responses, ability)

    def figure(self, items: Sequence[str] | None = None, subjects: Sequence[str] | None = None) -> alt.TopLevelMixin:
        """The map of ability and difficulty, curves of chosen items, and accuracy by difficulty of chosen subjects.

        By default five items spread over difficulty and five subjects spread over ability.
        """
        lines, dots = self.curves(items)
        curves = pl.concat([lines.with_columns(n=pl.lit(None, dtype=pl.Int64)), dots], how="diagonal")
        profiles, doubt = pl.DataFrame(), scale_map_reason(self)
        doubted = replace(SCALE_MAP_FIGURE, caption=f"Undecided: {doubt}. {SCALE_MAP_FIGURE.caption}")
        figures = [doubted if doubt else SCALE_MAP_FIGURE]
        if lines.height:
            figures.append(item_curves_figure(curves))
        if self.responses is not None and self.items["level"].is_not_null().any():
            ranked = self.subjects.filter(pl.col("n") > 0).sort("ability")["subject"]
            count = int(self.items["level"].drop_nulls().n_unique()) or 1
            profiles = self.accuracy_by_level(evenly(ranked) if subjects is None else subjects, max(2, count))
            figures += [accuracy_by_level_figure(profiles)] if profiles.height else []
        tables = {"scale_map": scale_map(self.items, self.subjects), "curves": curves, "by_level": profiles}
        return as_chart(*figures, tables=tables)

    def verdict(self) -> Verdict | None:
        """Do these answers measure one ability, and how precisely? See :func:`breadth.irt.calibration_verdict`."""
        dimension = None if self.responses is None else self.dimension
        return calibration_verdict(self.items, self.fit, dimension, self.noun)

    def shown(self) -> Sequence[Shown]:
        """Questions, those with a doubtful label among them, and the levels of difficulty."""
        frame, title = self._shown_items()
        tables = [Shown(title, frame, ITEMS.filled(frame), MOST_ROWS)]
        highest = self.items["level"].max() if "level" in self.items.columns else None
        # Levels that should not be used are not shown.
        if highest and not self.scale_warning:
            # The same number of levels cuts the questions in the same way.
            tables.append(levels_shown(self.levels(int(highest) + 1)))  # type: ignore[arg-type]
        return tables

    def _shown_items(self) -> tuple[pl.DataFrame, str]:
        """All questions, or the easiest, the hardest and some with a note; the most doubtful labels come first."""
        items = self.items
        if items.height <= MOST_ROWS:
            return items, "Questions"
        known = items.drop_nulls("difficulty").sort("difficulty", maintain_order=True)
        noted = items.filter(pl.col("note").is_not_null()) if "note" in items.columns else items.head(0)
        order = [pl.col(name) for name in ("label_doubt", "outfit") if name in items.columns]
        if order:
            noted = noted.sort(order, descending=True, nulls_last=True)
        parts = [noted.head(MOST_NOTED), known.head(EACH_END), known.tail(EACH_END)]
        chosen = pl.concat(parts).unique("item", keep="first", maintain_order=True)
        return chosen, f"Questions: the most doubtful, then the easiest and the hardest of {items.height:,}"

    def details(self) -> str:
        """What the calibration says, in plain language, after checks for a second dimension and (if quick) copies."""
        if self.responses is None:
            return calibration_details(self.items, self.subjects, self.fit, noun=self.noun)
        rows, columns = self.responses.matrix.shape
        quick = rows * rows * columns < MOST_COMPARISONS and not self._answered[1].fractional
        copies = self.copies if quick else None
        return calibration_details(self.items, self.subjects, self.fit, copies, self.dimension, self.noun)

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
        items, warnings = saved_items(read_table(path))
        subjects = fit = pl.DataFrame()
        if (beside := _beside(Path(path), "subjects")).exists():
            subjects = saved_subjects(read_table(beside))
        if (beside := _beside(Path(path), "fit")).exists():
            fit = saved_fit(read_table(beside))
        doubt = scale_warning(fit.row(0, named=True)) if fit.height else None
        return cls(items, subjects, fit, tuple(warnings), scale_warning=doubt)

    @classmethod
    def of(cls, source: str | os.PathLike[str] | Calibration) -> Calibration:
        """A calibration as it is, or loaded from a file."""
        return source if isinstance(source, Calibration) else cls.load(source)


def noun_of_subjects(study: Study | None) -> str:
    """What the answers of a study are of, in a word."""
    if study is not None and "step" in study.subjects.columns and study.subjects["step"].is_not_null().any():
        return "checkpoint"
    return "model"


def _beside(path: Path, name: str) -> Path:
    return path.with_name(f"{path.stem}.{name}{path.suffix}")


def numbers(frame: pl.DataFrame, column: str) -> Floats:
    """A column as floats with NaN for null."""
    return frame[column].cast(pl.Float64).fill_null(float("nan")).to_numpy()


def items_frame(
    names: Sequence[str],
    answers: Answers,
    estimates: ItemEstimates,
    fit: FitDiagnostics,
    own_slopes: bool,
    levels: int,
    anchored: bool = False,
) -> pl.DataFrame:
    """One row per item, in the order of the matrix; the flags are still to come: they depend on the scale."""
    n = answers.item_counts
    share = np.divide(answers.item_sums, n, out=np.full(len(n), np.nan), where=n > 0)
    # With one slope for all items the order of difficulties is that of the shares right, and all are known.
    known = Difficulties(estimates.difficulty, estimates.difficulty_se, np.zeros(share.size, dtype=np.bool_))
    known = known_difficulties(estimates, share) if own_slopes else known
    if not anchored and not ((share > 0) & (share < 1)).any():
        known = without_guesses(known, estimates.ability_sd)
    # Equally difficult items differ in their last digits, by where they stand in the matrix. Levels and ranks are
    # only the same for every order of the answers if they are equal.
    known = known._replace(difficulty=known.difficulty.round(DECIMALS))
    placed = assign_levels(known.difficulty, known.error, levels)
    intercept = estimates.items.intercept
    columns = {column: getattr(estimates, column) for column in ESTIMATES}
    frame = pl.DataFrame(
        {
            "item": list(names),
            "n": n.astype(np.int64),
            "p_correct": share,
            **columns | {"difficulty": known.difficulty, "difficulty_se": known.error},
            "intercept": np.where(np.isfinite(intercept), intercept, np.nan),
            "infit": fit.items.infit,
            "outfit": fit.items.outfit,
            "point_biserial": fit.point_biserial,
            "level": placed.level,
            "level_low": placed.low,
            "level_high": placed.high,
            "unknown": known.unknown,
            "own_slopes": own_slopes,
        }
    ).fill_nan(None)
    return frame.with_columns(pl.col("level", "level_low", "level_high").cast(pl.Int64))


def subjects_frame(
    names: Sequence[str], answers: Answers, abilities: Abilities, fit: FitDiagnostics, above_chance: Bools | None = None
) -> pl.DataFrame:
    """One row per subject, in the order of the matrix."""
    frame = pl.DataFrame(
        {
            "subject": list(names),
            "n": answers.subject_counts.astype(np.int64),
            "ability": abilities.ability,
            "ability_se": abilities.standard_error,
            "infit": fit.subjects.infit,
            "outfit": fit.subjects.outfit,
            "right": answers.subject_sums,
            "above_chance": np.ones(len(names), dtype=np.bool_) if above_chance is None else above_chance,
        }
    ).fill_nan(None)
    return flagged(frame, SUBJECT_RULES).select(SUBJECT_COLUMNS)
