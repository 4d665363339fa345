"""What the model leaves unexplained, cell by cell, a block of subjects at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from breadth.errors import InputError
from breadth.irt.answers import Answers, Floats

#: Cells per block, small enough for the half dozen tables of a block to stay in the processor's cache.
BLOCK_CELLS = 100_000

#: Expected chances are kept this far from 0 and 1, so that one wild answer counts at most a million.
SURE = 1e-6


class Known(NamedTuple):
    """Item parameters and abilities taken as known: arrays [J] and [N]. NaN leaves an item or subject out."""

    difficulty: Floats
    discrimination: Floats
    guessing: Floats
    ability: Floats


class Block(NamedTuple):
    """Rows of the matrix, in single precision: mask, answers less expectation (0 where unseen), expected variance."""

    rows: slice
    seen: NDArray[np.float32] | None
    residual: NDArray[np.float32]
    variance: NDArray[np.float32]


def known(
    answers: Answers, difficulty: Floats, discrimination: Floats, ability: Floats, guessing: Floats | None
) -> Known:
    """Check the lengths of what is taken as known."""
    chance = np.zeros(answers.n_items) if guessing is None else guessing
    for name, array, length in (
        ("difficulty", difficulty, answers.n_items),
        ("discrimination", discrimination, answers.n_items),
        ("guessing", chance, answers.n_items),
        ("ability", ability, answers.n_subjects),
    ):
        if array.shape != (length,):
            raise InputError(f"There should be {length} values of {name}, not {array.size}.")
    return Known(difficulty, discrimination, chance, ability)


def residual_blocks(answers: Answers, given: Known) -> Iterator[Block]:
    """Walk over the residuals; items or subjects that have no finite parameters count as not seen."""
    items = np.isfinite(given.difficulty) & np.isfinite(given.discrimination) & np.isfinite(given.guessing)
    subjects = np.isfinite(given.ability)
    slope = np.where(items, given.discrimination, 0).astype(np.float32)
    intercept = np.where(items, -given.discrimination * np.where(items, given.difficulty, 0), 0).astype(np.float32)
    guessing = np.where(items, given.guessing, 0).astype(np.float32)
    chance = bool((guessing > 0).any())
    theta = np.where(subjects, given.ability, 0).astype(np.float32)
    masked = answers.seen is not None or not items.all() or not subjects.all()
    step = max(1, BLOCK_CELLS // answers.n_items)
    for start in range(0, answers.n_subjects, step):
        rows = slice(start, min(start + step, answers.n_subjects))
        expected: NDArray[Any] = theta[rows, None] * slope
        expected += intercept
        np.negative(expected, out=expected)
        np.clip(expected, -80, 80, out=expected)
        np.exp(expected, out=expected)
        expected += 1
        np.reciprocal(expected, out=expected)
        if chance:
            expected = guessing + (1 - guessing) * expected
        np.clip(expected, SURE, 1 - SURE, out=expected)
        residual = answers.right[rows] - expected
        expected -= expected * expected
        seen = None
        if masked:
            seen = np.ones_like(expected) if answers.seen is None else answers.seen[rows].astype(np.float32)
            seen *= items
            seen *= subjects[rows, None]
            residual *= seen
        yield Block(rows, seen, residual, expected)
