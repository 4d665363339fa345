"""Where a training run stands, on disk: named tensors in one file that is whole or not there, and never a pickle."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from breadth.records.store import SUM_DIGITS, checksum, set_aside
from breadth.records.tables import write_whole

_STATE = re.compile(rf"^state-(\d+)\.([0-9a-f]{{{SUM_DIGITS}}})\.safetensors$")


def saved_states(folder: Path) -> dict[int, Path]:
    """Steps whose state is there, in order."""
    matches = [(path, _STATE.match(path.name)) for path in (folder.iterdir() if folder.is_dir() else [])]
    return dict(sorted((int(match[1]), path) for path, match in matches if match))


def write_state(folder: Path, step: int, tensors: dict[str, torch.Tensor]) -> Path:
    """Write a state, then delete the older ones: at every instant a whole one is there."""
    folder.mkdir(parents=True, exist_ok=True)
    older = saved_states(folder)
    content = save(tensors)
    path = folder / f"state-{step:06d}.{checksum(content)}.safetensors"
    write_whole(path, lambda temporary: temporary.write_bytes(content))
    for other in older.values():
        if other != path:
            other.unlink(missing_ok=True)
    return path


def read_state(path: Path, aside: Path) -> dict[str, torch.Tensor] | None:
    """Read a state; None, and the file set aside, if it is not what its name says."""
    match = _STATE.match(path.name)
    content = path.read_bytes()
    if match and checksum(content) == match[2]:
        try:
            return load(content)
        except SafetensorError:
            pass
    set_aside(path, aside)
    return None
