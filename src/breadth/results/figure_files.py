"""Figures as files: pictures in the light theme, and a page that follows the reader's theme and width."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from breadth.records import atomic_write, check_target
from breadth.results.figures import CONFIGS, THEMES, Spec, vega_library

#: Endings of figure files.
FORMATS = (".html", ".pdf", ".png", ".svg")


def write_figure(chart: Any, path: str | os.PathLike[str], heading: str, finding: str = "") -> Path:
    """Write an Altair chart; the ending of ``path`` chooses the format. HTML shows the finding above the figure."""
    import vl_convert

    target = check_target(path, FORMATS)
    kind, spec = target.suffix.lower(), chart.to_dict(validate=False)
    figures = spec.pop("usermeta", {}).get("figures")
    if kind == ".html":
        content = _page(spec, figures, heading, finding).encode()
    elif kind == ".svg":
        content = vl_convert.vegalite_to_svg(spec).encode()
    elif kind == ".pdf":
        content = vl_convert.vegalite_to_pdf(spec)
    else:
        content = vl_convert.vegalite_to_png(spec, scale=2)
    atomic_write(target, lambda temporary: temporary.write_bytes(content))
    return target


def _page(spec: Spec, figures: list[Spec] | None, heading: str, finding: str) -> str:
    """Render the page; ``tojson`` escapes every character that could end the script early.

    A chart that was not made of figures is drawn as it is.
    """
    from jinja2 import Environment, PackageLoader

    page = Environment(loader=PackageLoader("breadth.results"), autoescape=True).get_template("figure.html")
    drawn = {
        "figures": figures or [{"title": "", "caption": "", "spec": spec, "panels": 1}],
        "datasets": spec.get("datasets", {}),
        "themes": {name: {"tokens": theme, "config": CONFIGS[name]} for name, theme in THEMES.items()},
    }
    lines = [line for line in finding.splitlines() if line]
    return page.render(page=drawn, themes=THEMES, heading=heading, lines=lines, library=vega_library())
