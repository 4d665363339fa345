"""What a report holds before it is a page: a study, the results of the public functions on it, tables and sections."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
import yaml

from breadth.correlation import CarryOver, carry_over
from breadth.errors import InputError
from breadth.irt import Calibration, calibrate
from breadth.level_transfer import Transfer, trained_groups, transfer
from breadth.records import SUBJECTS, Score, Study, StudyStore
from breadth.results import Figure

#: Subjects and items that estimating difficulty needs in a report.
LEAST_SUBJECTS = LEAST_ITEMS = 10

#: Above this many models, figures show a selection, spread evenly over accuracy.
MOST_MODELS = 24


@dataclass(frozen=True)
class Content:
    """What a section says: a finding in plain words, figures, details, and reasons for what is absent.

    ``shown`` are the tables that Markdown prints, by caption.
    """

    finding: str
    figures: Sequence[Figure] = ()
    details: Sequence[str] = ()
    absent: Sequence[str] = ()
    shown: Mapping[str, pl.DataFrame] = field(default_factory=dict)


class Section(ABC):
    """A part of the report: which tables it gives, what it says about them, and figures over them.

    All sections compute their tables before any of them writes, so a section may use the tables of the others.
    """

    key: ClassVar[str]
    title: ClassVar[str]
    #: What each table holds, for the list of downloads. Tables that are not named here are not part of the report.
    tables: ClassVar[Mapping[str, str]] = {}
    #: A template of the page that follows the figures.
    template: ClassVar[str] = ""
    #: Whether the details are shown when the page opens.
    open: ClassVar[bool] = False

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:
        """The tables by name; those that cannot be computed are left out."""
        return {}

    @abstractmethod
    def write(self, data: ReportData) -> Content:
        """Findings, figures, details and reasons for absence."""


class TransferGroup(NamedTuple):
    """Gains by level of the runs of one model, training set and number of examples."""

    name: str
    keys: dict[str, Any]
    result: Transfer


@dataclass(eq=False)
class ReportData:
    """A study and everything that its report shows. Analyses are computed on first use, once for all sections.

    ``reasons`` says why an analysis is absent, by its name.
    """

    study: Study
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    contents: dict[Section, Content] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    #: What gains, correlations and transfer are computed from.
    score: Score = "accuracy"
    #: The study with all columns that describe subjects: in a table without runs, every subject is one.
    described: Study = field(init=False)
    #: Whether subjects are checkpoints of runs.
    has_runs: bool = field(init=False)
    #: Models in the order of their colours; beyond ``MOST_MODELS``, a selection spread evenly over accuracy.
    models: list[str] = field(init=False)
    #: Test sets: in-domain first, then by kind of shift.
    testsets: list[str] = field(init=False)
    #: Whether items come with their levels.
    levels_stored: bool = field(init=False)
    #: What the study consists of.
    facts: dict[str, Any] = field(init=False)
    #: The study file as text; empty for a table, and for a directory that has none.
    study_file: str = field(init=False)
    #: Name and description: from the study file, else the name of the directory or table.
    headings: tuple[str, str] = field(init=False)
    #: The distinct environments that runs recorded, each with the number of its runs.
    environments: list[dict[str, Any]] = field(init=False)

    def __post_init__(self) -> None:  # noqa: D105
        study, items = self.study, self.study.items
        # Every column that describes subjects.
        types: dict[str, type[pl.DataType]] = {**SUBJECTS, "strategy": pl.String, "method": pl.String}
        columns = [
            (pl.col(name) if name in study.subjects.columns else pl.lit(None)).cast(dtype, strict=False).alias(name)
            for name, dtype in types.items()
        ]
        filled = [pl.col("run").fill_null(pl.col("subject")), pl.col("model").fill_null(pl.col("subject"))]
        subjects = study.subjects.select(columns).with_columns(*filled, pl.col("step").fill_null(0))
        self.described = replace(study, subjects=subjects)
        self.has_runs = "run" in study.subjects.columns
        self.testsets = list(study.shifts)
        level = items["level"] if "level" in items.columns else pl.Series([], dtype=pl.Int64)
        self.levels_stored = level.dtype.is_numeric() and level.is_not_null().any()
        # What the study consists of; of many models, a selection spread evenly over accuracy is shown.
        values = {
            name: subjects[name].drop_nulls().unique(maintain_order=True).to_list()
            for name in ("model", "train_set", "seed", "examples", "method")
        }
        self.models = values["model"]
        if len(self.models) > MOST_MODELS:
            accuracy = pl.Series("accuracy", np.nanmean(self.described.scores[0], axis=1))
            means = subjects.select("model", accuracy).group_by("model", maintain_order=True).mean()
            ranked = means.sort("accuracy", "model")["model"]
            chosen = set(ranked.gather(np.linspace(0, ranked.len() - 1, MOST_MODELS).round().astype(int)))
            self.models = [name for name in values["model"] if name in chosen]
        self.facts = {
            "models": values["model"],
            "train_sets": values["train_set"],
            "testsets": self.testsets,
            "shifts": study.shifts,
            "runs": len(study.runs) or subjects["run"].n_unique(),
            "checkpoints": subjects.height,
            "items": items.height,
            "responses": int(study.answered.sum()),
            "seeds": sorted(values["seed"]),
            "examples": sorted(values["examples"]),
            "methods": sorted(values["method"]),
            "levels_stored": self.levels_stored,
        }
        # The study file, the headings in it, and what runs recorded about their environment.
        folder = study.folder
        store = StudyStore(folder).store if folder else None
        content = store.read("study.yaml") if store else None
        self.study_file = (content or b"").decode(errors="replace")
        try:
            settings = yaml.safe_load(self.study_file)
        except yaml.YAMLError:
            settings = None
        known = settings if isinstance(settings, dict) else {}
        path = folder.resolve() if folder else Path(study.name)
        self.headings = str(known.get("name") or path.name), str(known.get("description") or "")
        counts: dict[str, int] = {}
        for run in study.runs:
            content = store.read(f"runs/{run}/environment.json") if store else None
            try:
                text = json.dumps(json.loads(content or b""), sort_keys=True)
            except ValueError:
                continue
            counts[text] = counts.get(text, 0) + 1
        recorded = ((json.loads(text), count) for text, count in counts.items())
        self.environments = [
            {"runs": count} | (one if isinstance(one, dict) else {"environment": one}) for one, count in recorded
        ]

    def table(self, name: str) -> pl.DataFrame:
        """A table; empty if the study has none of this name."""
        return self.tables.get(name, pl.DataFrame())

    @cached_property
    def calibration(self) -> Calibration | None:
        """``calibrate`` on the study, if that is possible."""
        subjects, items = self.study.matrix.shape
        try:
            if subjects >= LEAST_SUBJECTS and items >= LEAST_ITEMS:
                return calibrate(self.study)
            self.reasons["calibration"] = (
                f"estimating difficulty needs at least {LEAST_SUBJECTS} subjects (models or checkpoints) and "
                f"{LEAST_ITEMS} items; there are {subjects} and {items}"
            )
        except InputError as error:
            self.reasons["calibration"] = str(error)
        return None

    @cached_property
    def levels(self) -> pl.Series:
        """Level of every item: as stored with it, else by estimated difficulty; null where it has none."""
        if self.levels_stored:
            return self.study.items["level"].cast(pl.Int64, strict=False)
        if self.calibration is None:
            return pl.Series("level", [None] * self.study.items.height, dtype=pl.Int64)
        known = self.calibration.items.select("item", "level")
        names = pl.DataFrame({"item": self.study.item_names})
        return names.join(known, on="item", how="left", maintain_order="left")["level"]

    @cached_property
    def carry_over(self) -> CarryOver:
        """``correlate`` on the runs of the study, with means per model; says why where it is not possible."""
        missing = [name for name in ("run", "step", "train_set") if name not in self.study.subjects.columns]
        if not missing:
            return carry_over(self.study, self.score)
        if missing == ["train_set"]:
            verdict = "Undecided: the in-domain test set is not known, so there is nothing to control for."
            reason = "name the in-domain test set: `breadth correlate DIR --control TESTSET --by run --order step`"
        else:
            verdict = "Undecided: there are no checkpoints to correlate test sets over."
            reason = "`breadth correlate DIR --control TESTSET` correlates test sets over models instead"
        return CarryOver(verdict, reasons=(reason,))

    @cached_property
    def transfers(self) -> tuple[list[TransferGroup], list[str]]:
        """``transfer`` for every model and training set that was trained by level or strategy, and what is absent."""
        results, absent = [], []
        groups = trained_groups(self.study)
        calibration = None if self.levels_stored else self.calibration
        several = len({group.get("examples") for group in groups}) > 1
        for keys in groups:
            name = f"{keys.get('model') or 'models'} trained on {keys.get('train_set') or 'unnamed data'}"
            name += f" with {keys['examples']} examples" if several else ""
            try:
                results.append(TransferGroup(name, keys, transfer(self.study, calibration, score=self.score, **keys)))
            except InputError as error:
                absent.append(f"{name}: {error}")
        if not groups:
            absent = ["no run was trained on one level of difficulty or by a strategy"]
        return results, absent
