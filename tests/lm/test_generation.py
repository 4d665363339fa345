import signal
import threading

import polars as pl
import pytest
import torch

from breadth.datasets.tasks import Generate, extract
from breadth.errors import InputError
from breadth.lm.batches import make_batch
from breadth.lm.body import Body
from breadth.lm.examination import examine, prepare
from breadth.lm.generation import generate_texts, generation_results, same_answer

TASK = Generate("{question}", r"(\S+)", "exact", most_tokens=12)
PROMPTS = [[5, 6, 7], list(range(20, 50)), [100, 101, 102, 103, 104, 105], [200] * 11]


def greedy_by_hand(model, prompt, tokens):
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
def test_padding_in_front_changes_nothing(tiny, family):
    model = tiny(family)
    together = generate_texts(model, PROMPTS, TASK, 10_000)
    alone = [generate_texts(model, [prompt], TASK, 10_000)[0] for prompt in PROMPTS]
    by_hand = [model.tokenizer.decode(greedy_by_hand(model.model, p, 12), skip_special_tokens=True) for p in PROMPTS]
    assert together == alone == by_hand
    assert len(set(together)) > 1
    # As many batches as prompts: the budget of tokens decides, not the results.
    assert generate_texts(model, PROMPTS, TASK, 1) == together


def test_recommended_sampling_is_not_used(tiny):
    model = tiny()
    plain = generate_texts(model, PROMPTS, TASK, 10_000)
    model.model.generation_config.update(do_sample=True, temperature=5.0, top_k=3, repetition_penalty=1.9, num_beams=3)
    assert generate_texts(model, PROMPTS, TASK, 10_000) == plain


def test_writing_ends_at_a_stop(tiny):
    model = tiny()
    text = generate_texts(model, PROMPTS[:1], TASK, 10_000)[0]
    stop = text[4:6]
    cut = generate_texts(model, PROMPTS, Generate("{question}", "(.)", most_tokens=12, stop=(stop, "never there")), 999)
    assert cut[0] == text[: text.index(stop)]
    assert stop not in "".join(cut)


def test_progress_counts_every_prompt(tiny):
    told = []
    generate_texts(tiny(), PROMPTS, TASK, 30, told.append)
    assert sum(told) == len(PROMPTS)
    assert len(told) > 1


class Set:
    name = "g"
    task = Generate("{question}", r"\A\s*(\S)", "exact", most_tokens=5)
    frame = pl.DataFrame(
        {"item": ["g-0", "g-1"], "testset": "g", "label": ["x", "y"], "question": ["The cat", "A man"]}
    )


def test_a_cut_body_writes_with_the_whole_model(tiny):
    model = tiny()
    body = Body(model.model, 1)
    batch = make_batch(PROMPTS, [0, 1], "cpu")
    batch.states = body.trunk(batch)
    body.features(batch)
    paper = prepare(model, Set(), context=64)
    assert paper.query is None
    found = examine(model, body, [paper])
    expected = [
        model.tokenizer.decode(greedy_by_hand(tiny().model, prompt, 5), skip_special_tokens=True)
        for prompt in paper.prompts
    ]
    assert found["answer"].to_list() == expected
    assert found["margin"].to_list() == [None, None]


def test_prompts_leave_room_for_what_is_written(tiny):
    model = tiny("opt")  # it has 512 positions, and none beyond

    class Long(Set):
        task = Generate("{question}", "(.)", most_tokens=100, shorten="question")
        frame = Set.frame.with_columns(question=pl.lit("cat " * 3000))

    paper = prepare(model, Long(), context=4096)
    assert paper.shortened == 2
    assert paper.notes == ["g: 2 of 2 prompts were too long; their question was cut"]
    assert max(map(len, paper.prompts)) <= 412
    assert examine(model, Body(model.model), [paper]).height == 2


def test_extraction():
    assert extract(r"####\s*(\S+)", "#### 1 then #### 2") == "2"
    assert extract(r"####\s*(\S+)", "no such thing") is None
    assert extract("b", "abc") == "b"
    assert extract(r"(maybe)|(no)", "yes or no") == "no"
    with pytest.raises(InputError, match=r"extract '\(': is no regular expression"):
        extract("(", "x")


@pytest.mark.parametrize(
    ("given", "wanted", "same"),
    [
        ("1,200.0", "1200", True),
        ("$5", "5", True),
        ("-$5.50", "-5.5", True),
        ("it is 7.", "7", True),
        ("10-3", "3", True),
        ("-3", "3", False),
        ("none", "3", False),
        ("3", "none", False),
        ("0.1", "0.10", True),
        ("9007199254740993", "9007199254740992", False),
        (None, "3", False),
    ],
)
def test_numbers(given, wanted, same):
    assert same_answer(given, wanted, "number") is same


def test_texts():
    assert same_answer(" New  York.", "new york", "exact")
    assert not same_answer("York", "New York", "exact")


@pytest.mark.parametrize(
    ("given", "wanted", "same"),
    [
        (r"\frac{1}{2}", "0.5", True),
        (r"x^2+2x+1", r"(x+1)^2", True),
        (r"\frac12", r"\frac13", False),
        (r"\boxed{3}", "3", True),
        ("$5$", "5", True),
        (r"\frac{", "5", False),
        ("", "5", False),
        ("a word", "5", False),
    ],
)
def test_formulas(given, wanted, same):
    assert same_answer(given, wanted, "math") is same


def test_formulas_in_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(same_answer(r"\frac{2}{4}", r"\frac{1}{2}", "math")))
    thread.start()
    thread.join(30)
    assert found == [True]


def test_a_formula_that_would_take_for_ever(monkeypatch):
    from breadth.lm import generation

    monkeypatch.setattr(generation, "MATH_SECONDS", 1)
    before = signal.getsignal(signal.SIGALRM)
    assert not same_answer(r"9^{9^{9^{9^{9}}}} - 1", r"7^{8^{9^{9^{9}}}}", "math")
    assert signal.getsignal(signal.SIGALRM) is before


def test_results():
    items = pl.DataFrame({"label": ["4", "5"]})
    found = generation_results(Generate("", r"(\d+)", "number"), items, ["so 4", "so 6"])
    assert found["correct"].to_list() == [1, 0]
    assert found["answer"].to_list() == ["so 4", "so 6"]
    assert found.schema == {"correct": pl.Float32, "margin": pl.Float32, "answer": pl.String}
