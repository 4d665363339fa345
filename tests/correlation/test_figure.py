import json
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

import breadth
from breadth.correlation import agreement_figure, similarity_figure
from breadth.datasets import simulate_scores
from breadth.errors import InputError
from breadth.results import as_chart, write_figure

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
    assert {cell["panel"] for cell in values} == {"run-00", "run-01", "run-02"}
    for cell, row in zip(values, result.pairs.iter_rows(named=True), strict=True):
        assert (cell["a"], cell["b"], cell["r"], cell["q"]) == (row["a"], row["b"], row["r"], row["q"])


def test_every_number_is_drawn_and_strong_where_it_is_sure(result, tmp_path):
    picture = write_figure(result.figure(), tmp_path / "f.svg", "x").read_text()
    for row in result.pairs.iter_rows(named=True):
        shown = f"{abs(row['r']):.2f}".lstrip("0")
        assert f">{'−' if row['r'] < 0 else ''}{shown}</text>" in picture
    sure = result.pairs.filter((pl.col("ci_low") > 0) | (pl.col("ci_high") < 0)).height
    assert picture.count('opacity="0.35"') == result.pairs.height - sure


def test_groups_have_panels_and_a_single_table_has_none(result):
    assert result.figure().to_dict()["facet"]["field"] == "panel"
    alone = breadth.correlate(simulate_scores(runs=1), control="in_domain", order="step")
    assert "facet" not in alone.figure().to_dict()


def test_many_runs_leave_no_room_for_numbers(tmp_path):
    runs = [f"run-{k:02d}" for k in range(20)]
    rows = [(a, b) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    table = pl.DataFrame(rows, schema=["run_1", "run_2"], orient="row").with_columns(
        similarity=0.5, difference=0.1, p=0.01
    )
    chart = as_chart(similarity_figure(runs), tables={"similarity": table})
    picture = write_figure(chart, tmp_path / "f.svg", "x").read_text()
    assert "undefined" not in picture
    assert ">.50<" not in picture


@pytest.mark.parametrize("name", ["it's", 'a "b"', 'it\'s "b"', "back\\slash", "line\nbreak"])
def test_any_name_can_be_drawn(name, tmp_path):
    table = pl.DataFrame({"run_1": [name], "run_2": ["other"], "similarity": 0.5, "difference": 0.1, "p": 0.01})
    chart = as_chart(similarity_figure(["other", name]), tables={"similarity": table})
    assert ">.50<" in write_figure(chart, tmp_path / "similarity.svg", "x").read_text()
    columns = ["r_mean", "predict_low", "predict_high", "i2", "sign_agreement", "p_differ"]
    pairs = pl.DataFrame({"a": [name], "b": ["other"], **dict.fromkeys(columns, 0.1)})
    means = pairs.select("a", "b", kind=pl.lit("partial"), run=pl.lit(None), model=pl.lit("m"), k=1, r=0.4)
    means = means.with_columns(ci_low=pl.lit(0.2), ci_high=pl.lit(0.6))
    chart = as_chart(agreement_figure(pairs, ["m"]), tables={"heterogeneity": pairs, "correlations": means})
    assert "mean: 0.10; a new run, from: 0.10" in write_figure(chart, tmp_path / "agreement.svg", "x").read_text()


def test_many_groups_are_averaged():
    correlation = breadth.correlate(simulate_scores(runs=70, steps=12), control="in_domain", by="run", order="step")
    values = cells(correlation.figure())
    assert len(values) == 15
    assert values[0]["r"] == correlation.heterogeneity["r_mean"][0]


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
    correlation = breadth.correlate(frame, control="in_domain", order="step")
    page = write_figure(correlation.figure(), tmp_path / "f.html", EVIL, EVIL).read_text()
    assert EVIL not in page
    assert "&lt;/script&gt;" in page
    assert not re.search(r"<(script|link)[^>]+(src|href)=", page)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="needs a Chromium browser on the PATH")
@pytest.mark.slow
def test_page_draws_in_a_browser(tmp_path):
    frame = simulate_scores(runs=1).rename({"science": EVIL})
    correlation = breadth.correlate(frame, control="in_domain", order="step")
    path = write_figure(correlation.figure(), tmp_path / "f.html", "A heading", correlation.summary())
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
    correlation = breadth.correlate(frame, control="in_domain", order="step")
    blank = [cell for cell in cells(correlation.figure()) if cell["r"] is None]
    assert {cell["b"] for cell in blank} == {"flat"}
    assert all(cell["note"] == "flat is constant" for cell in blank)
    assert Path(write_figure(correlation.figure(), tmp_path / "f.svg", "x")).read_text().count("#d9dce0") >= len(blank)
