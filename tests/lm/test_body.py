import pytest
import torch
import transformers

from breadth.lm.adapters import attach_lora, trainable, unfreeze
from breadth.lm.batches import make_batch
from breadth.lm.body import Body
from breadth.lm.layers import decoder_layers
from breadth.lm.queries import LastToken, continuations
from breadth.lm.tiny import tiny_config

SHAPE = {
    **{"vocab_size": 128, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4},
    **{"bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.2},
}
SMALL = {**SHAPE, "intermediate_size": 64, "num_key_value_heads": 2, "pad_token_id": 0}
GEMMA2 = {**SMALL, "head_dim": 8, "final_logit_softcapping": 3.0, "sliding_window": 8, "query_pre_attn_scalar": 8}
CONFIGS = {
    **{name: lambda name=name: tiny_config(name, 128) for name in ("llama", "opt", "olmo2", "gemma3")},
    "opt projected": lambda: transformers.OPTConfig(
        **SHAPE, ffn_dim=64, word_embed_proj_dim=16, do_layer_norm_before=False, init_std=0.2
    ),
    "gpt2": lambda: transformers.GPT2Config(**SHAPE),
    "gptneox": lambda: transformers.GPTNeoXConfig(**SHAPE, intermediate_size=64),
    "qwen2": lambda: transformers.Qwen2Config(**SMALL),
    "smollm3": lambda: transformers.SmolLM3Config(**SMALL),
    "gemma2": lambda: transformers.Gemma2Config(**GEMMA2),
    "cohere": lambda: transformers.CohereConfig(**SMALL, logit_scale=0.25),
    "granite": lambda: transformers.GraniteConfig(**SMALL, logits_scaling=3.0),
    "mixtral": lambda: transformers.MixtralConfig(**SMALL, num_local_experts=4, num_experts_per_tok=2),
}


def make_model(name, seed=0):
    torch.manual_seed(seed)
    return transformers.AutoModelForCausalLM.from_config(CONFIGS[name](), dtype=torch.float32).eval()


def sequences(n=7, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 128, (5 + 3 * i,), generator=draw).tolist() for i in range(n)]


def stir(model):
    """Make the adapters do something: B begins at zero."""
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, weight in trainable(model).items():
            if "lora_B" in name:
                weight.copy_(0.1 * torch.randn(weight.shape, generator=draw))
    return model


@pytest.fixture(params=CONFIGS)
def name(request):
    return request.param


def through_trunk(body, texts):
    batch = make_batch(texts, list(range(len(texts))), "cpu")
    batch.states = body.trunk(batch)
    return batch


@pytest.mark.parametrize("adapted", [False, True], ids=["bare", "lora"])
@pytest.mark.parametrize("top", [1, 2, 3])
def test_kept_trunk_states_change_no_answer(name, adapted, top):
    model = make_model(name)
    if adapted:
        model = stir(attach_lora(model, layers=top, targets="all")).eval()
    texts = sequences()
    body = Body(model, top)
    assert body.cut
    query = LastToken(texts, [5, 9, 77])
    with torch.inference_mode():
        own = torch.stack([model(input_ids=torch.tensor([ids])).logits[0, -1, [5, 9, 77]] for ids in texts])
        plain = query.ask(body, make_batch(texts, list(range(7)), "cpu"))
        kept = query.ask(body, through_trunk(body, texts))
    assert torch.allclose(plain, own, atol=1e-4)
    assert torch.allclose(kept, own, atol=1e-4)
    assert torch.equal(kept.argmax(1), own.argmax(1))
    assert body.agrees(texts[3])


def test_padding_on_the_right_changes_nothing(name):
    body = Body(make_model(name), 2)
    texts = sequences()
    with torch.inference_mode():
        together = body.features(make_batch(texts, list(range(7)), "cpu"))
        for row, ids in enumerate(texts):
            alone = body.features(make_batch(texts, [row], "cpu"))[0]
            assert torch.allclose(together[row, : len(ids)], alone, atol=1e-5)


def test_logits_are_the_models_own(name):
    model = make_model(name)
    body, ids = Body(model), sequences()[-1]
    assert not body.cut
    with torch.inference_mode():
        own = model(input_ids=torch.tensor([ids])).logits[0]
        hidden = body.features(make_batch([ids], [0], "cpu"))[0]
        assert torch.allclose(body.logits(hidden), own, atol=1e-4)
        some = torch.tensor([3, 100, 4])
        assert torch.allclose(body.logits(hidden, some), own[:, some], atol=1e-4)


def test_continuations_are_read_at_their_own_places(name):
    model = make_model(name)
    prompts, endings = sequences(4), [[7], [8, 9, 10], [11, 12], [13, 14, 15, 16]]
    query = continuations(prompts, endings)
    body = Body(model, 2)
    with torch.inference_mode():
        expected = []
        for prompt, ending in zip(prompts, endings, strict=True):
            chances = model(input_ids=torch.tensor([[*prompt, *ending]])).logits[0].float().log_softmax(-1)
            expected.append(sum(chances[len(prompt) - 1 + k, token] for k, token in enumerate(ending)))
        plain = query.ask(body, make_batch(query.sequences, [2, 0, 3, 1], "cpu"))[:, 0]
        kept = query.ask(body, through_trunk(body, query.sequences))[:, 0]
    assert torch.allclose(kept, torch.stack(expected), atol=1e-4)
    assert torch.allclose(plain, torch.stack(expected)[[2, 0, 3, 1]], atol=1e-4)


@pytest.mark.parametrize("method", ["lora", "full"])
def test_gradients_are_those_of_the_plain_model(name, method):
    model = make_model(name)
    if method == "lora":
        model = stir(attach_lora(model, layers=2, targets="all"))
    else:
        unfreeze(model, 2)
    model.eval()
    texts = sequences(4)
    body, tokens = Body(model, 2), [5, 9, 77]
    sum(model(input_ids=torch.tensor([ids])).logits[0, -1, tokens].log_softmax(-1)[1] for ids in texts).backward()
    weights = trainable(model)
    expected = {key: weight.grad for key, weight in weights.items()}
    assert any(grad.abs().max() > 1e-6 for grad in expected.values() if grad is not None)
    for kept in (False, True):
        model.zero_grad(set_to_none=True)
        batch = through_trunk(body, texts) if kept else make_batch(texts, [0, 1, 2, 3], "cpu")
        LastToken(texts, tokens).ask(body, batch).log_softmax(-1)[:, 1].sum().backward()
        for key, weight in weights.items():
            if weight.grad is None:
                assert expected[key] is None or expected[key].abs().max() == 0
            else:
                assert torch.allclose(weight.grad, expected[key], atol=1e-4, rtol=1e-3), key


def test_less_is_computed_where_less_is_read(name):
    """The last block's feed-forward part is left out at places that nobody reads; a mixture of experts is not."""
    model = make_model(name)
    body, texts = Body(model, 2), sequences()
    seen = []
    for module in decoder_layers(model).blocks[-1].modules():
        if isinstance(module, torch.nn.Linear | transformers.pytorch_utils.Conv1D):
            module.register_forward_hook(lambda module, args, out: seen.append(args[0].shape[:-1].numel()))
    query = LastToken(texts, [5, 9])
    batch = make_batch(texts, list(range(7)), "cpu")
    with torch.inference_mode():
        query.ask(body, batch)
        narrow, seen[:] = sorted(seen), []
        full = body.features(batch)
        assert min(seen) == batch.ids.numel()
    assert full.shape[:2] == batch.ids.shape
    assert narrow[0] == (len(texts) if name != "mixtral" else batch.ids.numel())
    assert body._narrow.works == (name != "mixtral")


def test_a_module_that_mixes_tokens_is_computed_whole():
    class Mixing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(32, 32)

        def forward(self, hidden):
            return self.inner(hidden).cumsum(1)

    model = make_model("llama")
    model.model.layers[-1].mlp = Mixing()
    body = Body(model)
    assert not body._narrow.works
    assert body.agrees(sequences()[2])


def test_narrowing_is_given_up_where_it_is_wrong():
    class Mixing(torch.nn.Module):
        def forward(self, hidden):
            return hidden - hidden.mean(-2, keepdim=True)

    model = make_model("opt")
    model.model.decoder.layers[-1].activation_fn = Mixing()
    body = Body(model)
    assert body._narrow.works
    assert body.agrees(sequences()[2])
    assert not body._narrow.works


def test_a_head_that_is_read_wrongly_is_noticed():
    model = make_model("gemma2")
    body = Body(model)
    body._softcap = None
    assert not body.agrees(sequences()[2])


def test_the_model_is_whole_outside_a_call(name):
    model = make_model(name)
    blocks = list(decoder_layers(model).blocks)
    body = Body(model, 1)
    batch = through_trunk(body, sequences())
    body.features(batch)
    assert list(decoder_layers(model).blocks) == blocks
    for call in (body.trunk, body.features):
        with pytest.raises((RuntimeError, IndexError)):
            call(make_batch([[5, 10**6]], [0], "cpu"))
    assert list(decoder_layers(model).blocks) == blocks
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_the_trunk_drops_nothing_out():
    model = make_model("gpt2").train()
    body, texts = Body(model, 2), sequences()
    first, second = (through_trunk(body, texts).states for _ in range(2))
    assert torch.equal(first, second)


def test_all_layers_above_the_cut_is_no_cut():
    assert not Body(make_model("llama"), 4).cut
