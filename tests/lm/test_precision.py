"""Training and evaluation in bfloat16: trained weights are float32, answers are compared in float32."""

import threading
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from breadth.errors import InputError
from breadth.lm.batches import make_batch
from breadth.lm.layers import attach_lora, decoder_layers, trainable, unfreeze
from breadth.lm.loading import LanguageModel, load_model
from breadth.lm.precision import computing_in, prepare_training
from breadth.lm.scoring import Continuations, NextToken
from breadth.lm.split_model import SplitModel
from breadth.lm.train_set import encode_train_set
from breadth.lm.training import Trainer, derived_seed
from breadth.study import Recipe

from .test_split_model import CONFIGS, branching, make_model, sequences, stir, tree_batches, with_kept_states
from .test_training import Examples, same, weights_of

HALF = torch.bfloat16


def loaded_as(model, dtype="bfloat16"):
    """A language model without a tokenizer."""
    return LanguageModel("m", model, None, "cpu", dtype, bos=False, notes=())


def prepared(name, method, layers, dtype="bfloat16"):
    """A model of a family as a run prepares it for training, and its split."""
    model = make_model(name)
    if method == "lora" or layers != "all":
        model = model.to(HALF)
    if method == "lora":
        model = stir(attach_lora(model, layers=layers, targets="all"))
    else:
        unfreeze(model, layers)
    loaded = prepare_training(loaded_as(model.eval(), dtype))
    return loaded, SplitModel(loaded.model, None if layers == "all" else layers, compute=loaded.compute)


def start(folder, *, dtype="bfloat16", seed=3, keep=True, steps=6, **keys):
    """A trainer on a newly loaded model, as a run makes it."""
    recipe = Recipe(**{"lr": 1e-2, "batch": 4, "layers": 2, "steps": steps, "dropout": 0.2, "dtype": dtype, **keys})
    train_all = recipe.method == "full" and recipe.layers == "all"
    loaded = load_model(str(folder), dtype=dtype, device="cpu", train_all=train_all)
    if recipe.method == "lora":
        model = attach_lora(loaded.model, rank=4, dropout=0.2, layers=recipe.layers, seed=derived_seed(seed, 2))
        loaded = replace(loaded, model=model)
    else:
        unfreeze(loaded.model, recipe.layers)
    loaded = prepare_training(loaded)
    split = SplitModel(loaded.model, recipe.layers if keep and recipe.layers != "all" else None, compute=loaded.compute)
    train_set = encode_train_set(loaded, Examples(), recipe.loss, context=128)
    if split.is_split:
        train_set.keep_frozen_states(split)
    return Trainer(split, train_set, recipe, seed, steps)


SETTINGS = {
    "lora": {},
    "lora, nothing kept": {"keep": False},
    "full": {"method": "full"},
    "full, all layers": {"method": "full", "layers": "all"},
    "full, completion": {"method": "full", "layers": "all", "loss": "completion", "micro_batch": 2},
}


@pytest.mark.parametrize("keys", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("family", ["llama", "opt"])
def test_what_is_trained_is_float32_and_resumes_bit_by_bit(tiny_folders, family, keys):
    whole = start(tiny_folders[family], **keys)
    assert {weight.dtype for weight in whole.weights.values()} == {torch.float32}
    losses = [whole.advance() for _ in range(5)]
    state = whole.state()
    assert {value.dtype for name, value in state.items() if name != "step"} == {torch.float32}
    frozen = {weight.dtype for weight in whole.model.model.parameters() if not weight.requires_grad}
    assert frozen == (set() if keys.get("layers") == "all" else {HALF})
    before = start(tiny_folders[family], **keys)
    assert [before.advance() for _ in range(2)] == losses[:2]
    after = start(tiny_folders[family], **keys)
    after.restore(load(save(before.state())))
    assert [after.advance() for _ in range(3)] == losses[2:]
    assert same(weights_of(after), weights_of(whole))
    assert all(torch.equal(after.state()[name], value) for name, value in state.items())


@pytest.mark.parametrize("dtype", ["bfloat16", "pure-bfloat16"])
def test_small_updates_are_kept_unless_asked_for_by_name(tiny_folders, dtype):
    """Adam moves every weight by the learning rate, here a millionth of a typical weight."""
    keys = {"method": "full", "layers": "all", "loss": "completion", "lr": 2e-7}
    trainer = start(tiny_folders["llama"], dtype=dtype, **keys)
    before = weights_of(trainer)
    for _ in range(3):
        trainer.advance()
    weights = [name for name in before if name.endswith("up_proj.weight")]
    moved = torch.cat([(trainer.weights[name] != before[name]).flatten() for name in weights])
    share = float(moved.float().mean())
    if dtype == "bfloat16":
        assert share > 0.9
    else:
        assert trainer.weights[weights[0]].dtype is HALF
        assert share < 0.05


@pytest.mark.parametrize(("method", "layers"), [("full", "all"), ("full", 2), ("lora", "all"), ("lora", 2)], ids=str)
@pytest.mark.parametrize("name", CONFIGS)
def test_every_architecture_trains_and_evaluates(name, method, layers):
    loaded, split = prepared(name, method, layers)
    model, texts = loaded.model, sequences()
    assert split.agrees(texts[3])
    requests = NextToken(texts, [5, 9, 77])
    with torch.inference_mode(), computing_in(HALF, "cpu"):
        own = torch.stack([model(input_ids=torch.tensor([ids])).logits[0, -1, [5, 9, 77]] for ids in texts]).float()
    batch = make_batch(texts, list(range(7)), "cpu")
    with torch.inference_mode():
        plain = requests.forward(split, batch)
    scale = 1 + own.abs().max()
    assert (plain - own).abs().max() < 0.05 * scale
    if split.is_split:
        kept = with_kept_states(split, texts)
        assert split.frozen_bytes(kept.ids.numel()) == kept.states.nbytes
        with torch.inference_mode():
            assert torch.equal(requests.forward(split, kept), plain)
        batch = kept
    outputs = requests.forward(split, batch)
    outputs.logsumexp(1).sum().backward()
    for parameter in trainable(model).values():
        assert parameter.dtype is torch.float32
        if parameter.grad is not None:
            assert parameter.grad.dtype is torch.float32
            assert parameter.grad.isfinite().all()
    assert any(parameter.grad is not None and parameter.grad.any() for parameter in trainable(model).values())


@pytest.mark.parametrize(("method", "layers"), [("full", "all"), ("full", 2), ("lora", 2)], ids=str)
@pytest.mark.parametrize("name", ["llama", "opt", "gptneox", "gemma3", "mixtral"])
def test_trees_agree_with_plain_evaluation(name, method, layers):
    _, split = prepared(name, method, layers)
    texts = branching()
    assert split.agrees(texts[0][:8])
    ends = [text[-2:] for text in texts]
    for requests in (NextToken(texts, [5, 9, 77]), Continuations([text[:-1] for text in texts], ends)):
        with torch.inference_mode():
            plain = requests.forward(split, make_batch(requests.sequences, list(range(6)), "cpu"))
            for batch in tree_batches(requests.sequences):
                if split.is_split:
                    batch.states = split.frozen_states(batch)
                outputs = requests.forward(split, batch)
                assert (outputs - plain[batch.index]).abs().max() < 0.05 * (1 + plain.abs().max())


def test_a_forward_pass_sees_the_last_update_inside_another_autocast():
    loaded, split = prepared("llama", "full", "all")
    batch = make_batch(sequences(), [6], "cpu")
    with computing_in(HALF, "cpu", keep_casts=True):
        before = split.hidden_states(batch).detach().clone()
        with torch.no_grad():
            for weight in trainable(loaded.model).values():
                weight.mul_(1.5)
        after = split.hidden_states(batch).detach()
    assert not torch.allclose(before, after, rtol=0.05)
    assert torch.equal(after, split.hidden_states(batch).detach())


def test_threads_compute_in_the_same_precision():
    _, split = prepared("llama", "full", "all")
    batch = make_batch(sequences(), [6], "cpu")
    found = []

    def compute():
        with torch.inference_mode():
            found.append(split.twin().hidden_states(batch).clone())

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    with torch.inference_mode():
        here = split.hidden_states(batch)
    assert torch.equal(found[0], here)
    exact = SplitModel(split.model).hidden_states(batch)
    assert not torch.equal(exact, here)


def test_packed_weights_are_not_used_under_autocast():
    _, split = prepared("llama", "full", "all")
    texts = [text * 4 for text in sequences()]
    batch = make_batch(texts, list(range(7)), "cpu")
    assert split.agrees(texts[0])
    with torch.inference_mode():
        plain = split.hidden_states(batch)
        with split.packed.enabled():
            packed = split.hidden_states(batch)
    assert torch.equal(plain, packed)
    assert not split.packed.weights


def close_answers(model):
    """Give tokens 5 and 9 nearly the same weights in the head: apart by less than bfloat16 tells apart in a logit."""
    head = model.get_output_embeddings().weight
    with torch.no_grad():
        head[9] = head[5]
        head[9, 0] *= 1 + 2**-7
    return model


@pytest.mark.parametrize("name", ["llama", "opt", "gemma2", "cohere", "granite"])
def test_answers_that_are_close_are_no_ties(name):
    model = close_answers(make_model(name).to(HALF))
    if name != "gemma2":  # whose logits end at 3
        model.get_output_embeddings().weight.data *= 8  # logits so large that bfloat16 has no steps for the difference
    split, texts = SplitModel(model), sequences(7)
    batch = make_batch(texts, list(range(7)), "cpu")
    with torch.inference_mode():
        logits = NextToken(texts, [5, 9]).forward(split, batch)
        rounded = torch.stack([model(input_ids=torch.tensor([ids])).logits[0, -1, [5, 9]] for ids in texts])
        hidden = split.hidden_states(batch)
        last = torch.stack([hidden[k, len(ids) - 1] for k, ids in enumerate(texts)]).double()
        head = model.get_output_embeddings().weight.double()
        expected = split._scaled((last @ head.T)[:, [5, 9]])
    assert (rounded[:, 0] == rounded[:, 1]).any()
    assert not (logits[:, 0] == logits[:, 1]).any()
    assert torch.allclose(logits, expected, rtol=1e-5, atol=1e-5)


class Head(nn.Linear):
    """A head that is not plain, as one with adapters."""


@pytest.mark.parametrize("kind", ["plain", "bias", "adapter", "dora", "saved", "class"])
def test_every_kind_of_head_gives_float32(kind, monkeypatch):
    model = make_model("gemma2").to(HALF)
    model.set_output_embeddings(nn.Linear(32, 128, bias=kind == "bias", dtype=HALF))
    nn.init.normal_(model.lm_head.weight, std=2.0)
    if kind == "class":
        model.lm_head.__class__ = Head
    if kind in ("adapter", "dora", "saved"):
        from peft import LoraConfig, get_peft_model

        keys = {"modules_to_save": ["lm_head"], "target_modules": ["q_proj"]}
        if kind != "saved":
            keys = {"target_modules": ["lm_head"], "use_dora": kind == "dora"}
        model = stir(get_peft_model(model, LoraConfig(r=2, task_type="CAUSAL_LM", **keys))).eval()
    split = SplitModel(model)
    hidden = torch.randn(9, 32, generator=torch.Generator().manual_seed(1)).to(HALF)
    monkeypatch.setattr("breadth.lm.split_model.HEAD_BLOCK", 32 * 50)  # three blocks
    some = torch.tensor([7, 99, 3])
    with torch.inference_mode():
        whole, few = split.logits(hidden), split.logits(hidden, some)
        exact = split._scaled(split.head.float()(hidden.float()))
    assert whole.dtype is few.dtype is torch.float32
    assert torch.allclose(whole, exact, rtol=1e-4, atol=1e-5)
    assert torch.allclose(few, exact[:, some], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "gemma2", "cohere", "opt projected"])
def test_log_probabilities_block_by_block(name, monkeypatch):
    split = SplitModel(make_model(name).to(HALF))
    width = split.head.weight.shape[1]
    hidden = torch.randn(6, width, generator=torch.Generator().manual_seed(1)).to(HALF)
    read, tokens = torch.tensor([0, 5, 5, 2, 1, 0]), torch.tensor([0, 127, 50, 49, 77, 127])
    with torch.inference_mode():
        expected = split.logits(hidden).double().log_softmax(-1)[read, tokens]
        for block in (width, width * 50, 2**24):
            monkeypatch.setattr("breadth.lm.split_model.HEAD_BLOCK", block)
            found = split.log_probabilities(hidden, read, tokens)
            assert torch.allclose(found.double(), expected, atol=1e-5)


def test_training_on_the_whole_vocabulary_computes_in_bfloat16():
    _, split = prepared("llama", "full", "all")
    hidden = torch.randn(4, 32, requires_grad=True)
    out = split.logits(hidden)
    assert out.dtype is torch.float32
    assert torch.equal(out, out.to(HALF).float())
    out.sum().backward()
    assert split.head.weight.grad.dtype is torch.float32
    with torch.inference_mode():
        assert not torch.equal(split.logits(hidden), out)


def test_a_written_text_is_computed_as_in_training(tiny_folders):
    from breadth.datasets import Generate
    from breadth.lm.generation import generate_texts

    loaded = load_model(str(tiny_folders["llama"]), dtype="bfloat16", device="cpu", train_all=True)
    unfreeze(loaded.model)
    loaded = prepare_training(loaded)
    seen = []
    linear = decoder_layers(loaded.model).blocks[0].mlp.up_proj
    linear.register_forward_hook(lambda module, given, out: seen.append(out.dtype))
    task = Generate("{text}", "(.*)", max_tokens=4)
    texts = generate_texts(loaded, [[5, 6, 7], [8, 9]], task)
    assert len(texts) == 2
    assert set(seen) == {HALF}


def test_float16_trains_nothing(tiny_folders):
    with pytest.raises(InputError, match=r"training in float16 needs a loss scale.*use bfloat16 or float32"):
        start(tiny_folders["llama"], dtype="float16")
    loaded = load_model(str(tiny_folders["llama"]), dtype="float16", device="cpu")
    unfreeze(loaded.model)
    train_set = encode_train_set(loaded, Examples(), "answers", context=128)
    for dtype in ("auto", "float16"):
        recipe = Recipe(method="full", steps=2, dtype=dtype)
        with pytest.raises(InputError, match="needs a loss scale"):
            Trainer(SplitModel(loaded.model), train_set, recipe, 0, 2)


def test_weights_in_bfloat16_are_not_trained_by_accident(tiny_folders):
    loaded = load_model(str(tiny_folders["llama"]), dtype="bfloat16", device="cpu")
    unfreeze(loaded.model)
    train_set = encode_train_set(loaded, Examples(), "answers", context=128)
    with pytest.raises(InputError, match=r"small updates round away; call breadth\.lm\.prepare_training first"):
        Trainer(SplitModel(loaded.model), train_set, Recipe(method="full", steps=2), 0, 2)


def test_a_state_of_half_precision_training_is_not_continued_in_float32(tiny_folders):
    keys = {"method": "full", "layers": "all"}
    pure = start(tiny_folders["llama"], dtype="pure-bfloat16", **keys)
    pure.advance()
    with pytest.raises(InputError, match="the saved weights are bfloat16, and this run trains in float32"):
        start(tiny_folders["llama"], **keys).restore(pure.state())


def test_tied_weights_stay_tied(tiny_folders):
    loaded = load_model(str(tiny_folders["llama"]), dtype="bfloat16", device="cpu")
    unfreeze(loaded.model)
    model = prepare_training(loaded).model
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_a_model_that_is_only_evaluated_is_loaded_in_bfloat16(tiny_folders):
    for dtype in ("bfloat16", "pure-bfloat16"):
        loaded = load_model(str(tiny_folders["llama"]), dtype=dtype, device="cpu")
        assert loaded.compute is None
        assert {weight.dtype for weight in loaded.model.parameters()} == {HALF}
