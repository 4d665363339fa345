"""Who answered what, and was it right: the study as measured, its store, tables in and out, trajectories of scores.

``open_study`` is the one way to read answers, ``StudyStore`` the one way to write them. Every other package may import
this one; it imports none of them.
"""

from breadth.errors import InputError
from breadth.records.files import LocalStore, Store, atomic_write, checksum
from breadth.records.importers import Importer, open_study, read_answers, register_importer, unregister_importer
from breadth.records.runs import RunRecord
from breadth.records.schemas import ITEMS, RESPONSES, SHIFTS, SUBJECTS, Shift, conform
from breadth.records.sensitivity import BIAS, SCORES, Measure, Score, answers_of, item_values, score_intervals
from breadth.records.store import RunStore, StudyStore, is_study
from breadth.records.study import Study
from breadth.records.tables import Table, check_target, read_table, write_table
from breadth.records.trajectories import Trajectories, read_trajectories

__all__ = [
    "BIAS",
    "ITEMS",
    "RESPONSES",
    "SCORES",
    "SHIFTS",
    "SUBJECTS",
    "Importer",
    "InputError",
    "LocalStore",
    "Measure",
    "RunRecord",
    "RunStore",
    "Score",
    "Shift",
    "Store",
    "Study",
    "StudyStore",
    "Table",
    "Trajectories",
    "answers_of",
    "atomic_write",
    "check_target",
    "checksum",
    "conform",
    "is_study",
    "item_values",
    "open_study",
    "read_answers",
    "read_table",
    "read_trajectories",
    "register_importer",
    "score_intervals",
    "unregister_importer",
    "write_table",
]
