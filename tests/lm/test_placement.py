import psutil

from breadth.lm import placement
from breadth.lm.placement import available_memory


def test_free_memory_within_the_limit_of_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "_CGROUP", tmp_path)
    free = available_memory()
    assert 2**20 < free <= psutil.virtual_memory().total
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert available_memory() > 2**20
    (tmp_path / "memory.max").write_text("1500\n")
    assert available_memory() == 500
    (tmp_path / "memory.max").write_text("900\n")
    assert available_memory() == 0
