"""Families of reference models, and how far predictions for a model of another family can be off.

Models of one family err alike, so errors of a model whose relatives were learnt from are too small to speak for a
model of another family. Here whole families are left out, and each counts once, however many models it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from breadth.errors import InputError, listed, unknown_column
from breadth.inference import LEVEL, Floats
from breadth.results.words import count
from breadth.sources import families_in_names, family_codes, family_column, names_family

Indices = npt.NDArray[np.intp]

#: Fewest families for intervals about another one: their spread is estimated from so many values.
FEWEST_FAMILIES = 4

#: Share of the models whose family must be known for a column to be used without being asked for.
LEAST_KNOWN = 0.5

#: Fewest degrees of freedom of an interval. Below two, t quantiles are so large that an interval says nothing.
FEWEST_DF = 2.0

#: Value of ``cluster`` that takes models as independent.
INDEPENDENT = "none"


class Families(NamedTuple):
    """The column that names families, and the family of every model; -1 where it is not known."""

    column: str
    codes: Indices

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """The models whose family is known."""
        return self.codes >= 0

    def of(self, rows: npt.NDArray[np.generic]) -> Indices:
        """The families of some models, numbered from 0 without gaps."""
        return np.unique(self.codes[rows], return_inverse=True)[1].astype(np.intp)


def find_families(
    about: pl.DataFrame, names: Sequence[str], cluster: str | None, where: str
) -> tuple[Families | None, list[str]]:
    """Families of models from a table with a row each; None if they are to be taken as independent. And warnings.

    ``cluster`` names the column, or is ``none``. By default it is recognised. Where no column says it but names show
    families, a warning does: names are not sure enough to compute with.
    """
    if cluster == INDEPENDENT:
        return None, []
    if cluster is not None and cluster not in about.columns:
        raise unknown_column(cluster, about.columns, where, "--cluster")
    column = cluster if cluster is not None else family_column(about)
    if column is None:
        return None, _warn_of_names(names)
    values = about[column].cast(pl.String).to_list()
    known = np.array([names_family(value) for value in values], dtype=np.bool_)
    codes = np.where(known, family_codes(values), -1)
    number = len(np.unique(codes[known]))
    if number < FEWEST_FAMILIES:
        if cluster is None:
            return None, []
        raise InputError(
            f"{where}: --cluster {column} has {number} values; an interval for a model of another {column} takes at "
            f"least {FEWEST_FAMILIES}. Choose a finer column, or --cluster none"
        )
    if cluster is None and known.mean() < LEAST_KNOWN:
        return None, []
    warnings = []
    if not known.all():
        number = int((~known).sum())
        verb = "is" if number == 1 else "are"
        warnings.append(f"{count(number, 'model')} of unknown {column} {verb} not learnt from")
    if cluster is None:
        warnings.append(
            f"models of one {column} count as alike, so errors and intervals are about a model of another {column}; "
            "--cluster none takes all models as independent"
        )
    return Families(column, codes.astype(np.intp)), warnings


def _warn_of_names(names: Sequence[str]) -> list[str]:
    families = families_in_names(names)
    if not families:
        return []
    shown = listed([f"{family} ({len(models)})" for family, models in families.items()], 3)
    return [
        f"names of models show families ({shown}), and models of a family are alike: for a model of another family, "
        "errors are larger than stated and intervals too narrow. Add a column that names the family and give it with "
        "--cluster"
    ]


def limit_to_families(
    families: Families | None, usable: npt.NDArray[np.bool_], fewest: int, cluster: str | None, where: str
) -> tuple[npt.NDArray[np.bool_], Indices | None, list[str]]:
    """The models to learn from, their families (None if they count as independent), and warnings.

    Models of unknown family are left out: their relatives may be among those that are left out as another family. The
    ``usable`` models may be too few then, or of too few families, even if there are enough in the table.
    """
    if families is None:
        return usable, None, []
    reference = np.asarray(usable & families.known)
    number = len(np.unique(families.codes[reference]))
    if reference.sum() >= fewest and number >= FEWEST_FAMILIES:
        return reference, families.of(reference), []
    short = (
        f"{int(reference.sum())} models of {number} known families ({families.column}) can be learnt from; intervals "
        f"for a model of another {families.column} take at least {fewest} models of {FEWEST_FAMILIES} families"
    )
    if cluster is not None:
        raise InputError(f"{where}: {short}. Choose another column, or --cluster none")
    return usable, None, [f"{short}, so models are taken as independent"]


def describe_target(column: str | None) -> str:
    """Which kind of model errors and intervals are about."""
    return "a model like these" if column is None else f"a model of another {column}"


def mean_of_families(values: Floats, family: Indices) -> Floats:
    """Means [families, ...] of the values [models, ...] of every family."""
    size = np.bincount(family)
    sums = np.zeros((len(size), *values.shape[1:]))
    np.add.at(sums, family, values)
    return np.asarray(sums / size.reshape(-1, *([1] * (values.ndim - 1))))


def reach_to_another(errors: Floats, family: Indices) -> float:
    """Half the width of a 95 % interval for a model of another family, from errors [models] of families left out.

    t sqrt((1 + 1 / G) mean of m_g) over G families, where m_g is the mean squared error of family g, so that a large
    family counts once. The degrees of freedom are (sum m_g)^2 / sum m_g^2 - 1, the number of families that the mean
    rests on (Satterthwaite): if one family errs far more than the others, it is that family alone that says how far
    errors reach. Assumes that a new family is drawn like the known ones.
    """
    squares = mean_of_families(errors**2, family)
    total = float(squares.sum())
    if not total > 0:
        return 0.0
    df = max(total**2 / float((squares**2).sum()) - 1, FEWEST_DF)
    quantile = float(special.stdtrit(df, (1 + LEVEL) / 2))
    return quantile * float(np.sqrt(squares.mean() * (1 + 1 / len(squares))))


def thin_families(family: Indices, most: int, seed: int = 0) -> Indices:
    """At most ``most`` models, in order: those of the largest families are thinned first, at random."""
    size = np.bincount(family)
    if size.sum() <= most:
        return np.arange(len(family))
    # The largest number of models of one family with which all families together stay within the limit.
    limit = 1
    while np.minimum(size, limit + 1).sum() <= most:
        limit += 1
    generator = np.random.default_rng(seed)
    kept = []
    for number in range(len(size)):
        members = np.flatnonzero(family == number)
        kept.append(generator.permutation(members)[:limit])
    chosen = np.concatenate(kept)
    return np.sort(chosen if len(chosen) <= most else generator.permutation(chosen)[:most])
