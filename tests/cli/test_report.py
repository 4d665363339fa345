"""`breadth report` and `breadth view`."""

import json
import signal
import subprocess
import sys
import urllib.request

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
        (("--score", "f1"), "choose accuracy, auc, dprime, balanced, logscore"),
    ],
)
def test_bad_input_is_one_line(breadth, simulated_study, arguments, words):
    out = breadth("report", simulated_study.folder, *arguments, ok=False)
    assert out.returncode == 2
    assert words in out.stderr
    assert out.stderr.count("\n") == 1


def test_scores_of_a_study(breadth, simulated_study, tmp_path):
    breadth("scores", simulated_study.folder, "--out", tmp_path / "s.csv")
    assert {path.name for path in tmp_path.iterdir()} == {"s.csv", "s.changes.csv", "s.answers.csv"}
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 1 + 4 * 24 * 8


def test_another_score(breadth, simulated_study, tmp_path):
    breadth("report", simulated_study.folder, "--out", tmp_path / "r.json", "--score", "auc")
    report = json.loads((tmp_path / "r.json").read_text())
    breadth("correlate", simulated_study.folder, "--score", "auc", "--out", tmp_path / "pairs.json")
    pairs = json.loads((tmp_path / "pairs.json").read_text())
    assert [row["r"] for row in report["tables"]["pairs"]] == [row["r"] for row in pairs]
    options = ("--score", "auc", "--control", "bias", "--json")
    beside = json.loads(breadth("correlate", simulated_study.folder, *options).stdout)
    assert {row["a"] for row in beside["tables"]["pairs"]} == {row["a"] for row in pairs}
    assert [row["r"] for row in beside["tables"]["pairs"]] != [row["r"] for row in pairs]
    wrong = breadth("correlate", simulated_study.folder, "--score", "area", ok=False)
    assert wrong.returncode == 2
    assert "choose accuracy, auc, dprime, balanced, logscore" in wrong.stderr


def test_not_a_study(breadth, tmp_path):
    out = breadth("report", tmp_path, ok=False)
    assert out.returncode == 2
    assert "nothing to read" in out.stderr


def test_view_answers_until_it_is_stopped(simulated_study):
    command = [sys.executable, "-m", "breadth", "view", str(simulated_study.folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert "plain-study" in answer.read().decode()
    finally:
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=20)
    assert server.returncode == 0
    assert errors == ""


def test_view_of_a_file_is_refused(breadth, tmp_path):
    (tmp_path / "file").write_text("")
    out = breadth("view", tmp_path / "file", ok=False)
    assert out.returncode == 2
    assert "is not a directory" in out.stderr


@pytest.fixture(scope="module")
def demo(breadth, tmp_path_factory):
    """The directory of a demo, and what the command printed."""
    folder = tmp_path_factory.mktemp("demo") / "demo"
    out = breadth("demo", "--into", folder, "--no-open")
    return folder, " ".join(out.stdout.split())


def test_demo_is_a_study_with_its_truth_and_a_report(demo):
    folder, text = demo
    names = {path.name for path in folder.iterdir()}
    assert names == {"study", "report.html", "scores.csv", "answers.npz"}
    assert "Not enough data" not in text
    assert "findings in this report are true" in text
    page = (folder / "report.html").read_text()
    assert "Which findings are true?" in page
    truth = json.loads((folder / "study" / "truth.json").read_text())
    assert truth["fading"] is True


def test_a_demo_again_is_the_same_and_another_seed_is_not_mixed_in(breadth, demo):
    folder, text = demo
    other = breadth("demo", "--into", folder, "--no-open", "--seed", "1")
    assert "findings in this report are true" in " ".join(other.stdout.split())
    again = breadth("demo", "--into", folder, "--no-open")
    assert " ".join(again.stdout.split()) == text


def test_what_is_there_is_kept(breadth, tmp_path):
    (tmp_path / "file").write_text("")
    assert breadth("demo", "--into", tmp_path / "file", ok=False).returncode == 2
    (tmp_path / "own" / "study").mkdir(parents=True)
    (tmp_path / "own" / "study" / "notes.txt").write_text("mine")
    out = breadth("demo", "--into", tmp_path / "own", ok=False)
    assert out.returncode == 2
    assert "choose another directory with --into" in out.stderr
