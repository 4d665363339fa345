"""``view``: the report of a study (or of several) as pages that follow it while it runs."""

from __future__ import annotations

import os
from http.server import ThreadingHTTPServer
from pathlib import Path

from breadth.errors import InputError
from breadth.report.live import make_server
from breadth.verbs.report import gather


def view(directory: str | os.PathLike[str], host: str = "127.0.0.1", port: int = 8765) -> ThreadingHTTPServer:
    """A server of live pages for the study or the studies in ``directory``; call its ``serve_forever``."""
    folder = Path(directory)
    if not folder.is_dir():
        raise InputError(f"{folder}: is not a directory; name a study's directory, or one that holds several")
    return make_server(folder, gather, host, port)
