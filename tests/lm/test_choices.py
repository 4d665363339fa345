import polars as pl
import pytest
import torch

from breadth.datasets.tasks import Choice
from breadth.errors import InputError
from breadth.lm.body import Body
from breadth.lm.choices import encode_options
from breadth.lm.examination import examine, prepare

ROWS = [
    {"question": "Which of these is true?", "options": ["one", "two cats", "three"], "label": "B"},
    {"question": "The cat sat on the", "options": ["mat", "guitar"], "label": "A"},
    {"question": "A man plays", "options": ["birds in a tree", "a guitar", "x", "the park", "y z"], "label": "D"},
]
ITEMS = pl.DataFrame(
    [{"item": f"q-{i}", "testset": "q", **row, "option_labels": list("ABCDE"[: len(row["options"])])}
     for i, row in enumerate(ROWS)]
)  # fmt: skip


class Set:
    def __init__(self, task, frame=ITEMS):
        self.name, self.task, self.frame = "q", task, frame


def by_hand(language_model, task, row):
    """Log-likelihood of every option after the prompt, one by one."""
    lines = "\n".join(f"{label}. {text}" for label, text in zip(row["option_labels"], row["options"], strict=True))
    prompt = language_model.encode(task.template.format(question=row["question"], choices=lines))
    found = []
    for label, text in zip(row["option_labels"], row["options"], strict=True):
        shown = label if task.continuation == "label" else text
        ending = language_model.tokenizer(f" {shown}", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            chances = language_model.model(input_ids=torch.tensor([prompt + ending])).logits[0].double().log_softmax(-1)
        score = sum(float(chances[len(prompt) - 1 + k, token]) for k, token in enumerate(ending))
        found.append(score / len(shown) if task.normalise else score)
    return found


@pytest.mark.parametrize("family", ["llama", "opt", "gemma3"])
@pytest.mark.parametrize(
    "task",
    [
        Choice("{question}\n{choices}\nAnswer:", "label"),
        Choice("{question}", "text"),
        Choice("{question}", "text", normalise=True),
    ],
    ids=["label", "acc", "acc_norm"],
)
def test_options_are_scored_as_one_by_one(tiny, family, task):
    model = tiny(family)
    body = Body(model.model, 2)
    found = examine(model, body, [prepare(model, Set(task), context=256)])
    assert found["item"].to_list() == ["q-0", "q-1", "q-2"]
    for row, result in zip(ITEMS.iter_rows(named=True), found.iter_rows(named=True), strict=True):
        scores = torch.tensor(by_hand(model, task, row), dtype=torch.float64)
        right = row["option_labels"].index(row["label"])
        assert result["answer"] == row["option_labels"][int(scores.argmax())]
        assert result["correct"] == float(scores.argmax() == right)
        others = torch.cat([scores[:right], scores[right + 1 :]])
        assert result["margin"] == pytest.approx(float(scores[right] - others.logsumexp(0)), abs=1e-3)


def test_normalising_changes_who_wins():
    from breadth.lm.choices import choice_results

    items = ITEMS[1:2].with_columns(label=pl.lit("B"))
    import numpy as np

    scores = np.array([-3.0, -4.0])  # per character: mat -1, guitar -0.67
    assert choice_results(Choice("{question}"), items, scores)["correct"][0] == 0
    assert choice_results(Choice("{question}", normalise=True), items, scores)["correct"][0] == 1


def test_items_that_are_no_choice(tiny):
    tokenizer = tiny().tokenizer
    task = Choice("{question}")
    one = ITEMS[:1].with_columns(options=pl.lit(["x"]), option_labels=pl.lit(["A"]), label=pl.lit("A"))
    with pytest.raises(InputError, match="item 'q-0': 1 options with labels A, the right one being 'A'"):
        encode_options(tokenizer, task, one)
    with pytest.raises(InputError, match=r"item 'q-0'.*the right one being 'Z'"):
        encode_options(tokenizer, task, ITEMS.with_columns(label=pl.lit("Z")))
    with pytest.raises(InputError, match="needs the column 'options'; columns: item"):
        encode_options(tokenizer, task, ITEMS.drop("options"))
