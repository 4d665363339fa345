"""How every result is held and shown: the base class of results, words, terminal tables, figures and their files.

Imports ``records``; every question's package imports this one.
"""

from breadth.questions import Question
from breadth.results.columns import FORMATS as NUMBER_FORMATS
from breadth.results.columns import Column, Columns, Shown
from breadth.results.figures import FORMATS, Control, Figure, as_chart, write_figure
from breadth.results.result import (
    ALMOST_ALL,
    ALMOST_NONE,
    POWER,
    SEEN,
    WORTH_SEEING,
    Result,
    about,
    as_many,
    times_more,
)
from breadth.results.verdict import Answer, State, Verdict

__all__ = [
    "ALMOST_ALL",
    "ALMOST_NONE",
    "FORMATS",
    "NUMBER_FORMATS",
    "POWER",
    "SEEN",
    "WORTH_SEEING",
    "Answer",
    "Column",
    "Columns",
    "Control",
    "Figure",
    "Question",
    "Result",
    "Shown",
    "State",
    "Verdict",
    "about",
    "as_chart",
    "as_many",
    "times_more",
    "write_figure",
]
