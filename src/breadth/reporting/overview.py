"""Sections Overview and Training: what was studied, scores before and after training, and every run's trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from breadth.records import Study
from breadth.reporting.accuracy import LEAST_OF_RECIPE, at_shared_steps, checkpoint_scores, other_starts, score_profile
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.reporting.figures import profile_figure, trajectory_figure
from breadth.reporting.scoring import bias_words, follow_words, start_words
from breadth.results import Answer, Result, Verdict
from breadth.results.words import FINDING, change_text, count, joined, score_interval_text
from breadth.sources import ScoreTable

#: Share of gains that must be decided, or agree, for a plain answer.
FEW, ALMOST_ALL = 0.1, 0.9

#: Changes of bias that the finding names, and test sets whose scores it names.
MOST_CHANGES = 3
MOST_SCORES = 6

#: What is said where nothing can be said about whether results carry over.
CARRY_OVER_NEEDS = "Whether results carry over from one test set to another takes several models or checkpoints."

#: A gain that a study should be able to see, and how many standard errors it then is (80 % power at 5 %).
WORTH_SEEING, POWER = 0.05, 2.8


class OverviewSection(Section):
    """What was studied, how well every model does, and whether the results generalise."""

    key, title, open = "overview", "Overview", True
    headline = True
    needs = (Study, ScoreTable)
    tables: ClassVar[Mapping[str, str]] = {
        "runs": "runs: what determines each, and how far it has come",
        "profile": "score per model and test set, before and after training",
        "gains": "gain per model and test set, paired by run (and by item where answers are known)",
    }

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:  # noqa: D102
        if not data.has_answers:
            return data.score_tables
        profile, gains = score_profile(data.described, data.score)
        ends = data.described.ends.drop("first", "last")
        planned = {run: len(record.checkpoints) or None for run, record in data.study.runs.items()}
        runs = ends.with_columns(pl.Series("planned", [planned.get(run) for run in ends["run"]], dtype=pl.Int64))
        return {"runs": runs, "profile": profile, "gains": gains}

    def write(self, data: ReportData) -> SectionContent:  # noqa: D102
        every, measure = data.table("gains"), data.about.measure
        # A loss has no place among accuracies: neither in points, nor as the least gain.
        gains = every.filter(pl.col("testset").is_in(data.about.comparable)) if every.height else every
        details = [_studied(data)]
        if gains.height:
            details += [_mean_gains(gains, data.about.share), follow_words(gains, data.score)]
        apart = other_starts(data.table("runs"))
        if apart.height:
            details.append(start_words(apart))
        # Where every model gained most and least.
        for (model, train_set), group in gains.group_by(["model", "train_set"], maintain_order=True):
            rows = group.sort("gain").rows(named=True)
            chosen = {"most": rows[-1], "least": rows[0]} if len(rows) > 1 else {"": rows[0]}
            where = [f"{word} on {_gain_words(row, data.about.share)}".strip() for word, row in chosen.items()]
            trained = f", trained on {train_set}" if train_set is not None else ""
            details.append(f"{model}{trained}: gained {' and '.join(where)}.")
        details.append(_other_changes(every, data.about.others))
        train_sets = data.table("profile")["train_set"].is_not_null().any()
        columns = ["model", *(["train_set"] if train_sets else []), "testset", "when", measure, "ci_low", "ci_high"]
        shown = data.table("profile").filter(pl.col("model").is_in(data.models)).select(columns)
        shown = shown if gains.height else shown.drop("when")
        name = data.about.measure_words
        return SectionContent(
            overall_verdict(data),
            (profile_figure(data),),
            [text for text in details if text],
            _not_drawn(data),
            shown={f"{name[0].upper()}{name[1:]}": shown},
        )


class TrainingSection(Section):
    """Scores of every run at every checkpoint; from answers also sensitivity and bias."""

    key, title = "training", "During training"
    needs = (Study, ScoreTable)
    tables: ClassVar[Mapping[str, str]] = {
        "trajectories": "scores of every run at every checkpoint (breadth scores)",
    }
    template = "runs.html"

    def applies(self, data: ReportData) -> bool:
        """Only where a run has several checkpoints."""
        if not data.has_answers:
            return "trajectories" in data.score_tables
        return bool(data.described.ends["checkpoints"].max() > 1)  # type: ignore[operator]

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:
        """Accuracy, sensitivity and bias of every run at every checkpoint on every test set, as ``scores`` does."""
        if not data.has_answers:
            return data.score_tables
        return {"trajectories": checkpoint_scores(data.described, ("accuracy", "auc", "share"))}

    def write(self, data: ReportData) -> SectionContent:
        """Which test sets peak before the end: the best checkpoint beats the last and their intervals are apart."""
        # Training examples are shown in the figure, and are no test to say anything about.
        trajectories = data.table("trajectories").filter(pl.col("testset").is_in(data.testsets))
        steps = f"Over {count(round(max(trajectories['step'])), 'step')}"
        if not data.has_answers:
            return SectionContent(f"{steps}: {_course(data)}", (trajectory_figure(data),), absent=_not_drawn(data))
        numbers = pl.col("accuracy", "ci_low", "ci_high").mean()
        # A mean over other runs at every step would rise and fall with which runs are in it.
        shared = at_shared_steps(trajectories)
        means = shared.group_by("model", "testset", "step", maintain_order=True).agg(numbers).sort("step")
        last = means.group_by("model", "testset", maintain_order=True).last()
        best = means.sort("accuracy").group_by("model", "testset", maintain_order=True).last()
        both = best.join(last, on=["model", "testset"], suffix="_last")
        fell = both.filter(pl.col("ci_low") > pl.col("ci_high_last"))
        finding = (
            "No curve ends clearly below its best checkpoint (the intervals of the two overlap), so there is no clear "
            "sign that stopping earlier would have helped on any test set."
        )
        if fell.height:
            names = [f"{row['testset']} in {row['model']}" for row in fell.iter_rows(named=True)]
            finding = (
                f"{fell.height} {'ends' if fell.height == 1 else 'end'} clearly below the best checkpoint "
                f"({joined(names)}): the intervals of the two do not overlap."
            )
        text = f"{steps}, {count(both.height, 'curve')} (model x test set, mean over runs). {finding}"
        changes = bias_words(data.table("gains"), trajectories)
        if changes:
            text += f" {' '.join(changes[:MOST_CHANGES])}"
            more = len(changes) - MOST_CHANGES
            text += f" {count(more, 'more change')} of this kind: see the details." if more > 0 else ""
        return SectionContent(text, (trajectory_figure(data),), changes[MOST_CHANGES:])


def overall_verdict(data: ReportData) -> Verdict | str:
    """Do these results generalise? From gains on shifted test sets and from correlations between test sets.

    A gain counts if it remains with the false discovery rate at 5 %, over all models and shifted test sets. Yes: almost
    all do. No: more losses than gains remain; or hardly any gain, while at least half are clearly less than half the
    in-domain gain, or although 5 points would have been seen.
    """
    carried = data.carry_over.verdict
    shifted = data.table("gains").filter(~pl.col("in_domain"), pl.col("testset").is_in(data.about.comparable))
    known = shifted.drop_nulls("p")
    if not known.height:
        # Nothing was trained: what can be answered comes first.
        levels = _score_levels(data)
        if len(data.about.shifts) == 1:
            return _one_testset(data, levels)
        if levels and data.facts["checkpoints"] == 1:
            return f"{levels} {CARRY_OVER_NEEDS}"
        return carried
    found = known.filter(pl.col("q") < FINDING).sort("gain")
    signs = np.sign(found["gain"].to_numpy())
    up, down, total = int((signs > 0).sum()), int((signs < 0).sum()), known.height
    cells = " (model x test set)" if known["model"].n_unique() > 1 else ""
    # Without an in-domain set, none of them is known to be shifted.
    sets = "shifted test sets" if data.table("gains")["in_domain"].any() else "test sets"
    where = f"{total} gains on {sets}{cells}"
    counted = f"{up} of {where} {'is' if up == 1 else 'are'} above 0 and {down or 'none'} below"
    if data.has_answers and not (known["runs"] > 1).any():
        counted += " (one run each: about these trained models, not about their recipes)"
    line = f"Does one test set speak for another? {carried.answer.value}."
    if up:
        row = found.row(-1, named=True)
        model = str(row["model"]) if len(data.facts["models"]) > 1 else ""
        line = f"Largest gain: {_gain_words(row, data.about.share, model)}. {line}"
    if up + down < FEW * total:
        return _hardly_any(known, counted, line, data.about.share)
    if down > up:
        return Verdict(Answer.NO, f"{counted}: {sets} lose more than they gain.", line)
    if up >= ALMOST_ALL * total:
        one = {
            Answer.YES: "; one test set also speaks for another",
            Answer.NO: ", but one test set says little about another",
            Answer.DEPENDS: ", but not all test sets move together",
        }.get(carried.answer, "")
        return Verdict(Answer.YES, f"{counted}{one}.", line)
    lag = _behind(known).filter(pl.col("q") >= FINDING).height
    behind = f"; {lag} of the others {'is' if lag == 1 else 'are'} clearly less than half the in-domain gain" * bool(
        lag
    )
    return Verdict(Answer.DEPENDS, f"{counted}{behind or '; the others are undecided'}.", line)


def _one_testset(data: ReportData, levels: str) -> str:
    """What answers to one test set tell, and last that they tell nothing of others."""
    questions: dict[str, Result | None] = {
        "Which model is best?": data.results.get("ranking"),
        "Do the items measure one ability?": data.calibration,
    }
    parts = [levels]
    for question, result in questions.items():
        verdict = result.verdict() if result is not None else None
        if verdict is not None:
            parts.append(f"{question} {verdict.lines()[0]}")
    parts.append("One test set cannot show whether results carry over to others.")
    return " ".join(filter(None, parts))


def _score_levels(data: ReportData) -> str:
    """How the only model does on every test set, with intervals; for several models empty, a ranking says that."""
    profile = data.table("profile")
    if profile["model"].n_unique() != 1:
        return ""
    words = []
    for _, rows in profile.group_by("testset", maintain_order=True):
        words.append(_level_words(rows.rows(named=True), data))
    shown, rest = words[:MOST_SCORES], len(words) - MOST_SCORES
    if rest > 0:
        shown.append(count(rest, "more test set"))
    name = Path(data.about.name).stem
    if data.facts["models"]:
        name = profile["model"][0]
    return f"{name}: {'; '.join(shown)}."


def _level_words(rows: Sequence[Mapping[str, Any]], data: ReportData) -> str:
    """The score on one test set: of the last of some checkpoints, and that of the first."""

    def written(score: float) -> str:
        return f"{score:.1%}" if data.about.share else f"{score:.3g}"

    last, measure = rows[-1], data.about.measure
    text = f"{data.about.measure_words} {written(last[measure])}"
    if last["ci_low"] is not None:
        text += f" (95% interval {written(last['ci_low'])} to {written(last['ci_high'])})"
    text += f" on {last['testset']}"
    if last["n_items"] is not None:
        text += f", {count(last['n_items'], 'item')}"
    if len(rows) > 1 and data.facts["checkpoints"] > 1:
        text += f" after training ({written(rows[0][measure])} before)"
    return text


def _hardly_any(gains: pl.DataFrame, counted: str, line: str, share: bool) -> Verdict:
    """The verdict where hardly any gain on a shifted test set is a finding: is that for want of data?"""
    lag = _behind(gains).height
    more = (POWER * float(gains["se"].median() or 0) / WORTH_SEEING) ** 2  # type: ignore[arg-type]
    if lag > FEW * gains.height:
        answer = Answer.NO if 2 * lag >= gains.height else Answer.DEPENDS
        return Verdict(answer, f"{counted}; {lag} are clearly less than half the in-domain gain.", line)
    if share and more <= 1:
        return Verdict(Answer.NO, f"{counted}, although a gain of 5 points would show.", line)
    needed = f"To see a gain of 5 points takes about {more:.0f} times as many items or runs." if share else ""
    if gains["runs"].max() == LEAST_OF_RECIPE:
        needed = "From two runs of a model it is hardly known how far runs differ: a third run would help most."
    return Verdict(Answer.UNKNOWN, f"{counted}.", line, needed)


def _behind(gains: pl.DataFrame) -> pl.DataFrame:
    """Gains that are clearly less than half the in-domain one."""
    return gains.filter((pl.col("q_behind") < FINDING) & (pl.col("behind") < 0))


def _gain_words(row: Mapping[str, Any], share: bool, model: str = "") -> str:
    within = score_interval_text(row, share)
    where = f"{row['testset']} in {model}" if model else row["testset"]
    return f"{where} ({change_text(row['gain'], share)}{', ' if within else ''}{within})"


def _studied(data: ReportData) -> str:
    """What was studied, in a sentence or two."""
    facts, runs = data.facts, data.table("runs")
    testsets = count(len(data.testsets), "test set")
    evaluated = f"evaluated on {testsets}."
    if data.has_answers:
        evaluated = f"evaluated on {count(facts['items'], 'item')} of {testsets}; {facts['responses']:,} answers."
    text = f"{count(facts['checkpoints'], 'subject')} {evaluated}"
    if data.has_runs:
        examples = f" ({joined(list(map(str, facts['examples'])))} examples)" if facts["examples"] else ""
        trained = f", trained on {joined(facts['train_sets'])}{examples}" if facts["train_sets"] else ""
        models = f"{count(len(facts['models']), 'model')} ({joined(facts['models'])}){trained}: "
        models = models if facts["models"] else ""
        checkpoints = count(facts["checkpoints"], "checkpoint")
        text = f"{models}{count(facts['runs'], 'run')}, {checkpoints} in total, {evaluated}"
    unfinished = runs.filter(pl.col("checkpoints") < pl.col("planned")).height
    if unfinished:
        verb = "is" if unfinished == 1 else "are"
        text += f" {count(unfinished, 'run')} {verb} not finished; the latest checkpoint counts as the last."
    return text


def _mean_gains(gains: pl.DataFrame, share: bool) -> str:
    """Mean gain on shifted test sets per model, beside the in-domain gain where that is above 0."""
    away = pl.col("gain").filter(~pl.col("in_domain")).mean().alias("away")
    home = pl.col("gain").filter(pl.col("in_domain") & (pl.col("ci_low") > 0)).mean().alias("home")
    means = gains.group_by("model", maintain_order=True).agg(away, home).drop_nulls()
    parts = [
        f"{model} {change_text(far, share)} (in-domain {change_text(near, share)})"
        for model, far, near in means.iter_rows()
    ]
    if means.height > 3:
        low, *_, high = means.sort("away", "model").iter_rows()
        parts = [f"from {change_text(low[1], share)} ({low[0]}) to {change_text(high[1], share)} ({high[0]})"]
    return f"Mean gain on shifted test sets: {'; '.join(parts)}." if parts else ""


def _other_changes(gains: pl.DataFrame, others: Sequence[str]) -> str:
    """How columns that are no accuracies changed, in their own unit: mean over models and runs."""
    if not gains.height:
        return ""
    means = (
        gains.filter(pl.col("testset").is_in(others))
        .group_by("testset", maintain_order=True)
        .agg(pl.col("gain").mean())
    )
    words = [f"{name} changed by {change_text(gain, share=False)}" for name, gain in means.drop_nulls().iter_rows()]
    return f"No accuracies, in their own unit: {joined(words)}." if words else ""


def _not_drawn(data: ReportData) -> list[str]:
    """Columns that would need an axis of their own."""
    others = data.about.others
    if not others:
        return []
    why = "it is no accuracy" if len(others) == 1 else "they are no accuracies"
    return [f"{joined(others)} among the accuracies, because {why}; see the tables"]


def _course(data: ReportData) -> str:
    """Which test set rose most and least, for a table of scores: mean over models and runs."""
    gains = data.table("gains").filter(pl.col("testset").is_in(data.about.comparable))
    means = gains.group_by("testset", maintain_order=True).agg(pl.col("gain").mean()).sort("gain")
    words = [f"{change_text(gain, data.about.share)} on {name}" for name, gain in means.iter_rows()]
    said = f"changes range from {words[0]} to {words[-1]}" if len(words) > 3 else f"scores changed by {joined(words)}"
    return f"{said} (first to last checkpoint, mean over {count(data.facts['runs'], 'run')})."
