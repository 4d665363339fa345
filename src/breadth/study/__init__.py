"""The study file: its schema, its checks (all problems at once, with line numbers), and the runs it stands for.

``read`` brings a file in, ``expansion`` makes runs of it, ``compare`` says what changed; ``files/`` holds the studies
that come with breadth.
"""

from breadth.study.compare import differences, resolved_study, resolved_yaml
from breadth.study.expansion import RunSpec, checkpoints, expand, start_key, total_steps
from breadth.study.read import StudyFile, parse_study, read_study_file
from breadth.study.schema import Evaluate, Recipe, Study
from breadth.study.shipped import describe_studies, shipped_studies

__all__ = [
    "Evaluate",
    "Recipe",
    "RunSpec",
    "Study",
    "StudyFile",
    "checkpoints",
    "describe_studies",
    "differences",
    "expand",
    "parse_study",
    "read_study_file",
    "resolved_study",
    "resolved_yaml",
    "shipped_studies",
    "start_key",
    "total_steps",
]
