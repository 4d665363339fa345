import os
from pathlib import Path

import pytest

from breadth.errors import InputError
from breadth.sources.paths import expand_paths, files_below, path_text


def test_files_are_listed_once_in_order_without_hidden_ones_and_links(tmp_path):
    logs, outside = tmp_path / "logs", tmp_path / "outside"
    for name in ("b/2", "a/1", ".git/config", "a/.hidden", "z"):
        (logs / name).parent.mkdir(parents=True, exist_ok=True)
        (logs / name).write_text(name)
    outside.mkdir()
    (outside / "secret").write_text("x")
    (logs / "linked").symlink_to(outside / "secret")
    (logs / "folder").symlink_to(outside)
    (logs / "loop").symlink_to(logs)
    os.mkfifo(logs / "pipe")
    listed = list(files_below([logs, logs / "a", logs / "a" / "1"]))
    assert listed == [logs / "z", logs / "a" / "1", logs / "b" / "2"]
    assert list(files_below([logs / "linked"])) == [logs / "linked"]  # named by the user
    assert list(files_below([logs / "a" / ".hidden"])) == [logs / "a" / ".hidden"]
    assert list(files_below([logs], logs / "b")) == [logs / "z", logs / "a" / "1"]


@pytest.fixture
def logs(tmp_path, monkeypatch):
    """Files in two directories, one of them with a name that is a pattern."""
    for name in ("b/2.json", "b/1.json", "a/3.json", "a/4.txt", "a/deep/5.json", "[1].json", ".hidden.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "expanded"),
    [
        ("b", ["b"]),
        (Path("b"), ["b"]),
        (["b", "a/3.json", "b"], ["b", "a/3.json", "b"]),
        ("*/*.json", ["a/3.json", "b/1.json", "b/2.json"]),
        (["b/*", "a/?.json"], ["b/1.json", "b/2.json", "a/3.json"]),
        ("a/**/*.json", ["a/3.json", "a/deep/5.json"]),
        ("[1].json", ["[1].json"]),  # a file whose name is a pattern
        ("*.json", ["[1].json"]),
        (".hid*", [".hidden.json"]),
    ],
)
def test_patterns_become_what_they_match(logs, paths, expanded):
    assert expand_paths(paths) == list(map(Path, expanded))


@pytest.mark.parametrize(
    ("paths", "named"),
    [
        ([], "of logs"),
        (["b", "nowhere"], "nowhere: no such file"),
        (["b", "*.eval"], "*.eval: no such file"),
        ("\0", "no such file"),
        ("\ud800", "no such file"),
        ("\0*", "no such file"),
    ],
)
def test_what_is_not_there_is_one_message(logs, paths, named):
    with pytest.raises(InputError) as refused:
        expand_paths(paths, "of logs")
    assert named in str(refused.value)


def test_names_that_are_not_utf_8(tmp_path):
    name = os.fsdecode(b"odd\xff.json")
    (tmp_path / name).touch()
    assert expand_paths(tmp_path / name) == expand_paths(tmp_path / "odd*") == [tmp_path / name]
    assert list(files_below([tmp_path])) == [tmp_path / name]
    assert path_text(tmp_path / name) == f"{tmp_path}/odd\\xff.json"
    with pytest.raises(InputError) as refused:
        expand_paths(tmp_path / f"{name}.gone")
    assert "odd\\xff.json.gone" in str(refused.value)
