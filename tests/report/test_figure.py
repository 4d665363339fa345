import json
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_scores
from breadth.errors import InputError
from breadth.report.page import write_figure

EVIL = "</script><script>document.title='broken'</script>"


@pytest.fixture(scope="module")
def result():
    return breadth.correlate(simulate_scores(runs=3), control="in_domain", by="run", order="step")


def cells(chart):
    (values,) = chart.to_dict()["datasets"].values()
    return values


def test_cells_hold_the_numbers_of_the_table(result):
    values = cells(result.figure())
    assert len(values) == result.pairs.height
    for cell, row in zip(values, result.pairs.iter_rows(named=True), strict=True):
        assert (cell["a"], cell["b"], cell["r"], cell["q"]) == (row["a"], row["b"], row["r"], row["q"])
        assert cell["sure"] == (row["ci_low"] > 0 or row["ci_high"] < 0)
        assert float(cell["text"]) == pytest.approx(row["r"], abs=0.0051)


def test_many_groups_are_averaged():
    found = breadth.correlate(simulate_scores(runs=70, steps=12), control="in_domain", by="run", order="step")
    values = cells(found.figure())
    assert len(values) == 15
    assert values[0]["r"] == found.heterogeneity["r_mean"][0]


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_formats(result, tmp_path, ending):
    path = write_figure(result.figure(), tmp_path / f"f.{ending}", "heading", "finding")
    content = path.read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!doctype html>"}[ending]
    assert content.startswith(start)
    assert len(content) > 5000


def test_other_formats_are_refused(result, tmp_path):
    with pytest.raises(InputError, match=r"use \.html, \.png, \.svg"):
        write_figure(result.figure(), tmp_path / "f.pdf", "x")


def test_page_needs_no_network_and_escapes_text(tmp_path):
    frame = simulate_scores(runs=1).rename({"science": EVIL})
    found = breadth.correlate(frame, control="in_domain", order="step")
    page = write_figure(found.figure(), tmp_path / "f.html", EVIL, EVIL).read_text()
    assert EVIL not in page
    assert "&lt;/script&gt;" in page
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium browser on the PATH")
@pytest.mark.slow
def test_page_draws_in_a_browser(tmp_path):
    frame = simulate_scores(runs=1).rename({"science": EVIL})
    found = breadth.correlate(frame, control="in_domain", order="step")
    path = write_figure(found.figure(), tmp_path / "f.html", "A heading", found.summary())
    out = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000", "--dump-dom",
         f"file://{path}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "<title>A heading</title>" in out.stdout
    assert "<canvas" in out.stdout or "marks" in out.stdout, "vega has drawn the chart"


def test_spec_is_plain_json(result):
    assert json.loads(json.dumps(result.figure().to_dict()))


def test_uncomputed_pairs_are_grey(tmp_path):
    frame = simulate_scores(runs=1).with_columns(flat=pl.lit(0.4))
    found = breadth.correlate(frame, control="in_domain", order="step")
    blank = [cell for cell in cells(found.figure()) if cell["r"] is None]
    assert {cell["b"] for cell in blank} == {"flat"}
    assert all(cell["note"] == "flat is constant" for cell in blank)
    assert Path(write_figure(found.figure(), tmp_path / "f.svg", "x")).read_text().count("#d9d9d9") >= len(blank)
