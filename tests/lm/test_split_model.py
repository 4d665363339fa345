import pytest
import torch
import transformers

from breadth.lm.batches import make_batch, make_batches
from breadth.lm.layers import attach_lora, decoder_layers, trainable, unfreeze
from breadth.lm.scoring import Continuations, NextToken
from breadth.lm.split_model import SplitModel
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


def with_kept_states(split, texts):
    batch = make_batch(texts, list(range(len(texts))), "cpu")
    batch.states = split.frozen_states(batch)
    return batch


@pytest.mark.parametrize("adapted", [False, True], ids=["bare", "lora"])
@pytest.mark.parametrize("top", [1, 2, 3])
def test_kept_states_do_not_change_the_outputs(name, adapted, top):
    model = make_model(name)
    if adapted:
        model = stir(attach_lora(model, layers=top, targets="all")).eval()
    texts = sequences()
    split = SplitModel(model, top)
    assert split.is_split
    requests = NextToken(texts, [5, 9, 77])
    with torch.inference_mode():
        own = torch.stack([model(input_ids=torch.tensor([ids])).logits[0, -1, [5, 9, 77]] for ids in texts])
        plain = requests.forward(split, make_batch(texts, list(range(7)), "cpu"))
        kept = requests.forward(split, with_kept_states(split, texts))
    assert torch.allclose(plain, own, atol=1e-4)
    assert torch.allclose(kept, own, atol=1e-4)
    assert torch.equal(kept.argmax(1), own.argmax(1))
    assert split.agrees(texts[3])


def test_padding_on_the_right_changes_nothing(name):
    split = SplitModel(make_model(name), 2)
    texts = sequences()
    with torch.inference_mode():
        together = split.hidden_states(make_batch(texts, list(range(7)), "cpu"))
        for row, ids in enumerate(texts):
            alone = split.hidden_states(make_batch(texts, [row], "cpu"))[0]
            assert torch.allclose(together[row, : len(ids)], alone, atol=1e-5)


def test_logits_are_the_models_own(name):
    model = make_model(name)
    split, ids = SplitModel(model), sequences()[-1]
    assert not split.is_split
    with torch.inference_mode():
        own = model(input_ids=torch.tensor([ids])).logits[0]
        hidden = split.hidden_states(make_batch([ids], [0], "cpu"))[0]
        assert torch.allclose(split.logits(hidden), own, atol=1e-4)
        some = torch.tensor([3, 100, 4])
        assert torch.allclose(split.logits(hidden, some), own[:, some], atol=1e-4)


def test_continuations_are_read_at_their_own_positions(name):
    model = make_model(name)
    prompts, endings = sequences(4), [[7], [8, 9, 10], [11, 12], [13, 14, 15, 16]]
    requests = Continuations.after(prompts, endings)
    split = SplitModel(model, 2)
    with torch.inference_mode():
        expected = []
        for prompt, ending in zip(prompts, endings, strict=True):
            chances = model(input_ids=torch.tensor([[*prompt, *ending]])).logits[0].float().log_softmax(-1)
            expected.append(sum(chances[len(prompt) - 1 + k, token] for k, token in enumerate(ending)))
        plain = requests.forward(split, make_batch(requests.sequences, [2, 0, 3, 1], "cpu"))[:, 0]
        kept = requests.forward(split, with_kept_states(split, requests.sequences))[:, 0]
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
    split, tokens = SplitModel(model, 2), [5, 9, 77]
    sum(model(input_ids=torch.tensor([ids])).logits[0, -1, tokens].log_softmax(-1)[1] for ids in texts).backward()
    weights = trainable(model)
    expected = {key: weight.grad for key, weight in weights.items()}
    assert any(grad.abs().max() > 1e-6 for grad in expected.values() if grad is not None)
    for kept in (False, True):
        model.zero_grad(set_to_none=True)
        batch = with_kept_states(split, texts) if kept else make_batch(texts, [0, 1, 2, 3], "cpu")
        NextToken(texts, tokens).forward(split, batch).log_softmax(-1)[:, 1].sum().backward()
        for key, weight in weights.items():
            if weight.grad is None:
                assert expected[key] is None or expected[key].abs().max() == 0
            else:
                assert torch.allclose(weight.grad, expected[key], atol=1e-4, rtol=1e-3), key


def test_feed_forward_is_computed_only_where_it_is_read(name):
    """The last block's feed-forward part is skipped at positions that are not read, except for a mixture of experts."""
    model = make_model(name)
    split, texts = SplitModel(model, 2), sequences()
    seen = []
    for module in decoder_layers(model).blocks[-1].modules():
        if isinstance(module, torch.nn.Linear | transformers.pytorch_utils.Conv1D):
            module.register_forward_hook(lambda module, args, out: seen.append(args[0].shape[:-1].numel()))
    requests = NextToken(texts, [5, 9])
    batch = make_batch(texts, list(range(7)), "cpu")
    with torch.inference_mode():
        requests.forward(split, batch)
        narrow, seen[:] = sorted(seen), []
        full = split.hidden_states(batch)
        assert min(seen) == batch.ids.numel()
    assert full.shape[:2] == batch.ids.shape
    assert narrow[0] == (len(texts) if name != "mixtral" else batch.ids.numel())
    assert split._last_block.supported == (name != "mixtral")


@pytest.mark.parametrize("name", ["llama", "opt", "olmo2", "gemma3", "mixtral"])
def test_queries_are_computed_only_where_they_are_read(name):
    """Query and output of the last attention, but neither keys nor values; everything if gradients are needed."""
    model, texts, seen = make_model(name), sequences(), {}
    for path, module in decoder_layers(model).blocks[-1].named_modules():
        if path.endswith("_proj") and "mlp" not in path:

            def counted(hidden, path=path, forward=module.forward):
                seen[path.rpartition(".")[2]] = hidden.shape[:-1].numel()
                return forward(hidden)

            module.forward = counted
    split, requests = SplitModel(model), NextToken(texts, [5, 9])
    batch = make_batch(texts, list(range(7)), "cpu")
    output = "out_proj" if name == "opt" else "o_proj"
    with torch.inference_mode():
        requests.forward(split, batch)
    assert (seen["q_proj"], seen[output]) == (7, 7)
    assert (seen["k_proj"], seen["v_proj"]) == (batch.ids.numel(),) * 2
    requests.forward(split, batch)
    assert (seen["q_proj"], seen[output]) == (batch.ids.numel(),) * 2


def test_a_module_that_mixes_tokens_is_computed_everywhere():
    class Mixing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(32, 32)

        def forward(self, hidden):
            return self.inner(hidden).cumsum(1)

    model = make_model("llama")
    model.model.layers[-1].mlp = Mixing()
    split = SplitModel(model)
    assert not split._last_block.supported
    assert split.agrees(sequences()[2])


def test_sparse_feed_forward_is_disabled_where_it_is_wrong():
    class Mixing(torch.nn.Module):
        def forward(self, hidden):
            return hidden - hidden.mean(-2, keepdim=True)

    model = make_model("opt")
    model.model.decoder.layers[-1].activation_fn = Mixing()
    split = SplitModel(model)
    assert split._last_block.supported
    assert split.agrees(sequences()[2])
    assert not split._last_block.supported


def test_a_misread_head_is_detected():
    model = make_model("gemma2")
    split = SplitModel(model)
    split._softcap = None
    assert not split.agrees(sequences()[2])


def test_the_model_is_unchanged_outside_a_call(name):
    model = make_model(name)
    blocks = list(decoder_layers(model).blocks)
    split = SplitModel(model, 1)
    batch = with_kept_states(split, sequences())
    split.hidden_states(batch)
    assert list(decoder_layers(model).blocks) == blocks
    for call in (split.frozen_states, split.hidden_states):
        with pytest.raises((RuntimeError, IndexError)):
            call(make_batch([[5, 10**6]], [0], "cpu"))
    assert list(decoder_layers(model).blocks) == blocks
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_frozen_layers_use_no_dropout():
    model = make_model("gpt2").train()
    split, texts = SplitModel(model, 2), sequences()
    first, second = (with_kept_states(split, texts).states for _ in range(2))
    assert torch.equal(first, second)


def test_all_layers_on_top_is_no_split():
    assert not SplitModel(make_model("llama"), 4).is_split


def test_states_take_the_predicted_bytes(tiny):
    split = SplitModel(tiny().model, 2)
    batch = make_batch([[5, 6, 7], [8, 9, 10]], [0, 1], "cpu")
    states = split.frozen_states(batch)
    assert split.frozen_bytes(batch.ids.numel()) == states.numel() * states.element_size()
    assert SplitModel(tiny().model.to(torch.bfloat16), 2).frozen_bytes(10) == 10 * 32 * 2


def tree_batches(texts):
    """Texts in two trees, one of them in an order that is not theirs, and one text alone."""
    return make_batches(texts, "cpu", 40, [[0, 4, 2], [5], [3, 1]])


def branching(seed=3):
    """Sequences that begin alike: 0, 2 and 4 share six tokens, 2 and 4 eight, and 3 is the beginning of 1."""
    own = sequences(6, seed)
    six, eight = own[5][:6], own[5][:8]
    return [six + own[0], own[4], eight + own[2], own[4][:11], eight + own[1], own[3]]


@pytest.mark.parametrize("top", [None, 2])
def test_trees_give_the_outputs_of_their_sequences(name, top):
    model, texts = make_model(name), branching()
    split = SplitModel(model, top)
    ends = [text[-2:] for text in texts]
    both = [NextToken(texts, [5, 9, 77]), Continuations([text[:-1] for text in texts], ends)]
    assert split.agrees(texts[0][:8])
    assert split.attends_to_trees  # even with a sliding window, if sequences are not longer
    window = getattr(model.config, "sliding_window", None) or 99
    short = all(len(text) <= window for text in texts)
    for requests in both:
        with torch.inference_mode():
            plain = requests.forward(split, make_batch(requests.sequences, list(range(6)), "cpu"))
            batches = tree_batches(requests.sequences)
            assert sum(batch.ids.numel() for batch in batches) < sum(map(len, requests.sequences))
            for batch in batches:
                if top:
                    batch.states = split.frozen_states(batch)
                for attends in (True, False) if short else (False,):
                    split.attends_to_trees = attends
                    assert torch.allclose(requests.forward(split, batch), plain[batch.index], atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("ignored", [None, "attention_mask", "position_ids"])
def test_a_model_that_ignores_masks_or_positions_computes_every_sequence(monkeypatch, ignored, dtype):
    model, texts = make_model("llama").to(dtype), branching()
    forward = model.model.forward
    monkeypatch.setattr(
        model.model, "forward", lambda **given: forward(**{**given, ignored: None} if ignored else given)
    )
    split = SplitModel(model)
    assert split.agrees(texts[5])
    assert split.attends_to_trees == (ignored is None)
    requests = NextToken(texts, [5, 9, 77])
    with torch.inference_mode():
        plain = requests.forward(split, make_batch(texts, list(range(6)), "cpu"))
        for batch in tree_batches(texts):
            tolerance = 1e-4 if dtype is torch.float32 else 0.2
            assert torch.allclose(requests.forward(split, batch), plain[batch.index], atol=tolerance)


def test_a_model_that_takes_no_positions_computes_every_sequence(monkeypatch):
    model = make_model("llama")
    forward = model.model.forward

    def without(**given):
        if given.get("position_ids") is not None:
            raise TypeError("unexpected keyword argument 'position_ids'")
        return forward(**given)

    monkeypatch.setattr(model.model, "forward", without)
    split = SplitModel(model)
    assert split.agrees(sequences()[3])
    assert not split.attends_to_trees
