"""`breadth demo`: simulated, with its truth."""

import json


def test_demo_is_a_study_with_its_truth_and_a_report(breadth, tmp_path):
    out = breadth("demo", "--into", tmp_path / "demo", "--no-open")
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    assert names == {"study", "report.html", "scores.csv", "answers.npz"}
    text = " ".join(out.stdout.split())
    assert "Not enough data" not in text
    assert "findings in this report are true" in text
    page = (tmp_path / "demo" / "report.html").read_text()
    assert "Which findings are true?" in page
    truth = json.loads((tmp_path / "demo" / "study" / "truth.json").read_text())
    assert truth["fading"] is True
    again = breadth("demo", "--into", tmp_path / "demo", "--no-open")  # the same command again
    assert " ".join(again.stdout.split()) == text


def test_another_seed_is_not_mixed_in(breadth, tmp_path):
    breadth("demo", "--into", tmp_path / "demo", "--no-open")
    out = breadth("demo", "--into", tmp_path / "demo", "--no-open", "--seed", "1")
    assert "findings in this report are true" in " ".join(out.stdout.split())


def test_what_is_there_is_kept(breadth, tmp_path):
    (tmp_path / "file").write_text("")
    assert breadth("demo", "--into", tmp_path / "file", ok=False).returncode == 2
    (tmp_path / "own" / "study").mkdir(parents=True)
    (tmp_path / "own" / "study" / "notes.txt").write_text("mine")
    out = breadth("demo", "--into", tmp_path / "own", ok=False)
    assert out.returncode == 2
    assert "choose another directory with --into" in out.stderr
