import numpy as np
import polars as pl


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
    assert words.startswith("Not enough data: whether training on one level helps on the others is open: 0 of 6 cells")
    assert words.index("times as many test items") < words.index("Gain in points by test level")
    assert words.index("Gain in points by test level") < words.index("Of all 9 cells")
    assert pl.read_csv(tmp_path / "c.csv").height == 9
    assert (tmp_path / "c.best.csv").exists()
    refused = breadth("transfer", tmp_path / "c.csv", ok=False)
    assert refused.returncode == 2
    assert "c.csv: " in refused.stderr
    assert "Traceback" not in refused.stderr
