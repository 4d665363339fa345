"""``breadth view``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def view_command(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A study's directory, or one that holds several.", show_default=False)
    ],
    port: Annotated[int, typer.Option(metavar="N", help="Port; 0 chooses a free one.")] = 8765,
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to listen on. Others than this machine's show to the network."),
    ] = "127.0.0.1",
) -> None:
    """Show the report as a live page that follows a study while it runs in another process. Ctrl-C ends it.

    Example: `breadth view studies --port 8765`
    """
    from breadth.cli.terminal import console, say_warnings
    from breadth.report.live import LOCAL
    from breadth.verbs import view

    server = view(directory, host, port)
    if host not in LOCAL:
        say_warnings([f"anyone who can reach {host} can read these pages"])
    console.print(f"http://{host}:{server.server_address[1]}", highlight=False, soft_wrap=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
