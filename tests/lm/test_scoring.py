import numpy as np
import polars as pl
import pytest
import torch

from breadth.datasets import Choice, Generate, Pattern
from breadth.errors import InputError
from breadth.lm.batches import make_batch
from breadth.lm.evaluation import encode_testset, evaluate_model
from breadth.lm.scoring import (
    ChoiceScorer,
    Continuations,
    GenerateScorer,
    NextToken,
    PatternScorer,
    register_scorer,
    scorer_of,
)
from breadth.lm.split_model import SplitModel
from breadth.lm.tiny import make_tokenizer

TOKENIZER = make_tokenizer(bos=False)
SCORES = {"correct": pl.Float32, "margin": pl.Float32, "answer": pl.String}
PROMPTS = [[5, 6, 7], [80, 9, 100, 11, 12]]


def pattern_scorer(*words, labels=("l0",)):
    """A scorer of items with these labels; the answers are for labels l0, l1, ..."""
    task = Pattern("{premise}", tuple((f"l{i}", word) for i, word in enumerate(words)))
    return PatternScorer(TOKENIZER, task, pl.DataFrame({"label": labels}))


def outputs(language_model, requests):
    with torch.inference_mode():
        batch = make_batch(requests.sequences, list(range(len(requests.sequences))), "cpu")
        return requests.forward(SplitModel(language_model.model), batch).double().numpy()


def test_every_kind_has_a_scorer(monkeypatch):
    assert scorer_of(Choice("{x}")) is ChoiceScorer

    class Unknown(Choice):
        kind = "unknown"

    with pytest.raises(InputError, match="kind 'unknown' has no scorer"):
        scorer_of(Unknown("{x}"))
    from breadth.lm import scoring

    monkeypatch.setattr(scoring, "SCORERS", {})
    register_scorer(Unknown)(ChoiceScorer)
    assert scorer_of(Unknown("{x}")) is ChoiceScorer


def test_answers_of_one_token_are_compared_at_the_last_token(tiny):
    model = tiny()
    scorer = pattern_scorer(" Yes", " No", labels=["l0", "l1"])
    assert scorer.notes == []
    assert scorer.counts == [1, 1]
    requests = scorer.requests(PROMPTS)
    assert isinstance(requests, NextToken)
    scores = outputs(model, requests)
    for row, prompt in enumerate(PROMPTS):
        logits = model.model(input_ids=torch.tensor([prompt])).logits[0, -1]
        assert scores[row] == pytest.approx(logits[[ids[0] for ids in scorer.answers]].tolist(), abs=1e-4)


@pytest.mark.parametrize("words", [(" Yes", " Never"), (" Nobody", " Not at all", " Yes")])
def test_answers_of_several_tokens_are_scored_whole(tiny, words):
    model = tiny()
    scorer = pattern_scorer(*words, labels=["l0", "l1"])
    assert scorer.counts == [len(words)] * 2
    requests = scorer.requests(PROMPTS)
    assert isinstance(requests, Continuations)
    scores = outputs(model, requests).reshape(2, len(words))
    for row, prompt in enumerate(PROMPTS):
        for k, ids in enumerate(scorer.answers):
            with torch.inference_mode():
                chances = model.model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0].double().log_softmax(-1)
            whole = sum(float(chances[len(prompt) - 1 + j, token]) for j, token in enumerate(ids))
            assert scores[row, k] == pytest.approx(whole, abs=1e-4)


def test_a_shared_first_token_is_noted():
    scorer = pattern_scorer(" Noxy", " Nozz")
    assert scorer.answers[0][0] == scorer.answers[1][0]
    assert scorer.notes == ["answers ' Noxy', ' Nozz' begin with the same token, so whole answers are scored"]


def test_an_answer_that_begins_another_is_noted():
    notes = pattern_scorer(" No", " Nox").notes
    assert notes[-1] == "answer ' Nox' begins with answer ' No', which is therefore always at least as likely"


def test_answers_that_no_model_can_tell_apart():
    with pytest.raises(InputError, match="two answers have the same tokens: ' Yes', ' Yes'"):
        pattern_scorer(" Yes", " Yes")
    with pytest.raises(InputError, match="the answer for l1 is empty"):
        pattern_scorer(" Yes", "")


def test_margin_is_the_log_odds_of_the_correct_answer():
    scorer = pattern_scorer(" Yes", " No", " A", labels=["l0", "l2", "l2"])
    table = np.array([[2.0, 1.0, 0.5], [0.0, 3.0, -1.0], [-4.0, 0.0, 1.0]])
    results = scorer.score(table)
    chance = np.exp(table) / np.exp(table).sum(1, keepdims=True)
    correct = chance[[0, 1, 2], [0, 2, 2]]
    assert results["margin"].to_list() == pytest.approx(np.log(correct / (1 - correct)).tolist(), abs=1e-5)
    assert results["correct"].to_list() == [1, 0, 1]
    assert results["answer"].to_list() == ["l0", "l1", "l2"]
    assert results.schema == SCORES


def test_a_tie_is_wrong():
    results = pattern_scorer(" Yes", " No", labels=["l0", "l1"]).score(np.array([[1.0, 1.0], [1.0, 1.0]]))
    assert results["correct"].to_list() == [0, 0]
    assert results["margin"].to_list() == [0, 0]


def test_margins_of_extreme_scores_are_finite():
    results = pattern_scorer(" Yes", " No", labels=["l1"]).score(np.array([[900.0, -900.0]]))
    assert results["margin"].to_list() == [-1800]


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


def one_by_one(language_model, task, row):
    """Log-likelihood of every option after the prompt, one by one."""
    lines = "\n".join(f"{label}. {text}" for label, text in zip(row["option_labels"], row["options"], strict=True))
    prompt = language_model.encode(task.template.format(question=row["question"], choices=lines))
    scores = []
    for label, text in zip(row["option_labels"], row["options"], strict=True):
        shown = label if task.continuation == "label" else text
        ending = language_model.tokenizer(f" {shown}", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            chances = language_model.model(input_ids=torch.tensor([prompt + ending])).logits[0].double().log_softmax(-1)
        score = sum(float(chances[len(prompt) - 1 + k, token]) for k, token in enumerate(ending))
        scores.append(score / len(shown) if task.normalise else score)
    return scores


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
    results = evaluate_model(model, SplitModel(model.model, 2), [encode_testset(model, Set(task), context=256)])
    assert results["item"].to_list() == ["q-0", "q-1", "q-2"]
    for row, result in zip(ITEMS.iter_rows(named=True), results.iter_rows(named=True), strict=True):
        scores = torch.tensor(one_by_one(model, task, row), dtype=torch.float64)
        right = row["option_labels"].index(row["label"])
        assert result["answer"] == row["option_labels"][int(scores.argmax())]
        assert result["correct"] == float(scores.argmax() == right)
        others = torch.cat([scores[:right], scores[right + 1 :]])
        assert result["margin"] == pytest.approx(float(scores[right] - others.logsumexp(0)), abs=1e-3)


def test_normalising_changes_which_option_wins():
    items = ITEMS[1:2].with_columns(label=pl.lit("B"))
    scores = np.array([[-3.0], [-4.0]])  # per character: mat -1, guitar -0.67
    for normalise in (False, True):
        scorer = ChoiceScorer(TOKENIZER, Choice("{question}", normalise=normalise), items)
        assert scorer.score(scores)["correct"][0] == normalise
        assert scorer.score(scores).schema == SCORES


def test_items_without_proper_options():
    task = Choice("{question}")
    one = ITEMS[:1].with_columns(options=pl.lit(["x"]), option_labels=pl.lit(["A"]), label=pl.lit("A"))
    with pytest.raises(InputError, match="item 'q-0': has 1 options with labels A, and the label 'A'"):
        ChoiceScorer(TOKENIZER, task, one)
    with pytest.raises(InputError, match=r"item 'q-0'.*and the label 'Z'"):
        ChoiceScorer(TOKENIZER, task, ITEMS.with_columns(label=pl.lit("Z")))
    with pytest.raises(InputError, match="needs the column 'options'; columns: item"):
        ChoiceScorer(TOKENIZER, task, ITEMS.drop("options"))


def test_generated_answers_have_no_margin():
    items = pl.DataFrame({"label": ["4", "5"]})
    results = GenerateScorer(TOKENIZER, Generate("", r"(\d+)", "number"), items).score(["so 4", "so 6"])
    assert results["correct"].to_list() == [1, 0]
    assert results["answer"].to_list() == ["so 4", "so 6"]
    assert results.schema == SCORES


def test_completions_to_generate_end_with_the_end_of_the_sequence():
    items = pl.DataFrame({"label": ["4", "Yes"]})
    end = TOKENIZER.eos_token_id
    completions = GenerateScorer(TOKENIZER, Generate("", r"(\d+)"), items).completions()
    assert [TOKENIZER.decode(ids[:-1]) for ids in completions] == [" 4", " Yes"]
    assert [ids[-1] for ids in completions] == [end, end]
