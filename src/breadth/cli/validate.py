"""``breadth validate``."""

from __future__ import annotations

from typing import Annotated

import typer


def validate_command(
    study: Annotated[
        str,
        typer.Argument(metavar="STUDY", help="A study file, or a study that comes with breadth.", show_default=False),
    ],
) -> None:
    """Check a study file: all of its problems at once, each with its line, or what it would run.

    Nothing is trained, evaluated or fetched. Exit code 2 if there is a problem.

    Examples:

    * `breadth validate small`

    * `breadth validate my-study.yaml`
    """
    from rich.text import Text

    from breadth.cli.terminal import console, say_warnings
    from breadth.report.terminal import MOST_ROWS, make_table
    from breadth.study import read_study_file
    from breadth.study.summary import summarise

    file = read_study_file(study)
    say_warnings(file.warnings)
    found = summarise(file)
    title = f"Study {file.name}" + (f": the first {MOST_ROWS} rows" if len(found.rows) > MOST_ROWS else "")
    table = make_table(title, ["model", "train set"], ["runs", "steps", "checkpoints"], console.width)
    for row in found.rows[:MOST_ROWS]:
        table.add_row(*map(Text, row))
    console.print(table)
    console.print(found.text, markup=False, highlight=False)
