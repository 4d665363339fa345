"""``breadth report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a study.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write. Default: report.html in DIR.")
    ] = None,
    format: Annotated[str | None, typer.Option(metavar="html|md|json", help="Default: by the ending of --out.")] = None,
) -> None:
    """Write everything a study says as one HTML file that needs no network, as Markdown, or as JSON.

    Examples:

    * `breadth report studies/mnli --out report.html`

    * `breadth report studies/mnli --format md`
    """
    from breadth.cli.terminal import say_written
    from breadth.verbs import write_report

    say_written(write_report(directory, out, format))  # type: ignore[arg-type]
