"""What did other tools record? A class per log format, in a registry; what they hold becomes a study.

Everything may import this package but ``records`` and what is below it. Names are loaded when first used, so that a
process that only reads logs starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from breadth.importers.exporting import Exported as Exported
    from breadth.importers.exporting import export as export
    from breadth.importers.importing import import_logs as import_logs
    from breadth.importers.importing import read_logs as read_logs
    from breadth.importers.logs import Importer as Importer
    from breadth.importers.logs import LeftOut as LeftOut
    from breadth.importers.logs import Log as Log
    from breadth.importers.logs import Metric as Metric
    from breadth.importers.logs import Options as Options
    from breadth.importers.logs import Part as Part
    from breadth.importers.logs import importers as importers
    from breadth.importers.logs import register_importer as register_importer
    from breadth.importers.logs import unregister_importer as unregister_importer
    from breadth.importers.reading import LogFile as LogFile
    from breadth.importers.summary import Import as Import
    from breadth.importers.summary import left_out_table as left_out_table
    from breadth.importers.summary import scoring_table as scoring_table
    from breadth.importers.summary import scoring_words as scoring_words
    from breadth.importers.summary import subjects_table as subjects_table
    from breadth.importers.trajectories import TrajectoryImport as TrajectoryImport
    from breadth.importers.trajectories import import_trajectories as import_trajectories
    from breadth.importers.trajectories import read_trajectories as read_trajectories

#: Where every public name lives.
_HOMES = {
    "exporting": ("Exported", "export"),
    "importing": ("import_logs", "read_logs"),
    "logs": (
        "Importer",
        "LeftOut",
        "Log",
        "Metric",
        "Options",
        "Part",
        "importers",
        "register_importer",
        "unregister_importer",
    ),
    "reading": ("LogFile",),
    "summary": ("Import", "left_out_table", "scoring_table", "scoring_words", "subjects_table"),
    "trajectories": ("TrajectoryImport", "import_trajectories", "read_trajectories"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [*_HOME_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"breadth.importers.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'breadth.importers' has no attribute {name!r}")
