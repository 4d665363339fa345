import polars as pl
import pytest
import torch

from breadth.datasets import Choice, Generate, Pattern
from breadth.errors import InputError
from breadth.lm import train_set as module
from breadth.lm.layers import unfreeze
from breadth.lm.split_model import SplitModel
from breadth.lm.train_set import encode_train_set

SHORT = (("yes", " Yes"), ("no", " No"))
LONG = (("yes", " Yes"), ("no", " Nobody at all"), ("maybe", " three"))
TEXTS = ["The cat sat.", "A man plays the guitar in the park and three birds left.", "Two women", "Seven birds were"]


class Examples:
    def __init__(self, task, **columns):
        self.name, self.task = "e", task
        n = len(columns["label"])
        self.frame = pl.DataFrame({"item": [f"e-{i}" for i in range(n)], "testset": "e", **columns})


def pattern(answers):
    labels = [answers[i % len(answers)][0] for i in range(len(TEXTS))]
    return Examples(Pattern("{text} Right?", answers), text=TEXTS, label=labels)


def choice():
    options = [["mat", "the park"], ["one", "two", "three"], ["x", "y z"], ["cat", "dog", "bird", "man"]]
    labels = [list("ABCD"[: len(own)]) for own in options]
    task = Choice("{text}")
    return Examples(task, text=TEXTS, options=options, option_labels=labels, label=["B", "A", "B", "D"])


def generate():
    return Examples(Generate("{text} Answer:", "(.*)"), text=TEXTS, label=["4", "three birds", "A", "x"])


def chances(model, prompt, ending):
    """Log-probability of every token of an ending after a prompt, by the plain model."""
    logits = model.model(input_ids=torch.tensor([[*prompt, *ending]])).logits[0].log_softmax(-1)
    return torch.stack([logits[len(prompt) - 1 + k, token] for k, token in enumerate(ending)])


def encoded(model, text):
    return model.tokenizer(text, add_special_tokens=False)["input_ids"]


def naive(model, examples, loss):
    """Sum of the loss over all examples, one forward pass per answer; and what it is divided by."""
    total, weight = torch.zeros(()), 0
    for row in examples.frame.iter_rows(named=True):
        task = examples.task
        prompt = model.encode(task.template.format(text=row["text"]))
        if isinstance(task, Pattern):
            endings, right = [words for _, words in task.answers], task.labels.index(row["label"])
        elif isinstance(task, Choice):
            endings, right = [f" {text}" for text in row["options"]], row["option_labels"].index(row["label"])
        else:
            endings, right = [f" {row['label']}"], 0
        tokens = [encoded(model, text) for text in endings]
        if isinstance(task, Generate):
            tokens[0].append(model.tokenizer.eos_token_id)
        each = [chances(model, prompt, ending) for ending in tokens]
        if loss == "completion":
            total, weight = total - each[right].sum(), weight + len(each[right])
        else:
            total, weight = total - torch.stack([one.sum() for one in each]).log_softmax(0)[right], weight + 1
    return total, weight


CASES = {
    "answers": (lambda: pattern(SHORT), "answers"),
    "whole answers": (lambda: pattern(LONG), "answers"),
    "completion": (lambda: pattern(LONG), "completion"),
    "choice": (choice, "answers"),
    "choice completion": (choice, "completion"),
    "generate": (generate, "completion"),
}


@pytest.mark.parametrize("family", ["llama", "opt", "gemma3"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kept", [False, True], ids=["plain", "kept states"])
def test_loss_and_gradient_are_those_of_a_naive_computation(tiny, family, case, kept):
    model, (make, loss) = tiny(family), CASES[case]
    unfreeze(model.model, 2)
    weights = [weight for weight in model.model.parameters() if weight.requires_grad]
    examples = make()
    expected, weight = naive(model, examples, loss)
    (expected / weight).backward()
    wanted = [w.grad.clone() for w in weights]
    split = SplitModel(model.model, 2)
    train_set = encode_train_set(model, examples, loss, context=128)
    assert len(train_set) == 4
    if kept:
        train_set.keep_frozen_states(split)
    everything = [0, 1, 2, 3]
    assert train_set.loss_weight(everything) == weight
    # In one piece, example by example, and in uneven parts: the gradients add up to the same.
    for parts in ([everything], [[2], [0], [3], [1]], [[3, 0, 1], [2]]):
        model.model.zero_grad(set_to_none=True)
        losses = []
        for part in parts:
            one = train_set.summed_loss(split, part) / train_set.loss_weight(everything)
            one.backward()
            losses.append(float(one.detach()))
        assert sum(losses) == pytest.approx(float((expected / weight).detach()), abs=1e-4)
        for own, right in zip(weights, wanted, strict=True):
            assert torch.allclose(own.grad, right, atol=2e-4, rtol=1e-3)


def test_micro_batches_are_limited_by_tokens_and_by_the_recipe(tiny, monkeypatch):
    train_set = encode_train_set(tiny(), pattern(LONG), "answers", context=128)
    assert [len(own) for own in train_set.owned] == [3] * 4
    monkeypatch.setattr(module, "tokens_per_batch", lambda device: 1)
    assert sorted(train_set.micro_batches([0, 1, 2, 3], None)) == [[0], [1], [2], [3]]
    monkeypatch.setattr(module, "tokens_per_batch", lambda device: 10**6)
    assert [sorted(part) for part in train_set.micro_batches([0, 1, 2, 3], None)] == [[0, 1, 2, 3]]
    halves = train_set.micro_batches([0, 1, 2, 3], 2)
    assert [len(part) for part in halves] == [2, 2]
    assert sorted(i for part in halves for i in part) == [0, 1, 2, 3]
    assert train_set.micro_batches([1, 1], None) == [[1, 1]]


def test_tokens_are_counted(tiny):
    train_set = encode_train_set(tiny(), pattern(SHORT), "answers", context=128)
    assert train_set.tokens == sum(len(tiny().encode(f"{text} Right?")) for text in TEXTS)


def test_generation_has_no_answers_to_compare(tiny):
    with pytest.raises(InputError, match="e: kind generate has no answers to compare; use loss: completion"):
        encode_train_set(tiny(), generate(), "answers", context=128)


def test_a_long_completion_shortens_its_own_prompt_only(tiny):
    task = Generate("{text} Answer:", "(.*)", shorten="text")
    examples = Examples(task, text=["cat " * 100] * 2, label=["4", "7 " * 40])
    train_set = encode_train_set(tiny(), examples, "completion", context=128)
    sizes = [len(sequence) + 1 for sequence in train_set.requests.sequences]
    assert all(100 < size <= 128 for size in sizes)
    with pytest.raises(InputError, match=r"item 'e-1': its prompt has .* even without its text"):
        encode_train_set(tiny(), Examples(task, text=["cat"] * 2, label=["4", "7 " * 100]), "completion", context=128)
