"""Section Methods: how the report was made, what each statistic means, study file, environments, downloads."""

from __future__ import annotations

from importlib import import_module

from breadth.reporting.data import Content, ReportData, Section

#: Every statistic: what it is, what it is not, and the page of the documentation that explains it.
STATISTICS = (
    (
        "Accuracy and its interval",
        "The mean over items and runs. The 95% interval treats both as samples: another draw of items, or another run "
        "of the same recipe, would give another value. With a single run only the items count, so the interval is too "
        "narrow for a claim about the recipe. In trajectories, the interval is Wilson's for one checkpoint of one run.",
        "Gains by level",
    ),
    (
        "Sensitivity and bias",
        "For test sets with two answers: the area under the ROC curve of the log-odds of one answer (0.5 is chance), "
        "which does not depend on the answer that the model leans to, and the share of that answer. A change of "
        "accuracy is called one of bias where the share clearly changed and the area did not; paired by item, with "
        "DeLong's variance.",
        "Ability and answer bias",
    ),
    (
        "Partial correlation",
        "Over the checkpoints of one run: do two test sets rise and fall together after controlling for in-domain "
        "accuracy with a smooth curve? Neighbouring checkpoints are similar, so intervals use an effective number of "
        "checkpoints. It says nothing about differences between runs or models, nor about cause.",
        "Partial correlation",
    ),
    (
        "Corrected correlation",
        "The partial correlation, corrected for the sampling noise of finite test sets, which random halves of their "
        "items reveal. It is not computed where a set's fluctuation is mostly noise. Its mean over runs takes the "
        "variances from the intervals of the runs.",
        "Partial correlation",
    ),
    (
        "q",
        "The smallest false discovery rate (Benjamini and Hochberg), over all pairs, runs and training sets, at which "
        "the correlation is a discovery.",
        "Partial correlation",
    ),
    (
        "Difficulty and ability",
        "A Rasch model of which subject answered which item correctly. A subject is a model at a checkpoint. "
        "Checkpoints of one run are not independent, so standard errors are too small, and the scale belongs to this "
        "study.",
        "Item response theory",
    ),
    (
        "Gain by level",
        "Accuracy after training minus accuracy before, paired by item, per training level and test level. Test items "
        "must not have been trained on.",
        "Gains by level",
    ),
    (
        "Doubted labels",
        "Items that abler subjects get wrong more often (also within their own test set), or that at least 80% of the "
        "runs end up answering differently with odds above 7 to 1, the more so the better they do on the rest of the "
        "set. A reason to check, not a verdict: a few very hard items look the same.",
        "Report and live page",
    ),
)


class Methods(Section):
    """How the report was made; the page adds the study file, environments, statistics and downloads."""

    key, title = "methods", "Methods"
    template = "methods.html"

    def write(self, data: ReportData) -> Content:  # noqa: D102
        seeds = ", ".join(map(str, data.facts["seeds"])) or "not recorded"
        source = "a table of scores" if data.facts["items"] is None else f"{data.facts['items']:,} calibrated items"
        if data.has_answers:
            source = f"{data.facts['responses']:,} answers. Seeds of the runs: {seeds}"
        return Content(
            f"Made by breadth {import_module('breadth').__version__} from {source}. Seed of the split halves and "
            "random relabellings: 0. The same input gives the same numbers."
        )
