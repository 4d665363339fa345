import numpy as np
import polars as pl
import pytest

from breadth.datasets import simulate_answers


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    path = tmp_path_factory.mktemp("answers") / "answers.npz"
    found = simulate_answers(300, 40)
    np.savez(path, R=found.matrix, models=[f"m{i}" for i in range(300)], items=[f"q{j}" for j in range(40)])
    return path


@pytest.fixture(scope="module")
def calibration(breadth, answers):
    breadth("calibrate", answers, "--model", "2pl", "--out", answers.with_name("cal.parquet"))
    return answers.with_name("cal.parquet")


def test_calibrate_writes_and_draws(breadth, answers, tmp_path):
    out = breadth(
        "calibrate", answers, "--levels", 5, "--stability", "--copies", "weigh", "--curves", "q1,q2",
        "--profiles", "m1", "--out", tmp_path / "cal.csv", "--figure", tmp_path / "map.svg",
    )  # fmt: skip
    assert "Rasch (1PL) on 300 subjects x 40 items" in " ".join(out.stdout.split())
    assert "Levels from two samples" in out.stdout
    assert max(len(line) for line in out.stdout.splitlines() if not line.startswith("wrote")) <= 100
    assert {p.name for p in tmp_path.iterdir()} == {"cal.csv", "cal.subjects.csv", "cal.fit.csv", "map.svg"}
    assert pl.read_csv(tmp_path / "cal.csv").height == 40


def test_ability_and_levels(breadth, answers, calibration, tmp_path):
    breadth("ability", answers, "--with", calibration, "--out", tmp_path / "a.csv")
    assert pl.read_csv(tmp_path / "a.csv").height == 300
    out = breadth("levels", calibration, "--n", 4, "--out", tmp_path / "l.csv")
    assert "Difficulty levels" in out.stdout
    assert pl.read_csv(tmp_path / "l.csv")["level"].n_unique() == 4


def test_difficulty_vs(breadth, calibration, tmp_path):
    items = pl.DataFrame({"item": [f"q{j}" for j in range(40)], "question": ["x" * (j + 1) for j in range(40)]})
    items.write_csv(tmp_path / "items.csv")
    out = breadth("difficulty-vs", calibration, "--items", tmp_path / "items.csv", "--measures", "length")
    assert "question_length" in out.stdout


def test_anchor(breadth, answers, calibration, tmp_path):
    pl.read_parquet(calibration).head(25).write_csv(tmp_path / "anchor.csv")
    breadth("calibrate", answers, "--model", "2pl", "--anchor", tmp_path / "anchor.csv", "--out", tmp_path / "new.csv")
    old, new = pl.read_parquet(calibration)["difficulty"], pl.read_csv(tmp_path / "new.csv")["difficulty"]
    assert np.allclose(old[:25], new[:25])
    assert np.corrcoef(old[25:], new[25:])[0, 1] > 0.98
    all_known = breadth("calibrate", answers, "--model", "2pl", "--anchor", calibration, ok=False)
    assert all_known.returncode == 2
    assert "nothing to calibrate" in all_known.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["calibrate", "nothing.npz"], "there is no such file"),
        (["calibrate", "ANSWERS", "--levels", "1"], "--levels is 1"),
        (["calibrate", "ANSWERS", "--priors", "nothing.json"], "priors are"),
        (["calibrate", "ANSWERS", "--anchor", "nothing.parquet"], "there is no such file"),
        (["calibrate", "ANSWERS", "--figure", "x.txt"], "cannot tell the format"),
        (["calibrate", "ANSWERS", "--curves", "zz", "--figure", "x.svg"], "no item zz"),
        (["ability", "ANSWERS", "--with", "nothing.csv"], "there is no such file"),
        (["levels", "ANSWERS"], "is no calibration"),
    ],
)
def test_bad_input(breadth, answers, arguments, message):
    out = breadth(*(answers if argument == "ANSWERS" else argument for argument in arguments), ok=False)
    assert out.returncode == 2
    assert message in out.stderr
    assert "Traceback" not in out.stderr


def test_profile_and_sample(breadth, answers, calibration, tmp_path):
    out = breadth(
        "profile", answers, "--calibration", calibration, "--subjects", "m1,m2", "--levels", 4, "--out",
        tmp_path / "p.csv", "--figure", tmp_path / "p.svg",
    )  # fmt: skip
    assert "m1 minus m2" in out.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"p.csv", "p.differences.csv", "p.svg"}
    wide = breadth("profile", answers, "--calibration", calibration)
    assert max(map(len, wide.stdout.splitlines())) <= 100
    pl.DataFrame({"item": [f"q{j}" for j in range(40)]}).write_csv(tmp_path / "items.csv")
    out = breadth(
        "sample", tmp_path / "items.csv", "--calibration", calibration, "--strategy", "spiral", "--n", 12, "--describe",
        "--out", tmp_path / "train.jsonl",
    )  # fmt: skip
    assert "12 items drawn by strategy spiral" in out.stdout
    assert max(map(len, out.stdout.splitlines())) <= 100 + len(str(tmp_path))
    assert pl.read_ndjson(tmp_path / "train.jsonl").height == 12
    refused = breadth("sample", tmp_path / "items.csv", "--calibration", calibration, "--n", 99, ok=False)
    assert refused.returncode == 2
    assert "can draw 1 to 40" in refused.stderr


def test_cross(breadth, tmp_path):
    generator = np.random.default_rng(0)
    rows = [
        {"train_level": way, "seed": seed, "item": f"i{i}", "level": i % 3, "correct": int(generator.random() < 0.6)}
        for way in ("", "0", "1", "2")
        for seed in (0, 1)
        for i in range(60)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "answers.csv")
    out = breadth("cross", tmp_path / "answers.csv", "--out", tmp_path / "c.csv", "--figure", tmp_path / "c.svg")
    assert "Of 9 cells (train level x test level)" in " ".join(out.stdout.split())
    assert pl.read_csv(tmp_path / "c.csv").height == 9
    assert (tmp_path / "c.best.csv").exists()
    refused = breadth("cross", tmp_path / "c.csv", ok=False)
    assert refused.returncode == 2
    assert "no column 'item'" in refused.stderr
