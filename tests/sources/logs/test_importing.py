import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from filelock import FileLock

import breadth
from breadth.errors import InputError
from breadth.records.files import LOCK
from breadth.records.imported import read_imported
from breadth.sources import open_study
from breadth.sources.logs import log_files

from ..conftest import write_checkpoints, write_lm_eval

LATER = "2026-02-01T00-00-00.000000"


@pytest.fixture
def logs(tmp_path):
    """Two models on two test sets, with two metrics on one of them."""
    folder = tmp_path / "logs"
    for model, first in (("lab/a", [1, 0, 1, 1]), ("lab/b", [0, 0, 1, 1])):
        tasks = {"home": {"acc": first, "acc_norm": [1, 1, 1, 0]}, "away": [1, 0, 0]}
        write_lm_eval(folder, model, tasks)
    return folder


def content(folder):
    """Every file with its bytes, and when it was written."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != LOCK
    }


def table_bytes(folder):
    return {name: written for name, (written, _) in content(folder).items()}


def answers(study):
    frame = study.items.select("testset", "item")
    return {
        (subject, *frame.row(column)): study.correct[row, column]
        for row, subject in enumerate(study.subject_names)
        for column in np.flatnonzero(study.answered[row])
    }


def test_reading_is_importing_and_opening(logs, tmp_path):
    result = breadth.import_logs(logs, into=tmp_path / "answers")
    opened, read = open_study(tmp_path / "answers"), breadth.read_logs(logs)
    assert result.changed
    assert opened.subject_names == read.subject_names == ("a", "b")
    assert opened.subjects.equals(read.subjects)
    assert opened.items.equals(read.items)
    np.testing.assert_array_equal(opened.matrix, read.matrix)
    np.testing.assert_array_equal(opened.margin, read.margin)
    np.testing.assert_array_equal(result.study.matrix, read.matrix)
    assert read.select(testset="home").matrix.tolist() == [[1, 0, 1, 1], [0, 0, 1, 1]]


def test_importing_again_changes_nothing(logs, tmp_path):
    into = tmp_path / "answers"
    breadth.import_logs(logs, into=into)
    before = content(into)
    for again in (logs, [logs, logs / "lab__a"], str(logs)):
        result = breadth.import_logs(again, into=into)
        assert not result.changed
        assert result.known == 4
        assert content(into) == before


def test_importing_again_with_options_changes_nothing(logs, tmp_path):
    into = tmp_path / "answers"
    options = {"metric": "acc_norm", "step_from": r"x(\d+)", "subject": {"base": logs / "lab__a"}}
    breadth.import_logs(logs, into=into, **options)
    before = content(into)
    result = breadth.import_logs(logs, into=into, **options)
    assert (result.changed, result.known) == (False, 0)
    assert content(into) == before
    assert not breadth.import_logs(logs, into=into).changed  # nor without them


def test_merged_logs_again_change_nothing(tmp_path):
    logs, into = tmp_path / "logs", tmp_path / "answers"
    write_lm_eval(logs, "a", {"home": [1, 0, 1]})
    write_lm_eval(logs, "a", {"home": [1, 1]}, first=2, stamp=LATER)
    result = breadth.import_logs(logs, into=into)
    assert result.logs["answered"].to_list() == [2, 2]
    assert result.logs["rows"].to_list() == [3, 2]
    assert [len(notes) for notes in result.logs["notes"]] == [1, 0]
    before = content(into)
    assert not breadth.import_logs(logs, into=into).changed
    assert content(into) == before


def test_new_logs_are_added_and_old_rows_stay(logs, tmp_path):
    into = tmp_path / "answers"
    old = breadth.import_logs(logs / "lab__a", into=into).study
    both = breadth.import_logs(logs, into=into)
    assert both.changed
    assert both.known == 2
    known, more = answers(old), answers(open_study(into))
    assert {key: more[key] for key in known} == known
    assert {subject for subject, _, _ in more} == {"a", "b"}
    assert both.logs["path"].head(2).to_list() == old_paths(logs)
    write_lm_eval(tmp_path / "third", "lab/c", {"home": {"acc": [0, 0, 0, 0], "acc_norm": [0, 0, 0, 0]}})
    third = breadth.import_logs(tmp_path / "third", into=into)
    assert third.known == 0
    assert {key: value for key, value in answers(open_study(into)).items() if key[0] != "c"} == more
    assert breadth.read_logs([logs / "lab__a", logs, tmp_path / "third"]).items.equals(open_study(into).items)


def test_models_whose_samples_are_the_same_bytes_are_all_imported(tmp_path):
    logs, into = tmp_path / "logs", tmp_path / "answers"
    for model in ("a", "b"):
        write_lm_eval(logs, model, {"home": [1, 0]})
        assert breadth.import_logs(logs, into=into).changed
    assert open_study(into).subject_names == ("a", "b")
    assert breadth.import_logs(logs / "b", into=into, metric="acc").study.subject_names == ("a", "b")
    assert breadth.read_logs(logs).subject_names == ("a", "b")


def test_copies_of_logs_are_the_same_logs(logs, tmp_path):
    into, copied = tmp_path / "answers", tmp_path / "copied"
    breadth.import_logs(logs, into=into)
    before = content(into)
    shutil.copytree(logs, copied)
    again = breadth.import_logs(copied, into=into)
    assert not again.changed
    assert content(into) == before
    assert sorted(again.left_out["reason"]) == [
        f"a copy of {path}" for path in sorted(map(str, logs.rglob("samples*")))
    ]


def test_logs_that_were_moved_are_read_again_for_another_metric(logs, tmp_path):
    into = tmp_path / "answers"
    breadth.import_logs(logs, into=into)
    again = breadth.import_logs(logs.rename(tmp_path / "moved"), into=into, metric="acc_norm")
    assert dict(again.testsets.select("testset", "metric").iter_rows()) == {"away": "acc", "home": "acc_norm"}
    assert all(path.startswith(str(tmp_path / "moved")) for path in again.logs["path"])
    assert again.study.subject_names == ("a", "b")


def test_a_log_that_agrees_with_an_earlier_one_that_was_kept(tmp_path):
    """Of three logs, the newest differs, and the other two are the same answers: only one of them is kept."""
    logs, into = tmp_path / "logs", tmp_path / "answers"
    for stamp, values in (("01", [1, 0]), ("02", [1, 0]), ("03", [0, 0])):
        path = write_lm_eval(logs, "m", {"home": values}, stamp=f"2026-{stamp}-01T00-00-00.000000")[0]
        path.write_text(path.read_text() + "\n" * int(stamp))  # not a copy
    result = breadth.import_logs(logs, into=into, keep="all")
    assert result.study.subjects.height == 2
    before = content(into)
    for keep in ("all", None):
        assert not breadth.import_logs(logs, into=into, keep=keep).changed
        assert content(into) == before


def test_relative_and_absolute_paths_are_the_same(logs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    breadth.import_logs("logs", into="answers")
    before = content(tmp_path / "answers")
    assert not breadth.import_logs(logs, into="answers").changed
    assert content(tmp_path / "answers") == before


def old_paths(logs):
    return sorted(map(str, (logs / "lab__a").glob("samples*")))


def test_texts_and_margins_stay_when_logs_are_added(logs, tmp_path):
    into = tmp_path / "answers"
    old = breadth.import_logs(logs / "lab__a", into=into).study
    new = breadth.import_logs(logs / "lab__b", into=into).study
    assert old.margin is not None
    columns = [new.item_names.index(name) for name in old.item_names]
    np.testing.assert_array_equal(old.margin[0], new.margin[0, columns])
    assert new.items.select(old.items.columns)[columns].equals(old.items)
    assert "Question 0 of home" in new.items["text"].to_list()


def test_another_metric_later_reads_the_logs_again(logs, tmp_path):
    into = tmp_path / "answers"
    plain = breadth.import_logs(logs, into=into)
    assert plain.testsets.sort("testset")["metric"].to_list() == ["acc", "acc"]
    again = breadth.import_logs(logs, into=into, metric="acc_norm")
    assert again.changed
    assert dict(again.testsets.select("testset", "metric").iter_rows()) == {"away": "acc", "home": "acc_norm"}
    assert again.study.select(testset="home").correct.mean() == 0.75
    # Without the option, what was imported stays as it is.
    assert not breadth.import_logs(logs, into=into).changed


def test_another_metric_of_some_logs_only_is_refused(logs, tmp_path):
    into = tmp_path / "answers"
    breadth.import_logs(logs, into=into)
    before = content(into)
    with pytest.raises(InputError) as refused:
        breadth.import_logs(logs / "lab__a", into=into, metric="acc_norm")
    stored, new = (next((logs / f"lab__{model}").glob("samples_home*")) for model in "ba")
    message = str(refused.value)
    assert message.startswith("home: metrics differ between logs: ")
    assert f"{stored} was imported with acc" in message
    assert f"{new} has acc, acc_norm" in message
    assert 'again in one command with metric="acc_norm"' in message
    assert content(into) == before
    assert breadth.import_logs(logs, into=into, metric="acc_norm").changed


def test_an_added_log_with_another_metric_is_named_beside_the_stored_one(logs, tmp_path):
    into = tmp_path / "answers"
    breadth.import_logs(logs / "lab__a", into=into)
    stored = next((logs / "lab__a").glob("samples_home*"))
    new = next((logs / "lab__b").glob("samples_home*"))
    with pytest.raises(InputError) as refused:
        breadth.import_logs(logs / "lab__b", into=into, metric="acc_norm")
    assert f"{stored} was imported with" in str(refused.value)
    assert f"{new} has" in str(refused.value)


def test_a_log_that_changed_is_refused_until_the_user_chooses(logs, tmp_path):
    into = tmp_path / "answers"
    breadth.import_logs(logs, into=into)
    before = content(into)
    write_lm_eval(logs, "lab/a", {"away": [0, 0, 0]}, stamp=LATER)
    with pytest.raises(InputError, match="hold different answers of 'lab/a' to 1 item of away"):
        breadth.import_logs(logs, into=into)
    assert content(into) == before
    newest = breadth.import_logs(logs, into=into, keep="newest")
    assert newest.study.subject_names == ("a", "b")
    assert newest.subjects.filter(subject="a", testset="away")["mean"].item() == 0
    assert not breadth.import_logs(logs, into=into, keep="newest").changed


def test_the_choice_of_the_newest_holds_for_the_same_logs(logs, tmp_path):
    into = tmp_path / "answers"
    for stamp, values in ((LATER, [0, 0, 0]), ("2026-03-01T00-00-00.000000", [0, 1, 0])):
        (newest,) = write_lm_eval(logs, "lab/a", {"away": values}, stamp=stamp)
        breadth.import_logs(logs, into=into, keep="newest")
    before = content(into)
    for options in ({}, {"keep": "newest"}, {"metric": "acc"}):
        again = breadth.import_logs(logs, into=into, **options)
        assert not again.changed
        assert content(into) == before
        older = again.left_out.filter(pl.col("reason").str.starts_with(f"older than {newest}"))
        assert older.height == 2
    assert not breadth.import_logs(logs / "lab__b", into=into).changed
    assert not breadth.import_logs(logs, into=into).changed
    (other,) = write_lm_eval(logs, "lab/a", {"away": [1, 1, 1]}, stamp="2025-01-01T00-00-00.000000")
    with pytest.raises(InputError, match=f"^{other} and {newest} hold different answers"):
        breadth.import_logs(logs, into=into)
    assert content(into) == before


def test_texts_can_be_added_later(logs, tmp_path):
    into, whole = tmp_path / "answers", breadth.read_logs(logs)
    without = breadth.import_logs(logs, into=into, texts=False).study
    assert without.items.columns == ["testset", "item"]
    result = breadth.import_logs(logs, into=into)
    assert (result.changed, result.known, result.left_out.height) == (True, 0, 0)
    assert result.study.items.equals(whole.items)
    assert answers(result.study) == answers(without)
    before = content(into)
    for texts in (True, False):
        again = breadth.import_logs(logs, into=into, texts=texts)
        assert (again.changed, again.known) == (False, 4)
    assert content(into) == before


def test_texts_of_some_logs_are_added_without_their_other_metrics(logs, tmp_path):
    into = tmp_path / "answers"
    breadth.import_logs(logs, into=into, metric="acc_norm", texts=False)
    (home,) = (logs / "lab__b").glob("samples_home*")
    result = breadth.import_logs(home, into=into)
    assert dict(result.testsets.select("testset", "metric").iter_rows()) == {"away": "acc", "home": "acc_norm"}
    texts = result.study.items.group_by("testset").agg(pl.col("text").is_not_null().sum())
    assert dict(texts.iter_rows()) == {"home": 4, "away": 0}
    moved = breadth.import_logs(logs.rename(tmp_path / "moved"), into=into)  # copies bring what is missing
    assert moved.study.items["text"].null_count() == 0
    assert moved.logs["path"].to_list() == result.logs["path"].to_list()


def test_both_of_two_logs_are_kept_as_subjects(logs, tmp_path):
    into = tmp_path / "answers"
    write_lm_eval(logs, "lab/a", {"away": [0, 0, 0]}, stamp=LATER)
    result = breadth.import_logs(logs, into=into, keep="all")
    assert set(result.study.subject_names) == {"a", "b", "a log=2026-01-01T00-00-00.000…"}
    before = content(into)
    for keep in (None, "all"):
        assert not breadth.import_logs(logs, into=into, keep=keep).changed
        assert content(into) == before


def test_a_trial_writes_nothing(logs, tmp_path):
    into = tmp_path / "answers"
    trial = breadth.import_logs(logs, into=into, dry_run=True)
    assert not trial.changed
    assert not into.exists()
    assert breadth.import_logs(logs, dry_run=True).testsets.equals(trial.testsets)
    breadth.import_logs(logs / "lab__a", into=into)
    before = content(into)
    trial = breadth.import_logs(logs, into=into, dry_run=True)
    assert trial.study.subject_names == ("a", "b")  # as it would be
    assert content(into) == before


def test_a_directory_among_the_logs_is_not_read_as_logs(logs):
    breadth.import_logs(logs, into=logs / "answers")
    before = content(logs / "answers")
    result = breadth.import_logs(logs, into=logs / "answers")
    assert not result.changed
    assert content(logs / "answers") == before
    assert not any("answers" in path for path in result.left_out["what"])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text("x"), "is a file; name a directory"),
        (lambda path: (path / "sub").mkdir(parents=True), r"holds other files \(sub\); name a new or empty directory"),
        (lambda path: (path.mkdir(), (path / "thesis.tex").touch()), r"holds other files \(thesis.tex\)"),
    ],
)
def test_targets_that_are_refused(logs, tmp_path, make, words):
    into = tmp_path / "answers"
    make(into)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match=f'into=".*answers": {words}'):
        breadth.import_logs(logs, into=into)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_directory_of_a_study_is_refused(logs, simulated_study):
    before = sorted(simulated_study.folder.rglob("*"))
    with pytest.raises(InputError, match="is the directory of a study that breadth ran"):
        breadth.import_logs(logs, into=simulated_study.folder)
    assert sorted(simulated_study.folder.rglob("*")) == before


def test_an_empty_directory_is_taken(logs, tmp_path):
    (tmp_path / "answers").mkdir()
    assert breadth.import_logs(logs, into=tmp_path / "answers").changed


def test_one_import_at_a_time(logs, tmp_path):
    into = tmp_path / "answers"
    into.mkdir()
    with FileLock(into / LOCK), pytest.raises(InputError, match="another import is writing there"):
        breadth.import_logs(logs, into=into)
    assert breadth.import_logs(logs, into=into).changed


def test_nothing_is_left_of_an_import_that_is_refused(logs, tmp_path):
    into = tmp_path / "answers"
    for options in ({"metric": "no such metric"}, {"format": "helm"}, {"subject": {"x": "nowhere"}}):
        with pytest.raises(InputError):
            breadth.import_logs(logs, into=into, **options)
        assert not into.exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no files"):
        breadth.import_logs(tmp_path / "empty", into=into)
    assert not into.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": "first"}, "epochs= is 'first'; choose mean or each"),
        ({"keep": "oldest"}, "keep= is 'oldest'; choose newest or all"),
        ({"format": "helmet"}, "format= is 'helmet'; choose auto, .*Did you mean helm"),
        ({"step_from": "("}, "is not a regular expression"),
        ({"subject": {"base": "logs/nowhere"}}, 'subject={"base": "logs/nowhere"}: no log was read there'),
        ({"metric": "f1"}, "no log has 'f1'"),
    ],
)
def test_options_that_are_refused(logs, options, words):
    with pytest.raises(InputError, match=words):
        breadth.read_logs(logs, **options)
    with pytest.raises(InputError, match=words):
        breadth.import_logs(logs, dry_run=True, **options)


def test_paths_and_a_target_are_needed(logs, tmp_path):
    with pytest.raises(InputError, match="name files or directories of logs"):
        breadth.read_logs([])
    with pytest.raises(InputError, match="into="):
        breadth.import_logs(logs)
    with pytest.raises(InputError, match="nowhere: no such file or directory"):
        breadth.read_logs(tmp_path / "nowhere")


def test_patterns_name_logs(logs, tmp_path):
    pattern = str(logs / "*" / "samples_home*.jsonl")
    assert breadth.read_logs(pattern).subject_names == ("a", "b")
    assert breadth.read_logs(pattern).name == pattern
    result = breadth.import_logs([pattern, logs / "lab__a"], into=tmp_path / "answers")
    assert result.logs.height == 3
    with pytest.raises(InputError, match=r"samples_nowhere\*: no such file"):
        breadth.read_logs(logs / "samples_nowhere*")


def test_names_that_are_not_utf_8(logs, tmp_path):
    odd, into = logs.rename(tmp_path / os.fsdecode(b"logs\xff")), tmp_path / "answers"
    subject = {"base": odd / "lab__a"}
    result = breadth.import_logs(odd, into=into, subject=subject)
    assert result.study.subject_names == ("base", "b")
    assert all(path.startswith(f"{tmp_path}/logs\\xff/lab__") for path in result.logs["path"])
    before = content(into)
    for options in ({}, {"subject": subject}, {"metric": "acc", "subject": subject}):
        assert not breadth.import_logs(odd, into=into, **options).changed
        assert content(into) == before
    (odd / "lab__a" / "samples_home_2026-01-01T00-00-00.000000.jsonl").write_text('{"doc_id": 0, "doc": {}')
    with pytest.raises(InputError) as refused:
        breadth.read_logs(odd)
    assert str(refused.value).startswith(f"{tmp_path}/logs\\xff/lab__a/samples_home")


def test_subjects_are_named_by_the_user(logs):
    study = breadth.read_logs(logs, subject={"base": logs / "lab__a", "tuned": str(logs / "lab__b")})
    assert study.subject_names == ("base", "tuned")


def test_texts_are_left_out_if_asked(logs):
    assert breadth.read_logs(logs, texts=False).items.columns == ["testset", "item"]
    assert "text" in breadth.read_logs(logs).items.columns


def test_progress_is_told(logs):
    calls = []
    breadth.read_logs(logs, progress=lambda *done: calls.append(done))
    assert calls == [(k, 4) for k in (1, 2, 3, 4)]


def test_checkpoints_have_runs_and_steps(tmp_path):
    study = breadth.read_logs(write_checkpoints(tmp_path, steps=(1, 10, 100)))
    assert study.subjects.select("subject", "run", "step").rows() == [
        (f"{run}/{step}", run, step) for run in "abc" for step in (1, 10, 100)
    ]


def test_a_backend_that_writes_no_hash_is_asked_the_same_model(tmp_path):
    write_lm_eval(tmp_path / "logs", "lab/a", {"home": [1, 0]}, sha="ab" * 20)
    write_lm_eval(tmp_path / "logs", "lab/a", {"away": [1, 0]}, stamp=LATER)
    assert breadth.read_logs(tmp_path / "logs").subject_names == ("a",)
    parts = sorted((tmp_path / "logs").rglob("samples_*"))
    for part in parts:
        breadth.import_logs(part, into=tmp_path / "answers")
    assert open_study(tmp_path / "answers").subject_names == ("a",)


@pytest.mark.parametrize("stage", ["step3_evaluate", "iter_2/results"])
def test_a_stage_of_a_pipeline_is_not_a_training_step(tmp_path, stage):
    for model in ("lab/a", "lab/b"):
        write_lm_eval(tmp_path / stage, model, {"home": [1, 0]})
    study = breadth.read_logs(tmp_path)
    assert study.subject_names == ("a", "b")
    assert any("is not taken as a training step" in note for note in study.warnings)
    into = tmp_path / "answers"
    breadth.import_logs(tmp_path / stage, into=into)
    write_lm_eval(tmp_path / stage, "lab/c", {"home": [1, 0]})
    assert breadth.import_logs(tmp_path / stage, into=into).study.subject_names == ("a", "b", "c")


def test_steps_of_directories_that_are_imported_one_by_one(tmp_path):
    for step in ("step1000", "step2000"):
        for model in ("lab/a", "lab/b"):
            write_lm_eval(tmp_path / step, model, {"home": [1, 0]})
        breadth.import_logs(tmp_path / step, into=tmp_path / "answers")
    assert set(open_study(tmp_path / "answers").subject_names) == {"a/1000", "b/1000", "a/2000", "b/2000"}
    write_lm_eval(tmp_path / "one" / "checkpoint-12", "lab/a", {"home": [1, 0]})
    assert breadth.read_logs(tmp_path / "one").subject_names == ("a/12",)


def test_few_shot_settings_of_one_model_are_two_subjects(tmp_path):
    write_lm_eval(tmp_path, "m", {"home": [1, 0]}, shots=0)
    write_lm_eval(tmp_path, "m", {"home": [1, 1]}, shots=5, stamp=LATER)
    study = breadth.read_logs(tmp_path)
    assert study.subject_names == ("m 0-shot", "m 5-shot")
    assert study.items.height == 2


def test_stated_means_are_checked(tmp_path):
    write_lm_eval(tmp_path, "m", {"home": [1, 0]}, stated={"acc,none": 0.75})
    study = breadth.read_logs(tmp_path)
    assert any("the mean of acc over 2 answers to home is 0.5, but the log states 0.75" in w for w in study.warnings)


class Killed(KeyboardInterrupt):
    pass


class Killer:
    """Dies at the n-th operation on a file; a dead process does nothing any more, so all later ones fail too."""

    def __init__(self, monkeypatch, at):
        self.left, self.done = at, 0
        for name in ("replace", "unlink", "fdopen", "mkdir", "rmdir", "fsync"):
            monkeypatch.setattr(os, name, self.counted(getattr(os, name)))

    def counted(self, operation):
        def run(*arguments, **options):
            if self.left == 0:
                raise Killed
            self.left -= 1
            self.done += 1
            return operation(*arguments, **options)

        return run


@pytest.fixture
def operations(logs, tmp_path, monkeypatch):
    """How many operations on files an import into a directory takes, in a copy of it."""

    def count(before):
        copy = tmp_path / "copy"
        if before is not None:
            shutil.copytree(before, copy)
        with monkeypatch.context() as patch:
            killer = Killer(patch, -1)
            breadth.import_logs(logs, into=copy)
        whole = table_bytes(copy)
        shutil.rmtree(copy)
        return killer.done, whole

    return count


@pytest.mark.parametrize("added", [False, True])
def test_killed_at_every_operation_on_a_file(logs, tmp_path, monkeypatch, operations, added):
    first = tmp_path / "first"
    if added:
        breadth.import_logs(logs / "lab__a", into=first)
    number, whole = operations(first if added else None)
    assert number > 10
    states = set()
    for at in range(number):
        into = tmp_path / f"killed{at}"
        if added:
            shutil.copytree(first, into)
        with monkeypatch.context() as patch:
            Killer(patch, at)
            with pytest.raises(Killed):
                breadth.import_logs(logs, into=into)
        if (into / "import.json").exists():
            read = read_imported(into)  # refuses what is half done
            states.add(read.logs["model"].n_unique())
        breadth.import_logs(logs, into=into)
        assert table_bytes(into) == whole
    assert states == ({1, 2} if added else {2})


def test_an_error_leaves_the_old_state(logs, tmp_path, monkeypatch):
    into = tmp_path / "answers"
    breadth.import_logs(logs / "lab__a", into=into)
    before = content(into)

    def full(source, target, **folders):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(InputError, match="cannot be written \\(No space left on device\\)"):
            breadth.import_logs(logs, into=into)
        with pytest.raises(InputError, match="cannot be written"):
            breadth.import_logs(logs, into=tmp_path / "new")
    assert content(into) == before
    assert not (tmp_path / "new").exists()


def test_interrupted_while_reading(logs, tmp_path, monkeypatch):
    into = tmp_path / "answers"
    breadth.import_logs(logs / "lab__a", into=into)
    before = content(into)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(log_files, "read_file", interrupt)
    for target in (into, tmp_path / "new"):
        with pytest.raises(KeyboardInterrupt):
            breadth.import_logs(logs, into=target)
    assert content(into) == before
    assert not (tmp_path / "new").exists()


def test_every_log_records_its_source(logs, tmp_path):
    frame = breadth.import_logs(logs, into=tmp_path / "answers").logs
    assert frame["path"].n_unique() == 4
    assert frame["checksum"].to_list() == [log_files.file_checksum(Path(path)) for path in frame["path"]]
    assert frame.select("tool", "version").unique().rows() == [("lm-evaluation-harness", "0.4.9")]
    assert frame["stated"].equals(frame["mean"].alias("stated"))
    assert frame.filter(pl.col("notes").list.len() > 0).is_empty()
