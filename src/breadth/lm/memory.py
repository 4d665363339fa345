"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path

import torch

#: What is assumed to be free where the system does not say.
UNKNOWN = 2 * 2**30

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def available_memory(device: torch.device | str = "cpu") -> int:
    """Bytes of memory that are free to use on a device; a container's own limit counts."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    return min(_machine(), _container())


def _machine() -> int:
    try:
        found = [line for line in _MEMINFO.read_text(encoding="ascii").splitlines() if line.startswith("MemAvailable:")]
        return int(found[0].split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return UNKNOWN


def _container() -> int:
    """What a control group leaves; without a limit there is no end to it."""
    try:
        limit, used = (int((_GROUP / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no control group of version 2, or "max"
        return 2**62
    return max(limit - used, 0)
