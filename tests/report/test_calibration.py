import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers
from breadth.report.calibration import COLOURS, accuracy_by_level
from breadth.report.difficulty_findings import Checks, calibration_findings
from breadth.report.page import write_figure


@pytest.fixture(scope="module")
def result():
    return breadth.calibrate(simulate_answers(300, 40).matrix, model="2pl")


def datasets(chart):
    return list(chart.to_dict()["datasets"].values())


def test_the_map_counts_everybody(result):
    subjects, items, *_ = datasets(result.figure())
    assert sum(bar["count"] for bar in subjects) == 300
    assert sum(bar["count"] for bar in items) == 40


def test_chosen_items_and_subjects_are_shown(result, tmp_path):
    chart = result.figure(items=["3", "5"], subjects=["10"])
    curves, dots, profile = datasets(chart)[2:]
    assert {row["item"] for row in curves} == {row["item"] for row in dots} == {"3", "5"}
    assert {row["subject"] for row in profile} == {"10"}
    assert all(row["ci_low"] <= row["accuracy"] <= row["ci_high"] for row in profile)
    assert write_figure(chart, tmp_path / "f.png", "x").stat().st_size > 10_000


def test_more_subjects_than_colours_get_a_panel_each(result, tmp_path):
    few, many = ([str(k) for k in range(count)] for count in (len(COLOURS), len(COLOURS) + 1))
    coloured = accuracy_by_level(result.accuracy_by_level(few)).to_dict()
    assert "facet" not in coloured
    panels = accuracy_by_level(result.accuracy_by_level(many)).to_dict()
    assert panels["facet"]["sort"] == many
    (cells,) = panels["datasets"].values()
    assert {row["subject"] for row in cells} == set(many)
    assert write_figure(result.figure(subjects=many), tmp_path / "f.svg", "x").stat().st_size > 10_000


def test_findings_follow_the_checks(result):
    def text(**checks):
        return calibration_findings(result.items, result.subjects, result.fit, Checks(**checks))

    assert "one ability describes" in text(residual_share=0.01, residual_ratio=1.2)
    assert "something besides one ability" in text(residual_share=0.1, residual_ratio=3.0)
    assert "no two are more alike" in text(distinct=300, copies=0, groups=300)
    assert "12 pairs are near-copies, which leaves 290 groups" in text(distinct=299, copies=12, groups=290)
    assert "No item stands out" in calibration_findings(
        result.items.with_columns(note=pl.lit(None, dtype=pl.String)), result.subjects, result.fit, Checks()
    )
    hard = result.items.with_columns(pl.col("difficulty") + 3)
    assert "too hard for the typical subject" in calibration_findings(hard, result.subjects, result.fit, Checks())
