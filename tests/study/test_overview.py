from breadth.study import describe_studies, expand, expected_items, key_tables, run_rows, shipped_studies, summarise
from breadth.study.schema import StudySpec
from breadth.study.sections import sections


def test_descriptions():
    frame = describe_studies()
    assert frame.select("name", "models", "runs").rows() == [
        ("generalisation", 8, 48),
        ("level-transfer", 7, 294),
        ("mnli-levels", 1, 19),
        ("mnli-small", 1, 1),
        ("small", 2, 2),
    ]
    assert frame["description"].str.len_chars().min() > 20


def test_files_are_commented():
    """Each shipped file says why it is as it is."""
    assert all(path.read_text().count("#") > 3 for path in shipped_studies().values())


def test_every_key_is_in_the_tables():
    text = key_tables()
    for prefix, section in sections(StudySpec):
        assert all(f"| `{prefix}{name}` |" in text for name in section.all_fields())
    assert "| `train.examples` | `[128]` |" in text
    assert "| `evaluate.on` | required |" in text
    assert "one of `lora`, `full`, `zero-shot`, `few-shot`" in text


def test_totals(study):
    summary = summarise(study())
    assert summary.rows == [("smollm2-135m", "plain", "1", "2", "2")]
    assert summary.text.endswith("2 test sets. The number of items depends on data that is not read here.")
    sized = summarise(
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
