"""``breadth report`` and ``breadth view``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import AnswersArgument, ExcelSafe, Out, ScoreOption, given


def report_command(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A study, logs, checkpoints, or a table of scores or answers.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write. Default: report.html, in the study if it is one."),
    ] = None,
    format: Annotated[str | None, typer.Option(help="Default: by the ending of --out.")] = None,
    score: ScoreOption = None,
    control: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="In-domain column of a table of scores.")
    ] = None,
    by: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column that tells runs or models apart.")] = None,
    order: Annotated[str | None, typer.Option(metavar="COLUMN", help="Column that orders checkpoints.")] = None,
    testsets: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Columns that are test sets; wildcards allowed.")
    ] = None,
) -> None:
    """Report on whatever you have, as one HTML file that needs no network, as Markdown, or as JSON.

    PATH is the directory of a study or an import, logs of other tools, checkpoints with their scores, a table of
    scores or answers, a matrix, or a saved calibration. `breadth PATH` does the same.

    Examples:

    * `breadth report studies/mnli`

    * `breadth report scores.csv --control mnli --out report.html`

    * `breadth report logs/ --format md`
    """
    from breadth.cli.terminal import print_line, print_verdict, print_warnings
    from breadth.reporting import understood, written_report

    options = given(out=out, format=format, score=score, by=by, order=order, control=control, testsets=testsets)
    target, data = written_report(source, **options)
    print_warnings(data.warnings, notes=understood(data.source))
    shown = {content.lines: section.title for section, content in reversed(data.contents.items()) if section.headline}
    for lines, title in reversed(shown.items()):  # a verdict that two sections share is printed once
        print_verdict(lines, title)
    print_line(f"wrote {target}")


def scores_command(answers: AnswersArgument, out: Out = None, excel_safe: ExcelSafe = False) -> None:
    """Separate sensitivity (what a model can tell apart) from bias (which answer it favours).

    ANSWERS is the directory of a study, or a long table with columns testset, item, correct, label and margin (the
    log-odds of the right answer). The table shows last checkpoints; --out writes all of them.

    Examples:

    * `breadth scores my-study`

    * `breadth scores answers.parquet --out scores.csv`
    """
    from breadth import scores
    from breadth.cli.terminal import check_outputs, console, exit_if_empty, print_result, print_warnings, write_tables
    from breadth.reporting import changes_table, scores_table

    check_outputs(out, None)
    result = scores(answers)
    print_warnings(result.warnings)
    changes = (changes_table(result.changes, console.width),) if result.changes.height else ()
    print_result(result, scores_table(result.scores, console.width), *changes)
    write_tables(out, result.scores, excel_safe, changes=result.changes, answers=result.answers)
    exit_if_empty(result)


def view_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of a study, or of several studies.", show_default=False)
    ],
    port: Annotated[int | None, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 chooses a free one.")] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address to listen on. Any but the default is visible to the network."),
    ] = None,
) -> None:
    """Show the report as a live page that follows a study while it runs in another process. Stop it with Ctrl-C.

    The directory need not exist yet: the page waits until the study starts.

    Example: `breadth view studies --port 8765`
    """
    from ipaddress import ip_address

    from breadth import view
    from breadth.cli.terminal import print_line, print_warnings

    server = view(directory, **given(host=host, port=port))
    address, number = str(server.server_address[0]), server.server_address[1]
    if not ip_address(address).is_loopback:
        print_warnings([f"anyone who can reach {address} can read these pages"])
    print_line(f"http://{host or address}:{number}")
    waiting = server.site.waiting()
    if waiting:
        print_line(f"Waiting: {waiting}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
