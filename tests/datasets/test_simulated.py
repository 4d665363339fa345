import json
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

from breadth.datasets import simulate_study
from breadth.records.store import StudyStore
from breadth.sources import open_study


def test_a_study_like_a_real_one(simulated_study):
    study = open_study(simulated_study.folder)
    assert study.warnings == ()
    assert study.subjects["run"].n_unique() == 4
    assert study.subjects.height == 4 * 24
    assert set(study.subjects["model"]) == {"model-a", "model-b"}
    assert study.items["premise"].null_count() == 0
    scores = study.responses.collect().join(study.subjects, on="subject").filter(pl.col("testset") == "plain")
    ends = scores.filter(pl.col("step").is_in([0, scores["step"].max()])).group_by("step").agg(pl.col("correct").mean())
    before, after = ends.sort("step")["correct"]
    assert 0.35 < before < 0.6
    assert after > before + 0.2


def test_margins_and_answers_agree_with_right_and_wrong(simulated_study):
    study = open_study(simulated_study.folder)
    answers = study.responses.collect().join(study.items.select("item", "label"), on="item")
    assert ((answers["margin"] > 0) == (answers["correct"] == 1)).all()
    assert ((answers["answer"] == answers["label"]) == (answers["correct"] == 1)).all()


def test_wrong_labels_are_wrong(simulated_study):
    from breadth.datasets import generate

    items = open_study(simulated_study.folder).items.filter(pl.col("testset") == "plain")
    truth = generate("plain", items.height, seed=0).select("item", truth="label")
    turned = items.join(truth, on="item").filter(pl.col("label") != pl.col("truth"))["item"]
    assert sorted(turned) == sorted(name for name in simulated_study.wrong_labels if name.startswith("plain-"))


def test_the_seed_decides(tmp_path):
    one, two, three = (
        simulate_study(tmp_path / str(k), runs=1, checkpoints=2, items=20, testsets=("plain", "chat"), seed=seed)
        for k, seed in enumerate((3, 3, 4))
    )
    names = [
        sorted(path.name for path in (study.folder / "runs" / study.runs[0]).iterdir()) for study in (one, two, three)
    ]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize("key", ["train_level", "checkpoints"])
def test_runs_say_what_determines_them(levels_study, key):
    records = [run.record() for run in StudyStore(levels_study.folder).runs()]
    assert all(getattr(record, key) is not None for record in records)


def test_answer_bias_swings_in_all_shifted_sets_together(tmp_path):
    import breadth

    study = breadth.open(simulate_study(tmp_path / "s", runs=1, checkpoints=30, answer_bias=2.0, together=0.0).folder)
    scores = breadth.scores(study).scores
    shares, areas = (scores.pivot(on="testset", index="step", values=name) for name in ("share", "auc"))
    away = [name for name in shares.columns if name not in ("step", "plain")]
    together = np.corrcoef(shares.select(away).to_numpy().T)[np.triu_indices(len(away), 1)]
    assert together.min() > 0.8
    assert shares["chat"].max() - shares["chat"].min() > 0.6
    assert shares["plain"].std() < shares["chat"].std() / 2
    assert areas["chat"].std() < 0.15


def test_sets_of_a_simulated_study_may_differ_in_size(tmp_path):
    import breadth

    study = breadth.open(
        simulate_study(tmp_path / "s", runs=1, checkpoints=3, testsets=("plain", "chat"), items={"plain": 40}).folder
    )
    assert dict(study.items.group_by("testset").len().iter_rows()) == {"plain": 40, "chat": 200}


def test_fresh_items_make_noise_that_is_new_at_every_checkpoint(tmp_path):
    """With the same items, neighbouring checkpoints share most of their noise; with new ones, none of it."""
    import breadth

    steps = {}
    for fresh in (False, True):
        folder = tmp_path / str(fresh)
        simulate_study(folder, runs=1, checkpoints=40, testsets=("plain",), items=300, together=0.0, fresh_items=fresh)
        right = breadth.open(folder).correct
        repeated = np.array([np.corrcoef(now, then)[0, 1] for now, then in pairwise(right[20:])])
        steps[fresh] = repeated.mean()
    assert steps[False] > 0.3
    assert abs(steps[True]) < 0.2, "not 0, because items with wrong labels stay wrong"


def test_models_differ_where_their_seeds_do_not(tmp_path):
    truths = []
    for runs in (4, 8):
        simulate_study(
            tmp_path / str(runs), runs=runs, checkpoints=4, models=("a", "b", "c", "d"), together=0.3, spread=0.5
        )
        truth = json.loads((tmp_path / str(runs) / "truth.json").read_text())
        truths.append({(row["model"], row["sign"]) for row in truth["correlations"]})
    assert truths[0] == truths[1], "more seeds of the same models"
