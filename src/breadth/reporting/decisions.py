"""Sections Ranking and Advice: what ``compare`` and ``advise`` give on the models of a study.

The ranking also shows which items one of the two best models gets and the other does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
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
from breadth.comparison import (
    Comparison,
    Ranking,
    compare,
    differences_figure,
    final_groups,
    has_several_groups,
    rank,
    ranking_figure,
)
from breadth.errors import InputError
from breadth.records import Study
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.results import Figure, Question, Result
from breadth.results.words import FINDING, count, distance_text
from breadth.sources import UNNAMED, ScoreTable

#: Answers up to which short forms and combinations of models are tried in a report.
MOST_CELLS = 1_000_000

#: Items of a short form in a report, if that is not more than a quarter of them.
SHORT = 100

#: Test sets that the page opens, levels of each, and items that it lists on each side.
MOST_SETS, MOST_LEVELS, MOST_LISTED = 12, 10, 5

#: Characters of an item's text on the page; the panel has all of it.
MOST_WORDS = 240


def several_models(data: ReportData) -> bool:
    """Whether there are answers of at least two models."""
    return isinstance(data.source, Study) and has_several_groups(data.source)


class RankingSection(Section):
    """Models from the best to the worst, and where two of them differ: the two there are, or the two best."""

    key, title, short = "ranking", Question.BEST.value, "Ranking"
    needs = (Study,)
    tables: ClassVar[Mapping[str, str]] = {
        "ranks": "rank of every model with its interval (breadth compare --all)",
        "neighbours": "every model and the next: can they be told apart? (breadth compare --all)",
        "comparison": "the two best models on the items of the ranking, by test set, shift and level (breadth compare)",
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
        # Of two models, the first one that the data name is the baseline; else the best is compared with the second.
        alone = len(final_groups(data.study)) == 2
        names = () if alone else ranking.ranks["model"].head(2).to_list()[::-1]
        with suppress(InputError):  # two models that were ranked share items, but a name may stand for something else
            data.results["comparison"] = compared = compare(ranked_part(data.study, ranking), *names)
            tables |= {"comparison": compared.cells, "differing": differing_table(data, compared)}
        return tables

    def write(self, data: ReportData) -> SectionContent:  # noqa: D102
        ranking, compared = (data.results.get(name) for name in ("ranking", "comparison"))
        if ranking is None:
            return SectionContent("Not enough data: the models cannot be ranked.", absent=[data.reasons["ranking"]])
        ranks, cells = data.table("ranks"), data.table("comparison")
        first = compared if compared is not None and ranks.height == 2 else ranking
        verdict = first.verdict()
        assert verdict is not None, "a comparison and a ranking answer"
        figures, details = [ranking_figure(ranks)], [ranking.details()]
        shown = {"Ranks": ranks.select("rank", "model", "accuracy", "rank_low", "rank_high")}
        if compared is not None:
            differences = differences_figure(cells, "comparison")
            if ranks.height == 2:
                # Of two models, the ranking says nothing that the comparison does not say.
                figures, details = [differences, *figures], [compared.details()]
            else:
                figures, details = [*figures, differences], [*details, best_two_words(ranking, compared)]
            data.results["differing"] = differing_items(data, compared)
            counts = data.table("differing").group_by("testset", "level", "right", maintain_order=True).len("items")
            shown["Items that only one of the two best models gets right"] = counts
        # Which models and items are not in the ranking: else its numbers seem to contradict those of other sections.
        details += [f"{line[0].upper()}{line[1:]}." for line in ranking.warnings if line not in data.warnings]
        return SectionContent(verdict, figures, details, (), shown)


class AdviceSection(Section):
    """What to measure next: items and seeds, a short form, test sets that can be dropped, models together."""

    key, title, short = "advice", "What to measure next?", "What next"
    needs = (Study, ScoreTable)
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
            if isinstance(source, ScoreTable):
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

    def write(self, data: ReportData) -> SectionContent:  # noqa: D102
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
        others = [result.verdict() for result in chosen[1:]]
        details = [result.details() for result in chosen]
        further = [other for other in others if other is not None]
        return SectionContent(verdict, figures, [text for text in details if text], further=further)


def ranked_part(study: Study, ranking: Ranking) -> Study:
    """The answers to the items by which models are ranked: those that all of them answered.

    Two of the models may share more items. On these they may compare otherwise than in the ranking above it.
    """
    if ranking.n_items == study.items.height:
        return study
    ranked = set(ranking.ranks["model"])
    rows = [row for group in final_groups(study) if group.name in ranked for row in group.rows]
    columns = np.flatnonzero(study.answered[rows].all(axis=0))
    margin = None if study.margin is None else study.margin[:, columns]
    return replace(study, items=study.items[columns], matrix=study.matrix[:, columns], margin=margin)


def best_two_words(ranking: Ranking, compared: Comparison) -> str:
    """How the two best of several models compare, in words that do not contradict the ranking.

    They are the two best because of the same answers, and there are others that might have come out on top. A
    comparison that takes them for the only models there are may find a difference that is none in the ranking.
    """
    near = ranking.neighbours.row(0, named=True)
    if near["apart"] or near["p"] >= FINDING:
        return f"The two best models: {compared.summary()}"
    number = count(ranking.ranks.height, ranking.noun)
    return (
        f"The two best models: {near['model']} is ahead of {near['next']} by {distance_text(near['difference'])}. Had "
        f"they been the only ones, that would count as a difference; as the best two of {number} they cannot be "
        "distinguished. "
        f"{compared.details()}"
    )


@dataclass(frozen=True)
class Side:
    """What one of the two gets and the other does not: how many items, the first of them, and filters of the panel."""

    number: int
    items: Sequence[dict[str, Any]]
    panel: dict[str, str] | None


@dataclass(frozen=True)
class DifferingItems:
    """A test set, or a level of it, with both sides; ``parts`` are its levels."""

    name: str
    first: Side
    second: Side
    parts: Sequence[DifferingItems] = ()

    @property
    def title(self) -> str:
        """What the page calls it."""
        return "all questions" if self.name == UNNAMED else self.name


@dataclass(frozen=True)
class Differing:
    """Test sets on which two models differ, those with the most such items first."""

    first: str
    second: str
    parts: Sequence[DifferingItems]
    left_out: int


def differing_table(data: ReportData, compared: Comparison) -> pl.DataFrame:
    """Items that one of two models gets right and the other does not: ``testset, level, item, right`` (by whom).

    A model with several runs gets an item if at least half of them do. Levels are those of the report's items.
    """
    first, second = compared.cells.row(0)[:2]
    level = data.study.items.select("testset", "item").with_columns(data.levels.alias("level"))
    one, two = pl.col("right_first") >= 0.5, pl.col("right_second") >= 0.5
    frame = compared.items.filter(one != two).drop("level").join(level, on=["testset", "item"], how="left")
    right = pl.when(one).then(pl.lit(first)).otherwise(pl.lit(second)).alias("right")
    return frame.select("testset", "level", "item", right).sort("testset", "level", maintain_order=True)


def differing_items(data: ReportData, compared: Comparison) -> Differing:
    """What the page shows of the table ``differing``: test sets, levels, and the first items on both sides."""
    first, second = compared.cells.row(0)[:2]
    frame = data.table("differing")
    texts = data.table("items")
    words = pl.col("text") if "text" in texts.columns else pl.lit(None, dtype=pl.String).alias("text")
    if texts.height:
        known = texts.select("testset", "item", words.str.head(MOST_WORDS))
        frame = frame.join(known, on=["testset", "item"], how="left", maintain_order="left")
    linked = {first, second} <= set(data.models)
    sets = frame.group_by("testset", maintain_order=True).len().sort("len", descending=True, maintain_order=True)

    def part(
        name: str, rows: pl.DataFrame, filters: dict[str, str], parts: Sequence[DifferingItems] = ()
    ) -> DifferingItems:
        sides = []
        for who, cell in ((first, "right-wrong"), (second, "wrong-right")):
            own = rows.filter(pl.col("right") == who)
            panel = {"panel": "items", "one": first, "two": second, "cell": cell, **filters}
            sides.append(Side(own.height, own.head(MOST_LISTED).to_dicts(), panel if linked else None))
        return DifferingItems(name, sides[0], sides[1], parts)

    parts = []
    for testset in sets["testset"].head(MOST_SETS):
        rows = frame.filter(testset=testset)
        levels = rows["level"].drop_nulls().unique().sort().head(MOST_LEVELS)
        inner = [
            part(f"level {level}", rows.filter(level=level), {"testset": testset, "level": str(level)})
            for level in (levels if levels.len() > 1 else ())
        ]
        parts.append(part(testset, rows, {"testset": testset}, inner))
    return Differing(first, second, parts, max(0, sets.height - MOST_SETS))
