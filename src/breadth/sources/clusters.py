"""Which items belong together: questions about one passage, texts of one template."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, unknown_column
from breadth.records import Study
from breadth.sources.vocabulary_data import plain

#: Names of columns, in plain words, whose items are alike because they share something.
CLUSTER_COLUMNS = (
    *("cluster", "passage", "passage_id", "paragraph", "paragraph_id", "context", "context_id", "document"),
    *("document_id", "doc_id", "article", "article_id", "story", "story_id", "template", "template_id", "premise"),
    *("premise_id", "group", "group_id", "subject", "topic", "category"),
)


def item_clusters(study: Study, column: str | None) -> npt.NDArray[np.intp] | None:
    """The cluster of every item, numbered from 0; items without a value are clusters of their own."""
    if column is None:
        return None
    if column not in study.items.columns:
        raise unknown_column(column, study.items.columns, study.name, "cluster of an item")
    # A character that no name begins with keeps items without a value apart from those with one.
    alone = pl.format("\x00{}", pl.int_range(pl.len()))
    filled = study.items.select(pl.coalesce(pl.col(column).cast(pl.String), alone)).to_series()
    numbered = filled.rank("dense").to_numpy().astype(np.intp) - 1
    if numbered.max(initial=0) < 1:
        raise InputError(f"{study.name}: column {column!r} has one value for all items; clusters need at least two")
    return np.asarray(numbered)


def obvious_cluster(items: pl.DataFrame, inside: Sequence[int] | npt.NDArray[np.intp]) -> str | None:
    """A column that looks as if it said which of the items ``inside`` belong together; None if there is none.

    It has one of the usual names, and at least two values, of which one has several items.

    >>> items = pl.DataFrame({"item": ["a", "b", "c"], "Passage": ["x", "x", "y"]})
    >>> obvious_cluster(items, range(3))
    'Passage'
    """
    names = {plain(name): name for name in reversed(items.columns)}
    for usual in CLUSTER_COLUMNS:
        if usual not in names:
            continue
        values = items[names[usual]].gather(pl.Series(inside)).drop_nulls()
        if 2 <= values.n_unique() < values.len():
            return names[usual]
    return None
