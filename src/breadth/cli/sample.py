"""``breadth sample``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from breadth.cli.outputs import check_outputs, write_tables

HELP = """Choose training data by difficulty: which items, and in which order.

ITEMS is a table with a column item or id (and a calibration), or with a column of difficulties of its own.

Strategies: easy, middle, hard (a third each), full (whole range), centred (around the middle), spiral (whole range,
rises and comes back to easy items), curriculum (easy to hard), anti-curriculum (hard to easy).

Examples:

* `breadth sample questions.parquet --calibration calibration.parquet --strategy spiral --n 2000 --out train.jsonl`

* `breadth sample mnli.parquet --ease n_correct_of_100_berts --strategy centred --n 500 --describe`
"""


def sample_command(
    items: Annotated[Path, typer.Argument(metavar="ITEMS", help="Table of items.", show_default=False)],
    calibration: Annotated[Path | None, typer.Option(metavar="FILE", help="Where difficulties come from.")] = None,
    strategy: Annotated[
        Literal["easy", "hard", "middle", "full", "centred", "spiral", "curriculum", "anti-curriculum"],
        typer.Option(help="Which items, and when."),
    ] = "full",
    n: Annotated[int | None, typer.Option("--n", metavar="N", help="How many. Default: all it can draw.")] = None,
    order: Annotated[
        Literal["shuffled", "rising", "falling", "spiral"] | None, typer.Option(help="Instead of the strategy's order.")
    ] = None,
    difficulty: Annotated[str, typer.Option(metavar="COLUMN", help="Difficulties, if no calibration.")] = "difficulty",
    ease: Annotated[str | None, typer.Option(metavar="COLUMN", help="A column in which higher is easier.")] = None,
    describe: Annotated[bool, typer.Option("--describe", help="Show difficulties before and after.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the draw and of the order.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the items (jsonl, csv, parquet).")] = None,
) -> None:
    from breadth.cli.terminal import console, say_warnings
    from breadth.report.difficulty_tables import histogram_table
    from breadth.verbs import sample

    check_outputs(out)
    found = sample(items, calibration, strategy, n, order, difficulty, ease, seed)
    say_warnings(found.warnings)
    if describe or out is None:
        console.print(histogram_table(found.histogram, console.width))
    console.print(f"{found.items.height:,} items drawn by strategy {strategy}", highlight=False)
    write_tables(out, found.items)


sample_command.__doc__ = HELP
