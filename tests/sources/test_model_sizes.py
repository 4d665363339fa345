import json
import struct

import pytest

from breadth.sources.model_sizes import size_of_model, size_of_name, size_of_weights, size_text


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("facebook/opt-6.7b", 6.7e9),
        ("pythia-410m-deduped", 410e6),
        ("HuggingFaceTB/SmolLM2-135M", 135e6),
        ("8x7b", 56e9),
        ("Mixtral-8x22B-v0.1", 176e9),
        ("Qwen2.5-1.5B-Instruct", 1.5e9),
        ("stablelm-2-1_6b", 1.6e9),
        ("rwkv-4-1b5", 1.5e9),
        ("open_llama_7b_v2", 7e9),
        ("pythia-1.4b-300b-tokens", 1.4e9),
        ("OLMo-2-1124-7B", 7e9),
        ("bert-base-uncased", 110e6),
        ("openai-community/gpt2-xl", 1.56e9),
        ("gpt2", 124e6),
        ("models/gemma3-270m/", 270e6),
    ],
)
def test_names_tell_the_size(name, size):
    assert size_of_name(name) == size


@pytest.mark.parametrize(
    "name", ["run-01", "gpt-4", "claude-2", "bloom", "model-2407", "seed 3", "", "v1.5", "Qwen1.5"]
)
def test_other_names_do_not(name):
    assert size_of_name(name) is None


def test_weights_of_a_local_model_count_more_than_its_name(tmp_path):
    folder = tmp_path / "my-7b"
    folder.mkdir()
    assert size_of_model(str(folder)) == 7e9
    for part, shape in enumerate(((10, 20), (5,))):
        tensor = {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}
        header = json.dumps({"__metadata__": {"format": "pt"}, f"w{part}": tensor}).encode()
        (folder / f"part-{part}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    assert size_of_weights(folder) == 205
    assert size_of_model(str(folder)) == 205
    (folder / "part-1.safetensors").write_bytes(b"\0\0")
    assert size_of_weights(folder) is None
    assert size_of_model(str(folder)) == 7e9


def test_sizes_as_people_write_them():
    assert [size_text(size) for size in (70e6, 1e9, 6.7e9, 56e9)] == ["70M", "1B", "6.7B", "56B"]
