"""``breadth report`` and ``breadth view``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import AnswersArgument, Out, ScoreOption, given


def report_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a study.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write. Default: report.html in DIR.")
    ] = None,
    format: Annotated[str | None, typer.Option(help="Default: by the ending of --out.")] = None,
    score: ScoreOption = None,
) -> None:
    """Write all results of a study as one HTML file that needs no network, as Markdown, or as JSON.

    Examples:

    * `breadth report studies/mnli --out report.html`

    * `breadth report studies/mnli --format md`

    * `breadth report studies/mnli --score auc`
    """
    from breadth.cli.terminal import print_line
    from breadth.reporting import report

    print_line(f"wrote {report(directory, **given(out=out, format=format, score=score))}")


def scores_command(answers: AnswersArgument, out: Out = None) -> None:
    """Tell what a model can tell apart from which answer it leans to: accuracy, sensitivity and bias.

    ANSWERS is the directory of a study, or a long table with columns testset, item, correct, label and margin (the
    log-odds of the right answer). The table shows last checkpoints; --out writes all of them.

    Examples:

    * `breadth scores my-study`

    * `breadth scores answers.parquet --out scores.csv`
    """
    from breadth import scores
    from breadth.cli.terminal import check_outputs, console, print_result, print_warnings, write_tables
    from breadth.reporting import changes_table, scores_table

    check_outputs(out, None)
    result = scores(answers)
    print_warnings(result.warnings)
    changes = (changes_table(result.changes, console.width),) if result.changes.height else ()
    print_result(result, scores_table(result.scores, console.width), *changes)
    write_tables(out, result.scores, changes=result.changes, answers=result.answers)


def view_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Directory of a study, or of several studies.", show_default=False)
    ],
    port: Annotated[int | None, typer.Option(metavar="N", help="Port; 0 chooses a free one.")] = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Address to listen on. Any but the default is visible to the network."),
    ] = None,
) -> None:
    """Show the report as a live page that follows a study while it runs in another process. Stop it with Ctrl-C.

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
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
