"""Answers and losses over the whole vocabulary: another token than the answers may be the most likely one."""

import numpy as np
import polars as pl
import pytest
import torch

from breadth.datasets import Loaded, Pattern
from breadth.errors import InputError
from breadth.lm.batches import make_batch, make_batches
from breadth.lm.evaluation import encode_testset, evaluate_model
from breadth.lm.scoring import PatternScorer
from breadth.lm.split_model import SplitModel
from breadth.lm.tiny import make_tokenizer
from breadth.lm.train_set import encode_train_set

TOKENIZER = make_tokenizer(bos=False)
PROMPTS = [[5, 6, 7], [80, 9, 100, 11, 12], [80, 9, 100, 30]]


def task_of(*words, predict="vocabulary"):
    return Pattern("{premise}", tuple((f"l{i}", word) for i, word in enumerate(words)), predict=predict)


def scorer_of_words(*words, labels=("l0",)):
    return PatternScorer(TOKENIZER, task_of(*words), pl.DataFrame({"label": labels}))


def own_logits(language_model, ids):
    with torch.inference_mode():
        return language_model.model(input_ids=torch.tensor([ids])).logits[0].double()


def items_of(texts, labels, name="a"):
    items = [f"{name}-{k}" for k in range(len(texts))]
    frame = {"item": items, "testset": [name] * len(texts), "premise": texts, "label": labels}
    return pl.DataFrame(frame)


@pytest.mark.parametrize("words", [(" Yes", " No"), (" Yes", " Never"), (" Nobody", " Not at all", " Yes")])
def test_the_most_likely_token_is_that_of_the_model_itself(tiny, words):
    model = tiny()
    scorer = scorer_of_words(*words, labels=["l0"] * 3)
    requests = scorer.requests(PROMPTS)
    plain = PatternScorer(TOKENIZER, task_of(*words, predict="answers"), scorer.items).requests(PROMPTS)
    split = SplitModel(model.model)
    with torch.inference_mode():
        batch = make_batch(requests.sequences, list(range(len(requests.sequences))), "cpu")
        found = requests.forward(split, batch)
        scores = plain.forward(split, batch)
        # The same numbers where prompts are branches of one tree, whichever way the model computes it.
        count = len(requests.sequences)
        (tree,) = make_batches(requests.sequences, "cpu", 1000, [list(range(count))])
        branches = torch.empty_like(found)
        branches[tree.index] = requests.forward(split, tree)
    each = len(found) // len(PROMPTS)
    for k, prompt in enumerate(PROMPTS):
        assert found[k * each, -1] == own_logits(model, prompt)[-1].argmax()
    assert torch.allclose(found[:, :-1], scores.double(), atol=1e-5)
    assert torch.allclose(branches, found, atol=1e-4)


def test_only_the_most_likely_token_counts():
    scorer = scorer_of_words(" Yes", " No", labels=["l0", "l0", "l0", "l1"])
    yes, no = (ids[0] for ids in scorer.answers)
    outputs = np.array([[2.0, 1.0, yes], [2.0, 1.0, 7], [1.0, 2.0, no], [2.0, 2.0, no]])
    scores = scorer.score(outputs)
    assert scores["answer"].to_list() == ["l0", "neither", "l1", "l0"]
    # A tie is wrong even where the token that comes first is the right one.
    assert scores["correct"].to_list() == [1, 0, 0, 0]
    # The margin remains that among the answers, also where the answer is neither.
    assert scores["margin"].to_list() == [1, 1, -1, 0]


def test_answers_that_begin_alike_are_told_apart_by_their_scores():
    scorer = scorer_of_words(" Nobody", " Not at all", " Yes", labels=["l0", "l1", "l2"])
    first = [ids[0] for ids in scorer.answers]
    assert first[0] == first[1] != first[2]
    scores = np.array([[-3.0, -4.0, -1.0], [-3.0, -4.0, -1.0], [-3.0, -4.0, -1.0]])
    outputs = np.stack([scores.ravel(), np.repeat([first[0], first[0], 3], 3)], axis=1)
    result = scorer.score(outputs)
    # " Yes" is more likely as a whole, but the model would not begin with it.
    assert result["answer"].to_list() == ["l0", "l0", "neither"]
    assert result["correct"].to_list() == [1, 0, 0]


def test_a_label_may_not_be_called_neither():
    task = Pattern("{premise}", (("yes", " Yes"), ("neither", " No")), predict="vocabulary")
    with pytest.raises(InputError, match="rename the label"):
        PatternScorer(TOKENIZER, task, pl.DataFrame({"label": ["yes"]}))


def test_the_choice_is_part_of_a_task_only_if_it_is_made():
    assert "predict" not in task_of(" Yes", " No", predict="answers").spec()
    assert task_of(" Yes", " No").spec()["predict"] == "vocabulary"


def test_mixed_precision_is_left_out(tiny_folders):
    from breadth.lm.loading import load_model

    model = load_model(str(tiny_folders["llama"]), dtype="mixed", device="cpu")
    exact = load_model(str(tiny_folders["llama"]), dtype="float32", device="cpu")
    frame = items_of(["one two", "three", "four five six"], ["l0", "l1", "l0"])
    results = []
    for language_model in (model, exact):
        loaded = Loaded("a", "domain", task_of(" Yes", " No"), frame, "")
        testset = encode_testset(language_model, loaded, context=64)
        assert not testset.can_be_mixed
        results.append(evaluate_model(language_model, SplitModel(language_model.model), [testset]))
    assert results[0].equals(results[1])


@pytest.mark.parametrize("words", [(" Yes", " No"), (" Yes", " Not at all")])
def test_the_loss_is_that_of_the_right_answer_among_all_tokens(tiny, words):
    model = tiny()
    texts, labels = ["one two", "three", "four five six"], ["l0", "l1", "l0"]
    # What is trained does not depend on what is evaluated.
    for predict in ("answers", "vocabulary"):
        examples = Loaded("a", "in-domain", task_of(*words, predict=predict), items_of(texts, labels), "")
        train_set = encode_train_set(model, examples, "vocabulary", context=64)
        scorer = scorer_of_words(*words)
        expected = 0.0
        for text, label in zip(texts, labels, strict=True):
            prompt = model.tokenizer(text, add_special_tokens=False)["input_ids"]
            start = [model.tokenizer.bos_token_id] if model.bos else []
            answer = scorer.answers[int(label[1])]
            chances = own_logits(model, [*start, *prompt, *answer]).log_softmax(-1)
            first = len(start) + len(prompt) - 1
            expected -= sum(float(chances[first + k, token]) for k, token in enumerate(answer))
        split = SplitModel(model.model)
        loss = train_set.summed_loss(split, [0, 1, 2])
        assert float(loss.detach()) == pytest.approx(expected, abs=1e-3)
        assert train_set.loss_weight([0, 1, 2]) == 3
