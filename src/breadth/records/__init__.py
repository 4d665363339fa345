"""The tables breadth works on: schemas, the one way in and out, and trajectories of scores.

Every other room may import this one; it imports none of them.
"""

from breadth.errors import InputError
from breadth.records.responses import Responses, read_answers, read_responses
from breadth.records.schemas import ITEMS, RESPONSES, SHIFTS, SUBJECTS, conform
from breadth.records.store import RunStore, StudyStore, is_study, open_study
from breadth.records.studies import StudyTables, read_study
from breadth.records.study_matrix import StudyMatrix, read_matrix, read_sound
from breadth.records.tables import Table, check_target, read_table, write_table, write_whole
from breadth.records.trajectories import Trajectories, read_trajectories

__all__ = [
    "ITEMS",
    "RESPONSES",
    "SHIFTS",
    "SUBJECTS",
    "InputError",
    "Responses",
    "RunStore",
    "StudyMatrix",
    "StudyStore",
    "StudyTables",
    "Table",
    "Trajectories",
    "check_target",
    "conform",
    "is_study",
    "open_study",
    "read_answers",
    "read_matrix",
    "read_responses",
    "read_sound",
    "read_study",
    "read_table",
    "read_trajectories",
    "write_table",
    "write_whole",
]
