"""A file that the system does not let anybody read may be sound: it is not taken for damaged, and nothing is moved."""

import errno
import os

import numpy as np
import polars as pl
import pytest
from safetensors.numpy import save

import breadth
from breadth.boundary import is_directory, is_file
from breadth.errors import InputError
from breadth.execute.run_files import States
from breadth.records.files import LocalStore
from breadth.records.imported import read_imported
from breadth.records.store import RunRecord, StudyStore
from breadth.sources import open_study

REFUSALS = [
    ("open", errno.EACCES),
    ("open", errno.EIO),
    ("open", errno.EMFILE),
    ("open", errno.ESTALE),
    ("read", errno.EIO),
    ("read", errno.ESTALE),
]


@pytest.fixture
def folder(write_study, tmp_path):
    folder = write_study(tmp_path / "study", [{"model": "m"}, {"model": "n"}], items=10, steps=3)
    StudyStore(folder).write_study("name: mine\n")
    return folder


@pytest.fixture(params=REFUSALS, ids=lambda each: f"{each[0]}-{errno.errorcode[each[1]]}")
def refuse(request, monkeypatch):
    """Have the system refuse a file with this reason; returns the function that says which."""
    operation, number = request.param
    system_open, system_read = os.open, os.read

    def refuse(path):
        inode = path.stat().st_ino

        def refused_open(name, flags, mode=0o777, *, dir_fd=None):
            if os.path.basename(os.fsdecode(name)) == path.name and operation == "open":
                raise OSError(number, os.strerror(number), name)
            return system_open(name, flags, mode, dir_fd=dir_fd)

        def refused_read(handle, count):
            if os.fstat(handle).st_ino == inode and operation == "read":
                raise OSError(number, os.strerror(number))
            return system_read(handle, count)

        monkeypatch.setattr(os, "open", refused_open)
        monkeypatch.setattr(os, "read", refused_read)
        return os.strerror(number)

    return refuse


def content(folder):
    return {path: path.is_dir() or path.read_bytes() for path in folder.rglob("*")}


def check_refusal(path, reason, action):
    """``action`` stops with the file and the reason, and changes nothing."""
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(InputError) as caught:
        action()
    assert f"{path}: cannot be read ({reason})" in str(caught.value)
    assert sorted(path.parent.rglob("*")) == before


def test_a_part_stops_whoever_needs_it(folder, refuse):
    run = StudyStore(folder).runs()[0]
    path = run.part_path(16)
    answers = open_study(folder).responses
    before = content(folder)
    reason = refuse(path)
    for action in (
        lambda: open_study(folder),
        lambda: breadth.report(folder, out=folder.parent / "r.html"),
        run.sound_steps,
        lambda: run.sound_part(16),
        run.repair,
    ):
        check_refusal(path, reason, action)
    assert not (folder.parent / "r.html").exists()
    assert run.warnings == []
    assert content(folder).keys() == before.keys()
    assert answers.collect_schema()


def test_a_record_stops_whoever_needs_it(folder, refuse):
    run = StudyStore(folder).runs()[0]
    record = run.record()
    path = run.folder / "run.json"
    reason = refuse(path)
    for action in (run.record, lambda: run.write_record(record), lambda: open_study(folder)):
        check_refusal(path, reason, action)
    other = RunRecord("another")
    check_refusal(path, reason, lambda: run.write_record(other))


def test_items_stop_whoever_needs_them(folder, refuse):
    store = StudyStore(folder)
    items = store.read_items("home")
    path = next(folder.glob("items/home.*"))
    reason = refuse(path)
    for action in (
        lambda: store.read_items("home"),
        lambda: store.write_items("home", items),
        lambda: store.write_items("home", items, may_grow=True),
        lambda: open_study(folder),
    ):
        check_refusal(path, reason, action)
    assert store.warnings == []


def test_a_study_file_stops_whoever_needs_it(folder, refuse):
    path = folder / "study.yaml"
    reason = refuse(path)
    for action in (
        lambda: StudyStore(folder).read_study(),
        lambda: StudyStore(folder).write_study("name: other\n"),
        lambda: open_study(folder),
    ):
        check_refusal(path, reason, action)


def test_a_state_of_training_stops_whoever_needs_it(tmp_path, refuse):
    states = States(LocalStore(tmp_path), "runs/r")
    states.write(16, save({"x": np.ones(1)}))
    path = next(tmp_path.glob("runs/r/state-*"))
    reason = refuse(path)
    check_refusal(path, reason, lambda: states.latest(16))
    assert states.warnings == []


def test_a_table_of_an_import_stops_whoever_needs_it(tmp_path, refuse):
    rows = [{"model": f"m{i}", "item": f"q{j}", "correct": (i * j) % 2} for i in range(3) for j in range(5)]
    pl.DataFrame(rows).write_csv(tmp_path / "answers.csv")
    breadth.import_logs(tmp_path / "answers.csv", into=tmp_path / "answers")
    for pattern in ("import.json", "items.*"):
        path = next((tmp_path / "answers").glob(pattern))
        reason = refuse(path)
        check_refusal(path, reason, lambda: read_imported(tmp_path / "answers"))
        check_refusal(path, reason, lambda: breadth.import_logs(tmp_path / "answers.csv", into=tmp_path / "answers"))


def refuse_to_look(monkeypatch, path, number):
    """Have the system refuse what is asked of a path before it is opened."""
    system_stat = os.stat

    def refused_stat(name, **options):
        if not isinstance(name, int) and os.fspath(name) == str(path):
            raise OSError(number, os.strerror(number), name)
        return system_stat(name, **options)

    monkeypatch.setattr(os, "stat", refused_stat)


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES])
def test_an_import_that_cannot_be_looked_at_is_not_replaced(tmp_path, monkeypatch, number):
    """``os.path.isfile`` says False there, and one more log would have taken the place of all that were there."""
    rows = [{"model": f"m{i}", "item": f"q{j}", "correct": (i * j) % 2} for i in range(3) for j in range(5)]
    for name in ("a", "b"):
        pl.DataFrame(rows).with_columns(model=f"{name}-" + pl.col("model")).write_csv(tmp_path / f"{name}.csv")
    breadth.import_logs(tmp_path / "a.csv", into=tmp_path / "answers")
    before = content(tmp_path / "answers")
    refuse_to_look(monkeypatch, tmp_path / "answers" / "import.json", number)
    for action in (
        lambda: breadth.import_logs(tmp_path / "b.csv", into=tmp_path / "answers"),
        lambda: open_study(tmp_path / "answers"),
    ):
        with pytest.raises(InputError, match=r"import\.json: cannot be read \(" + os.strerror(number)):
            action()
    monkeypatch.undo()
    assert content(tmp_path / "answers") == before


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_a_path_that_cannot_be_looked_at_is_not_absent(tmp_path, monkeypatch, number):
    path = tmp_path / "data.csv"
    path.write_text("a\n")
    assert is_file(path)
    assert not is_directory(path)
    for absent in (tmp_path / "gone", path / "below", tmp_path / ("x" * 300), "a\0b"):
        assert not is_file(absent)
    refuse_to_look(monkeypatch, path, number)
    for look in (is_file, is_directory):
        with pytest.raises(InputError, match=r"data\.csv: cannot be read"):
            look(path)


def test_a_directory_stops_whoever_needs_it(folder, monkeypatch):
    system_open = os.open

    def refused_open(name, flags, mode=0o777, *, dir_fd=None):
        if name == "runs":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
        return system_open(name, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refused_open)
    for action in (lambda: open_study(folder), lambda: StudyStore(folder).runs()):
        with pytest.raises(InputError, match=r"runs: cannot be read \(Permission denied\)"):
            action()


def test_a_damaged_file_that_cannot_be_moved_stops_with_the_reason(folder, monkeypatch):
    run = StudyStore(folder).runs()[0]
    path = run.part_path(16)
    path.write_bytes(b"torn")
    system_replace = os.replace

    def refused_replace(source, target, **options):
        if source == path.name:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), source)
        system_replace(source, target, **options)

    monkeypatch.setattr(os, "replace", refused_replace)
    with pytest.raises(InputError, match=rf"{path.name}: cannot be written \(Read-only file system\)"):
        run.repair()
    assert path.read_bytes() == b"torn"


def test_a_file_that_is_gone_is_not_there(folder):
    run = StudyStore(folder).runs()[0]
    path = run.part_path(16)
    store = run.store
    assert store.read(f"{run.key}/{path.name}") == path.read_bytes()
    path.unlink()
    assert store.read(f"{run.key}/{path.name}") is None
    assert store.read("nothing/at/all") is None
    assert store.read(f"{run.key}/run.json/x") is None
    assert store.set_aside(f"{run.key}/{path.name}") == ""
    assert not store.exists(f"{run.key}/{path.name}")
    run.repair()
    assert run.warnings == []
    assert 16 not in run.sound_steps()


def test_the_names_of_a_directory_that_cannot_be_flushed(tmp_path, monkeypatch):
    """Some file systems cannot put the names of a directory on the disk; a disk that fails is another matter."""
    system_fsync = os.fsync
    number = errno.EINVAL

    def fsync(handle):
        if os.path.isdir(f"/dev/fd/{handle}"):
            raise OSError(number, os.strerror(number))
        system_fsync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    LocalStore(tmp_path).write("a", b"1")
    number = errno.EIO
    with pytest.raises(InputError, match="a: cannot be written"):
        LocalStore(tmp_path).write("a", b"2")
