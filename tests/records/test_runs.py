import json

import pytest

from breadth.errors import InputError
from breadth.records import RunRecord

RECORD = RunRecord("m", "mnli", 8, 0, method="lora", recipe={"lr": 1e-3}, start={"examples": 5}, checkpoints=(0, 4))


def test_what_is_written_is_read():
    assert RunRecord.parse(RECORD.to_json(), "run.json") == RECORD
    assert RECORD.start_examples == 5


def test_checkpoints_are_no_part_of_what_a_name_is_made_of():
    assert "checkpoints" not in RECORD.specification()
    assert "start" not in RunRecord("m").specification()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"x/run\.json: cannot be read; `breadth run` writes it again"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "does not describe a run"),
        (rb'{"model": "\ud800"}', "is not JSON"),
        (b"{}", "model is missing"),
        (b'{"model": "m", "seed": "0"}', "seed is '0'"),
        (b'{"model": "m", "seed": true}', "seed is True"),
        (b'{"model": "m", "checkpoints": [0, "4"]}', "checkpoints is"),
        (b'{"model": "m", "checkpoints": [0, -4]}', "checkpoints is"),
        (b'{"model": "m", "checkpoints": null}', "checkpoints is None"),
        (b'{"model": "m", "checkpoints": [18446744073709551616]}', "checkpoints is"),
        (b'{"model": "m", "seed": 1%s}' % (b"0" * 400), "seed is 1000000"),
        (b'{"model": "m", "colour": 1}', "'colour' is not a key of a run"),
        (b'{"model": "m", "shots": 8}', "written by breadth 0.1.*run the study again into a new directory"),
    ],
)
def test_bad_records(content, message):
    with pytest.raises(InputError, match=message):
        RunRecord.parse(content, "x/run.json")


def test_the_file_is_readable():
    assert json.loads(RECORD.to_json())["checkpoints"] == [0, 4]
