"""Which models come from one source: a column that says so, or names that show it.

Models of a family share data, tokenizer and recipe, so they err alike. Taken as independent, they give intervals that
are too narrow for a model of a family that is not among them. ``family_column`` finds the column of a table,
``family_codes`` numbers its values, ``families_in_names`` reads families off the names where no column says it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.sources.model_sizes import SIZE
from breadth.sources.vocabulary_data import VOCABULARY, plain

_WORDS = VOCABULARY["families"]

#: Names of columns that say where a model comes from, in plain words; the finest division that is common comes first.
FAMILY_COLUMNS: tuple[str, ...] = tuple(_WORDS["columns"])

#: Values that say that the family is not known: each such model counts as a family of its own.
UNKNOWN = frozenset(_WORDS["unknown"])

#: Series of models as a regular expression; those with short names are also parts of other words ("opt" of
#: "optimised"), so no letter may follow.
SERIES = f"{'|'.join(_WORDS['series'])}|(?:{'|'.join(_WORDS['short_series'])})(?![a-z])"

_FIRST_SIZE = re.compile(rf"(?:^|[-_ ]){SIZE}", re.IGNORECASE)
# A version follows its series at once: "Llama-3.1-8B", "qwen2", "phi-1_5"; sizes and dates ("-2407") are none.
_VERSION = r"(?:[-_ ]?(v?\d{1,2}(?:[._]\d{1,2})?)(?![\dxbmBMX]|[._]\d|[kK]\b))?"
_SERIES_IN_NAME = re.compile(rf"(?<![a-z])({SERIES}){_VERSION}", re.IGNORECASE)

#: Share of the names that must lie in families of two or more before names count as showing families.
CLEARLY = 0.5


def family_column(frame: pl.DataFrame, unit: Sequence[str] = ()) -> str | None:
    """The column of a table that says from which family a model comes; None if there is none.

    A column of one of the usual names (``family``, ``base_model``, ``architecture``, ``organisation``...) counts if it
    divides the models: at least two families, and some with more than one model. ``unit`` are columns that name a
    model where it has several rows; all rows of a model must then be of one family.

    >>> family_column(pl.DataFrame({"model": ["a", "b", "c"], "Model family": ["x", "x", "y"]}))
    'Model family'
    """
    names = {plain(name): name for name in reversed(frame.columns) if name not in unit}
    for usual in FAMILY_COLUMNS:
        if usual in names and _divides_models(frame, names[usual], unit):
            return names[usual]
    return None


def _divides_models(frame: pl.DataFrame, column: str, unit: Sequence[str]) -> bool:
    models = frame.select(*unit, column).unique(maintain_order=True) if unit else frame.select(column)
    if unit and models.height > models.select(unit).n_unique():
        return False
    codes = family_codes(models[column].cast(pl.String).to_list())
    families = len(np.unique(codes))
    return 2 <= families < models.height


def names_family(value: str | None) -> bool:
    """Whether a value says from which family a model comes.

    >>> [names_family(value) for value in ("Llama", "Unknown", None)]
    [True, False, False]
    """
    return value is not None and value.strip().lower() not in UNKNOWN


def family_codes(values: Sequence[str | None]) -> npt.NDArray[np.intp]:
    """Families numbered from 0 in order of appearance; a model whose family is not known is one of its own.

    >>> family_codes(["x", "y", None, "x", "unknown"]).tolist()
    [0, 1, 2, 0, 3]
    """
    numbers: dict[str, int] = {}
    codes = []
    for row, value in enumerate(values):
        key = f"known {value}" if names_family(value) else f"row {row}"
        codes.append(numbers.setdefault(key, len(numbers)))
    return np.array(codes, dtype=np.intp)


def family_of_name(name: str) -> str | None:
    """The family that the name of a model shows: a well-known series with its version, or what precedes its size.

    >>> [family_of_name(name) for name in ("meta-llama/Llama-3.1-8B-Instruct", "dolphin-2.9.2-qwen2-7b", "acme-9B-v2")]
    ['llama-3.1', 'qwen-2', 'acme']

    None where a name shows none, as with ``run_1`` or ``baseline``.
    """
    own = name.rpartition("/")[2]
    found = _SERIES_IN_NAME.search(own)
    if found is not None:
        series = re.sub("[-_ ]", "-", found[1].lower())
        version = (found[2] or "").lower().lstrip("v").replace("_", ".")
        return f"{series}-{version}" if version else series
    size = _FIRST_SIZE.search(own)
    if size is None or not size.start():
        return None
    # "acme-v2-9B" and "acme-v1-9B" are one house; without a known series a number may be anything, so it stays.
    return own[: size.start()].lower().replace("_", "-").strip("- ")


def families_in_names(names: Sequence[str]) -> dict[str, list[str]]:
    """Families of two or more different models that names show; empty unless at least half of the names lie in one.

    One family alone is no division, so it does not count either: a study of eight Pythia models is a study of Pythia.
    Repeated names are one model.

    >>> families_in_names(["Qwen2.5-7B", "Qwen2.5-14B", "gemma-2-9b", "gemma-2-27b", "zeta"])
    {'qwen-2.5': ['Qwen2.5-7B', 'Qwen2.5-14B'], 'gemma-2': ['gemma-2-9b', 'gemma-2-27b']}
    """
    models = list(dict.fromkeys(names))
    found: dict[str, list[str]] = {}
    for name in models:
        family = family_of_name(name)
        if family is not None:
            found.setdefault(family, []).append(name)
    together = {family: members for family, members in found.items() if len(members) > 1}
    inside = sum(len(members) for members in together.values())
    alone = len(models) - inside
    if inside < CLEARLY * len(models) or len(together) + alone < 2:
        return {}
    return together
