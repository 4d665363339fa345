import json

from breadth.datasets.tasks import Choice, Generate, Pattern
from breadth.study.known import KnownSet
from breadth.study.schema import Study
from breadth.study.scoring import resolve_task, task_spec

TWO = Pattern("{premise} So {hypothesis}?", (("entailment", " Yes"), ("neutral", " No")), "premise")
KNOWN = {"two": KnownSet(TWO, "domain"), "pick": KnownSet(Choice("{question}"), "domain")}


def study(**keys):
    base = {"name": "s", "models": "a/b", "recipe": {"method": "zero-shot"}, "evaluate": {"on": "two"}}
    return Study.model_validate(base | keys)


def test_the_registrys_task_stands_unless_the_study_says_otherwise():
    assert resolve_task("two", study(), KNOWN) == TWO
    assert resolve_task("pick", study(pattern="{question}?", answers={"a": "b"}), KNOWN) == Choice("{question}")


def test_each_set_takes_the_answers_of_its_own_labels():
    answers = {"contradiction": " wrong", "neutral": " open", "entailment": " right"}
    found = resolve_task("two", study(answers=answers), KNOWN)
    assert found == Pattern(TWO.template, (("entailment", " right"), ("neutral", " open")), "premise")


def test_a_pattern_of_the_study():
    assert resolve_task("two", study(pattern="{premise}?"), KNOWN) == Pattern("{premise}?", TWO.answers, "premise")
    assert resolve_task("two", study(pattern="{hypothesis}?"), KNOWN) == Pattern("{hypothesis}?", TWO.answers, None)


def test_own_sets():
    words = {"yes": " Yes", "no": " No"}
    pattern = study(sets={"two": {"file": "x.csv"}}, pattern="{claim}", answers=words)
    assert resolve_task("two", pattern, KNOWN) == Pattern("{claim}", tuple(words.items()))
    choice = study(
        sets={"two": {"file": "x.csv", "kind": "choice", "pattern": "{q}", "options": "o", "normalise": True}}
    )
    assert resolve_task("two", choice, KNOWN) == Choice("{q}", normalise=True)
    number = study(sets={"two": {"file": "x.csv", "kind": "generate", "pattern": "{q}", "metric": "number"}})
    task = resolve_task("two", number, KNOWN)
    assert isinstance(task, Generate)
    assert task.metric == "number"


def test_a_task_as_plain_values():
    for task in (TWO, Choice("{q}"), Generate("{q}", "(x)", stop=("\n",))):
        assert json.dumps(task_spec(task))
    assert task_spec(TWO)["answers"] == {"entailment": " Yes", "neutral": " No"}
