"""Texts that a model may write, and whether the published rules of arXiv 2511.21692 count them as right."""

import polars as pl
import pytest

from breadth.datasets import PROTOCOLS, REGISTRY, RULES, extract_answer
from breadth.lm import written_scores

TASKS = {
    name: REGISTRY[name].task.overridden(keys)
    for name, keys in PROTOCOLS["level-transfer"].wording.items()
    if REGISTRY[name].task.generates
}

#: Set, right answer, text, whether it is right.
TEXTS = [
    # First of the letters A to J, case and punctuation ignored.
    ("mmlu_pro", "B", "B", True),
    ("mmlu_pro", "B", "(B)", True),
    ("mmlu_pro", "B", "B.", True),
    ("mmlu_pro", "B", " B) the second", True),
    ("mmlu_pro", "B", "b", True),
    ("mmlu_pro", "B", "(b)", True),
    ("mmlu_pro", "B", "**B**", True),
    ("mmlu_pro", "B", "The option is B, not C.", True),
    ("mmlu_pro", "C", "The option is B, not C.", False),
    ("mmlu_pro", "J", "J", True),
    ("mmlu_pro", "B", "K", False),
    ("mmlu_pro", "B", "", False),
    ("mmlu_pro", "B", "the second one", False),
    ("mmlu_pro", "B", "Answer: B", False),  # its first letter from A to J is the A of Answer
    ("mmlu_pro", "A", "A\nB\nC", True),
    # The last number; commas, dollar signs and a final full stop do not count.
    ("gsm8k", "5", "5", True),
    ("gsm8k", "5", "So the answer is 5", True),
    ("gsm8k", "5", "So the answer is 5.", True),
    ("gsm8k", "5", "So the answer is $5.", True),
    ("gsm8k", "1200", "2 * 600 = 1,200. So the answer is 1,200", True),
    ("gsm8k", "1200", "$1,200", True),
    ("gsm8k", "5", "The answer is $5$.", True),
    ("gsm8k", "5", "There are 5 of them, not 6", False),
    ("gsm8k", "5", "3 + 2 = 5 apples", True),
    ("gsm8k", "-10", "So the answer is -10", True),
    ("gsm8k", "10", "So the answer is -10", False),
    ("gsm8k", "2.5", "So the answer is 2.5", True),
    ("gsm8k", "5", "So the answer is 5.00", False),  # compared as text, not as a number
    ("gsm8k", "5", "So the answer is five", False),
    ("gsm8k", "5", "", False),
    # By kind of subset: True or False, yes or no, valid or invalid, a number, a letter in brackets.
    ("bbh", "True", "True.", True),
    ("bbh", "True", "true", True),
    ("bbh", "True", "False, and then True", False),
    ("bbh", "False", "not True is False", False),
    ("bbh", "True", "It is truthful", False),
    ("bbh", "Yes", "Yes, you return to the start.", True),
    ("bbh", "Yes", "yes", True),
    ("bbh", "No", "Yes.", False),
    ("bbh", "No", "None of them: no", True),
    ("bbh", "valid", "The argument is valid.", True),
    ("bbh", "invalid", "The argument is invalid.", True),
    ("bbh", "valid", "The argument is invalid.", False),
    ("bbh", "7", "7", True),
    ("bbh", "7", "There are 7.", True),
    ("bbh", "7", "I count 3 + 4 = 7 fruits", True),
    ("bbh", "7", "8", False),
    ("bbh", "-3", "-3", True),
    ("bbh", "3", "-3", False),
    ("bbh", "(A)", "(A)", True),
    ("bbh", "(B)", "B", True),
    ("bbh", "(B)", "b.", True),
    ("bbh", "(B)", "The answer is (B).", True),
    ("bbh", "(B)", "(A) or (B)", False),
    ("bbh", "(B)", "The answer is B.", False),  # no letter in brackets, and not the letter alone
    ("bbh", "plain text", "Plain, text!", True),
    ("bbh", "plain text", "plain", False),
    # Symbolic equality, wherever the text has the formula.
    ("math", r"\frac{1}{2}", r"\frac{1}{2}", True),
    ("math", r"\frac{1}{2}", r"$\frac{1}{2}$", True),
    ("math", r"\frac{1}{2}", "0.5", True),
    ("math", r"\frac{1}{2}", "1/2", True),
    ("math", r"\frac{1}{2}", r"Adding up gives $x = 3$, so \boxed{\frac12}.", True),
    ("math", "5", "The answer is $5$.", True),
    ("math", "5", "5", True),
    ("math", "5", "Therefore it is 5.", True),
    ("math", "5", r"\boxed{6}", False),
    ("math", "5", "", False),
    ("math", "x+1", "$1+x$", True),
    ("math", r"2\sqrt{3}", r"$\sqrt{12}$", True),
    ("math", "(1,2)", "$(1, 2)$", True),
    ("math", "(1,2)", "$(2, 1)$", False),
]


@pytest.mark.parametrize(("name", "label", "text", "right"), TEXTS)
def test_the_published_rules(name, label, text, right):
    items = pl.DataFrame({"label": [label]})
    assert bool(written_scores(TASKS[name], items, [text])["correct"][0]) is right


def test_the_table_covers_every_rule():
    assert len(TEXTS) >= 60
    used = {TASKS[name].extract for name, *_ in TEXTS}
    assert used == set(RULES) - {"so-the-answer-is"}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("So the answer is 5", "5"),
        ("So the answer is: $1,200.", "1200"),
        ("So the answer is 5. So the answer is 6", "5"),
        ("the answer is 5", None),
        ("5", None),
    ],
)
def test_the_strict_rule_needs_its_phrase(text, answer):
    assert extract_answer("so-the-answer-is", text) == answer
