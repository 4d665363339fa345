import pickle
import sys
from importlib import invalidate_caches

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.importers import logs
from breadth.importers.logs import (
    Column,
    Importer,
    Metric,
    Part,
    importers,
    pack,
    register_importer,
    unregister_importer,
)

from .conftest import make_log


class Notes(Importer):
    """Reads nothing; its name is all that is needed here."""

    name = "notes"

    def part(self, file):
        return Part.ANSWERS if file.head.startswith(b"notes") else None

    def read(self, file, options):
        yield make_log([1.0])


class OtherNotes(Notes):
    pass


class OtherMatrix(Notes):
    name = "matrix"


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(logs, "_REGISTERED", [])


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package with an entry point; its module has this source."""

    def install(source, value="notes_package:Notes"):
        (tmp_path / "notes_package.py").write_text(source)
        described = tmp_path / "notes_package-1.0.dist-info"
        described.mkdir()
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: notes-package\nVersion: 1.0\n")
        (described / "entry_points.txt").write_text(f"[breadth.importers]\nnotes = {value}\n")
        monkeypatch.syspath_prepend(tmp_path)
        invalidate_caches()
        logs._from_entry_points.cache_clear()

    yield install
    sys.modules.pop("notes_package", None)
    monkeypatch.undo()
    invalidate_caches()
    logs._from_entry_points.cache_clear()


SOURCE = """
from breadth.importers import Importer

class Notes(Importer):
    name = "notes"

    def part(self, file):
        return None

    def read(self, file, options):
        yield from ()
"""


def names():
    return [importer.name for importer in importers()]


def test_built_in_formats_are_those_of_the_manual(registry):
    assert names() == [
        *("lm-eval", "inspect", "helm", "lighteval", "evalplus", "swe-bench", "olmes", "opencompass", "eee"),
        *("alpaca-eval", "openai-evals", "matrix"),
    ]


def test_registered_formats_are_asked_first(registry):
    register_importer(Notes())
    assert names()[0] == "notes"
    unregister_importer("notes")
    assert "notes" not in names()


def test_one_of_the_same_name_is_replaced(registry):
    register_importer(Notes())
    register_importer(OtherNotes())
    assert [type(importer) for importer in importers() if importer.name == "notes"] == [OtherNotes]


def test_a_built_in_format_is_replaced_until_it_is_unregistered(registry):
    register_importer(OtherMatrix())
    assert [type(importer) for importer in importers() if importer.name == "matrix"] == [OtherMatrix]
    unregister_importer("matrix")
    assert [type(importer).__name__ for importer in importers() if importer.name == "matrix"] == ["Matrix"]


def test_other_packages_add_formats(registry, package):
    package(SOURCE)
    assert names()[0] == "notes"


def test_registered_formats_come_before_those_of_packages(registry, package):
    package(SOURCE)
    register_importer(OtherNotes())
    assert type(importers()[0]) is OtherNotes
    assert names().count("notes") == 1


@pytest.mark.parametrize(
    ("source", "value", "words"),
    [
        ("raise RuntimeError('no licence')", "notes_package:Notes", "cannot be loaded: no licence"),
        ("", "notes_package:Notes", "cannot be loaded: .*Notes"),
        ("", "missing_package:Notes", "cannot be loaded: No module named 'missing_package'"),
        ("class Notes: pass", "notes_package:Notes", "is not a subclass of breadth.importers.Importer"),
        (SOURCE.replace("def read", "def write"), "notes_package:Notes", "cannot be loaded: .*abstract"),
    ],
)
def test_a_broken_plug_in_is_named(registry, package, source, value, words):
    package(source, value)
    with pytest.raises(InputError, match=f"importer 'notes' \\({value}\\) {words}"):
        importers()


def test_missing_answers_are_nan_and_keys_are_metrics():
    log = make_log({("acc", "strict"): [1, None, 0]}, margins={("acc", "strict"): [0.5, None, -0.5]})
    assert np.isnan(log.scores(Metric("acc", "strict"))).tolist() == [False, True, False]
    assert np.isnan(log.margins[Metric("acc", "strict")]).tolist() == [False, True, False]
    assert str(Metric("acc")) == "acc"
    assert str(Metric("acc", "strict")) == "acc (strict)"


def test_an_importer_must_not_hand_over_items_twice_or_columns_of_other_lengths():
    with pytest.raises(ValueError, match="items of a log must differ"):
        make_log([1, 0], items=["a", "a"])
    for wrong in ({"answers": ["A"]}, {"texts": {"text": ["one"]}}, {"margins": {("acc", ""): [1.0]}}):
        with pytest.raises(ValueError, match="differ in length"):
            make_log([1, 0], **wrong)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.lists(st.none() | TEXTS | st.lists(TEXTS)))
def test_column_is_the_sequence_that_was_packed(values):
    column = pack(values)
    assert len(column) == len(values)
    assert list(column) == values
    assert column == values
    assert column == pack(tuple(values))
    assert [column[k] for k in range(len(values))] == values
    assert column[:2] == values[:2]


def test_equal_columns_are_one_object_here_and_after_pickling():
    first, second = pack(["a", None]), pack(["a", None])
    assert first is second
    assert pickle.loads(pickle.dumps(first)) is first
    assert hash(first) == hash(second)
    assert pack(["a", "b"]) != first
    assert first not in (None, "a", ["a"])


def test_pickle_is_small():
    assert len(pickle.dumps(pack(["the same words again and again"] * 10_000))) < 1000


def test_numbers_of_numpy_are_places():
    assert pack(["a", "b"])[np.int64(1)] == "b"


def test_halves_of_surrogate_pairs_are_replaced():
    assert list(pack(["\ud800", ["a\udc00"]])) == ["?", ["a?"]]


def test_columns_are_kept_only_while_used():
    column = pack([f"kept {k}" for k in range(5)])
    key = next(key for key, known in logs._COLUMNS.items() if known is column)
    assert isinstance(column, Column)
    del column
    with pytest.raises(KeyError):
        logs._COLUMNS[key]
