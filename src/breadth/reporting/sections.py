"""The sections of a report in their order, and the report that is made of them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from breadth.correlation import Adjust
from breadth.errors import InputError, did_you_mean, listed
from breadth.records import SCORES, Score, Study, atomic_write
from breadth.reporting.analysis import CorrelationsSection, DifficultySection
from breadth.reporting.data import ReportData, Section, SectionContent
from breadth.reporting.decisions import AdviceSection, RankingSection
from breadth.reporting.items import ItemsSection
from breadth.reporting.methods import MethodsSection, TruthSection
from breadth.reporting.overview import OverviewSection, TrainingSection
from breadth.reporting.pages import render_html, render_json, render_markdown
from breadth.reporting.sources import Names, read_source, title_of
from breadth.reporting.stability import FluctuationSection
from breadth.results.table_writing import check_target

Format = Literal["html", "md", "json"]
RENDER = {"html": render_html, "md": render_markdown, "json": render_json}

#: Sections in the order of the page.
SECTIONS: list[Section] = [
    OverviewSection(),
    RankingSection(),
    TrainingSection(),
    CorrelationsSection(),
    FluctuationSection(),
    DifficultySection(),
    AdviceSection(),
    ItemsSection(),
    TruthSection(),
    MethodsSection(),
]


def register_section(section: Section, before: str | None = None) -> None:
    """Add a section to every report, before the section with the key ``before`` or at the end.

    A section of the same key is replaced.
    """
    unregister_section(section.key)
    keys = [other.key for other in SECTIONS]
    if before is not None and before not in keys:
        raise InputError(f"there is no section {before!r}.{did_you_mean([before], keys)} Sections: {listed(keys)}")
    SECTIONS.insert(len(keys) if before is None else keys.index(before), section)


def unregister_section(key: str) -> None:
    """Remove a section from every report."""
    SECTIONS[:] = [section for section in SECTIONS if section.key != key]


def build_report(
    source: Any,
    score: Score = "accuracy",
    *,
    by: Names = None,
    order: str | None = None,
    control: Names = None,
    testsets: Names = None,
    lower_is_better: Names = None,
    adjust: Adjust | None = None,
) -> ReportData:
    """Compute everything that a report shows; ``source`` is anything :func:`report` takes, and is not changed."""
    columns: dict[str, Any] = {"by": by, "order": order, "control": control, "testsets": testsets}
    opened = read_source(source, **columns, lower_is_better=lower_is_better)
    options: dict[str, Any] = {} if adjust is None else {"adjust": adjust}
    if isinstance(opened, Study):
        # A table of scores was opened with them; the scores of a study are computed when they are correlated.
        options |= {name: value for name, value in columns.items() if value is not None}
    name = str(source) if isinstance(source, str | os.PathLike) else "report"
    data = ReportData(opened, score=score, name=name, correlate_options=options)
    known = isinstance(opened, Study) and opened.folder is not None
    if isinstance(source, str | os.PathLike) and os.path.isdir(source) and not known:
        # A directory may hold a single table, whose name says less.
        data.about = replace(data.about, name=title_of(os.fspath(source)))
    sections = [section for section in SECTIONS if isinstance(opened, section.needs) and section.applies(data)]
    for section in sections:
        tables = section.compute(data)
        data.tables |= {name: tables[name] for name in section.tables if name in tables}
    written = {section: section.write(data) for section in sections}
    # What the data cannot answer comes last, before how the report was made.
    for section in sorted(sections, key=lambda section: _place(section, written[section])):
        data.contents[section] = written[section]
    return data


def _place(section: Section, content: SectionContent) -> int:
    if section.key in ("truth", "methods"):
        return 2
    return 0 if content.is_answered or section.key == "overview" else 1


def report(
    source: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    format: Format | None = None,
    score: Score = "accuracy",
    by: Names = None,
    order: str | None = None,
    control: Names = None,
    testsets: Names = None,
    lower_is_better: Names = None,
    adjust: Adjust | None = None,
) -> Path:
    """Write a report on whatever you have: one HTML file that needs no network, Markdown, or JSON.

    Parameters
    ----------
    source
        One path or several, patterns allowed. The directory of a study or an import; logs of other tools; checkpoints
        with their scores; a table of scores or of answers, as a file or a frame; a matrix; a saved calibration. The
        page has the sections that it allows, and says how it was read.
    out
        Where to write. By default ``report.html`` (or ``.md``, ``.json``) in the directory of the study; for anything
        else in the current directory.
    format
        ``html``, ``md`` or ``json``; by default the ending of ``out`` decides.
    score
        What gains, correlations and transfer between levels are computed from: ``accuracy``, or ``auc``, ``dprime``,
        ``balanced`` or ``logscore`` (:func:`breadth.scores`). Difficulty is always estimated from right and wrong.
    by, order, control, testsets
        What the columns of a table of scores stand for, where that is not recognised: see :func:`breadth.correlate`.
    lower_is_better
        Columns of which lower values are better, such as losses; or ``none``. By default their names decide.
    adjust
        How correlations are adjusted for the control: ``gam``, ``linear`` or ``none``.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import breadth, numpy as np
    >>> answers = np.random.default_rng(0).random((20, 30)) < 0.7
    >>> breadth.report(answers, out="report.md").name  # doctest: +SKIP
    'report.md'
    """
    target, _ = written_report(
        source,
        out,
        format,
        score=score,
        by=by,
        order=order,
        control=control,
        testsets=testsets,
        lower_is_better=lower_is_better,
        adjust=adjust,
    )
    return target


def written_report(
    source: Any, out: str | os.PathLike[str] | None = None, format: Format | None = None, **options: Any
) -> tuple[Path, ReportData]:
    """Write a report as :func:`report` does; the file, and what is in it."""
    chosen = format or (Path(out).suffix.lower().removeprefix(".") if out is not None else "html")
    if format is not None and format not in RENDER:
        raise InputError(f"--format is {format!r}; choose html, md or json")
    if options.get("score", "accuracy") not in SCORES:
        raise InputError(f"--score is {options['score']!r}; choose {', '.join(SCORES)}")
    endings = [f".{chosen}"] if chosen in RENDER else [f".{name}" for name in RENDER]
    if out is not None:
        check_target(out, endings)
    data = build_report(source, **options)
    folder = data.study.folder if data.has_answers else None
    target = check_target((folder or Path()) / f"report.{chosen}" if out is None else out, endings)
    # Half a character, which UTF-8 cannot hold, is written as its number: this is how JSON escapes it, too.
    content = RENDER[chosen](data).encode(errors="backslashreplace")
    atomic_write(target, lambda path: path.write_bytes(content))
    return target, data
