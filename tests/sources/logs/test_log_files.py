import bz2
import gzip
import json
import lzma
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from breadth.errors import InputError, NothingFoundError
from breadth.sources import read_logs, registry
from breadth.sources.checkpoint_scores.importing import import_trajectories
from breadth.sources.logs import log_files
from breadth.sources.logs.log import Metric, Options
from breadth.sources.logs.log_files import KnownFile, file_checksum, read_log_files
from breadth.sources.registry import Detection, Part, Source, all_sources, experimental_note, what_sources_read

from ..conftest import make_log, write_lm_eval


@pytest.fixture
def mixture(tmp_path):
    """Logs of three tools, a companion, scores, and files that are no logs, under misleading names."""
    folder = tmp_path / "logs"
    samples = write_lm_eval(folder, "lab/a", {"home": [1, 0, 1]})[0]
    samples.rename(samples.with_suffix(".json"))
    (folder / "deep" / "er").mkdir(parents=True)
    np.savez(folder / "deep" / "er" / "answers.npz", R=np.array([[1, 0], [0, 1]]), models=["x", "y"], items=["i", "j"])
    (folder / "deep" / "table.csv").write_text("subject,item,correct\nz,i,1\nz,j,0\n")
    (folder / "deep" / "results_2025-01-01T00-00-00.000000.json").write_text(
        json.dumps({"results": {"home": {"acc,none": 0.5}}, "configs": {}, "versions": {}, "config": {}})
    )
    (folder / "notes.md").write_text("# Notes\n")
    (folder / "empty.jsonl").touch()
    (folder / "scores.csv").write_text("model,mnli,hans\na,0.5,0.6\n")
    return folder


def test_files_are_sorted_out_by_their_content(mixture):
    found = read_log_files([mixture], Options())
    read = {Path(read.path).name: read.logs for read in found.files}
    assert {name: {log.tool for log in logs} for name, logs in read.items()} == {
        "answers.npz": {"matrix"},
        "table.csv": {"matrix"},
        "samples_home_2026-01-01T00-00-00.000000.json": {"lm-evaluation-harness"},
    }
    reasons = {Path(path).name: reason for path, reason in found.left_out.items()}
    scores = reasons.pop("results_2025-01-01T00-00-00.000000.json")
    assert "no single answers (lm-eval: " in scores
    assert "`breadth import-scores`" in scores
    assert reasons == {
        "notes.md": "not a log of a known format",
        "empty.jsonl": "empty",
        "scores.csv": (
            "not a log of a known format; tables of answers or scores need no import (`breadth report FILE`)"
        ),
    }


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, lambda _: b"\x28\xb5\x2f\xfd..."])
def test_compressed_logs_have_a_reason_of_their_own(mixture, compress):
    (mixture / "samples.jsonl.gz").write_bytes(compress(b'{"doc_id": 0}'))
    assert read_log_files([mixture], Options()).left_out[str(mixture / "samples.jsonl.gz")] == "compressed; unpack it"


def test_a_remedy_is_named_only_where_it_works(mixture):
    state = json.dumps({"global_step": 3, "log_history": [{"step": 3, "eval_accuracy": 0.5}]})
    (mixture / "trainer_state.json").write_text(state)
    folder = mixture / "results" / "llama"
    folder.mkdir(parents=True)
    (folder / "ARC-c.json").write_text('{"accuracy": 50.0}')
    (folder / "x_pass_at_k.json").write_text('{"pass@1": 0.5}')
    reasons = {Path(path).name: reason for path, reason in read_log_files([mixture], Options()).left_out.items()}
    for name in ("ARC-c.json", "x_pass_at_k.json"):
        assert "no single answers" in reasons[name]
        assert reasons[name].endswith("; put them into a table for `breadth correlate`")
        with pytest.raises(NothingFoundError):
            import_trajectories(folder / name)
    for name in ("trainer_state.json", "results_2025-01-01T00-00-00.000000.json"):
        assert reasons[name].endswith("; `breadth import-scores` reads such files")
        assert import_trajectories(next(mixture.rglob(name))).frame.height == 1


def test_one_format_only(mixture):
    found = read_log_files([mixture], Options(), format="matrix")
    assert {log.tool for read in found.files for log in read.logs} == {"matrix"}
    assert "not a log of a known format" in found.left_out.values()
    with pytest.raises(InputError, match=r"format= is 'lmeval'; choose auto, lm-eval, .*Did you mean lm-eval"):
        read_log_files([mixture], Options(), format="lmeval")


def test_directories_without_logs_say_what_was_looked_for(tmp_path):
    looked_for = what_sources_read(source for source in all_sources() if source.holds_answers())
    with pytest.raises(NothingFoundError) as refused:
        read_log_files([tmp_path], Options())
    assert "no files" in str(refused.value)
    assert looked_for in str(refused.value)
    for k in range(5):
        (tmp_path / f"{k}.md").write_text("text")
    with pytest.raises(NothingFoundError) as refused:
        read_log_files([tmp_path], Options())
    message = str(refused.value)
    assert f"{tmp_path / '2.md'}: not a log of a known format; and 2 more" in message
    assert looked_for in message
    assert "3.md" not in message


def test_experimental_sources_say_so_of_every_log(tmp_path, monkeypatch):
    class Untried(Counting):
        name = "untried"
        experimental = True

    monkeypatch.setattr(registry, "_REGISTERED", [Untried()])
    (tmp_path / "a").write_text("a")
    (file,) = read_log_files([tmp_path], Options()).files
    assert [log.notes for log in file.logs] == [[experimental_note("tool")]]
    assert any("never tried" in warning for warning in read_logs(tmp_path).warnings)


def test_known_files_are_not_read_again(tmp_path, monkeypatch):
    first, second = write_lm_eval(tmp_path, "a", {"home": [1, 0], "away": [0, 1]})
    known = {KnownFile.of(first, file_checksum(first))}
    monkeypatch.chdir(tmp_path)
    for paths in ([tmp_path], [Path("a")]):
        reads = {Path(read.path).name: read for read in read_log_files(paths, Options(), known=known).files}
        assert reads[first.name].logs == ()
        assert reads[first.name].checksum == file_checksum(first)
        assert [log.testset for log in reads[second.name].logs] == ["away"]
    first.write_text(first.read_text() + "\n")
    assert all(read.logs for read in read_log_files([tmp_path], Options(), known=known).files)


def test_a_copy_of_a_known_file_is_read(tmp_path):
    first = write_lm_eval(tmp_path, "a", {"home": [1, 0]})[0]
    second = write_lm_eval(tmp_path, "b", {"home": [1, 0]})[0]
    assert file_checksum(first) == file_checksum(second)
    found = read_log_files([tmp_path], Options(), known={KnownFile.of(first, file_checksum(first))})
    assert [log.model for read in found.files for log in read.logs] == ["b"]


def test_all_damaged_files_are_named_in_one_message(tmp_path):
    paths = write_lm_eval(tmp_path, "a", {"home": [1, 0], "away": [0, 1], "abroad": [1, 1]})
    for path in paths[:2]:
        path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError) as refused:
        read_log_files([tmp_path], Options())
    lines = str(refused.value).splitlines()
    assert len(lines) == 2
    assert {line.partition(",")[0] for line in lines} == {str(path) for path in paths[:2]}
    assert all("line 2" in line and "damaged" in line for line in lines)


def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    path = write_lm_eval(tmp_path, "a", {"home": [1, 0]})[0]

    def refuse(self, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", refuse)
        with pytest.raises(InputError, match=r"\.json.*: cannot be read \(Permission denied\)"):
            read_log_files([path], Options())
        with pytest.raises(InputError, match="cannot be read"):
            file_checksum(path)


class Counting(Source):
    """Knows what its logs say without reading."""

    name = "counting"
    looks_like = "Counting logs"

    def detect(self, file):
        return Detection(Part.ANSWERS, "whatever it is")

    def read_answers(self, file, options):
        yield make_log([1.0], path=str(file.path))


def test_reading_in_several_processes_gives_the_same(tmp_path, monkeypatch):
    for k in range(6):
        write_lm_eval(tmp_path, f"m{k}", {"home": [1, 0, k % 2], "away": {"acc": [1, 0], "acc_norm": [0, None]}})
    (tmp_path / "m3" / "samples_home_2026-01-01T00-00-00.000000.jsonl").write_text('{"doc_id": 0, "doc": {}')
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    calls: dict[str, list] = {"serial": [], "parallel": []}
    with pytest.raises(InputError) as serial:
        read_log_files([tmp_path], Options(), progress=lambda *done: calls["serial"].append(done))
    with monkeypatch.context() as patch:
        patch.setattr(log_files, "PARALLEL", 0)
        with pytest.raises(InputError) as parallel:
            read_log_files([tmp_path], Options(), progress=lambda *done: calls["parallel"].append(done))
        assert str(serial.value) == str(parallel.value)
        assert calls["serial"] == calls["parallel"] == [(k + 1, 12) for k in range(12)]
        shutil.rmtree(tmp_path / "m3")
        several = read_log_files([tmp_path], Options())
    one = read_log_files([tmp_path], Options())
    assert [(read.path, read.checksum) for read in one.files] == [(read.path, read.checksum) for read in several.files]
    for left, right in zip(one.files, several.files, strict=True):
        for log, same in zip(left.logs, right.logs, strict=True):
            assert list(log.items) == list(same.items)
            assert log.values.keys() == same.values.keys()
            for metric in log.values:
                np.testing.assert_array_equal(log.scores(metric), same.scores(metric))
            np.testing.assert_array_equal(log.margins[Metric("acc")], same.margins[Metric("acc")])
            assert {key: list(column) for key, column in log.texts.items()} == {
                key: list(column) for key, column in same.texts.items()
            }
            assert (log.model, log.subject, log.settings, log.stated) == (
                same.model,
                same.subject,
                same.settings,
                same.stated,
            )


def test_formats_of_plug_ins_are_read_in_this_process(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(log_files, "PARALLEL", 0)
    monkeypatch.setattr(registry, "_REGISTERED", [Counting()])
    monkeypatch.setattr(log_files, "results_in_order", None)
    assert len(read_log_files([tmp_path], Options()).files) == 2


def test_names_that_are_not_utf_8(tmp_path):
    folder = tmp_path / os.fsdecode(b"m\xff")
    path = write_lm_eval(tmp_path, "m", {"home": [1, 0]})[0]
    path.parent.rename(folder)
    (folder / os.fsdecode(b"notes\xfe")).write_text("notes")
    found = read_log_files([folder], Options())
    assert [file.path for file in found.files] == [f"{tmp_path}/m\\xff/{path.name}"]
    assert list(found.left_out) == [f"{tmp_path}/m\\xff/notes\\xfe"]
    again = read_log_files([folder], Options(), known={KnownFile.of(file.path, file.checksum) for file in found.files})
    assert [file.logs for file in again.files] == [()]
