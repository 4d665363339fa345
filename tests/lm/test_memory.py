import torch

from breadth.lm import memory
from breadth.lm.batches import make_batch
from breadth.lm.body import Body
from breadth.lm.memory import available_memory


def test_states_take_what_was_said(tiny):
    body = Body(tiny().model, 2)
    batch = make_batch([[5, 6, 7], [8, 9, 10]], [0, 1], "cpu")
    states = body.trunk(batch)
    assert body.trunk_bytes(batch.ids.numel()) == states.numel() * states.element_size()


def test_half_precision_takes_half(tiny):
    body = Body(tiny().model.to(torch.bfloat16), 2)
    assert body.trunk_bytes(10) == 10 * 32 * 2


def test_memory_of_the_machine(tmp_path, monkeypatch):
    file = tmp_path / "meminfo"
    monkeypatch.setattr(memory, "_MEMINFO", file)
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    assert available_memory() > 2**20  # the file is not there: asked otherwise
    file.write_text("MemTotal: 4000 kB\nMemAvailable: 3000 kB\n")
    assert available_memory() == 3000 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert available_memory() == 3000 * 1024
    (tmp_path / "memory.max").write_text("1500\n")
    assert available_memory() == 500
