"""Zip archives of logs, read without trusting them: members are stored, or compressed by deflate or zstandard.

``zipfile`` reads them, but for zstandard: Python before 3.14 does not know it, and later ones take a member that is cut
into frames, as Inspect writes those of more than 200 MiB, for damaged. Nothing is unpacked to disk.
"""

from __future__ import annotations

import copy
import os
import zlib
from pathlib import Path
from types import TracebackType
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import zstandard

from breadth.boundary import reading
from breadth.errors import InputError
from breadth.sources.limits import MOST_BYTES, MOST_RATIO, most_unpacked

#: How zip numbers zstandard among the methods of compression.
ZIP_ZSTANDARD = 93

#: The flag of a member that is encrypted.
ENCRYPTED = 1


class Archive:
    """An open zip archive."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        """Read the directory of a file; ``path`` is what messages call it."""
        self.file, self.path = file, path
        self.length = file.seek(0, os.SEEK_END)
        with reading(path, "zip archive"):
            self._zip = ZipFile(file)
        listed = self._zip.infolist()
        self.count = len(listed)
        self.packed = self.size = 0
        #: What the directory says of every member, by its name; of several with one name, the last.
        self.members: dict[str, ZipInfo] = {}
        for member in listed:
            self.packed += member.compress_size
            self.size += member.file_size
            self.members[member.filename] = member

    def __enter__(self) -> Archive:
        """Use the archive; its file is closed at the end."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self.file.close()

    def read(self, name: str) -> bytes:
        """One member, decompressed up to a limit and compared with its size and checksum."""
        where = f"{self.path}, {name}"
        member = self.members.get(name)
        if member is None:
            raise InputError(f"{where}: is not in the archive")
        _check_member(member, min(MOST_BYTES, most_unpacked(self.length)), where)
        with reading(where):
            if member.compress_type == ZIP_ZSTANDARD:
                content = self._read_zstandard(member)
            else:
                content = self._read_member(member)
        if len(content) != member.file_size:  # of which zipfile says nothing where the checksum is right
            raise InputError(f"{where}: does not have the size that the archive says; the file is damaged")
        return content

    def _read_member(self, member: ZipInfo) -> bytes:
        """The content of a member as zipfile reads it; one byte more than its size where there is more."""
        with self._zip.open(member) as content:
            return content.read(member.file_size + 1)

    def _read_zstandard(self, member: ZipInfo) -> bytes:
        """The same for a member that is compressed by zstandard, in any number of frames."""
        packed = self._packed_bytes(member)
        with zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as stream:
            content = stream.read(member.file_size + 1)
        if zlib.crc32(content) != member.CRC:
            raise BadZipFile("bad checksum")
        return content

    def _packed_bytes(self, member: ZipInfo) -> bytes:
        """The compressed bytes of a member: what zipfile reads if it is told that they are stored as they are."""
        stored = copy.copy(member)
        stored.compress_type = ZIP_STORED
        stored.file_size = member.compress_size
        del stored.CRC  # it is that of the content; without one, zipfile compares nothing
        with self._zip.open(stored) as content:
            return content.read()


def open_archive(path: Path) -> Archive:
    """Open a zip archive, unless it is damaged or a zip bomb."""
    with reading(path):
        file = path.open("rb")
    try:
        archive = Archive(file, str(path))
        # Members may overlap, so that their packed sizes are more than the file.
        if archive.size > max(MOST_BYTES, MOST_RATIO * min(archive.packed, archive.length)):
            ratio = archive.size // max(archive.packed, 1)
            raise InputError(f"{path}: would unpack to {archive.size:,} bytes, {ratio:,} times its size")
    except BaseException:
        file.close()
        raise
    return archive


def member_names(path: Path) -> frozenset[str]:
    """Names in a zip archive; none for one that is damaged."""
    try:
        with path.open("rb") as file:
            return frozenset(Archive(file, str(path)).members)
    except (InputError, OSError):
        return frozenset()


def _check_member(member: ZipInfo, most: int, where: str) -> None:
    """Refuse a member by what the directory says of it."""
    if member.flag_bits & ENCRYPTED:
        raise InputError(f"{where}: is encrypted; pack it without a password")
    if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED, ZIP_ZSTANDARD):
        # zipfile knows two others, but does not limit how much it unpacks of them.
        raise InputError(f"{where}: is compressed by method {member.compress_type}; pack it by deflate or zstandard")
    size = max(member.file_size, member.compress_size)
    if size > most:
        raise InputError(f"{where}: would take {size:,} bytes; at most {most:,} are read of an archive of this size")
