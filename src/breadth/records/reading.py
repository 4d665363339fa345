"""How a source was read: what every column was taken for and why, what was left out, and how to overrule it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

#: Names that a line lists of each kind.
SHOWN = 4


@dataclass(frozen=True)
class Reading:
    """What breadth took a source for.

    ``summary`` says how much there is. ``roles`` maps the columns that are used to what they were taken for,
    ``reasons`` to why, where that was not plain from their names; ``left_out`` maps the others to the reason.
    ``notes`` are further sentences (names that were shortened, one score chosen of several). ``correction`` says how
    all of this can be overruled. ``quiet`` is whether the user said everything, so that nothing needs to be said.
    ``files`` maps models and subjects to the file that they were read from, where a source is several files.
    """

    summary: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    #: Reasons that are not worth a line: nobody takes columns of text or run names for test sets.
    unsaid: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    correction: str = ""
    quiet: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    def with_files(self, names: Sequence[str]) -> list[str]:
        """Names of models or subjects, each with its file where that is known."""
        return [f"{name} ({self.files[name]})" if name in self.files else name for name in names]

    @property
    def columns(self) -> pl.DataFrame:
        """A row per column of the source: column, taken_for (null if it was left out), reason."""
        rows: list[tuple[str, str | None, str]] = []
        for name, role in self.roles.items():
            rows.append((name, role, self.reasons.get(name, "its name")))
        for name, reason in self.left_out.items():
            if name not in self.roles:
                rows.append((name, None, reason))
        schema = {"column": pl.String, "taken_for": pl.String, "reason": pl.String}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def lines(self) -> tuple[str, ...]:
        """What was recognised, in at most two lines; none if the user said it all."""
        if self.quiet or not self.summary:
            return ()
        reasons: dict[str, list[str]] = {}
        for name, reason in self.left_out.items():
            if reason not in self.unsaid and name.strip():
                reasons.setdefault(reason, []).append(name)
        second = []
        if reasons:
            shown = [f"{first_names(names)} ({reason})" for reason, names in reasons.items()]
            second.append(f"ignored: {', '.join(shown)}")
        second += self.notes
        if self.correction and (second or self.roles):
            second.append(f"wrong? {self.correction}")
        if not second:
            return (self.summary,)
        return self.summary, "; ".join(second)


def first_names(names: Sequence[str]) -> str:
    """The first few names of a list."""
    shown = list(names[:SHOWN])
    if len(names) > SHOWN:
        shown.append("...")
    return ", ".join(shown)
