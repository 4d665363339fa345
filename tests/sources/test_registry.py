import sys
from importlib import invalidate_caches

import pytest

from breadth.errors import InputError
from breadth.sources import registry as sources
from breadth.sources.registry import (
    Detection,
    Part,
    Source,
    all_sources,
    register_source,
    unregister_source,
    what_sources_read,
)

from .conftest import make_log


class Notes(Source):
    """Reads nothing; its name is all that is needed here."""

    name = "notes"

    def detect(self, file):
        return Detection(Part.ANSWERS, "begins with notes") if file.head.startswith(b"notes") else None

    def read_answers(self, file, options):
        yield make_log([1.0])


class OtherNotes(Notes):
    pass


class OtherMatrix(Notes):
    name = "matrix"


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(sources, "_REGISTERED", [])


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install a package with an entry point; its module has this source."""

    def install(source, value="notes_package:Notes"):
        (tmp_path / "notes_package.py").write_text(source)
        described = tmp_path / "notes_package-1.0.dist-info"
        described.mkdir()
        (described / "METADATA").write_text("Metadata-Version: 2.1\nName: notes-package\nVersion: 1.0\n")
        (described / "entry_points.txt").write_text(f"[breadth.sources]\nnotes = {value}\n")
        monkeypatch.syspath_prepend(tmp_path)
        invalidate_caches()
        sources._from_entry_points.cache_clear()

    yield install
    sys.modules.pop("notes_package", None)
    monkeypatch.undo()
    invalidate_caches()
    sources._from_entry_points.cache_clear()


SOURCE = """
from breadth.sources import Source

class Notes(Source):
    name = "notes"

    def detect(self, file):
        return None

    def read_answers(self, file, options):
        yield from ()
"""


def names():
    return [source.name for source in all_sources()]


def test_built_in_formats_are_those_of_the_manual(registry):
    assert [source.name for source in all_sources() if source.holds_answers()] == [
        *("lm-eval", "inspect", "helm", "lighteval", "evalplus", "swe-bench", "olmes", "opencompass", "eee"),
        *("alpaca-eval", "openai-evals", "matrix"),
    ]
    assert {"lm-eval-results", "trainer-state", "tensorboard", "wandb"} <= {
        source.name for source in all_sources() if source.holds_scores()
    }
    assert names()[-1] == "matrix"  # whatever a tool wrote is that tool's


def test_registered_formats_are_asked_first(registry):
    register_source(Notes())
    assert names()[0] == "notes"
    unregister_source("notes")
    assert "notes" not in names()


def test_one_of_the_same_name_is_replaced(registry):
    register_source(Notes())
    register_source(OtherNotes())
    assert [type(source) for source in all_sources() if source.name == "notes"] == [OtherNotes]


def test_a_built_in_format_is_replaced_until_it_is_unregistered(registry):
    register_source(OtherMatrix())
    assert [type(source) for source in all_sources() if source.name == "matrix"] == [OtherMatrix]
    unregister_source("matrix")
    assert [type(source).__name__ for source in all_sources() if source.name == "matrix"] == ["Matrix"]


def test_other_packages_add_formats(registry, package):
    package(SOURCE)
    assert names()[0] == "notes"


def test_registered_formats_come_before_those_of_packages(registry, package):
    package(SOURCE)
    register_source(OtherNotes())
    assert type(all_sources()[0]) is OtherNotes
    assert names().count("notes") == 1


@pytest.mark.parametrize(
    ("source", "value", "words"),
    [
        ("raise RuntimeError('no licence')", "notes_package:Notes", "cannot be loaded: no licence"),
        ("", "notes_package:Notes", "cannot be loaded: .*Notes"),
        ("", "missing_package:Notes", "cannot be loaded: No module named 'missing_package'"),
        ("class Notes: pass", "notes_package:Notes", "is not a subclass of breadth.sources.Source"),
        (SOURCE.replace("def detect", "def look"), "notes_package:Notes", "does not say which files are its own"),
        (SOURCE.replace("def read", "def write"), "notes_package:Notes", "reads neither answers nor scores"),
    ],
)
def test_a_broken_plug_in_is_named(registry, package, source, value, words):
    package(source, value)
    with pytest.raises(InputError, match=f"source 'notes' \\({value}\\) {words}"):
        all_sources()


def test_sources_say_what_their_files_look_like():
    described = [source for source in all_sources() if source.looks_like]
    assert what_sources_read(described).count(", ") >= len(described) - 1
    for source in described:
        assert source.looks_like in what_sources_read(described)
