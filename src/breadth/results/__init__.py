"""How every result is held and shown: the base class of results, words, terminal tables, figures and their files.

Imports ``records``; every question's package imports this one.
"""

from breadth.results.figure_files import FORMATS, write_figure
from breadth.results.figures import Control, Figure, as_chart
from breadth.results.result import Result
from breadth.results.verdict import (
    ALMOST_ALL,
    ALMOST_NONE,
    POWER,
    SEEN,
    WORTH_SEEING,
    Answer,
    Verdict,
    about,
    times_more,
)

__all__ = [
    "ALMOST_ALL",
    "ALMOST_NONE",
    "FORMATS",
    "POWER",
    "SEEN",
    "WORTH_SEEING",
    "Answer",
    "Control",
    "Figure",
    "Result",
    "Verdict",
    "about",
    "as_chart",
    "times_more",
    "write_figure",
]
