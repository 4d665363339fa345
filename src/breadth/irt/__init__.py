"""Item response theory: how hard each item is, how able each subject, and whether the model holds.

``models`` has the registry of models and the defaults. The numeric core takes and returns arrays; ``fitting`` and
``calibration`` turn its results into tidy tables, ``flags`` says what is wrong with them, ``words`` and ``figure`` show
them. Imports ``records`` and ``results``.
"""

from breadth.irt.abilities import Abilities, score
from breadth.irt.answers import Answers
from breadth.irt.calibration import Calibration, numbers
from breadth.irt.diagnostics import (
    Dimension,
    FitDiagnostics,
    Misfit,
    Patterns,
    distinct_patterns,
    fit_statistics,
    point_biserial,
    residual_dimension,
)
from breadth.irt.difficulty_levels import (
    ABOUT_EQUAL,
    PARTS,
    Levels,
    LevelStability,
    assign_levels,
    cut_levels,
    level_name,
    level_stability,
)
from breadth.irt.figure import (
    SCALE_MAP_FIGURE,
    accuracy_by_level,
    accuracy_by_level_figure,
    evenly,
    item_curves_figure,
    scale_map,
    scale_map_reason,
)
from breadth.irt.fitting import ability, calibrate, levels
from breadth.irt.flags import ItemFlag, SubjectFlag, doubted_items
from breadth.irt.floor import FloorCheck, check_floor
from breadth.irt.models import DEFAULT_LEVELS, DEFAULT_MODEL, MODELS, Copies, Method, Model
from breadth.irt.parameters import Anchors, ItemEstimates, Parameters, Priors
from breadth.irt.scale_results import DifficultyLevels, LevelAgreement, ModelAbilities
from breadth.irt.words import calibration_verdict

__all__ = [
    "ABOUT_EQUAL",
    "DEFAULT_LEVELS",
    "DEFAULT_MODEL",
    "MODELS",
    "PARTS",
    "SCALE_MAP_FIGURE",
    "Abilities",
    "Anchors",
    "Answers",
    "Calibration",
    "Copies",
    "DifficultyLevels",
    "Dimension",
    "FitDiagnostics",
    "FloorCheck",
    "ItemEstimates",
    "ItemFlag",
    "LevelAgreement",
    "LevelStability",
    "Levels",
    "Method",
    "Misfit",
    "Model",
    "ModelAbilities",
    "Parameters",
    "Patterns",
    "Priors",
    "SubjectFlag",
    "ability",
    "accuracy_by_level",
    "accuracy_by_level_figure",
    "assign_levels",
    "calibrate",
    "calibration_verdict",
    "check_floor",
    "cut_levels",
    "distinct_patterns",
    "doubted_items",
    "evenly",
    "fit_statistics",
    "item_curves_figure",
    "level_name",
    "level_stability",
    "levels",
    "numbers",
    "point_biserial",
    "residual_dimension",
    "scale_map",
    "scale_map_reason",
    "score",
]  # fmt: skip
