"""What a report is made from: whatever a person has, opened as a study, scores or a calibration, and facts about it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from breadth.errors import InputError, escape_bytes
from breadth.irt import Calibration
from breadth.records import SUBJECTS, Study, StudyStore, unsealed
from breadth.results.words import SCORE_WORDS, count, joined
from breadth.sources import (
    Role,
    ScoreTable,
    open_source,
    read_table,
    role_of,
    table_ending,
)
from breadth.study.document import read_document

Names = str | Sequence[str] | None

#: Endings of files that may hold a saved calibration.
CALIBRATIONS = (".csv", ".tsv", ".parquet", ".json", ".jsonl")

#: Above this many models, figures show a selection, spread evenly over their scores.
MOST_MODELS = 24

#: A score table's own measure: whatever its columns hold.
PLAIN_SCORE = "score"

#: A column that reaches this high, and no higher than 100, holds percentages.
LEAST_PERCENT = 10.0


class ScoreKind(StrEnum):
    """What a column of a table of scores holds; only shares and percentages are accuracies."""

    SHARE = "share"
    PERCENT = "percent"
    OTHER = "other"


def read_source(
    source: Any,
    *,
    by: Names = None,
    order: str | None = None,
    control: Names = None,
    testsets: Names = None,
    lower_is_better: Names = None,
) -> Study | ScoreTable | Calibration:
    """Open ``source`` as what it is; the options settle what the columns of a table of scores stand for."""
    if isinstance(source, Calibration):
        return source
    if isinstance(source, str | os.PathLike) and _is_calibration(Path(source)):
        return Calibration.load(source)
    return open_source(source, by=by, order=order, control=control, testsets=testsets, lower_is_better=lower_is_better)


def read_as(source: Study | ScoreTable | Calibration) -> tuple[str, ...]:
    """How a source was read, in at most two lines."""
    if isinstance(source, Calibration):
        return (f"a calibration of {count(source.items.height, 'item')} ({source.model.upper()})",)
    if source.reading.lines():
        return source.reading.lines()
    if isinstance(source, ScoreTable):
        return (f"scores: {count(source.frame.height, 'row')} x {count(len(source.testsets), 'test set')}",)
    sizes = f"{count(source.subjects.height, 'subject')} x {count(source.items.height, 'item')}"
    return (f"answers: {sizes} of {count(len(source.testsets), 'test set')} ({joined(source.testsets, 4)})",)


def _is_calibration(path: Path) -> bool:
    """Whether a table holds calibrated items: difficulties, and no answers."""
    if table_ending(path) not in CALIBRATIONS or not os.path.isfile(path):
        return False
    columns = set(read_table(path).frame.columns)
    return {"item", "difficulty"} <= columns and not columns & {"correct", "subject", "model"}


@dataclass(frozen=True)
class About:
    """Facts about the source of a report.

    ``models`` are in the order of their colours; beyond ``MOST_MODELS``, a selection spread evenly over their scores.
    ``testsets`` have the in-domain ones first, then go by kind of shift. ``environments`` are the distinct ones that
    runs recorded, each with the number of its runs.
    """

    name: str
    models: list[str]
    shifts: dict[str, str | None]
    facts: dict[str, Any]
    #: Whether subjects are checkpoints of runs.
    has_runs: bool = False
    #: What kind of score figures and sentences are about: its name, and whether it is a share (written in percent).
    measure: str = "accuracy"
    share: bool = True
    #: Columns of a table of scores that are no accuracies, such as losses, beside others that are.
    others: tuple[str, ...] = ()
    description: str = ""
    study_file: str = ""
    environments: list[dict[str, Any]] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    read_as: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Names of files can hold bytes that a page cannot."""
        object.__setattr__(self, "name", escape_bytes(self.name))
        object.__setattr__(self, "warnings", tuple(map(escape_bytes, self.warnings)))
        object.__setattr__(self, "read_as", tuple(map(escape_bytes, self.read_as)))

    @property
    def headings(self) -> tuple[str, str]:
        """Name and description."""
        return self.name, self.description

    @property
    def testsets(self) -> list[str]:
        """Test sets: in-domain first, then by kind of shift."""
        return list(self.shifts)

    @property
    def measure_words(self) -> str:
        """The measure as a sentence names it."""
        return SCORE_WORDS.get(self.measure, self.measure)

    @property
    def comparable(self) -> list[str]:
        """Test sets whose scores are of one kind, so that they can be averaged and share an axis."""
        return [name for name in self.shifts if name not in self.others]

    @property
    def value_format(self) -> str:
        """How figures write a score."""
        return ".1%" if self.share else ".3~g"


def selection(models: Sequence[str], scores: pl.DataFrame) -> list[str]:
    """At most ``MOST_MODELS`` of ``models``, spread evenly over their mean ``score`` in a frame ``model, score``."""
    if len(models) <= MOST_MODELS:
        return list(models)
    ranked = scores.group_by("model").mean().sort("score", "model")["model"]
    chosen = set(ranked.gather(np.linspace(0, ranked.len() - 1, MOST_MODELS).round().astype(int)))
    return [name for name in models if name in chosen]


def described(study: Study) -> Study:
    """The study with every column that describes subjects: in a table without runs, every subject is one.

    A subject without a step beside checkpoints of its run, such as the final model of a repository, is a run of its
    own: nothing says where in the training it belongs.
    """
    types: dict[str, type[pl.DataType]] = {**SUBJECTS, "strategy": pl.String, "method": pl.String}
    columns = [
        (pl.col(name) if name in study.subjects.columns else pl.lit(None)).cast(dtype, strict=False).alias(name)
        for name, dtype in types.items()
    ]
    filled = [pl.col("run").fill_null(pl.col("subject")), pl.col("model").fill_null(pl.col("subject"))]
    apart = pl.col("step").is_null() & pl.col("step").is_not_null().any().over("run")
    run = pl.when(apart).then(pl.col("run") + " (no step)").otherwise("run").alias("run")
    subjects = study.subjects.select(columns).with_columns(filled).with_columns(run, pl.col("step").fill_null(0))
    training = None if study.training is None else described(study.training)
    return replace(study, subjects=subjects, training=training)


def about_study(study: Study, score: str) -> About:
    """Facts about answers: those of a study's directory, an import, or a table."""
    filled, items = described(study), study.items
    subjects = filled.subjects
    values = {
        name: subjects[name].drop_nulls().unique(maintain_order=True).to_list()
        for name in ("model", "train_set", "seed", "examples", "method")
    }
    means = pl.Series("score", np.nanmean(filled.scores[0], axis=1))
    facts = {
        "models": values["model"],
        "train_sets": values["train_set"],
        "testsets": list(study.shifts),
        "shifts": study.shifts,
        "runs": len(study.runs) or subjects["run"].n_unique(),
        "checkpoints": subjects.height,
        "items": items.height,
        "responses": study.answers,
        "seeds": sorted(values["seed"]),
        "examples": sorted(values["examples"]),
        "methods": sorted(values["method"]),
    }
    # The study file, the headings in it, and what runs recorded about their environment.
    folder = study.folder
    store = StudyStore(folder) if folder else None
    text, known = "", dict[str, Any]()
    with suppress(InputError):  # a damaged file is among the study's warnings
        text = (store.read_study() if store else None) or ""
        settings = read_document(text, "study.yaml").value
        known = settings if isinstance(settings, dict) else {}
    title = folder.resolve().name if folder else title_of(study.name)
    counts: dict[str, int] = {}
    for run in study.runs:
        environment = unsealed(store.store.read(f"runs/{run}/environment.json")) if store else None
        if environment is not None:
            recorded = json.dumps(environment, sort_keys=True)
            counts[recorded] = counts.get(recorded, 0) + 1
    environments = ((json.loads(recorded), number) for recorded, number in counts.items())
    return About(
        name=str(known.get("name") or title),
        description=str(known.get("description") or ""),
        models=selection(values["model"], subjects.select("model", means)),
        shifts=study.shifts,
        facts=facts,
        has_runs="run" in study.subjects.columns,
        measure=score,
        share=score not in ("dprime", "logscore"),
        study_file=text,
        environments=[{"runs": n} | (e if isinstance(e, dict) else {"environment": e}) for e, n in environments],
        warnings=study.warnings,
        read_as=study.reading.lines(),
    )


def title_of(name: str) -> str:
    """The title of a page: the file or directory that it is about, also where that is the current one (``.``)."""
    path = Path(name)
    return path.name if path.name not in ("", "..") else path.resolve().name


def kinds_of_scores(scores: ScoreTable) -> dict[str, ScoreKind]:
    """What every column of a table of scores holds, judged by its own name and values.

    A loss by its name is no accuracy, whatever its values. Values up to 1 are shares, values from 0 to 100 percentages.
    A column that ends between 1.5 and 10 may hold either: percentages, unless another column holds shares and none
    clearly percentages.
    """
    kinds: dict[str, ScoreKind] = {}
    unclear = []
    for name in (*scores.controls, *scores.testsets):
        values = scores.frame[name].drop_nulls().drop_nans()
        kinds[name] = ScoreKind.OTHER
        if role_of(name) is Role.LOSS or name in scores.turned or values.is_empty():
            continue
        low, high = float(values.min()), float(values.max())  # type: ignore[arg-type]
        if low < 0:
            continue
        if high <= 1:
            kinds[name] = ScoreKind.SHARE
        elif LEAST_PERCENT <= high <= 100:
            kinds[name] = ScoreKind.PERCENT
        elif 1.5 < high < LEAST_PERCENT:
            unclear.append(name)
    if ScoreKind.PERCENT in kinds.values() or ScoreKind.SHARE not in kinds.values():
        kinds |= dict.fromkeys(unclear, ScoreKind.PERCENT)
    return kinds


def about_scores(scores: ScoreTable, long: pl.DataFrame, kinds: Mapping[str, ScoreKind], named: bool) -> About:
    """Facts about a table of scores; ``long`` and the rest are those of ``accuracy.long_scores``."""
    others = tuple(name for name, kind in kinds.items() if kind is ScoreKind.OTHER)
    share = len(others) < len(kinds)
    models = long["model"].unique(maintain_order=True).to_list()
    shifts = dict.fromkeys(scores.controls, "in-domain") | dict.fromkeys(scores.testsets)
    facts = {
        "models": models if named else [],
        "train_sets": [],
        "testsets": list(shifts),
        "shifts": shifts,
        "runs": long["run"].n_unique(),
        "checkpoints": scores.frame.height,
        "items": None,
        "responses": None,
        **dict.fromkeys(("seeds", "examples", "methods"), ()),
    }
    return About(
        name=title_of(scores.name),
        models=selection(models, long.select("model", score=PLAIN_SCORE)),
        shifts=shifts,
        facts=facts,
        has_runs=scores.order is not None,
        measure=PLAIN_SCORE,
        share=share,
        others=others if share else (),
        warnings=scores.warnings,
        read_as=scores.reading.lines(),
    )


def about_calibration(calibration: Calibration, name: str) -> About:
    """Facts about a calibration that was saved: items and, if they were kept, subjects."""
    items = calibration.items
    testsets = items["testset"].unique(maintain_order=True).to_list() if "testset" in items.columns else []
    facts = {
        **dict.fromkeys(("models", "train_sets", "seeds", "examples", "methods"), ()),
        "testsets": testsets,
        "shifts": dict.fromkeys(testsets),
        "runs": None,
        "checkpoints": calibration.subjects.height or None,
        "items": items.height,
        "responses": None,
    }
    return About(title_of(name), [], dict.fromkeys(testsets), facts, warnings=calibration.warnings)
