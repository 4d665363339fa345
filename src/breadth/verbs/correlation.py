"""What a correlation analysis found, and what can be asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from breadth.records import Trajectories
from breadth.stats import Partial, Settings, compare_groups, make_panel, residual_series, summarise
from breadth.stats.intervals import spare_rows, to_z
from breadth.verbs.frames import heterogeneity_frame, similarity_frame

if TYPE_CHECKING:
    import altair as alt

#: Above this many groups, comparing every two of them is not a table anybody reads.
MOST_COMPARED = 256


@dataclass(frozen=True)
class Correlation:
    """What :func:`correlate` found.

    ``pairs`` has a row per group and pair of test sets; ``windows`` the same per part of the run (empty unless
    asked for); ``warnings`` what the user should know about the table. The other frames are made when asked for.
    """

    pairs: pl.DataFrame
    windows: pl.DataFrame
    trajectories: Trajectories
    settings: Settings
    warnings: tuple[str, ...]
    _partial: Partial
    _labels: pl.DataFrame

    @property
    def by(self) -> tuple[str, ...]:
        """Columns that name a group."""
        return self.trajectories.by

    @cached_property
    def heterogeneity(self) -> pl.DataFrame:
        """Per pair over groups: the mean correlation and how much groups differ; empty without ``by``."""
        found = self._partial
        known = ~np.isnan(found.p)
        z = np.where(known, to_z(np.nan_to_num(found.r)), np.nan)
        variance = 1 / spare_rows(np.nan_to_num(found.n_eff), found.spent)
        frame = heterogeneity_frame(summarise(z.T, variance.T), self.trajectories.facets)
        return frame if self.by else frame.clear()

    @cached_property
    def similarity(self) -> pl.DataFrame:
        """For every two groups: how alike their correlation matrices are; empty for more than 256 groups."""
        found, facets = self._partial, self.trajectories.facets
        compared = self._labels.height <= MOST_COMPARED and bool(self.by)
        r = found.r if compared else found.r[:0]
        result = compare_groups(r, np.where(np.isnan(r), np.nan, to_z(r)), len(facets), self.settings.seed)
        return similarity_frame(result, self._labels)

    @cached_property
    def residuals(self) -> pl.DataFrame:
        """What the control leaves of every score: the ``by`` columns, the order, ``testset, score, residual``."""
        panel, labels = make_panel(self.trajectories)
        left = residual_series(panel, self.settings.regressor, self.settings.rank)
        frame, (_, length, m) = self.trajectories.frame, panel.scores.shape
        sizes = frame.group_by(labels.columns, maintain_order=True).len()["len"].to_numpy() if self.by else [length]
        inside = np.arange(length)[None, :] < np.asarray(sizes)[:, None]
        keys = frame.select([*self.by, *([self.trajectories.order] if self.trajectories.order else [])])
        rows = np.repeat(np.arange(frame.height), m)
        names = pl.Series(self.trajectories.facets, dtype=pl.String).gather(np.tile(np.arange(m), frame.height))
        return pl.DataFrame(
            {
                **{name: keys[name].gather(rows) for name in keys.columns},
                "testset": names,
                "score": pl.Series(panel.scores[inside].reshape(-1), nan_to_null=True),
                "residual": pl.Series(left[inside].reshape(-1), nan_to_null=True),
            }
        )

    def figure(self) -> alt.TopLevelMixin:
        """A lower-triangle heatmap per group, as an Altair chart."""
        from breadth.report.heatmap import heatmap

        return heatmap(self.pairs, self.heterogeneity, self.trajectories.facets, self.by)

    def summary(self) -> str:
        """The answer in one paragraph of plain language."""
        from breadth.report.findings import correlation_findings

        return correlation_findings(self)
