"""Directories of models that were made to do harm: each is one message, soon, in little memory and without a network.

Every one is a good tiny model with one thing wrong, and goes through the code that loads models and adapters.
"""

import json
import os
import resource
import shutil
import socket
import struct
import threading
import time

import pytest
import torch
from safetensors.torch import save_file

from breadth.errors import InputError
from breadth.lm.chat import ChatSettings, has_chat_template
from breadth.lm.loading import load_model, with_chat
from breadth.lm.split_model import SplitModel
from breadth.lm.swapping import LoraAdapters

#: Seconds and bytes that none of them may take, children included; torch itself is loaded before.
MOST_SECONDS, MOST_BYTES = 20, 1_000_000_000


@pytest.fixture
def folder(tiny_model_dir, tmp_path):
    return shutil.copytree(tiny_model_dir, tmp_path / "model")


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Any socket that is opened fails the test, although a caller may catch what it raises."""
    opened = []

    class Refused(socket.socket):
        def __init__(self, *values, **keys):
            opened.append(values)
            raise OSError("this test has no network")

    monkeypatch.setattr(socket, "socket", Refused)
    yield
    assert opened == []


def resident():
    """Bytes of memory that this process has at most had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def refusal(load, *places):
    """What the message says; within the limits of time and memory, and naming every place."""
    before, began = resident(), time.monotonic()
    with pytest.raises(InputError) as caught:
        load()
    assert time.monotonic() - began < MOST_SECONDS
    assert resident() - before < MOST_BYTES
    message = str(caught.value)
    assert "\n" not in message
    for place in places:
        assert place in message
    return message


def load(folder):
    return load_model(str(folder), device="cpu", dtype="float32")


def change(path, **changes):
    values = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(values | changes))


def test_the_model_that_all_of_them_are_made_from_is_loaded(folder):
    assert load(folder).encode("The cat")


CODE = [
    {"attn_implementation": "owner/name"},
    {"_attn_implementation": "owner/name@main:forward"},
    {"_attn_implementation_internal": "kernels-community/flash-attn2"},
    {"attn_implementation": "paged|owner/name"},
    {"attn_implementation": "flash_attention_2"},
    {"attn_implementation": {"": "sdpa", "text_config": "owner/name"}},
    {"experts_implementation": "owner/name"},
    {"_experts_implementation": "deepgemm"},
    {"text_config": {"attn_implementation": "owner/name"}},
    {"layers": [{"deep": {"_attn_implementation": "owner/name"}}]},
    {"use_kernels": True},
    {"kernel_config": {"kernel_mapping": {"RMSNorm": "owner/name:RMSNorm"}}},
    {"fusion_config": {"patch_embeddings": True}},
    {"distributed_config": {"tp_size": 2}},
    {"configuration_files": ["config.4.0.0.json"]},
    {"transformers_weights": "other.bin"},
    {"transformers_weights": "../other/model.safetensors"},
    {"custom_pipelines": {"x": {"impl": "code.Pipeline"}}},
    {"trust_remote_code": True},
    {"custom_generate": "owner/name"},
    {"vision_config": {"use_pretrained_backbone": True}},
    {"gguf_file": "/etc/passwd"},
    {"tokenizer_class": "AutoModelForCausalLM"},
    {"tokenizer_class": "RagTokenizer"},
    *({"quantization_config": {"quant_method": name}} for name in ("gptq", "fp8", "mxfp4", "torchao", "quark")),
    {"text_config": {"quantization_config": {"quant_method": "finegrained_fp8"}}},
    {"compression_config": {"quant_method": "compressed-tensors"}},
    {"quantization_config": "owner/name"},
    {"attn_implementation": {"": {"deep": "owner/name"}}},
    {"_attn_implementation": ["owner/name"]},
    {"attn_implementation": "a" * 100_000},
    {"blocks": [{"kernel_config": {"a": "owner/name"}}]},
]


@pytest.mark.parametrize("changes", CODE, ids=str)
def test_settings_that_name_code_or_other_files(folder, changes):
    key = next(iter(changes))
    change(folder / "config.json", **changes)
    message = refusal(lambda: load(folder), str(folder / "config.json"), key)
    assert len(message) < len(str(folder)) + 400


def test_settings_that_stand_in_another_file(folder):
    """transformers takes the settings for its own version, and not those that were checked."""
    settings = json.loads((folder / "config.json").read_text())
    settings["num_hidden_layers"] = 10_000_000
    (folder / "config.4.0.0.json").write_text(json.dumps(settings))
    change(folder / "config.json", configuration_files=["config.4.0.0.json"])
    refusal(lambda: load(folder), "configuration_files")


def test_settings_that_turn_off_what_is_read_of_a_model(folder):
    change(folder / "config.json", return_dict=False, output_hidden_states=True, output_attentions=True)
    loaded = load(folder)
    assert SplitModel(loaded.model).agrees(loaded.encode("The cat sat"))


def test_a_model_without_layers(folder):
    change(folder / "config.json", num_hidden_layers=0)
    refusal(lambda: SplitModel(load(folder).model))


def test_settings_that_make_no_numbers_of_good_weights(folder):
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1e308] * 4, "factor": 1e308}
    change(folder / "config.json", rope_parameters={**rope, "rope_theta": 0.0})
    loaded = load(folder)
    ids = loaded.encode("The cat sat on the mat. " * 3)
    refusal(lambda: SplitModel(loaded.model).require_agreement(ids, loaded.name), "model")


@pytest.mark.parametrize("value", [None, "eager", "sdpa"])
def test_attention_that_transformers_computes_itself(folder, value):
    change(folder / "config.json", attn_implementation=value)
    assert load(folder).model.config._attn_implementation == (value or "sdpa")


TOO_LARGE = [
    {"num_hidden_layers": 1_000_000_000},
    {"num_hidden_layers": 257},
    {"num_hidden_layers": 1e9},
    {"hidden_size": 1 << 40},
    {"hidden_size": 1 << 16},
    {"intermediate_size": 10_000_000},
    {"vocab_size": 16_000_000},
    {"vocab_size": 1 << 62},
    {"num_attention_heads": 1 << 30},
    {"num_key_value_heads": 1 << 30},
    {"head_dim": 1 << 24},
    {"max_position_embeddings": 1 << 50},
    {"num_labels": 1_000_000_000},
    {"text_config": {"num_hidden_layers": 1_000_000_000}},
    {"model_type": "gpt_neo", "attention_types": [[["global"], 1_000_000_000]], "num_layers": 4},
    {"model_type": "gpt2", "n_layer": 10_000_000},
    {"model_type": "gpt2", "n_positions": 1_000_000, "n_embd": 32, "n_head": 4, "n_layer": 4, "vocab_size": 320},
    {"model_type": "mixtral", "num_local_experts": 1_000_000},
    {"model_type": "mixtral"},
    {"num_hidden_layers": -1},
    {"num_hidden_layers": "a thousand"},
    {"hidden_size": 0},
    {"num_attention_heads": 0},
    {"rope_parameters": {"rope_type": "no such thing"}},
    {"layer_types": ["full_attention"] * 100_000},
    {"model_type": "llama", "hidden_act": "os.system"},
    {"model_type": ["llama"]},
    {"model_type": "../../x"},
]


@pytest.mark.parametrize("changes", TOO_LARGE, ids=lambda changes: str(changes)[:60])
def test_settings_that_the_weights_cannot_have(folder, changes):
    change(folder / "config.json", **changes)
    refusal(lambda: load(folder), str(folder))


def deep(depth):
    return "[" * depth + "]" * depth


SPOILT = {
    "deep config": ("config.json", '{"model_type": "llama", "x": ' + deep(100_000) + "}"),
    "long number": ("config.json", '{"model_type": "llama", "hidden_size": 1' + "0" * 5000 + "}"),
    "long config": ("config.json", '{"model_type": "llama", "x": "' + "a" * 1_100_000 + '"}'),
    "list for config": ("config.json", "[]"),
    "no text": ("config.json", "\x00\x01"),
    "deep generation config": ("generation_config.json", '{"x": ' + deep(100_000) + "}"),
    "code in generation": ("generation_config.json", '{"custom_generate": "owner/name"}'),
    "search from the Hub": ("generation_config.json", '{"penalty_alpha": 0.6, "top_k": 4}'),
    "deep tokenizer config": ("tokenizer_config.json", '{"x": ' + deep(100_000) + "}"),
    "list for tokenizer config": ("tokenizer_config.json", "[1]"),
    "deep tokenizer": ("tokenizer.json", deep(100_000)),
    "empty tokenizer": ("tokenizer.json", "{}"),
    "texts in the map of tokens": (
        "special_tokens_map.json",
        json.dumps({"extra_special_tokens": [f"<{i}>" for i in range(30_000)]}),
    ),
    "names in the map of tokens": (
        "special_tokens_map.json",
        json.dumps({"extra_special_tokens": {f"k{i}_token": f"<{i}>" for i in range(30_000)}}),
    ),
    "null for generation config": ("generation_config.json", "null"),
    "deep index": ("model.safetensors.index.json", '{"weight_map": ' + deep(100_000) + "}"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_files_beside_the_weights(folder, case):
    name, text = SPOILT[case]
    (folder / name).write_text(text)
    if name.endswith("index.json"):
        (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    refusal(lambda: load(folder), name if name != "tokenizer.json" or case != "empty tokenizer" else str(folder))


def test_a_pipe_in_place_of_a_file(folder):
    for name in ("generation_config.json", "added_tokens.json", "chat_template.jinja"):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
        refusal(lambda: load(folder), name)
        (folder / name).unlink()


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_pipe_is_not_read_before_a_model_is_loaded(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert not has_chat_template(folder)
    refusal(lambda: load(folder), name)


def test_further_chat_templates(folder):
    """transformers reads all of them, whichever is used."""
    (folder / "additional_chat_templates").mkdir()
    template = folder / "additional_chat_templates" / "tool.jinja"
    with template.open("wb") as file:
        file.truncate(3_000_000_000)
    refusal(lambda: load(folder), str(template))
    template.unlink()
    os.mkfifo(template)
    refusal(lambda: load(folder), str(template))


def test_an_index_with_a_name_that_no_system_takes(folder):
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    change(folder / "model.safetensors.index.json", weight_map={"a": "x" * 5000 + ".safetensors"})
    assert len(refusal(lambda: load(folder), "index.json")) < len(str(folder)) + 400


def test_an_adapter_that_would_be_attached_unasked(folder):
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "base_model_name_or_path": "owner/name"}')
    refusal(lambda: load(folder), "adapter_config.json")


def test_a_part_of_a_distributed_model(folder):
    name = "shard-00001-model-00001-of-00001.safetensors"
    shutil.copy(folder / "model.safetensors", folder / name)
    refusal(lambda: load(folder), name)


def code_file(folder):
    """A module that leaves a mark when it is imported."""
    mark = folder / "mark"
    (folder / "code.py").write_text(f"open({str(mark)!r}, 'w')\n\nclass It:\n    pass\n")
    return mark


def test_code_beside_the_weights_is_not_imported(folder):
    mark = code_file(folder)
    names = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM"), "code.It")
    change(folder / "config.json", auto_map=names)
    change(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["code.It", "code.It"]})
    (folder / "custom_generate").mkdir()
    shutil.copy(folder / "code.py", folder / "custom_generate" / "generate.py")
    assert load(folder).encode("The cat")  # by the classes of transformers
    assert not mark.exists()
    change(folder / "config.json", model_type="of_my_own")
    assert "auto_map" in refusal(lambda: load(folder), "config.json")
    assert not mark.exists()


TOKENIZER_SETTINGS = [
    {"tokenizer_class": "AutoModelForCausalLM"},
    {"tokenizer_class": "pipeline"},
    {"tokenizer_class": "AutoTokenizer"},
    {"tokenizer_class": "BertJapaneseTokenizer", "mecab_kwargs": {"mecab_option": "-r /etc/passwd"}},
    {"tokenizer_class": 7},
    {"vocab_file": "/etc/passwd"},
    {"merges_file": "../../secret"},
    {"tokenizer_file": "https://example.org/tokenizer.json"},
    {"deep": {"model_path": "/etc/passwd"}},
    {"fast_tokenizer_files": ["../tokenizer.1.0.0.json"]},
    {"gguf_file": "/tmp/x.gguf"},
    {"init_inputs": ["/etc/passwd"]},
    {"vocab": "/etc/passwd"},
    {"sp_model_kwargs": {"model_file": "/etc/passwd"}},
    {"tokenizer_padding": {"length": 1_000_000_000}},
    {"added_tokens_decoder": {str(10_000 + i): {"content": f"<{i}>"} for i in range(60_000)}},
    {"extra_special_tokens": [f"<{i}>" for i in range(60_000)]},
    {"model_specific_special_tokens": {f"k{i}_token": f"<{i}>" for i in range(30_000)}},
    {"auto_map": "code.Class"},
    {"padding_side": "up"},
    {"tokenizer_class": "os.path.Tokenizer"},
    {"backend": "tokenizers", "entity_vocab_file": "../" * 10_000},
]
#: These are refused by transformers, which does not say what file it read.
BY_TRANSFORMERS = ("auto_map", "padding_side")


@pytest.mark.parametrize("changes", TOKENIZER_SETTINGS, ids=lambda changes: str(changes)[:60])
def test_settings_of_a_tokenizer(folder, changes):
    change(folder / "tokenizer_config.json", **changes)
    message = refusal(lambda: load(folder), str(folder))
    assert len(message) < len(str(folder)) + 500
    if not any(key in BY_TRANSFORMERS for key in changes):
        assert "tokenizer_config.json" in message
        assert any(key in message for key in (*changes, "model_path", "tokenizer_class"))


def test_tokens_by_names_of_their_own(folder):
    change(folder / "tokenizer_config.json", **{f"x{i}_token": f"<{i}>" for i in range(30_000)})
    refusal(lambda: load(folder), "tokenizer_config.json")


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


TOKENIZERS = {
    "a normalizer that writes gigabytes": {
        "normalizer": {"type": "Sequence", "normalizers": [replace({"String": "a"}, "a" * 1000) for _ in range(4)]}
    },
    "a normalizer with a long text": {"normalizer": replace({"String": "a"}, "b" * 1_000_000)},
    "a normalizer that writes ten thousand times as much": {"normalizer": replace({"Regex": "."}, "b" * 10_000)},
    "a normalizer that takes everything away": {"normalizer": replace({"Regex": "[\\s\\S]"}, "")},
    "a regular expression that takes years": {"pre_tokenizer": split("(a+)+(a+)+(a+)+$")},
    "alternatives that take years": {"pre_tokenizer": split("(a|a|aa)+b")},
    "a regular expression that is none": {"pre_tokenizer": split("(")},
    "a regular expression in the normalizer": {"normalizer": replace({"Regex": "(a+)+(a+)+(a+)+!!"}, "")},
    "a prefix of megabytes": {"normalizer": {"type": "Prepend", "prepend": "x" * 2_000_000}},
    "padding to a billion": {
        "padding": {
            "strategy": {"Fixed": 1_000_000_000}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "<pad>",
        }
    },
    "a template of a hundred thousand tokens": {
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}] * 100_000,
            "pair": [],
            "special_tokens": {"<bos>": {"id": "<bos>", "ids": [1], "tokens": ["<bos>"]}},
        }
    },
    "a decoder that writes gigabytes": {
        "decoder": {"type": "Sequence", "decoders": [replace({"String": "a"}, "a" * 1000) for _ in range(4)]}
    },
    "thirty thousand tokens besides the vocabulary": {
        "added_tokens": [
            {
                "id": 320 + i, "content": f"<{i}>", "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True,
            }
            for i in range(30_000)
        ]
    },
    "an unknown kind": {"pre_tokenizer": {"type": "Program", "command": "true"}},
    "sequences in sequences": {"normalizer": None},
    "a charsmap that is none": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA/////w=="}},
}  # fmt: skip
for _ in range(200):
    TOKENIZERS["sequences in sequences"] = {
        "normalizer": {"type": "Sequence", "normalizers": [TOKENIZERS["sequences in sequences"]["normalizer"]]}
    }


@pytest.mark.parametrize("case", TOKENIZERS)
def test_tokenizers(folder, case, capfd):
    change(folder / "tokenizer.json", **TOKENIZERS[case])
    refusal(lambda: load(folder), str(folder))
    assert capfd.readouterr().err == ""


def test_the_tokenizer_of_another_model_is_tried_too(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other")
    change(other / "tokenizer.json", **TOKENIZERS["a normalizer with a long text"])
    refusal(lambda: load_model(str(folder), tokenizer_of=str(other)), str(other / "tokenizer.json"))


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages }}{% for i in range(99999) %}{% for i in range(99999) %}{% endfor %}{% endfor %}",
        "{{ messages }}{{ 'a' * 10**10 }}",
        "{{ messages }}{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}",
        "{% if messages[0].content == 'prompt' %}{{ 'x' * 10**10 }}{% endif %}{{ messages[0].content }}",
        "{{ messages[0].content }}{{ strftime_now('%' * 10**6) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}{{ messages }}",
        "{{ lipsum.__globals__['os'].system('true') }}{{ messages }}",
        "{{ lipsum(n=10**8) }}{{ messages }}",
        "{{ 'x'.center(10**10) }}{{ messages }}",
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}{{ messages }}",
        "{% include '/etc/passwd' %}{{ messages }}",
    ],
)
def test_chat_templates(folder, template):
    (folder / "chat_template.jinja").write_text(template)
    loaded = load(folder)
    refusal(lambda: with_chat(loaded, ChatSettings()), str(folder), "chat template")


@pytest.mark.parametrize(
    "template",
    [5, {"default": {"a": 1}}, [{"name": "tool_use", "template": "{{ messages }}"}]],
    ids=str,
)
def test_chat_templates_that_are_none(folder, template):
    (folder / "chat_template.jinja").unlink(missing_ok=True)
    change(folder / "tokenizer_config.json", chat_template=template)

    def start():
        with_chat(load(folder), ChatSettings())

    refusal(start, str(folder))


def rewrite_header(path, edit):
    """Change the header of a safetensors file, which may then be wrong in any way."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    new = edit(header)
    text = new if isinstance(new, bytes) else json.dumps(new if new is not None else header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


def entry(**changes):
    """A change of the first tensor."""

    def edit(header):
        name = sorted(set(header) - {"__metadata__"})[0]
        header[name] |= changes

    return edit


HEADERS = {
    "a shape that is larger than its bytes": entry(shape=[1 << 30, 1 << 10]),
    "a shape whose product overflows": entry(shape=[1 << 33, 1 << 33]),
    "a shape with a size of zero": entry(shape=[0, 1 << 62]),
    "a negative shape": entry(shape=[-1, 4]),
    "a shape of text": entry(shape=["320", "32"]),
    "a shape of floats": entry(shape=[320.0, 32.0]),
    "a shape that is none": entry(shape=None),
    "a deep shape": lambda header: (json.dumps(header)[:-1] + ', "x": ' + deep(100_000) + "}").encode(),
    "an unknown dtype": entry(dtype="F99"),
    "a dtype of another size": entry(dtype="F64"),
    "a dtype that is a list": entry(dtype=["F32"]),
    "places in reverse": entry(data_offsets=[100, 0]),
    "places beyond the end": entry(data_offsets=[0, 1 << 60]),
    "three places": entry(data_offsets=[0, 1, 2]),
    "tensors that overlap": lambda header: {
        **header,
        **{f"x{i}": next(value for key, value in header.items() if key != "__metadata__") for i in range(1000)},
    },
    "thirty thousand empty tensors": lambda header: {
        **header,
        **{f"model.layers.{i}.x": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(30_000)},
        "x": {"dtype": "F32", "shape": [1], "data_offsets": [8, 0]},
    },
    "bytes that belong to none": lambda header: {
        key: value for key, value in header.items() if key == "__metadata__" or value["data_offsets"][0] > 0
    },
    "no JSON": lambda header: b"{" * 1000,
    "no object": lambda header: b"[1]",
    "a number of five thousand digits": lambda header: b'{"x": {"dtype": "F32", "shape": [1' + b"0" * 5000 + b"]}}",
}


@pytest.mark.parametrize("case", HEADERS)
def test_headers_of_weights(folder, case):
    rewrite_header(folder / "model.safetensors", HEADERS[case])
    refusal(lambda: load(folder), "model.safetensors")


@pytest.mark.parametrize("length", [0, 1, (1 << 63) - 1, (1 << 64) - 1, 99_000_000])
def test_headers_of_a_length_that_is_wrong(folder, length):
    path = folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
    refusal(lambda: load(folder), "model.safetensors")


def test_an_index_of_files_that_are_not_there(folder):
    (folder / "model.safetensors").rename(folder / "a.safetensors")
    change(folder / "model.safetensors.index.json", weight_map={"x": "a.safetensors", "y": "b.safetensors"})
    refusal(lambda: load(folder), "b.safetensors")


def write_adapter(folder, tensors=None, **changes):
    """A LoRA adapter of the tiny model's first query projection, with one thing wrong."""
    folder.mkdir()
    stem = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    good = {f"{stem}A.weight": torch.ones(2, 32), f"{stem}B.weight": torch.ones(32, 2)}
    if tensors is not None:
        good = {stem + name if name in {"A.weight", "B.weight"} else name: value for name, value in tensors.items()}
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config | changes))
    save_file(good, folder / "adapter_model.safetensors")
    return folder


def test_the_adapter_that_all_of_them_are_made_from_is_attached(tiny_model_dir, tmp_path):
    # What PEFT would import, fetch or evaluate is not asked for.
    folder = write_adapter(
        tmp_path / "a",
        auto_mapping={"base_model_class": "system", "parent_library": "os"},
        base_model_name_or_path="owner/name",
        target_modules="(a+)+$",
        rank_pattern={"(a+)+$": 1 << 40},
        r=1 << 40,
        revision="main",
    )
    assert LoraAdapters(folder, str(tiny_model_dir), device="cpu").language_model.model.peft_config["default"].r == 2


ADAPTERS = {
    "a rank of a million": ({"A.weight": torch.ones(1_000_000, 1), "B.weight": torch.ones(32, 2)}, {}),
    "ranks that differ": ({"A.weight": torch.ones(2, 32), "B.weight": torch.ones(32, 3)}, {}),
    "a width of another model": ({"A.weight": torch.ones(2, 64), "B.weight": torch.ones(32, 2)}, {}),
    "half of it": ({"A.weight": torch.ones(2, 32)}, {}),
    "a number for a matrix": ({"A.weight": torch.tensor(1.0), "B.weight": torch.ones(32, 2)}, {}),
    "an empty matrix": ({"A.weight": torch.ones(0, 32), "B.weight": torch.ones(32, 0)}, {}),
    "a module that is not there": ({"base_model.model.x.y.lora_A.weight": torch.ones(2, 32)}, {}),
    "no adapter": ({"x": torch.ones(2)}, {}),
    "numbers that are none": ({"A.weight": torch.full((2, 32), torch.nan), "B.weight": torch.ones(32, 2)}, {}),
    "another kind": (None, {"peft_type": "PROMPT_TUNING"}),
    "weights that PEFT computes": (None, {"init_lora_weights": "pissa"}),
    "weights from data": (None, {"init_lora_weights": "eva"}),
    "layers that repeat": (None, {"layer_replication": [[0, 1_000_000]]}),
    "a scale that is none": (None, {"lora_alpha": "1"}),
    "scales by regular expressions": (None, {"alpha_pattern": {"(a+)+$": 3}}),
    "deep settings": (None, {"x": json.loads(deep(500))}),
}


@pytest.mark.parametrize("case", ADAPTERS)
def test_adapters(tiny_model_dir, tmp_path, case):
    tensors, changes = ADAPTERS[case]
    folder = write_adapter(tmp_path / "adapter", tensors, **changes)
    refusal(lambda: LoraAdapters(folder, str(tiny_model_dir), device="cpu"), str(folder))


def test_no_thread_is_left(folder):
    before = threading.active_count()
    change(folder / "config.json", attn_implementation="owner/name")
    refusal(lambda: load(folder))
    assert threading.active_count() == before
