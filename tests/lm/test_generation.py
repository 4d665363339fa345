import polars as pl
import pytest
import torch

from breadth.datasets import Generate
from breadth.lm import generation
from breadth.lm.batches import make_batch
from breadth.lm.evaluation import encode_testset, evaluate_model
from breadth.lm.generation import generate_texts
from breadth.lm.split_model import SplitModel

TASK = Generate("{question}", r"(\S+)", "exact", max_tokens=12)
PROMPTS = [[5, 6, 7], list(range(20, 50)), [100, 101, 102, 103, 104, 105], [200] * 11]


def greedy_token_by_token(model, prompt, tokens):
    """The most likely token, again and again, without a cache."""
    ids = list(prompt)
    for _ in range(tokens):
        with torch.inference_mode():
            best = int(model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax())
        if best == 2:
            break
        ids.append(best)
    return ids[len(prompt) :]


@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
def test_padding_on_the_left_changes_nothing(tiny, family, monkeypatch):
    model = tiny(family)
    together = generate_texts(model, PROMPTS, TASK)
    alone = [generate_texts(model, [prompt], TASK)[0] for prompt in PROMPTS]
    by_hand = [
        model.tokenizer.decode(greedy_token_by_token(model.model, p, 12), skip_special_tokens=True) for p in PROMPTS
    ]
    assert together == alone == by_hand
    assert len(set(together)) > 1
    # The size of the batches does not matter, down to one prompt each.
    monkeypatch.setattr(generation, "tokens_per_batch", lambda device: 0)
    assert generate_texts(model, PROMPTS, TASK) == together


def test_sampling_settings_of_a_model_are_ignored(tiny):
    model = tiny()
    plain = generate_texts(model, PROMPTS, TASK)
    model.model.generation_config.update(do_sample=True, temperature=5.0, top_k=3, repetition_penalty=1.9, num_beams=3)
    assert generate_texts(model, PROMPTS, TASK) == plain


def test_generation_ends_at_a_stop_string(tiny):
    model = tiny()
    text = generate_texts(model, PROMPTS[:1], TASK)[0]
    stop = text[4:6]
    cut = generate_texts(model, PROMPTS, Generate("{question}", "(.)", max_tokens=12, stop=(stop, "never there")))
    assert cut[0] == text[: text.index(stop)]
    assert stop not in "".join(cut)


def test_progress_counts_every_prompt(tiny, monkeypatch):
    monkeypatch.setattr(generation, "tokens_per_batch", lambda device: 4)
    reported = []
    generate_texts(tiny(), PROMPTS, TASK, reported.append)
    assert sum(reported) == len(PROMPTS)
    assert len(reported) > 1


class Set:
    name = "g"
    task = Generate("{question}", r"\A\s*(\S)", "exact", max_tokens=5)
    frame = pl.DataFrame(
        {"item": ["g-0", "g-1"], "testset": "g", "label": ["x", "y"], "question": ["The cat", "A man"]}
    )


def test_a_split_model_generates_with_all_layers(tiny):
    model = tiny()
    split = SplitModel(model.model, 1)
    batch = make_batch(PROMPTS, [0, 1], "cpu")
    batch.states = split.frozen_states(batch)
    split.hidden_states(batch)
    testset = encode_testset(model, Set(), context=64)
    assert testset.requests is None
    results = evaluate_model(model, split, [testset])
    expected = [
        model.tokenizer.decode(greedy_token_by_token(tiny().model, prompt, 5), skip_special_tokens=True)
        for prompt in testset.prompts
    ]
    assert results["answer"].to_list() == expected
    assert results["margin"].to_list() == [None, None]


def test_prompts_leave_space_for_what_is_generated(tiny):
    model = tiny("opt")  # it has 512 positions, and none beyond

    class Long(Set):
        task = Generate("{question}", "(.)", max_tokens=100, shorten="question")
        frame = Set.frame.with_columns(question=pl.lit("cat " * 3000))

    testset = encode_testset(model, Long(), context=4096)
    assert testset.shortened == 2
    assert testset.notes == ["g: 2 of 2 prompts were too long; their question was shortened"]
    assert max(map(len, testset.prompts)) <= 412
    assert evaluate_model(model, SplitModel(model.model), [testset]).height == 2
