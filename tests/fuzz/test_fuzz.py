"""A few of the mutations that ``make fuzz`` tries by the thousand, and of those of ``structured.py``."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

# These modules are scripts as well, and import one another by name.
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import fuzzing  # noqa: E402
import known  # noqa: E402
import sandbox  # noqa: E402
import structured  # noqa: E402
import structures  # noqa: E402
import verbs  # noqa: E402


def faults(known, start, count):
    chosen = [(number, *known[number % len(known)]) for number in range(start, start + count)]
    return [fault for case in chosen if (fault := fuzzing.attack(*case))]


@pytest.mark.parametrize("start", range(4))
def test_mutated_logs_give_a_study_or_one_message(shared_data, start):
    found = faults(list(fuzzing.logs(shared_data / "logs")), start * 1000, 80)
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("kind", ["table", "study file", "study"])
def test_mutated_files_give_a_result_or_one_message(kind):
    known = [case for case in fuzzing.files() if case[0] == kind]
    assert len(known) > 1
    found = faults(known, 0, 120)
    assert not found, "\n\n".join(found)


def test_the_corpus_is_read_as_it_is(tmp_path):
    """A mutation of a file that is refused anyway would try nothing."""
    for kind, path in fuzzing.files():
        copy = fuzzing.copied(kind, path, tmp_path / str(abs(hash(path))))
        assert any(_reads(read) for read in fuzzing.readers(kind, path, copy)), path


def _reads(read):
    from breadth.errors import InputError

    try:
        read()
    except InputError:
        return False
    return True


def test_a_mutation_can_be_repeated():
    content = json.dumps({"a": [1, 2, {"b": "c"}]}).encode()
    assert fuzzing.mutate(content, random.Random(3)) == fuzzing.mutate(content, random.Random(3))


def findings(script, *arguments, tmp_path):
    """What a script found, one line each. It runs in a process of its own: children are forked before any thread."""
    target = tmp_path / "found.json"
    command = [sys.executable, str(HERE / script), *map(str, arguments), "--json", str(target)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert target.exists(), ended.stdout + ended.stderr
    rows = json.loads(target.read_text())
    rows = [row for row in rows if row["status"] == "found"] if script == "known.py" else rows["findings"]
    return [f"{row.get('name', row.get('case'))} {row['verb']}: {row['what']} at {row['frame']}: {row['message']}"
            for row in rows]  # fmt: skip


@pytest.mark.parametrize("seed", [1, 2])
def test_changed_structures_give_a_result_or_one_message(seed, tmp_path):
    found = findings("structured.py", "--seed", seed, "--count", 5, "--minutes", 5, tmp_path=tmp_path)
    assert not found, "\n".join(found)


def test_changed_structures_of_logs_give_a_result_or_one_message(shared_data, tmp_path):
    chosen = ["--only", "log", "--logs", shared_data / "logs", "--seed", 1]
    found = findings("structured.py", *chosen, "--count", 5, "--minutes", 5, tmp_path=tmp_path)
    assert not found, "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("group", sorted({case.group for case in known.KNOWN.values()}))
def test_known_blow_ups_give_a_result_or_one_message(group, tmp_path):
    found = findings("known.py", "--group", group, tmp_path=tmp_path)
    assert not found, "\n".join(found)


def watched(tmp_path, *tasks, **limits):
    return [(outcome.verb, outcome.finding.what) if outcome.finding else (outcome.verb, outcome.status)
            for outcome in sandbox.watch(tasks, tmp_path, **limits)]  # fmt: skip


def test_a_hang_a_blow_up_and_a_crash_are_recorded_and_the_rest_goes_on(tmp_path):
    def hang():
        while True:
            pass

    def grow():
        kept = []
        while len(kept) < 4000:  # 4 GB at most, should nobody stop it
            kept.append(b"x" * (1 << 20))

    def crash():
        os.kill(os.getpid(), signal.SIGSEGV)

    found = watched(
        tmp_path, ("hang", hang), ("grow", grow), ("crash", crash), ("fine", int), seconds=0.5, memory=200 << 20
    )
    assert found == [("hang", "hang"), ("grow", "memory"), ("crash", "crash"), ("fine", "ok")]


def test_refusals_are_allowed_and_other_exceptions_are_findings(tmp_path):
    from breadth.errors import InputError

    def refuse(message):
        raise InputError(message)

    tasks = [("refuse", lambda: refuse("no such file")), ("empty", lambda: refuse(" ")), ("other", [].pop)]
    assert watched(tmp_path, *tasks) == [("refuse", "refused"), ("empty", "empty message"), ("other", "IndexError")]


def test_a_short_peak_of_memory_is_noticed(tmp_path):
    """Between two looks from outside, a verb can take memory and give it back."""
    assert watched(tmp_path, ("peak", lambda: len(b"x" * (300 << 20))), memory=100 << 20) == [("peak", "memory")]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_the_same_seed_gives_the_same_files(tmp_path):
    first = {}
    for attempt in ("one", "two"):
        for number in range(12):
            case = structures.make_case("answers" if number % 2 else "matrix", f"5.{number}")
            folder = tmp_path / attempt / str(number)
            folder.mkdir(parents=True)
            path = structures.build(case, folder, tmp_path)
            content = path.read_bytes()
            if path.suffix != ".npz":  # archives hold the time
                assert first.setdefault((number, path.name), content) == content
    assert len(first) >= 6


def test_changes_of_every_kind_are_drawn():
    """A kind of change that raises, or is never reached, would try nothing."""
    for number in range(600):
        columns = structures.answers_long(random.Random(number), 3, 6)
        for change in range(3):
            columns = structures.change_columns(columns, random.Random(1000 * number + change))
    drawn = random.Random(0).choices(list(structures.COLUMN_CHANGES), list(structures.COLUMN_CHANGES.values()), k=2000)
    assert set(drawn) == set(structures.COLUMN_CHANGES)
    for kind in structures.TYPES:

        class Fixed(random.Random):
            def choice(self, _):
                return kind  # noqa: B023

        import polars as pl

        assert structures.retyped(pl.Series(["a", None, "b"]), Fixed()).len() == 3


def test_a_run_stops_in_time(tmp_path):
    started = time.monotonic()
    findings("structured.py", "--only", "yaml", "--seed", 2, "--minutes", 0.05, tmp_path=tmp_path)
    assert time.monotonic() - started < 60
    assert structured.names_of(3, 7, verbs.KINDS) == structured.names_of(3, 7, verbs.KINDS)
