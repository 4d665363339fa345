"""`breadth profile`, `breadth sample` and `breadth difficulty-vs`."""

import polars as pl


def test_profile(breadth, answers, calibration, tmp_path):
    out = breadth(
        "profile", answers, "--calibration", calibration, "--subjects", "m1,m2", "--levels", 4, "--out",
        tmp_path / "p.csv", "--figure", tmp_path / "p.svg",
    )  # fmt: skip
    assert "m1 minus m2" in out.stdout
    assert out.stdout.startswith(
        ("Yes: m1 and m2 differ", "It depends: m1 and m2", "Not enough data: m1 and m2 do not")
    )
    assert {path.name for path in tmp_path.iterdir()} == {"p.csv", "p.differences.csv", "p.svg"}
    wide = breadth("profile", answers, "--calibration", calibration)
    assert max(map(len, wide.stdout.splitlines())) <= 100


def test_sample(breadth, calibration, tmp_path):
    pl.DataFrame({"item": [f"q{j}" for j in range(40)]}).write_csv(tmp_path / "items.csv")
    out = breadth(
        "sample", tmp_path / "items.csv", "--calibration", calibration, "--strategy", "spiral", "--n", 12, "--describe",
        "--out", tmp_path / "train.jsonl",
    )  # fmt: skip
    assert "12 of 40 items" in out.stdout
    assert max(map(len, out.stdout.splitlines())) <= 100 + len(str(tmp_path))
    assert pl.read_ndjson(tmp_path / "train.jsonl").height == 12
    refused = breadth("sample", tmp_path / "items.csv", "--calibration", calibration, "--n", 99, ok=False)
    assert refused.returncode == 2
    assert "can draw 1 to 40" in refused.stderr


def test_difficulty_vs(breadth, calibration, tmp_path):
    items = pl.DataFrame({"item": [f"q{j}" for j in range(40)], "question": ["x" * (j + 1) for j in range(40)]})
    items.write_csv(tmp_path / "items.csv")
    out = breadth("difficulty-vs", calibration, "--items", tmp_path / "items.csv", "--measures", "length")
    assert "question_length" in out.stdout
