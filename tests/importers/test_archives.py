import io
import json
import os
import random
import struct
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.importers import archives
from breadth.importers.archives import Archive, open_archive
from breadth.importers.reading import LogFile
from import_inspect import DEFLATED, STORED, ZSTANDARD, write_archive

METHODS = (STORED, DEFLATED, ZSTANDARD)
MEMBERS = st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1), st.binary())
#: zipfile itself takes the signature of an archive's end in a comment for the end.
COMMENTS = st.binary().filter(lambda comment: b"PK\5\6" not in comment)


def zipped(members, method=zipfile.ZIP_DEFLATED, comment=b"", file=None):
    """The bytes of an archive as zipfile writes it."""
    target = io.BytesIO() if file is None else file
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.comment = comment
        for name, content in members:
            archive.writestr(name, content)
    return target.getvalue()


def contents(content):
    archive = Archive(io.BytesIO(content), "zip")
    return {name: archive.read(name) for name in archive.places}


@pytest.mark.parametrize("method", METHODS)
@given(content=st.binary(max_size=2000), frames=st.integers(1, 4))
def test_members_come_back(tmp_path_factory, method, content, frames):
    path = tmp_path_factory.mktemp("zip") / "log.eval"
    write_archive(path, [("a", content), ("b/c.json", b"{}")], method, frames)
    with open_archive(path) as archive:
        assert archive.read("a") == content
        assert archive.read("b/c.json") == b"{}"
    assert LogFile.look(path).members == {"a", "b/c.json"}


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
        with open_archive(path) as archive, pytest.raises(InputError, match=r"header\.json: cannot be unpacked"):
            archive.read("header.json")
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="is not a whole zip archive"):
            open_archive(path)


def test_a_member_that_is_not_there(tmp_path):
    write_archive(tmp_path / "zip", [("a", b"1")])
    with (
        open_archive(tmp_path / "zip") as archive,
        pytest.raises(InputError, match="zip, b: is not in the archive"),
    ):
        archive.read("b")


@pytest.mark.parametrize("method", METHODS)
def test_large_members_are_refused_by_the_size_that_they_state(tmp_path, method):
    write_archive(tmp_path / "zip", [("a", bytes(101))], method)
    with open_archive(tmp_path / "zip") as archive:
        with pytest.raises(InputError, match="zip, a: would take 101 bytes; at most 100 are read"):
            archive.read("a", most=100)
        assert len(archive.read("a", most=101)) == 101


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
def test_a_member_that_lies_about_its_size_is_refused(tmp_path, method):
    path = tmp_path / "zip"
    write_archive(path, [("a", bytes(100_000))], method)
    for stated in (10, 99_999, 100_001):
        path.write_bytes(path.read_bytes().replace(struct.pack("<I", 100_000), struct.pack("<I", stated)))
        with open_archive(path) as archive, pytest.raises(InputError, match="cannot be unpacked"):
            archive.read("a")
        write_archive(path, [("a", bytes(100_000))], method)


def test_zip_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "SMALL", 1000)
    write_archive(tmp_path / "zip", [("a", bytes(10_000_000))], ZSTANDARD)
    with open_archive(tmp_path / "zip") as archive, pytest.raises(InputError, match=r"zip, a: .* times its size"):
        archive.read("a")
    monkeypatch.setattr(archives, "MOST_BYTES", 1000)
    with pytest.raises(InputError, match=r"zip: would unpack to 10,000,000 bytes, .* times its size"):
        open_archive(tmp_path / "zip")


class Unseekable(io.BytesIO):
    """A stream, to which zipfile writes sizes behind every member."""

    def seek(self, *_):
        raise OSError

    tell = seek


class TestLikeZipfile:
    @given(MEMBERS, st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]), COMMENTS, st.binary())
    def test_what_it_writes_is_read(self, members, method, comment, before):
        content = zipped(members.items(), method, comment)
        with zipfile.ZipFile(io.BytesIO(before + content)) as archive:  # it may change names that look like paths
            names = archive.namelist()
        assert contents(before + content) == dict(zip(names, members.values(), strict=True))

    def test_sizes_behind_members(self):
        assert contents(zipped([("a", b"1" * 99), ("b", b"")], file=Unseekable())) == {"a": b"1" * 99, "b": b""}

    def test_names_in_the_old_code_page(self):
        content = zipped([("a", b"1")])
        assert contents(content.replace(b"a", b"\x81"))["ü"] == b"1"

    def test_of_two_members_with_one_name_the_last_is_read(self):
        with pytest.warns(UserWarning, match="Duplicate name"):
            content = zipped([("a", b"1"), ("a", b"2")])
        assert contents(content) == {"a": b"2"}
        assert Archive(io.BytesIO(content), "zip").count == 2

    def test_archives_beyond_four_gigabytes(self, monkeypatch):
        members = [(f"{k}", b"x" * k) for k in range(40)]
        for limit in ("ZIP64_LIMIT", "ZIP_FILECOUNT_LIMIT"):
            monkeypatch.setattr(zipfile, limit, 20)
        content = zipped(members)
        assert b"PK\6\6" in content
        assert contents(content) == contents(b"before" + content) == dict(members)

    def test_wide_sizes_count_in_the_sum(self, monkeypatch):
        monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 20)
        archive = Archive(io.BytesIO(zipped([("a", b"x" * 30), ("b", b"x")])), "zip")
        assert archive.size == 31


def change_directory(content, offset, form, value):
    """Change a field in the directory of an archive of one member."""
    changed = bytearray(content)
    struct.pack_into(form, changed, content.index(b"PK\1\2") + offset, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (8, 0x1, "it is encrypted"),
        (10, 12, "compression method 12 is not known"),
        (46, 0x6363, "bad local header"),
        (42, 3, "bad local header"),
    ],
)
def test_members_that_cannot_be_read(offset, value, message):
    content = change_directory(zipped([("ab", b"1" * 99)]), offset, "<H", value)
    with pytest.raises(InputError, match=message):
        contents(content)


def test_the_directory_must_be_where_the_end_says(tmp_path):
    content = zipped([("a", b"1" * 99)])
    lengths = [change_directory(content, 28, "<H", length) for length in (0, 999)]
    for changed in (content[40:], change_directory(content, 0, "<H", 0), *lengths):
        (tmp_path / "zip").write_bytes(changed)
        with pytest.raises(InputError, match="is not a whole zip archive"):
            open_archive(tmp_path / "zip")
        assert LogFile.look(tmp_path / "zip").members == frozenset()


def test_damaged_archives_give_members_or_one_message(tmp_path):
    generator = random.Random(3)
    whole = zipped([(f"samples/{k}.json", os.urandom(k)) for k in range(30)])
    outcomes = set()
    for _ in range(2000):
        content = bytearray(whole)
        for _ in range(generator.randint(1, 4)):
            content[generator.randrange(len(content))] = generator.choice([0, 255, generator.randrange(256)])
        (tmp_path / "zip").write_bytes(content)
        try:
            with open_archive(tmp_path / "zip") as archive:
                for name in archive.places:
                    archive.read(name)
            outcomes.add("read")
        except InputError as error:
            outcomes.add("refused" if str(error).startswith(str(tmp_path / "zip")) else str(error))
    assert outcomes == {"read", "refused"}
