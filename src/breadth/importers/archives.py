"""Zip archives of logs, read without trusting them: members are stored, or compressed by deflate or zstandard.

Python before 3.14 does not know zstandard in archives, and ``zipfile`` takes as long to list 10,000 members as their
summaries take to parse: the directory is read here, in one pass. Nothing is unpacked to disk.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

import zstandard

from breadth.errors import InputError
from breadth.importers.reading import MOST_BYTES, SMALL

#: What unpacks to more than this many times its size is refused. Logs shrink 5 to 100 times, a zip bomb 100,000 times.
MOST_RATIO = 1000

#: How members are compressed.
STORED, DEFLATED, ZSTANDARD = 0, 8, 93

#: Flags of a member: its name is UTF-8; it is encrypted or a patch of another file.
UTF8, UNREADABLE = 0x800, 0x61

#: What stands in a field of four bytes whose value is in the extra fields of a member.
ELSEWHERE = 0xFFFFFFFF

# Records of a zip archive (APPNOTE 6.3), as far as they are used.
_MEMBER = struct.Struct("<8x2H4x3I3H8xI")
_LOCAL = struct.Struct("<4s22x2H")
_END = struct.Struct("<4s8x2I2x")
_LOCATOR = struct.Struct("<20x")
_END_64 = struct.Struct("<4s36x2Q")

#: What is raised where bytes are not what they should be.
_DAMAGE = (OSError, ValueError, OverflowError, MemoryError, struct.error, zlib.error, zstandard.ZstdError)


class Member(NamedTuple):
    """What the directory says about a member; ``packed`` and ``size`` are its bytes before and after decompression."""

    name: bytes
    flags: int
    method: int
    checksum: int
    packed: int
    size: int
    offset: int


class Archive:
    """An open zip archive. Raises ValueError and the like where it is damaged; :func:`open_archive` says so."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        """Read the directory of a file; ``path`` is what messages call it."""
        self.file, self.path = file, path
        directory, shift = _directory(file)
        self._directory, self._shift = directory, shift
        count = packed = size = at = 0
        places = {}
        while at < len(directory):
            start = at + _MEMBER.size
            if start > len(directory) or not directory.startswith(b"PK\1\2", at):
                raise ValueError("its directory is damaged")
            flags, _, _, own_packed, own_size, named, extra, comment, _ = _MEMBER.unpack_from(directory, at)
            end = start + named
            raw = directory[start:end]
            if ELSEWHERE in (own_packed, own_size):
                member = self._member(at)
                own_packed, own_size = member.packed, member.size
            places[raw.decode("utf-8" if flags & UTF8 or raw.isascii() else "cp437")] = at
            at = end + extra + comment
            count, packed, size = count + 1, packed + own_packed, size + own_size
        if at > len(directory):
            raise ValueError("its directory is cut off")
        #: Where the directory describes a member, by its name; of several with one name, the last.
        self.places: Mapping[str, int] = places
        self.count, self.packed, self.size = count, packed, size

    def __enter__(self) -> Archive:
        """Use the archive; its file is closed at the end."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self.file.close()

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """One member, decompressed up to a limit and compared with its size and checksum."""
        where = f"{self.path}, {name}"
        if name not in self.places:
            raise InputError(f"{where}: is not in the archive")
        member = self._member(self.places[name])
        if (size := max(member.size, member.packed)) > most:
            raise InputError(f"{where}: would take {size:,} bytes; at most {most:,} are read")
        if member.size > max(SMALL, MOST_RATIO * member.packed):
            ratio = member.size // max(member.packed, 1)
            raise InputError(
                f"{where}: would unpack to {ratio:,} times its size; at most {MOST_RATIO:,} times are read"
            )
        try:
            content = _unpacked(self._stored(member), member)
            if len(content) != member.size or zlib.crc32(content) != member.checksum:
                raise ValueError("checksum or size differs")
        except _DAMAGE as error:
            raise InputError(f"{where}: cannot be unpacked ({error}); the file is damaged") from error
        return content

    def _member(self, at: int) -> Member:
        flags, method, checksum, packed, size, named, extra, _, offset = _MEMBER.unpack_from(self._directory, at)
        start, end = at + _MEMBER.size, at + _MEMBER.size + named
        size, packed, offset = _extended(self._directory[end : end + extra], size, packed, offset)
        return Member(self._directory[start:end], flags, method, checksum, packed, size, offset + self._shift)

    def _stored(self, member: Member) -> bytes:
        """The compressed bytes of a member, found by its local header."""
        self.file.seek(member.offset)
        signature, named, extra = _LOCAL.unpack(self.file.read(_LOCAL.size))
        if signature != b"PK\3\4" or self.file.read(named) != member.name:
            raise ValueError("bad local header")
        self.file.seek(extra, os.SEEK_CUR)
        return self.file.read(member.packed)


def open_archive(path: Path) -> Archive:
    """Open a zip archive, unless it is damaged or a zip bomb."""
    try:
        file = path.open("rb")
        try:
            archive = Archive(file, str(path))
        except BaseException:
            file.close()
            raise
    except _DAMAGE as error:
        raise InputError(f"{path}: is not a whole zip archive ({error}); it is damaged or truncated") from None
    if archive.size > max(MOST_BYTES, MOST_RATIO * min(archive.packed, path.stat().st_size)):
        file.close()
        ratio = archive.size // max(archive.packed, 1)
        raise InputError(f"{path}: would unpack to {archive.size:,} bytes, {ratio:,} times its size")
    return archive


def member_names(path: Path) -> frozenset[str]:
    """Names in a zip archive; none for one that is damaged."""
    try:
        with path.open("rb") as file:
            return frozenset(Archive(file, str(path)).places)
    except _DAMAGE:
        return frozenset()


def _directory(file: BinaryIO) -> tuple[bytes, int]:
    """The directory of an archive, and how many bytes precede the archive in its file."""
    length = file.seek(0, os.SEEK_END)
    start = file.seek(max(length - _END.size - 0xFFFF, 0))
    tail = file.read()
    at = tail.rfind(b"PK\5\6", 0, max(len(tail) - _END.size + 4, 0))  # a comment may follow
    if at < 0:
        raise ValueError("its end is missing")
    _, size, offset = _END.unpack_from(tail, at)
    end = start + at
    before = end - _LOCATOR.size - _END_64.size
    if before >= 0:
        file.seek(before)
        found, size_64, offset_64 = _END_64.unpack(file.read(_END_64.size))
        if found == b"PK\6\6" and file.read(4) == b"PK\6\7":
            size, offset, end = size_64, offset_64, before
    if (shift := end - size - offset) < 0:
        raise ValueError("its directory is not where its end says")
    file.seek(end - size)
    return file.read(size), shift


def _extended(extra: bytes, *values: int) -> list[int]:
    """Size, packed size and offset of a member, those that need eight bytes from its extra fields."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            wide = struct.iter_unpack("<Q", extra[at + 4 : at + 4 + length // 8 * 8])
            return [next(wide, (value,))[0] if value == ELSEWHERE else value for value in values]
        at += 4 + length
    return list(values)


def _unpacked(stored: bytes, member: Member) -> bytes:
    """The content of a member; one byte more than its size where there is more."""
    if member.flags & UNREADABLE:
        raise ValueError("it is encrypted")
    if member.method == STORED:
        return stored
    if member.method == DEFLATED:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(stored, member.size + 1)
    if member.method == ZSTANDARD:
        with zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True) as stream:
            return stream.read(member.size + 1)
    raise ValueError(f"compression method {member.method} is not known")
