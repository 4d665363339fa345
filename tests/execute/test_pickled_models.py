"""Studies of a model whose weights are pickled give what they give with its weights in safetensors."""

import shutil
from pathlib import Path

import pytest
import torch

import breadth
from breadth.errors import InputError
from breadth.execute import Events, measurable, run
from breadth.execute.cluster.resources import weight_bytes
from breadth.execute.cluster.shipping import ShippedData, local_files
from breadth.execute.plan import plan_study
from breadth.lm import convert_pickled
from breadth.study import read_study_file

from ..families import write_family
from .conftest import LORA, parts


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def opt(tmp_path):
    """A tiny OPT as the Hub has it."""
    return write_family(tmp_path / "opt", "opt", pickled=True)


def as_safetensors(folder):
    """Replace the pickled weights of a directory."""
    shutil.copyfile(convert_pickled(folder) / "model.safetensors", folder / "model.safetensors")
    (folder / "pytorch_model.bin").unlink()


@pytest.fixture
def pickled_study(study, tiny, opt):
    """A study file of it, with the key or without."""

    def write(weights="bin"):
        entry = f"[{{name: {opt}, weights: {weights}}}]"
        return study(LORA, [(f"models: {tiny}", f"models: {entry}")], name=f"{weights}.yaml")

    return write


class Notes(Events):
    """Keeps what is said."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def test_training_and_evaluation(pickled_study, opt, tmp_path):
    with pytest.raises(InputError, match=r"set weights: bin for this model"):
        run(pickled_study("safetensors"), into=tmp_path / "without")
    events = Notes()
    run(pickled_study(), into=tmp_path / "pickled", events=events)
    assert sum("converted into safetensors" in note for note in events.notes) == 2  # once for each run
    as_safetensors(opt)
    run(pickled_study("safetensors"), into=tmp_path / "plain")
    assert parts(tmp_path / "pickled") == parts(tmp_path / "plain") != {}


def test_hostile_weights_stop_a_study(pickled_study, opt, tmp_path, command):
    class Evil:
        def __reduce__(self):
            return Path.mkdir, (tmp_path / "code-ran",)

    torch.save({"w": Evil()}, opt / "pytorch_model.bin")
    out = command("run", pickled_study(), "--into", tmp_path / "study")
    assert out.returncode == 2
    assert "Traceback" not in out.stderr
    assert "pytorch_model.bin: would call " in out.stderr
    assert not (tmp_path / "code-ran").exists()


def test_adapters_of_a_pickled_base(opt, tmp_path, write_adapters):
    as_plain = write_family(tmp_path / "plain", "opt")
    adapters = write_adapters(as_plain, tmp_path / "lora", steps=(10, 20))
    given = {"on": ("plain", "negation"), "items": 8}
    breadth.evaluate(adapters, into=tmp_path / "study", base=opt, weights="bin", **given)
    breadth.evaluate(adapters, into=tmp_path / "beside", base=as_plain, **given)
    first, second = (sorted(parts(tmp_path / name).values()) for name in ("study", "beside"))
    assert first == second != []
    with pytest.raises(InputError, match="weights: bin"):
        breadth.evaluate(adapters, into=tmp_path / "without", base=opt, **given)
    # Another base under the same path is noticed, although it is not loaded.
    write_family(opt, "opt", seed=1, pickled=True)
    with pytest.raises(InputError, match="weights are not those that were evaluated"):
        breadth.evaluate(adapters, into=tmp_path / "study", base=opt, weights="bin", **given)


def test_sizes_are_those_of_the_pickles(opt, monkeypatch):
    size = (opt / "pytorch_model.bin").stat().st_size
    assert weight_bytes(str(opt)) is None
    assert weight_bytes(str(opt), "bin") == size
    monkeypatch.setattr("breadth.execute.estimate.LARGE", size - 1)
    assert measurable(str(opt), "bin") == "too large to load for an estimate"
    monkeypatch.setattr("breadth.execute.estimate.LARGE", size)
    assert measurable(str(opt), "bin") is None


def test_workers_get_the_conversion(opt, pickled_study, tmp_path):
    from breadth.execute.cluster.executor import chains_of
    from breadth.execute.cluster.worker import Worker

    files = local_files(str(opt), "bin")
    assert files.folder == str(convert_pickled(opt).resolve())
    assert not any(name.endswith(".bin") for name in files.sizes)
    plan = plan_study(read_study_file(pickled_study()), tmp_path / "s")
    chains = chains_of(plan, {str(opt): "any"})
    data = ShippedData.of([unit.run for unit in plan.units], plan.study_data)
    groups = {chain.run: chain.group for chain in chains}
    run, cells = chains[0].run, chains[0].cells
    sent = Worker(data, groups, 1, {str(opt): files})
    alone = Worker(data, groups, 1)  # as for a model of the Hub
    assert sent.evaluate(run, 0, cells, None).pieces == alone.evaluate(run, 0, cells, None).pieces
