"""``breadth report`` and ``breadth view``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breadth.cli.options import given


def report_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a study.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write. Default: report.html in DIR.")
    ] = None,
    format: Annotated[str | None, typer.Option(help="Default: by the ending of --out.")] = None,
) -> None:
    """Write all results of a study as one HTML file that needs no network, as Markdown, or as JSON.

    Examples:

    * `breadth report studies/mnli --out report.html`

    * `breadth report studies/mnli --format md`
    """
    from breadth import report
    from breadth.cli.terminal import print_line

    print_line(f"wrote {report(directory, **given(out=out, format=format))}")


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
