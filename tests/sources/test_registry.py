import re
import signal
import sys
import warnings
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


#: An exception that cannot say what it is, and a source that cannot say its name.
WORDLESS = "class Wordless(Exception):\n    def __str__(self):\n        raise self\nraise Wordless"
NO_NAME = "@property\n    def name(self):\n        raise LookupError('no name')"


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
        ("raise KeyboardInterrupt", "notes_package:Notes", "cannot be loaded: KeyboardInterrupt"),
        ("class Own(BaseException): pass\nraise Own('mine')", "notes_package:Notes", "cannot be loaded: Own: mine"),
        ("raise GeneratorExit", "notes_package:Notes", "cannot be loaded: GeneratorExit"),
        ("def f(): f()\nf()", "notes_package:Notes", "cannot be loaded: RecursionError"),
        (WORDLESS, "notes_package:Notes", "cannot be loaded: Wordless"),
        ("import breadth\nraise breadth.InputError('x' * 10**6)", "notes_package:Notes", "InputError: x{300}[)]?"),
        ("", "notes_package", "cannot be loaded: TypeError"),
        ("", "notes package:7:x", "cannot be loaded"),
        (SOURCE.replace('"notes"', '"a\\x1b[31m"'), "notes_package:Notes", "has no name that --format could take"),
        (
            SOURCE.replace('"notes"', '"n" * 10**6'),
            "notes_package:Notes",
            "has no name that --format could take: 'n{99};",
        ),
        (SOURCE.replace('name = "notes"', NO_NAME), "notes_package:Notes", "cannot be loaded: LookupError: no name"),
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
    assert f"source 'notes' ({value} of the package notes-package)" in text
    assert re.search(words, text)
    assert read_log_files([log_file], Options()).files[0].logs
    with pytest.raises(InputError, match=re.escape(f"source 'notes' ({value} of the package notes-package)")):
        read_log_files([log_file], Options(), format="notes")


@pytest.fixture
def log_file(tmp_path):
    """A file that a built-in source reads."""
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "answers.csv"
    path.write_text("model,item,correct\n" + "".join(f"m{i},q{j},{(i * j) % 2}\n" for i in range(3) for j in range(5)))
    return path


NAMED = r"source 'notes' \(notes_package:Notes of the package notes-package\)"
RAISES = "        raise RuntimeError('out of notes')"
EXITS = "        raise SystemExit(3)"
INTERRUPTS = "        raise KeyboardInterrupt"
RECURSES = "        return self.detect(file)"
FOUND = "        from breadth.sources import Detection, Part\n        return Detection(Part.ANSWERS, 'mine')"


NO_REASON = "        from breadth.sources import Detection, Part\n        return Detection(Part.ANSWERS, 7)"


@pytest.mark.parametrize(
    "body",
    [RAISES, EXITS, INTERRUPTS, RECURSES, NO_REASON, "        return True", "        return ('answers', 'mine')"],
)
def test_a_plug_in_that_fails_to_recognise_files_is_passed_over(registry, package, log_file, body):
    package(SOURCE.replace("        return None", body))
    other = log_file.with_name("other.csv")
    other.write_bytes(log_file.read_bytes().replace(b"\nm", b"\nn"))
    with pytest.warns(PluginWarning, match=NAMED) as warned:
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
        INTERRUPTS,
        "        yield from self.read_answers(file, options)",
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
    with pytest.warns(PluginWarning, match=NAMED) as warned:
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


def test_ctrl_c_in_a_plug_in_ends_the_command(registry, package):
    """An interrupt of the user's is none of the plug-in's."""
    package("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(10)\n")
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        names()
    assert signal.getsignal(signal.SIGINT) is handler


def test_what_a_plug_in_prints_is_no_result_and_not_long(registry, package, capsys):
    package(f"for _ in range(1000):\n    print('x' * 10_000)\n{SOURCE}")
    assert names()[0] == "notes"
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("x") == sources.PRINTED


def test_of_two_plug_ins_with_one_name_the_second_is_named(registry, package, log_file):
    package(f"{SOURCE}\nclass Others(Notes):\n    pass\n", "notes_package:Notes\nothers = notes_package:Others")
    with pytest.warns(PluginWarning) as warned:
        found = names()
    assert found.count("notes") == 1
    assert len(warned) == 1
    text = str(warned[0].message)
    assert "source 'others' (notes_package:Others of the package notes-package) has the name of another" in text
    assert "(notes_package:Notes of" in text
    assert read_log_files([log_file], Options()).files[0].logs


@pytest.mark.parametrize("content", [b"[breadth.sources]\nnotes\n", b"[breadth.sources]\n= =\nx\n", b"\xff\xfe"])
def test_entry_points_that_cannot_be_read_are_those_of_one_package(registry, package, tmp_path, content):
    package(SOURCE)
    other = tmp_path / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_bytes(content)
    sources._from_entry_points.cache_clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert names()[0] == "notes"
    said = [str(each.message) for each in warned]
    assert len(said) == content.startswith(b"[breadth")
    assert all("the entry points of the package other cannot be read" in text for text in said)


def test_a_plug_in_that_fails_later_is_held_to_what_it_said_first(registry, package, log_file):
    """It may be asked twice when it is loaded, and raises from then on."""
    left = "    left = [1, 2]\n\n    def holds_answers(self):\n        return self.left.pop() > 0\n"
    package(SOURCE + left)
    assert read_log_files([log_file], Options()).files[0].logs
    with pytest.raises(InputError):
        read_log_files([log_file], Options(), format="notes")
