"""Tables for readers, as Markdown and LaTeX: three decimals, and text that is shown as it is."""

from __future__ import annotations

from typing import Any

import polars as pl


def cell_text(value: Any) -> str:
    """A cell for readers: three decimals, or three digits for very small and large numbers; empty for null."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 or value == 0 else f"{value:.3g}"


def plain_markdown(text: str) -> str:
    """Text that Markdown, and the HTML made of it, show as it is."""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "\\`*_[]|":
        escaped = escaped.replace(mark, f"\\{mark}")
    return escaped.replace("\n", " ")


def markdown_table(frame: pl.DataFrame) -> str:
    """A frame as a Markdown table."""
    lines = ["| " + " | ".join(map(plain_markdown, frame.columns)) + " |", "|" + "---|" * frame.width]
    lines += ["| " + " | ".join(plain_markdown(cell_text(cell)) for cell in row) + " |" for row in frame.iter_rows()]
    return "\n".join(lines)


def latex_table(frame: pl.DataFrame) -> str:
    """A frame as a LaTeX tabular; numbers are aligned right."""
    columns = "".join("r" if dtype.is_numeric() else "l" for dtype in frame.dtypes)
    rows = [" & ".join(_latex(cell_text(cell)) for cell in row) + r" \\" for row in frame.iter_rows()]
    head = " & ".join(map(_latex, frame.columns)) + r" \\"
    return "\n".join(
        [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


def _latex(text: str) -> str:
    special = {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
    special |= {mark: f"\\{mark}" for mark in "&%$#_{}"}
    return "".join(special.get(letter, letter) for letter in text)
