"""R data: data frames that become matrices of answers."""

import bz2
import gzip
import importlib.util
import lzma
import random
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from breadth.errors import InputError
from breadth.sources.logs.importing import read_logs
from breadth.sources.logs.log import SkipFile
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.matrix import Matrix
from breadth.sources.tools.r_data import is_r_data, read_r_data

from .reading import part_of, read

MATRIX = Matrix()

#: How an ``.rds`` begins.
RDS = b"X\n\x00\x00\x00\x02\x00\x02\x03\x00"

_SPEC = importlib.util.spec_from_file_location("fuzzing", Path(__file__).parents[2] / "fuzz" / "fuzzing.py")
fuzzing = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fuzzing)


@pytest.fixture
def pyreadr():
    return pytest.importorskip("pyreadr", reason="needs the extra r")


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas")


@pytest.fixture
def patterns(pandas):
    return pandas.DataFrame({"Item_1": [0, 1], "Item_2": [1, 0], "Freq": [3, 4]})


def holding(monkeypatch, path, **objects):
    """A file of which pyreadr says that it holds some objects: it cannot write them all."""
    monkeypatch.setitem(sys.modules, "pyreadr", SimpleNamespace(read_r=lambda _: objects))
    path.write_bytes(RDS)
    return path


def test_tabulated_patterns(pyreadr, patterns, tmp_path):
    pyreadr.write_rdata(str(tmp_path / "mirt.RData"), patterns, df_name="LSAT6", compress="gzip")
    pyreadr.write_rds(str(tmp_path / "own.rds"), patterns.drop(columns="Freq"))
    study = read_logs(tmp_path)
    assert study.testsets == ["LSAT6", "own"]
    assert study.select(testset="LSAT6").matrix.sum(axis=0).tolist() == [4, 3]


def test_a_column_of_subjects(pyreadr, pandas, tmp_path):
    frame = pandas.DataFrame({"subject": ["gpt", "pythia"], "a": [1, 0], "b": [0, 1]})
    pyreadr.write_rds(str(tmp_path / "x.rds"), frame)
    assert read_logs(tmp_path).subject_names == ("gpt", "pythia")


@pytest.mark.parametrize(
    ("row_names", "models"),
    [
        (["gpt", "pythia"], ["gpt", "pythia"]),
        (["1", "2"], ["x/0", "x/1"]),
        ([0, 1], ["x/0", "x/1"]),
        (["2", "3"], ["2", "3"]),
    ],
)
def test_row_names_are_subjects_unless_they_count(pandas, monkeypatch, tmp_path, row_names, models):
    frame = pandas.DataFrame({"a": [1, 0], "b": [0, 1]}, index=row_names)
    path = holding(monkeypatch, tmp_path / "x.rds", frame=frame)
    assert [log.model for log in read(MATRIX, path)] == models


def test_what_holds_no_answers_is_passed_over(pandas, monkeypatch, tmp_path, patterns):
    holding(
        monkeypatch,
        tmp_path / "all.RData",
        cube=np.zeros((2, 2, 2)),
        empty=pandas.DataFrame({"a": []}),
        ages=pandas.DataFrame({"age": [31, 47], "height": [170, 181]}),
        LSAT6=patterns,
    )
    assert read_logs(tmp_path).testsets == ["LSAT6"]


def test_columns_of_one_name_are_refused_by_frame(pandas, monkeypatch, tmp_path):
    frame = pandas.DataFrame([[1, 0]], columns=["a", "a"])
    file = SourceFile.look(holding(monkeypatch, tmp_path / "x.RData", exam=frame))
    with pytest.raises(InputError, match=r"x\.RData, exam: .*a"):
        list(read_r_data(file))


def test_answers_that_are_not_scored(pyreadr, pandas, tmp_path):
    pyreadr.write_rds(str(tmp_path / "SAT12.rds"), pandas.DataFrame({"i1": [1, 4], "i2": [5, 2]}))
    with pytest.raises(SkipFile, match="'i1' holds 4"):
        read(MATRIX, tmp_path / "SAT12.rds")


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_it_is_recognised_however_it_is_packed(tmp_path, compress):
    path = tmp_path / "data"
    path.write_bytes(compress(RDS))
    assert is_r_data(SourceFile.look(path))
    path.write_bytes(compress(b"something else"))
    assert not is_r_data(SourceFile.look(path))


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_what_unpacks_to_too_much_is_refused(pyreadr, monkeypatch, tmp_path, compress):
    path = tmp_path / "bomb.rds"
    path.write_bytes(compress(RDS + bytes(1_000_000)))
    monkeypatch.setattr("breadth.sources.limits.MOST_BYTES", 100_000)
    with pytest.raises(InputError, match=r"bomb\.rds.* 1,000,010 bytes"):
        list(read_r_data(SourceFile.look(path)))


def test_mutations_give_a_result_or_one_message(pyreadr, patterns, tmp_path):
    read_files = 0
    path, chance = tmp_path / "m.RData", random.Random(4)
    pyreadr.write_rdata(str(path), patterns, df_name="m", compress="gzip")
    packed = path.read_bytes()
    pyreadr.write_rdata(str(path), patterns, df_name="m")
    for content in (packed, path.read_bytes()):
        for _ in range(100):
            path.write_bytes(chance.choice([fuzzing.flip, fuzzing.truncate, fuzzing.repeat])(content, chance))
            with suppress(InputError):
                read_logs(tmp_path)
                read_files += 1
    assert read_files, "not every mutation is refused"


@pytest.mark.parametrize("content", [RDS, b"RDX3\nX\n\x00\x00"])
def test_without_pyreadr_the_extra_is_named(tmp_path, monkeypatch, content):
    monkeypatch.setitem(sys.modules, "pyreadr", None)
    path = tmp_path / "data.rds"
    path.write_bytes(content)
    assert part_of(MATRIX, path) is Part.ANSWERS
    with pytest.raises(InputError, match=r"data\.rds: .*breadth\[r\]"):
        read_logs(path)
