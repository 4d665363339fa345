import json

import pytest


def test_report_of_a_study(breadth, simulated_study, tmp_path):
    out = breadth("report", simulated_study.folder, "--out", tmp_path / "r.html")
    assert "wrote" in out.stdout
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    breadth("report", simulated_study.folder, "--out", tmp_path / "r.json", "--format", "json")
    assert json.loads((tmp_path / "r.json").read_text())["name"] == "simulated"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--format", "pdf"), "choose html, md or json"),
        (("--out", "nowhere/at/all.html"), "there is no directory"),
        (("--out", "r.docx"), "cannot tell the format"),
    ],
)
def test_mistakes_are_one_line(breadth, simulated_study, arguments, words):
    out = breadth("report", simulated_study.folder, *arguments, ok=False)
    assert out.returncode == 2
    assert words in out.stderr
    assert out.stderr.count("\n") == 1


def test_no_study(breadth, tmp_path):
    out = breadth("report", tmp_path, ok=False)
    assert out.returncode == 2
    assert "is not the directory of a study" in out.stderr
