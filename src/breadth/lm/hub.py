"""The Hugging Face Hub, asked once and briefly before anything is loaded from it."""

from __future__ import annotations

import time
from typing import Any

from breadth.errors import InputError
from breadth.lm.extra import first_line

#: Seconds to wait for the Hub's answer.
PATIENCE = 10.0


def is_cached_only(name: str) -> bool:
    """Whether a Hub model must come from the Hub's cache on this machine, because the Hub cannot be reached.

    A model that is neither reachable nor cached, or that the Hub does not give, is one clear line. Loading it
    outright would retry for some twenty seconds before it said so.
    """
    from huggingface_hub import HfApi, constants
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    began = time.perf_counter()
    if constants.HF_HUB_OFFLINE:
        reason = "HF_HUB_OFFLINE is set"
    else:
        try:
            HfApi().model_info(name, timeout=PATIENCE)
        except GatedRepoError as error:
            raise InputError(
                f"{name}: its owner gives access on request; ask for it on the model's page, then `hf auth login`"
            ) from error
        except RepositoryNotFoundError as error:
            raise InputError(
                f"{name}: the Hub has no such public model, and there is no directory of this name here; "
                "check the spelling, or `hf auth login` for a private one"
            ) from error
        except Exception as error:  # whatever the network library raises means the same: no answer
            reason = f"{first_line(error)}, after {time.perf_counter() - began:.0f} s"
        else:
            return False
    if _cached(name):
        return True
    raise InputError(
        f"{name}: {constants.ENDPOINT} cannot be reached ({reason}), the Hub's cache on this machine does not hold the "
        f"model, and there is no directory {name!r}; copy the model here and give its directory, or use an embedded "
        "model (`breadth ls models`)"
    )


def _cached(name: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    found: Any = try_to_load_from_cache(name, "config.json")
    return isinstance(found, str)
