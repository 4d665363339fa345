"""Write a chart as an HTML page that needs no network, or as PNG or SVG."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from breadth.records import atomic_write, check_target

FORMATS = (".html", ".png", ".svg")


def write_figure(chart: Any, path: str | os.PathLike[str], heading: str, finding: str = "") -> Path:
    """Write an Altair chart; the ending of ``path`` chooses the format. HTML shows the finding above the figure."""
    import vl_convert

    target = check_target(path, FORMATS)
    kind = target.suffix.lower()

    spec = chart.to_dict()
    if kind == ".html":
        content = _page(spec, heading, finding).encode()
    elif kind == ".svg":
        content = vl_convert.vegalite_to_svg(spec).encode()
    else:
        content = vl_convert.vegalite_to_png(spec, scale=2)
    atomic_write(target, lambda temporary: temporary.write_bytes(content))
    return target


def _page(spec: dict[str, Any], heading: str, finding: str) -> str:
    """Render the page; ``tojson`` escapes every character that could end the script early."""
    import vl_convert
    from jinja2 import Environment, PackageLoader

    templates = Environment(loader=PackageLoader("breadth.results"), autoescape=True)
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return templates.get_template("figure.html").render(spec=spec, heading=heading, finding=finding, library=library)
