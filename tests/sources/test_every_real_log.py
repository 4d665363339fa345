"""Every real log: read, a companion of one that is read, or left out with a reason."""

import os
from pathlib import Path

import polars as pl
import pytest

import breadth
from breadth.sources.logs.log import Options, SkipFile
from breadth.sources.logs.log_files import read_log_files
from breadth.sources.registry import Part, detect
from breadth.sources.source_files import SourceFile

#: As the fixture ``shared_data`` finds it; a parameter is needed per file before any fixture is made.
SHARED = Path(os.environ.get("BREADTH_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
FILES = sorted(str(path.relative_to(SHARED / "logs")) for path in (SHARED / "logs").rglob("*") if path.is_file())

#: Files that are no logs: text about the logs, and schemas.
NO_LOGS = {
    "README.md",
    "every_eval_ever/LICENSE",
    "every_eval_ever/schemas/eval.schema.json",
    "every_eval_ever/schemas/instance_level_eval.schema.json",
    "every_eval_ever/skill_reference_conversion/README.md",
}

TOOLS = {
    "lm-evaluation-harness", "inspect", "helm", "lighteval", "evalplus", "swe-bench", "eee", "alpaca-eval",
    "openai-evals",
}  # fmt: skip


@pytest.fixture(scope="module")
def logs(shared_data):
    return shared_data / "logs"


@pytest.fixture(scope="module")
def whole(logs):
    """All of them in one call; two of them hold different answers of one subject."""
    return breadth.import_logs(logs, keep="all", dry_run=True)


@pytest.mark.skipif(not FILES, reason="needs the shared data (set BREADTH_SHARED_DATA to its directory)")
@pytest.mark.parametrize("name", FILES or [""])
def test_every_file_is_read_or_has_a_reason(name):
    file = SourceFile.look(SHARED / "logs" / name)
    detected = detect(file)
    assert (detected is None) == (name in NO_LOGS)
    if detected is None:
        return
    source, detection = detected
    assert detection.reason
    if detection.part is not Part.ANSWERS:
        return
    try:
        read = list(source.read_answers(file, Options()))
    except SkipFile as left_out:
        reason, read = str(left_out), []
    assert read or len(reason) > 10
    for log in read:
        assert log.model
        assert log.testset
        assert len(log.items)
        assert log.values
        assert log.path == str(file.path)


def test_every_file_is_accounted_for(logs):
    found = read_log_files([logs], Options())
    files = [path for path in logs.rglob("*") if path.is_file()]
    beside = companions(files)
    assert sorted([file.path for file in found.files if file.logs] + list(found.left_out)) == sorted(
        str(path) for path in files if str(path) not in beside
    )
    assert not any(file.problem for file in found.files)


def companions(files):
    found = set()
    for path in files:
        detected = detect(SourceFile.look(path))
        if detected is not None and detected[1].part is Part.COMPANION:
            found.add(str(path))
    return found


def test_one_call_reads_the_logs_of_all_tools(whole):
    assert set(whole.logs["tool"]) == TOOLS
    assert whole.study.subjects.height > 25
    assert whole.testsets.height > 20
    assert whole.testsets["items"].sum() == whole.study.items.height
    assert int(whole.study.answered.sum()) == whole.testsets["answers"].sum() == whole.logs["answered"].sum()
    assert whole.study.subjects["subject"].is_unique().all()


def test_every_log_is_imported_or_said_to_be_left_out(logs, whole):
    imported, left_out = set(whole.logs["path"]), set(whole.left_out["what"])
    assert not imported & left_out
    files = [path for path in logs.rglob("*") if path.is_file()]
    assert imported | left_out | companions(files) == set(map(str, files))
    assert all(whole.left_out["reason"].str.len_chars() > 4)


def test_every_stated_mean_is_reproduced_or_a_note_says_why(whole):
    stated = whole.logs.filter(pl.col("stated").is_not_null())
    assert stated.height > 30
    unequal = stated.filter((pl.col("stated") - pl.col("mean")).abs() > 1e-9)
    for row in unequal.iter_rows(named=True):
        assert any("but the log states" in note or "shares" in note for note in row["notes"]), row
    # One sample of a demonstration, whose results are made up, and two files that hold 3 samples of 100.
    assert sorted(Path(path).name[:16] for path in unequal["path"]) == ["f3a1c0de-4b2e-4c", *["samples_gsm8k_20"] * 2]


def test_answers_agree_with_the_means_in_the_table(whole):
    study = whole.study
    for subject, testset, answers, mean, _ in whole.subjects.iter_rows():
        row, columns = study.subject_names.index(subject), study.set_index == study.testsets.index(testset)
        own = study.correct[row, columns][study.answered[row, columns]]
        assert len(own) == answers
        assert own.mean() == pytest.approx(mean)
        assert ((own >= 0) & (own <= 1)).all()


def test_importing_everything_twice_changes_nothing(logs, tmp_path):
    assert breadth.import_logs(logs, into=tmp_path / "answers", keep="all").changed
    before = {path.name: path.read_bytes() for path in (tmp_path / "answers").iterdir()}
    again = breadth.import_logs(logs, into=tmp_path / "answers", keep="all")
    assert not again.changed
    assert {path.name: path.read_bytes() for path in (tmp_path / "answers").iterdir()} == before


def test_different_answers_need_a_choice(logs):
    with pytest.raises(breadth.InputError) as refused:
        breadth.read_logs(logs)
    assert all("hold different answers of 'mockllm/alpha'" in line for line in str(refused.value).splitlines())
