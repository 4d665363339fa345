import re
import sys
from importlib import invalidate_caches

import pytest

from breadth.errors import InputError
from breadth.sources import registry as sources
from breadth.sources.logs.log import Options
from breadth.sources.logs.log_files import read_log_files
from breadth.sources.registry import (
    Detection,
    Part,
    PluginWarning,
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
        sources._WARNED.clear()

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
        ("raise RuntimeError('no licence')", "notes_package:Notes", "cannot be loaded: RuntimeError: no licence"),
        ("raise SystemExit(0)", "notes_package:Notes", "cannot be loaded: SystemExit"),
        ("", "notes_package:Notes", "cannot be loaded: .*Notes"),
        ("def Notes(): raise ValueError('later')", "notes_package:Notes", "cannot be loaded: ValueError: later"),
        ("", "missing_package:Notes", "cannot be loaded: .*No module named 'missing_package'"),
        ("class Notes: pass", "notes_package:Notes", "is not a subclass of breadth.sources.Source"),
        (SOURCE.replace("def detect", "def look"), "notes_package:Notes", "does not say which files are its own"),
        (SOURCE.replace("def read", "def write"), "notes_package:Notes", "reads neither answers nor scores"),
        (SOURCE.replace('"notes"', '"matrix"'), "notes_package:Notes", "has the name of a source that comes with"),
        (SOURCE.replace('"notes"', '"auto"'), "notes_package:Notes", "has no name that --format could take"),
        (SOURCE.replace('"notes"', "7"), "notes_package:Notes", "has no name that --format could take"),
        (SOURCE.replace('    name = "notes"', ""), "notes_package:Notes", "has no name that --format could take"),
        (SOURCE + "    looks_like = 7", "notes_package:Notes", "says what its files look like by int"),
    ],
)
def test_a_broken_plug_in_is_named_once_and_the_others_go_on(registry, package, log_file, source, value, words):
    whole = names()
    package(source, value)
    with pytest.warns(PluginWarning) as warned:
        found = [names(), names()]
    assert found == [whole, whole]
    assert len(warned) == 1
    text = str(warned[0].message)
    assert f"source 'notes' ({value})" in text
    assert re.search(words, text)
    assert read_log_files([log_file], Options()).files[0].logs
    with pytest.raises(InputError, match=re.escape(f"source 'notes' ({value})")):
        read_log_files([log_file], Options(), format="notes")


@pytest.fixture
def log_file(tmp_path):
    """A file that a built-in source reads."""
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "answers.csv"
    path.write_text("model,item,correct\n" + "".join(f"m{i},q{j},{(i * j) % 2}\n" for i in range(3) for j in range(5)))
    return path


RAISES = "        raise RuntimeError('out of notes')"
EXITS = "        raise SystemExit(3)"
FOUND = "        from breadth.sources import Detection, Part\n        return Detection(Part.ANSWERS, 'mine')"


@pytest.mark.parametrize("body", [RAISES, EXITS, "        return True", "        return ('answers', 'mine')"])
def test_a_plug_in_that_fails_to_recognise_files_is_passed_over(registry, package, log_file, body):
    package(SOURCE.replace("        return None", body))
    other = log_file.with_name("other.csv")
    other.write_bytes(log_file.read_bytes().replace(b"\nm", b"\nn"))
    with pytest.warns(PluginWarning, match=r"source 'notes' \(notes_package:Notes\)") as warned:
        read = read_log_files([log_file, other], Options())
    assert [file.path for file in read.files if file.logs] == [str(log_file), str(other)]
    assert len(warned) == 1
    with pytest.raises(InputError, match=r"answers\.csv: source 'notes'"):
        read_log_files([log_file], Options(), format="notes")


@pytest.mark.parametrize(
    "body",
    [
        RAISES,
        EXITS,
        "        yield 7",
        "        yield 'text'",
        "        return 7",
        "        from breadth.sources import Log, Metric\n"
        "        yield Log(path='p', tool='t', testset='s', model='m', items=[1], values={Metric('acc'): [1.0]})",
        "        from breadth.sources import Log, Metric\n"
        "        yield Log(path='p', tool='t', testset=3, model='m', items=['1'], values={Metric('acc'): [1.0]})",
    ],
)
def test_a_plug_in_that_fails_to_read_a_file_is_named_and_other_files_are_read(registry, package, log_file, body):
    takes_own = FOUND.replace("return", "return None if b'model' in file.head else")
    package(SOURCE.replace("        return None", takes_own).replace("        yield from ()", body))
    notes = log_file.with_name("notes.txt")
    notes.write_text("notes")
    with pytest.warns(PluginWarning, match=r"source 'notes' \(notes_package:Notes\)") as warned:
        read = read_log_files([log_file, notes], Options())
    assert len(warned) == 1
    assert [file.path for file in read.files if file.logs] == [str(log_file)]
    assert "source 'notes'" in read.left_out[str(notes)]
    with pytest.raises(InputError, match=r"notes\.txt: source 'notes'"):
        read_log_files([notes], Options(), format="notes")


def test_the_faults_that_a_plug_in_finds_in_a_file_stay_its_words(registry, package, log_file):
    body = "        import breadth\n        raise breadth.InputError(f'{file.path}, line 3: no answer')"
    package(SOURCE.replace("        return None", FOUND).replace("        yield from ()", body))
    with pytest.raises(InputError, match=r"answers\.csv, line 3: no answer"):
        read_log_files([log_file], Options())


def test_sources_say_what_their_files_look_like():
    described = [source for source in all_sources() if source.looks_like]
    assert what_sources_read(described).count(", ") >= len(described) - 1
    for source in described:
        assert source.looks_like in what_sources_read(described)
