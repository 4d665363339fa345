"""The ``lm`` extra: one clear message if it is missing, and no chatter from its libraries."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from breadth.errors import InputError, listed


def require_lm(*modules: str) -> None:
    """Raise an error if libraries of the ``lm`` extra are missing (by default torch and transformers)."""
    # Where the package ``kernels`` is installed, transformers fetches code from the Hub for some models by itself. It
    # asks this variable when it is imported; who wants that code can set it.
    os.environ.setdefault("USE_HUB_KERNELS", "NO")
    missing = [name for name in modules or ("torch", "transformers") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"language models need {listed(missing)}; install with: pip install 'breadth[lm]'")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep advice, warnings and progress bars of transformers and the Hub off the terminal; errors still raise."""
    hub: Any = importlib.import_module("huggingface_hub.utils")
    transformers_logging: Any = importlib.import_module("transformers.utils.logging")

    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    hub_bars_off = hub.are_progress_bars_disabled()
    # The Hub's own logger reports every retry; the exception at the end is enough.
    hub_logger = logging.getLogger("huggingface_hub")
    hub_level = hub_logger.level
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    hub_logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()
        if hub_bars_off:
            hub.disable_progress_bars()
        hub_logger.setLevel(hub_level)
