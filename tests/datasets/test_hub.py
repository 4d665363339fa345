"""The Hub: real code of the library on a local copy, and quick, clear failure without a network."""

import dataclasses
import os
import subprocess
import sys
import time

import polars as pl
import pytest

from breadth.datasets import hub, load, registry
from breadth.datasets.hub import cache_directory, fetch, is_cached
from breadth.errors import InputError

pytest.importorskip("datasets")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))


def copy_of(name, folder, monkeypatch, **splits):
    """Let a registered set live in a directory, which the library reads as it reads a repository of the Hub."""
    folder.mkdir()
    for split, frame in splits.items():
        frame.write_parquet(folder / f"{split}.parquet")
    entry = dataclasses.replace(registry.REGISTRY[name], hub=str(folder), configs=(None,))
    monkeypatch.setitem(registry.REGISTRY, name, entry)
    return entry


def test_splits_of_the_hub_become_canonical(offline, tmp_path, monkeypatch):
    rows = [(i, f"p{i}", f"h{i}", i % 3 - 1) for i in range(30)]
    frame = pl.DataFrame(rows, schema=["idx", "sentence1", "sentence2", "label"], orient="row")
    blank = pl.DataFrame([(30, "", "h", 1)], schema=frame.schema, orient="row")
    copy_of("rte", tmp_path / "rte", monkeypatch, train=pl.concat([frame, blank]), validation=frame.head(6))
    test, train = load("rte"), load("rte", "train")
    assert test.frame.height == 20
    assert train.frame["item"].sort().to_list() == [f"rte-validation-{i}" for i in (1, 2, 4, 5)]
    assert test.frame.filter(pl.col("premise") == "p1")["label"].item() == "entailment"
    assert test.notes == (
        "1 item without text was dropped",
        "10 items whose label the set leaves out were dropped",
    )
    assert test.source.endswith("split train")
    assert load("rte", "all").frame.height == 24


def test_a_set_without_train_split_is_halved(offline, tmp_path, monkeypatch):
    rows = [
        {"narrative": f"Story {i}", "question": "Who?", "choices": "['x', 'y']", "answer_index": 1} for i in range(40)
    ]
    entry = copy_of("musr", tmp_path / "musr", monkeypatch, test=pl.DataFrame(rows))
    monkeypatch.setitem(registry.REGISTRY, "musr", dataclasses.replace(entry, test_split="test"))
    test, train = load("musr"), load("musr", "train")
    assert test.frame.height + train.frame.height == 40
    assert not set(test.frame["narrative"]) & set(train.frame["narrative"])
    assert load("musr", "all").frame.height == 40


def test_offline_and_not_cached(offline, tmp_path):
    with pytest.raises(InputError, match=r"snli: not found in a data directory .*HF_HUB_OFFLINE is set\. Offline: put"):
        load("snli")


def test_a_split_that_is_not_there(offline, tmp_path, monkeypatch):
    frame = pl.DataFrame({"premise": ["p"], "hypothesis": ["h"], "label": [0]})
    entry = copy_of("snli", tmp_path / "snli", monkeypatch, train=frame)
    with pytest.raises(InputError, match="could not be fetched: Unknown split") as caught:
        fetch(entry, "test")
    assert "\n" not in str(caught.value)


def test_no_network_fails_within_seconds_and_in_one_line(tmp_path):
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "BREADTH_DATA")},
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path),
    }
    code = (
        "import time; from breadth.datasets import load; from breadth.errors import InputError; start = time.time()\n"
        "try: load('hans')\n"
        "except InputError as error: print(time.time() - start, error)"
    )
    start = time.monotonic()
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert time.monotonic() - start < 60
    seconds, message = out.stdout.strip().split(" ", 1)
    assert float(seconds) < 30
    assert message.startswith("hans: not found in a data directory nor in the cache")
    assert "the Hub did not answer" in message
    assert "\n" not in message


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"snli: .* install breadth\[lm\]"):
        load("snli")


def test_cache_is_found_by_names_of_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
    entry = registry.REGISTRY["mnli"]
    assert not is_cached(entry)
    folder = tmp_path / "nyu-mll___glue" / "mnli" / "0.0.0" / "abc"
    folder.mkdir(parents=True)
    assert not is_cached(entry)
    (folder / "glue-validation_matched.arrow").touch()
    assert is_cached(entry)
    assert not is_cached(registry.REGISTRY["rte"])
    monkeypatch.delenv("HF_DATASETS_CACHE")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert cache_directory() == tmp_path / "home" / "datasets"


def test_reading_the_cache_only_is_undone(monkeypatch):
    import datasets.config

    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    with hub._cache_only():
        assert datasets.config.HF_HUB_OFFLINE is True
    assert datasets.config.HF_HUB_OFFLINE is False
