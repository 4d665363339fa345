"""A model that needs no download: a few thousand random weights and a tokenizer trained on a few sentences.

It knows nothing, but evaluation, training and resuming work on it within milliseconds, as on any language model. For
tests, and for trying out a study file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from breadth.errors import InputError, listed
from breadth.lm.extra import quiet, require_lm

#: Architectures of tiny models, and whether the tokenizer puts BOS in front.
FAMILIES = {"llama": False, "opt": True, "olmo2": False, "gemma3": True}

_TOKENS = 320
_SPECIAL = ("<pad>", "<bos>", "<eos>")
# What the tokenizer is trained on; the answers occur often enough to become single tokens.
_TEXT = (
    "The cat sat on the mat. Question: The cat is on the mat. Yes or No? Yes",
    "A man plays the guitar. Question: A man is asleep. Yes or No? No",
    "Two women are in the park. Question: Nobody is in the park. Yes or No? No",
    "Seven birds were in the tree and three left. How many are there? Answer: 4",
    "Which of these is true? A. one B. two C. three D. four Answer: A",
)


def write_tiny_model(folder: str | Path, family: str = "llama", seed: int = 0) -> Path:
    """Write a tiny random model and its tokenizer into ``folder``, and return it.

    Parameters
    ----------
    folder
        A directory; created if necessary.
    family
        ``"llama"``, ``"opt"``, ``"olmo2"`` or ``"gemma3"``.
    seed
        The weights depend on nothing else.
    """
    require_lm()
    import torch
    import transformers

    if family not in FAMILIES:
        raise InputError(f"family: {family!r} is not one of {listed(FAMILIES)}")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with quiet(), torch.random.fork_rng(devices=[]):
        tokenizer = make_tokenizer(bos=FAMILIES[family])
        torch.default_generator.manual_seed(seed)
        make: Any = transformers.AutoModelForCausalLM.from_config
        model = make(tiny_config(family, len(tokenizer)), dtype=torch.float32)
        model.save_pretrained(str(target))
        tokenizer.save_pretrained(str(target))
    return target


def tiny_config(family: str, tokens: int = _TOKENS) -> Any:
    """The configuration of a tiny model: 4 blocks, 32 wide."""
    from transformers import Gemma3TextConfig, LlamaConfig, Olmo2Config, OPTConfig

    shape: dict[str, Any] = {
        "vocab_size": tokens,
        "hidden_size": 32,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    # Weights large enough that prompts differ in their answers before any training.
    if family == "opt":
        return OPTConfig(**shape, ffn_dim=64, word_embed_proj_dim=32, init_std=0.2, dropout=0.0)
    shape |= {"intermediate_size": 64, "num_key_value_heads": 2, "initializer_range": 0.2}
    if family == "gemma3":
        return Gemma3TextConfig(**shape, head_dim=8, sliding_window=64, query_pre_attn_scalar=8)
    return Olmo2Config(**shape) if family == "olmo2" else LlamaConfig(**shape, tie_word_embeddings=True)


def make_tokenizer(*, bos: bool) -> Any:
    """A byte-level tokenizer of about three hundred tokens, the same every time; " Yes" and " No" are one each."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=_TOKENS,
        special_tokens=list(_SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT, trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", 1)]
        )
    wrap: Any = transformers.PreTrainedTokenizerFast
    return wrap(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        model_max_length=512,
    )
