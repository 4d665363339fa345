"""Sections Overview and Training: what was studied, scores before and after training, and every run's trajectory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from breadth.records import Study
from breadth.reporting.accuracy import at_shared_steps, checkpoint_scores, other_starts, score_profile
from breadth.reporting.carried_over import carried_over_verdict, settled_words
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.reporting.figures import evened, profile_figure, trajectory_figure
from breadth.reporting.scoring import bias_words, follow_words, start_words
from breadth.reporting.sources import PLAIN_SCORE
from breadth.reporting.standings import leader_verdict, row_noun, standings, standings_figures
from breadth.results import Question, State, Verdict
from breadth.results.words import change_text, count, ends_text, joined, score_interval_text
from breadth.sources import ScoreTable

#: Changes of bias that the finding names, and test sets whose scores it names.
MOST_CHANGES = 3
MOST_SCORES = 6

#: How a model is called whose log does not name it; a time may follow.
NAMELESS = "unnamed"


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
            if data.scores.order is None:
                data.page_tables["standings"] = standings(data.scores)
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
        details = [studied(data)]
        if data.facts["responses"] is not None:
            details[0] += f" {count(data.facts['responses'], 'answer')} in all."
        if gains.height:
            details.append(settled_words(gains))
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
        figures = [profile_figure(data)]
        if "standings" in data.page_tables:
            figures = standings_figures(data) or figures
        elif _is_ranked_alone(data):
            figures = []
        return SectionContent(
            overall_verdict(data),
            figures,
            [text for text in details if text],
            _not_drawn(data),
            shown={f"{name[0].upper()}{name[1:]}": shown},
        )


def _is_ranked_alone(data: ReportData) -> bool:
    """Whether panels of one dot each would only repeat the ranking: one test set, and models evaluated once."""
    profile = data.table("profile")
    return "ranking" in data.results and len(data.about.comparable) == 1 and "before" not in profile["when"]


class TrainingSection(Section):
    """Scores of every run at every checkpoint; from answers also sensitivity and bias."""

    key, title, short = "training", "During training", "Training"
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
        if data.has_answers:
            tables = {"trajectories": checkpoint_scores(data.described, ("accuracy", "auc", "share"))}
        else:
            tables = data.score_tables
        curves = evened(tables["trajectories"])
        if curves is not None:
            data.page_tables["curves"] = curves
        return tables

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
    """What the study shows first: whether training carried over; how good one model is; else what there is to see.

    Where several models were evaluated once, the ranking answers, and of a table of scores its means.
    """
    carried = carried_over_verdict(data)
    if carried is not None:
        return carried
    if data.table("profile")["model"].n_unique() == 1 and "standings" not in data.page_tables:
        return how_good_verdict(data)
    if "standings" in data.page_tables:
        leader = leader_verdict(data)
        if leader is not None:
            return leader
    return _range_words(data)


def how_good_verdict(data: ReportData) -> Verdict | str:
    """How good is the only model? Its score on the test set, or the mean over test sets of one kind of score."""
    profile = data.table("profile").filter(pl.col("testset").is_in(data.about.comparable))
    measure, name = data.about.measure, _only_name(data)
    last = profile.filter(when="after").drop_nulls(measure)
    if not last.height or not data.about.share:
        return _range_words(data)
    first = profile.filter(when="before").drop_nulls(measure)
    mean = float(last[measure].mean())  # type: ignore[arg-type]
    before = ""
    if first.height == last.height:
        started = float(first[measure].mean())  # type: ignore[arg-type]
        before = f" after training ({started:.1%} before)"
    facts: dict[str, float | str] = {"score": mean, "test sets": last.height}
    words = "right" if measure in ("accuracy", PLAIN_SCORE) and data.has_answers else data.about.measure_words
    findings, state = "", State.YES
    if last.height == 1:
        row = last.row(0, named=True)
        interval = ""
        if row["ci_low"] is not None:
            interval = f" (95% interval {ends_text(row['ci_low'], row['ci_high'], 1)})"
        if row["n_items"] is not None and words == "right":
            what = f"{mean:.1%} of {count(row['n_items'], 'question')} of {row['testset']} right"
            facts["questions"] = row["n_items"]
        else:
            what = f"{mean:.1%} on {row['testset']}"
        reason = f"{name} gets {what}{interval}{before}."
        guessing = _guessing(data)
        if guessing is not None:
            facts["guessing"] = guessing
            findings = f"Guessing would give {guessing:.0%}."
            if row["ci_low"] is not None and row["ci_low"] <= guessing:
                findings = f"That is not clearly more than guessing would give ({guessing:.0%})."
                state = State.MIXED
    else:
        right = " right" if words == "right" else ""
        reason = f"{name} gets {mean:.1%}{right} on average over {count(last.height, 'test set')}{before}."
        ranked = last.sort(measure, descending=True, maintain_order=True)
        scored = [f"{row['testset']} {row[measure]:.1%}" for row in ranked.iter_rows(named=True)]
        if len(scored) > MOST_SCORES:
            findings = f"Best on {joined(scored[:3])}; worst on {joined(scored[-3:])}."
        else:
            findings = f"{joined(scored)}."
    advice = "Evaluate a second model on the same questions to see which is better."
    if last.height == 1:
        advice = (
            "Evaluate a second model on these questions to see which is better, and a second test set to see whether "
            "the result carries over."
        )
    question = Question.HOW_GOOD
    return Verdict(f"{mean:.1%}", reason, findings, question=question, advice=advice, state=state, facts=facts)


def _guessing(data: ReportData) -> float | None:
    """The share that guessing would get right, where every question lists its options."""
    if not data.has_answers or data.about.measure != "accuracy":
        return None
    items = data.study.items
    for name in ("options", "option_labels"):
        if name not in items.columns or not items.height:
            continue
        numbers = items[name].list.len()
        if not numbers.null_count() and numbers.min() >= 2:  # type: ignore[operator]
            return float((1 / numbers).mean())  # type: ignore[arg-type]
    return None


def _only_name(data: ReportData) -> str:
    """The name of the only model; of a table that does not name it, that of its run or of the file."""
    if data.facts["models"]:
        name = str(data.table("profile")["model"][0])
        # A log that does not say which model it is of is known by its time, which nobody would read as a name.
        return "The model of this log" if name.partition(" ")[0] == NAMELESS else name
    if not data.has_answers:
        for name in data.scores.by:
            if data.scores.frame[name].n_unique() == 1:
                return str(data.scores.frame[name][0])
        if data.facts["runs"] > 1:
            return f"The mean of {data.facts['runs']} runs"
    return Path(data.about.name).stem


def _range_words(data: ReportData) -> str:
    """How far models range, where no question is answered by the scores alone."""
    profile = data.table("profile").filter(pl.col("testset").is_in(data.about.comparable), when="after")
    measure, noun = data.about.measure, "model"
    if "standings" in data.page_tables:
        noun = row_noun(data.scores)
        profile = data.page_tables["standings"].select("model", pl.col("mean").alias(measure))
    means = profile.group_by("model", maintain_order=True).agg(pl.col(measure).mean()).drop_nulls().sort(measure)
    sets = count(len(data.about.comparable), "test set")
    if means.height < 2:
        return f"Scores on {sets}."
    low, high = means.row(0, named=True), means.row(-1, named=True)

    def written(score: float) -> str:
        return f"{score:.1%}" if data.about.share else f"{score:.3g}".replace("-", "−")

    return (
        f"{data.about.measure_words[0].upper()}{data.about.measure_words[1:]} of {count(means.height, noun)} on "
        f"{sets} ranges from {written(low[measure])} ({low['model']}) to {written(high[measure])} ({high['model']})."
    )


def _gain_words(row: Mapping[str, Any], share: bool, model: str = "") -> str:
    within = score_interval_text(row, share)
    where = f"{row['testset']} in {model}" if model else row["testset"]
    return f"{where} ({change_text(row['gain'], share)}{', ' if within else ''}{within})"


def studied(data: ReportData) -> str:
    """What was studied, in a sentence or two."""
    facts = data.facts
    if "runs" not in data.tables:
        return f"A difficulty scale of {count(facts['items'], 'question')}."
    runs, testsets = data.table("runs"), count(len(data.testsets), "test set")
    sets = testsets
    if facts["items"] is not None:
        per_set = f"{count(facts['items'], 'question')} of " if len(data.testsets) > 1 else ""
        sets = f"{per_set}{testsets}"
        if not per_set:
            sets = f"{testsets} of {count(facts['items'], 'question')}"
    if not data.has_runs:
        number = len(facts["models"]) or facts["checkpoints"]
        noun = "model" if data.has_answers else row_noun(data.scores)
        return f"{count(number, noun)} on {sets}."
    trained = ""
    if facts["train_sets"]:
        examples = f" ({joined(list(map(str, facts['examples'])))} examples)" if facts["examples"] else ""
        trained = f" trained on {joined(facts['train_sets'])}{examples}"
    each = runs["checkpoints"].unique().to_list()
    if len(each) == 1:
        checkpoints = f"{count(each[0], 'checkpoint')}{' each' if facts['runs'] > 1 else ''}"
    else:
        checkpoints = f"{count(facts['checkpoints'], 'checkpoint')} in total"
    models = f"{count(len(facts['models']), 'model')}{trained}, " if facts["models"] else ""
    text = f"{models}{count(facts['runs'], 'run')}, {checkpoints}, on {sets}."
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
