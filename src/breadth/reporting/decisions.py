"""Sections Ranking and Advice: what ``compare`` and ``advise`` give on the models of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar

import polars as pl

from breadth.advice import (
    advise_items,
    advise_power,
    advise_seeds,
    advise_testsets,
    advise_together,
    errors_figure,
    gains_figure,
    power_figure,
    seeds_figure,
    steps_figure,
)
from breadth.comparison import compare, differences_figure, final_groups, rank, ranking_figure
from breadth.errors import InputError
from breadth.records import Study, Trajectories
from breadth.reporting.data import Content, ReportData, Section
from breadth.reporting.differing import differing_items, differing_table
from breadth.results import Figure, Result

#: Answers up to which short forms and combinations of models are tried in a report.
MOST_CELLS = 1_000_000

#: Items of a short form in a report, if that is not more than a quarter of them.
SHORT = 100


def several_models(data: ReportData) -> bool:
    """Whether there are answers of at least two models."""
    return isinstance(data.source, Study) and len(final_groups(data.source)) > 1


class Ranking(Section):
    """Models from the best to the worst, and where two of them differ: the two there are, or the two best."""

    key, title = "ranking", "Which model is best?"
    needs = (Study,)
    tables: ClassVar[Mapping[str, str]] = {
        "ranks": "rank of every model with its interval (breadth compare --all)",
        "neighbours": "every model and the next: can they be told apart? (breadth compare --all)",
        "comparison": "the two best models: differences by test set, shift and level (breadth compare)",
        "differing": "the two best models: items that only one of them gets right (breadth compare --out)",
    }
    template = "differing.html"

    def applies(self, data: ReportData) -> bool:  # noqa: D102
        return several_models(data)

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:  # noqa: D102
        try:
            ranking = data.results["ranking"] = rank(data.study)
            tables = dict(ranking.tables())
        except InputError as error:
            data.reasons["ranking"] = str(error)
            return {}
        names = ranking.ranks["model"].head(2).to_list()[::-1] if ranking.ranks.height > 2 else ()
        with suppress(InputError):  # two models that were ranked share items, but a name may stand for something else
            data.results["comparison"] = compared = compare(data.study, *names)
            tables |= {"comparison": compared.cells, "differing": differing_table(data, compared)}
        return tables

    def write(self, data: ReportData) -> Content:  # noqa: D102
        ranking, compared = (data.results.get(name) for name in ("ranking", "comparison"))
        if ranking is None:
            return Content("Not enough data: the models cannot be ranked.", absent=[data.reasons["ranking"]])
        ranks, cells = data.table("ranks"), data.table("comparison")
        first = compared if compared is not None and ranks.height == 2 else ranking
        verdict = first.verdict()
        assert verdict is not None, "a comparison and a ranking answer"
        figures, details = [ranking_figure(ranks)], [ranking.details()]
        shown = {"Ranks": ranks.select("rank", "model", "accuracy", "rank_low", "rank_high")}
        if compared is not None:
            differences = differences_figure(cells, "comparison")
            figures = [differences, *figures] if ranks.height == 2 else [*figures, differences]
            pair = "" if ranks.height == 2 else "The two best models: "
            words = compared.details() if ranks.height == 2 else compared.summary()
            details = [f"{pair}{words}", *details] if ranks.height == 2 else [*details, f"{pair}{words}"]
            data.results["differing"] = differing_items(data, compared)
            counts = data.table("differing").group_by("testset", "level", "right", maintain_order=True).len("items")
            shown["Items that only one of the two best models gets right"] = counts
        return Content(verdict, figures, details, (), shown)


class Advice(Section):
    """What to measure next: items and seeds, a short form, test sets that can be dropped, models together."""

    key, title = "advice", "What to measure next?"
    needs = (Study, Trajectories)
    tables: ClassVar[Mapping[str, str]] = {
        "power_plan": "items and seeds to see a difference of two points (breadth advise power)",
        "power_curve": "items by difference (breadth advise power)",
        "seed_plan": "seeds and checkpoints to see a difference of two points (breadth advise power)",
        "seed_noise": "how far runs and checkpoints differ (breadth advise power)",
        "short_form_errors": "expected error of a short form (breadth advise items)",
        "short_form_items": "items of the short form (breadth advise items)",
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
            if isinstance(source, Trajectories):
                calls["seeds"] = lambda: advise_seeds(source)
            if answers:
                calls["power"] = lambda: advise_power(source)
                if data.study.matrix.size <= MOST_CELLS:
                    calls["short_form"] = lambda: advise_items(source, k=min(SHORT, data.study.items.height // 4))
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
            "seeds": {"plan": "seed_plan", "noise": "seed_noise"},
            "short_form": {"errors": "short_form_errors", "items": "short_form_items"},
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
        if "seeds" in advice:
            figures.append(seeds_figure(data.table("seed_noise"), "seed_noise"))
        if "short_form" in advice:
            figures.append(errors_figure("short_form_errors"))
        if (sets := advice.get("testsets")) is not None:
            figures.append(steps_figure(sets.steps, sets.error, "testset_steps"))  # type: ignore[attr-defined]
        if "together" in advice:
            figures.append(gains_figure(data.table("together"), "together"))
        chosen = [advice[name] for name in ("power", "seeds", "short_form", "testsets", "together") if name in advice]
        verdict = chosen[0].verdict()
        assert verdict is not None, "advice answers"
        return Content(verdict, figures, [chosen[0].details(), *(result.summary() for result in chosen[1:])])
