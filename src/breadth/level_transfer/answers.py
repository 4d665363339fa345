"""Which answers ``transfer`` compares: trained models and the model before training, on the same items, by level."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import polars as pl

from breadth.errors import InputError, did_you_mean, listed, unknown_column
from breadth.inference import Floats
from breadth.irt import Calibration
from breadth.level_transfer.gains import Gains, Indices
from breadth.records import Score, Study, item_values
from breadth.results.words import count
from breadth.sources import Table

#: Columns that state how a model was trained: its training condition. In order of preference.
By = Literal["train_level", "strategy"]
CONDITIONS: tuple[By, ...] = get_args(By)
HAS_CONDITION = pl.any_horizontal(pl.col(CONDITIONS).is_not_null())

#: Whether the examples of a level are in the prompt: such a model is not trained, and has one checkpoint, step 0.
IN_CONTEXT = (pl.col("method") == "few-shot").fill_null(False)

#: What a table may call the untrained model, besides leaving the column empty.
UNTRAINED = ("", "zero-shot", "baseline", "untrained", "none")

#: Fewest test items of a level for its gains to have an interval.
LEAST_ITEMS = 5

#: What chooses a part of a study, with the option that does so.
_OPTIONS = {"model": "--model", "train_set": "--train-set", "examples": "--examples"}


class Compared(NamedTuple):
    """The models that ``transfer`` compares: rows of the study's matrix, with their training condition and seed.

    ``inside`` are the columns of the test items.
    """

    study: Study
    trained: pl.DataFrame
    untrained: pl.DataFrame
    inside: Indices
    warnings: tuple[str, ...]

    @property
    def conditions(self) -> list[By]:
        """The columns by which some model was trained."""
        return [name for name in CONDITIONS if self.trained[name].is_not_null().any()]


class Paired(NamedTuple):
    """Answers paired by item, the name of every training condition, and warnings."""

    gains: Gains
    conditions: list[str]
    warnings: list[str]


def trained_groups(study: Study) -> list[dict[str, Any]]:
    """What a study trained by level or strategy, as arguments of ``transfer``: model, train_set and examples.

    A table in which no two models share condition and seed is one group, whatever it calls its models.
    """
    trained = _subject_rows(study).filter(HAS_CONDITION)
    present = [name for name in _OPTIONS if name in study.subjects.columns]
    if not study.runs and not trained.select(*CONDITIONS, "seed").is_duplicated().any():
        present = []
    return trained.select(present).unique(maintain_order=True).to_dicts() if present else [{}] * (trained.height > 0)


def compared_models(study: Study, model: str | None, train_set: str | None, examples: int | None) -> Compared:
    """The trained models, the untrained one and the test items, by the rules in the docstring of ``transfer``."""
    if not any(name in study.subjects.columns for name in CONDITIONS):
        raise unknown_column("train_level", study.subjects.columns, study.name, "how a model was trained; or strategy")
    models = _subject_rows(study)
    trained = models.filter(HAS_CONDITION)
    if not trained.height:
        raise InputError(
            f"{study.name}: no model was trained by level or strategy (train_level and strategy are empty). In a study "
            "file, the section train needs difficulty, and levels or strategies"
        )
    for key, wanted in (("model", model), ("train_set", train_set), ("examples", examples)):
        trained = _choose_models(trained, key, wanted, study)
    planned = {run: max(record.checkpoints, default=0) for run, record in study.runs.items()}
    reached = pl.col("step").max().over("run", *CONDITIONS, "seed")
    last = pl.max_horizontal(reached, pl.col("run").replace_strict(planned, default=0, return_dtype=pl.Int64))
    done = (pl.col("step") == last) & ((pl.col("step") > 0) | IN_CONTEXT)
    final = trained.filter(pl.col("step").is_null() | done)
    if not final.height:
        raise InputError(
            f"{study.name}: no run trained by level or strategy has reached its last checkpoint; continue with "
            "`breadth run`"
        )
    if final["method"].eq_missing("few-shot").n_unique() > 1:
        raise InputError(
            f"{study.name}: has models that were trained by level and models with examples of a level in the prompt; "
            "choose one of them by its number of examples with --examples"
        )
    untrained = _untrained(models, trained, study, model)
    inside = _test_items(study, trained, pl.concat([final, untrained])["row"], train_set)
    return Compared(study, final, untrained, inside, (*study.warnings, *_unfinished(study, trained)))


def _subject_rows(study: Study) -> pl.DataFrame:
    """A row per subject: ``row`` (of the matrix) and what matters here, null where the study does not state it.

    Training conditions are text, null for the untrained model.
    """
    types: dict[str, type[pl.DataType]] = dict.fromkeys(("subject", "run", "model", "train_set", "method"), pl.String)
    types |= {"step": pl.Int64, "examples": pl.Int64, **dict.fromkeys((*CONDITIONS, "seed"), pl.String)}
    columns = []
    for name, dtype in types.items():
        given = study.subjects.schema.get(name)
        column = pl.lit(None) if given is None else pl.col(name)
        if name in CONDITIONS:
            whole = column.cast(pl.Int64, strict=False) if given is not None and given.is_float() else column
            text = whole.cast(pl.String).str.strip_chars()
            column = pl.when(~text.str.to_lowercase().is_in(UNTRAINED)).then(text)
        columns.append(column.cast(dtype, strict=False).alias(name))
    return study.subjects.select(columns).with_columns(pl.col("seed").fill_null("")).with_row_index("row")


def _choose_models(trained: pl.DataFrame, key: str, wanted: str | int | None, study: Study) -> pl.DataFrame:
    """The models with one value of ``key``; where a study's directory has several, one has to be named."""
    present = trained[key].unique().drop_nulls().sort().to_list()
    if wanted is None:
        if len(present) < 2 or not study.runs:
            return trained
        raise InputError(
            f"{study.name}: has {len(present)} values of {key}; choose one with {_OPTIONS[key]}: "
            f"{listed(map(str, present))}"
        )
    if key not in study.subjects.columns:
        raise unknown_column(key, study.subjects.columns, study.name, f"{_OPTIONS[key]} chooses by it")
    if wanted not in present:
        hint = did_you_mean([str(wanted)], map(str, present))
        raise InputError(
            f"{study.name}: no model trained by level or strategy has {key} {wanted}.{hint} Values: "
            f"{listed(map(str, present))}"
        )
    return trained.filter(pl.col(key) == wanted)


def _untrained(models: pl.DataFrame, trained: pl.DataFrame, study: Study, model: str | None) -> pl.DataFrame:
    """Step 0 of the trained runs, once per seed; if it was not evaluated, the models without a training condition."""
    blank = [pl.lit(None, dtype=pl.String).alias(name) for name in CONDITIONS]
    # The only checkpoint of a few-shot run has the examples in its prompt already.
    start = trained.filter((pl.col("step") == 0) & ~IN_CONTEXT).sort("run").with_columns(blank)
    if start.height:
        return start.unique("seed", keep="first", maintain_order=True)
    other = models.filter(~HAS_CONDITION)
    if study.runs:
        # By the model itself: where a study has it with several recipes, each of these has a name of its own.
        real = pl.col("run").replace_strict({run: record.model for run, record in study.runs.items()}, default=None)
        other = other.filter(real == study.runs[trained["run"][0]].model)
    elif model is not None:
        other = other.filter(pl.col("model").is_null() | (pl.col("model") == trained["model"][0]))
    if study.runs:
        # A zero-shot run is the same model, unless runs start from one that was trained before.
        started = any(study.runs[run].start_examples for run in trained["run"])
        other = other.filter((pl.col("method") == "zero-shot") & (not started)).sort("run")
        other = other.unique("seed", keep="first", maintain_order=True)
    if not other.height:
        remedy = "`breadth run` evaluates it" if study.runs else "add its answers, with train_level or strategy empty"
        if (trained["method"] == "few-shot").any():
            remedy = "add the model without examples in the prompt to the study (recipe.method: zero-shot)"
        raise InputError(f"{study.name}: the model before training (step 0) has not been evaluated; {remedy}")
    return other


def _test_items(study: Study, trained: pl.DataFrame, rows: pl.Series, train_set: str | None) -> Indices:
    """Columns of the in-domain test set, if it is known what the models were trained on; else all columns."""
    if not study.runs and train_set is None:
        return np.arange(study.items.height)
    own = trained["train_set"][0]
    inside = study.items["testset"].is_in(study.in_domain(own)).to_numpy()
    columns = np.flatnonzero(inside)
    if np.isnan(study.correct[np.ix_(rows.to_numpy(), columns)]).all():
        raise InputError(
            f"{study.name}: {own} was trained on but not evaluated; gains by level need its held-out items in the "
            "study's evaluate: on"
        )
    return columns


def _unfinished(study: Study, trained: pl.DataFrame) -> list[str]:
    """Warnings about runs that have not reached their last checkpoint, and about training before step 0."""
    runs = trained["run"].unique(maintain_order=True)
    short = {run: steps for run, steps in study.unfinished.items() if run in runs}
    lines = []
    if short:
        shown = listed([f"{run} at step {step} of {last}" for run, (step, last) in short.items()], 3)
        runs_are = "1 run is" if len(short) == 1 else f"{len(short)} runs are"
        lines.append(f"{runs_are} not finished and left out: {shown}; continue with `breadth run`")
    learnt = sorted({study.runs[run].start_examples for run in runs if run in study.runs} - {0})
    if learnt:
        examples = " or ".join(f"{number:,}" for number in learnt)
        lines.append(f"runs start from a model trained on {examples} examples; gains are measured from there")
    return lines


def levels_for_transfer(study: Study, calibration: str | os.PathLike[str] | Calibration | None, levels: int) -> Floats:
    """Level of every item of the study, NaN where it has none: from the calibration, else as stored with the items.

    A calibration names an item with its test set in front where the names of items repeat between test sets.
    """
    if calibration is None:
        if "level" not in study.items.columns:
            raise InputError(
                f"{study.name}: its items have no level (column level, one value per item); name a calibration with "
                "--calibration"
            )
        return Table(study.items, study.name).numbers("level").to_numpy()
    loaded = Calibration.of(calibration)
    known: dict[str, int | None] = dict(loaded.levels(levels).select("item", "level").iter_rows())
    names = list(study.items.select("testset", "item").iter_rows())
    level = [known.get(f"{testset} / {item}", known.get(item)) for testset, item in names]
    if all(one is None for one in level):
        raise InputError(
            f"{study.name}: none of its {len(names):,} items is in the calibration. Its items: "
            f"{listed([item for _, item in names[:3]])}; calibrated: {listed(list(known)[:3])}"
        )
    return np.array([np.nan if one is None else one for one in level], dtype=np.float64)


def pair_by_item(
    compared: Compared, by: By, level: Floats, score: Score = "accuracy", cluster: Indices | None = None
) -> Paired:
    """Arrays over the test items that have a level and that every model answered.

    Where some models were trained by level and others by strategy, those of the other kind are left out. For another
    score than accuracy, answers are replaced by the values of items that it consists of, level by level. ``cluster``
    numbers the cluster of every item of the study.
    """
    models = pl.concat([compared.trained.filter(pl.col(by).is_not_null()), compared.untrained])
    groups = {key: rows["row"].to_numpy() for key, rows in models.group_by(by, "seed", maintain_order=True)}
    answers = np.stack([_merged(compared, by, key, rows) for key, rows in groups.items()])
    answered = ~np.isnan(answers)
    items = pl.DataFrame(
        {
            "column": np.arange(len(compared.inside)),
            "item": compared.study.items["item"].gather(compared.inside),
            "level": pl.Series(level[compared.inside], nan_to_null=True).cast(pl.Int64),
            "some": answered.any(axis=0),
            "every": answered.all(axis=0),
        }
    )
    paired = items.filter(pl.col("every") & pl.col("level").is_not_null()).sort("level", "item")
    _refuse_few_items(paired, compared.study.name)
    answers, group = answers[:, paired["column"].to_numpy()], np.zeros(paired.height, dtype=np.intp)
    if score != "accuracy":
        answers, group = _paired_item_values(compared, by, groups, paired, answers, score)
    by_condition: dict[str | None, list[Floats]] = {}
    for key, row in zip(groups, answers, strict=True):
        by_condition.setdefault(key[0], []).append(row)
    baseline = np.stack(by_condition.pop(None)).mean(axis=0)
    # Levels by their number, before strategies by their name.
    conditions = [name for name in by_condition if name is not None]
    names = sorted(conditions, key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else name))
    trained = tuple(np.stack(by_condition[name]) for name in names)
    own_cluster = None if cluster is None else cluster[compared.inside[paired["column"].to_numpy()]]
    gains = Gains(trained, baseline, paired["level"].to_numpy().astype(np.intp), group, own_cluster)
    return Paired(gains, names, _pairing_warnings(items.filter("some"), gains))


def _paired_item_values(
    compared: Compared,
    by: By,
    models: Mapping[tuple[Any, ...], Indices],
    paired: pl.DataFrame,
    answers: Floats,
    score: Score,
) -> tuple[Floats, Indices]:
    """Values of the paired items [models, items] that a score is made of, and their groups: every level is scored as
    a test set of its own."""
    study, columns = compared.study, compared.inside[paired["column"].to_numpy()]
    margin = None
    if study.margin is not None:
        whole = replace(study, matrix=study.margin.astype(np.float64))
        merged = [_merged(compared._replace(study=whole), by, key, rows) for key, rows in models.items()]
        margin = np.stack(merged)[:, paired["column"].to_numpy()].astype(np.float32)
    items = study.items[columns].with_columns(pl.format("{}, level {}", "testset", paired["level"]).alias("testset"))
    subjects = pl.DataFrame({"subject": [str(number) for number in range(len(answers))]})
    levels = Study(study.name, subjects, items, answers, margin)
    values, group = np.empty_like(answers), np.zeros(len(columns), dtype=np.intp)
    for k, name in enumerate(levels.testsets):
        inside = levels.set_index == k
        values[:, inside], group[inside] = item_values(levels, score, name)
        counts = np.bincount(group[inside])
        if counts.min() < 2:
            raise InputError(
                f"{study.name}: {score} needs 2 items of every label in every level, and {name} has {counts.min()} of "
                "one; use fewer levels or --score accuracy"
            )
    return values, group


def _pairing_warnings(items: pl.DataFrame, gains: Gains) -> list[str]:
    warnings = []
    without = items.filter(pl.col("level").is_null())["item"].sort()
    if without.len():
        number = count(without.len(), "item")
        warnings.append(f"left out, because they have no level: {number}, for instance {listed(without, 3)}")
    dropped = items.filter(pl.col("level").is_not_null() & ~pl.col("every")).height
    if dropped:
        warnings.append(f"left out, because some model did not answer them: {count(dropped, 'item')}")
    if min(len(answers) for answers in gains.trained) < 2:
        warnings.append(
            "some models were trained with one seed only: variation between training runs is not in the standard errors"
        )
    return warnings


def _merged(compared: Compared, by: By, key: tuple[Any, ...], rows: Indices) -> Floats:
    """Answers of one model, NaN where it has none. Its subjects (folds, for instance) must answer different items."""
    study, inside = compared.study, compared.inside
    correct = study.correct[np.ix_(rows, inside)].astype(np.float64)
    answered = ~np.isnan(correct)
    twice = answered.sum(axis=0) > 1
    if twice.any():
        column = int(twice.argmax())
        first, second = (study.subject_names[row] for row in rows[answered[:, column]][:2])
        item = study.items["item"][int(inside[column])]
        raise InputError(
            f"{study.name}: {first} and {second} both answer item {item!r} for {by} {key[0] or 'untrained'}, seed "
            f"{key[1] or '-'}; keep one of them, or choose with {', '.join(_OPTIONS.values())}. Studies of different "
            "recipes belong in separate directories"
        )
    return np.where(answered.any(axis=0), np.where(answered, correct, 0).sum(axis=0), np.nan)


def _refuse_few_items(items: pl.DataFrame, name: str) -> None:
    sizes = items.group_by("level").len().sort("level")
    few = sizes.filter(pl.col("len") < LEAST_ITEMS)
    if not sizes.height or few.height:
        where = f"level {few['level'][0]} has {count(few['len'][0], 'item')}" if sizes.height else "no level has items"
        raise InputError(f"{name}: {where} that all models answered; a level needs at least {LEAST_ITEMS}")
    levels = sizes["level"].to_list()
    if levels != list(range(len(levels))):
        raise InputError(f"{name}: levels of test items must run from 0 without gaps, not {listed(map(str, levels))}")
