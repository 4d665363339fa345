import pytest
import torch

from breadth.lm.states import read_state, saved_states, write_state

TENSORS = {"step": torch.tensor(3), "weight/a.b": torch.arange(6.0).reshape(2, 3)}


def test_what_is_written_is_read(tmp_path):
    path = write_state(tmp_path / "run", 3, TENSORS)
    assert saved_states(tmp_path / "run") == {3: path}
    found = read_state(path, tmp_path / "aside")
    assert set(found) == set(TENSORS)
    assert all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)


def test_no_directory_no_states(tmp_path):
    assert saved_states(tmp_path / "nowhere") == {}


def test_foreign_files_are_no_states(tmp_path):
    for name in ("state-000001.safetensors", "state-1.0123456789abcdef.safetensors.tmp", "step-000001.parquet"):
        (tmp_path / name).write_bytes(b"x")
    assert saved_states(tmp_path) == {}


@pytest.mark.parametrize("fault", ["torn", "flipped", "empty", "longer"])
def test_a_state_that_is_not_whole_is_set_aside(tmp_path, fault):
    path = write_state(tmp_path / "run", 3, TENSORS)
    content = bytearray(path.read_bytes())
    if fault == "flipped":
        content[-3] ^= 1
    path.write_bytes({"torn": content[:-9], "empty": b"", "longer": content + b"\0"}.get(fault, content))
    assert read_state(path, tmp_path / "aside") is None
    assert not path.exists()
    assert len(list((tmp_path / "aside").iterdir())) == 1
    assert saved_states(tmp_path / "run") == {}


def test_sound_bytes_that_are_no_tensors_are_set_aside(tmp_path):
    from breadth.records.store import checksum

    content = b"no tensors at all"
    path = tmp_path / f"state-000001.{checksum(content)}.safetensors"
    path.write_bytes(content)
    assert read_state(path, tmp_path / "aside") is None
    assert not path.exists()


def test_older_states_go_once_the_new_one_is_there(tmp_path, monkeypatch):
    from breadth.lm import states

    first = write_state(tmp_path, 1, TENSORS)
    write = states.write_whole

    def fails(path, fill):
        assert first.exists()
        raise OSError("no space left")

    monkeypatch.setattr(states, "write_whole", fails)
    with pytest.raises(OSError, match="no space"):
        write_state(tmp_path, 2, TENSORS)
    assert saved_states(tmp_path) == {1: first}

    def watched(path, fill):
        write(path, fill)
        assert first.exists()
        assert path.exists()

    monkeypatch.setattr(states, "write_whole", watched)
    second = write_state(tmp_path, 2, TENSORS)
    assert saved_states(tmp_path) == {2: second}
    assert not first.exists()


def test_the_same_state_twice_stays(tmp_path):
    first = write_state(tmp_path, 1, TENSORS)
    assert write_state(tmp_path, 1, TENSORS) == first
    assert first.exists()
