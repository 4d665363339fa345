"""Files that are hostile or broken: one message that names the file, before memory or time run out."""

import gzip
import io
import json
import os
import random
import zipfile
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest

import breadth
from breadth.boundary import reading
from breadth.errors import InputError
from breadth.records.files import atomic_write
from breadth.sources import open_study
from breadth.sources.tables import read_table

HEADER = io.BytesIO()
np.lib.format.write_array_header_1_0(HEADER, {"descr": "<f8", "fortran_order": False, "shape": (100_000, 1_000_000)})


class PanicError(BaseException):
    """What a Rust library raises."""


def archive(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return content.getvalue()


def npz(**arrays):
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def npy():
    content = io.BytesIO()
    np.save(content, np.ones((3, 4)))
    return content.getvalue()


def encrypted():
    content = bytearray(npz(R=np.ones((3, 4))))
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


FILES = {
    "nested.json": (b"[" * 3000 + b"]" * 3000, "nested deeper than 32"),
    "nested.jsonl": (b'{"a":' * 1000 + b"1" + b"}" * 1000, "nested deeper than 32"),
    "keys.jsonl": (b"\n".join(b'{"k%d": 1}' % k for k in range(10_000)), "declares 100,000,000 cells"),
    "keys.json": (json.dumps([{f"k{k}": 1} for k in range(10_000)]).encode(), "declares 100,000,000 cells"),
    "bomb.npz": (npz(R=np.zeros((10_000, 10_000), np.int8)), "declares 100,000,000 cells"),
    "header.npz": (archive(R=HEADER.getvalue() + bytes(100)), "declares 800,000,000,000 bytes and holds"),
    "renamed.npz": (npy(), "cannot be read as NPZ"),
    "encrypted.npz": (encrypted(), "cannot be read as NPZ.*encrypted"),
    "bomb.csv.gz": (gzip.compress(b"a,b\n" + b"1,2\n" * 20_000_000, 1), "holds more than 67,108,864 bytes"),
    "wide.csv": (b",".join(b"c%d" % k for k in range(100_001)) + b"\n", "has 100,001 columns"),
    "pattern.csv": (b"^x$,y\n1,2\n", r"column '\^x\$' is named like a regular expression"),
    "star.csv": (b"*,y\n1,2\n", "is named like a pattern"),
    "long.csv": (b"x" * 20_000 + b",y\n1,2\n", "has a name of 20,000 characters"),
    "columns.json": (b'{"columns": 3, "data": [[1]]}', "is not a table"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_refused(tmp_path, name):
    content, message = FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=f"{name}.*(?s:{message})"):
        read_table(tmp_path / name)


def test_a_huge_cell_is_no_fault(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n"' + "x" * 200_000 + '",1\n2,\n')
    assert read_table(tmp_path / "t.csv").frame.shape == (2, 2)


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "parquet", "npz", "md"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_is_no_regular_file_is_not_waited_for(tmp_path, ending, kind):
    path = tmp_path / f"x.{ending}"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    for read in (read_table, open_study, breadth.report):
        with pytest.raises(InputError, match="is not a regular file"):
            read(path)
    with pytest.raises(InputError, match="nothing to read"):
        open_study(tmp_path)


def test_frames_of_pandas_with_columns_of_one_name():
    with pytest.raises(InputError, match="table: more than one column is called x; rename them"):
        read_table(pd.DataFrame([[1, 2, 3]], columns=["x", "x", "y"]))


def test_flipped_bits_of_parquet(tmp_path):
    content = io.BytesIO()
    pl.DataFrame({"run": ["a", "b"] * 50, "x": range(100), "y": [0.5] * 100}).write_parquet(content)
    refused = 0
    for place in range(0, len(content.getvalue()), 9):
        flipped = bytearray(content.getvalue())
        flipped[place] ^= 0x41
        (tmp_path / "t.parquet").write_bytes(flipped)
        try:
            read_table(tmp_path / "t.parquet")
        except InputError as error:
            refused += "t.parquet" in str(error)
    assert refused > 20


@pytest.mark.parametrize("name", ["x" * 300 + ".csv", "~nouser/x.csv", "a\0b.csv"])
def test_names_that_no_file_can_have(name):
    for read in (read_table, open_study, breadth.report):
        with pytest.raises(InputError, match="no such file"):
            read(name)


def test_a_panic_becomes_a_message_and_our_mistakes_do_not():
    with pytest.raises(InputError, match=r"x\.parquet: cannot be read.*index out of bounds"), reading("x.parquet"):
        raise PanicError("index out of bounds\nmore")
    with pytest.raises(KeyboardInterrupt), reading("x"):
        raise KeyboardInterrupt
    ours = compile("{}['missing']", "bug", "eval")
    with pytest.raises(KeyError), reading("x"):
        eval(ours, {"__name__": "breadth.records.somewhere"})
    with pytest.raises(InputError), reading("x"):
        eval(ours, {"__name__": "numpy.somewhere"})


def test_a_full_disk_while_a_library_writes(tmp_path):
    def fill(path):
        raise pl.exceptions.ComputeError("No space left on device")

    with pytest.raises(InputError, match=r"t\.parquet: cannot be written \(No space left on device\)"):
        atomic_write(tmp_path / "t.parquet", fill)
    assert list(tmp_path.iterdir()) == []


def test_what_a_reader_prints_when_it_panics_is_held_back(tmp_path, capfd):
    content = io.BytesIO()
    pl.DataFrame({"subject": ["a", "b", "c"] * 50, "item": [str(k) for k in range(150)], "correct": 1}).write_parquet(
        content
    )
    chance, panics = random.Random(1), []
    for _ in range(60):
        damaged = bytearray(content.getvalue())
        for _ in range(3):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        try:
            with reading("answers.parquet"):
                pl.read_parquet(io.BytesIO(bytes(damaged)))
        except InputError as error:
            if type(error.__cause__).__name__ == "PanicException":
                panics.append(str(error))
    assert set(panics) == {"answers.parquet: cannot be read; it is truncated, damaged or in another format"}
    os.write(2, b"this is seen again\n")
    assert capfd.readouterr().err == "this is seen again\n"


def test_threads_that_read_at_once_give_standard_error_back(capfd):
    def read(_):
        with reading("a"):
            os.write(2, b"a panic\n")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, range(200)))
    os.write(2, b"seen\n")
    assert capfd.readouterr().err == "seen\n"


@pytest.mark.parametrize("code", [0x110000, 0xD800])
def test_names_with_characters_that_do_not_exist(tmp_path, code):
    names = np.array(["q0", "q1", "q2"])
    names.view(np.uint32)[1] = code
    np.savez(tmp_path / "a.npz", R=np.eye(3, dtype=np.int8), items=names)
    with pytest.raises(InputError, match=r"a\.npz: array 'items' holds characters that do not exist"):
        breadth.open(tmp_path / "a.npz")


def test_answers_whose_items_have_no_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("model,testset\x02item,correct,label\nm0,a,q0,1,yes\nm0,b,q1,0,yes\nm1,a,q0,1,no\n")
    with pytest.raises(InputError, match=r'a\.csv: .*by="none"'):
        breadth.open(path)


def test_text_that_is_repeated_without_end(tmp_path, monkeypatch):
    path = tmp_path / "answers.parquet"
    frame = pl.DataFrame({"item": ["a" * 100, "b"] * 20, "text": ["long"] * 40, "correct": 1})
    frame.with_columns(pl.col("item").cast(pl.Categorical)).write_parquet(path)
    assert read_table(path).frame.equals(frame)  # categories are text
    monkeypatch.setattr("breadth.sources.limits.MOST_TEXT", 2000)
    with pytest.raises(InputError, match=r"answers\.parquet: column 'item' repeats 2,020 bytes of text; at most 2,000"):
        read_table(path)
