"""What commands say is what it was, word for word: a file in texts/ per command, and nothing about sentences elsewhere.

Other tests assert codes, places, numbers and frames, so that a better sentence changes one file here and no test.
``BREADTH_UPDATE_GOLDEN=1 pytest tests/golden/test_golden_texts.py`` writes the files anew; read the diff.
texts.py has the inputs of the commands; refusals.py has those that are refused, each with one message in refusals.txt;
notes.py those of which something is said on standard error.
"""

import difflib
import os
from pathlib import Path

import pytest

from breadth.sources.registry import all_sources, what_sources_read

from .notes import NOTES
from .refusals import REFUSALS
from .small_inputs import hear
from .texts import TEXTS, Terminal

FOLDER = Path(__file__).with_name("texts")
UPDATE = "BREADTH_UPDATE_GOLDEN" in os.environ


def check(name, text):
    """Compare a text with its file, or write it if that is asked for."""
    path = FOLDER / f"{name}.txt"
    if UPDATE:
        path.write_text(text)
    old = path.read_text() if path.exists() else ""
    lines = difflib.unified_diff(old.splitlines(), text.splitlines(), f"texts/{path.name}", "now", n=2, lineterm="")
    changed = "\n".join(lines)
    assert not changed, f"{changed}\n(to accept this, set BREADTH_UPDATE_GOLDEN=1 and run the test again)"


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.mark.parametrize("name", TEXTS)
def test_commands_say_what_they_said(name, forks, kept, tmp_path):
    terminal = Terminal(forks, kept, tmp_path)
    TEXTS[name](terminal)
    check(name, terminal.text())


def hear_all(inputs, code, tmp_path):
    """What is said of every input: its title, what is typed, and the words."""
    parts = []
    # What breadth looked for is a long list, which many messages end in: it is kept once.
    looked_for = what_sources_read(source for source in all_sources() if source.holds_answers())
    for number, (title, (typed, files)) in enumerate(inputs.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        ended, said = hear(typed, files, folder)
        assert ended == code, f"{title}: exit code {ended}: {said}"
        start = "" if typed.startswith(">>> ") else "$ breadth "
        parts.append(f"# {title}\n{start}{typed}\n{said}")
    first, *others = "\n".join(parts).split(looked_for)
    return first + looked_for + "...".join(others) if others else first


def test_refusals_say_what_they_said(tmp_path):
    check("refusals", hear_all(REFUSALS, 2, tmp_path))


def test_notes_say_what_they_said(tmp_path):
    check("notes", hear_all(NOTES, 0, tmp_path))


def test_every_file_belongs_to_a_text():
    assert {path.stem for path in FOLDER.glob("*.txt")} == {*TEXTS, "refusals", "notes"}
