"""Sections Ranking and Advice: what ``compare`` and ``advise`` give on the models of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import polars as pl

from breadth.advice import (
    advise_power,
    advise_testsets,
    advise_together,
    gains_figure,
    power_figure,
    steps_figure,
)
from breadth.comparison import compare, differences_figure, final_groups, rank, ranking_figure
from breadth.errors import InputError
from breadth.records import Study, Trajectories
from breadth.reporting.data import Content, ReportData, Section
from breadth.results import Figure, Result

#: Answers up to which combinations of models are tried in a report.
MOST_CELLS = 1_000_000


def several_models(data: ReportData) -> bool:
    """Whether there are answers of at least two models."""
    return isinstance(data.source, Study) and len(final_groups(data.source)) > 1


class Ranking(Section):
    """Models from the best to the worst and, for two, where they differ."""

    key, title = "ranking", "Which model is best?"
    needs = (Study,)
    tables: ClassVar[Mapping[str, str]] = {
        "ranks": "rank of every model with its interval (breadth compare --all)",
        "neighbours": "every model and the next: can they be told apart? (breadth compare --all)",
        "comparison": "two models: differences by test set, shift and level (breadth compare)",
    }

    def applies(self, data: ReportData) -> bool:  # noqa: D102
        return several_models(data)

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:  # noqa: D102
        try:
            ranking = data.results["ranking"] = rank(data.study)
            tables = dict(ranking.tables())
            if ranking.ranks.height == 2:
                data.results["comparison"] = compared = compare(data.study)
                tables["comparison"] = compared.cells
        except InputError as error:
            data.reasons["ranking"] = str(error)
            return {}
        return tables

    def write(self, data: ReportData) -> Content:  # noqa: D102
        ranking, compared = (data.results.get(name) for name in ("ranking", "comparison"))
        if ranking is None:
            return Content("Not enough data: the models cannot be ranked.", absent=[data.reasons["ranking"]])
        first = compared or ranking
        ranks, cells = data.table("ranks"), data.table("comparison")
        figures = [differences_figure(cells, "comparison")] if cells.height else []
        verdict = first.verdict()
        assert verdict is not None, "a comparison and a ranking answer"
        details = [result.details() for result in (compared, ranking) if result is not None]
        shown = {"Ranks": ranks.select("rank", "model", "accuracy", "rank_low", "rank_high")}
        return Content(verdict, [*figures, ranking_figure(ranks)], details, (), shown)


class Advice(Section):
    """What to measure next: items and seeds, test sets that can be dropped, models together."""

    key, title = "advice", "What to measure next?"
    needs = (Study, Trajectories)
    tables: ClassVar[Mapping[str, str]] = {
        "power_plan": "items and seeds to see a difference of two points (breadth advise power)",
        "power_curve": "items by difference (breadth advise power)",
        "testset_steps": "test sets in the order in which they predict the others (breadth advise testsets)",
        "together": "gains of combinations over the best model (breadth advise together)",
    }

    def applies(self, data: ReportData) -> bool:  # noqa: D102
        return bool(self._advice(data))

    def _advice(self, data: ReportData) -> Mapping[str, Result]:
        """The advice that the data allow; what they do not allow is left out."""
        if "advice" not in data.results:
            source, answers = data.source, several_models(data)
            calls: dict[str, Callable[[], Result]] = {"testsets": lambda: advise_testsets(source)}
            if answers:
                calls["power"] = lambda: advise_power(source)
                if data.study.matrix.size <= MOST_CELLS:
                    calls["together"] = lambda: advise_together(source)
            given: dict[str, Any] = {}
            for name, call in calls.items():
                try:
                    given[name] = call()
                except InputError:
                    continue
            data.results["advice"] = given
        advice: Mapping[str, Result] = data.results["advice"]
        return advice

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:  # noqa: D102
        names = {
            "power": {"plan": "power_plan", "curve": "power_curve"},
            "testsets": {"steps": "testset_steps"},
            "together": {"gains": "together"},
        }
        return {
            new: result.table(old) for name, result in self._advice(data).items() for old, new in names[name].items()
        }

    def write(self, data: ReportData) -> Content:  # noqa: D102
        advice = self._advice(data)
        figures: list[Figure] = []
        if (power := advice.get("power")) is not None:
            figures.append(power_figure(power.difference, "power_curve"))  # type: ignore[attr-defined]
        if (sets := advice.get("testsets")) is not None:
            figures.append(steps_figure(sets.steps, sets.error, "testset_steps"))  # type: ignore[attr-defined]
        if "together" in advice:
            figures.append(gains_figure(data.table("together"), "together"))
        chosen = [advice[name] for name in ("power", "testsets", "together") if name in advice]
        verdict = chosen[0].verdict()
        assert verdict is not None, "advice answers"
        return Content(verdict, figures, [chosen[0].details(), *(result.summary() for result in chosen[1:])])
