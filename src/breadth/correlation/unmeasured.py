"""Which pairs of test sets were never measured together, and what their correlation would be, if that can be known.

Three guesses are tried on pairs that were measured, each hidden in turn: the mean of all pairs; what each test set is
like and whether both are of one kind of shift; and what the other test sets imply that were measured with both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from scipy import special

from breadth.correlation.moderators import collect_evidence, run_effects
from breadth.correlation.panel import Floats, Ints
from breadth.correlation.partial import Flag
from breadth.inference import LEVEL
from breadth.results.words import count

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation

#: Columns of the frame of unmeasured pairs.
UNMEASURED_SCHEMA = {
    "a": pl.String, "b": pl.String, "r_predicted": pl.Float64, "ci_low": pl.Float64, "ci_high": pl.Float64,
    "basis": pl.String, "error": pl.Float64, "error_of_mean": pl.Float64,
}  # fmt: skip

#: Fewest measured pairs, and test sets, from which something is predicted.
FEWEST_PAIRS, FEWEST_SETS = 6, 4

#: A guess must have at most this share of the error of the mean of all pairs; else nothing better than it is known.
WORTH_USING = 0.9

#: Variance of a pair over that of a test set's effect, and over that of being of one kind.
RIDGE, RIDGE_KIND = 2.0, 0.5

#: By how much correlations are shrunken before others are derived from them, and the least eigenvalue left to them.
SHRINKAGES, LEAST_EIGENVALUE = (0.05, 0.2, 0.4), 0.05

#: Above this many measured pairs, they are hidden in so many parts and not one by one.
FOLDS = 20

#: Largest |z| of a guess: a correlation of .995.
LARGEST = 3.0


class Guess(NamedTuple):
    """A way to predict pairs; ``shrinkage`` is for what other test sets imply."""

    basis: str
    shrinkage: float = 0.0


MEAN = Guess("mean of all pairs")
LIKE = Guess("what each test set is like")
KINDS = Guess("what each test set is like, and kinds of shift")
OTHERS = tuple(Guess("other test sets", shrinkage) for shrinkage in SHRINKAGES)


class Pairs(NamedTuple):
    """Measured pairs on Fisher's scale: z [P], their test sets, how many there are, and whether both are of one kind.

    ``same`` is None where kinds are not known.
    """

    z: Floats
    a: Ints
    b: Ints
    testsets: int
    same: Floats | None


class PairPredictions(NamedTuple):
    """Predicted z of pairs with the half-width of the intervals, how, and the errors of this and of the mean."""

    z: Floats
    half: float
    basis: str
    error: float
    error_of_mean: float


def unmeasured_pairs(result: Correlation, kinds: Mapping[str, str]) -> pl.DataFrame:
    """Predict the pairs of test sets that have no correlation, and those of ``kinds`` that are not in the table.

    An interval is where the correlation would be found if it were measured as the others were, mean over runs.
    """
    further = [name for name in kinds if name not in result.trajectories.testsets]
    # A pair whose test sets were there together, but constant or explained by the control, was measured.
    short = (pl.col("r").is_null() & (pl.col("flag") == Flag.TOO_FEW_ROWS)).all()
    missing = result.pairs.group_by("a", "b", maintain_order=True).agg(short.alias("short")).filter("short")
    never = {*missing.select("a", "b").iter_rows()}
    if not further and (not never or not result.pairs["r"].count()):
        return pl.DataFrame(schema=UNMEASURED_SCHEMA)
    evidence = collect_evidence(result)
    effects = run_effects(evidence)
    testsets = [*evidence.testsets, *further]
    first, second = np.triu_indices(len(evidence.testsets), 1)
    known = ~np.isnan(effects.pairs)
    wanted = []
    for one, other in zip(*np.triu_indices(len(testsets), 1), strict=True):
        names = (testsets[one], testsets[other])
        if names in never or {*names} & {*further}:
            wanted.append((int(one), int(other)))
    code = {kind: index for index, kind in enumerate(dict.fromkeys(kinds.values()))}
    # A test set of unknown kind is of a kind of its own.
    of_set = np.array([code.get(kinds.get(name, ""), -1 - index) for index, name in enumerate(testsets)])
    a, b = first[known], second[known]
    several = len(np.unique(of_set)) < len(of_set) and len(np.unique(of_set)) > 1
    same = (of_set[a] == of_set[b]).astype(np.float64) if several else None
    pairs = Pairs(effects.pairs[known], a, b, len(testsets), same)
    measured = np.zeros(len(testsets), dtype=bool)
    measured[a] = measured[b] = True
    rows: list[dict[str, object]] = []
    for new in (False, True):
        chosen = [pair for pair in wanted if bool(measured[list(pair)].all()) is not new]
        if not chosen:
            continue
        x, y = (np.array(side, dtype=np.intp) for side in zip(*chosen, strict=True))
        alike = (of_set[x] == of_set[y]).astype(np.float64) if several else None
        predicted = predict_pairs(pairs, x, y, alike, new=new)
        for index in range(len(x)):
            row: dict[str, object] = {"a": testsets[x[index]], "b": testsets[y[index]]}
            if predicted is not None:
                z = predicted.z[index]
                row |= {
                    "r_predicted": float(np.tanh(z)),
                    "ci_low": float(np.tanh(z - predicted.half)),
                    "ci_high": float(np.tanh(z + predicted.half)),
                    "basis": predicted.basis,
                    "error": predicted.error,
                    "error_of_mean": predicted.error_of_mean,
                }
            else:
                row["basis"] = "too few pairs were measured"
            rows.append(row)
    return pl.DataFrame([{name: row.get(name) for name in UNMEASURED_SCHEMA} for row in rows], schema=UNMEASURED_SCHEMA)


def predict_pairs(pairs: Pairs, a: Ints, b: Ints, same: Floats | None, *, new: bool = False) -> PairPredictions | None:
    """Predict the z of pairs ``a`` and ``b`` [W] (``same``: of one kind) by the guess that does best on hidden pairs.

    Measured pairs are hidden one by one (with ``new``, all pairs of a test set at once, for test sets of which nothing
    but the kind is known); the guess is chosen without the hidden pair each time, so that the error of the chosen one
    is not flattered by the choice. Where it is not below 0.9 times that of the mean of all pairs, the mean is what is
    predicted. Intervals are t with (test sets - 1) degrees of freedom times that error. None where too little is
    measured.
    """
    sets = len(np.unique(np.concatenate([pairs.a, pairs.b])))
    if len(pairs.z) < FEWEST_PAIRS or sets < FEWEST_SETS:
        return None
    guesses = [MEAN]
    if not new:
        guesses += [LIKE, *OTHERS]
    if pairs.same is not None and 0 < pairs.same.mean() < 1:
        guesses.append(KINDS)
    hidden = _hidden(pairs, new)
    errors = _errors(pairs, guesses, hidden)
    error_of_mean = float(np.sqrt(np.mean(errors[0] ** 2)))
    chosen_errors = []
    for part in hidden:
        rest = np.setdiff1d(np.arange(len(pairs.z)), part)
        # Errors with one pair hidden at a time hardly depend on one more, so they choose the guess here as well.
        best = int(np.argmin((errors[:, rest] ** 2).mean(axis=1)))
        chosen_errors.append(errors[best, part])
    error = float(np.sqrt(np.mean(np.concatenate(chosen_errors) ** 2)))
    best_guess = guesses[int(np.argmin((errors**2).mean(axis=1)))]
    if best_guess is MEAN or error > WORTH_USING * error_of_mean:
        best_guess, error = MEAN, error_of_mean
    z = _guess(pairs, best_guess, np.arange(len(pairs.z)), a, b, same)
    half = float(special.stdtrit(sets - 1, (1 + LEVEL) / 2)) * error
    return PairPredictions(z, half, best_guess.basis, error, error_of_mean)


def _hidden(pairs: Pairs, new: bool) -> list[Ints]:
    """Measured pairs in the parts that are hidden together."""
    number = len(pairs.z)
    if new:
        members = [np.flatnonzero((pairs.a == index) | (pairs.b == index)) for index in range(pairs.testsets)]
        return [own for own in members if len(own)]
    if number <= 3 * FOLDS:
        return [np.array([index]) for index in range(number)]
    order = np.random.default_rng(0).permutation(number)
    return [np.sort(part) for part in np.array_split(order, FOLDS)]


def _errors(pairs: Pairs, guesses: Sequence[Guess], hidden: Sequence[Ints]) -> Floats:
    """Errors [guesses, P] of every guess on hidden pairs; of a pair that is hidden twice, the mean in size."""
    squares, times = np.zeros((len(guesses), len(pairs.z))), np.zeros(len(pairs.z))
    for part in hidden:
        rest = np.setdiff1d(np.arange(len(pairs.z)), part)
        times[part] += 1
        same = None if pairs.same is None else pairs.same[part]
        for index, guess in enumerate(guesses):
            left = pairs.z[part] - _guess(pairs, guess, rest, pairs.a[part], pairs.b[part], same)
            squares[index, part] += left**2
    return np.sqrt(squares / np.maximum(times, 1))


def _guess(pairs: Pairs, guess: Guess, rest: Ints, a: Ints, b: Ints, same: Floats | None) -> Floats:
    """Predict pairs from those in ``rest``."""
    mean = float(pairs.z[rest].mean())
    if guess is MEAN:
        return np.full(len(a), mean)
    by_kind = guess is KINDS
    start = _ridge(pairs, rest, a, b, same if by_kind else None)
    if not guess.shrinkage:
        return start
    # What is not measured among the other test sets is filled in by what each of them is like.
    x, y = np.triu_indices(pairs.testsets, 1)
    matrix = np.zeros((pairs.testsets, pairs.testsets))
    matrix[x, y] = np.tanh(_ridge(pairs, rest, x, y, None))
    known = np.zeros(matrix.shape, dtype=bool)
    matrix[pairs.a[rest], pairs.b[rest]] = np.tanh(pairs.z[rest])
    known[pairs.a[rest], pairs.b[rest]] = True
    matrix, known = matrix + matrix.T, known | known.T
    matrix *= 1 - guess.shrinkage
    np.fill_diagonal(matrix, 1.0)
    guessed = start.copy()
    for index, (first, second) in enumerate(zip(a, b, strict=True)):
        others = np.flatnonzero(known[first] & known[second])
        if len(others) < 2:
            continue
        values, vectors = np.linalg.eigh(matrix[np.ix_(others, others)])
        inverse = vectors @ (vectors / np.maximum(values, LEAST_EIGENVALUE)).T
        implied = matrix[first, others] @ inverse @ matrix[others, second] / (1 - guess.shrinkage)
        guessed[index] = np.arctanh(np.clip(implied, -np.tanh(LARGEST), np.tanh(LARGEST)))
    return guessed


def _ridge(pairs: Pairs, rest: Ints, a: Ints, b: Ints, same: Floats | None) -> Floats:
    """Pairs as the mean and an effect of each test set, and of being of one kind unless ``same`` is None."""

    def design(first: Ints, second: Ints, alike: Floats | None) -> Floats:
        columns = np.zeros((len(first), 1 + pairs.testsets))
        columns[:, 0] = 1
        rows = np.arange(len(first))
        columns[rows, 1 + first] += 1
        columns[rows, 1 + second] += 1
        return columns if alike is None else np.concatenate([columns, alike[:, None]], axis=1)

    own = None if same is None or pairs.same is None else pairs.same[rest]
    measured = design(pairs.a[rest], pairs.b[rest], own)
    penalty = np.full(measured.shape[1], RIDGE)
    penalty[0] = 1e-9
    if own is not None:
        penalty[-1] = RIDGE_KIND
    b_hat = np.linalg.solve(measured.T @ measured + np.diag(penalty), measured.T @ pairs.z[rest])
    return np.asarray(np.clip(design(a, b, None if own is None else same) @ b_hat, -LARGEST, LARGEST))


def unmeasured_words(frame: pl.DataFrame) -> str:
    """How many pairs were never measured, whether they can be predicted, and the clearest of them."""
    if not frame.height:
        return ""
    known = frame.drop_nulls("r_predicted")
    verb = "was" if frame.height == 1 else "were"
    start = f"{count(frame.height, 'pair')} of test sets {verb} never measured together"
    if not known.height:
        return f"{start}, and too few others were to predict them."
    better = known.filter(pl.col("basis") != MEAN.basis)
    if not better.height:
        row = known.row(0, named=True)
        return (
            f"{start}. They cannot be predicted: hidden in turn, measured pairs are not met better than by the mean of "
            f"all ({row['r_predicted']:+.2f}, {row['ci_low']:+.2f} to {row['ci_high']:+.2f})."
        ).replace("-", "−")
    row = better.sort(pl.col("r_predicted").abs(), descending=True).row(0, named=True)
    gain = 1 - (row["error"] / row["error_of_mean"]) ** 2
    text = (
        f"{start}. {better.height} can be predicted by {row['basis']} (hidden in turn, {gain:.0%} of the variance "
        f"between measured pairs is met); the strongest: {row['a']} and {row['b']} "
    )
    numbers = f"{row['r_predicted']:+.2f} ({row['ci_low']:+.2f} to {row['ci_high']:+.2f})."
    return text + numbers.replace("-", "−")
