"""The study file: its schema, its checks (all problems at once, with line numbers), and the runs it describes.

``read`` reads a file and ``expansion`` turns it into runs; ``template`` writes one to start from, ``overview``
describes one. ``files/`` holds the studies that come with breadth.
"""

from breadth.study.checks import study_problems, study_warnings
from breadth.study.document import Problem, differences, read_document, resolved_study, resolved_yaml
from breadth.study.expansion import (
    EVALUATE,
    RunSpec,
    checkpoints,
    expand,
    start_key,
    step0_key,
    total_steps,
    training_testset,
)
from breadth.study.mixture import share_out
from breadth.study.overview import (
    Shown,
    Summary,
    describe_studies,
    expected_items,
    run_rows,
    show_study,
    summarise_study,
)
from breadth.study.own_sets import KnownSet, OwnSet, is_set_name, resolve_task
from breadth.study.read import StudyFile, parse_study, read_study_file, shipped_studies
from breadth.study.schema import Evaluate, ModelEntry, Recipe, StudySpec, Train, name_of_checkpoints
from breadth.study.sections import plain_problems
from breadth.study.template import init_study, key_tables

__all__ = [
    "EVALUATE",
    "Evaluate",
    "KnownSet",
    "ModelEntry",
    "OwnSet",
    "Problem",
    "Recipe",
    "RunSpec",
    "Shown",
    "StudyFile",
    "StudySpec",
    "Summary",
    "Train",
    "checkpoints",
    "describe_studies",
    "differences",
    "expand",
    "expected_items",
    "init_study",
    "is_set_name",
    "key_tables",
    "name_of_checkpoints",
    "parse_study",
    "plain_problems",
    "read_document",
    "read_study_file",
    "resolve_task",
    "resolved_study",
    "resolved_yaml",
    "run_rows",
    "share_out",
    "shipped_studies",
    "show_study",
    "start_key",
    "step0_key",
    "study_problems",
    "study_warnings",
    "summarise_study",
    "total_steps",
    "training_testset",
]
