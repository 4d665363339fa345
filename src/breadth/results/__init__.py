"""How every result is held and shown: the base class of results, words, terminal tables, figures and their files.

Imports ``records``; every question's package imports this one.
"""

from breadth.results.figures import FORMATS, Control, Figure, as_chart, write_figure
from breadth.results.result import Result, latex_table, markdown_table, plain_markdown
from breadth.results.verdict import Answer, Verdict

__all__ = [
    "FORMATS",
    "Answer",
    "Control",
    "Figure",
    "Result",
    "Verdict",
    "as_chart",
    "latex_table",
    "markdown_table",
    "plain_markdown",
    "write_figure",
]
