"""A few of the mutations that ``make fuzz`` tries by the thousand."""

import importlib.util
import json
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).with_name("fuzzing.py"))
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)


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
    import random

    content = json.dumps({"a": [1, 2, {"b": "c"}]}).encode()
    assert fuzzing.mutate(content, random.Random(3)) == fuzzing.mutate(content, random.Random(3))
