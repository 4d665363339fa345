import math

import polars as pl
import pytest
import torch

from breadth.datasets import Choice, Generate, Pattern
from breadth.errors import InputError
from breadth.lm.evaluation import compute_outputs, encode_testset, evaluate_model, keep_frozen_states, score_outputs
from breadth.lm.layers import attach_lora
from breadth.lm.loading import load_model
from breadth.lm.split_model import SplitModel

TEXTS = [f"The {word} is in the park {'and in the tree ' * i}" for i, word in enumerate(["cat", "man", "bird"] * 5)]
SHORT = Pattern("{text} Yes or No?", (("yes", " Yes"), ("no", " No")), shorten="text")
WHOLE = Pattern("{text} Who?", (("yes", " Nobody here"), ("no", " three"), ("maybe", " the cat")), shorten="text")


class Set:
    def __init__(self, name, task, **columns):
        n = len(TEXTS)
        self.name, self.task = name, task
        labels = [("yes", "no")[i % 2] for i in range(n)]
        items = {"item": [f"{name}-{i:02d}" for i in range(n)], "testset": name, "text": TEXTS, "label": labels}
        self.frame = pl.DataFrame(items).with_columns(**columns)


def every_kind():
    options = {"options": pl.lit(["one", "two cats"]), "option_labels": pl.lit(["yes", "no"])}
    return [
        Set("short", SHORT),
        Set("whole", WHOLE),
        Set("choice", Choice("{text}"), **options),
        Set("written", Generate("{text}", "(.)", max_tokens=3)),
    ]


@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
def test_the_same_answers_with_and_without_kept_states(tiny, family):
    model = tiny(family)
    split = SplitModel(attach_lora(model.model, layers=2), 2)
    testsets = [encode_testset(model, testset, context=256) for testset in every_kind()]
    plain = evaluate_model(model, split, testsets)
    keep_frozen_states(split, testsets)
    assert all(batch.states is not None for testset in testsets for batch in testset.batches)
    kept = evaluate_model(model, split, testsets)
    assert kept.drop("margin").equals(plain.drop("margin"))
    assert (kept["margin"] - plain["margin"]).abs().max() < 1e-4
    assert plain.columns == ["testset", "item", "correct", "margin", "answer"]
    assert plain["item"].to_list() == [item for testset in every_kind() for item in testset.frame["item"]]
    assert set(plain.filter(testset="written")["margin"]) == {None}


@pytest.mark.parametrize("of", [1, 2, 3, 50])
def test_parts_give_the_answers_of_the_whole_to_the_last_bit(tiny, monkeypatch, of):
    """Batches are the same, whoever computes them in whatever order, with states kept or not."""
    monkeypatch.setattr("breadth.lm.evaluation.tokens_per_batch", lambda device: 24)
    monkeypatch.setattr("breadth.lm.generation.tokens_per_batch", lambda device: 4)
    model = tiny()
    split = SplitModel(attach_lora(model.model, layers=2), 2)
    testsets = [encode_testset(model, testset, context=256) for testset in every_kind()]
    whole = evaluate_model(model, split, testsets)
    frames = []
    for testset in testsets:
        ranges = [testset.part(k, of) for k in range(of)]
        assert [k for each in ranges for k in each] == list(range(len(testset.batches) or len(testset.written)))
        parts = [compute_outputs(model, split, [(testset, each)])[0] for each in reversed(ranges)]
        frames.append(score_outputs(testset, parts))
    assert pl.concat(frames).equals(whole)


def test_progress_counts_every_item_once(tiny):
    model = tiny()
    reported = []
    evaluate_model(
        model, SplitModel(model.model), [encode_testset(model, t, context=256) for t in every_kind()], reported.append
    )
    assert sum(reported) == 4 * len(TEXTS)
    assert min(reported) >= 0


def test_states_are_computed_once(tiny):
    model = tiny()
    split = SplitModel(model.model, 2)
    testsets = [encode_testset(model, Set("short", SHORT), context=256)]
    reported = []
    keep_frozen_states(split, testsets, reported.append)
    before = [batch.states for batch in testsets[0].batches]
    keep_frozen_states(split, testsets, reported.append)
    assert all(first is batch.states for first, batch in zip(before, testsets[0].batches, strict=True))
    assert sum(reported) == 2 * len(TEXTS)
    assert testsets[0].tokens == sum(batch.states.shape[:2].numel() for batch in testsets[0].batches)


def test_dropout_is_off(tiny):
    model = tiny()
    split = SplitModel(attach_lora(model.model, layers=2, dropout=0.9), 2)
    with torch.no_grad():
        for name, weight in split.model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.1)
    testsets = [encode_testset(model, Set("short", SHORT), context=256)]
    first = evaluate_model(model, split, testsets)
    split.model.train()
    assert evaluate_model(model, split, testsets).equals(first)


def test_prompts_fit_the_positions_of_the_model(tiny):
    model = tiny("opt")  # it has 512 positions
    testset = encode_testset(model, Set("short", SHORT, text=pl.lit("cat " * 2000)), context=100_000)
    assert testset.shortened == len(TEXTS)
    assert max(map(len, testset.prompts)) <= 512
    assert evaluate_model(model, SplitModel(model.model), [testset]).height == len(TEXTS)
    assert testset.notes == ["short: 15 of 15 prompts were too long; their text was shortened"]


def test_notes_on_answers(tiny):
    alike = Pattern("{text}", (("yes", " Noxy"), ("no", " Nozz")))
    assert encode_testset(tiny(), Set("s", alike), context=256).notes[0].startswith("s: answers ' Noxy', ' Nozz' begin")


def test_a_model_whose_outputs_are_not_numbers(tiny):
    model = tiny()
    testset = encode_testset(model, Set("short", SHORT), context=256)
    with torch.no_grad():
        model.model.model.norm.weight.fill_(math.nan)
    with pytest.raises(
        InputError, match=r"short: the model's outputs are infinite or not numbers; use float32 \(recipe\.dtype\)"
    ):
        evaluate_model(model, SplitModel(model.model), [testset])


def test_a_real_model_gives_the_same_results_through_its_top(smollm2):
    model = load_model(str(smollm2), dtype="float32", device="cpu")
    split = SplitModel(model.model, 4)
    testset = encode_testset(model, Set("short", SHORT), context=256)
    assert split.agrees(testset.prompts[3])
    assert split._last_block.supported
    keep_frozen_states(split, [testset])
    results = evaluate_model(model, split, [testset])
    yes, no = (model.encode(words)[0] for words in (" Yes", " No"))
    for row, prompt in enumerate(testset.prompts[:6]):
        with torch.inference_mode():
            logits = model.model(input_ids=torch.tensor([prompt])).logits[0, -1]
        odds = float(logits[yes] - logits[no]) * (1 if row % 2 == 0 else -1)
        assert results["margin"][row] == pytest.approx(odds, abs=1e-3)
        assert results["correct"][row] == (odds > 0)
