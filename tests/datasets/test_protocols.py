"""Prompts, targets and options of the published protocol, letter by letter."""

import pytest

from breadth.datasets import PROTOCOLS, REGISTRY, Choice, Generate
from breadth.lm import few_shot_text

OPTIONS = {"options": ["one", "two"], "option_labels": ["A", "B"], "label": "B"}
QUESTION = {"question": "How many?", **OPTIONS}
LETTERED = "Question: How many?\nA) one\nB) two\nAnswer:\n"
STORY = {"narrative": "A story.", **QUESTION}
SOLVED = {"question": "How many?", "label": "72", "solution": "48/2 = <<48/2=24>>24\n#### 72", "reasoning": "48/2 = 24"}

#: Set, item, prompt in training, what is trained on, prompt in evaluation.
PUBLISHED = [
    ("arc", QUESTION, LETTERED, " B", LETTERED),
    ("gpqa", QUESTION, LETTERED, " (B)", LETTERED),
    ("mmlu_pro", QUESTION, LETTERED, "B", LETTERED),
    ("gsm8k", SOLVED, "Q: How many?\nA:\n", "48/2 = 24 So the answer is 72", "Q: How many?\nA:\n"),
    ("bbh", SOLVED, "Question: How many?\nAnswer:\n", "72", "Q: How many?\nA:"),
    ("math", SOLVED, "Problem:\nHow many?\n\nAnswer:", " 72", "Problem:\nHow many?\n\nSolution:"),
    (
        "musr",
        STORY,
        "A story.\n\nHow many?\n\n1 - one\n2 - two\n\nAnswer:",
        " two",
        "A story.\n\nHow many?\n\n1 - one\n2 - two\nAnswer:",
    ),
]


def prompt_of(task, row):
    return task.template.format(**task.prompt_fields(row))


def task_of(name, protocol="level-transfer"):
    return REGISTRY[name].task.overridden(PROTOCOLS[protocol].wording[name])


@pytest.mark.parametrize(("name", "row", "train", "target", "test"), PUBLISHED)
def test_the_published_wording(name, row, train, target, test):
    task = task_of(name)
    task.check(name)
    assert prompt_of(task.in_training(), row) == train
    assert task.target_of(row) == target
    assert prompt_of(task, row) == test


@pytest.mark.parametrize(("name", "row", "train", "target", "test"), PUBLISHED)
def test_without_the_mismatch_evaluation_asks_as_training_does(name, row, train, target, test):
    task = task_of(name, "level-transfer-matched")
    assert prompt_of(task, row) == prompt_of(task.in_training(), row) == train
    assert task.target_of(row) == target


def test_which_sets_are_mismatched():
    assert PROTOCOLS["level-transfer"].mismatched == ("bbh", "math", "musr")
    assert PROTOCOLS["level-transfer-matched"].mismatched == ()


def test_what_is_scored():
    assert task_of("arc").option_texts(QUESTION) == ["A", "B"]
    assert task_of("gpqa").option_texts(QUESTION) == ["(A)", "(B)"]
    musr = task_of("musr")
    assert musr.option_texts(STORY) == ["one", "two"]
    assert musr.normalise
    limits = {name: task_of(name).max_tokens for name in ("mmlu_pro", "math")}
    assert limits == {"mmlu_pro": 2048, "math": 4096}
    assert all(task_of(name).stop == ("Q:",) for name in ("mmlu_pro", "gsm8k", "bbh", "math"))


def test_examples_in_a_prompt_show_what_is_trained_on():
    import polars as pl

    items = pl.DataFrame([SOLVED])
    assert few_shot_text(task_of("gsm8k"), items) == "Q: How many?\nA:\n48/2 = 24 So the answer is 72\n\n"


def test_a_task_without_changes_is_described_as_before():
    """Names of runs depend on this, so studies on disk can be resumed."""
    added = {"train_template", "completion", "choice_format"}
    assert not added & set(Choice("{q}").spec())
    assert not added & set(REGISTRY["mnli"].task.spec())
    assert Generate("{q}", "(.)").spec()["completion"] == "label"
    assert REGISTRY["gsm8k"].task.spec()["completion"] == "solution"
    assert set(Choice("{q}", choice_format="{letter}) {text}", completion="{x}").spec()) & added == {
        "completion",
        "choice_format",
    }


def test_a_completion_begins_with_a_space_after_a_word():
    assert Choice("{q}", completion="{label}!").target_of({"label": "B"}) == " B!"
    assert Choice("{q}\n", completion="{label}!").target_of({"label": "B"}) == "B!"
    assert Choice("{q}", completion="\n{label}").target_of({"label": "B"}) == "\nB"
    assert Choice("{q}", train_template="{q}\n", completion="{label}").target_of({"label": "B"}) == "B"
