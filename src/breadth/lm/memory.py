"""How much memory there is, and how much kept trunk states take."""

from __future__ import annotations

import os

from breadth.lm.body import Body


def available_memory() -> int:
    """Bytes of memory that are free to use."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            found = [line for line in file if line.startswith("MemAvailable:")]
        return int(found[0].split()[1]) * 1024
    except (OSError, IndexError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def trunk_bytes(body: Body, tokens: int) -> int:
    """Bytes that the trunk's states of so many tokens take."""
    weight = body.head.weight
    size: int = tokens * body.model.config.get_text_config().hidden_size * weight.element_size()
    return size
