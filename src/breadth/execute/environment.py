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

    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "breadth": metadata.version("breadth"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpus": gpus,
        "packages": versions,
    }
