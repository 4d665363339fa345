"""What a run was made with: versions and hardware, for the record."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

PACKAGES = ("torch", "transformers", "peft", "accelerate", "numpy", "polars", "tokenizers", "safetensors")


def environment() -> dict[str, Any]:
    """Versions of what computes, and on what."""
    import torch

    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "breadth": _version("breadth"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str:
    """The installed version; breadth itself may run from its source without being installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
