"""A few of the mutations that ``fuzzing.py`` tries by the thousand."""

import importlib.util
from pathlib import Path

import pytest

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).with_name("fuzzing.py"))
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)


@pytest.mark.parametrize("start", range(4))
def test_mutated_logs_give_a_study_or_one_message(shared_data, start):
    known = list(fuzzing.cases(shared_data / "logs"))
    chosen = [(number, *known[number % len(known)]) for number in range(start * 1000, start * 1000 + 80)]
    faults = [fault for case in chosen if (fault := fuzzing.attack(*case))]
    assert not faults, "\n\n".join(faults)
