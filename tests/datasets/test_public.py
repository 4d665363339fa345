"""Public sets: options and final answers are read, and the Hub's columns become canonical ones."""

import time

import polars as pl
import pytest

from breadth.datasets import REGISTRY, Generate, extract, load
from breadth.datasets.canonical import canonical, identify
from breadth.datasets.public import BOXED, NUMBER, lined_up, read_options, right_letter
from breadth.errors import InputError
from breadth.records import Table

# Rows as the Hub has them.
HUB = {
    "arc": {
        "id": "Mercury_1", "question": "What melts?", "answerKey": "2",
        "choices": {"text": ["a stone", "ice"], "label": ["1", "2"]},
    },
    "gsm8k": {"question": "Two bags of 600 nuts?", "answer": "2*600 = <<2*600=1200>>1,200\n#### 1,200"},
    "bbh": {"input": "True and not True is", "target": "False"},
    "mmlu_pro": {
        "question_id": 70, "question": "2 + 2?", "options": ["3", "4", "5"], "answer": "B", "answer_index": 1,
        "cot_content": "", "category": "math", "src": "x",
    },
    "math": {
        "problem": "Half?", "level": "Level 5", "type": "Algebra",
        "solution": r"First $\boxed{x}$, then $\boxed{\frac{1}{\sqrt{2}}}$.",
    },
    "musr": {
        "narrative": "A long story.", "question": "Who?", "choices": "['Ann', \"Bob's\"]", "answer_index": 1,
        "answer_choice": "Bob's",
    },
}  # fmt: skip
LABELS = {"arc": "B", "gsm8k": "1200", "bbh": "False", "mmlu_pro": "B", "math": r"\frac{1}{\sqrt{2}}", "musr": "B"}


def read(name, *rows):
    frame, _ = canonical(Table(pl.DataFrame(rows), name), REGISTRY[name], lenient=True)
    return identify(frame, REGISTRY[name], name)[0]


@pytest.mark.parametrize("name", HUB)
def test_rows_of_the_hub_become_canonical(name):
    frame, task = read(name, HUB[name]), REGISTRY[name].task
    row = frame.row(0, named=True)
    assert row["label"] == LABELS[name]
    assert row["item"].startswith(f"{name}-")
    prompt = task.template.format(**{"choices": "", **row})
    assert "{" not in prompt.replace("\\boxed{}", "")
    if isinstance(task, Generate):
        # What is trained on holds the answer that evaluation would extract.
        assert extract(task.extract, row[task.completion]).replace(",", "") == row["label"]
    else:
        assert row["options"][row["option_labels"].index(row["label"])] in ("ice", "Bob's")


def test_only_level_five_of_math_is_kept():
    other = {**HUB["math"], "level": "Level 1", "solution": "no answer"}
    assert read("math", HUB["math"], other)["level"].to_list() == ["Level 5"]


def test_options_of_mmlu_pro_are_written_for_the_prompt():
    assert read("mmlu_pro", HUB["mmlu_pro"])["choices"].item() == "A. 3\nB. 4\nC. 5"


def test_a_solution_without_an_answer_is_named():
    with pytest.raises(InputError, match=r"gsm8k, row 2, column 'answer': no final answer"):
        read("gsm8k", HUB["gsm8k"], {"question": "Why?", "answer": "nobody knows"})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("3 + 4 = 7\n#### 7", "7"),
        ("#### -7 and then 9", "-7"),
        ("#### 12\n#### 13", "13"),
        ("so it costs $3.50.", "3.50"),
        ("that is -5", "-5"),
        ("10-5", "5"),
        ("5, 6", "6"),
        ("1,000 in all", "1,000"),
        ("none", None),
    ],
)
def test_numbers(text, answer):
    assert extract(NUMBER, text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{a} then \boxed{b}", "b"),
        (r"$\boxed 5$", "5"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\fbox{3}", "3"),
        (r"\boxed{\$5}", r"\$5"),
        (r"\boxed{cut off", None),
    ],
)
def test_boxed_answers(text, answer):
    assert extract(BOXED, text) == answer


@pytest.mark.parametrize("text", ["\\boxed " * 1000, "\\boxed{" * 2000, "1," * 5000, "####" * 3000, "-" * 9000])
def test_search_ends_on_nonsense(text):
    start = time.process_time()
    extract(BOXED, text), extract(NUMBER, text)
    assert time.process_time() - start < 5


def test_real_solutions_hold_their_labels(shared_data):
    loaded = load("gsm8k", "all", data=shared_data)
    raw = pl.read_parquet(shared_data / "qa" / "gsm8k.parquet")
    task = loaded.task
    assert isinstance(task, Generate)
    assert loaded.frame.height == raw.height
    for solution, label in loaded.frame.select("solution", "label").iter_rows():
        assert solution.rpartition("####")[2].strip().replace(",", "") == label
        assert float(extract(task.extract, solution).replace(",", "")) == float(label)


def options(value, dtype=None):
    return read_options(Table(pl.DataFrame({"o": pl.Series([value], dtype=dtype)}), "quiz.jsonl"), "o")


@pytest.mark.parametrize("value", [["a", "b"], '["a", "b"]', "['a', 'b']"])
def test_lists_and_lists_as_text(value):
    assert options(value) == [["a", "b"]]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (["a"], "at least two options"),
        (["a", None], "at least two options"),
        (["a", " "], "an option is empty"),
        (["a", "b\0"], "NUL character"),
        ("a|b", r"is not a list of options; write it as"),
        ("[" * 5000, r"is not a list of options"),
        ([str(i) for i in range(27)], "has 27 options"),
    ],
)
def test_invalid_options_are_named_by_row(value, complaint):
    with pytest.raises(InputError, match=rf"quiz.jsonl, row 1, column 'o': .*{complaint}"):
        options(value)


def test_missing_column():
    with pytest.raises(InputError, match="no column 'choices'"):
        read_options(Table(pl.DataFrame({"choice": [["a", "b"]]}), "quiz"), "choices")


def test_the_correct_option_by_name_text_or_position():
    texts, names = ["ice", "3", "steam"], ["A", "B", "C"]
    assert [right_letter(value, texts, names, "") for value in ("C", "ice", 1, "3")] == ["C", "A", "B", "B"]
    assert right_letter("1", texts, ["1", "2", "3"], "") == "A"
    with pytest.raises(InputError, match="row 7: 'D' is not an option"):
        right_letter("D", texts, names, "row 7")
    with pytest.raises(InputError, match="is not an option"):
        right_letter("same", ["same", "same"], ["A", "B"], "")


def test_options_for_a_prompt():
    assert lined_up(["ice", "steam"]) == "A. ice\nB. steam"
