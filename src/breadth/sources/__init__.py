"""The one door in: everything that is read, read in one way.

Everything above this package may import it; it knows records, results and what is below them. Names are loaded when
first used, so that a process that only reads logs starts fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from breadth.sources.answers import UNNAMED as UNNAMED
    from breadth.sources.checkpoint_scores.importing import TrajectoryImport as TrajectoryImport
    from breadth.sources.checkpoint_scores.importing import import_trajectories as import_trajectories
    from breadth.sources.checkpoint_scores.importing import read_trajectories as read_trajectories
    from breadth.sources.clusters import item_clusters as item_clusters
    from breadth.sources.clusters import obvious_cluster as obvious_cluster
    from breadth.sources.column_roles import NONE as NONE
    from breadth.sources.column_roles import ColumnRoles as ColumnRoles
    from breadth.sources.column_roles import Kind as Kind
    from breadth.sources.column_roles import infer_columns as infer_columns
    from breadth.sources.column_roles import names_in as names_in
    from breadth.sources.exporting import Exported as Exported
    from breadth.sources.exporting import export as export
    from breadth.sources.limits import check_nesting as check_nesting
    from breadth.sources.limits import regular_file as regular_file
    from breadth.sources.logs.importing import import_logs as import_logs
    from breadth.sources.logs.importing import read_logs as read_logs
    from breadth.sources.logs.log import Log as Log
    from breadth.sources.logs.log import Metric as Metric
    from breadth.sources.logs.log import Options as Options
    from breadth.sources.logs.log import SkipFile as SkipFile
    from breadth.sources.logs.summary import Import as Import
    from breadth.sources.model_families import families_in_names as families_in_names
    from breadth.sources.model_families import family_codes as family_codes
    from breadth.sources.model_families import family_column as family_column
    from breadth.sources.model_families import names_family as names_family
    from breadth.sources.model_sizes import size_of_model as size_of_model
    from breadth.sources.model_sizes import size_text as size_text
    from breadth.sources.npz_files import read_arrays as read_arrays
    from breadth.sources.opening import load_scores as load_scores
    from breadth.sources.opening import open_answers as open_answers
    from breadth.sources.opening import open_source as open_source
    from breadth.sources.opening import open_study as open_study
    from breadth.sources.opening import table_ending as table_ending
    from breadth.sources.paths import Paths as Paths
    from breadth.sources.paths import expand_paths as expand_paths
    from breadth.sources.registry import Detection as Detection
    from breadth.sources.registry import Part as Part
    from breadth.sources.registry import Source as Source
    from breadth.sources.registry import all_sources as all_sources
    from breadth.sources.registry import register_source as register_source
    from breadth.sources.registry import unregister_source as unregister_source
    from breadth.sources.score_tables import ScoreTable as ScoreTable
    from breadth.sources.source_files import SourceFile as SourceFile
    from breadth.sources.tables import Table as Table
    from breadth.sources.tables import read_table as read_table
    from breadth.sources.vocabulary import USUAL_ITEMS as USUAL_ITEMS
    from breadth.sources.vocabulary import Role as Role
    from breadth.sources.vocabulary import is_lower_better as is_lower_better
    from breadth.sources.vocabulary import parse_score as parse_score
    from breadth.sources.vocabulary import role_of as role_of
    from breadth.sources.vocabulary_data import plain as plain

#: Where every public name lives.
_HOMES = {
    "answers": "UNNAMED",
    "checkpoint_scores.importing": "TrajectoryImport import_trajectories read_trajectories",
    "clusters": "item_clusters obvious_cluster",
    "column_roles": "ColumnRoles Kind NONE infer_columns names_in",
    "exporting": "Exported export",
    "limits": "check_nesting regular_file",
    "logs.importing": "import_logs read_logs",
    "logs.log": "Log Metric Options SkipFile",
    "logs.summary": "Import",
    "model_families": "families_in_names family_codes family_column names_family",
    "model_sizes": "size_of_model size_text",
    "npz_files": "read_arrays",
    "opening": "load_scores open_answers open_source open_study table_ending",
    "paths": "Paths expand_paths",
    "registry": "Detection Part Source all_sources register_source unregister_source",
    "score_tables": "ScoreTable",
    "source_files": "SourceFile",
    "tables": "Table read_table",
    "vocabulary": "Role USUAL_ITEMS is_lower_better parse_score role_of",
    "vocabulary_data": "plain",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [*_HOME_OF]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"breadth.sources.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'breadth.sources' has no attribute {name!r}")
