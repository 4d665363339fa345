"""Does `calibrate` find the maximum? The same objective, maximised by L-BFGS from several starts.

    python benchmarks/irt_likelihood.py [MATRIX ...] [--models 3pl 4pl] [--starts 3] [--priors default]
    python benchmarks/irt_likelihood.py [MATRIX ...] --priors none --python .venv-peers/bin/python
    python benchmarks/irt_likelihood.py --adaptive [--models 2pl 3pl]

The objective is written down again here: the marginal likelihood on a grid of ability that is finer than the narrowest
posterior, and on 4,001 points in the end, plus the priors. What
breadth estimates of all slopes together is held: their mean and spread, and the powers of slopes that keep their prior
from pulling on the scale of ability. L-BFGS starts from breadth's solution, from equal slopes with the signs of
breadth's, and from random points.
"Behind" is how far breadth's objective is below the best of them; "quadrature" is the reported log-likelihood less that
of 4,001 points. With ``--python``, mirt and girth are fitted too, and the likelihood of their items is computed here.

``--adaptive`` simulates tests in which subjects answer the items nearest to their ability (known exactly, or roughly),
or items that are chosen by the answers so far. EM is started from 20 points: random slopes and intercepts around those
of the Rasch model. "Behind" is the best log-likelihood of these less that of breadth.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from breadth.irt import MODELS, Answers, Parameters, Priors, score
from breadth.irt.expectation import expect
from breadth.irt.marginal import climb, estimates, log_likelihood, make_problem, maximise
from breadth.irt.maximisation import improve
from breadth.irt.parameters import Common

Floats = NDArray[np.float64]

#: Fewest points of ability that L-BFGS sees, points per standard deviation of the narrowest posterior, and the points
#: of the final check.
POINTS, PER_SD, FINE_POINTS = 401, 2.5, 4001

#: Bounds of slopes and of the logits of asymptotes: those of breadth.
LARGEST_SLOPE, LARGEST_LOGIT = 40.0, 12.0

HERE = Path(__file__).parent


class Objective(NamedTuple):
    """Marginal log-likelihood plus priors as a function of slopes, intercepts, and logits of asymptotes."""

    right: Floats
    wrong: Floats
    asymptotes: int
    priors: Priors
    common: Common
    power: Floats
    points: int

    def exact(self, point: Floats) -> float:
        """The objective on 4,001 points."""
        return self.log_likelihood(*self.unpack(point)) + self.penalty(*self.unpack(point))[0]

    def log_likelihood(self, a: Floats, d: Floats, g: Floats, s: Floats) -> float:
        """Marginal log-likelihood on 4,001 points from -8 to 8."""
        theta = np.linspace(-8, 8, FINE_POINTS)
        total = np.zeros(self.right.shape[0]) - np.inf
        for part in np.array_split(theta, 8):
            z = np.multiply.outer(part, a) + d
            up, down = special.expit(z), special.expit(-z)
            table = self.right @ np.log(g + (1 - g - s) * up).T + self.wrong @ np.log(s + (1 - g - s) * down).T
            total = np.logaddexp(total, special.logsumexp(table - part**2 / 2, axis=1))
        return float((total + np.log((theta[1] - theta[0]) / np.sqrt(2 * np.pi))).sum())

    def penalty(self, a: Floats, d: Floats, g: Floats, s: Floats) -> tuple[float, Floats]:
        """Log density of the priors, and its gradient [4, J] by slope, intercept and logits."""
        value, gradient = 0.0, np.zeros((4, a.size))
        if self.priors.slope_ratio is not None:
            apart = (a - self.common.slope_mean) / self.common.slope_sd
            value += float(self.power @ np.log(np.abs(a)) - apart @ apart / 2)
            gradient[0] += self.power / a - apart / self.common.slope_sd
        if self.priors.intercept_sd is not None:
            mean = -float(a @ d) / float(a @ a)
            off = (d + a * mean) / self.priors.intercept_sd**2
            value -= float(off @ (d + a * mean)) / 2
            gradient[0] -= off * mean
            gradient[1] -= off
        betas = (
            (g, self.priors.guessing_right, self.priors.guessing_wrong),
            (s, self.priors.ceiling_wrong, self.priors.ceiling_right),
        )
        for row, (chance, ones, zeros) in enumerate(betas[: self.asymptotes], 2):
            if ones is not None:
                value += float(((ones - 1) * np.log(chance) + (zeros - 1) * np.log1p(-chance)).sum())
                gradient[row] += (ones - 1) * (1 - chance) - (zeros - 1) * chance
        return value, gradient

    def unpack(self, point: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Slopes, intercepts, guessing and slips at a point."""
        a, d, *logits = point.reshape(2 + self.asymptotes, -1)
        chances = [special.expit(logit) for logit in logits] + [np.zeros(a.size)] * (2 - self.asymptotes)
        return a, d, chances[0], chances[1]

    def __call__(self, point: Floats) -> tuple[float, Floats]:
        """Minus the objective, and its gradient."""
        a, d, g, s = self.unpack(point)
        theta = np.linspace(-8, 8, self.points)
        z = np.multiply.outer(a, theta) + d[:, None]
        up, down, g_, s_ = special.expit(z), special.expit(-z), g[:, None], s[:, None]
        p, q = g_ + (1 - g_ - s_) * up, s_ + (1 - g_ - s_) * down
        table = self.right @ np.log(p) + self.wrong @ np.log(q) - theta**2 / 2
        evidence = special.logsumexp(table, axis=1)
        weights = np.exp(table - evidence[:, None])
        # By Fisher's identity: the gradient of the expected complete-data likelihood.
        by_p = (self.right.T @ weights) / p - (self.wrong.T @ weights) / q
        bent = by_p * (1 - g_ - s_) * up * down
        gradient = np.stack(
            [bent @ theta, bent.sum(1), (by_p * down).sum(1) * g * (1 - g), -(by_p * up).sum(1) * s * (1 - s)]
        )
        value, more = self.penalty(a, d, g, s)
        value += float(evidence.sum()) + evidence.size * np.log((theta[1] - theta[0]) / np.sqrt(2 * np.pi))
        return -value, -(gradient + more)[: 2 + self.asymptotes].ravel()

    def maximum(self, start: Floats, most: int) -> Floats:
        """Where L-BFGS ends from a start."""
        rows = start.reshape(2 + self.asymptotes, -1)
        bound = [LARGEST_SLOPE, 1000.0, LARGEST_LOGIT, LARGEST_LOGIT]
        bounds = [(-bound[row], bound[row]) for row in range(rows.shape[0]) for _ in range(rows.shape[1])]
        options = {"maxiter": most, "maxfun": 2 * most, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-4}
        found = optimize.minimize(self, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return np.asarray(found.x)


def packed(items: Parameters, asymptotes: int) -> Floats:
    """Items as a point of the objective."""
    logits = [special.logit(np.clip(chance, 1e-6, 1 - 1e-6)) for chance in (items.guessing, items.slip)]
    return np.concatenate([items.slope, items.intercept, *logits[:asymptotes]])


def starts(objective: Objective, items: Parameters, number: int) -> list[Floats]:
    """Breadth's solution, equal slopes, and random points, in this order."""
    share = (objective.right.sum(0) + 0.5) / (objective.right.sum(0) + objective.wrong.sum(0) + 1)
    flat = np.zeros((4, share.size)) + np.array([1.0, 0.0, special.logit(0.15), special.logit(0.05)])[:, None]
    flat[1] = special.logit(np.clip((share - 0.15) / 0.85, 0.03, 0.97) if objective.asymptotes else share) * 1.2
    rng = np.random.default_rng(0)
    random = [flat + rng.normal(0, [[0.5], [0.5], [0.7], [0.7]], flat.shape) for _ in range(max(0, number - 2))]
    signs = np.where(items.slope < 0, -1, 1)
    for one in [flat, *random]:
        one[0] = np.abs(one[0]) * signs
    return [packed(items, objective.asymptotes), *(one[: 2 + objective.asymptotes].ravel() for one in [flat, *random])][
        :number
    ]


def read(path: Path) -> NDArray[Any]:
    """The answers of an NPZ matrix or a CSV table; neither 1 nor 0 where there is none."""
    from breadth.sources.answers import open_study

    return np.asarray(open_study(path).matrix)


def peers(python: str, matrix: NDArray[Any], model: str, objective: Objective) -> list[str]:
    """Likelihood of the items that mirt and girth find, by 4,001 points."""
    cells = []
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "answers.npz", R=matrix.astype(np.int8))
        for peer in ("mirt", "girth"):
            call = [python, str(HERE / "irt_peers.py"), peer, model, str(Path(folder) / "answers.npz")]
            out = subprocess.run(call, capture_output=True, text=True, check=False, timeout=1200)
            if out.returncode:
                cells.append(f"{peer} failed")
                continue
            fitted = json.loads(out.stdout.strip().splitlines()[-1])
            a, b, g, u = (np.array(fitted[name]) for name in ("discrimination", "difficulty", "guessing", "upper"))
            cells.append(f"{peer} {objective.log_likelihood(a, -a * b, g, 1 - u):.2f}")
    return cells


def compare(path: Path, model: str, priors: Priors, given: argparse.Namespace) -> str:
    """One row of the table."""
    matrix = read(path)
    problem = make_problem(MODELS[model], Answers.of(matrix), priors)
    kept = matrix[:, problem.kept]
    begin = time.perf_counter()
    solution = maximise(problem)
    found = estimates(problem, solution, errors=False)
    seconds = time.perf_counter() - begin
    items, _, common = problem.unpack(solution.point)
    expected = expect(MODELS[model], problem.answers, items)
    released = improve(MODELS[model], items, expected, priors, problem.free, common).released
    narrowest = float(np.sqrt(expected.posterior.variance.min()))
    points = int(np.clip(16 * PER_SD / narrowest, POINTS, FINE_POINTS))
    asymptotes = int(MODELS[model].guessing) + int(MODELS[model].ceiling)
    right, wrong = (kept == 1).astype(np.float64), (kept == 0).astype(np.float64)
    objective = Objective(right, wrong, asymptotes, priors, common, released * items.slope, points)
    ours = objective.exact(packed(items, asymptotes))
    begins = starts(objective, items, given.starts)
    ends = [objective.exact(objective.maximum(start, given.iterations)) - ours for start in begins]
    fine = objective.log_likelihood(*items)
    cells = [path.stem, "x".join(map(str, kept.shape)), model, solution.iterations, f"{seconds:.2f}"]
    cells += ["yes" if solution.converged else "NO", f"{np.abs(items.slope).max():.1f}", f"{found.log_likelihood:.2f}"]
    cells += [f"{found.log_likelihood - fine:+.4f}", f"{ours:.2f}", ", ".join(f"{end:+.3f}" for end in ends)]
    cells += [f"{max(0.0, *ends):.3f}"]
    if given.python:
        cells += peers(given.python, kept, model, objective)
    return "| " + " | ".join(map(str, cells)) + " |"


#: Subjects, items, answers of each, typical slope, and how roughly ability is known; None where the answers choose.
ADAPTIVE = (
    (1000, 60, 30, 1.0, 0.0), (1000, 60, 30, 1.5, 0.0), (1000, 60, 30, 1.5, 0.3), (1000, 60, 30, 1.2, None),
    (500, 200, 60, 1.3, 0.1), (2000, 120, 25, 1.2, 0.2), (800, 100, 20, 1.8, None), (300, 80, 40, 2.0, 0.4),
)  # fmt: skip


def adaptive(
    subjects: int, items: int, each: int, typical: float, roughly: float | None, seed: int
) -> tuple[NDArray[np.int8], Floats]:
    """Answers of subjects to items that suit them, -1 for the others, and their abilities."""
    rng = np.random.default_rng(seed)
    ability, difficulty = rng.normal(size=subjects), rng.normal(size=items)
    slope = typical * rng.lognormal(0, 0.3, items)
    chance = special.expit(slope * (ability[:, None] - difficulty))
    right = (rng.random(chance.shape) < chance).astype(np.int8)
    seen = np.zeros(right.shape, dtype=np.bool_)
    if roughly is not None:
        guess = ability + rng.normal(0, roughly, subjects) if roughly else ability
        nearest = np.argsort(np.abs(guess[:, None] - difficulty), axis=1)[:, :each]
        np.put_along_axis(seen, nearest, True, axis=1)
        return np.where(seen, right, -1).astype(np.int8), ability
    points, every = np.linspace(-4, 4, 41), np.arange(subjects)
    density, curves = (
        np.tile(np.exp(-(points**2) / 2), (subjects, 1)),
        special.expit(slope * (points[:, None] - difficulty)),
    )
    for _ in range(each):
        mean = density @ points / density.sum(axis=1)
        p = special.expit(slope * (mean[:, None] - difficulty))
        chosen = np.where(seen, -1, slope**2 * p * (1 - p)).argmax(axis=1)
        seen[every, chosen] = True
        correct = right[every, chosen, None] == 1
        density *= np.where(correct, curves[:, chosen].T, 1 - curves[:, chosen].T)
    return np.where(seen, right, -1).astype(np.int8), ability


def behind_random_starts(matrix: NDArray[np.int8], model: str, number: int) -> tuple[float, int, Any]:
    """How far breadth is below the best of some random starts, how many of them got there, and its estimates."""
    answers = Answers.of(matrix)
    problem = make_problem(MODELS[model], answers, Priors())
    solution = maximise(problem)
    ours = log_likelihood(problem, solution)
    rasch = MODELS["1pl"].fit(answers, errors=False).items
    slope, intercept = rasch.slope[problem.kept], rasch.intercept[problem.kept]
    rng, reached = np.random.default_rng(0), []
    for index in range(number):
        point = problem.start.copy()
        n = slope.size
        point[:n] = intercept + rng.normal(0, 0.5, n)
        near = slope * rng.lognormal(0, 0.5, n)
        far = rng.normal(0.5, 1, n)
        point[n : 2 * n] = near if index % 2 else far
        reached.append(log_likelihood(problem, climb(problem, point, problem.most_iterations)))
    best = max(reached)
    there = sum(value > best - 0.5 for value in reached)
    return best - ours, there, estimates(problem, solution, errors=False)


def print_adaptive(models: list[str], number: int = 20, seeds: int = 3) -> None:
    """The table of ``--adaptive``: the worst of some seeds."""
    print("| subjects x items, answers of each | slope | ability known | model | behind | r(ability) | starts there |")
    print("|---|---|---|---|---|---|---|")
    for subjects, items, each, typical, roughly in ADAPTIVE:
        for model in models:
            rows = []
            for seed in range(seeds):
                matrix, ability = adaptive(subjects, items, each, typical, roughly, 100 + seed)
                behind, there, found = behind_random_starts(matrix, model, number)
                r = np.corrcoef(score(Answers.of(matrix), found.items).ability, ability)[0, 1]
                rows.append((behind, float(r), there))
            known = "by answers" if roughly is None else f"+- {roughly:g}"
            worst, r, there = max(row[0] for row in rows), min(row[1] for row in rows), min(row[2] for row in rows)
            print(
                f"| {subjects} x {items}, {each} | {typical:g} | {known} | {model} | {worst:+.2f} | {r:.3f} "
                f"| {there} of {number} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matrices", nargs="*", type=Path, help="NPZ or CSV of right and wrong answers")
    parser.add_argument("--models", nargs="+", default=["3pl", "4pl"])
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=3000, help="most iterations of L-BFGS")
    parser.add_argument("--priors", choices=["default", "none"], default="default")
    parser.add_argument("--python", help="Python of the environment that has the peers")
    parser.add_argument("--adaptive", action="store_true", help="simulated tests that adapt, 20 starts of EM")
    given = parser.parse_args()
    if given.adaptive:
        print_adaptive(given.models)
        return
    head = ["matrix", "size", "model", "EM steps", "seconds", "converged", "steepest", "log-likelihood", "quadrature"]
    head += ["objective", "L-BFGS less breadth, by start", "behind"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if not given.matrices:
            given.matrices = [simulated(Path(folder))]
        for path in given.matrices:
            for model in given.models:
                priors = Priors() if given.priors == "default" else Priors.none()
                print(compare(path, model, priors, given), flush=True)


def simulated(folder: Path) -> Path:
    """A small matrix, where none is given."""
    from breadth.datasets import simulate_answers

    np.savez(folder / "simulated.npz", R=simulate_answers(500, 30, 1, "3pl").matrix)
    return folder / "simulated.npz"


if __name__ == "__main__":
    sys.exit(main())
