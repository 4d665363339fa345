"""Sections Overview and Training: what was studied, accuracy before and after training, and every run's trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import polars as pl

from breadth.reporting.accuracy import bias_words, checkpoint_scores, follow_words, score_profile
from breadth.reporting.data import Content, ReportData, Section
from breadth.reporting.figures import profile_figure, trajectory_figure
from breadth.results.words import SCORE_WORDS, count, interval, joined, points, verdict

#: Share of gains or correlations that must be decided, or agree, for a plain answer.
FEW, ALMOST_ALL = 0.1, 0.9

#: Changes of bias that the finding names.
MOST_CHANGES = 3


class Overview(Section):
    """What was studied, how accurate every model is, and whether the results generalise."""

    key, title, open = "overview", "Overview", True
    tables: ClassVar[Mapping[str, str]] = {
        "runs": "runs: what determines each, and how far it has come",
        "profile": "accuracy per model and test set, before and after training",
        "gains": "gain per model and test set, paired by run and item",
    }

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:  # noqa: D102
        profile, gains = score_profile(data.described, data.score)
        ends = data.described.ends.drop("first", "last")
        planned = {run: len(record.checkpoints) or None for run, record in data.study.runs.items()}
        runs = ends.with_columns(pl.Series("planned", [planned.get(run) for run in ends["run"]], dtype=pl.Int64))
        return {"runs": runs, "profile": profile, "gains": gains}

    def write(self, data: ReportData) -> Content:  # noqa: D102
        facts, runs = data.facts, data.table("runs")
        evaluated = (
            f"evaluated on {count(facts['items'], 'item')} of {count(len(data.testsets), 'test set')}; "
            f"{facts['responses']:,} answers."
        )
        studied = f"{count(facts['checkpoints'], 'subject')} {evaluated}"
        if data.has_runs:
            examples = f" ({joined(list(map(str, facts['examples'])))} examples)" if facts["examples"] else ""
            trained = f", trained on {joined(facts['train_sets'])}{examples}" if facts["train_sets"] else ""
            studied = (
                f"{count(len(facts['models']), 'model')} ({joined(facts['models'])}){trained}: "
                f"{count(facts['runs'], 'run')}, {count(facts['checkpoints'], 'checkpoint')} in total, {evaluated}"
            )
        unfinished = runs.filter(pl.col("checkpoints") < pl.col("planned")).height
        if unfinished:
            verb = "is" if unfinished == 1 else "are"
            studied += f" {count(unfinished, 'run')} {verb} not finished; the latest checkpoint counts as the last."
        # Where every model gained most and least.
        details = [studied]
        for (model, train_set), group in data.table("gains").group_by(["model", "train_set"], maintain_order=True):
            rows = group.sort("gain").rows(named=True)
            chosen = {"most": rows[-1], "least": rows[0]} if len(rows) > 1 else {"": rows[0]}
            where = [
                f"{word} on {row['testset']} ({points(row['gain'])}{', ' * bool(interval(row))}{interval(row)})".strip()
                for word, row in chosen.items()
            ]
            trained = f", trained on {train_set}" if train_set is not None else ""
            details.append(f"{model}{trained}: gained {' and '.join(where)}.")
        columns = ("model", "train_set", "testset", "when", data.score, "ci_low", "ci_high")
        shown = data.table("profile").filter(pl.col("model").is_in(data.models)).select(columns)
        name = SCORE_WORDS[data.score]
        answer = f"Do these results generalise? {_answer(data)}"
        return Content(
            answer,
            (profile_figure(data),),
            details,
            shown={f"{name[0].upper()}{name[1:]}": shown},
        )


class Training(Section):
    """Accuracy of every run at every checkpoint, what it can tell apart, and which answer it leans to."""

    key, title = "training", "During training"
    tables: ClassVar[Mapping[str, str]] = {
        "trajectories": "accuracy, sensitivity and bias of every run at every checkpoint (breadth scores)"
    }
    template = "runs.html"

    def compute(self, data: ReportData) -> Mapping[str, pl.DataFrame]:
        """Accuracy, sensitivity and bias of every run at every checkpoint on every test set, as ``scores`` does."""
        return {"trajectories": checkpoint_scores(data.described, ("accuracy", "auc", "share"))}

    def write(self, data: ReportData) -> Content:
        """Which test sets peak before the end: the best checkpoint beats the last and their intervals are apart."""
        if data.table("runs")["checkpoints"].max() == 1:
            who = "run has one checkpoint" if data.has_runs else "subject was evaluated once"
            return Content(
                "Undecided: nothing is known about the course of training.",
                absent=(f"every {who}, so there are no trajectories",),
            )
        trajectories = data.table("trajectories")
        numbers = pl.col("accuracy", "ci_low", "ci_high").mean()
        means = trajectories.group_by("model", "testset", "step", maintain_order=True).agg(numbers).sort("step")
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
        steps, curves = count(max(trajectories["step"]), "step"), count(both.height, "curve")
        text = f"Over {steps}, {curves} (model x test set, mean over runs). {finding}"
        changes = bias_words(data.table("gains"), trajectories)
        if changes:
            text += f" {' '.join(changes[:MOST_CHANGES])}"
            more = len(changes) - MOST_CHANGES
            text += f" {count(more, 'more change')} of this kind: see the details." if more > 0 else ""
        return Content(text, (trajectory_figure(data),), changes[MOST_CHANGES:])


def _answer(data: ReportData) -> str:
    """Whether the results generalise, from gains on shifted test sets and correlations between test sets."""
    gains, pairs = data.table("gains"), data.table("pairs")
    if not gains.height:
        who = "run" if data.has_runs else "subject"
        return (
            f"Undecided: every {who} was evaluated once, so there are no gains to compare between test sets. The "
            "figure shows the accuracy of each model."
        )
    shifted = gains.filter(~pl.col("in_domain"))
    if not shifted.height:
        return "Undecided: only the in-domain test set was evaluated."
    signs = [verdict(*ends) for ends in shifted.select("ci_low", "ci_high").iter_rows()]
    up, down, total = signs.count(1), signs.count(-1), len(signs)
    together = [verdict(*ends) for ends in pairs.select("ci_low", "ci_high").iter_rows()] if pairs.height else []
    if up + down < FEW * total:
        text = "Undecided: almost no gain on a shifted test set can be distinguished from 0."
    elif down > up:
        text = "No: more shifted test sets lost than gained."
    elif up < ALMOST_ALL * total:
        text = "In part."
    elif together and together.count(1) >= ALMOST_ALL * len(together):
        text = "Yes, on the test sets measured here."
    elif together:
        text = (
            f"The gains do, on the test sets measured here; but beyond in-domain {SCORE_WORDS[data.score]}, "
            "one test set does not predict another."
        )
    else:
        text = "The gains do, on the test sets measured here; whether one test set predicts another was not computed."
    text += (
        f" Of {count(total, 'gain')} on shifted test sets (model x test set), {up} {'is' if up == 1 else 'are'} above "
        f"0, {down} below and {total - up - down} undecided (the 95% interval covers 0). "
    )
    # Mean gain on shifted test sets per model, beside the in-domain gain where that is above 0.
    away = pl.col("gain").filter(~pl.col("in_domain")).mean().alias("away")
    home = pl.col("gain").filter(pl.col("in_domain") & (pl.col("ci_low") > 0)).mean().alias("home")
    means = gains.group_by("model", maintain_order=True).agg(away, home).drop_nulls()
    parts = [f"{model} {points(away)} (in-domain {points(home)})" for model, away, home in means.iter_rows()]
    if means.height > 3:
        low, *_, high = means.sort("away", "model").iter_rows()
        parts = [f"from {points(low[1])} ({low[0]}) to {points(high[1])} ({high[0]})"]
    text += f"Mean gain on shifted test sets: {'; '.join(parts)}." if parts else ""
    text += f" {follow_words(gains, data.score)}".rstrip()
    if together:
        text += (
            f" Beyond what in-domain {SCORE_WORDS[data.score]} explains, doing better on one test set goes with doing "
            f"better on another in {together.count(1)} of {count(len(together), 'correlation')} and with doing worse "
            f"in {together.count(-1)}; {together.count(0)} are undecided or could not be computed."
        )
    return text
