"""What an import gave, in words and tables: subjects by test sets, how each test set is scored, what was left out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from breadth.records import Study, imported_study
from breadth.results import Column, Columns, Result, Shown
from breadth.results.words import count, joined
from breadth.sources.logs.assembly import Assembly
from breadth.sources.logs.log_files import LogFiles

#: Most test sets that the table of models shows as columns, and characters of their names.
MOST_SETS = 6
SET_WIDTH = 14

#: Reasons for leaving out files that the terminal shows, and files that it names for each: those that look like logs
#: come first.
MOST_REASONS = 8
MOST_FILES = 3
LOOKS_LIKE_LOG = re.compile(r"\.(jsonl?|eval|parquet|npz|csv)(\.\w+)?$", re.IGNORECASE)


TESTSETS = Columns(
    Column("testset", header="test set", priority=1, meaning="the test set"),
    Column("scored_by", header="scored by", priority=1, meaning="metric of the answers, with its variant"),
    Column("subjects", header="models", format=",d", priority=2, meaning="models that answered it"),
    Column("items", header="questions", format=",d", priority=1, meaning="questions that some model answered"),
    Column(
        "shared", header="answered by all", format=",d", priority=2, meaning="questions that all its models answered"
    ),
    Column("answers", format=",d", priority=4, meaning="answers to it"),
    Column("reason", words=True, priority=4, meaning="why answers are scored by this metric"),
)
SUBJECTS = Columns(
    Column("subject", header="model", priority=1, meaning="the model, or the checkpoint of a run"),
    Column("testset", header="test set", priority=1, meaning="the test set"),
    Column("answers", format=",d", priority=2, meaning="answers of the model to it"),
    Column("mean", format=".3f", priority=1, meaning="mean score of these answers"),
    Column("margins", format=",d", priority=3, meaning="answers of which the log-odds of the right one are known"),
)
LEFT_OUT = Columns(
    Column("what", header="file or test set", priority=1, meaning="what was left out"),
    Column("reason", words=True, priority=1, meaning="why it was left out"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Import(Result):
    """What logs gave: a study, how every test set is scored, and what was left out; made by `breadth.import_logs`.

    Frames: ``testsets`` (testset, metric, variant, subjects, items, shared: items that all its subjects answered,
    answers, reason), ``subjects`` (subject, testset, answers, mean, margins), ``logs`` (a row per log with its source,
    tool, version and stated mean), ``left_out`` (what, reason). ``changed`` says whether the directory was changed,
    ``known`` how many files had been imported before.
    """

    COLUMNS: ClassVar[Mapping[str, Columns]] = {"testsets": TESTSETS, "subjects": SUBJECTS, "left_out": LEFT_OUT}

    study: Study
    testsets: pl.DataFrame
    subjects: pl.DataFrame
    logs: pl.DataFrame
    left_out: pl.DataFrame
    known: int = 0
    changed: bool = False
    warnings: tuple[str, ...] = ()

    def tables(self) -> Mapping[str, pl.DataFrame]:
        """The frames by name: testsets, subjects, logs, left_out."""
        return {
            "testsets": self.testsets,
            "subjects": self.subjects,
            "logs": self.logs,
            "left_out": self.left_out,
        }

    def shown(self) -> Sequence[Shown]:
        """Means of all models, then how every test set is scored; below it, why, and what was left out."""
        names = [_metric_name(row) for row in self.testsets.iter_rows(named=True)]
        frame = self.testsets.with_columns(scored_by=pl.Series(names, dtype=pl.String))
        notes = "\n".join([*scoring_words(self.testsets), *left_out_words(self.left_out)])
        return [
            means_shown(self.subjects),
            Shown("Test sets", frame, TESTSETS.without("answers", "reason"), note=notes),
        ]

    def details(self) -> str:
        """How many subjects, test sets and answers there are, from which tools, and what was left out."""
        tools = []
        for tool, number in self.logs.group_by("tool", maintain_order=True).len().iter_rows():
            tools.append(f"{count(number, 'log')} of {tool}")
        sentences = [
            f"{count(self.study.subjects.height, 'model')} and {count(self.testsets.height, 'test set')} with "
            f"{count(self.study.items.height, 'question')} and {count(int(self.testsets['answers'].sum()), 'answer')}, "
            f"from {joined(tools)}."
        ]
        shares = []
        apart = self.testsets.filter((pl.col("subjects") > 1) & (pl.col("shared") < pl.col("items")))
        for name, shared, items in apart.select("testset", "shared", "items").iter_rows():
            shares.append(f"{name} {shared:,} of {items:,}")
        if shares:
            sentences.append(
                f"Questions that all models of a test set answered: {joined(shares)}; all questions of the others."
            )
        number_stated = self.logs["stated"].count()
        if number_stated:
            sentences.append(f"Compared with the answers: the means in {count(number_stated, 'log')}.")
        if self.known:
            sentences.append(f"{count(self.known, 'file')} had been imported before.")
        if self.left_out.height:
            sentences.append(f"Left out: {count(self.left_out.height, 'file or test set', 'files or test sets')}.")
        return " ".join(sentences)


def describe_import(name: str, found: LogFiles, assembly: Assembly, folder: Path | None, *, changed: bool) -> Import:
    """What reading and assembling logs gave, with the study that they are."""
    imported = assembly.imported
    study = imported_study(imported, name if folder is None else str(folder), folder, assembly.notes)
    left_out = found.left_out | assembly.left_out
    number_known = 0
    for file in found.files:
        if not file.logs and not file.left_out:
            number_known += 1
    return Import(
        study,
        _describe_testsets(study, assembly),
        _describe_subjects(assembly),
        imported.logs,
        pl.DataFrame(list(left_out.items()), schema={"what": pl.String, "reason": pl.String}, orient="row"),
        known=number_known,
        changed=changed,
        warnings=study.warnings,
    )


def _describe_testsets(study: Study, assembly: Assembly) -> pl.DataFrame:
    """How every test set is scored, and how many items and answers it has."""
    rows: list[dict[str, Any]] = []
    for place, testset in enumerate(study.testsets):
        choice = assembly.choices[testset]
        answered = study.answered[:, study.set_index == place]
        takes_part = answered.any(axis=1)
        rows.append(
            {
                "testset": testset,
                "metric": choice.metric.name,
                "variant": choice.metric.variant,
                "subjects": int(takes_part.sum()),
                "items": answered.shape[1],
                "shared": int(answered[takes_part].all(axis=0).sum()),
                "answers": int(answered.sum()),
                "reason": choice.reason,
            }
        )
    return pl.DataFrame(rows)


def _describe_subjects(assembly: Assembly) -> pl.DataFrame:
    """The mean of every subject on every test set; several logs count by their answers."""
    imported = assembly.imported
    margins = imported.responses.group_by("log").agg(margins=pl.col("margin").count())
    logs = imported.logs.with_row_index("log").join(margins, on="log", how="left", maintain_order="left")
    answers = pl.col("answered").sum()
    mean = (pl.col("mean") * pl.col("answered")).sum() / answers
    by_subject = logs.group_by("subject", "testset", maintain_order=True)
    return by_subject.agg(answers=answers, mean=mean, margins=pl.col("margins").sum())


def scoring_words(testsets: pl.DataFrame) -> list[str]:
    """Why test sets are scored by their metrics, a sentence per reason."""
    names_by_reason: dict[tuple[str, str], list[str]] = {}
    for row in testsets.iter_rows(named=True):
        names_by_reason.setdefault((_metric_name(row), row["reason"]), []).append(row["testset"])
    sentences = []
    for (metric, reason), names in names_by_reason.items():
        sentences.append(f"{metric}: {reason} ({joined(names, 4)}).")
    return sentences


def _metric_name(row: Mapping[str, str]) -> str:
    return f"{row['metric']} ({row['variant']})" if row["variant"] else row["metric"]


def means_shown(subjects: pl.DataFrame) -> Shown:
    """A row per model, a column per test set: mean scores on the first test sets."""
    testsets = subjects["testset"].unique(maintain_order=True).to_list()
    columns = [
        Column("subject", header="model", priority=1, meaning="the model, or the checkpoint of a run"),
        Column("answers", format=",d", priority=3, meaning="its answers to all test sets"),
    ]
    schema: dict[str, Any] = {"subject": pl.String, "answers": pl.Int64}
    # A test set may have the name of another column.
    keys = {}
    for number, testset in enumerate(testsets[:MOST_SETS]):
        keys[testset] = f"mean {number}"
        schema[keys[testset]] = pl.Float64
        meaning = f"mean score on {testset}"
        columns.append(Column(keys[testset], header=testset[:SET_WIDTH], format=".3f", meaning=meaning))
    rows: dict[str, dict[str, Any]] = {}
    for row in subjects.iter_rows(named=True):
        cells = rows.setdefault(row["subject"], {"subject": row["subject"], "answers": 0})
        cells["answers"] += row["answers"]
        if row["testset"] in keys:
            cells[keys[row["testset"]]] = row["mean"]
    more = len(testsets) - MOST_SETS
    note = f"{count(more, 'more test set')} not shown here." if more > 0 else ""
    return Shown(
        "Mean score of every model", pl.DataFrame(list(rows.values()), schema=schema), Columns(*columns), note=note
    )


def left_out_words(left_out: pl.DataFrame) -> list[str]:
    """What was left out, a line per reason, the commonest first."""
    groups = left_out.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("what"))
    groups = groups.sort("len", descending=True, maintain_order=True)
    lines = []
    for reason, number, files in groups.head(MOST_REASONS).iter_rows():
        logs_first = sorted(files, key=lambda name: not LOOKS_LIKE_LOG.search(name))
        names = ", ".join(logs_first[:MOST_FILES])
        if number > MOST_FILES:
            names += f" and {number - MOST_FILES:,} more"
        lines.append(f"Left out ({number:,}): {reason}: {names}.")
    rest = groups.slice(MOST_REASONS)
    if rest.height:
        lines.append(
            f"Left out ({rest['len'].sum():,}) for {rest.height} other reasons, listed in the frame left_out of "
            "breadth.import_logs."
        )
    return lines
