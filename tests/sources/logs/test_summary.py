import io

import polars as pl
import pytest
from rich.console import Console

import breadth
from breadth.results.terminal import ShownTable
from breadth.sources.logs.summary import left_out_words, means_shown, scoring_words

from ..conftest import write_lm_eval


def printed(shown, width=100):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(ShownTable(shown, width))
    return console.file.getvalue()


@pytest.fixture
def result(tmp_path):
    logs = tmp_path / "logs"
    write_lm_eval(logs, "lab/a", {"home": {"acc": [1, 0], "acc_norm": [1, 1]}, "away": [1, 0, 1]})
    write_lm_eval(logs, "lab/b", {"home": {"acc": [1, 1], "acc_norm": [1, 1]}, "away": [0, 1]}, first=1)
    (logs / "notes.md").write_text("notes")
    (logs / "more.md").write_text("notes")
    return breadth.import_logs(logs, into=tmp_path / "answers")


def test_summary_counts_everything(result):
    text = result.summary()
    counts = ("2 models", "2 test sets", "6 questions", "9 answers", "4 logs of lm-evaluation-harness", "in 4 logs")
    assert all(number in text for number in counts)
    assert all(shared in text for shared in ("away 2 of 3", "home 1 of 3"))
    assert "Left out: 2 files" in text


def test_summary_of_an_import_that_was_there(result, tmp_path):
    again = breadth.import_logs(tmp_path / "logs", into=tmp_path / "answers")
    assert "4 files had been imported before." in again.summary()


def test_frames_say_what_was_imported(result):
    assert result.tables().keys() == {"testsets", "subjects", "logs", "left_out"}
    assert result.testsets.sort("testset").rows() == [
        ("away", "acc", "", 2, 3, 2, 5, "the only metric"),
        ("home", "acc", "", 2, 3, 1, 4, "default; there is also acc_norm"),
    ]
    rows = result.subjects.sort("subject", "testset").rows()
    assert rows == [
        ("a", "away", 3, pytest.approx(2 / 3), 3),
        ("a", "home", 2, 0.5, 2),
        ("b", "away", 2, 0.5, 2),
        ("b", "home", 2, 1.0, 2),
    ]
    assert result.left_out["reason"].to_list() == ["not a log of a known format"] * 2


def test_means_of_merged_logs_are_those_of_all_answers(tmp_path):
    write_lm_eval(tmp_path, "a", {"home": [1, 1, 1]})
    write_lm_eval(tmp_path, "a", {"home": [0]}, first=3, stamp="2026-02-01T00-00-00.000000")
    result = breadth.import_logs(tmp_path, dry_run=True)
    assert result.subjects.rows() == [("a", "home", 4, 0.75, 4)]


def test_tables_show_scores_metrics_and_what_was_left_out(result):
    means, scoring = result.shown()
    assert means.rows[0] == ["a", "5", "0.667", "0.500"]
    assert scoring.rows[0] == ["away", "acc", "2", "3", "2"]
    *reasons, left_out = scoring.note.splitlines()
    assert reasons == scoring_words(result.testsets)
    assert [line.split()[-1] for line in reasons] == ["(away).", "(home)."]
    assert "(2)" in left_out
    assert all(name in left_out for name in ("more.md", "notes.md"))


def test_files_that_look_like_logs_are_named_first():
    files = ["README.md", "a.png", "b.txt", "run/samples.jsonl.zst", "c.eval"]
    (line,) = left_out_words(pl.DataFrame({"what": files, "reason": ["unknown"] * len(files)}))
    assert "(5): unknown: run/samples.jsonl.zst, c.eval, README.md and 2 more" in line


def test_a_filter_is_shown_with_its_metric():
    frame = pl.DataFrame(
        {"testset": ["gsm"], "metric": ["exact_match"], "variant": ["strict"], "reason": ["asked for"]}
    )
    assert scoring_words(frame) == ["exact_match (strict): asked for (gsm)."]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_tables_of_many_subjects_and_test_sets_fit(width):
    subjects = pl.DataFrame(
        [
            (f"laboratory/a-model-with-a-long-name-{m:03d}", f"a test set with a long name {t:02d}", 10, m / 50, 0)
            for m in range(50)
            for t in range(20)
        ],
        schema=["subject", "testset", "answers", "mean", "margins"],
        orient="row",
    )
    text = printed(means_shown(subjects), width)
    lines = text.splitlines()
    assert "20 more rows" in text
    assert "14 more test sets" in text
    assert max(len(line.rstrip()) for line in lines) <= width
    names = [line.split()[0] for line in lines if "200 " in line or "…" in line.split(" ")[1:2]]
    assert len(set(names)) == len(names)


def test_a_test_set_may_have_the_name_of_a_column():
    subjects = pl.DataFrame({"subject": ["a"], "testset": ["subject"], "answers": [4], "mean": [0.5], "margins": [0]})
    assert means_shown(subjects).rows == [["a", "4", "0.500"]]


def test_names_are_never_taken_as_markup():
    subjects = pl.DataFrame({"subject": ["[red]a[/red]"], "testset": ["[b]t[/b]"], "answers": [1], "mean": [0.5]})
    assert "[red]a[/red]" in printed(means_shown(subjects))
