"""`breadth difficulty profile`, `breadth difficulty sample` and `breadth difficulty versus`."""

import numpy as np
import polars as pl


def test_profile(breadth, answers, calibration, tmp_path):
    out = breadth(
        "difficulty", "profile", answers, "--calibration", calibration, "--subjects", "m1,m2", "--levels", 4, "--out",
        tmp_path / "p.csv", "--figure", tmp_path / "p.svg",
    )  # fmt: skip
    assert "m1 minus m2" in out.stdout
    assert out.stdout.startswith("Where do models differ")
    assert {path.name for path in tmp_path.iterdir()} == {"p.csv", "p.differences.csv", "p.svg"}
    wide = breadth("difficulty", "profile", answers, "--calibration", calibration)
    assert max(map(len, wide.stdout.splitlines())) <= 100


def test_sample(breadth, calibration, tmp_path):
    pl.DataFrame({"item": [f"q{j}" for j in range(40)]}).write_csv(tmp_path / "items.csv")
    out = breadth(
        "difficulty", "sample", tmp_path / "items.csv", "--calibration", calibration, "--strategy", "spiral", "--n", 12,
        "--out", tmp_path / "train.jsonl",
    )  # fmt: skip
    assert "12 of 40 questions" in out.stdout
    assert max(map(len, out.stdout.splitlines())) <= 100 + len(str(tmp_path))
    assert pl.read_ndjson(tmp_path / "train.jsonl").height == 12
    refused = breadth("difficulty", "sample", tmp_path / "items.csv", "--calibration", calibration, "--n", 99, ok=False)
    assert refused.returncode == 2
    assert "can draw 1 to 40" in refused.stderr


def test_difficulty_vs(breadth, calibration, tmp_path):
    items = pl.DataFrame({"item": [f"q{j}" for j in range(40)], "question": ["x" * (j + 1) for j in range(40)]})
    items.write_csv(tmp_path / "items.csv")
    out = breadth("difficulty", "versus", calibration, "--items", tmp_path / "items.csv", "--measures", "length")
    assert "question_length" in out.stdout


def test_gains_by_level(breadth, tmp_path):
    generator = np.random.default_rng(0)
    rows = [
        {"train_level": level, "seed": seed, "item": f"i{i}", "level": i % 3, "correct": int(generator.random() < 0.6)}
        for level in ("", "0", "1", "2")
        for seed in (0, 1)
        for i in range(60)
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "answers.csv")
    out = breadth("transfer", tmp_path / "answers.csv", "--out", tmp_path / "c.csv", "--figure", tmp_path / "c.svg")
    words = " ".join(out.stdout.split())
    assert words.startswith("Does training on one level of difficulty help on the others? Not enough data.")
    assert words.index("test questions") < words.index("Gain in points by test level")
    assert pl.read_csv(tmp_path / "c.csv").height == 9
    assert (tmp_path / "c.best.csv").exists()
    refused = breadth("transfer", tmp_path / "c.csv", ok=False)
    assert refused.returncode == 2
    assert "c.csv: " in refused.stderr
    assert "Traceback" not in refused.stderr
