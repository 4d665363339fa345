"""Reads one file by one source, as ``breadth import`` does."""

from breadth.sources.logs.log import Options
from breadth.sources.registry import Part
from breadth.sources.source_files import SourceFile


def part_of(source, path):
    """What a source takes a file for; whatever it recognises, it says by what."""
    detection = source.detect(SourceFile.look(path))
    if detection is None:
        return None
    assert detection.reason
    return detection.part


def read(source, path, **options):
    """The logs of a file of answers."""
    assert part_of(source, path) is Part.ANSWERS
    return list(source.read_answers(SourceFile.look(path), Options(**options)))


def is_experimental(log):
    """Whether a log says that nobody tried on a real one what read it."""
    return any("never tried on a real log" in note for note in log.notes)
