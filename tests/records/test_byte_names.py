"""Names that are not UTF-8, as other systems make them: shown escaped, or refused by name; never a traceback."""

import os
import shutil
from pathlib import Path

import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.records.files import atomic_write
from breadth.records.store import StudyStore
from breadth.reporting.progress import Progress
from breadth.sources import open_study

CAFE = os.fsdecode(b"caf\xe9")


@pytest.fixture
def folder(write_study, tmp_path):
    """A study in a directory of such a name."""
    try:
        (tmp_path / CAFE).mkdir()
    except OSError:
        pytest.skip("this file system takes only names that are UTF-8")
    (tmp_path / CAFE).rmdir()
    folder = write_study(tmp_path / "study", [{"model": "m"}, {"model": "n"}], items=10, steps=3)
    StudyStore(folder).write_study("name: mine\n")
    return shutil.move(folder, tmp_path / CAFE)


def test_a_study_in_such_a_directory_is_read_like_any_other(folder, tmp_path):
    study = open_study(folder)
    assert study.name.endswith("caf\\xe9")
    shutil.copytree(folder, tmp_path / "plain")
    expected = open_study(tmp_path / "plain").responses.collect()
    assert study.responses.collect().equals(expected)
    assert study.select(testset="home").responses.collect().equals(expected.filter(pl.col("testset") == "home"))
    assert breadth.report(folder, out=tmp_path / "r.html").stat().st_size


def test_the_verbs_of_a_study_in_such_a_directory(folder, forks):
    export = ["export", "--to", "csv", "--out", f"{folder}.csv"]
    for verb, *options in (["report"], ["scores"], ["calibrate"], export):
        out = forks.command(verb, folder, *options)
        assert out.returncode == 0, (verb, out.stderr)
    assert Path(f"{folder}.csv").read_text().count("\n") == 1 + 2 * 3 * 30
    for verb in ("show", "profile", "correlate", "stability", "compare", "transfer"):
        out = forks.command(verb, folder)
        assert out.returncode in (0, 2), (verb, out.stderr)
        assert "Traceback" not in out.stderr


def test_a_run_of_such_a_name_is_refused(folder, tmp_path, forks):
    run = StudyStore(folder).runs()[0].folder
    run.rename(run.with_name(CAFE))
    with pytest.raises(InputError, match=r"caf\\xe9: the name of the run is not UTF-8"):
        open_study(folder)
    with pytest.raises(InputError, match=r"caf\\xe9: the name of the run is not UTF-8"):
        StudyStore(folder).runs()  # with which `breadth run` begins
    for verb in ("report", "correlate"):
        out = forks.command(verb, folder)
        assert out.returncode == 2
        assert "caf\\xe9: the name of the run" in out.stderr
    assert len(Progress(folder).state()["runs"]) == 1


def test_items_of_such_a_name_are_refused(folder):
    path = next((folder / "items").iterdir())
    path.rename(path.with_name(path.name.replace(path.name.split(".")[0], CAFE)))
    with pytest.raises(InputError, match=r"items/caf\\xe9\.\w+\.parquet: the name of the test set is not UTF-8"):
        open_study(folder)


def test_other_files_of_such_names_are_left_alone(folder):
    (folder / CAFE).write_text("mine")
    (folder / "runs" / CAFE).mkdir()
    run = StudyStore(folder).runs()[0]
    (run.folder / CAFE).write_text("mine")
    run.repair()
    assert not open_study(folder).warnings
    assert (run.folder / CAFE).read_text() == "mine"


def test_a_result_of_such_a_name_is_written(folder, tmp_path):
    target = tmp_path / f"{CAFE}.parquet"
    atomic_write(target, pl.DataFrame({"a": [1]}).write_parquet)
    assert target.read_bytes()[:4] == b"PAR1"
