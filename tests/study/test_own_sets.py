import json

import pytest

from breadth.datasets import REGISTRY, Choice, Generate, Pattern
from breadth.study import OwnSet, StudySpec, expand, resolve_task, resolved_study, resolved_yaml
from breadth.study.own_sets import used_sets

HEAD = """\
name: s
models: smollm2-135m
train: {set: plain, examples: 32}
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
        ("    shorten: clam\n", "line 11, sets.mine.shorten: 'clam' is not in the prompt. Did you mean claim?"),
        ("    label: lable\n", "line 11, sets.mine.label: mine.csv has no column 'lable'. Did you mean label?"),
        (
            "    label: claim\n",
            "line 11, sets.mine.label: column 'claim' of mine.csv contains Fire is cold, Water is wet",
        ),
        ("    labels: {1: yes, 0: 0}\n", "line 11, sets.mine.labels: no answer for 'yes'"),
        ("    item: id\n", "line 11, sets.mine.item: mine.csv has the item 'a' more than once"),
        ("    item: nr\n", "line 11, sets.mine.item: mine.csv has no column 'nr'"),
        ("    fields: {clam: id}\n", "line 11, sets.mine.fields.clam: is not in the prompt. Did you mean claim?"),
        ("    fields: {claim: text}\n", "line 11, sets.mine.fields.claim: mine.csv has no column 'text'"),
        ("    train_file: no.csv\n", "line 11, sets.mine.train_file: there is no file 'no.csv'"),
        ("    train_file: broken.parquet\n", "line 11, sets.mine.train_file: "),
        ("    extract: '(x)'\n", "line 11, sets.mine.extract: is for kind generate, and this set is of kind pattern"),
        ("    normalise: true\n", "line 11, sets.mine.normalise: is for kind choice, and this set is of kind pattern"),
        ("    shortn: claim\n", "line 11, sets.mine.shortn: unknown key. Did you mean shorten?"),
        ("    max_token: 9\n", "line 11, sets.mine.max_token: unknown key. Did you mean max_tokens?"),
        (
            "    kind: patern\n",
            "line 11, sets.mine.kind: 'patern' is not one of pattern, choice, generate. Did you mean",
        ),
        ("    kind: [pattern]\n", "line 11, sets.mine.kind: ['pattern'] is not text"),
        ("    kind: true\n", "line 11, sets.mine.kind: true and false are neither"),
        ("    shift: ''\n", "line 11, sets.mine.shift: is empty"),
        (f"    shift: {'x' * 41}\n", "line 11, sets.mine.shift: "),
        ('    shift: "a\\tb"\n', "line 11, sets.mine.shift: 'a\\tb' has"),
        ("    shift: 3\n", "line 11, sets.mine.shift: 3 is not text"),
    ],
)
def test_added(problems, text, expected):
    (found,) = problems(HEAD + GOOD + text)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{file: mine.csv, answers: {1: ' a', 0: ' b'}}", "prompt: is missing: kind pattern needs the prompt"),
        (
            "{file: mine.csv, pattern: '{claim}'}",
            "answers: is missing: kind pattern needs answers for at least two labels",
        ),
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
        ("{file: mine.csv, kind: choice, options: null, pattern: '{claim}'}", "options: is missing: kind choice needs"),
        ("{file: mine.csv, kind: choice, options: x, pattern: '{claim}'}", "options: mine.csv has no column 'x'"),
        ("{file: mine.csv, kind: generate, pattern: '{claim}'}", "extract: is missing: kind generate needs it"),
        ("{file: mine.csv, kind: generate, pattern: '{claim}', extract: 'x'}", "extract: has no group"),
        ("{file: mine.csv, kind: generate, pattern: '{claim}', extract: '('}", "extract: is not a regular expression"),
    ],
)
def test_kinds(problems, entry, expected):
    (found,) = problems(f"{HEAD}  mine: {entry}\n")
    assert found.startswith(f"line 7, sets.mine.{expected}")


@pytest.mark.parametrize(
    ("word", "asked"),
    [("time", ""), ("user group", ""), ("subdomain", ""), ("adversarail", "adversarial"), ("Style", "style")],
)
def test_any_word_is_a_kind_of_shift(study, word, asked):
    file = study(f"{HEAD}{GOOD}    shift: {word}\n")
    assert file.study.sets["mine"].shift == word
    found = [line for line in file.warnings if line.startswith("line 11, sets.mine.shift: ")]
    assert [line.endswith(f"Did you mean {asked}?") for line in found] == ([True] if asked else [])


def test_kinds_that_are_sound(study):
    default = study(f"{HEAD}  mine: {{file: mine.csv, kind: choice, pattern: '{{claim}}'}}\n").study.sets["mine"]
    assert default.options == "options"
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
        file = study(text.replace("set: plain, examples: 32", "set: mine").replace("{epochs: 1}", method))
        again = study(resolved_yaml(file.study))
        assert [run.name for run in expand(again)] == [run.name for run in expand(file)]
        assert len(again.warnings) == len(file.warnings)


def test_several_problems_of_a_set_are_reported_together(problems):
    found = problems(f"{HEAD}  mine: {{file: 3, kind: generate, metric: nunber, max_tokens: 0, normalise: true}}\n")
    keys = [line.split(":")[0].rpartition(".")[2] for line in found]
    assert keys == ["file", "metric", "max_tokens", "normalise", "prompt"]


def test_a_set_that_is_not_a_section(problems):
    (found,) = problems(f"{HEAD}  mine: mine.csv\n")
    assert found.startswith("line 7, sets.mine: must have keys (file, shift,")


def test_keys_of_other_kinds_are_accepted_with_their_defaults(study):
    """As in the resolved study of an older version, which names the keys of all kinds."""
    own = study(HEAD + GOOD + "    extract: null\n    metric: exact\n    max_tokens: 256\n    normalise: false\n")
    assert own.study == study(HEAD + GOOD).study
    assert set(resolved_study(own.study)["sets"]["mine"]) == {*OwnSet.model_fields, "answers"}


def test_answers_without_a_leading_space_are_a_warning(study):
    (warning,) = study(HEAD + GOOD.replace('" Yes"', "Yes")).warnings
    assert (
        warning
        == "line 10, sets.mine.answers.1: 'Yes' has no leading space, unlike a word after the prompt; use ' Yes'"
    )
    assert study(HEAD + GOOD.replace('" Yes"', "Yes").replace("Really?", "Really? ")).warnings == ()


TWO = Pattern("{premise} So {hypothesis}?", (("entailment", " Yes"), ("neutral", " No")), shorten="premise")


class Known:
    def __init__(self, task):
        self.task = task


KNOWN = {"two": Known(TWO), "pick": Known(Choice("{question}"))}


def spec(**keys):
    base = {"name": "s", "models": "a/b", "recipe": {"method": "zero-shot"}, "evaluate": {"on": "two"}}
    return StudySpec.model_validate(base | keys)


def test_a_set_keeps_its_task_unless_the_study_rewords_it():
    assert resolve_task("two", spec(), KNOWN) == TWO
    assert resolve_task("pick", spec(pattern="{question}?", answers={"a": "b"}), KNOWN) == Choice("{question}")


def test_each_set_takes_the_answers_of_its_own_labels():
    answers = {"contradiction": " wrong", "neutral": " open", "entailment": " right"}
    task = resolve_task("two", spec(answers=answers), KNOWN)
    assert task == Pattern(TWO.template, (("entailment", " right"), ("neutral", " open")), shorten="premise")


def test_a_pattern_of_the_study():
    with_premise = resolve_task("two", spec(pattern="{premise}?"), KNOWN)
    assert with_premise == Pattern("{premise}?", TWO.answers, shorten="premise")
    assert resolve_task("two", spec(pattern="{hypothesis}?"), KNOWN) == Pattern("{hypothesis}?", TWO.answers)


def test_tasks_of_own_sets():
    words = {"yes": " Yes", "no": " No"}
    pattern = spec(sets={"two": {"file": "x.csv"}}, pattern="{claim}", answers=words)
    assert resolve_task("two", pattern, KNOWN) == Pattern("{claim}", tuple(words.items()))
    choice = spec(
        sets={"two": {"file": "x.csv", "kind": "choice", "pattern": "{q}", "options": "o", "normalise": True}}
    )
    assert resolve_task("two", choice, KNOWN) == Choice("{q}", normalise=True)
    number = spec(sets={"two": {"file": "x.csv", "kind": "generate", "pattern": "{q}", "metric": "number"}})
    assert resolve_task("two", number, KNOWN) == Generate("{q}", r"(-?\d[\d,]*(?:\.\d+)?)", "number")


def test_the_data_of_own_sets_are_specified_apart_from_their_task():
    for kind in ("pattern", "choice", "generate"):
        own = spec(sets={"two": {"file": "x.csv", "kind": kind, "options": "o"}}).sets["two"]
        assert own.data_spec() == {"fields": {}, "label": "label", "labels": None, "item": None, "options": "o"}


def test_tasks_as_plain_values():
    for task in (TWO, Choice("{q}"), Generate("{q}", "(x)", stop=("\n",))):
        assert json.dumps(task.spec())
    assert TWO.spec()["answers"] == {"entailment": " Yes", "neutral": " No"}


def test_sets_in_use_are_listed_once():
    study = spec(evaluate={"on": ["hans", "plain"]}, train={"set": ["plain", "chat"]})
    assert used_sets(study) == ["hans", "plain", "chat"]
    assert all(name in REGISTRY for name in used_sets(study))
