"""Every family of the published studies loads, answers and trains; and its tokenizer is of its own kind."""

import polars as pl
import pytest
import torch

from breadth.datasets import Choice, Pattern
from breadth.lm.evaluation import encode_testset, evaluate_model
from breadth.lm.layers import attach_lora
from breadth.lm.loading import load_model
from breadth.lm.split_model import SplitModel
from breadth.lm.train_set import encode_train_set
from breadth.lm.training import Trainer
from breadth.study import Recipe

from ..families import CHATTING, FAMILIES, QWEN_SYSTEM, write_family

ASKED = [{"role": "user", "content": " Is it true? "}]


class Examples:
    """Sentences that are true or not."""

    name = "e"
    task = Pattern("The {text} is here. Yes or No?", (("yes", " Yes"), ("no", " No")))
    frame = pl.DataFrame(
        {
            "item": [f"e-{i}" for i in range(8)],
            "testset": "e",
            "text": ["cat", "man", "guitar", "mat", "cat on the mat", "man on the mat", "Größe", "12345"],
            "label": ["yes", "no"] * 4,
        }
    )


class Choices:
    """A question with texts to choose from."""

    name = "c"
    task = Choice("Which of these is true? {text} Answer:")
    frame = pl.DataFrame(
        {
            "item": [f"c-{i}" for i in range(4)],
            "testset": "c",
            "text": ["cat", "man", "guitar", "mat"],
            "options": [["the cat", "the man", "nobody"]] * 4,
            "option_labels": [["A", "B", "C"]] * 4,
            "label": ["A", "B", "C", "A"],
        }
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One directory per family."""
    return {family: write_family(tmp_path_factory.mktemp("family") / family, family) for family in FAMILIES}


@pytest.fixture
def family(request, folders):
    return load_model(str(folders[request.param]), device="cpu")


def answers(model):
    encoded = [encode_testset(model, each, context=128) for each in (Examples, Choices)]
    return evaluate_model(model, SplitModel(model.model), encoded)


every_family = pytest.mark.parametrize("family", FAMILIES, indirect=True)


@every_family
def test_a_family_answers(family):
    rows = answers(family)
    assert rows.group_by("testset").len().sort("testset")["len"].to_list() == [4, 8]
    assert rows.select(pl.col("margin").is_finite().all()).item()
    assert rows["margin"].n_unique() > 4


@pytest.mark.parametrize("name", FAMILIES)
def test_a_step_of_lora_changes_the_attention_alone(name, folders):
    model = load_model(str(folders[name]), device="cpu")
    before = answers(model)
    adapted = attach_lora(model.model, rank=4, targets="attention", seed=0)
    recipe = Recipe(lr=1e-2, batch=4, steps=1)
    train_set = encode_train_set(model, Examples, recipe.loss, context=128)
    trainer = Trainer(SplitModel(adapted), train_set, recipe, 0, 1)
    assert trainer.weights
    assert all("attn" in weight or "attention" in weight for weight in trainer.weights)
    assert 0 < trainer.advance() < 10
    after = answers(model)
    assert not after["margin"].equals(before["margin"])


def test_pickled_weights_give_the_answers_of_safetensors(folders, tmp_path, monkeypatch):
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path / "cache"))
    folder = write_family(tmp_path / "opt", "opt", pickled=True)
    pickled = load_model(str(folder), device="cpu", weights="bin")
    assert answers(pickled).equals(answers(load_model(str(folders["opt"]), device="cpu")))


@every_family
def test_answers_are_single_tokens(family):
    def tokens(text):
        return len(family.tokenizer(text, add_special_tokens=False)["input_ids"])

    assert [tokens(text) for text in (" Yes", " No")] == [1, 1]
    assert {tokens(letter) for letter in "ABCDEFGHIJ"} == {1}
    assert {tokens(f" {letter}") for letter in "ABCDEFGHIJ"} == {1}


@every_family
@pytest.mark.parametrize("text", ["The cat: Größe 12345 \n\n  x 漢字", "<0x41> A"])
def test_any_text_survives_its_tokens(family, text):
    ids = family.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert family.tokenizer.decode(ids) == text
    assert family.tokenizer.unk_token_id is None or "<unk>" not in family.tokenizer.convert_ids_to_tokens(ids)


def test_what_a_tokenizer_puts_in_front(folders):
    models = {name: load_model(str(folder), device="cpu") for name, folder in folders.items()}
    first = {name: model.tokenizer.convert_ids_to_tokens(model.encode("The cat"))[0] for name, model in models.items()}
    bos = {name: token for name, token in first.items() if models[name].bos}
    assert bos == {
        "opt": "</s>",
        "smollm3": "<|begin_of_text|>",
        "llama3": "<|begin_of_text|>",
        "gemma3": "<bos>",
    }


CHATS = {
    "olmo2": "<|endoftext|><|user|>\n Is it true? \n<|assistant|>\n",
    "smollm3": "<|im_start|>user\n Is it true? <|im_end|>\n<|im_start|>assistant\n",
    "llama3": "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nIs it true?<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "qwen2.5": f"<|im_start|>system\n{QWEN_SYSTEM}<|im_end|>\n"
    "<|im_start|>user\n Is it true? <|im_end|>\n<|im_start|>assistant\n",
    "qwen3": "<|im_start|>user\n Is it true? <|im_end|>\n<|im_start|>assistant\n",
    "gemma3": "<bos><start_of_turn>user\nIs it true?<end_of_turn>\n<start_of_turn>model\n",
}


def chat(model, messages):
    return model.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


@pytest.mark.parametrize(("family", "text"), CHATS.items(), ids=CHATS, indirect=["family"])
def test_what_a_chat_template_writes(family, text):
    assert chat(family, ASKED) == text
    ids = family.tokenizer(text, add_special_tokens=False)["input_ids"]
    special = [token for token in family.tokenizer.convert_ids_to_tokens(ids) if token.startswith("<")]
    assert len(special) >= 3  # they are tokens, not spelt out
    assert family.tokenizer.decode(ids) == text


def test_families_without_a_chat_template(folders):
    assert set(FAMILIES) - set(CHATTING) == {"opt", "pythia"}
    assert set(CHATTING) == set(CHATS)
    for name in ("opt", "pythia"):
        assert load_model(str(folders[name]), device="cpu").tokenizer.chat_template is None


def test_a_system_prompt(folders):
    asked = [{"role": "system", "content": "Be brief."}, *ASKED]
    texts = {}
    for name in set(CHATTING) - {"gemma3"}:
        texts[name] = chat(load_model(str(folders[name]), device="cpu"), asked)
        assert texts[name].count("Be brief.") == 1
    assert QWEN_SYSTEM not in texts["qwen2.5"]
    with pytest.raises(Exception, match="System role not supported"):
        chat(load_model(str(folders["gemma3"]), device="cpu"), asked)


def test_weights_depend_on_the_seed_alone(tmp_path):
    def written(name, seed):
        torch.rand(3)
        folder = write_family(tmp_path / name, "qwen3", seed=seed)
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    first = written("a", 0)
    assert written("b", 0) == first
    assert written("c", 1)["model.safetensors"] != first["model.safetensors"]
