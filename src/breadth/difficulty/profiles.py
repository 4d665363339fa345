"""``profile``: how accurate subjects are at every level of difficulty, and where two of them differ."""

from __future__ import annotations

import fnmatch
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import rich.table
from rich.text import Text
from scipy import special

from breadth.errors import InputError, did_you_mean, listed
from breadth.inference import LEVEL, Floats, benjamini_hochberg
from breadth.irt import DEFAULT_LEVELS, Calibration, accuracy_by_level, accuracy_by_level_figure, evenly, numbers
from breadth.records import Study
from breadth.results import ALMOST_ALL, ALMOST_NONE, Answer, Result, Verdict, as_chart, as_many, times_more
from breadth.results.terminal import WIDTH, interval_text, make_table, probability_text, share_text, signed_text
from breadth.results.words import FINDING, count, joined, points_text, score_interval_text
from breadth.sources import Table, open_study

if TYPE_CHECKING:
    import altair as alt

#: Decimals in which abilities must differ for subjects to be ranked by them rather than by name.
ABILITY_DIGITS = 6

#: Subjects that are compared with each other: with more, the table of differences is too long to read.
MOST_COMPARED = 12

#: Subjects that the summary describes.
MOST_DESCRIBED = 5


@dataclass(frozen=True)
class Profile(Result):
    """Accuracy by level, and differences between every two of the chosen subjects.

    ``levels``: ``subject, level, n, accuracy, ci_low, ci_high, expected``. ``differences``: ``subject_1, subject_2,
    level, n, difference, se, ci_low, ci_high, p, q, share``, where a null level is all items and ``share`` is the part
    of the whole difference that comes from the level. There is no interval for a single item, or where all items
    differ by the same.
    """

    levels: pl.DataFrame
    differences: pl.DataFrame
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """Accuracy by level, and the differences."""
        return {"levels": self.levels, "differences": self.differences}

    def verdict(self) -> Verdict | None:
        """Do these subjects differ, and on which levels? None for a single subject.

        A difference, on all items or on a level, is a finding if q < 0.05 over the whole frame. Yes: at least 90 % of
        pairs of subjects differ on all items. No: at most 10 % do, no level differs, and the median pair would have
        shown a difference of 5 points with a probability of 80 %. Not enough data: the same, if it would not. It
        depends: otherwise, or where a subject is ahead on one level and behind on another.
        """
        if not self.differences.height:
            return None
        whole = self.differences.filter(pl.col("level").is_null())
        found = self.differences.filter(pl.col("q") < FINDING).sort(pl.col("difference").abs(), descending=True)
        levels, pairs = found.drop_nulls("level"), ["subject_1", "subject_2"]
        sides = levels.group_by(pairs).agg(pl.col("difference").min().alias("low"), pl.col("difference").max())
        both = sides.filter((pl.col("low") < 0) & (pl.col("difference") > 0)).height
        differ = found.filter(pl.col("level").is_null()).height
        counted = f"{differ} of {whole.height} pairs of subjects {'differs' if differ == 1 else 'differ'}"
        if whole.height == 1:
            first, second = whole.select(pairs).row(0)
            counted = f"{first} and {second} {'differ' if differ else 'do not clearly differ'}"
        where = f" {count(both, 'pair')} {'is' if both == 1 else 'are'} apart both ways, by level." if both else ""
        lines = _largest(found)
        if differ >= ALMOST_ALL * whole.height and not both:
            return Verdict(Answer.YES, f"{counted} overall.", lines)
        if differ > ALMOST_NONE * whole.height or levels.height:
            on = f"{'and' if differ else 'but'} {_on_levels(levels, whole.height == 1)}"
            return Verdict(Answer.DEPENDS, f"{counted} overall, {on}.{where}", lines)
        error = whole["se"].median()
        if error is None or (times := times_more(float(error))) <= 1:  # type: ignore[arg-type]
            seen = "" if error is None else ", although a difference of 5 points would have been seen"
            return Verdict(Answer.NO, f"{counted} overall{seen}.", lines)
        needed = f"To see a difference of 5 points takes {as_many(times, 'items')}."
        return Verdict(Answer.UNKNOWN, f"{counted} overall or on a level.", lines, needed)

    def details(self) -> str:
        """Accuracy on the easiest and hardest level; for two subjects, how they differ."""
        known = self.levels.drop_nulls("accuracy").sort("level", maintain_order=True)
        parts = []
        for (subject,), rows in known.group_by("subject", maintain_order=True):
            low, high = (f"{rows['accuracy'][k]:.0%} on level {rows['level'][k]}" for k in (0, -1))
            parts.append(f"{subject}: {low}, {high}.")
        if len(parts) > MOST_DESCRIBED:
            parts = [*parts[:MOST_DESCRIBED], f"{count(len(parts) - MOST_DESCRIBED, 'more subject')} in the table."]
        if self.levels["subject"].n_unique() == 2 and self.differences.height:
            whole = self.differences.row(0, named=True)
            inside = f" ({score_interval_text(whole)})" if whole["ci_low"] is not None else ""
            parts.append(
                f"{whole['subject_1']} minus {whole['subject_2']}: {points_text(whole['difference'])}{inside} on "
                f"{count(whole['n'], 'item')}."
            )
        return " ".join(parts)

    def figure(self) -> alt.TopLevelMixin:
        """Accuracy by difficulty, a colour per subject."""
        return as_chart(accuracy_by_level_figure(self.levels, "levels"), tables={"levels": self.levels})


def _largest(found: pl.DataFrame) -> str:
    """The largest difference that is a finding and, of the same two subjects, the largest on a level."""
    if not found.height:
        return ""
    first = found.sort(pl.col("level").is_not_null(), maintain_order=True).row(0, named=True)
    same = found.filter(subject_1=first["subject_1"], subject_2=first["subject_2"])
    rows = pl.concat([same.filter(pl.col("level").is_null()), same.drop_nulls("level").head(1)]).iter_rows(named=True)
    places = [(row, "overall" if row["level"] is None else f"on level {row['level']}") for row in rows]
    parts = [f"{points_text(row['difference'])} ({score_interval_text(row)}) {place}" for row, place in places]
    return f"Largest: {first['subject_1']} minus {first['subject_2']}, {' and '.join(parts)}."


def _on_levels(levels: pl.DataFrame, alone: bool) -> str:
    """On which levels subjects differ; of several pairs, how many do so on some level."""
    pairs = levels.select("subject_1", "subject_2").n_unique() if levels.height else 0
    if not alone:
        return f"{count(pairs, 'pair')} on single levels" if pairs else "none on a single level"
    return f"on level {joined(list(map(str, levels['level'].sort())))}" if pairs else "on no single level"


class Scale(NamedTuple):
    """Level of every item (NaN: none), ability of every subject, chance of a right answer, and subjects to choose from.

    Without a calibration nothing is expected of a subject: ``probability`` is None. ``used`` are the items that are not
    left out, and ``have`` says in what they differ from the others.
    """

    level: Floats
    ability: Floats
    probability: Callable[[Floats], Floats] | None
    ranked: pl.Series
    used: npt.NDArray[np.bool_]
    have: str


def profile(
    responses: Any,
    calibration: str | os.PathLike[str] | Calibration | None = None,
    subjects: str | Sequence[str] | None = None,
    *,
    levels: int = DEFAULT_LEVELS,
) -> Profile:
    """Accuracy of subjects by difficulty level, and how much of a difference comes from which levels.

    Intervals of accuracies are Wilson's. A difference between two subjects is paired: its standard error comes from the
    item-by-item differences over the items that both answered, with t quantiles. Up to twelve subjects are compared
    with each other.

    Parameters
    ----------
    responses
        Anything :func:`breadth.open` takes.
    calibration
        Where the levels of the items come from, and what is expected of a subject. By default levels are those stored
        with the items, and nothing is expected.
    subjects
        Names of subjects; by default five, spread over ability. In a study's directory: runs, models or RUN/STEP (also
        RUN/first, RUN/last), with wildcards; by default the first and last checkpoint of every run. There, differences
        are later minus earlier.
    levels
        Number of levels to cut the calibration into.

    Examples
    --------
    >>> import breadth, polars as pl
    >>> items = {"item": list("abcd"), "level": [0, 0, 1, 1]}
    >>> answers = [pl.DataFrame({"subject": name, **items, "correct": [1, 1, 0, k]}) for k, name in enumerate("xy")]
    >>> breadth.profile(pl.concat(answers)).levels["accuracy"].to_list()
    [1.0, 1.0, 0.0, 0.5]
    """
    study = open_study(responses)
    scale = _stored_levels(study) if calibration is None else _calibrated(study, calibration, levels)
    # Names are given one by one or joined by commas; a subject whose name holds a comma is taken as it is.
    names: list[str] = []
    for entry in [subjects] if isinstance(subjects, str) else subjects or ():
        whole = entry in study.subject_names
        names += [entry] if whole else [part.strip() for part in entry.split(",") if part.strip()]
    keys = study.subjects
    trained = {"run", "model", "step"} <= set(keys.columns) and not keys["step"].null_count()
    if trained:
        chosen = choose_checkpoints(study, None if subjects is None else names)
    else:
        chosen = evenly(scale.ranked) if subjects is None else _check_subjects(study, names)
    frame = accuracy_by_level(study, scale.level, subjects=chosen, ability=scale.ability, probability=scale.probability)
    compared = chosen[::-1] if trained else chosen
    warnings = study.warnings
    if not scale.used.all():
        sizes = f"{scale.used.sum():,} of {scale.used.size:,} items"
        warnings += (f"{sizes} {scale.have}; the others are left out",)
    return Profile(frame, _subject_differences(study, scale.level, compared), warnings)


def _stored_levels(study: Study) -> Scale:
    """The levels that the items have in the study."""
    has_level = "level" in study.items.columns
    level = (
        Table(study.items, study.name).numbers("level").to_numpy() if has_level else np.full(study.items.height, np.nan)
    )
    if np.isnan(level).all():
        raise InputError(
            f"{study.name}: its items have no level; name a calibration with --calibration (`breadth calibrate` makes "
            "one)"
        )
    accuracy, count = study.scores
    score = np.nansum(accuracy * count, axis=1) / np.maximum(count.sum(axis=1), 1)
    ranked = _rank_subjects(pl.DataFrame({"subject": study.subject_names, "ability": score}))
    return Scale(level, np.empty(0), None, ranked, ~np.isnan(level), "have a level")


def _calibrated(study: Study, calibration: str | os.PathLike[str] | Calibration, levels: int) -> Scale:
    """Levels and abilities on the scale of a calibration; items that it does not have are left out."""
    known = Calibration.of(calibration)
    abilities = known.score(study)
    place = {name: index for index, name in enumerate(known.items["item"])}
    column = np.array([place.get(name, -1) for name in study.item_names])
    level = np.where(column >= 0, numbers(known.levels(levels), "level")[column], np.nan)

    def probability(ability: Floats) -> Floats:
        return np.where(column >= 0, known.parameters.probability(ability)[:, column], np.nan)

    ranked = _rank_subjects(abilities.filter(pl.col("n") > 0))
    ability = numbers(abilities, "ability")
    return Scale(level, ability, probability, ranked, ~np.isnan(level), "have a level in the calibration")


def _rank_subjects(abilities: pl.DataFrame) -> pl.Series:
    """Names of subjects from the least able on; equal ones, whose abilities may differ by rounding, by name."""
    return abilities.sort(pl.col("ability").round(ABILITY_DIGITS), "subject")["subject"]


def choose_checkpoints(study: Study, patterns: Sequence[str] | None) -> list[str]:
    """Subjects of a study by run, model or step, in order; by default the first and last checkpoint of every run.

    A pattern (with wildcards) that matches runs or models means their first and last checkpoint; RUN/STEP or
    MODEL/STEP, where STEP is a number, ``first``, ``last`` or ``*``, means those checkpoints.
    """
    run, model, step = pl.col("run"), pl.col("model"), pl.col("step")
    rows = study.subjects.with_columns(first=step == step.min().over("run"), last=step == step.max().over("run"))
    rows = rows.sort("run", "step", maintain_order=True).with_columns(step.cast(pl.String))
    ends = rows.filter(pl.col("first") | pl.col("last"))
    if patterns is None:
        return ends["subject"].to_list()
    words = {"first", "last", *rows["run"], *rows["model"].drop_nulls(), *rows["step"]}
    chosen: list[str] = []
    for pattern in patterns:
        front, _, end = pattern.rpartition("/")
        whole, fronts, steps = (
            [word for word in words if word == part or fnmatch.fnmatchcase(word, part)]
            for part in (pattern, front, end)
        )
        matches = ends.filter(run.is_in(whole) | model.is_in(whole))
        if not matches.height:
            at = pl.any_horizontal(step.is_in(steps), *({"first", "last"} & {*steps}))
            matches = rows.filter(at & (run.is_in(fronts) | model.is_in(fronts)))
        if not matches.height:
            runs = ends["run"].unique(maintain_order=True)
            near = did_you_mean([pattern], [*runs, *ends["model"].unique().drop_nulls().sort(), *study.subject_names])
            raise InputError(
                f"{study.name}: no run, model or checkpoint matches {pattern!r}.{near} Runs: {listed(runs, 5)}; a "
                "checkpoint is RUN/STEP, RUN/first or RUN/last"
            )
        chosen += matches["subject"].to_list()
    return list(dict.fromkeys(chosen))


def _check_subjects(study: Study, names: Sequence[str]) -> list[str]:
    unknown = [name for name in names if name not in study.subject_names]
    if unknown:
        hint = did_you_mean(unknown, study.subject_names)
        raise InputError(
            f"{study.name}: there is no subject {listed(unknown)}.{hint} Subjects: {listed(study.subject_names, 5)}"
        )
    return list(dict.fromkeys(names))


def _subject_differences(study: Study, level: Floats, subjects: Sequence[str]) -> pl.DataFrame:
    """Mean difference of every two subjects, on all items and by level, with its t interval.

    There is no interval for fewer than two items or without any variation.
    """
    place = {name: index for index, name in enumerate(study.subject_names)}
    rows: list[dict[str, Any]] = []
    for first, second in itertools.combinations(subjects[:MOST_COMPARED], 2):
        one, two = (study.matrix[place[name]].astype(np.float64) for name in (first, second))
        both = (one >= 0) & (two >= 0) & ~np.isnan(level)
        gap = one - two
        whole = float(gap[both].sum())
        for k in (None, *np.unique(level[both])):
            inside = gap[both] if k is None else gap[both & (level == k)]
            n = len(inside)
            mean = float(inside.mean()) if n else None
            se = float(inside.std(ddof=1) / np.sqrt(n)) if n > 1 else None
            row: dict[str, Any] = {"subject_1": first, "subject_2": second, "level": None if k is None else int(k)}
            row |= {"n": n, "difference": mean, "se": se, "share": float(inside.sum()) / whole if whole else None}
            if mean is not None and se:
                half = float(special.stdtrit(n - 1, (1 + LEVEL) / 2)) * se
                p = float(2 * special.stdtr(n - 1, -abs(mean) / se))
                row |= {"ci_low": mean - half, "ci_high": mean + half, "p": p}
            rows.append(row)
    schema = {"subject_1": pl.String, "subject_2": pl.String, "level": pl.Int64, "n": pl.Int64}
    names = ("difference", "se", "ci_low", "ci_high", "p", "share")
    frame = pl.DataFrame(rows, schema={**schema, **dict.fromkeys(names, pl.Float64)})
    q = benjamini_hochberg(frame["p"].fill_null(float("nan")).to_numpy())
    return frame.insert_column(frame.columns.index("share"), pl.Series("q", q, nan_to_null=True))


def profile_table(levels: pl.DataFrame, width: int = WIDTH) -> rich.table.Table:
    """A row per subject, a column per level: accuracy in per cent, and half the width of its 95 % interval.

    With more levels than fit otherwise, the interval is below the accuracy.
    """
    names = [str(level) for level in levels["level"].unique().sort()]
    one_line = len(names) <= 6 and 12 + 9 * len(names) <= width
    title = "Accuracy by difficulty level (0 is the easiest), in per cent"
    table = make_table(title, ["subject"], [], width, what="level")
    table.columns[0].max_width = max(10, width - 2 - (9 if one_line else 6) * len(names))
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, min_width=6 if one_line else 3)
    for part in levels.partition_by("subject", maintain_order=True):
        rows = {str(row["level"]): row for row in part.iter_rows(named=True)}
        cells = (_accuracy(rows.get(name), " " if one_line else "\n") for name in names)
        table.add_row(Text(part["subject"][0]), *cells)
    return table


def differences_table(differences: pl.DataFrame, width: int = WIDTH) -> rich.table.Table:
    """Where two subjects differ: per level, the paired difference and its share of the whole."""
    first, second = differences.select("subject_1", "subject_2").row(0)
    numbers = ["level", "n", "difference", "95% interval", "q", "share of the whole"]
    least = ["share of the whole", "n"]
    table = make_table(f"{first} minus {second}", [], numbers, width, least=least)
    for row in differences.iter_rows(named=True):
        table.add_row(
            "all" if row["level"] is None else str(row["level"]),
            str(row["n"]),
            signed_text(row["difference"]),
            interval_text(row["ci_low"], row["ci_high"]),
            probability_text(row["q"]),
            share_text(row["share"]),
        )
    return table


def _accuracy(row: dict[str, float] | None, between: str) -> Text:
    if row is None or row["accuracy"] is None:
        return Text("-")
    half_width = f"±{50 * (row['ci_high'] - row['ci_low']):.0f}"
    return Text.assemble(f"{100 * row['accuracy']:.0f}", between, (half_width, "dim"))
