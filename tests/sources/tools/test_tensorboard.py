import io
import shutil
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth import InputError
from breadth.sources.checkpoint_scores.scores import ScoreOptions
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.tensorboard import (
    LONGEST_RECORD,
    SIGNATURE,
    WITHIN,
    DamagedRecordError,
    Scalar,
    TensorBoard,
    masked_checksum,
    scalars,
)


def varint(number: int) -> bytes:
    number %= 1 << 64
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def part(number: int, content: bytes | int | float) -> bytes:
    """A field of a protocol buffer: bytes, an integer or a double."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    if isinstance(content, float):
        return varint(number << 3 | 1) + struct.pack("<d", content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def single(number: int, value: float) -> bytes:
    return varint(number << 3 | 5) + struct.pack("<f", value)


def record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked_checksum(length)) + content + struct.pack("<I", masked_checksum(content))


def event(*values: bytes, step: int = 0, time: float = 1.0) -> bytes:
    return record(part(1, time) + part(2, step) + part(5, b"".join(part(1, value) for value in values)))


def scalar(tag: str, value: float) -> bytes:
    return part(1, tag.encode()) + single(2, value)


def read(content: bytes) -> list[Scalar]:
    return list(scalars(io.BytesIO(content)))


HEAD = record(part(1, 1.0) + part(3, b"brain.Event:2"))


@pytest.fixture
def events(request):
    """Files that torch.utils.tensorboard 2.13 wrote, with tensorboard 2.21."""
    return request.path.parents[1] / "data" / "tensorboard"


def test_files_of_pytorch(events):
    first = next((events / "run-a").glob("*.1.0")).read_bytes()
    assert SIGNATURE in first[:WITHIN]
    values = read(first)
    assert [one for one in values if one.tag == "eval/hans_accuracy"] == [
        Scalar("eval/hans_accuracy", step, pytest.approx(0.25 + step / 1000), 1e9 + step / 100)
        for step in (0, 100, 200, 300)
    ]
    # Written as tensors, with the plug-in "scalars"; the text "args" is a tensor, too, and not a scalar.
    assert [one.value for one in values if one.tag == "eval/mnli_accuracy"] == pytest.approx([0.5, 0.55, 0.6, 0.65])
    assert {one.tag for one in values} == {"eval/hans_accuracy", "eval/mnli_accuracy", "train/loss"}


def test_checksum_is_the_published_one():
    # CRC-32C of "123456789" is e3069283 (RFC 3720 and others); TFRecord rotates it by 15 bits and adds a constant.
    crc = 0xE3069283
    assert masked_checksum(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) % (1 << 32)


@given(
    st.lists(
        st.tuples(
            st.text(max_size=20),
            st.integers(-(1 << 63), (1 << 63) - 1),
            st.floats(width=32),
            st.floats(allow_nan=False),
        )
    )
)
def test_whatever_is_written_is_read(rows):
    content = HEAD + b"".join(event(scalar(tag, value), step=step, time=time) for tag, step, value, time in rows)
    assert [(one.tag, one.step, repr(one.value), one.time) for one in read(content)] == [
        (tag, step, repr(value), time) for tag, step, value, time in rows
    ]


def test_tensors_of_one_number_and_nothing_else():
    shape = b""
    double = part(1, 2) + part(2, shape) + part(6, struct.pack("<d", 0.1))
    packed = part(1, 1) + part(5, struct.pack("<f", 0.5))
    content = part(1, 1) + part(4, struct.pack("<f", 0.25))
    several = part(1, 1) + part(4, struct.pack("<ff", 0.25, 0.5))
    text = part(1, 7) + part(8, b"words")
    tensors = {"double": double, "packed": packed, "content": content, "several": several, "text": text}
    values = [part(1, tag.encode()) + part(8, tensor) for tag, tensor in tensors.items()]
    assert {one.tag: one.value for one in read(event(*values))} == {"double": 0.1, "packed": 0.5, "content": 0.25}


def test_values_of_other_plug_ins_are_not_scalars():
    of_plugin = [part(9, part(1, part(1, plugin))) for plugin in (b"pr_curves", b"scalars", b"")]
    tagged = [scalar(tag, 1.0) + plugin for tag, plugin in zip("abc", of_plugin, strict=True)]
    # The plug-in is named with the first value of a tag only.
    assert [one.tag for one in read(event(*tagged) + event(scalar("a", 2.0), scalar("b", 2.0)))] == ["b", "c", "b"]


def test_long_records_are_skipped():
    image = event(part(1, b"image") + part(4, b"\0" * LONGEST_RECORD))
    assert [one.tag for one in read(HEAD + image + event(scalar("a", 1.0)))] == ["a"]


@pytest.mark.parametrize("cut", [1, 4, 11, 12, 15, 30])
def test_what_comes_before_a_cut_is_read(cut):
    values = scalars(io.BytesIO(HEAD + event(scalar("a", 1.0)) + event(scalar("b", 1.0))[:cut]))
    assert next(values).tag == "a"
    with pytest.raises(DamagedRecordError, match="ends inside a record"):
        next(values)


@given(st.data())
def test_no_flipped_bit_passes(data):
    content = bytearray(HEAD + event(scalar("a", 1.0), step=3))
    place = data.draw(st.integers(0, len(content) * 8 - 1))
    content[place // 8] ^= 1 << place % 8
    with pytest.raises(DamagedRecordError):
        read(bytes(content))


def test_records_are_read_in_any_order_of_fields():
    backwards = record(part(5, part(1, single(2, 0.5) + part(1, b"a"))) + part(2, 7) + part(1, 2.0))
    assert read(HEAD + backwards) == [Scalar("a", 7, 0.5, 2.0)]


@given(st.binary(max_size=60))
def test_any_record_is_read_or_said_to_be_damaged(content):
    for one in (record(content), record(part(5, content)), record(part(5, part(1, content))), content):
        with suppress(DamagedRecordError):
            assert all(isinstance(value, Scalar) for value in read(one))


def tensorboard(path, notes=None):
    file = SourceFile.look(path)
    assert TensorBoard().detect(file).has_scores
    return list(TensorBoard().read_scores(file, ScoreOptions([] if notes is None else notes)))


def the_file(folder):
    (path,) = folder.glob("events.*")
    return path


def test_the_run_is_the_folder(events):
    scores = tensorboard(next((events / "run-a").glob("*.1.0")))
    assert {score.run.name for score in scores} == {(events / "run-a").resolve().as_posix()}
    assert {score.step for score in scores} == {0, 100, 200, 300}


def test_add_scalars_writes_a_folder_per_series(events):
    scores = tensorboard(the_file(events / "run-b" / "accuracy_hans"))
    assert {(score.run.name, score.name) for score in scores} == {
        ((events / "run-b").resolve().as_posix(), "hans/accuracy")
    }


def test_folders_of_the_trainer_are_starts_of_one_run(events, tmp_path):
    folder = tmp_path / "out" / "runs" / "May04_22-14-54_host"
    shutil.copytree(events / "run-a", folder)
    path = next(folder.glob("*.1.0"))
    assert {score.run.name for score in tensorboard(path)} == {folder.resolve().as_posix()}  # PyTorch's own default
    (tmp_path / "out" / "checkpoint-100").mkdir()
    assert {score.run.name for score in tensorboard(path)} == {(tmp_path / "out").resolve().as_posix()}


def test_folders_of_keras_and_estimators_are_stages(events, tmp_path):
    (tmp_path / "train").mkdir()
    folder = tmp_path / "eval_hans"
    shutil.copytree(events / "run-b" / "accuracy_hans", folder)
    assert {(score.run.name, score.name) for score in tensorboard(the_file(folder))} == {
        (tmp_path.resolve().as_posix(), "eval_hans/accuracy")
    }


def test_a_truncated_event_file_is_read_as_far_as_it_goes(events, tmp_path):
    content = next((events / "run-a").glob("*.1.0")).read_bytes()
    path, notes = tmp_path / "events.out.tfevents.1", []
    path.write_bytes(content[:-5])
    scores = tensorboard(path, notes)
    assert len(scores) == 12  # the last record is the text
    (note,) = notes
    assert note.startswith(f"{path}: ends inside a record")
    path.write_bytes(content[:60])
    with pytest.raises(InputError, match="ends inside a record, before any scalar"):
        tensorboard(path)
