"""What `breadth run` writes is what the verbs read: real runs of a tiny model."""

import polars as pl
import pytest

import breadth

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

PLAIN = """\
name: plain
models: {model}
train: {{set: plain, examples: 8, seeds: [0, 1]}}
recipe: {{steps: 9, batch: 4, lr: 0.01, device: cpu, dtype: float32}}
evaluate: {{on: [plain, negation, numbers], items: 40, every: 1}}
"""

LEVELS = """\
name: levels
models: {model}
train: {{set: own, examples: 4, seeds: [0, 1], difficulty: {{column: words}}, levels: 3, strategies: [easy, full]}}
recipe: {{steps: 3, batch: 4, lr: 0.01, device: cpu, dtype: float32}}
evaluate: {{on: [own, negation], items: 60, every: 3}}
sets:
  own:
    {{file: own.csv, kind: pattern, pattern: "{{premise}} Question: {{hypothesis}}?", answers: {{a: " Yes", b: " No"}}}}
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    from breadth.lm.tiny import write_tiny_model

    folder = tmp_path_factory.mktemp("real")
    model = write_tiny_model(folder / "tiny")
    words = [1 + i % 60 for i in range(240)]
    texts = {
        "premise": [f"{'very ' * n}long {i}" for i, n in enumerate(words)],
        "hypothesis": [f"it is {i}" for i in range(240)],
    }
    pl.DataFrame({**texts, "label": ["a", "b"] * 120, "words": words}).write_csv(folder / "own.csv")

    def make(name, text):
        path = folder / f"{name}.yaml"
        path.write_text(text.format(model=model))
        breadth.run(path, into=folder / name)
        return folder / name

    return make


@pytest.fixture(scope="module")
def plain(run):
    return run("plain-study", PLAIN)


@pytest.fixture(scope="module")
def levels(run):
    return run("levels-study", LEVELS)


def test_correlate(plain):
    result = breadth.correlate(plain)
    assert [warning for warning in result.warnings if "fewer than 15 rows" not in warning] == []
    assert result.trajectories.controls == ("plain",)
    assert result.pairs.select("a", "b").unique().rows() == [("negation", "numbers")]
    assert result.pairs["n"].to_list() == [10, 10]


def test_scores_and_bias(plain):
    """Answers are named as the prompts name them."""
    result = breadth.scores(plain)
    assert set(result.answers["answer"].unique()) == {"Yes", "No"}
    assert result.scores["auc"].is_between(0, 1).all()
    assert breadth.correlate(plain, score="auc").trajectories.controls == ("plain",)
    assert "bias" in breadth.correlate(plain, control=["plain", "bias"]).trajectories.controls


def test_calibrate_and_profile(plain):
    calibration = breadth.calibrate(plain, testset="negation")
    assert calibration.items["testset"].unique().to_list() == ["negation"]
    assert calibration.items["label"].null_count() == 0
    assert calibration.subjects.height == 2 * 10 - 1
    assert breadth.profile(plain, calibration, subjects="*/last", levels=2).levels["subject"].n_unique() == 2


def test_transfer(levels):
    result = breadth.transfer(levels)
    assert result.cells["train_level"].unique().sort().to_list() == [0, 1, 2]
    assert result.cells["n_seeds"].unique().to_list() == [2]
    assert result.cells["n_items"].unique().to_list() == [20]
    assert result.strategies.cells["strategy"].unique(maintain_order=True).to_list() == ["easy", "full"]
    assert result.cells.select("test_level", "baseline").unique().height == 3
    assert breadth.profile(levels, subjects="*level0*/last").levels["n"].unique().to_list() == [20]
