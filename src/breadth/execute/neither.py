"""How often a model's most likely token is none of the answers (``evaluate.predict: vocabulary``)."""

from __future__ import annotations

import polars as pl

from breadth.datasets import NEITHER, Pattern
from breadth.study import RunSpec


def neither_shares(run: RunSpec, answers: pl.DataFrame) -> dict[str, float]:
    """Share of the items with such an answer, by test set, at a checkpoint; empty if only the answers are compared."""
    shares: dict[str, float] = {}
    for (testset,), own in answers.group_by(["testset"], maintain_order=True):
        task = run.tasks[run.set_of(str(testset))]
        if isinstance(task, Pattern) and task.predict == "vocabulary":
            shares[str(testset)] = own.filter(pl.col("answer") == NEITHER).height / own.height
    return shares


def neither_log(shares: dict[str, float]) -> dict[str, dict[str, float]]:
    """The shares as a key of a line in the run's log; none for studies that only compare answers."""
    return {NEITHER: {name: round(share, 6) for name, share in shares.items()}} if shares else {}


def neither_note(run: RunSpec, step: int, shares: dict[str, float]) -> str:
    """What to say at the end of a run; empty before that, or if only the answers are compared."""
    if not shares or step != run.checkpoints()[-1]:
        return ""
    words = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    return f"{run.name}, step {step}: answers that are {NEITHER} (another token is likelier than the answers): {words}"
