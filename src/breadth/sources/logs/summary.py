"""What an import gave, in words and tables: subjects by test sets, how each test set is scored, what was left out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.records import Study, imported_study
from breadth.results import Result
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table, number_text
from breadth.results.words import count, joined
from breadth.sources.logs.assembly import Assembly
from breadth.sources.logs.log_files import LogFiles

#: Most test sets that the table of subjects shows as columns, characters of their names, and of subjects' names that
#: must find room beside them.
MOST_SETS = 6
SET_WIDTH = 14
NAME_WIDTH = 28

#: Characters between the columns of that table.
COLUMN_GAP = 3

#: Reasons for leaving out files that the terminal shows, and files that it names for each: those that look like logs
#: come first.
MOST_REASONS = 8
MOST_FILES = 3
LOOKS_LIKE_LOG = re.compile(r"\.(jsonl?|eval|parquet|npz|csv)(\.\w+)?$", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Import(Result):
    """What logs gave: a study, how every test set is scored, and what was left out; made by `breadth.import_logs`.

    Frames: ``testsets`` (testset, metric, variant, subjects, items, shared: items that all its subjects answered,
    answers, reason), ``subjects`` (subject, testset, answers, mean, margins), ``logs`` (a row per log with its source,
    tool, version and stated mean), ``left_out`` (what, reason). ``changed`` says whether the directory was changed,
    ``known`` how many files had been imported before.
    """

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

    def details(self) -> str:
        """How many subjects, test sets and answers there are, from which tools, and what was left out."""
        tools = []
        for tool, number in self.logs.group_by("tool", maintain_order=True).len().iter_rows():
            tools.append(f"{count(number, 'log')} of {tool}")
        sentences = [
            f"{count(self.study.subjects.height, 'subject')} and {count(self.testsets.height, 'test set')} with "
            f"{count(self.study.items.height, 'item')} and {count(int(self.testsets['answers'].sum()), 'answer')}, "
            f"from {joined(tools)}."
        ]
        shares = []
        apart = self.testsets.filter((pl.col("subjects") > 1) & (pl.col("shared") < pl.col("items")))
        for name, shared, items in apart.select("testset", "shared", "items").iter_rows():
            shares.append(f"{name} {shared:,} of {items:,}")
        if shares:
            sentences.append(
                f"Items that all subjects of a test set answered: {joined(shares)}; all items of the others."
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


def scoring_table(testsets: pl.DataFrame, width: int = WIDTH) -> Table:
    """By what every test set is scored, and how many items its subjects share."""
    title = "Test sets"
    if testsets.height > MOST_ROWS:
        title += f": the first {MOST_ROWS} of {testsets.height:,}"
    table = make_table(title, ["test set", "metric"], ["subjects", "items", "shared"], width, in_file=False)
    for row in testsets.head(MOST_ROWS).iter_rows(named=True):
        numbers = [f"{row[name]:,}" for name in ("subjects", "items", "shared")]
        table.add_row(Text(row["testset"]), Text(_metric_name(row)), *numbers)
    return table


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


def subject_means_table(subjects: pl.DataFrame, width: int = WIDTH) -> Table:
    """Means of subjects on the first test sets, with the number of their answers."""
    testsets = subjects["testset"].unique(maintain_order=True).to_list()
    names = subjects["subject"].unique(maintain_order=True).to_list()
    shown = _testsets_that_fit(testsets, width)
    parts = []
    if len(names) > MOST_ROWS:
        parts.append(f"the first {MOST_ROWS} of {len(names):,}")
    if len(testsets) > len(shown):
        parts.append(f"{len(shown)} of {len(testsets)} test sets")
    title = "Mean score of every subject"
    if parts:
        title += f" ({', '.join(parts)})"
    columns = [testset[:SET_WIDTH] for testset in shown]
    table = make_table(title, ["subject"], ["answers", *columns], width, least=["answers"], in_file=False)
    means = {}
    for row in subjects.iter_rows(named=True):
        means[row["subject"], row["testset"]] = row["mean"]
    answers = dict(subjects.group_by("subject").agg(pl.col("answers").sum()).iter_rows())
    for name in names[:MOST_ROWS]:
        cells = [number_text(means.get((name, testset)), 3) for testset in shown]
        table.add_row(Text(name), f"{answers[name]:,}", *cells)
    return table


def _testsets_that_fit(testsets: Sequence[str], width: int) -> Sequence[str]:
    """The first test sets that have room beside the names of subjects and the number of answers; at least one."""
    room = width - NAME_WIDTH - len("answers") - 2 * COLUMN_GAP + 1
    longest = max(len(testset[:SET_WIDTH]) for testset in testsets[:MOST_SETS])
    number = min(MOST_SETS, room // (longest + COLUMN_GAP))
    return testsets[: max(1, number)]


def left_out_table(left_out: pl.DataFrame, width: int = WIDTH) -> Table:
    """What was left out, by its reason, the commonest first."""
    groups = left_out.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("what"))
    groups = groups.sort("len", descending=True, maintain_order=True)
    table = Table(title=Text("Left out"), title_justify="left", box=None, pad_edge=False, width=width)
    table.add_column("files", justify="right", no_wrap=True)
    table.add_column("reason and files", overflow="fold")
    for reason, number, files in groups.head(MOST_REASONS).iter_rows():
        logs_first = sorted(files, key=lambda name: not LOOKS_LIKE_LOG.search(name))
        names = ", ".join(logs_first[:MOST_FILES])
        if number > MOST_FILES:
            names += f" and {number - MOST_FILES:,} more"
        table.add_row(f"{number:,}", Text(f"{reason}: {names}"))
    rest = groups.slice(MOST_REASONS)
    if rest.height:
        more = f"{rest.height} other reasons, listed in the frame left_out of breadth.import_logs"
        table.add_row(f"{rest['len'].sum():,}", Text(more))
    return table
