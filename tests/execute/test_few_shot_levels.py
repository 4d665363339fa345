"""Examples in the prompt from one level of difficulty, held out from the test items."""

import polars as pl
import pytest
import yaml

from breadth.errors import InputError
from breadth.execute import plan_study, run
from breadth.execute.data import fewshot_prefix
from breadth.level_transfer import transfer
from breadth.sources import open_study
from breadth.study import expand, read_study_file, start_key

from .cluster.in_process import run_in_process
from .conftest import parts


@pytest.fixture
def write(tmp_path, tiny):
    """Write a study of an own set with a column of difficulty; ``train`` and ``recipe`` add keys."""
    rows = [{"item": f"i{k:02d}", "claim": f"claim number {k}", "hard": k, "label": "yn"[k % 2]} for k in range(60)]
    pl.DataFrame(rows).write_csv(tmp_path / "own.csv")

    def make(models=None, **train):
        keys = {
            "name": "s",
            "models": models or str(tiny),
            "train": {"set": "own", "seeds": [0, 1], "difficulty": {"column": "hard"}, **train},
            "recipe": {"method": "few-shot", "num_fewshot": 3},
            "evaluate": {"on": ["own"]},
            "sets": {
                "own": {"file": "own.csv", "item": "item", "pattern": "{claim}?", "answers": {"y": " Yes", "n": " No"}}
            },
        }
        path = tmp_path / "study.yaml"
        path.write_text(yaml.safe_dump(keys))
        return path

    return make


def test_one_run_for_every_level_and_strategy(write, tmp_path):
    file = read_study_file(write(levels=3, strategies=["easy"]))
    runs = expand(file)
    assert [(each.seed, each.train_level, each.strategy) for each in runs[:4]] == [
        (0, 0, None), (0, 1, None), (0, 2, None), (0, None, "easy"),
    ]  # fmt: skip
    assert len({each.name for each in runs}) == len({start_key(each) for each in runs}) == 8
    data = plan_study(file, tmp_path / "s").study_data
    test = data.testsets["own"].frame
    for each in runs:
        drawn = data.training(each).frame
        assert drawn.height == 3
        assert not set(drawn["item"]) & set(test["item"])
        if each.train_level is not None:
            assert set(drawn["level"]) == {each.train_level}
        assert all(claim in fewshot_prefix(each, data) for claim in drawn["claim"])
    assert set(test["level"]) == {0, 1, 2}


def test_some_levels_only(write):
    assert [each.train_level for each in expand(read_study_file(write(levels=3, train_levels=[0, 2], seeds=0)))] == [
        0,
        2,
    ]


def test_without_levels_nothing_changes(write):
    runs = expand(read_study_file(write()))
    assert [(each.seed, each.train_level, each.strategy, each.difficulty) for each in runs] == [
        (0, None, None, None), (1, None, None, None),
    ]  # fmt: skip


@pytest.mark.slow
def test_runs_are_the_same_on_workers_and_after_a_stop(write, tmp_path):
    path = write(levels=2, seeds=0)
    run(path, into=tmp_path / "local")
    measured = open_study(tmp_path / "local")
    assert measured.subjects["train_level"].to_list() == [0, 1]
    assert measured.margin[0].tolist() != measured.margin[1].tolist()
    whole = parts(tmp_path / "local")
    outcome, _, _ = run_in_process(path, tmp_path / "workers", workers=2)
    assert not outcome.failed
    assert parts(tmp_path / "workers") == whole
    (tmp_path / "local" / next(iter(whole))).unlink()
    run(path, into=tmp_path / "local")
    assert parts(tmp_path / "local") == whole


def test_transfer_compares_with_the_model_without_examples(write, tmp_path, tiny):
    zero = {"name": str(tiny), "recipe": {"method": "zero-shot"}}
    run(write([str(tiny), zero], levels=2, seeds=[0, 1]), into=tmp_path / "s")
    measured = open_study(tmp_path / "s")
    cells = transfer(measured).cells
    assert cells["train_level"].unique().sort().to_list() == [0, 1]
    levels = measured.subjects["train_level"]
    base = measured.correct[levels.is_null().to_numpy()].mean()
    for level in (0, 1):
        own = cells.filter(train_level=level)
        gain = (own["gain"] * own["n_items"]).sum() / own["n_items"].sum()
        expected = measured.correct[(levels == level).fill_null(False).to_numpy()].mean() - base
        assert gain == pytest.approx(expected, abs=1e-6)


def test_transfer_needs_the_model_without_examples(write, tmp_path):
    run(write(levels=2, seeds=0), into=tmp_path / "s")
    with pytest.raises(InputError, match="method: zero-shot"):
        transfer(open_study(tmp_path / "s"))
