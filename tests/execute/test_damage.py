"""Damaged files are set aside with a warning and made again; files that are not breadth's own are left alone."""

import json
import re
import shutil

import pytest

from breadth.records.store import StudyStore
from breadth.sources import open_study

from .conftest import LORA, parts

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(forks, tiny, tmp_path_factory):
    """A study that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "study.yaml").write_text(LORA.format(model=tiny))
    assert forks.run(folder / "study.yaml", folder / "s")["code"] == 0
    return folder / "s"


@pytest.fixture(scope="module")
def killed(forks, whole, tmp_path_factory):
    """A study killed in its second run, with a saved state."""
    into = tmp_path_factory.mktemp("killed") / "s"
    for _ in range(20):
        forks.run(whole.parent / "study.yaml", into, kill_at="after 5")
        if list(into.glob("runs/*-s1-*/state-*")):
            return into
    raise AssertionError("no state was ever saved")


@pytest.fixture
def begun(killed, whole, tmp_path):
    shutil.copytree(killed, tmp_path / "s")
    return whole.parent / "study.yaml", tmp_path / "s"


def truncate(path):
    path.write_bytes(path.read_bytes()[:100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)


def into_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [truncate, flip, into_directory])
@pytest.mark.parametrize("pattern", ["runs/*-s0-*/step-000004*", "runs/*-s1-*/state-*"], ids=["part", "state"])
def test_damaged_parts_and_states(forks, begun, whole, damage, pattern):
    path, into = begun
    victim = next(into.glob(pattern))
    damage(victim)
    result = forks.run(path, into)
    assert result["code"] == 0, result["said"]
    assert f"{victim}: is " in result["said"]
    assert "moved to" in result["said"]
    assert [each.name for each in (into / "aside").iterdir()] == [f"{victim.parent.name}.{victim.name}.0"]
    assert parts(into) == parts(whole)


UNREADABLE = """
import errno, os, sys
from breadth.errors import InputError
from breadth.execute import run

system_open = os.open

def refused_open(name, flags, mode=0o777, *, dir_fd=None):
    if os.path.basename(os.fsdecode(name)) == {name!r}:
        raise OSError(errno.EIO, os.strerror(errno.EIO), name)
    return system_open(name, flags, mode, dir_fd=dir_fd)

os.open = refused_open
try:
    run({study!r}, into={into!r})
except InputError as error:
    print(error, file=sys.stderr)
"""


@pytest.mark.parametrize("pattern", ["runs/*-s0-*/step-000004*", "runs/*-s1-*/state-*"], ids=["part", "state"])
def test_what_cannot_be_read_is_not_computed_again(forks, begun, pattern):
    path, into = begun
    victim = next(into.glob(pattern))
    before = {each: each.read_bytes() for each in into.glob("runs/*/st*")}
    result = forks.code(UNREADABLE.format(name=victim.name, study=str(path), into=str(into)))
    assert f"{victim}: cannot be read (Input/output error)" in result["said"]
    assert {each: each.read_bytes() for each in into.glob("runs/*/st*")} == before
    assert not (into / "aside").exists()


def test_everything_else_that_can_be_torn(forks, begun, whole):
    path, into = begun
    run = next(into.glob("runs/*-s0-*"))
    next(into.glob("runs/*-s1-*/state-*")).unlink()
    (run / "run.json").write_text('{"model": "ti')
    (run / "environment.json").write_text("{")
    (run / "log.jsonl").write_text('{"step": 0}\n{"ste')
    truncate(next(into.glob("items/plain.*")))
    (into / "study.yaml").write_bytes(b"name: \xff\xfe")
    next(run.glob("step-000008*")).unlink()
    (run / "step-000004.parquet").write_bytes(b"no sum")
    (run / "notes.txt").write_text("mine")
    (run / "folder").mkdir()
    result = forks.run(path, into)
    assert result["code"] == 0, result["said"]
    for name in (r"run\.json", r"plain\.\w+\.parquet", r"step-000004\.parquet"):
        assert re.search(f"{name}: is damaged", result["said"])
    assert (run / "notes.txt").read_text() == "mine"
    assert (run / "folder").is_dir()
    assert parts(into) == parts(whole)
    lines = (run / "log.jsonl").read_text().splitlines()
    assert lines[1] == '{"ste'
    assert json.loads(lines[2])["step"] == 8
    assert open_study(into).responses.collect().height == 2 * 5 * 48
    assert StudyStore(into).read_items("plain").height == 24


def test_half_written_items_are_no_test_set(whole):
    before = open_study(whole).items.height
    half = whole / "items" / ".plain.parquet.abc.parquet"
    half.write_bytes(b"PAR1")
    assert open_study(whole).items.height == before
    half.unlink()
