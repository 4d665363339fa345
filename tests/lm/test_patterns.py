import numpy as np
import polars as pl
import pytest
import torch

from breadth.datasets.tasks import Pattern
from breadth.errors import InputError
from breadth.lm.batches import make_batch
from breadth.lm.body import Body
from breadth.lm.patterns import Answers, encode_answers, pattern_query, pattern_results
from breadth.lm.queries import Continuations, LastToken
from breadth.lm.tiny import make_tokenizer

TOKENIZER = make_tokenizer(bos=False)


def task(*words):
    return Pattern("{premise}", tuple((f"l{i}", word) for i, word in enumerate(words)))


def scores(language_model, answers, prompts):
    query = pattern_query(answers, prompts)
    with torch.inference_mode():
        batch = make_batch(query.sequences, list(range(len(query.sequences))), "cpu")
        return query.ask(Body(language_model.model), batch).double().numpy()


def test_answers_of_one_token_are_compared_at_the_last_token(tiny):
    model = tiny()
    answers = encode_answers(TOKENIZER, task(" Yes", " No"))
    assert not answers.whole
    assert answers.notes == ()
    prompts = [[5, 6, 7], [80, 9, 100, 11, 12]]
    assert isinstance(pattern_query(answers, prompts), LastToken)
    found = scores(model, answers, prompts)
    for row, prompt in enumerate(prompts):
        logits = model.model(input_ids=torch.tensor([prompt])).logits[0, -1]
        assert found[row] == pytest.approx(logits[[ids[0] for ids in answers.tokens]].tolist(), abs=1e-4)


@pytest.mark.parametrize("words", [(" Yes", " Never"), (" Nobody", " Not at all", " Yes")])
def test_answers_of_several_tokens_are_read_whole(tiny, words):
    model = tiny()
    answers = encode_answers(TOKENIZER, task(*words))
    assert answers.whole
    prompts = [[5, 6, 7], [80, 9, 100, 11, 12]]
    assert isinstance(pattern_query(answers, prompts), Continuations)
    found = scores(model, answers, prompts).reshape(2, len(words))
    for row, prompt in enumerate(prompts):
        for k, ids in enumerate(answers.tokens):
            with torch.inference_mode():
                chances = model.model(input_ids=torch.tensor([[*prompt, *ids]])).logits[0].double().log_softmax(-1)
            whole = sum(float(chances[len(prompt) - 1 + j, token]) for j, token in enumerate(ids))
            assert found[row, k] == pytest.approx(whole, abs=1e-4)


def test_a_shared_first_token_is_noted():
    answers = encode_answers(TOKENIZER, task(" Noxy", " Nozz"))
    assert answers.tokens[0][0] == answers.tokens[1][0]
    assert answers.whole
    assert answers.notes == ("answers ' Noxy', ' Nozz' begin with the same token, so the whole answers are scored",)


def test_an_answer_that_begins_another_is_noted():
    notes = encode_answers(TOKENIZER, task(" No", " Nox")).notes
    assert notes[-1] == "answer ' Nox' begins with answer ' No', which is therefore never the less likely one"


def test_answers_that_no_model_could_tell_apart():
    with pytest.raises(InputError, match="two answers are the same to the model: ' Yes', ' Yes'"):
        encode_answers(TOKENIZER, task(" Yes", " Yes"))
    with pytest.raises(InputError, match="the answer for l1 is empty"):
        encode_answers(TOKENIZER, task(" Yes", ""))


def test_margin_is_the_log_odds_of_the_right_answer():
    answers = Answers(("a", "b", "c"), ((1,), (2,), (3,)))
    table = np.array([[2.0, 1.0, 0.5], [0.0, 3.0, -1.0], [-4.0, 0.0, 1.0]])
    found = pattern_results(answers, table, ["a", "c", "c"])
    chance = np.exp(table) / np.exp(table).sum(1, keepdims=True)
    right = chance[[0, 1, 2], [0, 2, 2]]
    assert found["margin"].to_list() == pytest.approx(np.log(right / (1 - right)).tolist(), abs=1e-5)
    assert found["correct"].to_list() == [1, 0, 1]
    assert found["answer"].to_list() == ["a", "b", "c"]
    assert found.schema == {"correct": pl.Float32, "margin": pl.Float32, "answer": pl.String}


def test_a_tie_is_wrong():
    answers = Answers(("a", "b"), ((1,), (2,)))
    found = pattern_results(answers, np.array([[1.0, 1.0], [1.0, 1.0]]), ["a", "b"])
    assert found["correct"].to_list() == [0, 0]
    assert found["margin"].to_list() == [0, 0]


def test_margins_of_extreme_scores_are_finite():
    found = pattern_results(Answers(("a", "b"), ((1,), (2,))), np.array([[900.0, -900.0]]), ["b"])
    assert found["margin"].to_list() == [-1800]
