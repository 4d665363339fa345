"""What an import gave, in words and tables: subjects by test sets, how each test set is scored, what was left out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from breadth.importers.assembly import Assembly
from breadth.importers.collecting import Collected
from breadth.records import Study, imported_study
from breadth.results import Result
from breadth.results.terminal import MOST_ROWS, WIDTH, make_table, number_text
from breadth.results.words import count, joined

#: Most test sets that the table of subjects shows as columns, characters of their names, and of subjects' names that
#: must find room beside them.
MOST_SETS = 6
SET_WIDTH = 14
NAME_WIDTH = 28


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
            "testsets": self.testsets, "subjects": self.subjects, "logs": self.logs, "left_out": self.left_out,
        }  # fmt: skip

    def details(self) -> str:
        """How many subjects, test sets and answers there are, from which tools, and what was left out."""
        logs = self.logs.group_by("tool", maintain_order=True).len().iter_rows()
        tools = [f"{count(number, 'log')} of {tool}" for tool, number in logs]
        text = (
            f"{count(self.study.subjects.height, 'subject')} and {count(self.testsets.height, 'test set')} with "
            f"{count(self.study.items.height, 'item')} and {count(int(self.testsets['answers'].sum()), 'answer')}, "
            f"from {joined(tools)}."
        )
        apart = self.testsets.filter((pl.col("subjects") > 1) & (pl.col("shared") < pl.col("items")))
        if apart.height:
            rows = apart.select("testset", "shared", "items").iter_rows()
            shares = [f"{name} {shared:,} of {items:,}" for name, shared, items in rows]
            text += f" Items that all subjects of a test set answered: {joined(shares)}; all items of the others."
        stated = self.logs.filter(pl.col("stated").is_not_null())
        if stated.height:
            text += f" Compared with the answers: the means in {count(stated.height, 'log')}."
        if self.known:
            text += f" {count(self.known, 'file')} had been imported before."
        if self.left_out.height:
            text += f" Left out: {count(self.left_out.height, 'file or test set', 'files or test sets')}."
        return text


def summarise(where: str, collected: Collected, assembly: Assembly, folder: Path | None, *, changed: bool) -> Import:
    """What collecting and assembling logs gave, with the study that they are."""
    imported = assembly.imported
    study = imported_study(imported, where if folder is None else str(folder), folder, assembly.notes)
    testsets: list[dict[str, Any]] = []
    for k, testset in enumerate(study.testsets):
        choice, columns = assembly.choices[testset], study.set_index == k
        answered = study.answered[:, columns]
        asked = answered.any(axis=1)
        testsets.append(
            {
                "testset": testset, "metric": choice.metric.name, "variant": choice.metric.variant,
                "subjects": int(asked.sum()), "items": int(columns.sum()),
                "shared": int(answered[asked].all(axis=0).sum()), "answers": int(answered.sum()),
                "reason": choice.reason,
            }
        )  # fmt: skip
    margins = imported.responses.group_by("log").agg(margins=pl.col("margin").count())
    logs = imported.logs.with_row_index("log").join(margins, on="log", how="left", maintain_order="left")
    total = pl.col("answered").sum()
    subjects = logs.group_by("subject", "testset", maintain_order=True).agg(
        answers=total, mean=(pl.col("mean") * pl.col("answered")).sum() / total, margins=pl.col("margins").sum()
    )
    left_out = collected.left_out | assembly.left_out
    return Import(
        study,
        pl.DataFrame(testsets),
        subjects,
        imported.logs,
        pl.DataFrame(
            {"what": list(left_out), "reason": list(left_out.values())}, schema={"what": pl.String, "reason": pl.String}
        ),
        known=sum(not read.logs and not read.left_out for read in collected.read),
        changed=changed,
        warnings=study.warnings,
    )


def scoring_table(testsets: pl.DataFrame, width: int = WIDTH) -> Table:
    """By what every test set is scored, and how many items its subjects share."""
    more = f": the first {MOST_ROWS} of {testsets.height:,}" if testsets.height > MOST_ROWS else ""
    names, counts = ["test set", "metric"], ["subjects", "items", "shared"]
    table = make_table(f"Test sets{more}", names, counts, width, in_file=False)
    for row in testsets.head(MOST_ROWS).iter_rows(named=True):
        numbers = (f"{row[name]:,}" for name in counts)
        table.add_row(Text(row["testset"]), Text(_metric(row)), *numbers)
    return table


def scoring_words(testsets: pl.DataFrame) -> list[str]:
    """Why test sets are scored by their metrics, a sentence per reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in testsets.iter_rows(named=True):
        reasons.setdefault((_metric(row), row["reason"]), []).append(row["testset"])
    return [f"{metric}: {reason} ({joined(names, 4)})." for (metric, reason), names in reasons.items()]


def _metric(row: Mapping[str, str]) -> str:
    return f"{row['metric']} ({row['variant']})" if row["variant"] else row["metric"]


def subjects_table(subjects: pl.DataFrame, width: int = WIDTH) -> Table:
    """Means of subjects on the first test sets, with the number of their answers."""
    names = subjects["testset"].unique(maintain_order=True).to_list()
    people = subjects["subject"].unique(maintain_order=True).to_list()
    columns = [name[:SET_WIDTH] for name in names[:MOST_SETS]]
    while len(columns) > 1 and NAME_WIDTH + len("answers") + sum(len(name) + 3 for name in columns) + 5 > width:
        columns.pop()
    shown = names[: len(columns)]
    more = [f"the first {MOST_ROWS} of {len(people):,}"] * (len(people) > MOST_ROWS)
    more += [f"{len(shown)} of {len(names)} test sets"] * (len(names) > len(shown))
    title = "Mean score of every subject" + (f" ({', '.join(more)})" if more else "")
    table = make_table(title, ["subject"], ["answers", *columns], width, least=["answers"], in_file=False)
    means = {(row["subject"], row["testset"]): row["mean"] for row in subjects.iter_rows(named=True)}
    answers = dict(subjects.group_by("subject").agg(pl.col("answers").sum()).iter_rows())
    for subject in people[:MOST_ROWS]:
        cells = (number_text(means.get((subject, name)), 3) for name in shown)
        table.add_row(Text(subject), f"{answers[subject]:,}", *cells)
    return table


def left_out_table(left_out: pl.DataFrame, width: int = WIDTH) -> Table:
    """What was left out, by its reason, the commonest first."""
    groups = left_out.group_by("reason", maintain_order=True).agg(pl.len(), pl.col("what"))
    groups = groups.sort("len", descending=True, maintain_order=True)
    table = Table(title=Text("Left out"), title_justify="left", box=None, pad_edge=False, width=width)
    table.add_column("files", justify="right", no_wrap=True)
    table.add_column("reason and files", overflow="fold")
    for reason, number, files in groups.head(MOST_REASONS).iter_rows():
        logs_first = sorted(files, key=lambda name: not LOOKS_LIKE_LOG.search(name))
        more = f" and {number - MOST_FILES:,} more" if number > MOST_FILES else ""
        table.add_row(f"{number:,}", Text(f"{reason}: {', '.join(logs_first[:MOST_FILES])}{more}"))
    if groups.height > MOST_REASONS:
        rest = groups.slice(MOST_REASONS)
        more = f"{rest.height} other reasons, listed in the frame left_out of breadth.import_logs"
        table.add_row(f"{rest['len'].sum():,}", Text(more))
    return table
