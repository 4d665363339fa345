"""What a report holds before it is a page: a study, the results of the public functions on it, tables and sections."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import polars as pl

from breadth.correlation import CarryOver, carry_over
from breadth.errors import InputError
from breadth.irt import Calibration, calibrate
from breadth.level_transfer import Transfer, trained_groups, transfer
from breadth.records import Score, Study
from breadth.reporting.accuracy import long_scores, score_tables
from breadth.reporting.sources import About, about_calibration, about_scores, about_study, described
from breadth.results import Answer, Figure, Verdict
from breadth.sources import ScoreTable

#: Subjects and items that estimating difficulty needs in a report.
LEAST_SUBJECTS = LEAST_ITEMS = 10


@dataclass(frozen=True)
class SectionContent:
    """What a section says: its verdict (or a finding in plain words), figures, details, reasons for what is absent.

    ``shown`` are the tables that Markdown prints, by caption.
    """

    finding: Verdict | str
    figures: Sequence[Figure] = ()
    details: Sequence[str] = ()
    absent: Sequence[str] = ()
    shown: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    #: Verdicts on further questions of the section, such as those of the single advices; a card may show them.
    further: Sequence[Verdict] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """The verdict, or the finding, as lines."""
        return self.finding.lines() if isinstance(self.finding, Verdict) else (self.finding,)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict, where the section answers a question."""
        return self.finding if isinstance(self.finding, Verdict) else None

    @property
    def is_answered(self) -> bool:
        """Whether the data allow an answer, or the section only says what the data hold."""
        if self.verdict is None:
            return True
        return self.verdict.computed and str(self.verdict.answer) != Answer.UNKNOWN


class Section(ABC):
    """A part of the report: which tables it gives, what it says about them, and figures over them.

    All sections compute their tables before any of them writes, so a section may use the tables of the others.
    """

    key: ClassVar[str]
    #: Its heading where no verdict has a question, and what the list of sections calls it, by default the same.
    title: ClassVar[str]
    short: ClassVar[str] = ""
    #: What each table holds, for the list of downloads. Tables that are not named here are not part of the report.
    tables: ClassVar[Mapping[str, str]] = {}
    #: A template of the page that follows the figures.
    template: ClassVar[str] = ""
    #: Whether the details are shown when the page opens.
    open: ClassVar[bool] = False
    #: Whether the terminal shows what it found.
    headline: ClassVar[bool] = False
    #: Sources that the section can be made from.
    needs: ClassVar[tuple[type, ...]] = (Study, ScoreTable, Calibration)

    def applies(self, data: ReportData) -> bool:
        """Whether the section has anything to say about this source."""
        return True

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:
        """The tables by name; those that cannot be computed are left out."""
        return {}

    @abstractmethod
    def write(self, data: ReportData) -> SectionContent:
        """Findings, figures, details and reasons for absence."""


class TransferGroup(NamedTuple):
    """Gains by level of the runs of one model, training set and number of examples."""

    name: str
    keys: dict[str, Any]
    result: Transfer


@dataclass(eq=False)
class ReportData:
    """What a report is made from and everything that it shows. Analyses are computed on first use, for all sections.

    The source is single answers (a study), a table of scores, or a calibration that was saved. ``reasons`` says why an
    analysis is absent, by its name.
    """

    source: Study | ScoreTable | Calibration
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    contents: dict[Section, SectionContent] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    #: Results that a section computed for its tables and needs again for its words, by name.
    results: dict[str, Any] = field(default_factory=dict)
    #: Tables that only the page's figures read: what is in them, other tables hold in another form.
    page_tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    #: What gains, correlations and transfer are computed from.
    score: Score = "accuracy"
    #: What the source is called, where it does not say itself.
    name: str = "report"
    #: Options of ``correlate`` that the user gave.
    correlate_options: Mapping[str, Any] = field(default_factory=dict)
    about: About = field(init=False)

    def __post_init__(self) -> None:  # noqa: D105
        if isinstance(self.source, Study):
            self.about = about_study(self.source, self.score)
        elif isinstance(self.source, ScoreTable):
            self.about = about_scores(self.source, *long_scores(self.source))
        else:
            self.about = about_calibration(self.source, self.name)

    @property
    def has_answers(self) -> bool:
        """Whether single answers are known."""
        return isinstance(self.source, Study)

    @property
    def study(self) -> Study:
        """The answers; only for sections that need them (:attr:`Section.needs`)."""
        assert isinstance(self.source, Study), "this section needs answers"
        return self.source

    @property
    def scores(self) -> ScoreTable:
        """The table of scores; only where there are no answers."""
        assert isinstance(self.source, ScoreTable), "this is about a table of scores"
        return self.source

    @cached_property
    def described(self) -> Study:
        """The answers with all columns that describe subjects: in a table without runs, every subject is one."""
        return described(self.study)

    def __getattr__(self, name: str) -> Any:
        """What the report is about (:class:`About`): models, testsets, facts, headings and so on."""
        if name.startswith("_") or name == "about":
            raise AttributeError(name)
        return getattr(self.about, name)

    @cached_property
    def levels_stored(self) -> bool:
        """Whether items come with their levels."""
        if not isinstance(self.source, Study) or "level" not in self.source.items.columns:
            return False
        level = self.source.items["level"]
        return level.dtype.is_numeric() and level.is_not_null().any()

    def table(self, name: str) -> pl.DataFrame:
        """A table; empty if the study has none of this name."""
        return self.tables.get(name, pl.DataFrame())

    @cached_property
    def calibration(self) -> Calibration | None:
        """``calibrate`` on the study, if that is possible; else the calibration that the report is about."""
        if not isinstance(self.source, Study):
            return self.source if isinstance(self.source, Calibration) else None
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
    def scale_trusted(self) -> bool:
        """Whether there are difficulties that a reader may use: a page does not offer those that it warns of."""
        return self.calibration is not None and self.calibration.scale_warning is None

    @cached_property
    def levels(self) -> pl.Series:
        """Level of every item: as stored with it, else by estimated difficulty; null where it has none to be used."""
        if self.levels_stored:
            return self.study.items["level"].cast(pl.Int64, strict=False)
        if self.calibration is None or not self.scale_trusted:
            return pl.Series("level", [None] * self.study.items.height, dtype=pl.Int64)
        known = self.calibration.items.select("item", "level")
        names = pl.DataFrame({"item": self.study.item_names})
        return names.join(known, on="item", how="left", maintain_order="left")["level"]

    @cached_property
    def carry_over(self) -> CarryOver:
        """``correlate`` on runs, or on models, with means per model; says why where it is not possible."""
        assert not isinstance(self.source, Calibration), "a calibration has no scores"
        return carry_over(self.source, self.score, self.correlate_options)

    @cached_property
    def score_tables(self) -> dict[str, pl.DataFrame]:
        """Runs, profile, gains and trajectories of a table of scores."""
        assert isinstance(self.source, ScoreTable), "these are the tables of scores"
        return score_tables(self.source)

    @cached_property
    def transfers(self) -> tuple[list[TransferGroup], list[str]]:
        """``transfer`` for every model and training set that was trained by level or strategy, and what is absent."""
        if not isinstance(self.source, Study):
            return [], []
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
