"""``breadth report``: everything a study says, gathered once, as one page, as Markdown or as data."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import polars as pl
import yaml

from breadth.errors import InputError
from breadth.records import StudyMatrix, check_target, open_study, read_matrix, write_whole
from breadth.report.contents import Gathered
from breadth.verbs.calibrate import calibrate
from breadth.verbs.calibration import Calibration
from breadth.verbs.carry_over import carry_over
from breadth.verbs.item_sheet import item_sheet, shown_items
from breadth.verbs.level_study import level_study
from breadth.verbs.profile import profile
from breadth.verbs.standing import by_level, ends, ordered_sets, profiles, trajectories

Format = Literal["html", "md", "json"]
ENDINGS: dict[Format, str] = {"html": ".html", "md": ".md", "json": ".json"}

#: Runs whose last checkpoints are compared by ``profile``; its table of differences grows with their square.
MOST_PROFILED = 12


def write_report(
    directory: str | os.PathLike[str], out: str | os.PathLike[str] | None = None, format: Format | None = None
) -> Path:
    """Write the report of a study: one HTML file that needs no network, Markdown, or JSON.

    ``out`` is by default ``report.html`` (or ``.md``, ``.json``) in the study's directory; without ``format`` its
    ending decides.
    """
    from breadth.report.pages import render_html, render_json, render_markdown

    endings = {ending: kind for kind, ending in ENDINGS.items()}
    if format is None:
        format = endings.get(Path(out).suffix.lower(), "html") if out is not None else "html"
    if format not in ENDINGS:
        raise InputError(f"--format is {format!r}; choose html, md or json")
    open_study(directory)
    target = check_target(Path(directory) / f"report{ENDINGS[format]}" if out is None else out, [ENDINGS[format]])
    render = {"html": render_html, "md": render_markdown, "json": render_json}[format]
    content = render(gather(directory)).encode()
    write_whole(target, lambda path: path.write_bytes(content))
    return target


def gather(directory: str | os.PathLike[str]) -> Gathered:
    """Compute everything that a report shows. Nothing in the directory is changed."""
    study = read_matrix(directory)
    kinds = ordered_sets(study)
    profile_table, gains = profiles(study, kinds)
    tables = {
        "runs": _runs(study),
        "profile": profile_table,
        "gains": gains,
        "trajectories": trajectories(study, kinds),
    }
    summaries: dict[str, tuple[str, ...]] = {}
    absent: dict[str, str] = {}
    found, words, reasons = carry_over(study, kinds)
    tables |= found
    summaries["carry_over"] = tuple(words)
    if reasons:
        absent["correlations"] = "; ".join(reasons)
    calibration = _calibrated(study, absent)
    sheet = item_sheet(study, calibration)
    if calibration is not None:
        summaries["difficulty"] = (calibration.summary(),)
        tables["subjects"] = study.subjects.select("subject", "run", "model", "step").join(
            calibration.subjects, on="subject", how="left", maintain_order="left"
        )
        last = study.subjects["subject"].gather(ends(study)["last"]).to_list()[:MOST_PROFILED]
        tables["profile_by_run"] = profile(study.responses, calibration, last).levels
        if calibration.warning_alike and not _stored_levels(study):
            summaries["caution"] = (calibration.warning_alike,)
    if _levels(sheet).is_not_null().any():
        tables["by_level"] = by_level(study, _levels(sheet))
    crossed, told, why = level_study(study, _levels(sheet), kinds)
    tables |= crossed
    summaries["cross"] = tuple(told)
    if why:
        absent["cross_cells"] = "; ".join(why)
    tables["items"] = shown_items(sheet)
    text, described = _study_file(study.folder)
    facts = _facts(study, kinds, sheet) | {"levels_stored": _stored_levels(study)}
    return Gathered(
        name=str(described.get("name") or study.folder.resolve().name),
        description=str(described.get("description") or ""),
        tables=tables,
        summaries=summaries,
        absent=absent,
        facts=facts,
        study_file=text,
        environments=_environments(study),
        warnings=study.warnings,
    )


def _runs(study: StudyMatrix) -> pl.DataFrame:
    frame = ends(study).drop("first", "last")
    planned = {
        run: len(spec["checkpoints"]) for run, spec in study.specs.items() if isinstance(spec.get("checkpoints"), list)
    }
    return frame.with_columns(
        pl.Series("planned", [planned.get(run) for run in frame["run"]], dtype=pl.Int64),
    )


def _calibrated(study: StudyMatrix, absent: dict[str, str]) -> Calibration | None:
    subjects, items = study.correct.shape
    if subjects < 10 or items < 10:
        absent["subjects"] = (
            "difficulty is estimated from at least 10 subjects (checkpoints) and 10 items; there are "
            f"{subjects} and {items}"
        )
        return None
    try:
        return calibrate(study.responses, levels=10 if items >= 200 else 5)
    except InputError as error:
        absent["subjects"] = str(error)
        return None


def _levels(sheet: pl.DataFrame) -> pl.Series:
    return sheet["level"] if "level" in sheet.columns else pl.Series("level", [None] * sheet.height, dtype=pl.Int64)


def _stored_levels(study: StudyMatrix) -> bool:
    return "level" in study.items.columns and bool(study.items["level"].is_not_null().any())


def _facts(study: StudyMatrix, kinds: dict[str, str | None], sheet: pl.DataFrame) -> dict[str, Any]:
    seen = int((study.responses.matrix >= 0).sum())
    return {
        "models": study.subjects["model"].unique(maintain_order=True).cast(pl.String).fill_null("?").to_list(),
        "train_sets": study.subjects["train_set"].unique(maintain_order=True).drop_nulls().to_list(),
        "testsets": list(kinds),
        "shifts": kinds,
        "runs": len(study.specs),
        "checkpoints": study.subjects.height,
        "items": study.items.height,
        "responses": seen,
        "items_shown": min(sheet.height, shown_items(sheet).height),
        "seeds": sorted(study.subjects["seed"].drop_nulls().unique().to_list()),
        "shots": sorted(study.subjects["shots"].drop_nulls().unique().to_list()),
        "methods": sorted(study.subjects["method"].drop_nulls().unique().to_list()),
    }


def _study_file(folder: Path) -> tuple[str, dict[str, Any]]:
    """The study file as text, and as data where it can be read; a directory without one still gives a report."""
    path = folder / "study.yaml"
    try:
        text = path.read_text(encoding="utf-8")
        found = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return "", {}
    return text, found if isinstance(found, dict) else {}


def _environments(study: StudyMatrix) -> tuple[dict[str, Any], ...]:
    """The distinct environments that runs wrote down, each with the number of runs it holds for."""
    counts: dict[str, int] = {}
    for run in study.specs:
        try:
            found = json.loads((study.folder / "runs" / run / "environment.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        text = json.dumps(found, sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
    return tuple({"runs": count, **_dict(json.loads(text))} for text, count in counts.items())


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"environment": value}
