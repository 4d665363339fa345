"""Scores of test sets over runs and checkpoints, from a long or a wide table or from single answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, listed, unknown_column
from breadth.records import BIAS, Reading, Score, Scored, Study, bias_columns, scored
from breadth.sources.column_roles import ColumnRoles, Names, infer_columns, names_in
from breadth.sources.limits import check_columns
from breadth.sources.tables import Table
from breadth.sources.vocabulary import Role, role_of

#: A column of percentages reaches above this many, and at most 100.
LEAST_PERCENT = 10.0


@dataclass(frozen=True)
class ScoreTable:
    """One row per subject, sorted by group and order; one column of floats per control and test set.

    ``halves`` is there when single answers are known: for every row, score column (test sets, then controls) and random
    split of the items, half the difference between the two halves' scores. Its errors have the same spread as those of
    the whole score. ``turned`` are the columns whose sign was changed because lower is better there. ``reading`` says
    what the columns of the source were taken for, why, what was left out, and how to overrule it. ``about`` has the
    other columns of the table, row by row: what is known of a run besides its scores (its model, seed or family).
    ``sizes`` are the items of every test set where single answers are known. ``original_names`` are those of
    the columns in the source, where names of test sets were shortened. ``lower_is_better`` are
    the columns that the user named so; None where names decide.
    """

    frame: pl.DataFrame
    name: str
    by: tuple[str, ...]
    order: str | None
    controls: tuple[str, ...]
    testsets: tuple[str, ...]
    halves: npt.NDArray[np.float64] | None = None
    warnings: tuple[str, ...] = ()
    turned: tuple[str, ...] = ()
    reading: Reading = field(default_factory=Reading)
    about: pl.DataFrame | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    original_names: Mapping[str, str] = field(default_factory=dict)
    lower_is_better: Names = None

    def testset_named(self, name: str) -> str:
        """The test set of a name, which may be that of its column in the source."""
        for testset, column in self.original_names.items():
            if name == column:
                return testset
        return name


def scores_of_columns(roles: ColumnRoles, halves: Mapping[str, npt.NDArray[np.float64]] | None = None) -> ScoreTable:
    """The scores of a table whose columns are known, with the split halves of single answers if there are any."""
    table = roles.table
    _check_columns(roles)
    keys = [*roles.by]
    if roles.order is not None:
        keys.append(roles.order)
    frame = table.frame.with_row_index("__row")  # its scores are numbers already
    if roles.order is not None and frame[roles.order].dtype == pl.String:
        frame = frame.with_columns(table.numbers(roles.order))
    rows = frame.sort(keys, maintain_order=True)["__row"].to_numpy()
    differences = None
    if halves:
        differences = np.stack([halves[name] for name in (*roles.testsets, *roles.controls)], axis=1)[rows]
    frame, warnings = _on_one_scale(frame, [*roles.controls, *roles.testsets], table.name)
    return ScoreTable(
        frame[rows].select(*keys, *roles.controls, *roles.testsets),
        table.name,
        roles.by,
        roles.order,
        roles.controls,
        roles.testsets,
        differences,
        (*table.warnings, *warnings),
        reading=roles.reading,
        about=frame[rows].select(pl.exclude("__row", *keys, *roles.controls, *roles.testsets)),
        original_names={short: column for column, short in roles.renamed.items()},
    )


def _check_columns(roles: ColumnRoles) -> None:
    """Refuse columns that are not there, that play two parts, or no score at all."""
    name, columns = roles.table.name, roles.table.frame.columns
    for control in roles.controls:
        if control not in columns:
            raise unknown_column(control, columns, name, "control")
    if not roles.testsets and not roles.controls:
        raise InputError(f"{name}: no column holds scores of a test set. Columns: {listed(columns, 40)}")
    both = [control for control in roles.controls if control in roles.testsets]
    if both:
        raise InputError(
            f"{name}: {listed(both)} is both control and test set; nothing is left of it after controlling for it. "
            "Remove it from one of the two"
        )
    keys = {*roles.by, roles.order}
    both = [score for score in (*roles.controls, *roles.testsets) if score in keys]
    if both:
        raise InputError(f"{name}: {listed(both)} is used for --by or --order and as a score; choose one")


def scores_of_study(
    study: Study,
    control: Names = None,
    testsets: Names = None,
    by: Names = None,
    order: str | None = None,
    *,
    score: Score = "accuracy",
    square_bias: bool = False,
    splits: int = 10,
    seed: int = 0,
) -> ScoreTable:
    """Scores of the subjects of a study, with the split halves that tell how noisy they are.

    ``score`` is what is computed from single answers. The control ``bias`` is the answer bias of every subject;
    ``square_bias`` adds its square, since accuracy is best at some bias and falls on both sides of it, which a straight
    line cannot follow.
    """
    check_columns(study.testsets, study.name)
    table = Table(study.trajectories, study.name, warnings=study.warnings)
    scores = scored(study, score, splits, seed)
    halves = dict(zip(study.testsets, scores.halves.swapaxes(0, 1), strict=True))
    columns = table.frame.columns
    controls = names_in(control, columns)
    if score != "accuracy":
        table = _with_other_score(study, table, scores, score, {*controls, *names_in(testsets, columns)})
    if BIAS in controls and BIAS not in columns:
        powers = 2 if square_bias else 1
        bias, moved, notes = bias_columns(study, powers, splits, seed)
        names = [BIAS, f"{BIAS} squared"][:powers]
        series = [pl.Series(name, values, nan_to_null=True) for name, values in zip(names, bias.T, strict=True)]
        table = Table(table.frame.with_columns(series), table.name, warnings=(*table.warnings, *notes))
        halves |= dict(zip(names, moved.swapaxes(0, 1), strict=True))
        control = [*(name for name in controls if name != BIAS), *names]
    marked = [name for name, kind in study.shifts.items() if kind == "in-domain"]
    in_domain = marked[0] if len(marked) == 1 else None
    roles = infer_columns(table, by, order, control, testsets, known=study.testsets, in_domain=in_domain)
    trajectories = scores_of_columns(replace(roles, reading=_reading_of_both(study.reading, roles.reading)), halves)
    items = study.scores[1].max(axis=0, initial=0)
    sizes = {name: int(number) for name, number in zip(study.testsets, items, strict=True)}
    return replace(trajectories, sizes=sizes)


def _reading_of_both(answers: Reading, scores: Reading) -> Reading:
    """How answers were read, and what their scores were taken for."""
    first = [lines[0] for lines in (answers.lines()[:1], scores.lines()[:1]) if lines]
    if not first:
        return scores
    notes = tuple(first[1:])
    return replace(answers, summary=first[0], left_out={}, notes=notes, correction="", quiet=False)


def _with_other_score(study: Study, table: Table, scores: Scored, score: Score, named: set[str]) -> Table:
    """The table of a study with another score than accuracy; test sets for which it is not defined are left out."""
    undefined = scores.undefined
    warnings = list(table.warnings)
    for name in study.testsets:
        if name in undefined and (name in named or len(undefined) == len(study.testsets)):
            raise InputError(undefined[name])
    if undefined:
        warnings.append(f"{score} is not defined for {listed(undefined)}, left out ({next(iter(undefined.values()))})")
    series = []
    for name, values in zip(study.testsets, scores.scores.T, strict=True):
        if not np.isnan(values).all():
            series.append(pl.Series(name, values, nan_to_null=True))
    frame = table.frame.drop(study.testsets, strict=False).with_columns(series)
    return Table(frame, table.name, warnings=tuple(warnings))


def _on_one_scale(frame: pl.DataFrame, scores: Sequence[str], name: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Shares among percentages as percentages, and warnings about them and about columns that mix the two."""
    warnings = []
    ends: dict[str, tuple[float, float]] = {}
    for column in scores:
        values = frame[column]
        size = values.abs()
        low, high = size.filter((size > 0) & (size <= 1)).max(), size.filter(size > 1).min()
        if low is not None and high is not None and float(high) > 10 * float(low):  # type: ignore[arg-type]
            row = int((size <= 1).fill_null(False).arg_max() or 0)
            warnings.append(
                f"{name}, column {column!r}: fractions and percentages seem to be mixed (for instance {values[row]!r} "
                f"and {high!r}); put the column on one scale"
            )
        if values.count() and role_of(column) is not Role.LOSS:  # losses are on a scale of their own
            ends[column] = (float(values.min()), float(values.max()))  # type: ignore[arg-type]
    if not any(low >= 0 and LEAST_PERCENT < high <= 100 for low, high in ends.values()):
        return frame, tuple(warnings)
    shares = [column for column, (low, high) in ends.items() if low >= 0 and 0 < high <= 1]
    if shares:
        frame = frame.with_columns(pl.col(shares) * 100)
        verb = "is" if len(shares) == 1 else "are"
        warnings.append(
            f"{name}: {listed(shares)} {verb} between 0 and 1, other scores up to 100: read as shares and multiplied "
            "by 100. If that is wrong, put all columns on one scale"
        )
    return frame, tuple(warnings)
