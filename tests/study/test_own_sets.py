import pytest

from breadth.study import expand, resolved_yaml

HEAD = """\
name: s
models: smollm2-135m
train: {set: plain, shots: 32}
recipe: {epochs: 1}
evaluate: {on: [plain, mine]}
sets:
"""
GOOD = """\
  mine:
    file: mine.csv
    pattern: "{claim} Really?"
    answers: {1: " Yes", 0: " No"}
"""


@pytest.fixture(autouse=True)
def files(tmp_path):
    (tmp_path / "mine.csv").write_text("id,claim,label,options\na,Water is wet,1,x\na,Fire is cold,0,y\n")
    (tmp_path / "broken.parquet").write_text("no parquet")


def test_numbers_are_labels(study):
    own = study(HEAD + GOOD).study.sets["mine"]
    assert own.answers == {"1": " Yes", "0": " No"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "  snli: {file: mine.csv, pattern: '{claim}', answers: {1: ' a', 0: ' b'}}\n",
            "line 11, sets.snli: is the name of",
        ),
        (
            "  a/b: {file: mine.csv, pattern: '{claim}', answers: {1: ' a', 0: ' b'}}\n",
            "line 11, sets.a/b: a name has only",
        ),
        ("    shorten: clam\n", "line 11, sets.mine.shorten: 'clam' is not in the pattern. Did you mean claim?"),
        ("    label: lable\n", "line 11, sets.mine.label: mine.csv has no column 'lable'. Did you mean label?"),
        ("    label: claim\n", "line 11, sets.mine.label: column 'claim' of mine.csv holds Fire is cold, Water is wet"),
        ("    labels: {1: yes, 0: 0}\n", "line 11, sets.mine.labels: there is no answer for 'yes'"),
        ("    item: id\n", "line 11, sets.mine.item: mine.csv has the item 'a' more than once"),
        ("    item: nr\n", "line 11, sets.mine.item: mine.csv has no column 'nr'"),
        ("    fields: {clam: id}\n", "line 11, sets.mine.fields.clam: is not in the pattern. Did you mean claim?"),
        ("    fields: {claim: text}\n", "line 11, sets.mine.fields.claim: mine.csv has no column 'text'"),
        ("    train_file: no.csv\n", "line 11, sets.mine.train_file: there is no file 'no.csv'"),
        ("    train_file: broken.parquet\n", "line 11, sets.mine.train_file: "),
        ("    extract: '(x)'\n", "line 11, sets.mine.extract: is for kind generate, and this set is of kind pattern"),
        ("    shift: style-ish\n", "line 11, sets.mine.shift: 'style-ish' is none of in-domain, domain, style"),
    ],
)
def test_added(problems, text, expected):
    (found,) = problems(HEAD + GOOD + text)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{file: mine.csv, answers: {1: ' a', 0: ' b'}}", "pattern: is missing: kind pattern needs the prompt"),
        ("{file: mine.csv, pattern: '{claim}'}", "answers: is missing: kind pattern needs at least two labels"),
        ("{file: mine.csv, pattern: '{claim}', answers: {1: ' a'}}", "answers: needs at least two labels"),
        ("{file: mine.csv, pattern: '{claim}', answers: {1: a, 0: ' a'}}", "answers: two labels have the answer 'a'"),
        ("{file: mine.csv, pattern: '{claim}', answers: {1: ' a', 0: ''}}", "answers.0: the answer is empty"),
        ("{file: mine.csv, pattern: 'Well?', answers: {1: ' a', 0: ' b'}}", "pattern: has no field in braces"),
        (
            "{file: mine.csv, pattern: '{clam}', answers: {1: ' a', 0: ' b'}}",
            "pattern: mine.csv has no column 'clam'. Did you",
        ),
        ("{file: mine.csv, pattern: '{claim', answers: {1: ' a', 0: ' b'}}", "pattern: pattern '{claim': expected '}'"),
        ("{file: no.csv, pattern: '{claim}', answers: {1: ' a', 0: ' b'}}", "file: there is no file 'no.csv'"),
        ("{pattern: '{claim}', answers: {1: ' a', 0: ' b'}}", "file: is missing (table of test items"),
        ("{file: mine.csv, kind: choice, pattern: '{claim}\n{choices}'}", "options: is missing: kind choice needs"),
        ("{file: mine.csv, kind: choice, options: x, pattern: '{claim}'}", "options: mine.csv has no column 'x'"),
        ("{file: mine.csv, kind: generate, pattern: '{claim}'}", "extract: is missing: kind generate needs it"),
        ("{file: mine.csv, kind: generate, pattern: '{claim}', extract: 'x'}", "extract: has no group"),
        ("{file: mine.csv, kind: generate, pattern: '{claim}', extract: '('}", "extract: is no regular expression"),
    ],
)
def test_kinds(problems, entry, expected):
    (found,) = problems(f"{HEAD}  mine: {entry}\n")
    assert found.startswith(f"line 7, sets.mine.{expected}")


def test_kinds_that_are_sound(study):
    study(f"{HEAD}  mine: {{file: mine.csv, kind: generate, pattern: '{{claim}}', metric: number}}\n")
    study(f"{HEAD}  mine: {{file: mine.csv, kind: choice, pattern: '{{claim}} {{choices}}', options: options}}\n")
    words = "pattern: '{premise} {hypothesis}'\nanswers: {entailment: ' Yes', not_entailment: ' No'}\n"
    own = "  mine: {file: mine.csv, fields: {premise: claim, hypothesis: id}, labels: {1: entailment}}\n"
    assert study(HEAD + own + words).warnings == ()


def test_no_training_on_test_items(problems, study):
    text = HEAD.replace("set: plain", "set: mine") + GOOD
    for method in ("{epochs: 1}", "{method: few-shot}"):
        (found,) = problems(text.replace("{epochs: 1}", method))
        assert found.startswith("line 3, train.set: sets.mine has no train_file")
    assert study(text + "    train_file: mine.csv\n").study.train.set == ["mine"]


def test_a_resolved_study_makes_the_same_runs(study):
    text = (
        HEAD
        + GOOD
        + "    train_file: mine.csv\n  more: {file: mine.csv, kind: generate, pattern: '{claim}', metric: number}\n"
    )
    for method in ("{epochs: 1}", "{method: few-shot}"):
        file = study(text.replace("set: plain, shots: 32", "set: mine").replace("{epochs: 1}", method))
        again = study(resolved_yaml(file.study))
        assert [run.name for run in expand(again)] == [run.name for run in expand(file)]
        assert len(again.warnings) == len(file.warnings)
