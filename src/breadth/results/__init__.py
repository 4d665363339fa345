"""How every result is held and shown: the base class of results, words, terminal tables, figures and their files.

Imports ``records``; every question's package imports this one.
"""

from breadth.results.figure_files import FORMATS, write_figure
from breadth.results.figures import Control, Figure, as_chart
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
