"""Scores of test sets over runs and checkpoints, from a long or a wide table or from single answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, listed, unknown_column
from breadth.records.readers import Format, format_of, open_study, read_answers, read_matrix
from breadth.records.roles import Role, role_of
from breadth.records.sensitivity import BIAS, Score, Scored, bias_columns, scored
from breadth.records.study import Study
from breadth.records.tables import Table
from breadth.records.understanding import NONE, Kind, Names, Understanding, names_in, understand

#: Columns beyond which a table of shares holds answers, and the share of its values that are 0 or 1 if it does.
MOST_TESTSETS, MOSTLY = 100, 0.5


@dataclass(frozen=True)
class Trajectories:
    """One row per subject, sorted by group and order; one column of floats per control and test set.

    ``halves`` is there when single answers are known: for every row, score column (test sets, then controls) and random
    split of the items, half the difference between the two halves' scores. Its errors have the same spread as those of
    the whole score. ``turned`` are the columns whose sign was changed because lower is better there. ``understood``
    says what the columns of the table were taken for, where that was not given. ``about`` has the other columns of the
    table, row by row: what is known of a run besides its scores (its model, seed or family). ``sizes`` are the items of
    every test set where single answers are known.
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
    understood: tuple[str, ...] = ()
    about: pl.DataFrame | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)


def open_any(
    source: Any, *, by: Names = None, order: str | None = None, control: Names = None, testsets: Names = None
) -> Study | Trajectories:
    """Open whatever it is: answers as a :class:`Study`, scores as :class:`Trajectories`.

    ``source`` is anything that :func:`open_study` or :func:`settle_trajectories` reads. Which of the two it is, and
    what its columns stand for, is recognised and said in ``understood``; options settle it. Scores need no control,
    and a table with a row per model has no order.
    """
    if isinstance(source, Study | Trajectories):
        return source
    form = format_of(source)
    if form is Format.NPZ:
        study = read_matrix(source)
        if study.matrix.dtype == np.int8 and study.matrix.max(initial=0) <= 1:
            return open_study(source)
    elif form is not Format.TABLE:
        return open_study(source)
    understood = understand(read_answers(source), by, order, control, testsets)
    if understood.kind is Kind.ANSWERS:
        return open_study(understood)
    return _settled(understood, understood.lines())


def open_answers(source: Any, *, keys: Sequence[str] = ()) -> Study:
    """Open answers, item by item; scores are refused with a word on what takes them.

    Shares may be either: a wide table of them holds scores if that is what its columns are taken for, unless it looks
    like answers with partial credit; an NPZ matrix of them holds answers. ``keys`` are those of :func:`open_study`.
    """
    study, cause = None, None
    try:
        study = open_study(source, keys=keys)
    except InputError as error:
        cause = error
    if study is not None and (isinstance(source, Study) or study.matrix.dtype == np.int8 or _partial_credit(study)):
        return study
    if study is not None and format_of(source) is Format.NPZ:
        return study
    opened: Study | Trajectories | None = None
    with suppress(InputError):
        opened = open_any(source)
    if isinstance(opened, Trajectories):
        raise InputError(
            f"{opened.name}: holds scores of test sets; this takes answers, item by item. `breadth correlate`, "
            "`breadth report`, `breadth advise testsets` and `breadth advise power` (for seeds) take scores"
        ) from cause
    if study is None:
        assert cause is not None
        raise cause
    return study


def _partial_credit(study: Study) -> bool:
    """Whether shares are answers beyond doubt: most are 0 or 1, or there are more columns than tables have test sets.

    Columns with numbers for names are items as well.
    """
    shares = study.matrix[study.answered]
    numbered = sum(name.isdecimal() for name in study.item_names)
    return bool(
        np.isin(shares, (0, 1)).mean() > MOSTLY
        or len(study.item_names) > MOST_TESTSETS
        or numbered > MOSTLY * len(study.item_names)
    )


def settle_trajectories(
    source: Any,
    control: Names = None,
    testsets: Names = None,
    by: Names = None,
    order: str | None = None,
    *,
    also: Names = None,
    score: Score = "accuracy",
    square_bias: bool = False,
    splits: int = 10,
    seed: int = 0,
) -> Trajectories:
    """Read scores and settle which columns play which part.

    A wide table has a column per test set. A long table has columns for the test set and the score. Single answers (a
    :class:`Study`, its directory, or a table with a row per answer) are averaged per subject and test set. What is not
    given is recognised (:func:`understand`) and said in ``understood``; () or ``none`` mean none. ``testsets`` may hold
    wildcards; ``also`` are losses to take as test sets beside accuracies. ``score`` is what is computed from single
    answers. From these, the control ``bias`` is the answer bias of every subject; ``square_bias`` adds its square,
    since accuracy is best at some bias and falls on both sides of it, which a straight line cannot follow.
    """
    study = source if isinstance(source, Study) else None
    if study is None and format_of(source) not in (Format.TABLE, Format.NPZ):
        study = open_study(source)
    if study is None:
        understood = understand(read_answers(source), by, order, control, testsets, also=also)
        if understood.kind is Kind.SCORES:
            if score != "accuracy" or BIAS in set(understood.controls) - set(understood.table.frame.columns):
                option = f"--control {BIAS}" if score == "accuracy" else f"--score {score}"
                raise InputError(
                    f"{understood.table.name}: holds scores, and {option} needs single answers: columns testset, item, "
                    "correct, label and margin, or a study"
                )
            return _settled(understood, understood.lines())
        columns = understood.renamed
        by = None if by is None else [columns.get(name, name) for name in names_in(by, list(columns))]
        order = columns.get(order, order) if order else order
        study = open_study(understood, keys=[*(by or ()), *([order] if order and order != NONE else ())])
    return _from_answers(study, control, testsets, by, order, score, square_bias, splits, seed)


def _from_answers(
    study: Study,
    control: Names,
    testsets: Names,
    by: Names,
    order: str | None,
    score: Score,
    square_bias: bool,
    splits: int,
    seed: int,
) -> Trajectories:
    """Scores of the subjects of a study, with the split halves that tell how noisy they are."""
    table = Table(study.trajectories, study.name, warnings=study.warnings)
    scores_of = scored(study, score, splits, seed)
    halves = dict(zip(study.testsets, scores_of.halves.swapaxes(0, 1), strict=True))
    controls = names_in(control, table.frame.columns)
    if score != "accuracy":
        table = _rescored(study, table, scores_of, score, {*controls, *names_in(testsets, table.frame.columns)})
    if BIAS in controls and BIAS not in table.frame.columns:
        bias, moved, notes = bias_columns(study, 1 + square_bias, splits, seed)
        names = [BIAS, f"{BIAS} squared"][: 1 + square_bias]
        series = (pl.Series(name, values, nan_to_null=True) for name, values in zip(names, bias.T, strict=True))
        table = Table(table.frame.with_columns(series), table.name, warnings=(*table.warnings, *notes))
        halves |= dict(zip(names, moved.swapaxes(0, 1), strict=True))
        control = [*(name for name in controls if name != BIAS), *names]
    marked = [name for name, kind in study.shifts.items() if kind == "in-domain"]
    understood = understand(
        table, by, order, control, testsets, known=study.testsets, in_domain=marked[0] if len(marked) == 1 else None
    )
    trajectories = _settled(understood, (*study.understood[:1], *understood.lines()[:1]), halves)
    items = study.scores[1].max(axis=0, initial=0)
    sizes = {name: int(number) for name, number in zip(study.testsets, items, strict=True)}
    return replace(trajectories, sizes=sizes)


def _settled(
    understood: Understanding, lines: tuple[str, ...], halves: dict[str, npt.NDArray[np.float64]] | None = None
) -> Trajectories:
    """Trajectories of checked columns, with the split halves of single answers if there are any."""
    table, groups, order = understood.table, understood.by, understood.order
    controls, chosen = understood.controls, understood.testsets
    keys, columns = [*groups, *([order] if order else [])], table.frame.columns
    for name in controls:
        if name not in columns:
            raise unknown_column(name, columns, table.name, "control")
    if len(chosen) < 2:
        raise InputError(
            f"{table.name}: test sets to correlate: {listed(chosen) or 'none'}; a correlation needs at least 2 "
            f"columns of scores besides the control. Columns: {listed(columns, 40)}"
        )
    if both := [name for name in controls if name in chosen]:
        raise InputError(
            f"{table.name}: {listed(both)} is both control and test set; nothing is left of it after controlling "
            "for it. Remove it from one of the two"
        )
    if both := [name for name in (*controls, *chosen) if name in keys]:
        raise InputError(f"{table.name}: {listed(both)} is used for --by or --order and as a score; choose one")
    frame = table.frame.with_row_index("__row")  # its scores are numbers already
    if order is not None and frame[order].dtype == pl.String:
        frame = frame.with_columns(table.numbers(order))
    rows = frame.sort(keys, maintain_order=True)["__row"].to_numpy()
    differences = np.stack([halves[name] for name in (*chosen, *controls)], axis=1)[rows] if halves else None
    frame, warnings = _on_one_scale(frame, [*controls, *chosen], table.name)
    kept = frame[rows].select(*keys, *controls, *chosen)
    about = frame[rows].select(pl.exclude("__row", *keys, *controls, *chosen))
    warnings = (*table.warnings, *warnings)
    return Trajectories(
        kept, table.name, groups, order, controls, chosen, differences, warnings, understood=lines, about=about
    )


def _rescored(study: Study, table: Table, scores: Scored, score: Score, named: set[str]) -> Table:
    """The table of a study with another score than accuracy; test sets for which it is not defined are left out."""
    undefined, warnings = scores.undefined, list(table.warnings)
    for name in study.testsets:
        if name in undefined and (name in named or len(undefined) == len(study.testsets)):
            raise InputError(undefined[name])
    if undefined:
        warnings.append(f"{score} is not defined for {listed(undefined)}, left out ({next(iter(undefined.values()))})")
    columns = dict(zip(study.testsets, scores.scores.T, strict=True))
    known = {name: values for name, values in columns.items() if not np.isnan(values).all()}
    frame = table.frame.drop(study.testsets, strict=False)
    frame = frame.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in known.items())
    return Table(frame, table.name, warnings=tuple(warnings))


def _on_one_scale(frame: pl.DataFrame, scores: Sequence[str], name: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Shares among percentages as percentages, and warnings about them and about columns that mix the two."""
    warnings, ends = [], dict[str, tuple[float, float]]()
    for values in (frame[column] for column in scores):
        size = values.abs()
        low, high = size.filter((size > 0) & (size <= 1)).max(), size.filter(size > 1).min()
        if low is not None and high is not None and float(high) > 10 * float(low):  # type: ignore[arg-type]
            row = int((size <= 1).fill_null(False).arg_max() or 0)
            warnings.append(
                f"{name}, column {values.name!r}: fractions and percentages seem to be mixed (for instance "
                f"{values[row]!r} and {high!r}); put the column on one scale"
            )
        if values.count() and role_of(values.name) is not Role.LOSS:  # losses are on a scale of their own
            ends[values.name] = (float(values.min()), float(values.max()))  # type: ignore[arg-type]
    percentages = any(low >= 0 and 10 < high <= 100 for low, high in ends.values())
    shares = [column for column, (low, high) in ends.items() if percentages and low >= 0 and 0 < high <= 1]
    if shares:
        frame = frame.with_columns(pl.col(shares) * 100)
        warnings.append(
            f"{name}: {listed(shares)} {'is' if len(shares) == 1 else 'are'} between 0 and 1, other scores up to "
            "100: read as shares and multiplied by 100. If that is wrong, put all columns on one scale"
        )
    return frame, tuple(warnings)
