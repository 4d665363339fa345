import io
import shutil
import sqlite3
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth import InputError
from breadth.sources.checkpoint_scores.scores import Reading
from breadth.sources.source_files import SourceFile
from breadth.sources.tools.mlflow import is_mlflow, is_mlruns, read_mlflow, read_mlruns
from breadth.sources.tools.tensorboard import (
    LONGEST,
    SIGNATURE,
    WITHIN,
    Damaged,
    Scalar,
    _masked,
    is_tensorboard,
    read_tensorboard,
    scalars,
)


def mlflow(path, notes=None):
    file = SourceFile.look(path)
    assert is_mlflow(file)
    return list(read_mlflow(file, Reading([] if notes is None else notes)))


def test_real_mlflow_database(shared_data):
    scores = mlflow(shared_data / "logs/trajectories/mlflow_made/mlflow.db")
    assert {(score.run.name, score.run.model) for score in scores} == {
        ("Default/alpha", "m-alpha"),
        ("Default/beta", "m-beta"),
    }
    assert {score.name for score in scores} == {"eval/hans/accuracy", "eval_mnli_accuracy", "loss"}
    assert {score.step for score in scores} == {0, 10, 20, 30, 40}
    assert len(scores) == 30


@pytest.fixture
def database(shared_data, tmp_path):
    path = tmp_path / "mlflow.db"
    shutil.copy(shared_data / "logs/trajectories/mlflow_made/mlflow.db", path)
    path.chmod(0o644)
    return path


def change(path, *statements):
    database = sqlite3.connect(path)
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def test_deleted_runs_and_values_that_are_no_numbers_are_not_read(database):
    before = len(mlflow(database))
    change(
        database,
        "UPDATE runs SET lifecycle_stage = 'deleted' WHERE name = 'beta'",
        "UPDATE metrics SET is_nan = 1 WHERE key = 'loss' AND step = 0",
        "UPDATE metrics SET value = 1.7976931348623157e308 WHERE key = 'loss' AND step = 10",
    )
    assert {score.run.name for score in mlflow(database)} == {"Default/alpha"}
    assert len(mlflow(database)) == before // 2 - 2


def test_other_databases_hold_nothing(tmp_path):
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE metrics (x)")
    assert mlflow(path) == []


def test_a_database_in_use_is_said_to_be(database):
    database.with_name("mlflow.db-wal").write_bytes(b"x")
    notes = []
    mlflow(database, notes)
    assert notes == [f"{database}: is in use; values that are only in mlflow.db-wal are not read"]


def test_damaged_databases(database):
    change(database, "ALTER TABLE metrics RENAME COLUMN is_nan TO other")
    with pytest.raises(InputError, match=r"mlflow.db: cannot be read as an MLflow database \(no such column"):
        mlflow(database)
    whole = database.read_bytes()
    for damaged in (whole[:5000], whole.replace(b"metrics", b"metr\x82cs")):
        database.write_bytes(damaged)
        with pytest.raises(InputError, match=r"mlflow.db: cannot be read as an MLflow database"):
            mlflow(database)


@pytest.fixture
def metric(tmp_path):
    """A file of one metric in MLflow's folder layout."""
    folder = tmp_path / "mlruns" / "7" / "0123456789abcdef"
    path = folder / "metrics" / "eval" / "hans" / "accuracy"
    path.parent.mkdir(parents=True)
    path.write_text("1794815636649 0.5 0\n1794815636650 0.75 10\n1794815636651 nan 20\n")
    (folder / "meta.yaml").write_text("lifecycle_stage: active\nrun_name: 'alpha'\n")
    (folder.parent / "meta.yaml").write_text("name: tuning\n")
    (folder / "params").mkdir()
    (folder / "params" / "model").write_text("org/m")
    return path


def mlruns(path):
    file = SourceFile.look(path)
    assert is_mlruns(file)
    return list(read_mlruns(file, Reading([])))


def test_mlruns(metric):
    assert [(score.name, score.step, score.value) for score in mlruns(metric)] == [
        ("eval/hans/accuracy", 0, 0.5),
        ("eval/hans/accuracy", 10, 0.75),
    ]
    assert mlruns(metric)[0].run == ("tuning/alpha", ("01234567",), "org/m")


def test_mlruns_without_names_and_deleted_ones(metric):
    folder = metric.parents[3]
    (folder / "meta.yaml").write_text("")
    (folder.parent / "meta.yaml").unlink()
    assert mlruns(metric)[0].run.name == "7/0123456789abcdef"
    (folder / "meta.yaml").write_text("lifecycle_stage: deleted\n")
    assert mlruns(metric) == []


def test_damaged_mlruns(metric):
    metric.write_text("1794815636649 0.5 0\nwords\n")
    with pytest.raises(InputError, match="accuracy, line 2: is not 'time value step'; the file is damaged"):
        mlruns(metric)


def test_lines_of_numbers_elsewhere_are_not_mlruns(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("1794815636649 0.5 0\n")
    assert not is_mlruns(SourceFile.look(path))


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
    return length + struct.pack("<I", _masked(length)) + content + struct.pack("<I", _masked(content))


def event(*values: bytes, step: int = 0, time: float = 1.0) -> bytes:
    return record(part(1, time) + part(2, step) + part(5, b"".join(part(1, value) for value in values)))


def scalar(tag: str, value: float) -> bytes:
    return part(1, tag.encode()) + single(2, value)


def read(content: bytes) -> list[Scalar]:
    return list(scalars(io.BytesIO(content)))


HEAD = record(part(1, 1.0) + part(3, b"brain.Event:2"))


@pytest.fixture
def real(request):
    """Files that torch.utils.tensorboard 2.13 wrote, with tensorboard 2.21."""
    return request.path.parent / "data" / "tensorboard"


def test_files_of_pytorch(real):
    first = next((real / "run-a").glob("*.1.0")).read_bytes()
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
    assert _masked(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) % (1 << 32)


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
    image = event(part(1, b"image") + part(4, b"\0" * LONGEST))
    assert [one.tag for one in read(HEAD + image + event(scalar("a", 1.0)))] == ["a"]


@pytest.mark.parametrize("cut", [1, 4, 11, 12, 15, 30])
def test_what_comes_before_a_cut_is_read(cut):
    values = scalars(io.BytesIO(HEAD + event(scalar("a", 1.0)) + event(scalar("b", 1.0))[:cut]))
    assert next(values).tag == "a"
    with pytest.raises(Damaged, match="ends inside a record"):
        next(values)


@given(st.data())
def test_no_flipped_bit_passes(data):
    content = bytearray(HEAD + event(scalar("a", 1.0), step=3))
    place = data.draw(st.integers(0, len(content) * 8 - 1))
    content[place // 8] ^= 1 << place % 8
    with pytest.raises(Damaged):
        read(bytes(content))


@given(st.binary(max_size=60))
def test_any_record_is_read_or_said_to_be_damaged(content):
    for one in (record(content), record(part(5, content)), record(part(5, part(1, content))), content):
        with suppress(Damaged):
            assert all(isinstance(value, Scalar) for value in read(one))


@pytest.fixture
def events(request):
    """Folder of event files that torch.utils.tensorboard wrote."""
    return request.path.parent / "data" / "tensorboard"


def tensorboard(path, notes=None):
    file = SourceFile.look(path)
    assert is_tensorboard(file)
    return list(read_tensorboard(file, Reading([] if notes is None else notes)))


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
    assert notes == [f"{path}: ends inside a record; what comes after is not read"]
    path.write_bytes(content[:60])
    with pytest.raises(InputError, match="ends inside a record, before any scalar; the file is damaged"):
        tensorboard(path)
