"""The verbs of breadth as Python functions: tables in, tidy frames out.

One module per verb. The command line calls these and prints; nothing but ``cli`` imports this room.
"""

from breadth.verbs.calibrate import ability, calibrate, levels
from breadth.verbs.calibration import Calibration
from breadth.verbs.correlate import correlate
from breadth.verbs.correlation import Correlation
from breadth.verbs.cross import Cross, cross
from breadth.verbs.difficulty_vs import difficulty_vs
from breadth.verbs.profile import Profile, profile
from breadth.verbs.report import gather, write_report
from breadth.verbs.run import run
from breadth.verbs.sample import Sample, sample
from breadth.verbs.view import view

__all__ = [
    "Calibration",
    "Correlation",
    "Cross",
    "Profile",
    "Sample",
    "ability",
    "calibrate",
    "correlate",
    "cross",
    "difficulty_vs",
    "gather",
    "levels",
    "profile",
    "run",
    "sample",
    "view",
    "write_report",
]
