"""Sections Carry-over and Difficulty: what ``correlate``, ``calibrate``, ``profile`` and ``transfer`` give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import polars as pl

from breadth.difficulty import profile
from breadth.irt import SCALE_MAP_FIGURE, Calibration, accuracy_by_level_figure, scale_map, scale_map_reason
from breadth.level_transfer import Effect, gain_by_distance, gain_matrix
from breadth.records import SUBJECTS, Study
from breadth.reporting.accuracy import model_accuracy_by_level
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.results import Question, Result
from breadth.results.words import FINDING, count, joined, points_text
from breadth.sources import ScoreTable

#: Tables of ``transfer``, for training levels and for strategies.
TRANSFER_TABLES = {
    "transfer_effects": "fading with distance, and direction (breadth transfer)",
    **{
        f"{key}_{table}": f"{words} (breadth transfer)"
        for key, name in (("transfer", "training level"), ("strategy", "strategy"))
        for table, words in (
            ("cells", f"gain per {name} and test level"),
            ("breaks", f"the test level at which accuracy drops, per {name}"),
            ("best", f"best {name} per test level"),
        )
    },
}

#: Runs whose last checkpoints the table ``profile_by_run`` holds.
MOST_PROFILED = 12


class CorrelationsSection(Section):
    """Correlations between test sets over checkpoints, agreement of models, windows over training."""

    key, title = "carry_over", str(Question.SPEAKS_FOR)
    headline = True
    needs = (Study, ScoreTable)
    short = "Test sets together"
    tables: ClassVar[Mapping[str, str]] = {
        "pairs": "correlations of every run (breadth correlate)",
        "heterogeneity": "per pair of test sets: mean over runs, and how much runs differ (breadth correlate)",
        "correlations": "raw, partial and corrected correlations, per run and as means per model",
        "residuals": "scores of every checkpoint, residuals after adjustment, and the control (breadth correlate)",
        "similarity": "how alike the correlations of two runs are (breadth correlate)",
        "windows": "correlations in consecutive parts of training, per run (breadth correlate --windows)",
        "window_means": "the same as means over a model's runs",
        "window_changes": "what changes from the first part to the last (breadth correlate --windows)",
    }

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:  # noqa: D102
        return data.carry_over.tables

    def write(self, data: ReportData) -> SectionContent:  # noqa: D102
        result, correlations, shown = data.carry_over, data.table("correlations"), {}
        if correlations.height:
            kind = "partial" if "partial" in correlations["kind"] else "raw"
            means = correlations.filter(pl.col("run").is_null() & (pl.col("kind") == kind))
            shown["Mean over runs"] = means.select(
                pl.col("panel").alias("model"), "a", "b", "r", "ci_low", "ci_high", "q"
            )
        return SectionContent(result.verdict, result.figures, result.paragraphs, result.reasons, shown)


class DifficultySection(Section):
    """Difficulty of items, ability of subjects, accuracy by level, and transfer between levels."""

    key, title = "difficulty", "Difficulty"
    needs = (Study, Calibration)
    tables: ClassVar[Mapping[str, str]] = {
        "subjects": "ability of every subject (breadth calibrate)",
        "fit": "how well the model of difficulty fits (breadth calibrate)",
        "scale_map": "counts of subjects and items along the scale",
        "by_level": "accuracy per model and difficulty level",
        "profile_by_run": "accuracy by level of the last checkpoints of runs (breadth difficulty profile)",
        **TRANSFER_TABLES,
    }

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:  # noqa: D102
        calibration = data.calibration
        tables: dict[str, pl.DataFrame] = {}
        if calibration is not None:
            tables |= {"subjects": calibration.subjects, "fit": calibration.fit}
            tables["scale_map"] = scale_map(calibration.items, calibration.subjects)
        if not data.has_answers:
            return tables
        if calibration is not None:
            last = data.study.subjects["subject"].gather(data.described.ends["last"]).to_list()[:MOST_PROFILED]
            tables["profile_by_run"] = profile(data.study, calibration, subjects=last).levels
        if data.levels.is_not_null().any():
            tables["by_level"] = model_accuracy_by_level(data.described, data.levels, data.models)
        parts: dict[str, list[pl.DataFrame]] = {}
        for group in data.transfers[0]:
            keys = [pl.lit(value, dtype=SUBJECTS[name]).alias(name) for name, value in group.keys.items()]
            kind = "transfer" if group.result.by == "train_level" else "strategy"
            for name, table in group.result.tables().items():
                key = name if name.startswith("strategy_") else f"{kind}_{name}"
                parts.setdefault(key, []).append(table.select(*keys, pl.all()))
        return tables | {name: pl.concat(frames, how="diagonal_relaxed") for name, frames in parts.items()}

    def write(self, data: ReportData) -> SectionContent:  # noqa: D102
        transfers, reasons = data.transfers
        absent = [data.reasons["calibration"]] if data.calibration is None else []
        absent += [f"transfer between levels: {reason}" for reason in reasons]
        calibration, by_levels = data.calibration, _levels_words(data)
        verdict = calibration.verdict() if calibration is not None else None
        details = [by_levels] if verdict else []
        if calibration is not None and data.has_answers:
            details.append(_calibrated_words(data, calibration))
        results: list[tuple[str, str, Result]] = []
        if calibration is not None:
            results.append(("", calibration.details(), calibration))
        further = []
        for group in transfers:
            results.append((f"{group.name}: ", group.result.details(), group.result))
            answer = group.result.verdict()
            if answer is not None:
                # Models and training sets share the question, and a page has one heading for each answer.
                of = f" ({group.name})" if len(transfers) > 1 else ""
                further.append(replace(answer, question=f"{Question.LEVEL_TRANSFER}{of}"))
        for name, text, result in results:
            said = (*data.warnings, getattr(result, "scale_warning", None))
            warnings = [f"Warning: {line}." for line in result.warnings if line not in said]
            details.append(" ".join([f"{name}{text}", *warnings]))
        doubt = scale_map_reason(calibration) if calibration is not None else None
        absent += [f"the map of difficulty: {doubt}"] if doubt else []
        by_level, cells = data.table("by_level"), data.table("transfer_cells")
        columns = ("model", "when", "level", "accuracy", "ci_low", "ci_high")
        shown = {"Accuracy by level": by_level.select(columns)} if by_level.height else {}
        figures = [SCALE_MAP_FIGURE] if data.table("scale_map").height and doubt is None else []
        if by_level.height and (data.levels_stored or doubt is None):
            source = "Levels of equal size, by the difficulty estimated from these answers."
            source = "Levels as stored with the items." if data.levels_stored else source
            figures.append(accuracy_by_level_figure(by_level, group="model", order=data.models, source=source))
        for name in ("transfer_cells", "strategy_cells"):
            figures += [gain_matrix(data.table(name), name)] if data.table(name).height else []
        if cells.height:
            figures.append(gain_by_distance(cells, "transfer_cells", data.models))
        return SectionContent(verdict or by_levels, figures, [text for text in details if text], absent, shown, further)


def _calibrated_words(data: ReportData, calibration: Calibration) -> str:
    """From how many of the answers difficulty is estimated, where that is not from all of which the overview speaks."""
    answers, every = int(calibration.items["n"].sum()), data.facts["responses"]
    if answers == every:
        return ""
    subjects = "checkpoints" if data.has_runs else "subjects"
    return (
        f"Difficulty is estimated from {answers:,} of the {every:,} answers ({calibration.subjects.height:,} of "
        f"{data.facts['checkpoints']:,} {subjects}); the rest repeat others or were left out, as the warnings say."
    )


def _levels_words(data: ReportData) -> str:
    """On which levels models gained, model by model if there are few, and whether gains fade with distance."""
    levels, effects = data.table("by_level"), data.table("transfer_effects")
    if not levels.height:
        known = data.calibration is not None
        return "" if known else "Not enough data: the difficulty of the items is not known, and could not be estimated."
    if data.calibration is not None and not data.levels_stored and data.calibration.scale_warning:
        return ""
    text = "The figure shows how accuracy depends on difficulty."
    if "before" in levels["when"]:
        wide = levels.pivot(on="when", index=["model", "level"], values=["accuracy", "ci_low", "ci_high"])
        wide = wide.with_columns(
            gain=pl.col("accuracy_after") - pl.col("accuracy_before"),
            clear=(pl.col("ci_low_after") > pl.col("ci_high_before")).fill_null(False),
        )
        best = wide.sort("gain", "level", nulls_last=False).group_by("model", maintain_order=True).last()
        clear = wide.group_by("model", maintain_order=True).agg(pl.col("clear").sum(), pl.len().alias("levels"))
        models = clear.join(best.select("model", "level", "gain"), on="model", maintain_order="left")
        gains = [
            f"{row['model']} gained most on level {row['level']} ({points_text(row['gain'])}) and clearly on "
            f"{row['clear']} of {count(row['levels'], 'level')}"
            for row in models.iter_rows(named=True)
        ]
        if models.height > 3:
            every = models.filter(pl.col("clear") == pl.col("levels")).height
            level, number = models["level"].value_counts().sort(["count", "level"]).row(-1)
            gains = [
                f"{every} of {models.height} models gained clearly on every level",
                f"the largest gain is most often on level {level} ({count(number, 'model')})",
            ]
        text = f"By difficulty (level 0 is the easiest): {'; '.join(gains)}."
    if not effects.height:
        return text
    return f"{text} {_fading_words(effects.filter(pl.col('effect') == Effect.FADING))}"


def _fading_words(fading: pl.DataFrame) -> str:
    """Whether gains fade, model by model if the answers name them, else by training set."""
    what = "with the distance between training and test level"
    # The rule of the sentence about each model below: an interval may exclude 0 where q does not reach a finding.
    found = fading.filter(pl.col("q") < FINDING, pl.col("estimate") < 0)
    if not found.height:
        return f"Whether gains fade {what} is undecided."
    if "model" in fading.columns:
        column, noun = "model", "model"
    elif "train_set" in fading.columns:
        column, noun = "train_set", "training set"
    else:
        # All answers are of one recipe that has no name.
        return f"Gains fade {what}."
    if found.height == fading.height:
        others = ""
    else:
        names = found[column].fill_null("unnamed").to_list()
        others = f" ({joined(names)}); undecided for the others"
    return f"Gains fade {what} in {found.height} of {count(fading.height, noun)}{others}."
