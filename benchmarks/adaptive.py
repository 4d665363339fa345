"""Would asking fewer items at each checkpoint, chosen by the last answers, save at least half of them?

    breadth run mnli-small ... --into DIR     (for each model)
    python benchmarks/adaptive.py DIR [DIR ...] [--items 1000] [--error 0.01]

Replays finished studies. At every checkpoint after the first, each item is asked with a probability that depends on
what its last known margin predicts (a Poisson sample), and the accuracy on all items is estimated by the difference
estimator: mean prediction + mean of (answer - prediction) / probability. Its error is measured against asking every
item, so it comes on top of the error of the set itself.

The peer is a plain random sample (without replacement) with the same standard error: nobody has to build anything for
that one. ``best case`` predicts from all margins of the checkpoint before with a logistic regression on the very
answers it predicts, which no scheme can do; ``replay`` knows only what it has asked, and is repeated with different
samples to measure its error. Both take probabilities in proportion to the standard deviation of an answer, which is
optimal (Neyman). A study with fewer items than ``--items`` stands for one whose items are distributed alike.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

import breadth

Floats = npt.NDArray[np.float64]

# The next three are the best of 27 combinations of the replay of SmolLM2 (PILOT 60, 150, 250; FLOOR 0.05, 0.15, 0.3;
# LEAST 0.01, 0.1, 0.2), so its figure is a little too good; Gemma 3 had no part in the choice.

#: Items that are asked at every checkpoint before the others are chosen.
PILOT = 60
#: No item is asked with a lower probability, so that a wrong prediction cannot weigh too much.
FLOOR = 0.05
#: No prediction of the replay is more certain than this, since it comes from few answers.
LEAST = 0.1


class Series(NamedTuple):
    """Answers and margins [checkpoints x items] of one run on one test set, and columns to predict answers with."""

    name: str
    testset: str
    correct: Floats
    margin: Floats
    labels: Floats


def series_of(folder: str) -> list[Series]:
    study = breadth.open(folder)
    found = []
    for run in study.ends["run"]:
        rows = np.flatnonzero((study.subjects["run"] == run).to_numpy())
        for k, testset in enumerate(study.testsets):
            columns = np.flatnonzero(study.set_index == k)
            labels = study.items["label"].gather(columns).to_dummies().to_numpy().astype(np.float64)
            assert study.margin is not None
            cells = np.ix_(rows, columns)
            margin = study.margin[cells].astype(np.float64)
            found.append(Series(run, testset, study.correct[cells].astype(np.float64), margin, labels))
    return found


def fitted(margin: Floats, labels: Floats, answer: Floats, weight: Floats, prior: Floats | None = None) -> Floats:
    """Coefficients of a logistic regression of answers on earlier margins and labels, with a ridge.

    The ridge pulls the slope towards that of ``prior``; the bias towards a label swings, so it is estimated each time.
    """
    columns = np.column_stack([margin, labels])
    target = np.zeros(columns.shape[1])
    ridge = np.full(columns.shape[1], 0.1)
    if prior is not None:
        target[0], ridge[0] = prior[0], 10.0
    coefficients = target.copy()
    for _ in range(25):
        chance = 1 / (1 + np.exp(-np.clip(columns @ coefficients, -30, 30)))
        slope = columns.T @ (weight * (answer - chance)) - ridge * (coefficients - target)
        curvature = (columns * (weight * chance * (1 - chance))[:, None]).T @ columns + np.diag(ridge)
        coefficients = coefficients + np.linalg.solve(curvature, slope)
    return coefficients


def predicted(margin: Floats, labels: Floats, coefficients: Floats, least: float) -> Floats:
    chance = 1 / (1 + np.exp(-np.clip(np.column_stack([margin, labels]) @ coefficients, -30, 30)))
    return np.clip(chance, least, 1 - least)


def probabilities(deviation: Floats, error: float, items: int) -> Floats:
    """Inclusion probabilities in proportion to the deviations whose estimator has this standard error."""
    low, high = 0.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        chosen = np.clip(middle * deviation, FLOOR, 1)
        variance = np.mean((1 - chosen) / chosen * deviation**2) / items
        low, high = (middle, high) if variance > error**2 else (low, middle)
    return np.clip(high * deviation, FLOOR, 1)


def plain_share(accuracy: float, error: float, items: int) -> float:
    """Share of the items that a plain random sample needs for this standard error."""
    variance = accuracy * (1 - accuracy) * items / (items - 1)
    return float(variance / (variance + items * error**2)) if variance else 0.0


def best_case(series: Series, error: float, items: int | None) -> list[tuple[float, float]]:
    """Shares of items asked at each checkpoint: adaptive with the best prediction, and plain.

    Of an endless set (None), numbers of items up to a factor.
    """
    shares = []
    for before, after in zip(series.margin[:-1], series.correct[1:], strict=True):
        chance = predicted(before, series.labels, fitted(before, series.labels, after, np.ones(len(after))), 0.01)
        deviation = np.sqrt(chance * (1 - chance))
        if items is None:
            shares.append((float(deviation.mean() ** 2), float(after.var())))
        else:
            asked = probabilities(deviation, error, items).mean()
            shares.append((float(asked), plain_share(after.mean(), error, items)))
    return shares


def replay(series: Series, error: float, items: int, draws: int, seed: int = 0) -> list[tuple[float, float]]:
    """Shares asked by a scheme that knows only what it has asked, and by a plain sample of the error it really had.

    At each checkpoint a plain sample of PILOT items comes first: it tells how the model answers now. What it predicts
    for the others decides which of them are asked; predictions for the estimator are then fitted to all that were.
    """
    count = series.correct.shape[1]
    copies = -(-items // count)  # of every item, so that the set has about the wanted size
    correct, margin = (np.tile(values, (1, copies)) for values in (series.correct, series.margin))
    labels = np.tile(series.labels, (copies, 1))
    size, last = correct.shape[1], len(correct)
    asked, misses = np.zeros((draws, last - 1)), np.zeros((draws, last - 1))
    for draw in range(draws):
        random = np.random.default_rng([seed, draw])
        known, coefficients = margin[0].copy(), None
        for step in range(1, last):
            answer = correct[step]
            pilot = np.zeros(size, dtype=bool)
            pilot[random.choice(size, PILOT, replace=False)] = True
            first = fitted(known[pilot], labels[pilot], answer[pilot], np.ones(PILOT), coefficients)
            chance = predicted(known, labels, first, LEAST)
            deviation = np.sqrt(chance * (1 - chance))[~pilot]
            rest = size - PILOT
            chosen = np.ones(size)
            chosen[~pilot] = probabilities(deviation, error * size / rest, rest)
            sample = pilot | (random.random(size) < chosen)
            # The pilot stands for itself and, when predictions are fitted, for its share of the others.
            weight = np.where(pilot, 1.0, 1 / chosen)
            coefficients = fitted(known[sample], labels[sample], answer[sample], weight[sample], coefficients)
            chance = predicted(known, labels, coefficients, LEAST)
            estimate = np.where(pilot, answer, chance + np.where(sample, (answer - chance) / chosen, 0))
            misses[draw, step - 1] = estimate.mean() - answer.mean()
            asked[draw, step - 1] = sample.mean()
            known[sample] = margin[step][sample]
    real = np.sqrt(np.mean(misses**2, axis=0))
    plain = [plain_share(correct[step].mean(), float(real[step - 1]), size) for step in range(1, last)]
    return list(zip(asked.mean(axis=0).tolist(), plain, strict=True))


def saved(shares: list[tuple[float, float]]) -> float:
    """Share of the plain sample's items that the adaptive one does not ask."""
    adaptive, plain = np.array(shares).T
    return float(1 - adaptive.sum() / plain.sum())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--error", type=float, default=0.01)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    rows, sums = [], {"best": [], "replay": [], "large": []}
    for series in (each for folder in options.folders for each in series_of(folder)):
        best = best_case(series, options.error, options.items)
        large = best_case(series, options.error, None)
        played = replay(series, options.error, options.items, options.draws)
        for key, shares in zip(sums, (best, played, large), strict=True):
            sums[key] += shares
        flips = np.abs(np.diff(series.correct, axis=0)).mean()
        rows.append(
            {
                "run": series.name, "testset": series.testset, "checkpoints": len(series.correct),
                "accuracy": f"{series.correct.mean(axis=1).min():.2f}-{series.correct.mean(axis=1).max():.2f}",
                "flips": round(float(flips), 3), "asked": round(float(np.mean([a for a, _ in best])), 2),
                "plain": round(float(np.mean([b for _, b in best])), 2), "saved, best case": round(saved(best), 2),
                "saved, replay": round(saved(played), 2), "saved, endless set": round(saved(large), 2),
            }
        )  # fmt: skip
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=180, tbl_hide_dataframe_shape=True):
        print(pl.DataFrame(rows))
    print(f"standard error {options.error} beyond asking all of {options.items:,} items, against a plain sample:")
    for key, words in (("best", "best case"), ("replay", "replay"), ("large", "best case, endless set")):
        print(f"  saved, {words}: {saved(sums[key]):.0%}")


if __name__ == "__main__":
    main()
