"""Section Stability: how far scores move up and down during training, as ``stability`` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import polars as pl

from breadth.errors import InputError
from breadth.fluctuation import Stability, fluctuation_figure, stability
from breadth.records import Study
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.results import Question
from breadth.sources import ScoreTable


class FluctuationSection(Section):
    """Fluctuation of scores from checkpoint to checkpoint beyond the noise of items, per model."""

    key, title = "stability", str(Question.FLUCTUATION)
    needs = (Study, ScoreTable)
    short = "Fluctuation"
    tables: ClassVar[Mapping[str, str]] = {
        "stability": "fluctuation beyond noise per model and test set (breadth stability)",
        "stability_runs": "the same per run",
        "stability_comparisons": "how many times as much one model fluctuates as another",
    }

    def applies(self, data: ReportData) -> bool:
        """Only where runs have enough checkpoints."""
        result = _stability_of(data)
        return result is not None and result.verdict().computed

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:  # noqa: D102
        result = _stability_of(data)
        assert result is not None
        return {
            "stability": result.models,
            "stability_runs": result.runs,
            "stability_comparisons": result.comparisons,
        }

    def write(self, data: ReportData) -> SectionContent:  # noqa: D102
        result = _stability_of(data)
        assert result is not None
        shown = {"Fluctuation": result.models.select("model", "testset", "runs", "sd", "ci_low", "ci_high", "q")}
        return SectionContent(result.verdict(), [fluctuation_figure(result.models)], [result.details()], shown=shown)


def _stability_of(data: ReportData) -> Stability | None:
    """``stability`` on the source, once; None where there are no checkpoints to speak of."""
    if "stability" not in data.results:
        try:
            data.results["stability"] = stability(data.source, score=data.score)
        except InputError:
            data.results["stability"] = None
    result: Stability | None = data.results["stability"]
    return result
