"""``run``: carry out a study."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from breadth.study import StudyFile, read_study_file

if TYPE_CHECKING:
    from breadth.execute.study import Outcome
    from breadth.execute.watching import Watcher


def run(
    study: str | os.PathLike[str] | StudyFile,
    into: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    shard: str | None = None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Do what is left of a study; the same call again goes on where it stopped.

    Parameters
    ----------
    study
        A study file, or the name of one that comes with breadth (``"small"``).
    into
        Directory of the study; by default one named after it.
    data
        Directory with files of registered data sets, such as ``mnli.parquet``; otherwise BREADTH_DATA, then the Hub.
    shard
        ``"3/16"`` does every 16th run from the third on, so that machines can share a study.
    watcher
        Is told what happens.
    """
    from breadth.lm.extra import require_lm

    require_lm("torch", "transformers", "peft", "accelerate")
    from breadth.execute.study import run_study

    file = study if isinstance(study, StudyFile) else read_study_file(study)
    folder = Path(into) if into is not None else Path(file.name)
    return run_study(file, folder, data=None if data is None else Path(data), shard=shard, watcher=watcher)
