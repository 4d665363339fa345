"""AlpacaEval: ``annotations.json``, a judgment per instruction.

A judgment has two outputs and the annotator's preference, from 1 (the baseline is better) to 2 (the model is better);
1.5 and, in version 1, 0 are draws; null is a failed judgment. The answer counts as the share of a win, so that the mean
is AlpacaEval's win rate. A ``leaderboard.csv`` beside it states win rates. Item: the instruction's text. A win rate
depends on annotator and baseline, so both are in the test set's name.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, ClassVar

from breadth.errors import InputError
from breadth.sources.columns import Column, Columns, text
from breadth.sources.logs.log import Log, Metric, Options, SkipFile
from breadth.sources.registry import Detection, Part, Source
from breadth.sources.source_files import SourceFile, number, numbered, text_item, words
from breadth.sources.tools.common import column_of, drop_empty

WIN_RATE = Metric("win_rate")

JUDGMENT = Columns(
    Column("instruction", type=text, required=True),
    Column("input", type=words),
    Column("baseline", "generator_1", words, required=True),
    Column("model", "generator_2", words, required=True),
    Column("annotator", type=words, default="unknown"),
    Column("preference", type=number),
    Column("dataset", type=words),
)


class AlpacaEval(Source):
    """Reads annotations of AlpacaEval."""

    name: ClassVar[str] = "alpaca-eval"
    looks_like: ClassVar[str] = "AlpacaEval annotations.json"

    def detect(self, file: SourceFile) -> Detection | None:
        """A list of judgments; lists of outputs only are named as such."""
        if not file.is_list or "instruction" not in file.keys:
            return None
        if {"generator_1", "generator_2", "preference"} <= file.keys:
            return Detection(Part.ANSWERS, "rows have instruction, generator_1, generator_2 and preference")
        if {"output", "generator"} <= file.keys:
            return Detection(Part.ANSWERS, "rows have instruction, output and generator")
        return None

    def read_answers(self, file: SourceFile, options: Options) -> Iterator[Log]:
        """Read a log per model, baseline and annotator."""
        if "preference" not in file.keys:
            raise SkipFile("outputs of a model without judgments; import the annotations.json of AlpacaEval")
        groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for where, row in JUDGMENT.read_rows(file):
            row["win"] = _share_of_win(row["preference"], where)
            groups.setdefault((row["model"], row["baseline"], row["annotator"]), []).append(row)
        if not groups:
            raise SkipFile("no judgments")
        win_rates = _leaderboard(file.path.with_name("leaderboard.csv"))
        for (model, baseline, annotator), rows in groups.items():
            wins = column_of(rows, "win")
            failed = wins.count(None)
            # A leaderboard has a row per model, so it cannot say which of several judges its win rate is of.
            states_this = len(groups) == 1 and model in win_rates
            yield Log(
                path=str(file.path),
                tool=self.name,
                testset=f"alpaca_eval:annotator={annotator},baseline={baseline}",
                model=model,
                items=numbered(text_item(*_instruction(row)) for row in rows),
                values={WIN_RATE: wins},
                texts=_texts_of_rows(rows) if options.texts else {},
                stated={WIN_RATE: win_rates[model]} if states_this else {},
                notes=[f"{failed:,} of {len(wins):,} judgments failed: missing"] if failed else [],
            )


def _share_of_win(preference: float | None, where: str) -> float | None:
    """0 where the baseline was preferred, 1 where the model was; None where the judgment failed."""
    if preference is None:
        return None
    if preference == 0:  # a draw in version 1
        return 0.5
    if not 1 <= preference <= 2:
        raise InputError(f"{where}: preference is {preference:g}; expected 1 to 2, or 0 for a draw")
    return preference - 1


def _instruction(row: dict[str, Any]) -> list[str]:
    """What the model was asked: the instruction, and the text that it is about."""
    if row["input"] is None:
        return [row["instruction"]]
    return [row["instruction"], row["input"]]


def _texts_of_rows(rows: list[dict[str, Any]]) -> dict[str, Any]:
    asked = ["\n\n".join(filter(None, _instruction(row))) for row in rows]
    return drop_empty({"text": asked, "subset": column_of(rows, "dataset")})


def _leaderboard(path: Path) -> dict[str, float]:
    """Win rates by model as a leaderboard states them, in percent; as many digits as it has."""
    win_rates: dict[str, float] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        column = head.index("win_rate")
        for row in rows:
            rate = number(float(Decimal(row[column]) / 100)) if len(row) > column else None
            if rate is not None:
                win_rates[row[0]] = rate
    except (OSError, ValueError, csv.Error, InvalidOperation, OverflowError):
        return {}  # it is not needed, and other tools write files of this name
    return win_rates
