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
from breadth.records import SUBJECTS, Study, StudyStore
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

    def table(self, name: str) -> pl.DataFrame:
        """A table; empty if the study has none of this name."""
        return self.tables.get(name, pl.DataFrame())

    def has(self, name: str) -> bool:
        """Whether the study has rows of this table."""
        return self.table(name).height > 0

    @cached_property
    def described(self) -> Study:
        """The study with all columns that describe subjects: in a table without runs, every subject is one."""
        subjects = self.study.subjects
        types: dict[str, type[pl.DataType]] = {**SUBJECTS, "strategy": pl.String, "method": pl.String}
        columns = [
            (pl.col(name) if name in subjects.columns else pl.lit(None)).cast(dtype, strict=False).alias(name)
            for name, dtype in types.items()
        ]
        filled = [pl.col("run").fill_null(pl.col("subject")), pl.col("model").fill_null(pl.col("subject"))]
        return replace(self.study, subjects=subjects.select(columns).with_columns(*filled, pl.col("step").fill_null(0)))

    @cached_property
    def models(self) -> list[str]:
        """Models in the order of their colours; beyond ``MOST_MODELS``, a selection spread evenly over accuracy."""
        names = self.described.subjects["model"].unique(maintain_order=True).to_list()
        if len(names) <= MOST_MODELS:
            return names
        accuracy = pl.Series("accuracy", np.nanmean(self.described.scores[0], axis=1))
        means = self.described.subjects.select("model", accuracy).group_by("model", maintain_order=True).mean()
        ranked = means.sort("accuracy", "model")["model"]
        chosen = set(ranked.gather(np.linspace(0, ranked.len() - 1, MOST_MODELS).round().astype(int)))
        return [name for name in names if name in chosen]

    @property
    def has_runs(self) -> bool:
        """Whether subjects are checkpoints of runs."""
        return "run" in self.study.subjects.columns

    @property
    def testsets(self) -> list[str]:
        """Test sets: in-domain first, then by kind of shift."""
        return list(self.study.shifts)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the study consists of."""
        subjects = self.described.subjects
        values = {
            name: subjects[name].drop_nulls().unique(maintain_order=True).to_list()
            for name in ("model", "train_set", "seed", "examples", "method")
        }
        return {
            "models": values["model"],
            "train_sets": values["train_set"],
            "testsets": self.testsets,
            "shifts": self.study.shifts,
            "runs": len(self.study.runs) or subjects["run"].n_unique(),
            "checkpoints": subjects.height,
            "items": self.study.items.height,
            "responses": int(self.study.answered.sum()),
            "seeds": sorted(values["seed"]),
            "examples": sorted(values["examples"]),
            "methods": sorted(values["method"]),
            "levels_stored": self.levels_stored,
        }

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

    @property
    def levels_stored(self) -> bool:
        """Whether items come with their levels."""
        items = self.study.items
        return "level" in items.columns and items["level"].dtype.is_numeric() and items["level"].is_not_null().any()

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
            return carry_over(self.study)
        reason = f"correlations over checkpoints need the columns run, step and train_set; there is no {missing[0]}"
        return CarryOver("Undecided: there are no checkpoints to correlate test sets over.", reasons=(reason,))

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
                results.append(TransferGroup(name, keys, transfer(self.study, calibration, **keys)))
            except InputError as error:
                absent.append(f"{name}: {error}")
        if not groups:
            absent = ["no run was trained on one level of difficulty or by a strategy"]
        return results, absent

    @cached_property
    def study_file(self) -> str:
        """The study file as text; empty for a table, and for a directory that has none."""
        content = StudyStore(self.study.folder).store.read("study.yaml") if self.study.folder else None
        return "" if content is None else content.decode(errors="replace")

    @cached_property
    def headings(self) -> tuple[str, str]:
        """Name and description: from the study file, else the name of the directory or table."""
        try:
            settings = yaml.safe_load(self.study_file)
        except yaml.YAMLError:
            settings = None
        known = settings if isinstance(settings, dict) else {}
        path = self.study.folder.resolve() if self.study.folder else Path(self.study.name)
        return str(known.get("name") or path.name), str(known.get("description") or "")

    @cached_property
    def environments(self) -> list[dict[str, Any]]:
        """The distinct environments that runs recorded, each with the number of its runs."""
        counts: dict[str, int] = {}
        for run in self.study.runs if self.study.folder else ():
            content = StudyStore(self.study.folder or "").store.read(f"runs/{run}/environment.json")
            try:
                text = json.dumps(json.loads(content or b""), sort_keys=True)
            except ValueError:
                continue
            counts[text] = counts.get(text, 0) + 1
        recorded = ((json.loads(text), count) for text, count in counts.items())
        return [{"runs": count, **(one if isinstance(one, dict) else {"environment": one})} for one, count in recorded]
