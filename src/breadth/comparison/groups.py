"""Who is compared: a subject, or all runs of a model at their last checkpoint, found by name."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, did_you_mean, listed
from breadth.inference import NORMAL, Floats
from breadth.irt import Calibration, cut_levels, numbers
from breadth.records import Study, name_rows
from breadth.results.words import count, joined

Bools = npt.NDArray[np.bool_]

#: Columns that tell the conditions of a model's training apart. Runs that differ in none of them are repeats.
CONDITIONS = ("train_set", "examples", "method", "strategy", "train_level")

#: Subjects besides the compared ones from which levels of difficulty are taken where none are stored.
FEWEST_OTHERS = 20

#: Levels of difficulty.
LEVELS = 5

#: Share of the items that most models answered, below which a model is left out: it would leave few items to all.
LEAST_ANSWERED = 0.9

#: What a verdict adds where trained models have one run each.
ONE_RUN_EACH = (
    "With one run each, this holds for these trained models; another run of the same recipe may do better or worse."
)

#: Different labels up to which always giving the commonest one is a way to answer.
MOST_LABELS = 10


def models_with_common_items(answered: Bools) -> Bools:
    """Which models to keep so that they have items in common; ``answered`` is models x items.

    Models that answered much less than the usual one are left out. Where the rest still share no item, models that did
    not answer what most of them answered are left out as well: one odd file must not spoil what all others allow.
    """
    count = answered.sum(axis=1)
    keep: Bools = count >= LEAST_ANSWERED * np.median(count)
    if answered[keep].all(axis=0).any():
        return keep
    usual = answered[keep].mean(axis=0) > 0.5
    if not usual.any():
        return keep
    share = answered[:, usual].mean(axis=1)
    sharing: Bools = keep & (share >= LEAST_ANSWERED)
    return sharing


@dataclass(frozen=True)
class Group:
    """What is compared, under one name: ``rows`` are those of its runs in the matrix."""

    name: str
    rows: tuple[int, ...]


def final_groups(study: Study) -> list[Group]:
    """Every model with its runs at their last checkpoint; models that were trained in several ways count as several.

    In a table that does not tell runs from models, every subject is a group.
    """
    subjects = _last(study)
    keys = _model_columns(subjects)
    if not keys:
        return [Group(name, (row,)) for row, name in subjects.select("row", "subject").iter_rows()]
    grouped = subjects.group_by(keys, maintain_order=True).agg("row")
    numeric = [name for name in keys if subjects[name].dtype != pl.String]
    names = name_rows(grouped.select(keys), keys, labelled=numeric)
    return [Group(name, tuple(rows)) for name, rows in zip(names, grouped["row"], strict=True)]


def has_several_groups(study: Study) -> bool:
    """Whether there are at least two models to compare, without making a group of each."""
    subjects = _last(study)
    keys = _model_columns(subjects)
    return (subjects.select(keys).n_unique() if keys else subjects.height) > 1


def _model_columns(subjects: pl.DataFrame) -> list[str]:
    """Columns that tell models, and ways of training them, apart; none where runs are not told from models."""
    if "model" not in subjects.columns or subjects["model"].null_count():
        return []
    conditions = [name for name in CONDITIONS if name in subjects.columns and subjects[name].n_unique() > 1]
    return ["model", *conditions]


def describe_left_out(study: Study, names: Sequence[str]) -> str:
    """Which models are left out because they answered other items, and the files in which they are."""
    verb = "is" if len(names) == 1 else "are"
    files = study.reading.with_files(names)
    return f"{count(len(names), 'model')} that answered few of the others' items {verb} left out: {listed(files, 3)}"


def noun_of_compared(study: Study, groups: Sequence[Group]) -> str:
    """What groups are called: models, or recipes where a model was trained in several ways and counts as several."""
    if "model" not in study.subjects.columns:
        return "model"
    names = study.subjects["model"].gather([group.rows[0] for group in groups]).drop_nulls()
    return "recipe" if names.is_duplicated().any() else "model"


def are_trained(study: Study) -> bool:
    """Whether subjects are known to be results of training runs, so that another run of a recipe is conceivable."""
    subjects = study.subjects
    recipe = ("step", "seed", "train_set", "examples", "train_level", "strategy")
    return any(subjects[name].is_not_null().any() for name in recipe if name in subjects.columns)


def describe_runs(groups: Mapping[str, int]) -> str:
    """What the numbers of runs of compared models (by name) mean for the intervals; empty where all have several."""
    single = [name for name, runs in groups.items() if runs == 1]
    if not single:
        return ""
    if len(single) == len(groups):
        return "With one run each, how much training runs vary is not in the intervals."
    verb = "has one run and is" if len(single) == 1 else "have one run each and are"
    return f"{joined(single, 3)} {verb} taken to vary from run to run like the others."


def named_groups(study: Study, names: Sequence[str]) -> tuple[list[Group], list[str]]:
    """Groups by name, and warnings: a subject; a model, or a run, at its last checkpoint; a pattern with wildcards."""
    subjects, every = _last(study), {name: row for row, name in enumerate(study.subject_names)}
    known = {group.name: group for group in final_groups(study)}
    groups, warnings = [], []
    for name in names:
        if name in every:
            groups.append(Group(name, (every[name],)))
            continue
        if name in known:
            groups.append(known[name])
            continue
        columns = [column for column in ("model", "run", "subject") if column in subjects.columns]
        matched = next((part for column in columns if (part := _matching(subjects, column, name)).height), None)
        if matched is None:
            words = [*known]
            for column in columns:
                words += subjects[column].drop_nulls().unique().cast(pl.String).to_list()
            longer = sorted({word for word in words if name.lower() in word.lower()})
            meant = f" Names with it: {listed(longer, 3)}." if longer else did_you_mean([name], words)
            raise InputError(f"{study.name}: nothing is called {name!r}.{meant} To compare: {listed(known, 5)}")
        mixed = [key for key in ("model", *CONDITIONS) if key in matched.columns and matched[key].n_unique() > 1]
        if mixed:
            warnings.append(
                f"{name}: its {matched.height} runs differ in {listed(mixed)} and are taken as repeats of one model; "
                f"name a part of them, such as {listed(list(known)[:2])}"
            )
        elif "model" not in matched.columns and matched.height > 1:
            warnings.append(f"{name}: matches {matched.height} subjects, which are taken as repeats of one model")
        groups.append(Group(name, tuple(matched["row"])))
    twice = [name for name in {*names} if list(names).count(name) > 1]
    if twice:
        raise InputError(f"{study.name}: {listed(twice)} is named twice; name two different subjects")
    return groups, warnings


def _last(study: Study) -> pl.DataFrame:
    """The subjects with their row in the matrix, of every run the last checkpoint alone."""
    subjects = study.subjects.with_row_index("row")
    if "step" not in subjects.columns or subjects["step"].null_count():
        return subjects
    runs = [name for name in ("run", "model", "seed", *CONDITIONS) if name in subjects.columns]
    runs = ["run"] if "run" in runs else runs
    return subjects.filter(pl.col("step") == pl.col("step").max().over(runs)) if runs else subjects


def _matching(subjects: pl.DataFrame, column: str, pattern: str) -> pl.DataFrame:
    values = [value for value in subjects[column].drop_nulls().unique() if fnmatch.fnmatchcase(str(value), pattern)]
    return subjects.filter(pl.col(column).is_in(values))


def group_answers(study: Study, group: Group, columns: npt.NDArray[np.intp]) -> Floats:
    """Answers [runs, items] of a group to items that all of its runs answered."""
    return np.asarray(study.matrix[list(group.rows)][:, columns], dtype=np.float64)


def shared_items(study: Study, first: Group, second: Group) -> npt.NDArray[np.intp]:
    """Items that every run of both groups answered; an error that counts and names items if there is none."""
    each = [study.answered[list(group.rows)].all(axis=0) for group in (first, second)]
    shared = np.flatnonzero(each[0] & each[1])
    if not len(shared):
        own = (
            f"{group.name} answered {mask.sum():,} ({listed([study.item_names[j] for j in np.flatnonzero(mask)], 3)})"
            for group, mask in zip((first, second), each, strict=True)
        )
        raise InputError(
            f"{study.name}: {first.name} and {second.name} share 0 of {study.items.height:,} items: {'; '.join(own)}. "
            "A comparison is paired by item: evaluate both on the same items, or give equal items equal names"
        )
    return shared


def guessed_testsets(study: Study, groups: Sequence[Group]) -> list[str]:
    """Test sets on which no group does clearly better than always giving the commonest label."""
    if "label" not in study.items.columns:
        return []
    guessed = []
    for k, name in enumerate(study.testsets):
        inside = study.set_index == k
        labels = study.items["label"].filter(pl.Series(inside)).drop_nulls()
        counts = labels.value_counts()["count"].to_numpy()
        if not 2 <= len(counts) <= MOST_LABELS or labels.len() < inside.sum():
            continue
        chance = float(counts.max() / counts.sum())
        best = chance + NORMAL * float(np.sqrt(chance * (1 - chance) / inside.sum()))
        answers = [study.correct[list(group.rows)][:, inside] for group in groups]
        scores = [np.nanmean(part) for part in answers if not np.isnan(part).all()]
        guessed += [name] if scores and max(scores) <= best else []
    return guessed


def levels_for_comparison(
    study: Study, calibration: Calibration | None, compared: Sequence[Group], levels: int = LEVELS
) -> Floats:
    """Level of difficulty of every item, NaN where there is none.

    From the calibration; else as stored with the items; else by the share of the other subjects that got the item
    right, if there are at least 20 of them: the compared ones must not decide which items are called hard for them.
    """
    if calibration is not None:
        known = calibration.levels(levels)
        place = dict(zip(known["item"], numbers(known, "level"), strict=True))
        return np.array([place.get(name, np.nan) for name in study.item_names])
    if "level" in study.items.columns and study.items["level"].dtype.is_numeric():
        stored = numbers(study.items, "level")
        if not np.isnan(stored).all():
            return stored
    taken = {row for group in compared for row in group.rows}
    models = study.subjects["model"].to_list() if "model" in study.subjects.columns else None
    own = {models[row] for row in taken} if models else set()
    others = [row for row in range(len(study.matrix)) if row not in taken and not (models and models[row] in own)]
    if len(others) < FEWEST_OTHERS:
        return np.full(study.items.height, np.nan)
    answered = study.answered[others]
    count = answered.sum(axis=0)
    right = np.where(answered, study.matrix[others], 0).sum(axis=0)
    share = np.divide(right, count, out=np.full(len(count), np.nan), where=count > 0)
    level = cut_levels(-share, levels).astype(np.float64)
    return np.where(level < 0, np.nan, level)
