"""Files of a study: links are not followed, damage is noticed, and a directory that is moved away is not made again."""

import json
import os
import shutil
import threading

import pytest

import breadth
from breadth.errors import InputError
from breadth.records.files import SEAL, Folder, LocalStore, sealed, unsealed
from breadth.records.store import StudyStore
from breadth.sources import open_study


@pytest.fixture
def folder(write_study, tmp_path):
    folder = write_study(tmp_path / "study", [{"model": "m"}, {"model": "n"}], items=10, steps=3)
    StudyStore(folder).write_study("name: mine\ndescription: what was measured\n")
    return folder


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_text("name: secret\ndescription: password\n")
    return path


def replace_by_link(path, target):
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(target)


def test_a_linked_study_file_is_not_shown(folder, secret):
    replace_by_link(folder / "study.yaml", secret)
    page = breadth.report(folder).read_text()
    assert "password" not in page
    assert "study.yaml: is a link" in page


def test_a_linked_environment_is_not_shown(folder, tmp_path):
    outside = tmp_path / "environment"
    outside.write_bytes(sealed({"password": "secret"}))
    for run in (folder / "runs").iterdir():
        (run / "environment.json").symlink_to(outside)
    assert "secret" not in breadth.report(folder).read_text()


@pytest.mark.parametrize("name", ["runs", "items", "runs/m-home-8-0"])
def test_linked_directories_are_refused(folder, tmp_path, name):
    shutil.copytree(folder / name, tmp_path / "elsewhere")
    replace_by_link(folder / name, tmp_path / "elsewhere")
    with pytest.raises(InputError, match=f"{name}: is a link"):
        open_study(folder)
    with pytest.raises(InputError, match=f"{name}: is a link"):
        LocalStore(folder).write(f"{name}/file", b"")
    assert not (tmp_path / "elsewhere" / "file").exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "link to a device", "directory"])
def test_only_regular_files_are_read(folder, tmp_path, kind):
    run = StudyStore(folder).runs()[0]
    path = run.part_path(0)
    if kind == "link":
        shutil.copy(path, tmp_path / "part")
        replace_by_link(path, tmp_path / "part")
    elif kind == "link to a device":
        replace_by_link(path, "/dev/zero")
    elif kind == "directory":
        path.unlink()
        path.mkdir()
    else:
        path.unlink()
        os.mkfifo(path)
    study = open_study(folder)
    assert f"{path.name}: is a {kind.split()[0]}" in study.warnings[0]
    assert study.subjects.height == 5


@pytest.mark.parametrize("pattern", ["items/home.*", "runs/m-*/run.json", "runs/m-*/step-000016.*", "study.yaml"])
def test_every_flipped_bit_is_noticed(folder, pattern):
    path = next(folder.glob(pattern))
    content = path.read_bytes()
    for place in range(0, 8 * len(content), max(1, 8 * len(content) // 60) | 1):
        flipped = bytearray(content)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        try:
            noticed = any(path.name in warning for warning in open_study(folder).warnings)
        except InputError as error:
            noticed = path.name in str(error)
        assert noticed, place


def test_sealed_values_are_read_back_or_not_at_all():
    content = sealed({"a": 1, "b": "ü"})
    assert unsealed(content) == {"a": 1, "b": "ü"}
    assert unsealed(content.replace(b"1", b"2", 1)) is None
    for damaged in (None, b"", b"[]", b"[" * 10_000, content[:-1], content + b" "):
        assert unsealed(damaged) is None
    assert unsealed(b'{"a": 1}') == {"a": 1}, "written before there were checksums"


def test_a_study_from_before_checksums_is_read(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "old")
    expected = open_study(folder)
    for path in folder.glob("items/*.parquet"):
        path.rename(path.with_name(f"{path.name.split('.')[0]}.parquet"))
    for path in folder.glob("runs/*/run.json"):
        path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != SEAL}))
    text = (folder / "study.yaml").read_text()
    (folder / "study.yaml").write_text(text[: text.rindex("# checksum")])
    study = open_study(folder)
    assert study.items.equals(expected.items)
    assert (study.matrix == expected.matrix).all()
    assert not study.warnings


def test_a_directory_that_is_moved_away_is_not_made_again(tmp_path):
    store = LocalStore(tmp_path / "study")
    with store.lock("", wait=True):
        pass
    with store.lock("runs/a", wait=False):
        store.write("runs/a/one", b"1")
        (tmp_path / "study").rename(tmp_path / "moved")
        with pytest.raises(InputError, match="moved or removed while it was in use"):
            store.write("runs/a/two", b"2")
        with pytest.raises(InputError, match="moved or removed while it was in use"):
            store.append("runs/a/log", b"{}")
    with pytest.raises(InputError, match="moved or removed"), store.lock("runs/b", wait=False):
        pass
    assert not (tmp_path / "study").exists()


def test_who_is_waited_for_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("breadth.records.files.PATIENCE", 0.05)
    said, told = [], threading.Event()
    held, waiting = LocalStore(tmp_path), LocalStore(tmp_path)

    def wait():
        with waiting.lock("", wait=True, waiting=lambda text: (said.append(text), told.set())):
            said.append("mine")

    with held.lock("", wait=True):
        thread = threading.Thread(target=wait)
        thread.start()
        assert told.wait(30)
    thread.join(30)
    assert said[0].startswith("waiting for another process, which is writing to")
    assert said[1] == "mine"


def test_names_of_new_directories_reach_the_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(Folder, "flush", lambda folder: flushed.append(folder.path))
    LocalStore(tmp_path / "study").write("runs/a/one", b"1")
    assert {tmp_path, tmp_path / "study", tmp_path / "study/runs", tmp_path / "study/runs/a"} <= set(flushed)


def fill_with(**files):
    def fill(folder):
        for name, text in files.items():
            (folder / name).write_text(text)

    return fill


def test_a_directory_is_written_whole_or_not_at_all(tmp_path):
    store = LocalStore(tmp_path)
    store.write_folder("a/weights", fill_with(x="1", y="2"))

    def fail(folder):
        (folder / "x").write_text("half")
        raise InputError("the disk is full")

    with pytest.raises(InputError, match="the disk is full"):
        store.write_folder("a/weights", fail)
    with pytest.raises(InputError, match="the disk is full"):
        store.write_folder("a/others", fail)
    assert {path.name: path.read_text() for path in (tmp_path / "a/weights").iterdir()} == {"x": "1", "y": "2"}
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["weights"]
    store.write_folder("a/weights", fill_with(z="3"))
    assert [path.name for path in (tmp_path / "a/weights").iterdir()] == ["z"]
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "a/weights").stat().st_mode & 0o777 == 0o777 & ~mask


def test_a_directory_is_deleted_with_what_is_in_it(tmp_path):
    store = LocalStore(tmp_path)
    store.write_folder("a/weights", fill_with(x="1"))
    (tmp_path / "a/weights/inner").mkdir()
    (tmp_path / "a/weights/inner/y").write_text("2")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("3")
    (tmp_path / "a/weights/link").symlink_to(outside)
    store.delete_folder("a/weights")
    store.delete_folder("a/weights")
    assert list((tmp_path / "a").iterdir()) == []
    assert (outside / "kept").read_text() == "3"
    (tmp_path / "a/linked").symlink_to(outside)
    with pytest.raises(InputError, match="is a link"):
        store.delete_folder("a/linked")
    with pytest.raises(InputError, match="is a link"):
        store.write_folder("a/linked", fill_with(x="1"))


def test_directories_that_were_being_written_are_cleaned_away(tmp_path):
    store = LocalStore(tmp_path)
    store.write_folder("a/weights", fill_with(x="1"))
    shutil.copytree(tmp_path / "a/weights", tmp_path / "a/.weights.partial-1/weights")
    store.clean("a")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["weights"]
