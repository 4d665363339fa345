"""Who answered what, and was it right: the study as measured, its store, tables in and out, trajectories of scores.

``open_study`` is the one way to read answers, ``StudyStore`` the one way to write them. Every other package may import
this one; it imports none of them.
"""

from breadth.errors import InputError
from breadth.records.families import families_in_names, family_codes, family_column, names_family
from breadth.records.files import LOCK, LocalStore, Store, atomic_write, checksum, sealed, unsealed
from breadth.records.formats import read_arrays
from breadth.records.imported import (
    LOGS,
    Imported,
    foreign_files,
    imported_responses,
    imported_study,
    is_imported,
    read_imported,
    write_imported,
)
from breadth.records.item_clusters import item_clusters, obvious_cluster
from breadth.records.model_sizes import size_of_model, size_of_name, size_text
from breadth.records.naming import distinguish_names, name_rows
from breadth.records.readers import UNNAMED, open_study, read_answers
from breadth.records.roles import Role, parse_score, plain, role_of
from breadth.records.schemas import (
    ITEMS,
    RESPONSES,
    SHIFTS,
    SUBJECTS,
    TRAINING,
    check_shift,
    conform,
    shift_hint,
    shift_order,
)
from breadth.records.sensitivity import (
    BIAS,
    BY_LABEL,
    LEAST_CHANGED_LABELS,
    LEAST_LABELS,
    SCORES,
    Measure,
    Score,
    answers_of,
    area_interval,
    item_values,
    may_be_neither,
    score_intervals,
)
from breadth.records.store import RunRecord, RunStore, StudyStore, is_study, set_of_testset
from breadth.records.study import Study
from breadth.records.tables import (
    Table,
    cell_text,
    check_target,
    latex_table,
    markdown_table,
    plain_markdown,
    read_table,
    write_table,
)
from breadth.records.trajectories import Trajectories, open_answers, open_any, settle_trajectories
from breadth.records.understanding import Kind, Understanding, understand
from breadth.records.untrusted import check_nesting, first_line, reading, regular_file
from breadth.records.variants import label_runs, label_variants

__all__ = [
    "BIAS",
    "BY_LABEL",
    "ITEMS",
    "LEAST_CHANGED_LABELS",
    "LEAST_LABELS",
    "LOCK",
    "LOGS",
    "RESPONSES",
    "SCORES",
    "SHIFTS",
    "SUBJECTS",
    "TRAINING",
    "UNNAMED",
    "Imported",
    "InputError",
    "Kind",
    "LocalStore",
    "Measure",
    "Role",
    "RunRecord",
    "RunStore",
    "Score",
    "Store",
    "Study",
    "StudyStore",
    "Table",
    "Trajectories",
    "Understanding",
    "answers_of",
    "area_interval",
    "atomic_write",
    "cell_text",
    "check_nesting",
    "check_shift",
    "check_target",
    "checksum",
    "conform",
    "distinguish_names",
    "families_in_names",
    "family_codes",
    "family_column",
    "first_line",
    "foreign_files",
    "imported_responses",
    "imported_study",
    "is_imported",
    "is_study",
    "item_clusters",
    "item_values",
    "label_runs",
    "label_variants",
    "latex_table",
    "markdown_table",
    "may_be_neither",
    "name_rows",
    "names_family",
    "obvious_cluster",
    "open_answers",
    "open_any",
    "open_study",
    "parse_score",
    "plain",
    "plain_markdown",
    "read_answers",
    "read_arrays",
    "read_imported",
    "read_table",
    "reading",
    "regular_file",
    "role_of",
    "score_intervals",
    "sealed",
    "set_of_testset",
    "settle_trajectories",
    "shift_hint",
    "shift_order",
    "size_of_model",
    "size_of_name",
    "size_text",
    "understand",
    "unsealed",
    "write_imported",
    "write_table",
]
