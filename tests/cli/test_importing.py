"""`breadth import`, `breadth export`, and every verb on what was imported."""

import json
import os

import polars as pl
import pytest

from ..sources.conftest import write_checkpoints, write_lm_eval


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Twelve checkpoints of three models on three test sets."""
    folder = tmp_path_factory.mktemp("checkpoints") / "logs"
    return write_checkpoints(folder, steps=range(100, 1300, 100), testsets=("home", "away", "abroad"), items=20)


@pytest.fixture(scope="module")
def imported(breadth, logs):
    breadth("import", logs, "--into", logs.with_name("imported"))
    return logs.with_name("imported")


@pytest.fixture
def few(tmp_path):
    write_lm_eval(tmp_path / "logs", "lab/a", {"home": {"acc": [1, 0, 1], "acc_norm": [1, 1, 1]}, "away": [1, 0]})
    write_lm_eval(tmp_path / "logs", "lab/b", {"home": {"acc": [0, 0, 1], "acc_norm": [0, 1, 1]}, "away": [1, 1]})
    (tmp_path / "logs" / "notes.md").write_text("no log")
    return tmp_path / "logs"


def words(out):
    return " ".join(out.stdout.split())


def refused(out):
    """The one message of a command that was refused."""
    assert out.returncode == 2, out.stdout + out.stderr
    assert "Traceback" not in out.stderr
    assert out.stderr.startswith("breadth: ")
    return out.stderr


def test_import_says_what_it_did(breadth, few, tmp_path):
    out = breadth("import", few, "--into", tmp_path / "answers")
    shown = words(out)
    for part in (
        "a 5 0.500 0.667",
        "home acc 2 3 3",
        "acc: default; there is also acc_norm (home).",
        "not a log of a known format",
        "2 models and 2 test sets with 5 questions and 10 answers, from 4 logs of lm-evaluation-harness.",
        "Compared with the answers: the means in 4 logs.",
    ):
        assert part in shown
    assert out.stdout.endswith(f"wrote {tmp_path / 'answers'}\nnext: breadth report {tmp_path / 'answers'}\n")
    assert out.stderr == ""
    again = breadth("import", few, "--into", tmp_path / "answers")
    assert f"unchanged: {tmp_path / 'answers'}" in again.stdout
    assert "4 files had been imported before" in words(again)


def test_a_trial_writes_nothing(breadth, few, tmp_path):
    before = sorted(tmp_path.rglob("*"))
    for target in ((), ("--into", tmp_path / "answers")):
        out = breadth("import", few, "--dry-run", *target)
        assert "Nothing was written (--dry-run)." in out.stdout
        assert "from 4 logs of lm-evaluation-harness" in words(out)
    assert sorted(tmp_path.rglob("*")) == before


def test_options_reach_the_import(breadth, few):
    out = breadth("import", few, "--dry-run", "--metric", "acc_norm", "--no-texts", "--subject", f"base={few}/lab__a")
    assert "home acc_norm 2 3 3" in words(out)
    assert "acc_norm: asked for (home)." in words(out)
    assert "base 5" in words(out)


def test_two_logs_that_differ_need_a_choice(breadth, few, tmp_path):
    write_lm_eval(few, "lab/a", {"away": [0, 0]}, stamp="2026-02-01T00-00-00.000000")
    message = refused(breadth("import", few, "--into", tmp_path / "answers", ok=False))
    assert "hold different answers of 'lab/a' to 1 item of away; use --keep newest" in message
    assert not (tmp_path / "answers").exists()
    assert "2 models and" in words(breadth("import", few, "--dry-run", "--keep", "newest"))
    assert "3 models and" in words(breadth("import", few, "--dry-run", "--keep", "all"))


def test_warnings_are_on_standard_error(breadth, tmp_path):
    write_lm_eval(tmp_path / "logs", "m", {"home": [1, 0]}, stated={"acc,none": 0.9})
    out = breadth("import", tmp_path / "logs", "--dry-run")
    assert "the mean of acc over 2 answers to home is 0.5, but the log states 0.9" in out.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a directory for the answers with --into DIR (or try --dry-run)"),
        (("--into", "."), "holds other files"),
        (("--dry-run", "--format", "lmeval"), "choose auto, lm-eval"),
        (("--dry-run", "--format", "helm"), "no log with answers to single items"),
        (("--dry-run", "--metric", "acc_nrm"), "Did you mean acc_norm"),
        (("--dry-run", "--epochs", "all"), "choose mean or each"),
        (("--dry-run", "--keep", "oldest"), "choose newest or all"),
        (("--dry-run", "--subject", "base"), "write NAME=PATH"),
        (("--dry-run", "--subject", "base=nowhere"), "no log was read there"),
        (("--dry-run", "--step-from", "step"), "needs one group for the digits"),
    ],
)
def test_wrong_options_are_one_message(breadth, few, monkeypatch, arguments, message):
    monkeypatch.chdir(few)
    said = refused(breadth("import", few, *arguments, ok=False))
    assert message in said
    assert said.count("\n") == 1


def test_where_scores_of_checkpoints_are_imported_now(breadth, few):
    said = refused(breadth("import", "trajectories", few, ok=False))
    assert "breadth import-scores" in said
    assert said.count("\n") == 1


def test_no_logs(breadth, tmp_path):
    (tmp_path / "empty").mkdir()
    said = refused(breadth("import", tmp_path / "empty", "--into", tmp_path / "new", ok=False))
    assert "no files. Looked for " in said
    (tmp_path / "empty" / "a.txt").write_text("text")
    said = refused(breadth("import", tmp_path / "empty", "--dry-run", ok=False))
    assert "a.txt: not a log of a known format. Looked for " in said
    assert "lm-eval" in said
    assert "no such file or directory" in refused(breadth("import", tmp_path / "none", "--dry-run", ok=False))


def test_patterns_and_names_that_are_not_utf_8(breadth, few, tmp_path):
    few = few.rename(few.with_name(os.fsdecode(b"logs\xff")))
    out = breadth("import", tmp_path / "logs*" / "lab__*", "--into", tmp_path / "answers")
    assert "from 4 logs" in words(out)
    assert "4 files had been imported before" in words(breadth("import", few, "--into", tmp_path / "answers"))
    said = refused(breadth("import", few, "--metric", "acc_nrm", "--dry-run", ok=False))
    assert "Did you mean acc_norm" in said
    said = refused(breadth("import", few / "*.eval", "--dry-run", ok=False))
    assert "logs\\xff/*.eval: no such file" in said


def test_damaged_logs_are_all_named(breadth, few, tmp_path):
    for path in few.glob("lab__a/samples*"):
        path.write_text(path.read_text()[:-9])
    said = refused(breadth("import", few, "--into", tmp_path / "answers", ok=False))
    assert said.count("samples_") == 2
    assert "line 3" in said
    assert not (tmp_path / "answers").exists()


def test_trajectories(breadth, logs, tmp_path):
    out = breadth("import-scores", logs, "--out", tmp_path / "scores.parquet")
    assert "3 runs, 36 checkpoints" in words(out)
    frame = pl.read_parquet(tmp_path / "scores.parquet")
    assert frame.shape[0] == 36
    assert {"run", "step", "home", "away", "abroad"} <= set(frame.columns)
    shown = breadth("correlate", tmp_path / "scores.parquet", "--control", "home", "--by", "run", "--order", "step")
    assert "away" in shown.stdout
    before = sorted(tmp_path.iterdir())
    breadth("import-scores", logs, "--dry-run")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a table to write with --out"),
        (("--out", "nowhere/at/all.csv"), "there is no directory"),
    ],
)
def test_wrong_options_of_trajectories(breadth, logs, arguments, message):
    assert message in refused(breadth("import-scores", logs, *arguments, ok=False))


def test_export_and_import_again(breadth, imported, tmp_path):
    for to, name in (("parquet", "a.parquet"), ("csv", "a.csv"), ("npz", "a.npz"), ("eee", "eee")):
        out = breadth("export", imported, "--to", to, "--out", tmp_path / name)
        assert f"wrote {tmp_path}" in out.stdout
    assert pl.read_csv(tmp_path / "a.csv").shape[0] == pl.read_parquet(tmp_path / "a.parquet").shape[0] == 36 * 60
    for name in ("a.parquet", "eee"):
        out = breadth("import", tmp_path / name, "--dry-run")
        assert "36 models and 3 test sets with 60 questions and 2,160 answers" in words(out)
    assert "choose" in refused(breadth("export", imported, "--to", "xlsx", "--out", tmp_path / "a.xlsx", ok=False))


def test_scores_of_imported_checkpoints(breadth, imported, tmp_path):
    breadth("scores", imported, "--out", tmp_path / "scores.csv")
    assert pl.read_csv(tmp_path / "scores.csv").height == 36 * 3


def test_correlation_of_imported_checkpoints(breadth, imported, tmp_path):
    breadth("correlate", imported, "--control", "home", "--by", "run", "--order", "step", "--out", tmp_path / "c.csv")
    pairs = pl.read_csv(tmp_path / "c.csv")
    assert sorted(pairs["run"]) == ["a", "b", "c"]
    assert pairs["n"].to_list() == [12] * 3
    assert {tuple(sorted(pair)) for pair in pairs.select("a", "b").rows()} == {("abroad", "away")}


def test_calibration_and_profile_of_imported_answers(breadth, imported, tmp_path):
    out = breadth("calibrate", imported, "--out", tmp_path / "cal.parquet")
    assert "60 questions" in words(out)
    assert pl.read_parquet(tmp_path / "cal.parquet").height == 60
    shown = breadth(
        "difficulty", "profile", imported, "--calibration", tmp_path / "cal.parquet", "--subjects", "a/100,a/1200"
    )
    assert "a/1200" in shown.stdout


def test_report_of_imported_answers(breadth, imported, tmp_path):
    breadth("report", imported, "--out", tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    breadth("report", imported, "--out", tmp_path / "r.json", "--format", "json")
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["name"] == "imported"


def test_report_of_models_without_checkpoints(breadth, few, tmp_path):
    breadth("import", few, "--into", tmp_path / "answers")
    breadth("report", tmp_path / "answers", "--out", tmp_path / "r.html")
    assert "Question 0 of home" in (tmp_path / "r.html").read_text()


def test_a_damaged_directory_is_refused_by_every_verb(breadth, few, tmp_path):
    into = tmp_path / "answers"
    breadth("import", few, "--into", into)
    next(into.glob("items.*")).unlink()
    for verb in (("report", into), ("scores", into), ("calibrate", into), ("import", few, "--into", into)):
        assert "is missing; delete the directory and run `breadth import` again" in refused(breadth(*verb, ok=False))
