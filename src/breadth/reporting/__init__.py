"""Reports: sections in a registry, one page for all of them, and a live page that follows a study while it runs.

A section takes its tables, words and figures from the package of its question; this package adds accuracies and items,
and makes the pages. Only ``cli`` imports it.
"""

from breadth.reporting.accuracy import Follows, GainFlag
from breadth.reporting.cards import answer_cards
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.reporting.live import LOCAL, view
from breadth.reporting.scoring import Scores, scores
from breadth.reporting.sections import (
    SECTIONS,
    Format,
    build_report,
    register_section,
    report,
    unregister_section,
    written_report,
)
from breadth.reporting.sources import read_as, read_source

__all__ = [
    "LOCAL",
    "SECTIONS",
    "Follows",
    "Format",
    "GainFlag",
    "ReportData",
    "Scores",
    "Section",
    "SectionContent",
    "answer_cards",
    "build_report",
    "read_as",
    "read_source",
    "register_section",
    "report",
    "scores",
    "unregister_section",
    "view",
    "written_report",
]
