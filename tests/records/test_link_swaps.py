"""Who may write in a study puts a link in place of what is in it: nothing appears outside, nothing from there is read.

A link is swapped in before each single operation of the system, for each directory on the way, and the same again with
the directory put back one operation later, so that a check before and after finds nothing.
"""

import io
import os
import random
import shutil
import sys
import threading
from contextlib import suppress

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.records.files import Folder, LocalStore, atomic_write
from breadth.records.store import StudyStore
from breadth.records.study import Study
from breadth.reporting.progress import Progress
from breadth.sources import open_study

#: What looks names up or changes them; an attacker may come between any two of them.
OPERATIONS = (
    "open", "mkdir", "replace", "rename", "unlink", "rmdir", "stat", "lstat", "listdir", "scandir", "fsync", "chmod",
)  # fmt: skip

FLUSH = os.fsync

#: Directories of a study that are replaced; "hidden" is what is not whole yet.
VICTIMS = ("", "runs", "runs/a", "runs/a/weights", "aside", "hidden")


def fill(folder):
    (folder / "x").write_text("new")
    os.mkdir(folder / "inner")
    (folder / "inner" / "y").write_text("new")


WRITES = {
    "write": lambda store: store.write("runs/a/file", b"new"),
    "write into a new directory": lambda store: store.write("runs/b/file", b"new"),
    "append": lambda store: store.append("runs/a/log.jsonl", b"new"),
    "delete": lambda store: store.delete("runs/a/part"),
    "write_folder": lambda store: store.write_folder("runs/a/weights", fill),
    "delete_folder": lambda store: store.delete_folder("runs/a/weights"),
    "set_aside": lambda store: store.set_aside("runs/a/part"),
    "lock": lambda store: store.lock("runs/b", wait=False).__enter__(),
    "clean": lambda store: store.clean("runs/a"),
}


class Attacker:
    """Swaps a link to ``outside`` in before an operation; ``back`` is whether the directory returns after it."""

    def __init__(self, root, outside, victim, moment, back):
        self.root, self.outside, self.victim, self.moment, self.back = root, outside, victim, moment, back
        self.count, self.busy, self.away = 0, False, None

    def before_operation(self):
        if self.busy:
            return
        self.busy = True
        self.count += 1
        if self.count >= self.moment and self.away is None:
            self.swap()
        elif self.away is not None and self.back:
            self.restore()
        self.busy = False

    def swap(self):
        folders = [self.root / self.victim]
        if self.victim == "hidden":
            folders = [path for path in self.root.rglob("*") if ".partial-" in path.name]
        for folder in folders:
            if folder.exists() and not folder.is_symlink():
                away = self.root.parent / "away"
                target = self.outside if folder.is_dir() else self.outside / "x"
                os.rename(folder, away)
                os.symlink(target, folder)
                self.away = folder, away
                return

    def restore(self):
        folder, away = self.away
        if folder.is_symlink():
            os.unlink(folder)
            os.rename(away, folder)
        self.moment = 10**9
        self.away = None


def make_study(root):
    for folder in ("runs/a/weights", "aside", "runs/a/.old.partial-1"):
        (root / folder).mkdir(parents=True)
        (root / folder / "x").write_text("old")
    (root / "runs/a/part").write_text("old")
    store = LocalStore(root)
    with store.lock("", wait=False):
        pass
    return store


def make_outside(folder):
    """A directory that has all the names of a study, so that a link to it is noticed by nothing but being a link."""
    for name in ("a/weights", "weights", "runs/a", ".old.partial-1", "inner"):
        (folder / name).mkdir(parents=True)
    for name in ("x", "part", "a/x", "a/part", "weights/x", "a/weights/x", ".old.partial-1/x", "runs/a/part"):
        (folder / name).write_text("outside")


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def content(folder):
    return {str(path.relative_to(folder)): path.is_dir() or path.read_bytes() for path in folder.rglob("*")}


def watched(monkeypatch, attacker):
    for name in OPERATIONS:
        monkeypatch.setattr(os, name, _watched_one(getattr(os, name), attacker))


def _watched_one(operation, attacker):
    def call(*arguments, **options):
        attacker.before_operation()
        if operation is FLUSH:  # a thousand times a wait for the disk, which changes nothing here
            return None
        return operation(*arguments, **options)

    return call


@pytest.mark.parametrize("write", WRITES)
def test_links_that_are_swapped_in_lead_nowhere(tmp_path, write):
    make_outside(tmp_path / "outside")
    before = content(tmp_path / "outside")
    swaps = refused = 0
    for victim in VICTIMS:
        if victim == "hidden" and sys.platform != "linux":  # libraries write by a path there
            continue
        for back in (False, True):
            moment, swapped = 0, True
            while swapped:
                moment += 1
                root = tmp_path / "study"
                store = make_study(root)
                attacker = Attacker(root, tmp_path / "outside", victim, moment, back)
                with pytest.MonkeyPatch.context() as patch:
                    watched(patch, attacker)
                    try:
                        WRITES[write](store)
                    except InputError:
                        refused += 1
                swapped = attacker.away is not None or attacker.moment == 10**9
                swaps += swapped
                assert content(tmp_path / "outside") == before, (victim, back, moment)
                shutil.rmtree(root) if not root.is_symlink() else root.unlink()
                remove(tmp_path / "away")
    assert swaps >= 30
    assert refused >= 5


def test_a_result_beside_a_study_is_not_written_through_a_link(tmp_path):
    make_outside(tmp_path / "outside")
    before = content(tmp_path / "outside")
    for moment in range(1, 40):
        root = tmp_path / "study"
        root.mkdir()
        attacker = Attacker(root, tmp_path / "outside", "hidden", moment, False)
        with pytest.MonkeyPatch.context() as patch:
            watched(patch, attacker)
            try:
                atomic_write(root / "report.html", lambda path: path.write_text("new"))
            except InputError:
                assert attacker.away is not None
        assert content(tmp_path / "outside") == before, moment
        shutil.rmtree(root)
        remove(tmp_path / "away")


def test_links_that_come_and_go_while_a_study_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    make_outside(tmp_path / "outside")
    before = content(tmp_path / "outside")
    root, done = tmp_path / "study", threading.Event()
    store = make_study(root)
    swaps = 0

    def swap():
        nonlocal swaps
        while not done.is_set():
            os.rename(root / "runs", root / "moved")
            with suppress(FileExistsError):  # the writer has made it again
                os.symlink(tmp_path / "outside", root / "runs")
                swaps += 1
            if (root / "runs").is_symlink():
                os.unlink(root / "runs")
            while (root / "moved").exists():
                shutil.rmtree(root / "runs", ignore_errors=True)
                with suppress(OSError):
                    os.rename(root / "moved", root / "runs")

    thread = threading.Thread(target=swap)
    thread.start()
    written = refused = 0
    try:
        while (written < 100 or swaps < 200) and written + refused < 20_000:
            try:
                store.write("runs/a/file", b"new")
                written += 1
            except InputError:
                refused += 1
    finally:
        done.set()
        thread.join()
    assert content(tmp_path / "outside") == before
    assert swaps >= 200


EXPORTS = {
    "csv": ("", "hidden"),
    "parquet": ("", "hidden"),
    "eee": ("", "data", "data/one", "data/one/org/m", "hidden"),
}


@pytest.fixture
def small_study():
    """A model on two test sets."""
    subjects = {"subject": ["r/1"], "run": ["r"], "model": ["org/m"], "step": [1]}
    items = {"testset": ["one", "two"], "item": ["a", "b"]}
    return Study("study", pl.DataFrame(subjects), pl.DataFrame(items), np.array([[1, 0]], np.int8))


def make_outside_of_exports(folder, names):
    """A directory that has all the names of an export, and of unfinished ones, at every depth."""
    for above in ("", "data", "one", "org", "m", "data/one/org/m", "one/org/m", "org/m", "two/org/m", "data/two/org/m"):
        (folder / above).mkdir(parents=True, exist_ok=True)
        (folder / above / "x").write_text("outside")
        for name in names:
            (folder / above / f".{name}.partial-1").write_text("outside")


def interrupt(paths):
    """Make of a whole export one that was killed: its last files are not there, or not whole."""
    for path in paths[1:]:
        path.rename(path.with_name(f".{path.name}.partial-1"))


@pytest.mark.parametrize("resumed", [False, True])
@pytest.mark.parametrize("to", EXPORTS)
def test_an_export_writes_and_removes_only_in_the_directory_that_it_opened(tmp_path, small_study, to, resumed):
    whole = breadth.export(small_study, to=to, out=tmp_path / "whole").paths
    outside = tmp_path / "outside"
    make_outside_of_exports(outside, [path.name for path in whole])
    before = content(outside)
    swaps = refused = 0
    for victim in EXPORTS[to]:
        if victim == "hidden" and sys.platform != "linux":  # libraries write by a path there
            continue
        for back in (False, True):
            moment, swapped = 0, True
            while swapped:
                moment += 1
                root = tmp_path / "export"
                if resumed:
                    shutil.copytree(tmp_path / "whole", root)
                    interrupt([root / path.relative_to(tmp_path / "whole") for path in whole])
                attacker = Attacker(root, outside, victim, moment, back)
                if resumed and not victim:
                    # Until it is opened, a directory that was there is whatever its name leads to.
                    attacker.busy = True
                with pytest.MonkeyPatch.context() as patch:
                    watched(patch, attacker)
                    if attacker.busy:
                        patch.setattr(Folder, "open_or_make", opened_before(Folder.open_or_make, attacker))
                    try:
                        paths = breadth.export(small_study, to=to, out=root).paths
                        assert [path.relative_to(root) for path in paths] == [
                            path.relative_to(tmp_path / "whole") for path in whole
                        ]
                    except InputError:
                        refused += 1
                swapped = attacker.away is not None or attacker.moment == 10**9
                swaps += swapped
                assert content(outside) == before, (victim, back, moment)
                remove(root) if not root.is_symlink() else root.unlink()
                remove(tmp_path / "away")
    assert swaps >= 30
    assert refused >= 5 or (resumed and to != "eee")


def opened_before(open_or_make, attacker):
    """Opens a directory before the attacker begins."""

    def call(path):
        folder = open_or_make(path)
        attacker.busy = False
        return folder

    return call


@pytest.mark.parametrize("to", EXPORTS)
def test_links_that_come_and_go_while_an_export_is_written(tmp_path, monkeypatch, small_study, to):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    whole = breadth.export(small_study, to=to, out=tmp_path / "whole").paths
    outside, above = tmp_path / "outside", tmp_path / "above"
    make_outside_of_exports(outside, [path.name for path in whole])
    before = content(outside)
    above.mkdir()
    victims = [name for name in EXPORTS[to] if name != "hidden"]
    chance, done = random.Random(0), threading.Event()
    swaps = tries = 0

    def swap():
        nonlocal swaps
        while not done.is_set():
            # Each export makes a directory of its own: one that was there, or a link, would be the user's choice.
            victim = above / str(tries) / chance.choice(victims)
            with suppress(OSError):
                os.rename(victim, tmp_path / "moved")
                with suppress(FileExistsError):  # the export has made it again
                    os.symlink(outside, victim)
                    swaps += 1
            if victim.is_symlink():
                os.unlink(victim)
            shutil.rmtree(tmp_path / "moved", ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        while swaps < 100 and tries < 5_000:
            tries += 1
            with suppress(InputError):
                breadth.export(small_study, to=to, out=above / str(tries))
    finally:
        done.set()
        thread.join()
    assert content(outside) == before
    assert swaps >= 100


def test_a_link_in_an_export_is_not_followed(tmp_path, small_study):
    (tmp_path / "outside").mkdir()
    (tmp_path / "export").mkdir()
    os.symlink(tmp_path / "outside", tmp_path / "export" / "data")
    with pytest.raises(InputError, match="data: is a link"):
        breadth.export(small_study, to="eee", out=tmp_path / "export")
    with pytest.raises(InputError, match="already holds data"):
        breadth.export(small_study, to="csv", out=tmp_path / "export")
    assert content(tmp_path / "outside") == {}
    # The directory that the user names is the user's choice.
    os.symlink(tmp_path / "outside", tmp_path / "named")
    breadth.export(small_study, to="csv", out=tmp_path / "named")
    assert sorted(content(tmp_path / "outside")) == ["items.csv", "responses.csv", "subjects.csv"]


def test_an_import_writes_only_where_it_holds_the_lock(tmp_path):
    """The directory of an import was opened once more to write in it, and its lock was removed by path."""
    rows = [{"model": f"m{i}", "item": f"q{j}", "correct": (i * j) % 2} for i in range(3) for j in range(5)]
    pl.DataFrame(rows).write_csv(tmp_path / "answers.csv")
    make_outside(tmp_path / "outside")
    (tmp_path / "outside" / ".lock").write_text("")
    before = content(tmp_path / "outside")
    into = tmp_path / "answers"
    for finish in (False, True):
        shutil.rmtree(tmp_path / "away", ignore_errors=True)
        into.unlink(missing_ok=True)

        def swap(done, files, finish=finish):
            if not into.is_symlink():
                os.rename(into, tmp_path / "away")
                os.symlink(tmp_path / "outside", into)
            if not finish:
                raise InputError("something else is wrong")

        with pytest.raises(InputError, match="something else" if not finish else "was moved or removed"):
            breadth.import_logs(tmp_path / "answers.csv", into=into, progress=swap)
        assert into.is_symlink()
        assert content(tmp_path / "outside") == before


def test_without_handles_everything_works_by_path(tmp_path, monkeypatch):
    monkeypatch.setattr("breadth.records.files.HAS_HANDLES", False)
    make_outside(tmp_path / "outside")
    before = content(tmp_path / "outside")
    store = make_study(tmp_path / "study")
    for write in WRITES.values():
        write(store)
    atomic_write(tmp_path / "r.html", lambda path: path.write_text("new"))
    assert (tmp_path / "r.html").read_text() == "new"
    assert store.read("runs/a/file") == b"new"
    assert store.names("runs") == ["a", "b"]
    assert not (tmp_path / "study/runs/a/weights").exists()
    assert store.names("aside") == ["a.part.0", "x"] or store.names("aside") == ["x"]
    os.symlink(tmp_path / "outside", tmp_path / "study/runs/c")
    with pytest.raises(InputError, match="c: is a link"):
        store.write("runs/c/file", b"new")
    assert content(tmp_path / "outside") == before


@pytest.fixture
def studies(write_study, tmp_path):
    """A study, and a directory outside of it whose files have the same names and are sound, but hold other answers."""
    folder = write_study(tmp_path / "study", [{"model": "m"}, {"model": "n"}], items=10, steps=4)
    for run in StudyStore(folder).runs():
        run.log(loss=0.5)
    outside = tmp_path / "outside"
    shutil.copytree(folder / "runs", outside)
    for part in outside.rglob("step-*"):
        pl.read_parquet(part).with_columns(answer=pl.lit("from outside")).write_parquet(part)
    for log in outside.rglob("log.jsonl"):
        log.write_text('{"loss": 0.75}\n')
    return folder, outside


def every_moment_of(read, path, target):
    """What ``read`` gives when ``path`` becomes a link to ``target`` before a file is opened, for each such moment."""
    outcomes, moment, opened = [], 0, 0
    while opened >= moment:
        opened, away, moment = 0, path.with_name("away"), moment + 1

        def swapped(operation, moment=moment, away=away):
            def call(*arguments, **options):
                nonlocal opened
                opened += 1
                if opened == moment:
                    os.rename(path, away)
                    os.symlink(target, path)
                return operation(*arguments, **options)

            return call

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "open", swapped(os.open))
            patch.setattr(io, "open", swapped(io.open))
            try:
                outcomes.append(read())
            except InputError as error:
                outcomes.append(error)
        if path.is_symlink():
            os.unlink(path)
            os.rename(away, path)
    return outcomes


@pytest.mark.parametrize("victim", ["runs", "runs/{run}", "runs/{run}/{part}"])
def test_answers_are_those_that_were_checked(studies, victim):
    folder, outside = studies
    run = StudyStore(folder).runs()[1]
    path = folder / victim.format(run=run.name, part=run.parts()[16])
    expected = open_study(folder).responses.collect()
    study = open_study(folder)

    def read():
        del vars(study)["responses"]
        return study.responses.collect()

    assert study.responses.collect().equals(expected)
    outcomes = every_moment_of(read, path, outside / path.relative_to(folder / "runs"))
    refused = [outcome for outcome in outcomes if isinstance(outcome, InputError)]
    assert refused
    tables = [outcome for outcome in outcomes if isinstance(outcome, pl.DataFrame)]
    assert tables
    assert all(table.equals(expected) for table in tables)


def test_a_link_after_the_table_of_answers_was_made_is_not_read(studies):
    folder, outside = studies
    answers = open_study(folder).responses
    part = next(folder.glob("runs/*/step-000016*"))
    os.unlink(part)
    os.symlink(outside / part.relative_to(folder / "runs"), part)
    with pytest.raises(InputError, match=part.name):
        answers.collect()


def test_a_log_is_not_read_through_a_link(studies):
    folder, outside = studies
    path = StudyStore(folder).runs()[0].folder / "log.jsonl"

    def read():
        return Progress(folder).state(None)["runs"][0]["loss"]

    losses = every_moment_of(read, path, outside / path.relative_to(folder / "runs"))
    assert set(losses) == {0.5, None}


def test_no_handle_is_left_open(tmp_path):
    store = make_study(tmp_path / "study")
    before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    os.symlink(tmp_path, tmp_path / "study/runs/link")
    for write in WRITES.values():
        write(store)
    for key in ("runs/link/x", "runs/nothing/x", "runs/a/part/x", "nothing/at/all"):
        with pytest.raises(InputError):
            store.append(key, b"")
    Folder.open(tmp_path).close()
    if sys.platform == "linux":
        assert len(os.listdir("/proc/self/fd")) <= before + 1, "one lock is held"
