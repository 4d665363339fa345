"""What a report holds before it is a page: tables, findings, figures. Every form of the report shares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl


@dataclass(frozen=True)
class Gathered:
    """Everything that was computed for a study, as tidy frames and sentences.

    ``tables`` are what can be downloaded; ``summaries`` the paragraphs that the verbs gave, by section; ``absent``
    says why something is not there, by the name of its table.
    """

    name: str
    description: str
    tables: Mapping[str, pl.DataFrame]
    summaries: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    study_file: str = ""
    environments: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()

    def table(self, name: str) -> pl.DataFrame:
        """A table, empty if the study has none of this name."""
        return self.tables.get(name, pl.DataFrame())

    def has(self, name: str) -> bool:
        """Whether the study has rows of this table."""
        return self.table(name).height > 0

    @property
    def models(self) -> list[str]:
        """Models in the order in which colours are given to them."""
        return list(self.facts.get("models", ()))

    @property
    def testsets(self) -> list[str]:
        """Test sets: in-domain first, then by kind of shift."""
        return list(self.facts.get("testsets", ()))


@dataclass(frozen=True)
class Control:
    """Something a reader can switch: sets the signal ``name`` of a figure to one of ``options`` (value, words)."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    kind: str = "radio"


@dataclass(frozen=True)
class Figure:
    """A picture: a Vega-Lite specification over named tables.

    Strings that begin with @ (``@ink``, ``@paper`` ...) stand for colours of the theme. ``drill`` says which fields
    of a mark choose items when it is clicked, as {filter of the item table: field of the mark}.
    """

    key: str
    title: str
    caption: str
    spec: dict[str, Any]
    table: str
    controls: tuple[Control, ...] = ()
    drill: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """A part of the report: one finding in plain words, pictures, and details."""

    key: str
    title: str
    finding: str
    figures: tuple[Figure, ...] = ()
    details: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
