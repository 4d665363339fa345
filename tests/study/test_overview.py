import pytest

from breadth.errors import InputError
from breadth.records.store import StudyStore
from breadth.study import (
    describe_studies,
    expand,
    expected_items,
    read_study_file,
    resolved_yaml,
    run_rows,
    shipped_studies,
    show_study,
    summarise_study,
)


def test_descriptions():
    frame = describe_studies()
    assert frame.select("name", "models", "runs").rows() == [
        ("generalisation", 8, 48),
        ("level-transfer", 7, 294),
        ("level-transfer-matched", 7, 294),
        ("mnli-levels", 1, 19),
        ("mnli-small", 1, 1),
        ("small", 2, 2),
    ]
    assert frame["description"].str.len_chars().min() > 20


def test_files_are_commented():
    """Each shipped file says why it is as it is."""
    assert all(path.read_text().count("#") > 3 for path in shipped_studies().values())


def test_totals(study):
    summary = summarise_study(study())
    assert summary.rows == [("smollm2-135m", "plain", "1", "2", "2")]
    assert summary.text.endswith("2 test sets. The number of items depends on data that is not read here.")
    sized = summarise_study(
        study("name: s\nmodels: a/b\nrecipe: {method: zero-shot}\nevaluate: {on: [plain, hans], items: 40}\n")
    )
    assert (
        sized.text
        == "1 run with 1 checkpoint in all, each evaluated on 2 test sets: 80 items per checkpoint, 80 answers."
    )


def test_runs_that_are_alike_share_a_row(study):
    text = "name: s\nmodels: [{models}]\nrecipe: {{method: zero-shot}}\nevaluate: {{on: plain}}\n"
    few, many = (study(text.format(models=", ".join(f"owner/m{k}" for k in range(n)))) for n in (12, 13))
    assert [row[0] for row in run_rows(expand(few))] == [f"owner/m{k}" for k in range(12)]
    assert run_rows(expand(many)) == [("owner/m0 and 12 more", "-", "13", "0", "1")]
    mixed = study(
        "name: s\nmodels: [a/b, {name: c/d, recipe: {steps: 9}}]\ntrain: {set: [plain, chat], seeds: [0, 1]}\n"
        "recipe: {steps: 4}\nevaluate: {on: [plain, chat]}\n"
    )
    assert run_rows(expand(mixed)) == [("a/b", "plain, chat", "4", "4", "2"), ("c/d", "plain, chat", "4", "9", "2")]


def test_expected_items(study, tmp_path):
    (tmp_path / "own.csv").write_text("q,label\na,1\nb,0\nc,1\n")
    text = (
        "name: s\nmodels: a/b\nrecipe: {{epochs: 1}}\ntrain: {{set: plain, levels: 2, difficulty: {{column: steps}}}}\n"
        "evaluate: {{on: [plain, hans, chat, own]{items}}}\n"
        "sets: {{own: {{file: own.csv, pattern: '{{q}}', answers: {{1: ' Yes', 0: ' No'}}}}}}\n"
    )
    every, drawn = study(text.format(items="")), study(text.format(items=", items: 50"))
    assert [expected_items(every, name) for name in every.study.evaluate.on] == [None, 30_000, None, 3]
    assert [expected_items(drawn, name) for name in drawn.study.evaluate.on] == [None, 50, 50, 3]


OWN = """\
name: own
description: with a file of its own
models: [a/b, {name: c/d, recipe: {lr: 1e-5}}]
train: {set: plain, examples: [32, 64], seeds: [0, 1, 2]}
recipe: {epochs: 2, dropout: 0.1}
evaluate: {on: [plain, mine], items: 40}
sets: {mine: {file: mine.csv, pattern: '{q}', answers: {1: ' Yes', 0: ' No'}}}
"""


def facts(source, **options):
    return dict(show_study(str(source), **options).facts)


def test_a_study_that_comes_with_breadth():
    shown = show_study("generalisation")
    assert shown.title.startswith("generalisation: Eight models")
    about = dict(shown.facts)
    assert about["models"].count(",") == 7
    assert about["train"] == "mnli, snli: 32, 64, 128 examples; seed 0"
    assert about["recipe"] == "lora, dropout 0.1, lr 1e-05, warmup 0.1, batch 32, steps 640, dtype bfloat16"
    assert about["runs"] == "48 (8 models x 2 training sets x 3 sizes)"
    assert about["checkpoints"] == "1,968; runs of 640 steps, evaluated every 16 steps"
    assert about["answers"] == "113,003,872"
    assert shown.text == read_study_file("generalisation").text


def test_levels_and_strategies():
    about = facts("level-transfer")
    assert "10 levels of difficulty; strategies easy, hard, middle, full; difficulty by calibration" in about["train"]
    assert about["runs"] == "294 (7 models x 3 seeds x 14 levels and strategies)"
    assert about["items"] == "known when the data is read"
    assert "answers" not in about


def test_a_file(tmp_path):
    (tmp_path / "mine.csv").write_text("q,label\na,1\nb,0\n")
    (tmp_path / "s.yaml").write_text(OWN)
    about = facts(tmp_path / "s.yaml")
    assert about["models"] == "a/b, c/d (lr 1e-05)"
    assert about["items"] == "42 at every checkpoint"
    assert about["runs"] == "12 (2 models x 2 sizes x 3 seeds)"
    shown = show_study(str(tmp_path / "s.yaml"), resolved=True)
    assert shown.text == resolved_yaml(read_study_file(tmp_path / "s.yaml").study)
    assert "weight_decay: 0.0" in shown.text


@pytest.mark.parametrize(
    ("recipe", "words", "checkpoints"),
    [("{method: zero-shot}", "nothing", "1"), ("{method: few-shot}", "nothing; 4 examples of plain in the", "1")],
)
def test_nothing_is_trained(tmp_path, recipe, words, checkpoints):
    (tmp_path / "s.yaml").write_text(
        f"name: s\nmodels: a/b\ntrain: {{set: plain}}\nrecipe: {recipe}\nevaluate: {{on: plain, items: 9}}\n"
    )
    about = facts(tmp_path / "s.yaml")
    assert about["train"].startswith(words)
    assert about["checkpoints"] == f"{checkpoints}; nothing is trained"


def test_a_directory_needs_none_of_the_files_that_the_study_named(tmp_path, write_study):
    folder = write_study(tmp_path / "s", [{"model": "ab"}], testsets=("plain", "mine"), steps=3)
    StudyStore(folder).write_study(OWN)
    about = facts(folder)
    assert about["items"] == "120 at every checkpoint"
    assert about["done"] == "3 of 24 checkpoints"


def test_what_cannot_be_shown(tmp_path):
    changed = read_study_file("small")
    StudyStore(tmp_path / "changed").write_study(resolved_yaml(changed.study).replace("everyday", "everyway"))
    with pytest.raises(InputError, match="unknown data set 'everyway'; `breadth ls datasets` lists"):
        show_study(str(tmp_path / "changed"))
    with pytest.raises(InputError, match="is a directory without a study file"):
        show_study(str(tmp_path))
    (tmp_path / "study.yaml").write_text("name: s\nmodels: a/b\nrecipe: {lrr: 1}\nevaluate: {on: plain}\n")
    with pytest.raises(InputError, match=r"line 3, recipe\.lrr: unknown key"):
        show_study(str(tmp_path))
    with pytest.raises(InputError, match=r"Did you mean small\?"):
        show_study("smal")


def test_a_directory_with_the_name_of_a_study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()
    assert show_study("small").notes == ("For the study in the directory small: breadth show small/",)
