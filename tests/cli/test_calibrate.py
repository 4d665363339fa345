import numpy as np
import polars as pl
import pytest


def test_calibrate_writes_and_draws(breadth, answers, tmp_path):
    out = breadth(
        "calibrate", answers, "--levels", 5, "--stability", "--copies", "weigh",
        "--out", tmp_path / "cal.csv", "--figure", tmp_path / "map.svg",
    )  # fmt: skip
    assert "These 40 questions" in " ".join(out.stdout.split())
    assert "How many models does it take for stable levels?" in out.stdout
    assert max(len(line) for line in out.stdout.splitlines() if not line.startswith("wrote")) <= 100
    assert {p.name for p in tmp_path.iterdir()} == {"cal.csv", "cal.subjects.csv", "cal.fit.csv", "map.svg"}
    assert pl.read_csv(tmp_path / "cal.csv").height == 40


def test_ability_and_levels(breadth, answers, calibration, tmp_path):
    out = breadth("ability", answers, "--with", calibration, "--out", tmp_path / "a.csv")
    assert "How able is each model?" in out.stdout
    assert pl.read_csv(tmp_path / "a.csv").height == 300
    out = breadth("difficulty", "levels", calibration, "--n", 4, "--out", tmp_path / "l.csv")
    assert "How hard are the levels of difficulty?" in out.stdout
    assert pl.read_csv(tmp_path / "l.csv")["level"].n_unique() == 4


def test_anchor(breadth, answers, calibration, tmp_path):
    pl.read_parquet(calibration).head(25).write_csv(tmp_path / "anchor.csv")
    breadth("calibrate", answers, "--model", "2pl", "--anchor", tmp_path / "anchor.csv", "--out", tmp_path / "new.csv")
    old, new = pl.read_parquet(calibration)["difficulty"], pl.read_csv(tmp_path / "new.csv")["difficulty"]
    assert np.allclose(old[:25], new[:25])
    assert np.corrcoef(old[25:], new[25:])[0, 1] > 0.98
    all_known = breadth("calibrate", answers, "--model", "2pl", "--anchor", calibration, ok=False)
    assert all_known.returncode == 2
    assert "nothing to calibrate" in all_known.stderr


def test_a_directory_of_matrices_and_the_headline(breadth, tmp_path):
    """Two test sets on which subjects differ in the answer they prefer; chance is said on the command line."""
    generator = np.random.default_rng(5)
    prefers = generator.normal(0, 1.5, (80, 1))
    (tmp_path / "sets").mkdir()
    for name in ("snli", "hans"):
        chance = 1 / (1 + np.exp(-prefers * np.where(np.arange(30) % 2 == 0, 1, -1)))
        right = (generator.random(chance.shape) < chance).astype(np.int8)
        columns = {"model": [f"m{i}" for i in range(80)]} | {f"q{j}": right[:, j] for j in range(30)}
        pl.DataFrame(columns).write_csv(tmp_path / "sets" / f"{name}.csv")
    both = breadth("calibrate", tmp_path / "sets", "--model", "2pl", "--chance", 0.5, "--out", tmp_path / "c.csv")
    assert both.stderr.startswith("warning: these questions do not measure one ability")
    text = " ".join(both.stdout.split())
    assert "No. These 60 questions do not measure one ability" in text
    assert "wrong label" not in text + both.stderr
    assert pl.read_csv(tmp_path / "c.csv")["item"][0] == "hans / q0"
    one = breadth("calibrate", tmp_path / "sets", "--testset", "snli")
    assert "30 questions" in " ".join(one.stdout.split())


def test_names_of_other_tools_are_recognised_and_said(breadth, tmp_path):
    generator = np.random.default_rng(0)
    rows = [
        {"model": f"gpt-{i}", "task": "arc", "question_id": j, "is_correct": bool(generator.random() < 0.3 + 0.02 * i)}
        for i in range(20)
        for j in range(15)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "answers.csv")
    out = breadth("calibrate", tmp_path / "answers.csv")
    assert out.stderr.splitlines()[:2] == [
        "  20 models (model) x 15 items (question_id) of 1 test set (task); right or wrong: is_correct",
        "  wrong? rename columns to model, step, testset, item, correct",
    ]
    assert "15 questions" in " ".join(out.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["calibrate", "nothing.npz"], "no such file"),
        (["calibrate", "ANSWERS", "--chance", "25"], "--chance is 25; it lies between 0 and 1"),
        (["calibrate", "ANSWERS", "--levels", "1"], "--levels is 1"),
        (["calibrate", "ANSWERS", "--priors", "nothing.json"], "priors are"),
        (["calibrate", "ANSWERS", "--anchor", "nothing.parquet"], "no such file"),
        (["calibrate", "ANSWERS", "--figure", "x.txt"], "cannot tell the format"),
        (["ability", "ANSWERS", "--with", "nothing.csv"], "no such file"),
        (["difficulty", "levels", "ANSWERS"], "not a calibration"),
    ],
)
def test_bad_input(breadth, answers, arguments, message):
    out = breadth(*(answers if argument == "ANSWERS" else argument for argument in arguments), ok=False)
    assert out.returncode == 2
    assert message in out.stderr
    assert "Traceback" not in out.stderr
