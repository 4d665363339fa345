"""Reference models: the complete matrix that short forms learn from, and files that hold it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from breadth.advice.families import find_families, limit_to_families
from breadth.advice.short_form import Indices, Matrix
from breadth.comparison import describe_left_out, final_groups, models_with_common_items
from breadth.errors import InputError, listed
from breadth.records import ROUND_SHARES, Study, atomic_write
from breadth.results.table_writing import check_target
from breadth.sources import read_arrays

#: Reference models that advice needs.
FEWEST_MODELS = 20

#: Arrays of a file that holds a short form.
ARRAYS = ("R", "models", "items", "testset", "strata", "chosen")


@dataclass(frozen=True, eq=False)
class References:
    """Models that answered all of some items, right or wrong; items are named as in the study.

    ``family`` numbers the families of the models from 0, and ``column`` is what names them; None where models are
    taken as independent.
    """

    matrix: Matrix
    models: tuple[str, ...]
    items: tuple[str, ...]
    testsets: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    family: Indices | None = None
    column: str | None = None

    @property
    def testset(self) -> Indices:
        """The test set of every item, numbered from 0."""
        return np.unique(np.array(self.testsets), return_inverse=True)[1].astype(np.intp)


def reference_models(study: Study, cluster: str | None = None) -> References:
    """The models of a study, one run each, and the items that all of them answered.

    Models that answered less than nine tenths of what the median model answered are left out. Runs of one model count
    once: repeats would predict each other and make errors look small. ``cluster`` is the column that names families, or
    ``none``; by default it is recognised.
    """
    if study.matrix.dtype != np.int8:
        raise InputError(
            f"{study.name}: answers are shares; a subset takes right and wrong answers (1 or 0). {ROUND_SHARES}"
        )
    groups = final_groups(study)
    rows = np.array([group.rows[0] for group in groups], dtype=np.intp)
    answered = study.answered[rows]
    nobody = np.flatnonzero(~study.answered.any(axis=0))
    if len(nobody):
        some = listed([study.item_names[j] for j in nobody], 3)
        raise InputError(f"{study.name}: {len(nobody)} questions were answered by nobody ({some}); remove them")
    keep = models_with_common_items(answered)
    columns = np.flatnonzero(answered[keep].all(axis=0))
    if keep.sum() < FEWEST_MODELS or not len(columns):
        common = f", and {len(columns):,} questions were answered by all of them" if keep.sum() >= FEWEST_MODELS else ""
        raise InputError(
            f"{study.name}: has {int(keep.sum())} models with enough answers{common}; advice that learns from "
            f"reference models takes at least {FEWEST_MODELS} that answered the same questions"
        )
    warnings = list(study.warnings)
    if not keep.all():
        left_out = [group.name for group, kept in zip(groups, keep, strict=True) if not kept]
        warnings.append(describe_left_out(study, left_out))
    if len(columns) < study.items.height:
        warnings.append(f"{study.items.height - len(columns):,} questions that not all models answered are left out")
    names = [group.name for group in groups]
    families, said = find_families(study.subjects[rows], names, cluster, study.name)
    reference, family, short = limit_to_families(families, keep, FEWEST_MODELS, cluster, study.name)
    # Where families turn out not to be usable, what was said of them no longer holds.
    warnings += short or said
    sets = study.items["testset"].to_numpy()
    return References(
        np.ascontiguousarray(study.matrix[rows[reference]][:, columns]),
        tuple(name for name, kept in zip(names, reference, strict=True) if kept),
        tuple(study.item_names[j] for j in columns),
        tuple(map(str, sets[columns])),
        tuple(warnings),
        family,
        None if families is None or family is None else families.column,
    )


def differ_beyond_chance(matrix: Matrix) -> bool:
    """Whether models [models, items] differ in their scores by more than models that are equally able would.

    If every model had the same chance at an item, the share p_j of models that get it right, scores would have the
    variance sum p_j (1 - p_j) / n^2. Theirs must exceed it by two standard errors.
    """
    models, items = matrix.shape
    share = matrix.mean(axis=0, dtype=np.float64)
    noise = float((share * (1 - share)).sum()) / items**2
    return bool(matrix.mean(axis=1, dtype=np.float64).var(ddof=1) > noise * (1 + 2 * np.sqrt(2 / (models - 1))))


def save_short_form(
    path: str | os.PathLike[str], references: References, strata: Indices, chosen: npt.NDArray[np.bool_]
) -> Path:
    """Write a short form with what is needed to score with it, as NPZ."""
    target = check_target(path, (".npz",))
    names = {"models": references.models, "items": references.items, "testset": references.testsets}
    arrays: dict[str, Any] = {name: np.array(values) for name, values in names.items()}
    arrays |= {"R": references.matrix, "strata": strata, "chosen": chosen}
    if references.family is not None:
        arrays |= {"family": references.family, "family_column": np.array([references.column])}

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)

    atomic_write(target, write)
    return target


def load_short_form(path: str | os.PathLike[str]) -> tuple[References, Indices, Indices]:
    """Read a short form back: reference models, strata, and which items are in it."""
    if not Path(path).exists():
        raise InputError(f"{path}: no such file; `breadth advise items` writes it")
    arrays = read_arrays(Path(path))
    if missing := [name for name in ARRAYS if name not in arrays]:
        raise InputError(f"{path}: is no subset of questions (no {listed(missing)}); `breadth advise items` writes one")
    # Files written without families, or before they were recorded, take models as independent.
    grouped = "family" in arrays and "family_column" in arrays
    if wrong := _unfit_arrays(arrays, grouped):
        raise InputError(
            f"{path}: is damaged: its array {listed(wrong)} is not what belongs there; write it again "
            "with `breadth advise items`"
        )
    models, items, testsets = (tuple(map(str, arrays[name])) for name in ("models", "items", "testset"))
    family, column = None, None
    if grouped:
        family = np.unique(arrays["family"], return_inverse=True)[1].astype(np.intp)
        column = str(arrays["family_column"][0])
    references = References(arrays["R"], models, items, testsets, family=family, column=column)
    return references, arrays["strata"].astype(np.intp), np.flatnonzero(arrays["chosen"])


def _unfit_arrays(arrays: Mapping[str, npt.NDArray[Any]], grouped: bool) -> list[str]:
    """Arrays of a short form that do not go together, or do not hold what they should."""
    matrix, strata, chosen = arrays["R"], arrays["strata"], arrays["chosen"]
    if matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "biu" or not np.isin(matrix, (0, 1)).all():
        return ["R"]
    models, items = matrix.shape
    sizes = {"models": models} | dict.fromkeys(("items", "testset", "strata", "chosen"), items)
    if grouped:
        sizes |= {"family": models, "family_column": 1}
    wrong = [name for name, size in sizes.items() if arrays[name].shape != (size,)]
    if wrong:
        return wrong
    if chosen.dtype.kind != "b" or not chosen.any():
        return ["chosen"]
    # Strata are numbered from 0, and items were drawn from each of them.
    drawn = np.unique(strata[chosen])
    if strata.dtype.kind not in "iu" or strata.min() != 0 or not strata.max() == drawn[-1] == len(drawn) - 1:
        return ["strata"]
    return []
