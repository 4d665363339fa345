"""What workers get, and where there is room for them."""

import dataclasses

import pytest
import torch
import transformers
from safetensors.torch import load_file

from breadth.errors import InputError
from breadth.execute.cluster.resources import GB, Node, Shape, room, shape_of, shapes_of, weight_bytes
from breadth.study import expand, read_study_file

from ..conftest import FULL, LORA

CPU, GPU = Node("c", 8, 0, 32 * GB), Node("g", 16, 4, 64 * GB)


def file_and_run(study, more="", changes=()):
    file = read_study_file(study(LORA + more, changes))
    return file, expand(file)[0]


def test_defaults_by_size(study, monkeypatch):
    file, run = file_and_run(study)
    assert shape_of(file, run, has_gpus=False).cpus == 1
    for size, share in ((0.5 * GB, 0.25), (2 * GB, 0.5), (20 * GB, 1.0), (None, 1.0)):
        monkeypatch.setattr("breadth.execute.cluster.resources.weight_bytes", lambda *model, size=size: size)
        assert shape_of(file, run, has_gpus=True).gpus == share
        assert shape_of(file, run, has_gpus=False).gpus == 0
    monkeypatch.setattr("breadth.execute.cluster.resources.weight_bytes", lambda *model: 2 * GB)
    assert 4 * GB < shape_of(file, run, has_gpus=False).memory < 8 * GB


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_full_fine_tuning_takes_weights_gradients_and_moments_in_float32(study, tiny, dtype, monkeypatch):
    """Whatever the precision of the weights on disk: four copies of four bytes a weight."""
    monkeypatch.setattr("breadth.execute.cluster.resources.PROCESS", 0)
    folder = tiny.parent / f"stored-{dtype}"
    if not folder.exists():
        model = transformers.AutoModelForCausalLM.from_pretrained(tiny, dtype=getattr(torch, dtype))
        model.save_pretrained(folder)
    weights = sum(tensor.numel() for tensor in load_file(folder / "model.safetensors").values())
    file = read_study_file(study(FULL, [(str(tiny), str(folder))]))
    assert shape_of(file, expand(file)[0], has_gpus=False).memory == pytest.approx(16 * weights, rel=1e-3)
    file = read_study_file(study(LORA, [(str(tiny), str(folder))]))
    assert shape_of(file, expand(file)[0], has_gpus=False).memory < 16 * weights


def test_what_the_study_file_says_comes_first(study, tiny):
    file, run = file_and_run(study, "resources: {{gpus: 2, cpus: 3, memory: 5}}\n")
    assert shape_of(file, run, has_gpus=True) == Shape(3, 2, 5 * GB)
    assert shape_of(file, run, has_gpus=True, threads=4).cpus == 4
    own = [(f"models: {tiny}", f"models: [{{name: {tiny}, resources: {{gpus: 0.5}}}}]")]
    file, run = file_and_run(study, "resources: {{gpus: 2, memory: 5}}\n", own)
    assert shape_of(file, run, has_gpus=True) == Shape(1, 0.5, 5 * GB)


def test_a_model_on_the_cpu_by_its_recipe_takes_no_gpu(study):
    file, run = file_and_run(study, changes=[("method: lora", "method: lora, device: cpu")])
    assert shape_of(file, run, has_gpus=True).gpus == 0


def test_resources_change_no_run(study):
    plain, with_resources = (expand(read_study_file(study(LORA + more))) for more in ("", "resources: {{gpus: 1}}\n"))
    assert [run.name for run in plain] == [run.name for run in with_resources]


def test_models_share_workers_where_that_takes_no_room(study, monkeypatch):
    """A node of 8 processors and 32 GB holds 8 workers of up to 4 GB, and fewer larger ones."""
    file, run = file_and_run(study)
    memory = {"small": 2 * GB, "medium": 3 * GB, "large": 20 * GB}
    monkeypatch.setattr(
        "breadth.execute.cluster.resources.shape_of", lambda file, run, *_: Shape(1, 0, memory[run.model])
    )
    runs = [dataclasses.replace(run, model=name, label=name) for name in memory]
    shapes = shapes_of(file, runs, [CPU])
    assert [shape.memory for shape in shapes.values()] == [3 * GB, 3 * GB, 20 * GB]
    assert shapes_of(file, runs[:1], [CPU]) == {"small": Shape(1, 0, 2 * GB)}
    roomy = Node("r", 8, 0, 400 * GB)
    assert {shape.memory for shape in shapes_of(file, runs, [roomy]).values()} == {20 * GB}
    assert len(set(shapes_of(file, runs, [roomy, CPU]).values())) == 2


def test_refused_if_no_node_can_ever_hold_a_worker(study):
    file, run = file_and_run(study, "resources: {{gpus: 8}}\n")
    with pytest.raises(
        InputError, match=r"a worker needs 1 CPU, 8 GPUs.* no node .*\(at most 16 CPUs, 4 GPUs and 64 GB"
    ):
        shapes_of(file, [run], [CPU, GPU])
    with pytest.raises(InputError, match="at most nothing"):
        shapes_of(file, [run], [])


def test_refused_in_a_study_file(study):
    with pytest.raises(InputError, match=r"resources.gpus: -1.* is too small"):
        read_study_file(study(LORA + "resources: {{gpus: -1}}\n"))
    with pytest.raises(InputError, match=r"resources.ram: unknown key"):
        read_study_file(study(LORA + "resources: {{ram: 1}}\n"))


def test_room():
    big, small = Shape(1, 2), Shape(1, 0.5)
    shapes = {"big": big, "small": small}
    assert room(shapes, {"big": 9}, [GPU]) == {("g", "big"): 2}
    assert room(shapes, {"small": 99}, [CPU, GPU]) == {("g", "small"): 8}
    mixed = room(shapes, {"big": 1, "small": 99}, [GPU])
    assert mixed == {("g", "big"): 1, ("g", "small"): 4}
    assert room(shapes, {"big": 0}, [GPU]) == {}
    assert Shape(3).fits(CPU) == 2
    assert Shape(0.1).fits(Node("n", 0.3, 0, 0)) == 3


def test_the_size_of_a_model(tiny):
    assert weight_bytes(str(tiny)) == sum(path.stat().st_size for path in tiny.glob("*.safetensors"))
    assert weight_bytes("smollm2-135m") == 541_700_000
    assert weight_bytes("nobody/no-such-model") is None
