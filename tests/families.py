"""Tiny directories of model families, with random weights: what the published models are, at fifty thousand weights.

Each has its family's own architecture in transformers, kind of tokenizer, special tokens, and the chat template of its
instruct models, written here to give the same text. " Yes", " No", and the letters A to J with and without a blank in
front are one token each. ``write_family(folder, "opt", pickled=True)`` writes one; ``FAMILIES`` are all of them, and
``CHATTING`` those with a chat template.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadth.lm.extra import quiet
from breadth.lm.tiny import tiny_config

#: How texts are cut into words before byte pairs are joined: as GPT-2 does it (OPT, Pythia), and with numbers in
#: groups of three (Llama 3, OLMo 2, SmolLM3) or digit by digit (Qwen).
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_THREE_DIGITS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+"
_ONE_DIGIT = _THREE_DIGITS.replace("{1,3}", "")

# All words in here become single tokens.
_TEXT = [
    "The cat sat on the mat. Question: The cat is on the mat. Yes or No? Yes",
    "A man plays the guitar. Question: A man is asleep. Yes or No? No",
    "Which of these is true? Answer: A B C D E F G H I J",
    *(f"{letter}. ({letter}) {letter}" for letter in "ABCDEFGHIJ"),
    "You are a helpful assistant.",
]

QWEN_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."


def _chat_ml(before: str = "") -> str:
    return (
        before + "{% for message in messages %}"
        "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
    )


_LLAMA3_CHAT = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim }}"
    "{{ '<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)

_QWEN25_CHAT = _chat_ml(
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n" + QWEN_SYSTEM + "<|im_end|>\\n' }}{% endif %}"
)

_OLMO2_CHAT = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>\\n' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}"
    "{{ '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)

_GEMMA_CHAT = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)


@dataclass(frozen=True)
class Family:
    """A family: its architecture, its special tokens in the order of their ids, and what its tokenizer does with them.

    ``adds_bos`` says whether the tokenizer puts its BOS token in front of every text; ``words`` is how it cuts texts,
    None for one that was a SentencePiece model; ``chat`` is the chat template, None if the family has none.
    """

    architecture: str
    config: Callable[[int], Any]
    special: tuple[str, ...]
    bos: str | None
    eos: str
    pad: str | None = None
    unk: str | None = None
    adds_bos: bool = False
    words: str | None = _GPT2
    normalised: bool = False
    chat: str | None = None


def _shape(tokens: int) -> dict[str, Any]:
    # Weights large enough that prompts differ in their answers before any training.
    return {
        "vocab_size": tokens,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.2,
    }


#: Its defaults are tokens of the large vocabulary.
_NO_IDS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}


def _smollm3(tokens: int) -> Any:
    from transformers import SmolLM3Config

    # As in the 3B model, every fourth layer has no rotary embedding.
    return SmolLM3Config(**_shape(tokens), no_rope_layer_interval=4, **_NO_IDS)


def _qwen25(tokens: int) -> Any:
    from transformers import Qwen2Config

    return Qwen2Config(**_shape(tokens), tie_word_embeddings=True)


def _qwen3(tokens: int) -> Any:
    from transformers import Qwen3Config

    # Its heads are wider than hidden_size divided by their number.
    return Qwen3Config(**_shape(tokens), head_dim=16, tie_word_embeddings=True)


def _pythia(tokens: int) -> Any:
    from transformers import GPTNeoXConfig

    shape = _shape(tokens)
    del shape["num_key_value_heads"]
    return GPTNeoXConfig(**shape, tie_word_embeddings=False)


FAMILIES: dict[str, Family] = {
    "opt": Family(
        architecture="OPTForCausalLM",
        config=lambda tokens: tiny_config("opt", tokens),
        special=("<s>", "<pad>", "</s>", "<unk>"),
        bos="</s>",
        eos="</s>",
        pad="<pad>",
        unk="</s>",
        adds_bos=True,
    ),
    "olmo2": Family(
        architecture="Olmo2ForCausalLM",
        config=lambda tokens: tiny_config("olmo2", tokens),
        special=("<|endoftext|>", "<|pad|>"),
        bos="<|endoftext|>",
        eos="<|endoftext|>",
        pad="<|pad|>",
        words=_THREE_DIGITS,
        chat=_OLMO2_CHAT,
    ),
    "smollm3": Family(
        architecture="SmolLM3ForCausalLM",
        config=_smollm3,
        special=("<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"),
        bos="<|begin_of_text|>",
        eos="<|im_end|>",
        pad="<|im_end|>",
        adds_bos=True,
        words=_THREE_DIGITS,
        chat=_chat_ml(),
    ),
    "llama3": Family(
        architecture="LlamaForCausalLM",
        config=lambda tokens: tiny_config("llama", tokens),
        special=("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        bos="<|begin_of_text|>",
        eos="<|eot_id|>",
        adds_bos=True,
        words=_THREE_DIGITS,
        chat=_LLAMA3_CHAT,
    ),
    "qwen2.5": Family(
        architecture="Qwen2ForCausalLM",
        config=_qwen25,
        special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
        bos=None,
        eos="<|im_end|>",
        pad="<|endoftext|>",
        words=_ONE_DIGIT,
        normalised=True,
        chat=_QWEN25_CHAT,
    ),
    "qwen3": Family(
        architecture="Qwen3ForCausalLM",
        config=_qwen3,
        special=("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"),
        bos=None,
        eos="<|im_end|>",
        pad="<|endoftext|>",
        words=_ONE_DIGIT,
        normalised=True,
        chat=_chat_ml(),
    ),
    "gemma3": Family(
        architecture="Gemma3ForCausalLM",
        config=lambda tokens: tiny_config("gemma3", tokens),
        special=("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"),
        bos="<bos>",
        eos="<eos>",
        pad="<pad>",
        unk="<unk>",
        adds_bos=True,
        words=None,
        chat=_GEMMA_CHAT,
    ),
    "pythia": Family(
        architecture="GPTNeoXForCausalLM",
        config=_pythia,
        special=("<|endoftext|>", "<|padding|>"),
        bos="<|endoftext|>",
        eos="<|endoftext|>",
        unk="<|endoftext|>",
        normalised=True,
    ),
}

#: Families whose instruct models are asked in chat form.
CHATTING = tuple(name for name, family in FAMILIES.items() if family.chat is not None)


def write_family(folder: str | Path, family: str, seed: int = 0, pickled: bool = False) -> Path:
    """Write a tiny model of a family and its tokenizer into ``folder``, and return it.

    The weights depend on ``seed`` alone. With ``pickled`` they are in ``pytorch_model.bin``, as OPT's are on the Hub.
    """
    import torch
    import transformers

    made, target = FAMILIES[family], Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    tokenizer = family_tokenizer(family)
    config = made.config(len(tokenizer))
    config.bos_token_id = tokenizer.bos_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    with quiet(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        make: Any = transformers.AutoModelForCausalLM.from_config
        model = make(config, dtype=torch.float32)
        assert type(model).__name__ == made.architecture
        model.save_pretrained(str(target))
        tokenizer.save_pretrained(str(target))
    if pickled:
        (target / "model.safetensors").unlink()
        torch.save(model.state_dict(), target / "pytorch_model.bin")
    return target


def family_tokenizer(family: str) -> Any:
    """The tokenizer of a family, the same every time."""
    import transformers

    made = FAMILIES[family]
    core = _sentencepiece_like(made) if made.words is None else _byte_level(made, made.words)
    if made.adds_bos:
        from tokenizers import processors

        assert made.bos is not None
        core.post_processor = processors.TemplateProcessing(
            single=f"{made.bos} $A",
            pair=f"{made.bos} $A {made.bos} $B",
            special_tokens=[(made.bos, made.special.index(made.bos))],
        )
    names = {"bos_token": made.bos, "eos_token": made.eos, "pad_token": made.pad, "unk_token": made.unk}
    given = {key: token for key, token in names.items() if token is not None}
    wrap: Any = transformers.PreTrainedTokenizerFast
    tokenizer = wrap(tokenizer_object=core, model_max_length=512, **given)
    if made.chat is not None:
        tokenizer.chat_template = made.chat
    return tokenizer


def _byte_level(made: Family, words: str) -> Any:
    """Byte pairs over bytes: any text has tokens, and none is unknown."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    if made.normalised:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(words), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=list(made.special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT, trainer)
    return tokenizer


def _sentencepiece_like(made: Family) -> Any:
    """What a SentencePiece model becomes: blanks are ``▁``, and characters without a token are bytes."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=made.unk, fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()],
    )
    in_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=[*made.special, *in_bytes],
        initial_alphabet=["\n", "▁", *letters],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_TEXT, trainer)
    # The trainer makes bytes special tokens, which a text could then spell out; they are plain entries.
    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = [token for token in content["added_tokens"] if token["content"] in made.special]
    return Tokenizer.from_str(json.dumps(content))
