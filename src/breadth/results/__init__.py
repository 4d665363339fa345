"""How every result is held and shown: the base class of results, words, terminal tables, figures and their files.

Imports ``records``; every question's package imports this one.
"""

from breadth.results.figures import FORMATS, Control, Figure, as_chart, write_figure
from breadth.results.result import Result, latex_table, markdown_table, plain_markdown

__all__ = [
    "FORMATS",
    "Control",
    "Figure",
    "Result",
    "as_chart",
    "latex_table",
    "markdown_table",
    "plain_markdown",
    "write_figure",
]
