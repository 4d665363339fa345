import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from breadth.errors import InputError
from breadth.lm.weight_files import group_sums, layer_of_tensor, read_header

TENSORS = {
    "model.embed.weight": torch.ones(4, 2),
    "model.layers.0.mlp.weight": torch.zeros(2, 2),
    "model.layers.1.mlp.weight": torch.arange(4.0).reshape(2, 2),
}


def write(path, **changes):
    save_file({**TENSORS, **{name.replace("__", "."): value for name, value in changes.items()}}, path)
    return path


def test_a_header_says_what_is_in_the_file(tmp_path):
    header = read_header(write(tmp_path / "a.safetensors"))
    assert {name: each.shape for name, each in header.items()} == {k: tuple(v.shape) for k, v in TENSORS.items()}


def test_every_file_that_is_cut_off_is_not_whole(tmp_path):
    content = write(tmp_path / "a.safetensors").read_bytes()
    cut = tmp_path / "cut.safetensors"
    for length in (0, 5, 8, 40, len(content) - 1):
        cut.write_bytes(content[:length])
        assert read_header(cut) is None


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file whose read fails")
def test_a_header_that_the_system_does_not_let_us_read_is_one_message():
    """Unlike one that it does not let us open, the error names no file."""
    with pytest.raises(InputError, match="/proc/self/mem: cannot be read as safetensors"):
        read_header(Path("/proc/self/mem"))


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"nonsense",
        b'{"a": 1}',
        json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-8, 4]}}).encode(),
    ],
)
def test_what_is_not_a_safetensors_file_is_one_message(tmp_path, header):
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(InputError, match=r"a\.safetensors"):
        read_header(path)


def test_a_header_of_absurd_length_is_refused_unread(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"\xff" * 64)
    with pytest.raises(InputError, match="not a safetensors file"):
        read_header(path)


def test_only_the_layer_that_differs_has_another_sum(tmp_path):
    one = group_sums([write(tmp_path / "a.safetensors")])
    two = group_sums([write(tmp_path / "b.safetensors", model__layers__1__mlp__weight=torch.ones(2, 2))])
    assert {group for group in one if one[group] != two[group]} == {"model.layers.1"}


def test_shape_and_name_count_too(tmp_path):
    one = group_sums([write(tmp_path / "a.safetensors")])
    two = group_sums([write(tmp_path / "b.safetensors", model__layers__0__mlp__weight=torch.zeros(4))])
    assert one["model.layers.0"] != two["model.layers.0"]


def test_an_adapter_that_adds_nothing_counts_as_none(tmp_path):
    stem = "base_model.model.model.layers.0.q.lora_{}.weight"

    def sums(a, b, **more):
        save_file({stem.format("A"): a, stem.format("B"): b, **more}, tmp_path / "a.safetensors")
        return group_sums([tmp_path / "a.safetensors"])

    assert sums(torch.ones(2, 4), torch.zeros(4, 2)) == sums(torch.zeros(2, 4), torch.zeros(4, 2)) == {}
    assert set(sums(torch.ones(2, 4), torch.ones(4, 2))) == {"model.layers.0"}
    magnitude = {"base_model.model.model.layers.0.q.lora_magnitude_vector": torch.ones(4)}
    assert set(sums(torch.ones(2, 4), torch.zeros(4, 2), **magnitude)) == {"model.layers.0"}


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("transformer.h.11.attn.c_attn.weight", "transformer.h.11"),
        ("model.layers.3.mlp.experts.7.up.weight", "model.layers.3"),
        ("base_model.model.model.layers.3.q.lora_A.weight", "model.layers.3"),
        ("base_model.model.model.embed_tokens.lora_embedding_A", "model.embed_tokens"),
        ("model.norm.weight", "model.norm"),
    ],
)
def test_groups_are_layers_or_modules(name, group):
    assert layer_of_tensor(name) == group
