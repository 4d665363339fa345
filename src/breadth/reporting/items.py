"""Section Items: every item with its text, its difficulty, which models fail it, and whether its label is doubtful."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.inference import Floats
from breadth.irt import ItemFlag
from breadth.records import SparseMatrix, Study
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.reporting.embedded import MOST_CHARACTERS, text_fields
from breadth.results.words import count

#: What a calibration knows about an item, as the report shows it.
CALIBRATED = ("n", "p_correct", "difficulty", "difficulty_se", "flag", "note")

#: What of this says how hard an item is on the scale.
SCALED = ("difficulty", "difficulty_se")

#: Most items that a page carries; beyond that a random sample, with every doubted item in it.
MOST_ITEMS = 20_000

#: A label is doubted if at least this share of three or more runs end with another answer ...
MOSTLY_WRONG, LEAST_RUNS = 0.8, 3

#: ... and the mean log-odds of the label are below this: odds of 7 to 1 against it.
CONFIDENT_MARGIN = -2.0


class Doubt(StrEnum):
    """Why a label is doubted: values of the column ``doubt_flag``."""

    AGAINST_ABILITY = "against_ability"
    CONFIDENTLY_WRONG = "confidently_wrong"


DOUBT_WORDS = {
    Doubt.AGAINST_ABILITY: "abler models get it wrong more often",
    Doubt.CONFIDENTLY_WRONG: "almost every run ends up confident in another answer, better runs more so",
}


class ItemsSection(Section):
    """The table of items, and what stands out in it."""

    key, title = "items", "Questions"
    needs = (Study,)
    tables: ClassVar[Mapping[str, str]] = {
        "items": "items: text, label, difficulty, share of runs that end with a right answer, doubts"
    }
    template = "items.html"

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:
        """One row per item; ``right_<model>`` is the share of the model's runs that end with a right answer.

        ``doubt`` says why a label is doubted and ``doubt_flag`` is its code (:class:`Doubt`); both are null otherwise.
        Either abler subjects get the item wrong more often (what the calibration flags, so that both count the same);
        or almost every run ends confident
        of another answer, the more so the better it does on the rest of the set (an item that is merely hard gets
        closer). All items if they are few; else every doubted one and a random sample of the others, in order.
        """
        study, calibration = data.described, data.calibration
        items, ends = study.items, study.ends
        # The text fields one below the other, each after its name where there are several.
        fields = text_fields(items)
        parts = [
            pl.format("{}: {}", pl.lit(name), pl.col(name)) if len(fields) > 1 else pl.col(name) for name in fields
        ]
        text = pl.concat_str(parts, separator="\n", ignore_nulls=True) if parts else pl.lit(None, dtype=pl.String)
        cut = text.str.len_chars() > MOST_CHARACTERS
        text = pl.when(cut).then(text.str.head(MOST_CHARACTERS) + " …").otherwise(text).alias("text")
        given = [name for name in ("shift", "label") if name in items.columns]
        frame = items.select("item", "testset", *(pl.col(name).cast(pl.String) for name in given), text)
        against = pl.lit(False)
        if calibration is not None:
            names = pl.DataFrame({"item": study.item_names})
            known = names.join(calibration.items, on="item", how="left", maintain_order="left", suffix="_known")
            # Difficulties that should not be used are neither shown nor offered to filter and sort by.
            columns = [name for name in CALIBRATED if data.scale_trusted or name not in SCALED]
            frame = frame.with_columns(known.select(columns))
            against = pl.col("flag") == ItemFlag.WRONG_KEY
        if data.levels.is_not_null().any():
            frame = frame.with_columns(data.levels.alias("level"))
        # Means over the last checkpoints of runs.
        last = ends["last"].to_numpy()
        means = {"right": item_means(study.correct, last), "margin": np.full(items.height, np.nan)}
        if study.margin is not None:
            means["margin"] = item_means(study.margin, last)
        for model in data.models:
            own = ends.filter(pl.col("model") == model)["last"].to_numpy()
            means[f"right_{model}"] = item_means(study.correct, own)
        frame = frame.with_columns(pl.Series(name, values, nan_to_null=True) for name, values in means.items())
        confident = (pl.col("right") <= 1 - MOSTLY_WRONG) & (pl.col("margin") < CONFIDENT_MARGIN)
        if study.margin is not None:
            confident &= pl.Series(item_rest(study, study.margin) < 0)
        flag = (
            pl.when(against)
            .then(pl.lit(Doubt.AGAINST_ABILITY.value))
            .when(confident & pl.lit(len(last) >= LEAST_RUNS))
            .then(pl.lit(Doubt.CONFIDENTLY_WRONG.value))
        )
        words = {code.value: sentence for code, sentence in DOUBT_WORDS.items()}
        doubt = pl.col("doubt_flag").replace_strict(words, return_dtype=pl.String).alias("doubt")
        table = frame.with_columns(flag.alias("doubt_flag")).with_columns(doubt)
        if table.height > MOST_ITEMS:
            numbered = table.with_row_index("__row")
            doubted = numbered.filter(pl.col("doubt").is_not_null()).head(MOST_ITEMS)
            others = numbered.filter(pl.col("doubt").is_null())
            sample = others.sample(min(others.height, MOST_ITEMS - doubted.height), seed=0)
            table = pl.concat([doubted, sample]).sort("__row").drop("__row")
        return {"items": table}

    def write(self, data: ReportData) -> SectionContent:  # noqa: D102
        items, total = data.table("items"), data.study.items.height
        doubted = labels_to_check(data)
        wrong = items.filter(pl.col("right") == 0).height
        scope = "" if items.height == total else f" (of the {items.height:,} in the table)"
        verb = "is" if wrong == 1 else "are"
        where = "at the end of every run" if data.has_runs else "by every model"
        finding = (
            f"Of {count(total, 'question')}, {wrong:,}{scope} {verb} answered wrong {where}, and "
            f"{count(doubted.height, 'label')} should be checked."
        )
        reasons = [doubted.filter(doubt_flag=code.value).height for code in Doubt]
        if all(reasons):
            finding += (
                f" Of these labels, {reasons[0]:,} are doubted because {DOUBT_WORDS[Doubt.AGAINST_ABILITY]}, and "
                f"{reasons[1]:,} because {DOUBT_WORDS[Doubt.CONFIDENTLY_WRONG]}."
            )
        if doubted.height:
            sets = doubted["testset"].value_counts().sort(["count", "testset"], descending=[True, False])
            finding += f" Most doubted labels are in {sets['testset'][0]} ({sets['count'][0]:,})."
        sampled = (
            f"The table holds a random sample of {items.height:,} of {total:,} questions, including every doubted one. "
            "All other numbers in this report use all questions.",
        )
        columns = [name for name in ("item", "testset", "label", "right", "doubt") if name in items.columns]
        details = () if items.height == total else sampled
        if data.calibration is not None and not data.scale_trusted:
            unplaced = (
                "Questions have no difficulty here and can be sorted by the share of right answers instead: "
                f"{data.calibration.scale_warning}."
            )
            details = (*details, unplaced)
        return SectionContent(
            finding,
            details=details,
            shown={"Labels to check": doubted.select(columns).head(50)},
        )


def labels_to_check(data: ReportData) -> pl.DataFrame:
    """Items with a doubted label, the most doubtful first, as the page lists and counts them."""
    items = data.table("items")
    if "doubt" not in items.columns:
        return items.clear()
    doubted = items.filter(pl.col("doubt").is_not_null())
    if data.calibration is None or "label_doubt" not in data.calibration.items.columns:
        return doubted
    strength = data.calibration.items.select("item", pl.col("label_doubt").alias("__strength"))
    ranked = doubted.join(strength, on="item", how="left", maintain_order="left")
    by_ability = pl.col("doubt_flag") == Doubt.AGAINST_ABILITY.value
    order = [by_ability, pl.when(by_ability).then(pl.col("__strength"))]
    return ranked.sort(order, descending=True, nulls_last=True, maintain_order=True).drop("__strength")


def item_means(values: npt.NDArray[Any], rows: npt.NDArray[np.intp]) -> Floats:
    """The mean of every item's values over some subjects; NaN where none of them answered it."""
    if isinstance(values, SparseMatrix):
        return values.means_of_columns(rows)
    chosen = values[rows]
    answered = ~np.isnan(chosen)
    number = answered.sum(axis=0)
    total = np.where(answered, chosen, 0).sum(axis=0, dtype=np.float64)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def item_rest(study: Study, values: npt.NDArray[Any]) -> Floats:
    """Correlation of every item's ``values`` [subjects, items] with the accuracy on the rest of its test set.

    Over the subjects that answered the whole set; NaN where something is constant or not known.
    """
    correlation = np.full(study.items.height, np.nan)
    if study.is_sparse:
        # Where hardly any cell is filled, hardly any subject answered a whole set.
        return correlation
    for k in range(len(study.testsets)):
        columns = np.flatnonzero(study.set_index == k)
        complete = ~np.isnan(study.correct[:, columns]).any(axis=1)
        if complete.sum() < 3 or len(columns) < 2:
            continue
        right = study.correct[np.ix_(complete, columns)].astype(np.float64)
        rest = right.sum(axis=1, keepdims=True) - right
        centred = values[np.ix_(complete, columns)].astype(np.float64)
        centred -= centred.mean(axis=0)
        spread = (centred**2).sum(axis=0) * rest.var(axis=0) * len(rest)
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation[columns] = (centred * rest).sum(axis=0) / np.sqrt(spread)
    return correlation
