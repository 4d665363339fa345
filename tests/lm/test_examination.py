import math

import polars as pl
import pytest
import torch

from breadth.datasets.tasks import Choice, Generate, Pattern
from breadth.errors import InputError
from breadth.lm.adapters import attach_lora
from breadth.lm.body import Body
from breadth.lm.examination import examine, keep_trunk, prepare
from breadth.lm.loading import load_model

TEXTS = [f"The {word} is in the park {'and in the tree ' * i}" for i, word in enumerate(["cat", "man", "bird"] * 5)]
SHORT = Pattern("{text} Yes or No?", (("yes", " Yes"), ("no", " No")), "text")
WHOLE = Pattern("{text} Who?", (("yes", " Nobody here"), ("no", " three"), ("maybe", " the cat")), "text")


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
        Set("written", Generate("{text}", "(.)", most_tokens=3)),
    ]


@pytest.mark.parametrize("family", ["llama", "opt", "olmo2", "gemma3"])
def test_the_same_answers_with_and_without_kept_states(tiny, family):
    model = tiny(family)
    body = Body(attach_lora(model.model, layers=2), 2)
    papers = [prepare(model, testset, context=256) for testset in every_kind()]
    plain = examine(model, body, papers)
    keep_trunk(body, papers)
    assert all(batch.states is not None for paper in papers for batch in paper.batches)
    kept = examine(model, body, papers)
    assert kept.drop("margin").equals(plain.drop("margin"))
    assert (kept["margin"] - plain["margin"]).abs().max() < 1e-4
    assert plain.columns == ["testset", "item", "correct", "margin", "answer"]
    assert plain["item"].to_list() == [item for testset in every_kind() for item in testset.frame["item"]]
    assert set(plain.filter(testset="written")["margin"]) == {None}


def test_progress_counts_every_item_once(tiny):
    model = tiny()
    told = []
    examine(model, Body(model.model), [prepare(model, t, context=256) for t in every_kind()], told.append)
    assert sum(told) == 4 * len(TEXTS)
    assert min(told) >= 0


def test_states_are_computed_once(tiny):
    model = tiny()
    body = Body(model.model, 2)
    papers = [prepare(model, Set("short", SHORT), context=256)]
    told = []
    keep_trunk(body, papers, told.append)
    before = [batch.states for batch in papers[0].batches]
    keep_trunk(body, papers, told.append)
    assert all(first is batch.states for first, batch in zip(before, papers[0].batches, strict=True))
    assert sum(told) == 2 * len(TEXTS)
    assert papers[0].tokens == sum(batch.states.shape[:2].numel() for batch in papers[0].batches)


def test_dropout_is_off(tiny):
    model = tiny()
    body = Body(attach_lora(model.model, layers=2, dropout=0.9), 2)
    with torch.no_grad():
        for name, weight in body.model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.1)
    papers = [prepare(model, Set("short", SHORT), context=256)]
    first = examine(model, body, papers)
    body.model.train()
    assert examine(model, body, papers).equals(first)


def test_prompts_fit_the_positions_of_the_model(tiny):
    model = tiny("opt")  # it has 512 positions
    paper = prepare(model, Set("short", SHORT, text=pl.lit("cat " * 2000)), context=100_000)
    assert paper.shortened == len(TEXTS)
    assert max(map(len, paper.prompts)) <= 512
    assert examine(model, Body(model.model), [paper]).height == len(TEXTS)
    assert paper.notes == ["short: 15 of 15 prompts were too long; their text was cut"]


def test_notes_on_answers(tiny):
    alike = Pattern("{text}", (("yes", " Noxy"), ("no", " Nozz")))
    assert prepare(tiny(), Set("s", alike), context=256).notes[0].startswith("s: answers ' Noxy', ' Nozz' begin")


def test_a_model_that_computes_nonsense(tiny):
    model = tiny()
    paper = prepare(model, Set("short", SHORT), context=256)
    with torch.no_grad():
        model.model.model.norm.weight.fill_(math.nan)
    with pytest.raises(InputError, match=r"short: the model's answers are no numbers .* recipe\.dtype float32"):
        examine(model, Body(model.model), [paper])


def test_a_real_model_answers_the_same_through_its_top(smollm2):
    model = load_model(str(smollm2), dtype="float32", device="cpu")
    body = Body(model.model, 4)
    paper = prepare(model, Set("short", SHORT), context=256)
    assert body.agrees(paper.prompts[3])
    assert body._narrow.works
    keep_trunk(body, [paper])
    found = examine(model, body, [paper])
    yes, no = (model.encode(words)[0] for words in (" Yes", " No"))
    for row, prompt in enumerate(paper.prompts[:6]):
        with torch.inference_mode():
            logits = model.model(input_ids=torch.tensor([prompt])).logits[0, -1]
        odds = float(logits[yes] - logits[no]) * (1 if row % 2 == 0 else -1)
        assert found["margin"][row] == pytest.approx(odds, abs=1e-3)
        assert found["correct"][row] == (odds > 0)
