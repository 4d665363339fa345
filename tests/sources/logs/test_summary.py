import io

import polars as pl
import pytest
from rich.console import Console

import breadth
from breadth.sources.logs.summary import left_out_table, scoring_table, scoring_words, subject_means_table

from ..conftest import write_lm_eval


def printed(table, width=100):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(table)
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
    assert text == (
        "2 subjects and 2 test sets with 6 items and 9 answers, from 4 logs of lm-evaluation-harness. Items that all "
        "subjects of a test set answered: away 2 of 3 and home 1 of 3; all items of the others. Compared with the "
        "answers: the means in 4 logs. Left out: 2 files or test sets."
    )


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
    shown = printed(subject_means_table(result.subjects))
    assert "a               5   0.667   0.500" in shown
    shown = printed(scoring_table(result.testsets))
    assert "away       acc             2       3        2" in shown
    shown = printed(left_out_table(result.left_out))
    assert "2  not a log of a known format:" in shown
    assert "more.md" in shown
    assert scoring_words(result.testsets) == [
        "acc: the only metric (away).",
        "acc: default; there is also acc_norm (home).",
    ]


def test_files_that_look_like_logs_are_named_first():
    files = ["README.md", "a.png", "b.txt", "run/samples.jsonl.zst", "c.eval"]
    shown = printed(left_out_table(pl.DataFrame({"what": files, "reason": ["unknown"] * len(files)})))
    assert "5  unknown: run/samples.jsonl.zst, c.eval, README.md and 2 more" in shown


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
    lines = printed(subject_means_table(subjects, width), width).splitlines()
    assert "the first 30 of 50" in " ".join(lines[:2])
    assert max(map(len, lines)) <= width
    assert len(lines) < 38
    names = [line.split("200")[0].strip() for line in lines if "   200   " in line]
    assert len(set(names)) == 30
    assert min(map(len, names)) > 12


def test_names_are_never_taken_as_markup():
    subjects = pl.DataFrame({"subject": ["[red]a[/red]"], "testset": ["[b]t[/b]"], "answers": [1], "mean": [0.5]})
    assert "[red]a[/red]" in printed(subject_means_table(subjects))
    left_out = pl.DataFrame({"what": ["[bold]x"], "reason": ["[odd"]})
    assert "[odd: [bold]x" in printed(left_out_table(left_out))
