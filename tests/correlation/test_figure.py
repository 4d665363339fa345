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


def test_cells_hold_the_numbers_of_the_tables(result):
    values = cells(result.figure())
    assert len(values) == result.heterogeneity.height + result.pairs.height
    means, groups = values[:15], values[15:]
    for cell, row in zip(means, result.heterogeneity.iter_rows(named=True), strict=True):
        assert (cell["panel"], cell["a"], cell["b"]) == ("all runs", row["a"], row["b"])
        assert (cell["r"], cell["q"]) == (row["r_mean"], row["q"])
    rows = {(row["run"], row["a"], row["b"]): row for row in result.pairs.iter_rows(named=True)}
    for cell in groups:
        row = rows[cell["panel"], cell["a"], cell["b"]]
        assert (cell["r"], cell["q"]) == (row["r"], row["q"])
    sizes = result.pairs.group_by("run").agg(pl.col("r").abs().mean()).sort("r", descending=True)["run"].to_list()
    assert list(dict.fromkeys(cell["panel"] for cell in groups)) == sizes, "the strongest group comes first"


def test_panels_are_drawn_in_the_order_of_the_data(tmp_path):
    chart = breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step").figure()
    picture = write_figure(chart, tmp_path / "f.svg", "x").read_text()
    names = list(dict.fromkeys(cell["panel"] for cell in cells(chart)))
    assert names != sorted(names)
    places = [picture.index(f">{name}</text>") for name in names]
    assert places == sorted(places)


def test_every_number_is_drawn_and_strong_where_it_is_a_finding(result, tmp_path):
    picture = write_figure(result.figure(), tmp_path / "f.svg", "x").read_text()
    values = cells(result.figure())
    for cell in values:
        shown = "0" if abs(cell["r"]) < 0.005 else f"{abs(cell['r']):.2f}".lstrip("0")
        assert f">{'−' if cell['r'] < 0 and shown != '0' else ''}{shown}</text>" in picture
    found = sum(cell["q"] < 0.05 for cell in values)
    assert 0 < found < len(values)
    assert picture.count('opacity="0.35"') == len(values) - found
    excluding = sum(cell["ci_low"] > 0 or cell["ci_high"] < 0 for cell in values)
    assert excluding > found, "an interval that excludes 0 is not enough"


def test_the_control_is_named(result):
    assert "after controlling for in_domain" in json.dumps(result.figure().to_dict()["title"])
    alone = breadth.correlate(simulate_scores(runs=1), adjust="none", order="step")
    assert "without a control" in json.dumps(alone.figure().to_dict()["title"])


def test_groups_have_panels_and_a_single_table_has_none(result):
    assert result.figure().to_dict()["facet"]["field"] == "panel"
    alone = breadth.correlate(simulate_scores(runs=1), control="in_domain", order="step")
    assert "facet" not in alone.figure().to_dict()


def test_many_runs_leave_no_room_for_numbers(tmp_path):
    runs = [f"run-{k:02d}" for k in range(20)]
    rows = [(a, b) for i, a in enumerate(runs) for b in runs[i + 1 :]]
    table = pl.DataFrame(rows, schema=["run_1", "run_2"], orient="row").with_columns(
        similarity=0.5, difference=0.1, p=0.01, q=0.01
    )
    chart = as_chart(similarity_figure(runs, given="without a control"), tables={"similarity": table})
    picture = write_figure(chart, tmp_path / "f.svg", "x").read_text()
    assert "undefined" not in picture
    assert ">.50<" not in picture


@pytest.mark.parametrize("name", ["it's", 'a "b"', 'it\'s "b"', "back\\slash", "line\nbreak"])
def test_any_name_can_be_drawn(name, tmp_path):
    numbers = {"similarity": 0.5, "difference": 0.1, "p": 0.01, "q": 0.01}
    table = pl.DataFrame({"run_1": [name], "run_2": ["other"], **numbers})
    chart = as_chart(similarity_figure(["other", name], given=f"given {name}"), tables={"similarity": table})
    assert ">.50<" in write_figure(chart, tmp_path / "similarity.svg", "x").read_text()
    columns = ["r_mean", "predict_low", "predict_high", "i2", "sign_agreement", "p_differ"]
    pairs = pl.DataFrame({"a": [name], "b": ["other"], **dict.fromkeys(columns, 0.1)})
    means = pairs.select("a", "b", kind=pl.lit("partial"), run=pl.lit(None), model=pl.lit(name), k=1, r=0.4, q=0.01)
    means = means.with_columns(ci_low=pl.lit(0.2), ci_high=pl.lit(0.6))
    tables = {"heterogeneity": pairs, "correlations": means}
    chart = as_chart(agreement_figure(pairs, means, [name, "other"], given=f"given {name}"), tables=tables)
    assert "mean: 0.10; a new run, from: 0.10" in write_figure(chart, tmp_path / "agreement.svg", "x").read_text()


def test_of_many_groups_the_mean_and_the_strongest_are_shown():
    correlation = breadth.correlate(simulate_scores(runs=70, steps=12), control="in_domain", by="run", order="step")
    chart = correlation.figure()
    values = cells(chart)
    assert len(values) == 12 * 15
    assert values[0]["r"] == correlation.heterogeneity["r_mean"][0]
    caption = " ".join(chart.to_dict()["title"]["subtitle"])
    assert "All runs: the mean over 70 runs." in caption
    assert "Shown: the 11 runs with the strongest correlations" in caption


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_formats(result, tmp_path, ending):
    path = write_figure(result.figure(), tmp_path / f"f.{ending}", "heading", "finding")
    content = path.read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!doctype html>"}[ending]
    assert content.startswith(start)
    assert len(content) > 5000


def test_other_formats_are_refused(result, tmp_path):
    with pytest.raises(InputError, match=r"use \.html"):
        write_figure(result.figure(), tmp_path / "f.doc", "x")


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
