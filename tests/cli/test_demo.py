def test_simulated_demo(breadth, tmp_path):
    out = breadth("demo", "--simulated", "--into", tmp_path / "demo")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        "scores.csv", "pairs.csv", "pairs.heterogeneity.csv", "pairs.similarity.csv", "figure.html", "figure.png",
        "answers.npz", "calibration.parquet", "calibration.subjects.parquet", "calibration.fit.parquet",
        "map.html", "map.png",
    }  # fmt: skip
    assert "Of 90 correlations" in " ".join(out.stdout.split())
    assert "q07" in out.stderr
    (tmp_path / "file").write_text("")
    assert breadth("demo", "--into", tmp_path / "file", ok=False).returncode == 2
