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
from breadth.importers import collecting
from breadth.importers.collecting import Known, collect, file_checksum, log_files, step_pattern
from breadth.importers.logs import Importer, Metric, Options, Part
from breadth.importers.trajectories import import_trajectories

from .conftest import make_log, write_lm_eval


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
    collected = collect([mixture], Options())
    read = {Path(read.path).name: read.logs for read in collected.read}
    assert {name: {log.tool for log in logs} for name, logs in read.items()} == {
        "answers.npz": {"matrix"},
        "table.csv": {"matrix"},
        "samples_home_2026-01-01T00-00-00.000000.json": {"lm-evaluation-harness"},
    }
    assert collected.companions == 1
    reasons = {Path(path).name: reason for path, reason in collected.left_out.items()}
    assert reasons == {
        "results_2025-01-01T00-00-00.000000.json": (
            "scores of whole test sets, no single answers; `breadth import trajectories` reads such files"
        ),
        "notes.md": "not a log of a known format",
        "empty.jsonl": "empty",
        "scores.csv": (
            "not a log of a known format; tables of answers or scores need no import (`breadth report FILE`)"
        ),
    }


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, lambda _: b"\x28\xb5\x2f\xfd..."])
def test_compressed_logs_have_a_reason_of_their_own(mixture, compress):
    (mixture / "samples.jsonl.gz").write_bytes(compress(b'{"doc_id": 0}'))
    assert collect([mixture], Options()).left_out[str(mixture / "samples.jsonl.gz")] == "compressed; unpack it"


def test_a_remedy_is_named_only_where_it_works(mixture):
    state = json.dumps({"global_step": 3, "log_history": [{"step": 3, "eval_accuracy": 0.5}]})
    (mixture / "trainer_state.json").write_text(state)
    folder = mixture / "results" / "llama"
    folder.mkdir(parents=True)
    (folder / "ARC-c.json").write_text('{"accuracy": 50.0}')
    (folder / "x_pass_at_k.json").write_text('{"pass@1": 0.5}')
    reasons = {Path(path).name: reason for path, reason in collect([mixture], Options()).left_out.items()}
    for name in ("ARC-c.json", "x_pass_at_k.json"):
        assert reasons[name].endswith("no single answers; put them into a table for `breadth correlate`")
        with pytest.raises(NothingFoundError):
            import_trajectories(folder / name)
    for name in ("trainer_state.json", "results_2025-01-01T00-00-00.000000.json"):
        assert reasons[name].endswith("no single answers; `breadth import trajectories` reads such files")
        assert import_trajectories(next(mixture.rglob(name))).frame.height == 1


def test_one_format_only(mixture):
    collected = collect([mixture], Options(), format="matrix")
    assert {log.tool for read in collected.read for log in read.logs} == {"matrix"}
    assert "not a log of a known format" in collected.left_out.values()
    with pytest.raises(InputError, match=r"--format is 'lmeval'; choose auto, lm-eval, .*Did you mean lm-eval"):
        collect([mixture], Options(), format="lmeval")


def test_files_are_listed_once_in_order_without_hidden_ones_and_links(tmp_path):
    logs, outside = tmp_path / "logs", tmp_path / "outside"
    for name in ("b/2", "a/1", ".git/config", "a/.hidden", "z"):
        (logs / name).parent.mkdir(parents=True, exist_ok=True)
        (logs / name).write_text(name)
    outside.mkdir()
    (outside / "secret").write_text("x")
    (logs / "linked").symlink_to(outside / "secret")
    (logs / "folder").symlink_to(outside)
    (logs / "loop").symlink_to(logs)
    os.mkfifo(logs / "pipe")
    listed = list(log_files([logs, logs / "a", logs / "a" / "1"], None))
    assert listed == [logs / "z", logs / "a" / "1", logs / "b" / "2"]
    assert list(log_files([logs / "linked"], None)) == [logs / "linked"]  # named by the user
    assert list(log_files([logs / "a" / ".hidden"], None)) == [logs / "a" / ".hidden"]
    assert list(log_files([logs], logs / "b")) == [logs / "z", logs / "a" / "1"]
    with pytest.raises(InputError, match=r"nowhere: no such file or directory"):
        list(log_files([logs, tmp_path / "nowhere"], None))


def test_directories_without_logs_say_what_was_looked_for(tmp_path):
    with pytest.raises(InputError, match=r"no files. Looked for lm-evaluation-harness samples_\*.jsonl, Inspect"):
        collect([tmp_path], Options())
    for k in range(5):
        (tmp_path / f"{k}.md").write_text("text")
    with pytest.raises(InputError) as refused:
        collect([tmp_path], Options())
    message = str(refused.value)
    assert f"{tmp_path}: no log with answers to single items." in message
    assert f"{tmp_path / '2.md'}: not a log of a known format; and 2 more. Looked for lm-evaluation" in message
    assert "3.md" not in message


def test_known_files_are_not_read_again(tmp_path, monkeypatch):
    first, second = write_lm_eval(tmp_path, "a", {"home": [1, 0], "away": [0, 1]})
    known = {Known.of(first, file_checksum(first))}
    monkeypatch.chdir(tmp_path)
    for paths in ([tmp_path], [Path("a")]):
        reads = {Path(read.path).name: read for read in collect(paths, Options(), known=known).read}
        assert reads[first.name].logs == ()
        assert reads[first.name].checksum == file_checksum(first)
        assert [log.testset for log in reads[second.name].logs] == ["away"]
    first.write_text(first.read_text() + "\n")
    assert all(read.logs for read in collect([tmp_path], Options(), known=known).read)


def test_a_copy_of_a_known_file_is_read(tmp_path):
    first = write_lm_eval(tmp_path, "a", {"home": [1, 0]})[0]
    second = write_lm_eval(tmp_path, "b", {"home": [1, 0]})[0]
    assert file_checksum(first) == file_checksum(second)
    collected = collect([tmp_path], Options(), known={Known.of(first, file_checksum(first))})
    assert [log.model for read in collected.read for log in read.logs] == ["b"]


def test_all_damaged_files_are_named_in_one_message(tmp_path):
    paths = write_lm_eval(tmp_path, "a", {"home": [1, 0], "away": [0, 1], "abroad": [1, 1]})
    for path in paths[:2]:
        path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError) as refused:
        collect([tmp_path], Options())
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
            collect([path], Options())
        with pytest.raises(InputError, match="cannot be read"):
            file_checksum(path)


class Counting(Importer):
    """Knows what its logs say without reading."""

    name = "counting"

    def part(self, file):
        return Part.ANSWERS

    def read(self, file, options):
        yield make_log([1.0], path=str(file.path))


def test_reading_in_several_processes_gives_the_same(tmp_path, monkeypatch):
    for k in range(6):
        write_lm_eval(tmp_path, f"m{k}", {"home": [1, 0, k % 2], "away": {"acc": [1, 0], "acc_norm": [0, None]}})
    (tmp_path / "m3" / "samples_home_2026-01-01T00-00-00.000000.jsonl").write_text('{"doc_id": 0, "doc": {}')
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    calls: dict[str, list] = {"serial": [], "parallel": []}
    with pytest.raises(InputError) as serial:
        collect([tmp_path], Options(), progress=lambda *done: calls["serial"].append(done))
    with monkeypatch.context() as patch:
        patch.setattr(collecting, "PARALLEL", 0)
        with pytest.raises(InputError) as parallel:
            collect([tmp_path], Options(), progress=lambda *done: calls["parallel"].append(done))
        assert str(serial.value) == str(parallel.value)
        assert calls["serial"] == calls["parallel"] == [(k + 1, 12) for k in range(12)]
        shutil.rmtree(tmp_path / "m3")
        several = collect([tmp_path], Options())
    one = collect([tmp_path], Options())
    assert [(read.path, read.checksum) for read in one.read] == [(read.path, read.checksum) for read in several.read]
    for left, right in zip(one.read, several.read, strict=True):
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
    monkeypatch.setattr(collecting, "PARALLEL", 0)
    monkeypatch.setattr(collecting, "each_importer", lambda: iter([Counting()]))
    monkeypatch.setattr(collecting, "in_processes", None)
    assert len(collect([tmp_path], Options()).read) == 2


def test_patterns_for_steps_have_one_group():
    assert step_pattern(None) is None
    assert step_pattern(r"s(\d+)").search("s12")[1] == "12"
    with pytest.raises(InputError, match=r"--step-from 's\(': is not a regular expression"):
        step_pattern("s(")
    for wrong in ("step", r"(s)(\d+)"):
        with pytest.raises(InputError, match="needs one group for the digits"):
            step_pattern(wrong)
