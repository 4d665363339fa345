"""The parsers that are our own, on any bytes and on changed bytes of sound files: a result, or an ``InputError``.

Hypothesis looks for a counterexample and makes it small; ``fuzzing.py`` and ``structured.py`` change whole files.
"""

import io
import json
import struct
import zipfile

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.sources.npz_files import read_matrix_file
from breadth.sources.parquet_footers import declared_values
from breadth.sources.tools.tensorboard import DamagedRecordError, masked_checksum, scalars
from breadth.sources.zip_archives import open_archive
from breadth.study.document import read_document


def npz():
    content = io.BytesIO()
    np.savez(content, R=np.eye(3, dtype=np.int8), items=np.array(["a", "b", "c"]))
    return content.getvalue()


def archive():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("header.json", json.dumps({"version": 2, "eval": {}}))
        file.writestr("samples/1_epoch_1.json", "{}" * 50)
    return content.getvalue()


def parquet():
    content = io.BytesIO()
    pl.DataFrame({"model": ["a", "b"], "score": [0.5, None]}).write_parquet(content)
    return content.getvalue()


def events():
    """A record of TensorBoard: a step and a value with its tag."""
    value = b"\x0a\x01a" + b"\x15" + struct.pack("<f", 0.5)
    event = b"\x10\x05" + b"\x2a" + bytes([len(value) + 2]) + b"\x0a" + bytes([len(value)]) + value
    length = struct.pack("<Q", len(event))
    return length + struct.pack("<I", masked_checksum(length)) + event + struct.pack("<I", masked_checksum(event))


def gguf():
    name = struct.pack("<Q", 1) + b"n"
    setting = name + struct.pack("<II", 4, 7)
    tensor = name + struct.pack("<IQIQ", 1, 32, 0, 0)
    return b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + setting + tensor + bytes(160)


def safetensors():
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(8)


def read_events(path):
    try:
        return list(scalars(io.BytesIO(path.read_bytes())))
    except DamagedRecordError:
        return None


def read_archive(path):
    with open_archive(path) as file:
        return [file.read(name) for name in file.members]


def read_footer(path):
    return declared_values(io.BytesIO(path.read_bytes()), path)


def read_yaml(path):
    return read_document(path.read_bytes().decode("utf-8", "replace"), str(path))


def read_gguf(path):
    from breadth.lm.gguf_files import check_gguf

    return check_gguf(path)


def read_weights(path):
    from breadth.lm.weight_files import read_header

    return read_header(path)


#: What reads a file, the ending of its name, and the bytes of a sound one.
PARSERS = {
    "TensorBoard records": (read_events, ".tfevents", events()),
    "zip archives": (read_archive, ".eval", archive()),
    "NPZ": (read_matrix_file, ".npz", npz()),
    "Parquet footers": (read_footer, ".parquet", parquet()),
    "study files": (read_yaml, ".yaml", b"name: a\nmodels: [x, &b y, *b]\ntrain: {set: mnli, examples: [1, 2]}\n"),
    "GGUF headers": (read_gguf, ".gguf", gguf()),
    "safetensors headers": (read_weights, ".safetensors", safetensors()),
}


@pytest.mark.parametrize("name", PARSERS)
def test_a_sound_file_is_read(name, tmp_path):
    read, ending, content = PARSERS[name]
    path = tmp_path / f"sound{ending}"
    path.write_bytes(content)
    assert read(path) is not None or name == "GGUF headers"


def changed(content, edits, cut):
    """Bytes with some parts replaced, and cut off at the end."""
    changed = bytearray(content)
    for place, new in edits:
        at = place % (len(changed) + 1)
        changed[at : at + len(new)] = new
    return bytes(changed[: len(changed) - cut % (len(changed) + 1)])


EDITS = st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(max_size=9)), max_size=4)


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(edits=[(0, b"\xff" * 9)], cut=0, other=None)
@example(edits=[], cut=1, other=None)
@given(edits=EDITS, cut=st.just(0) | st.integers(0, 1 << 16), other=st.none() | st.binary(max_size=200))
def test_other_bytes_are_a_result_or_one_message(name, tmp_path, edits, cut, other):
    read, ending, content = PARSERS[name]
    path = tmp_path / f"changed{ending}"
    path.write_bytes(changed(content, edits, cut) if other is None else other)
    try:
        read(path)
    except InputError as error:
        message = str(error)
    else:
        return
    assert path.name in message
