import io
import json
import os
import random
import struct
import warnings
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.sources import limits, zip_archives
from breadth.sources.source_files import SourceFile
from breadth.sources.zip_archives import Archive, open_archive
from import_inspect import DEFLATED, STORED, ZSTANDARD, write_archive

METHODS = (STORED, DEFLATED, ZSTANDARD)


def zipped(members, method=zipfile.ZIP_DEFLATED):
    """The bytes of an archive as zipfile writes it."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that occur twice
        for name, content in members:
            archive.writestr(name, content)
    return target.getvalue()


def contents(content):
    archive = Archive(io.BytesIO(content), "zip")
    return {name: archive.read(name) for name in archive.members}


@pytest.mark.parametrize("method", METHODS)
@given(content=st.binary(max_size=2000), frames=st.integers(1, 4))
def test_members_come_back(tmp_path_factory, method, content, frames):
    path = tmp_path_factory.mktemp("zip") / "log.eval"
    write_archive(path, [("a", content), ("b/ü.json", b"{}")], method, frames)
    with open_archive(path) as archive:
        assert archive.read("a") == content
        assert archive.read("b/ü.json") == b"{}"
        assert archive.size == len(content) + 2
    assert SourceFile.look(path).members == {"a", "b/ü.json"}


def test_the_writer_of_the_tests_writes_what_zipfile_reads(tmp_path):
    write_archive(tmp_path / "zip", [("a", b"1" * 99), ("b", b"")], DEFLATED)
    with zipfile.ZipFile(tmp_path / "zip") as archive:
        assert archive.testzip() is None
        assert archive.read("a") == b"1" * 99


@pytest.mark.parametrize("method", METHODS)
def test_damage_is_refused(tmp_path, method):
    path = tmp_path / "log.eval"
    content = json.dumps({str(k): k * k for k in range(200)}).encode()
    write_archive(path, [("header.json", content)], method)
    whole = path.read_bytes()
    for position in range(41, len(whole) - 80, 41):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x5A]) + whole[position + 1 :])
        with open_archive(path) as archive, pytest.raises(InputError, match=r"log\.eval, header\.json: "):
            archive.read("header.json")
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"log\.eval: cannot be read as zip archive; it is truncated"):
            open_archive(path)
        assert SourceFile.look(path).members == frozenset()


def test_what_is_not_there(tmp_path):
    with pytest.raises(InputError, match="zip: cannot be read"):
        open_archive(tmp_path / "zip")
    write_archive(tmp_path / "zip", [("a", b"1")])
    with open_archive(tmp_path / "zip") as archive, pytest.raises(InputError, match="zip, b: is not in the archive"):
        archive.read("b")


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
@pytest.mark.parametrize("stated", [10, 99_999, 100_001])
def test_a_member_that_lies_about_its_size_is_refused(tmp_path, method, stated):
    path = tmp_path / "zip"
    write_archive(path, [("a", bytes(100_000))], method)
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 100_000), struct.pack("<I", stated)))
    with open_archive(path) as archive, pytest.raises(InputError, match="zip, a: "):
        archive.read("a")


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
def test_zip_bombs_are_refused(tmp_path, monkeypatch, method):
    monkeypatch.setattr(limits, "SMALL", 1000)
    write_archive(tmp_path / "zip", [("a", bytes(10_000_000))], method)
    with open_archive(tmp_path / "zip") as archive, pytest.raises(InputError, match="zip, a: would take 10,000,000 by"):
        archive.read("a")
    monkeypatch.setattr(zip_archives, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match=r"zip: would unpack to 10,000,000 bytes, .* times its size"):
        open_archive(tmp_path / "zip")


def test_what_shrinks_as_logs_do_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 1000)
    content = bytes(random.Random(1).choices(b"ab", k=50_000))
    write_archive(tmp_path / "zip", [("a", content)], ZSTANDARD)
    with open_archive(tmp_path / "zip") as archive:
        assert archive.read("a") == content


def test_of_two_members_with_one_name_the_last_is_read():
    content = zipped([("a", b"1"), ("a", b"2")])
    assert contents(content) == {"a": b"2"}
    assert Archive(io.BytesIO(content), "zip").count == 2


def change_directory(content, offset, form, value):
    """Change a field in the directory of an archive of one member."""
    changed = bytearray(content)
    struct.pack_into(form, changed, content.index(b"PK\1\2") + offset, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (8, 0x1, "zip, ab: is encrypted"),
        (8, 0x20, "zip, ab: .*compressed patched data"),
        (10, 12, "zip, ab: is compressed by method 12"),
        (46, 0x6363, "zip, cc: .*header"),
        (42, 3, "zip, ab: .*header"),
    ],
)
def test_members_that_cannot_be_read(offset, value, message):
    content = change_directory(zipped([("ab", b"1" * 99)]), offset, "<H", value)
    with pytest.raises(InputError, match=message):
        contents(content)


def test_damaged_archives_give_members_or_one_message(tmp_path):
    generator = random.Random(3)
    path = tmp_path / "zip"
    write_archive(path, [(f"samples/{k}.json", os.urandom(k)) for k in range(30)], ZSTANDARD)
    whole = path.read_bytes()
    outcomes = set()
    for _ in range(2000):
        content = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            content[generator.randrange(len(content))] = generator.choice([0, 255, generator.randrange(256)])
        path.write_bytes(content)
        try:
            with open_archive(path) as archive:
                for name in archive.members:
                    archive.read(name)
            outcomes.add("read")
        except InputError as error:
            outcomes.add("refused" if str(error).startswith(str(path)) else str(error))
    assert outcomes == {"read", "refused"}
