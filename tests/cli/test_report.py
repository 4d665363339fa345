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
    ],
)
def test_bad_input_is_one_line(breadth, simulated_study, arguments, words):
    out = breadth("report", simulated_study.folder, *arguments, ok=False)
    assert out.returncode == 2
    assert words in out.stderr
    assert out.stderr.count("\n") == 1


def test_not_a_study(breadth, tmp_path):
    out = breadth("report", tmp_path, ok=False)
    assert out.returncode == 2
    assert "is not the directory of a study" in out.stderr


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


def test_view_needs_a_directory(breadth, tmp_path):
    out = breadth("view", tmp_path / "nothing", ok=False)
    assert out.returncode == 2
    assert "is not a directory" in out.stderr
