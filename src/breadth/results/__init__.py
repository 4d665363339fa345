"""How every result is held and shown: the base class of results, words, terminal tables, figures and their files.

Imports ``records``; every question's package imports this one.
"""

from breadth.results.figures import FORMATS, Control, Figure, as_chart, write_figure
from breadth.results.result import (
    ALMOST_ALL,
    ALMOST_NONE,
    POWER,
    SEEN,
    WORTH_SEEING,
    Answer,
    Result,
    Verdict,
    about,
    as_many,
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
    "as_many",
    "times_more",
    "write_figure",
]
