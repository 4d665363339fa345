"""The verbs on a study's directory, as a user calls them."""

import json
import shutil
import subprocess
import sys

import polars as pl
import pytest

from breadth.records.store import StudyStore


@pytest.fixture(scope="module")
def study(write_study, tmp_path_factory):
    runs = [{"model": model, "seed": seed, "train_level": k} for model in "mn" for seed in (0, 1) for k in range(3)]
    runs += [{"model": "m", "seed": seed, "strategy": name} for seed in (0, 1) for name in ("easy", "full")]
    return write_study(tmp_path_factory.mktemp("study"), runs, steps=9, levels=3)


def test_correlate(breadth, write_study, tmp_path):
    runs = [{"model": "m", "train_set": name} for name in ("home", "away")]
    folder = write_study(tmp_path / "s", [*runs, {"model": "m", "steps": 1, "seed": 9}])
    path = StudyStore(folder).run("m-away-8-0").part_path(0)
    path.write_bytes(path.read_bytes()[1:])
    out = breadth("correlate", folder, "--out", tmp_path / "pairs.csv", "--figure", tmp_path / "f.html")
    assert max(len(line) for line in out.stdout.splitlines() if not line.startswith("wrote")) <= 100
    assert "its checksum is wrong" in out.stderr
    assert "1 run without training or with a single checkpoint left out: m-home-8-9" in out.stderr
    assert pl.read_csv(tmp_path / "pairs.csv")["train_set"].to_list() == ["away", "home"]
    assert pl.read_csv(tmp_path / "pairs.heterogeneity.csv")["train_set"].to_list() == ["away", "home"]


@pytest.mark.parametrize(
    "words",
    [
        "report {study} --out {out}.md",
        "calibrate {study}",
        "scores {study}",
        "difficulty profile {study}",
        "transfer {study} --model m",
        "compare {study} --all",
        "advise power {study}",
        "export {study} --to csv --out {out}",
        "export {study} --to npz --out {out}.npz",
        "export {study} --to eee --out {out}",
    ],
)
def test_a_checkpoint_that_is_left_out_is_named(forks, study, tmp_path, words):
    """An export without it looked whole."""
    shutil.copytree(study, tmp_path / "study")
    path = StudyStore(tmp_path / "study").run("m-home-8-0-2").part_path(32)
    path.write_bytes(path.read_bytes()[1:])
    out = forks.command(*words.format(study=tmp_path / "study", out=tmp_path / "out").split())
    assert out.returncode == 0, out.stderr
    assert path.name[:24] in out.stderr.replace("\n", "")
    assert path.exists()


def test_calibrate_then_profile(breadth, study, tmp_path):
    path = tmp_path / "c.parquet"
    out = breadth("calibrate", study, "--testset", "away", "--out", path)
    assert "checkpoints of one run are not independent" in out.stderr
    assert pl.read_parquet(path)["testset"].unique().to_list() == ["away"]
    out = breadth("difficulty", "profile", study, "--calibration", path, "--subjects", "m-home-8-0-2", "--levels", 3)
    assert "m-home-8-0-2/128 minus m-home-8-0-2/0" in out.stdout
    assert "60 of 180 items have a level in the calibration" in out.stderr
    abilities = json.loads(breadth("ability", study, "--with", path, "--json").stdout)
    assert len(next(iter(abilities["tables"].values()))) == 144


def test_transfer_shows_levels_and_strategies(breadth, study, tmp_path):
    out = breadth("transfer", study, "--model", "m", "--out", tmp_path / "x.csv", "--figure", tmp_path / "x.html")
    written = {path.name for path in tmp_path.iterdir()}
    assert {"x.csv", "x.best.csv", "x.strategy.csv", "x.strategy.best.csv", "x.html", "x.strategy.html"} <= written
    only = json.loads(breadth("transfer", study, "--model", "m", "--by", "strategy", "--json").stdout)
    assert "more" not in only
    assert {row["strategy"] for row in only["tables"]["cells"]} == {"easy", "full"}
    both = json.loads(breadth("transfer", study, "--model", "m", "--json").stdout)
    assert both["more"]["strategy"]["tables"] == only["tables"]
    words = " ".join(out.stdout.split())
    for result in (both, both["more"]["strategy"]):
        assert result["verdict"]["reason"] in words


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["transfer"], "choose one with --model: m, n"),
        (["difficulty profile", "--subjects", "nobody"], "no run, model or checkpoint matches 'nobody'"),
    ],
)
def test_bad_input_is_one_line(breadth, study, arguments, message):
    out = breadth(*arguments[0].split(), study, *arguments[1:], ok=False)
    assert out.returncode == 2
    assert message in out.stderr
    assert "Traceback" not in out.stderr


def test_a_directory_that_is_not_a_study(breadth, tmp_path):
    out = breadth("correlate", tmp_path, ok=False)
    assert out.returncode == 2
    assert "runs/ and items/" in out.stderr
    assert len(out.stderr.splitlines()) == 1


def test_view_waits_for_a_study(tmp_path):
    command = [sys.executable, "-m", "breadth", "view", str(tmp_path / "later"), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout.readline().startswith("http://127.0.0.1:")
        waiting = server.stdout.readline()
        assert waiting.startswith(f"Waiting: {tmp_path / 'later'} ")
        assert f"breadth run STUDY --into {tmp_path / 'later'}" in waiting
        assert server.poll() is None
    finally:
        server.terminate()
        server.wait()


def test_view_of_a_file_is_one_line(breadth, tmp_path):
    (tmp_path / "scores.csv").touch()
    out = breadth("view", tmp_path / "scores.csv", ok=False)
    assert out.returncode == 2
    assert out.stderr.count("\n") == 1
    assert "is not a directory" in out.stderr
