"""A study that never ran, in a real study directory: for the docs of the report, tests and benchmarks."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.datasets.simulated import autoregressive
from breadth.datasets.suite import SETS, generate
from breadth.records import StudyStore, write_whole

Floats = npt.NDArray[np.float64]

#: Test sets of a simulated study: one in-domain, and shifts of every other kind.
STUDY_SETS = ("plain", "formal", "chat", "science", "negation", "word_order", "numbers", "chains")

MODELS = ("model-a", "model-b")

#: One item in this many has its label turned round, so that there are wrong labels to find.
ONE_WRONG_IN = 50


class SimulatedStudy(NamedTuple):
    """Where the study is, its runs in order, and the items whose labels are wrong on purpose."""

    folder: Path
    runs: tuple[str, ...]
    wrong_labels: tuple[str, ...]


def simulate_study(
    folder: str | os.PathLike[str],
    runs: int = 6,
    checkpoints: int = 41,
    testsets: Sequence[str] = STUDY_SETS,
    items: int = 200,
    seed: int = 0,
    train_levels: int | None = None,
    models: Sequence[str] = MODELS,
) -> SimulatedStudy:
    """Write the directory of a study whose truth is known.

    Models take turns over ``runs``. In-domain accuracy (``plain``) rises from about .5 to about .8; other sets follow
    it in part, each by a share of its own, and fluctuate besides: sets of the same half of the list together, the two
    halves together in the first model and against each other in the second. Every item has a difficulty and a place
    in ``level`` (five levels); one in fifty has a wrong label. With ``train_levels``, a run trains on one level and
    gains less on items far from it.
    """
    generator = np.random.default_rng(seed)
    store = StudyStore(Path(folder))
    frames = [_items(name, items, generator, train_levels or 5) for name in testsets]
    for name, frame in zip(testsets, frames, strict=True):
        store.write_items(name, frame.drop("wrong"))
    everything = pl.concat(frames)
    steps = [16 * k for k in range(checkpoints)]
    carried = generator.uniform(0.25, 0.9, len(testsets))
    carried[0] = 1.0
    wobble = _fluctuations(generator, runs, checkpoints, len(testsets), len(models))
    names = []
    for index in range(runs):
        model = index % len(models)
        level = None if train_levels is None else (index // len(models)) % train_levels
        spec = {
            "model": models[model],
            "train_set": testsets[0],
            "shots": 128,
            "seed": index // (len(models) * (train_levels or 1)),
            "train_level": level,
            "strategy": None,
            "method": "lora",
            "recipe": {"method": "lora", "rank": 8, "lr": 0.001},
            "evaluate": {"on": list(testsets), "every": 16},
            "checkpoints": steps,
        }
        names.append(f"{models[model]}-{index:02d}")
        margins = _margins(
            generator, everything, carried * (1 - 0.15 * model), wobble[index], checkpoints, level, items
        )
        _write_run(store, names[-1], spec, everything, margins)
    _write_study(store.folder, testsets, models, runs)
    wrong = everything.filter("wrong")["item"].to_list()
    return SimulatedStudy(store.folder, tuple(names), tuple(wrong))


def _items(name: str, count: int, generator: np.random.Generator, levels: int) -> pl.DataFrame:
    known = name in SETS
    frame = generate(name if known else "plain", count, seed=0)
    if not known:
        frame = frame.with_columns(testset=pl.lit(name), shift=pl.lit("domain"), item=name + "-" + pl.col("item"))
    difficulty = generator.standard_normal(count)
    level = np.argsort(np.argsort(difficulty)) * levels // count
    wrong = np.arange(count) % ONE_WRONG_IN == ONE_WRONG_IN // 2
    turned = pl.when(pl.col("wrong")).then(_other("label")).otherwise(pl.col("label"))
    return (
        frame.drop("pair", "steps")
        .with_columns(difficulty=pl.Series(difficulty), level=pl.Series(level, dtype=pl.Int64), wrong=pl.Series(wrong))
        .with_columns(label=turned)
    )


def _other(column: str) -> pl.Expr:
    return pl.when(pl.col(column) == "entailment").then(pl.lit("not_entailment")).otherwise(pl.lit("entailment"))


def _fluctuations(generator: np.random.Generator, runs: int, steps: int, sets: int, models: int) -> Floats:
    half = np.arange(sets) < sets / 2
    sign = np.where(np.arange(runs) % models == 0, 0.45, -0.45)
    correlation = np.where(half[:, None] == half[None, :], 0.7, sign[:, None, None])
    correlation[:, np.arange(sets), np.arange(sets)] = 1.0
    return 0.22 * autoregressive(generator, runs, steps, correlation, 0.5)


def _margins(
    generator: np.random.Generator,
    items: pl.DataFrame,
    carried: Floats,
    wobble: Floats,
    checkpoints: int,
    level: int | None,
    per_set: int,
) -> Floats:
    """Log-odds of the true answer [checkpoint, item]: what was learnt less difficulty, with noise that mostly stays."""
    learnt = 1.35 * (1 - np.exp(-3.5 * np.linspace(0, 1, checkpoints)))
    ability = learnt[:, None] * carried + wobble * np.minimum(1, 0.3 + learnt[:, None])
    ability[0] = wobble[0] * 0.3
    near = np.ones(items.height)
    if level is not None:
        near = 0.35 + 0.9 * np.exp(-np.abs(items["level"].to_numpy() - level) / 1.5)
    ability = np.repeat(ability, per_set, axis=1) * near
    stays = generator.standard_normal(items.height)
    passing = generator.standard_normal((checkpoints, items.height))
    margins: Floats = 1.6 * (ability - 0.9 * items["difficulty"].to_numpy() + 0.6 * stays + 0.5 * passing)
    return np.where(items["wrong"].to_numpy(), -margins - 1.2 * ability, margins)


def _write_run(store: StudyStore, name: str, spec: dict[str, Any], items: pl.DataFrame, margins: Floats) -> None:
    run = store.run(name)
    run.write_spec(spec)
    base = items.select("testset", "item", "label", other=_other("label"))
    for step, margin in zip(spec["checkpoints"], margins, strict=True):
        answers = base.with_columns(margin=pl.Series(margin), correct=pl.Series((margin > 0).astype(np.float32)))
        answer = pl.when(pl.col("correct") == 1).then("label").otherwise("other").alias("answer")
        run.write_part(step, answers.with_columns(answer))
    losses = [
        {
            "step": step,
            "loss": round(0.2 + 0.5 * float(np.exp(-k / 12)), 4),
            "seconds": 2.5 * k,
            "items_per_second": 400,
        }
        for k, step in enumerate(spec["checkpoints"])
    ]
    lines = "".join(json.dumps(row) + "\n" for row in losses)
    (run.folder / "log.jsonl").write_text(lines, encoding="utf-8")
    environment = {"versions": {"breadth": "simulated"}, "hardware": {"device": "none: the answers are simulated"}}
    (run.folder / "environment.json").write_text(json.dumps(environment, indent=1), encoding="utf-8")


def _write_study(folder: Path, testsets: Sequence[str], models: Sequence[str], runs: int) -> None:
    text = (
        "name: simulated\n"
        f"description: {runs} simulated fine-tuning runs on generated inference sets\n"
        f"models: [{', '.join(models)}]\n"
        f"train: {{set: {testsets[0]}, shots: 128}}\n"
        "recipe: {method: lora, rank: 8, lr: 0.001}\n"
        f"evaluate: {{every: 16, on: [{', '.join(testsets)}]}}\n"
    )
    write_whole(folder / "study.yaml", lambda path: path.write_text(text, encoding="utf-8"))
