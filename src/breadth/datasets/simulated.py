"""Simulated scores, answers and studies whose truth is known: for the demo, docs, tests and benchmarks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.datasets.kinds import NLI_PATTERN
from breadth.datasets.suite import SETS, generate
from breadth.records import RunRecord, StudyStore, sealed

Floats = npt.NDArray[np.float64]

#: Test sets of simulated scores, and of a simulated study: one in-domain, then shifts of every other kind.
TESTSETS = ("negation", "word_order", "numbers", "formal_style", "science", "coreference")
STUDY_SETS = ("plain", "formal", "chat", "science", "negation", "word_order", "numbers", "chains")

MODELS = ("model-a", "model-b")

#: File of a simulated study that holds its truth; the report compares its findings with it.
TRUTH_FILE = "truth.json"

#: One item in this many has its label flipped, so that there are wrong labels to find.
ONE_WRONG_IN = 50


def autoregressive(
    generator: np.random.Generator,
    runs: int,
    steps: int,
    correlation: Floats,
    rho: float,
) -> Floats:
    """Draw first-order autoregressive series [runs, steps, m] with variance 1 and the given correlation.

    ``correlation`` is one matrix [m, m] or one per run [runs, m, m].
    """
    root = np.linalg.cholesky(np.broadcast_to(correlation, (runs, *correlation.shape[-2:])))
    shocks = generator.standard_normal((runs, steps, root.shape[1])) @ root.transpose(0, 2, 1)
    series = np.empty_like(shocks)
    series[:, 0] = shocks[:, 0]
    for t in range(1, steps):
        series[:, t] = rho * series[:, t - 1] + np.sqrt(1 - rho**2) * shocks[:, t]
    return series


def control_series(
    generator: np.random.Generator,
    runs: int,
    steps: int,
    kind: Literal["learning", "drifting", "independent"],
    rho: float,
) -> Floats:
    """Draw an in-domain series [runs, steps]: a learning curve with noise, an autoregression, or plain noise."""
    if kind == "independent":
        return generator.standard_normal((runs, steps))
    if kind == "drifting":
        return autoregressive(generator, runs, steps, np.eye(1), rho)[:, :, 0]
    curve = 1 - np.exp(-3 * np.linspace(0, 1, steps))
    return curve + 0.03 * generator.standard_normal((runs, steps))


def _two_halves(
    generator: np.random.Generator, steps: int, m: int, within: float | Floats, between: Floats, rho: float
) -> Floats:
    """Draw series [runs, steps, m] that correlate ``within`` each half of m, and ``between`` halves by run."""
    half = np.arange(m) < m / 2
    inside = np.broadcast_to(within, between.shape)[:, None, None]
    correlation = np.where(half[:, None] == half[None, :], inside, between[:, None, None])
    correlation[:, np.arange(m), np.arange(m)] = 1.0
    return autoregressive(generator, len(between), steps, correlation, rho)


def simulate_scores(
    *, runs: int = 4, steps: int = 41, testsets: Sequence[str] = TESTSETS, rho: float = 0.5, seed: int = 0
) -> pl.DataFrame:
    """Simulate a wide table of accuracies: ``run, step, in_domain`` and a column per test set.

    In-domain accuracy follows a learning curve. Each test set follows it along its own curve, plus fluctuations that
    are autocorrelated over checkpoints. Within a run, test sets of the same half of the list fluctuate together
    (correlation 0.6); the halves correlate 0.4 in even runs and -0.4 in odd ones. So there is no overarching trend,
    as the first study found for real models.
    """
    generator = np.random.default_rng(seed)
    m = len(testsets)
    fluctuation = _two_halves(generator, steps, m, 0.6, np.where(np.arange(runs) % 2 == 0, 0.4, -0.4), rho)
    control = control_series(generator, runs, steps, "learning", rho)
    height = generator.uniform(0.05, 0.3, (runs, 1, m))
    bend = generator.uniform(1.0, 3.0, (runs, 1, m))
    rise = height * np.clip(control[:, :, None], 0, None) ** bend
    scores = np.clip(0.5 + rise + 0.015 * fluctuation, 0, 1).reshape(-1, m)
    return pl.DataFrame(
        {
            "run": np.repeat([f"run-{i:02d}" for i in range(runs)], steps),
            "step": np.tile(16 * np.arange(steps), runs),
            "in_domain": np.clip(0.5 + 0.4 * control, 0, 1).reshape(-1),
            **{name: scores[:, j] for j, name in enumerate(testsets)},
        }
    )


class AnswerTruth(NamedTuple):
    """Simulated answers [subjects x items] (-1 is missing) and the true parameters."""

    matrix: npt.NDArray[np.int8]
    ability: Floats
    discrimination: Floats
    difficulty: Floats
    guessing: Floats


def simulate_answers(
    subjects: int, items: int, seed: int = 0, model: Literal["1pl", "2pl", "3pl"] = "2pl", missing: float = 0.0
) -> AnswerTruth:
    """Simulate answers of subjects N(0, 1) to items N(0, 1), with log-normal slopes (2pl, 3pl) and guessing (3pl).

    Rows are drawn in blocks, so that tens of millions of cells need little more memory than the matrix itself.
    """
    generator = np.random.default_rng(seed)
    ability, difficulty = generator.standard_normal(subjects), generator.standard_normal(items)
    slope = np.ones(items) if model == "1pl" else np.exp(0.3 * generator.standard_normal(items))
    floor = generator.beta(5, 20, items) if model == "3pl" else np.zeros(items)
    matrix = np.empty((subjects, items), dtype=np.int8)
    for start in range(0, subjects, 500):
        rows = slice(start, start + 500)
        chance = floor + (1 - floor) / (1 + np.exp(-slope * (ability[rows, None] - difficulty)))
        matrix[rows] = generator.random(chance.shape) < chance
        if missing:
            matrix[rows][generator.random(chance.shape) < missing] = -1
    return AnswerTruth(matrix, ability, slope, difficulty, floor)


class SimulatedStudy(NamedTuple):
    """The directory of the study, its runs in order, and the items whose labels are deliberately wrong."""

    folder: Path
    runs: tuple[str, ...]
    wrong_labels: tuple[str, ...]


def simulate_study(
    folder: str | os.PathLike[str],
    *,
    runs: int = 6,
    checkpoints: int = 41,
    testsets: Sequence[str] = STUDY_SETS,
    items: int | Mapping[str, int] = 200,
    seed: int = 0,
    train_levels: int | None = None,
    models: Sequence[str] = MODELS,
    answer_bias: float = 0.0,
    together: float | None = None,
    spread: float = 0.0,
    fresh_items: bool = False,
) -> SimulatedStudy:
    """Write the directory of a study whose truth is known.

    The runs alternate between ``models``. In-domain accuracy (``plain``) rises from about .5 to about .8; each other
    set follows it by a share of its own and fluctuates. Sets of the same half of the list fluctuate together; the two
    halves fluctuate together in the first model and in opposite directions in the second. Every item has a difficulty
    and a ``level`` (five levels); one in fifty has a wrong label. With ``train_levels``, a run trains on one level
    and gains less on items far from it. What is true is in ``truth.json``.

    ``answer_bias`` is the standard deviation, in log-odds, of a lean towards the first answer that swings from
    checkpoint to checkpoint in all test sets at once: it moves accuracy and leaves alone what the model can tell apart.
    The in-domain set, which the model answers with more confidence, feels a quarter of it. ``together`` is the
    correlation of the fluctuations of any two shifted sets, in place of the halves; in-domain ability does not
    fluctuate then. Models differ in it by ``spread``, a standard deviation on Fisher's scale: their runs, which are
    seeds, do not.

    ``items`` may differ from set to set (those not named have 200). With ``fresh_items`` every checkpoint meets other
    items of the same kind, under the same names: all of a score's sampling noise is then new at every checkpoint.
    """
    generator = np.random.default_rng(seed)
    store = StudyStore(folder)
    sizes = [items if isinstance(items, int) else items.get(name, 200) for name in testsets]
    frames = [
        _simulate_items(name, size, generator, train_levels or 5) for name, size in zip(testsets, sizes, strict=True)
    ]
    everything = pl.concat(frames)
    carried = generator.uniform(0.25, 0.9, len(testsets))
    carried[0] = 1.0
    between = np.where(np.arange(runs) % len(models) == 0, 0.45, -0.45)
    within: float | Floats = 0.7
    if together is not None:
        apart = spread * np.random.default_rng((seed, 2)).standard_normal(len(models))
        # A correlation that all pairs share cannot be far below 0.
        of_model = np.clip(np.tanh(np.arctanh(together) + apart), -0.9 / max(len(testsets) - 1, 1), 0.99)
        within = between = of_model[np.arange(runs) % len(models)]
    half = np.arange(len(testsets)) < len(testsets) / 2
    fluctuations = 0.22 * _two_halves(generator, checkpoints, len(testsets), within, between, 0.5)
    fluctuations[:, :, 0] *= together is None
    swing = np.random.default_rng((seed, 1))
    leans = answer_bias * autoregressive(swing, runs, checkpoints, np.eye(1), 0.5)
    first = np.where(everything["label"] == "entailment", 1, -1)
    felt = np.where(everything["testset"] == testsets[0], 0.25, 1.0)
    # First, because `breadth demo` simulates again what it has simulated, also if it was interrupted.
    wrong = everything.filter("wrong")["item"].to_list()
    together_signs = np.sign(between)[: len(models)]
    inner_signs = np.sign(np.broadcast_to(within, runs))[: len(models)]
    truth = {
        "correlations": [
            {"model": model, "a": a, "b": b, "sign": int(inner if half[i] == half[j] else sign)}
            for model, sign, inner in zip(models, together_signs, inner_signs, strict=False)
            for (i, a), (j, b) in combinations(list(enumerate(testsets))[1:], 2)
        ],
        "gains": {model: list(testsets[1:]) for model in models},
        "fading": train_levels is not None,
        "wrong_labels": wrong,
    }
    store.store.write(TRUTH_FILE, sealed(truth))
    for name, frame in zip(testsets, frames, strict=True):
        store.write_items(name, frame.drop("wrong"))
    names = []
    for index in range(runs):
        model = index % len(models)
        level = None if train_levels is None else (index // len(models)) % train_levels
        record = RunRecord(
            model=models[model],
            train_set=testsets[0],
            examples=128,
            seed=index // (len(models) * (train_levels or 1)),
            train_level=level,
            method="lora",
            recipe={"method": "lora", "rank": 8, "lr": 0.001},
            evaluate={"on": list(testsets), "every": 16},
            tasks={name: NLI_PATTERN.spec() for name in testsets},
            checkpoints=tuple(16 * k for k in range(checkpoints)),
        )
        names.append(f"{models[model]}-{index:02d}")
        follows = carried * (1 - 0.15 * (model % 5))
        margins = _margins(generator, everything, follows, fluctuations[index], level, sizes, fresh_items)
        margins += leans[index] * felt * first
        _write_run(store, names[-1], record, everything, margins)
    _write_study(store, testsets, models, runs)
    return SimulatedStudy(store.folder, tuple(names), tuple(wrong))


def _simulate_items(name: str, count: int, generator: np.random.Generator, levels: int) -> pl.DataFrame:
    known = name in SETS
    frame = generate(name if known else "plain", count)
    if not known:
        frame = frame.with_columns(testset=pl.lit(name), shift=pl.lit("domain"), item=name + "-" + pl.col("item"))
    difficulty = generator.standard_normal(count)
    level = np.argsort(np.argsort(difficulty)) * levels // count
    wrong = np.arange(count) % ONE_WRONG_IN == ONE_WRONG_IN // 2
    flipped = pl.when(pl.col("wrong")).then(_other("label")).otherwise(pl.col("label"))
    return (
        frame.drop("pair", "steps")
        .with_columns(difficulty=pl.Series(difficulty), level=pl.Series(level, dtype=pl.Int64), wrong=pl.Series(wrong))
        .with_columns(label=flipped)
    )


def _other(column: str) -> pl.Expr:
    return pl.when(pl.col(column) == "entailment").then(pl.lit("not_entailment")).otherwise(pl.lit("entailment"))


def _margins(
    generator: np.random.Generator,
    items: pl.DataFrame,
    carried: Floats,
    fluctuation: Floats,
    level: int | None,
    sizes: Sequence[int],
    fresh_items: bool,
) -> Floats:
    """Log-odds of the true answer [checkpoint, item]: ability less difficulty, plus noise that is mostly persistent."""
    checkpoints = len(fluctuation)
    learnt = 1.35 * (1 - np.exp(-3.5 * np.linspace(0, 1, checkpoints)))
    ability = learnt[:, None] * carried + fluctuation * np.minimum(1, 0.3 + learnt[:, None])
    ability[0] = fluctuation[0] * 0.3
    near = np.ones(items.height)
    if level is not None:
        near = 0.35 + 0.9 * np.exp(-np.abs(items["level"].to_numpy() - level) / 1.5)
    ability = np.repeat(ability, sizes, axis=1) * near
    persistent = generator.standard_normal(items.height)
    transient = generator.standard_normal((checkpoints, items.height))
    difficulty = items["difficulty"].to_numpy()
    if fresh_items:
        persistent = generator.standard_normal((checkpoints, items.height))
        difficulty = generator.standard_normal((checkpoints, items.height))
    margins: Floats = 1.6 * (ability - 0.9 * difficulty + 0.6 * persistent + 0.5 * transient)
    return np.where(items["wrong"].to_numpy(), -margins - 1.2 * ability, margins)


def _write_run(store: StudyStore, name: str, record: RunRecord, items: pl.DataFrame, margins: Floats) -> None:
    run = store.run(name)
    run.write_record(record)
    labels = items.select("testset", "item", "label", other=_other("label"))
    log = []
    for k, (step, margin) in enumerate(zip(record.checkpoints, margins, strict=True)):
        answers = labels.with_columns(margin=pl.Series(margin), correct=pl.Series((margin > 0).astype(np.float32)))
        answer = pl.when(pl.col("correct") == 1).then("label").otherwise("other").alias("answer")
        run.write_part(step, answers.with_columns(answer))
        loss = round(0.2 + 0.5 * float(np.exp(-k / 12)), 4)
        log.append({"step": step, "loss": loss, "seconds": 2.5 * k, "items_per_second": 400})
    (run.folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in log), encoding="utf-8")
    environment = {"versions": {"breadth": "simulated"}, "hardware": {"device": "none: the answers are simulated"}}
    run.store.write(f"{run.key}/environment.json", sealed(environment))


def _write_study(store: StudyStore, testsets: Sequence[str], models: Sequence[str], runs: int) -> None:
    text = (
        "name: simulated\n"
        f"description: {runs} simulated fine-tuning runs on generated inference sets\n"
        f"models: [{', '.join(models)}]\n"
        f"train: {{set: {testsets[0]}, examples: 128}}\n"
        "recipe: {method: lora, rank: 8, lr: 0.001}\n"
        f"evaluate: {{every: 16, on: [{', '.join(testsets)}]}}\n"
    )
    store.write_study(text)
