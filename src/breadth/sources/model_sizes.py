"""How large a model is: by its name ("opt-6.7b", "8x7b"), by a well-known name without a number, or by its weights."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

from breadth.sources.vocabulary_data import VOCABULARY

#: How large a model is, as names say it: 7b, 1.3B, 125m, 8x7b, 1_6b, 1b5, 4x7B.
SIZE = r"(?:\d+x)?\d+(?:[._]\d+)?[bm]\d?(?![a-z0-9])"

_SIZE_PARTS = re.compile(rf"(?<![a-z0-9.])(?={SIZE})(?:(\d+)x)?(\d+(?:[._]\d+)?)([bm])(\d?)", re.IGNORECASE)
_MULTIPLES = {"b": 1e9, "m": 1e6}

#: Parameters of models whose names give a word in place of a number, by what the name begins with. Longer names come
#: first, since "gpt2" begins "gpt2-xl".
_NAMED_SIZES: list[tuple[str, float]] = sorted(
    VOCABULARY["model_sizes"].items(), key=lambda entry: len(entry[0]), reverse=True
)


def size_of_name(name: str) -> float | None:
    """How many parameters a model has by its name; None where the name does not say.

    >>> [size_of_name(name) for name in ("facebook/opt-6.7b", "pythia-410m-deduped", "Mixtral-8x7B", "rwkv-1b5")]
    [6700000000.0, 410000000.0, 56000000000.0, 1500000000.0]

    A mixture of experts counts as all of its experts. The first size of a name is the model's own: later ones are
    those of data ("pythia-1.4b-300b-tokens") or of a teacher.
    """
    own = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    found = _SIZE_PARTS.search(own)
    if found is not None:
        experts, number, unit, decimal = found.groups()
        size = float(number.replace("_", "."))
        if decimal:
            # "1b5" is 1.5 billion.
            size += float(decimal) / 10
        return float(round(size * _MULTIPLES[unit.lower()] * int(experts or 1)))
    lowered = own.lower()
    for start, size in _NAMED_SIZES:
        if lowered.startswith(start):
            return size
    return None


def size_of_weights(folder: str | Path) -> float | None:
    """How many numbers the safetensors files of a local model hold; None where there are none.

    Only the headers are read.
    """
    total = 0
    files = sorted(Path(folder).glob("*.safetensors"))
    for file in files:
        try:
            with file.open("rb") as stream:
                (length,) = struct.unpack("<Q", stream.read(8))
                header = json.loads(stream.read(min(length, 100_000_000)))
            shapes = [entry["shape"] for name, entry in header.items() if name != "__metadata__"]
        except (OSError, ValueError, struct.error, TypeError, KeyError, AttributeError):
            return None
        for shape in shapes:
            count = 1
            for side in shape:
                count *= int(side)
            total += count
    return float(total) if total else None


def size_of_model(model: str) -> float | None:
    """How many parameters a model has: by its weights if it is a local directory, else by its name."""
    try:
        local = Path(model).is_dir()
    except OSError:
        local = False
    if local:
        counted = size_of_weights(model)
        if counted is not None:
            return counted
    return size_of_name(model)


def size_text(size: float) -> str:
    """A number of parameters as people write it.

    >>> [size_text(size) for size in (6.7e9, 410e6, 1e9, 56e9)]
    ['6.7B', '410M', '1B', '56B']
    """
    unit, divisor = ("B", 1e9) if size >= 1e9 else ("M", 1e6)
    return f"{size / divisor:.3g}{unit}"
