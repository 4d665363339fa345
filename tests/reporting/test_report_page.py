"""The report in a real browser: drawn, switched, downloaded; at three widths and in both themes."""

import csv
import io
import json
import shutil

import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_study
from breadth.records.store import StudyStore

pytestmark = pytest.mark.slow

EVIL = "<script>document.title = 'broken'</script><img src=x onerror=alert(1)>"


def marks(page, figure):
    plot = page.locator(f'[data-figure="{figure}"] .plot')
    return plot.locator("svg path[aria-roledescription]").count() + plot.locator("canvas").count()


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_figure_is_drawn_and_fits(levels_report, levels_data, open_page, width, scheme):
    with open_page(levels_report.as_uri(), width, scheme) as page:
        page.ready()
        names = page.evaluate("Object.keys(breadth.payload.figures)")
        assert names == [figure.key for content in levels_data.contents.values() for figure in content.figures]
        for name in names:
            assert marks(page, name) > 0, name
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 26)")
        page.evaluate("breadth.open('items', {})")
        page.wait_for_selector("#item-list li")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        panel = page.locator("#panel").bounding_box()
        assert panel["x"] >= 0
        assert panel["x"] + panel["width"] == width


def test_figures_follow_the_theme_button_and_the_address_keeps_it(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        drawn = "document.querySelector('[data-figure=\"profile\"] .plot svg')?.innerHTML"
        dark = page.evaluate("breadth.payload.themes.dark.tokens['@ink']")
        assert dark not in page.evaluate(drawn)
        page.click("#theme")
        page.until(f"{drawn}.includes('{dark}')")
        assert page.url.endswith("#theme=dark")
        page.reload()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_many_models_and_test_sets_stay_inside_the_window(open_page, tmp_path):
    names = [f"test-set-with-a-long-name-{k:02d}" for k in range(30)]
    models = [f"organisation-model-{k:02d}-instruct" for k in range(60)]
    study = simulate_study(tmp_path / "many", runs=60, checkpoints=6, testsets=names, items=8, models=models)
    report = breadth.report(study.folder)
    for width in (390, 1440):
        with open_page(report.as_uri(), width) as page:
            page.ready()
            assert page.evaluate("document.documentElement.scrollWidth") == width
            page.evaluate("breadth.open('items', {one: 'organisation-model-59-instruct', two: 'run:' + 'x'})")
            page.wait_for_selector("#item-list li")
            assert page.evaluate("document.documentElement.scrollWidth") == width
            options = page.locator("#filters [name=failed] option").all_inner_texts()
            assert set(models) <= set(options)  # also those that figures leave out


def test_switches_are_in_the_address(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        inputs = "[data-figure='correlations'] [data-signal]"
        control = page.locator(inputs).first
        name = control.get_attribute("data-signal")
        page.evaluate(f"window.drawn = document.querySelector('[data-figure=correlations] svg')?.innerHTML; '{name}'")
        if control.evaluate("node => node.tagName") == "SELECT":
            value = control.locator("option").nth(1).get_attribute("value")
            control.select_option(value)
        else:
            value = (
                page.locator(f"[data-figure='correlations'] input[data-signal={name}]").nth(1).get_attribute("value")
            )
            page.locator(f"[data-figure='correlations'] input[value='{value}']").check(force=True)
        assert page.evaluate("Object.entries(breadth.state)") == [[f"correlations.{name}", value]]
        assert page.evaluate(f"breadth.charts.correlations.signal('{name}')") == value
        page.reload()
        page.ready()
        assert page.evaluate(f"breadth.charts.correlations.signal('{name}')") == value
        page.goto(levels_report.as_uri())
        page.ready()
        assert page.evaluate(f"breadth.charts.correlations.signal('{name}')") != value


def test_runs_are_chosen(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        page.click(".choose summary")
        page.click('[data-runs-of="model-a"]')
        assert page.inner_text("#runs-shown") == "6 of 12"
        assert set(page.evaluate("breadth.charts.trajectories.signal('shown')")) == {
            f"model-a-{k:02d}" for k in range(0, 12, 2)
        }
        page.click('[data-runs="none"]')
        assert page.inner_text("#runs-shown") == "0 of 12"
        page.click('[data-runs="all"]')
        assert page.inner_text("#runs-shown") == "12 of 12"
        assert page.url == levels_report.as_uri()


def downloaded(page, selector):
    with page.expect_download() as waiting:
        page.locator(selector).first.click()
    return waiting.value.path().read_bytes()


def test_downloads_hold_the_numbers(levels_report, levels_data, open_page):
    with open_page(levels_report.as_uri()) as page:
        text = downloaded(page, '.downloads [data-table="pairs"][data-save="csv"]').decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        table = levels_data.table("pairs")
        assert [float(row["r"]) for row in rows] == pytest.approx(table["r"].to_list(), rel=1e-6)
        assert [row["run"] for row in rows] == table["run"].to_list()
        cells = json.loads(downloaded(page, '.downloads [data-table="transfer_cells"][data-save="json"]'))
        gains = levels_data.table("transfer_cells")["gain"].to_list()
        assert [row["gain"] for row in cells] == pytest.approx(gains, rel=1e-6)
        items = json.loads(downloaded(page, '.downloads [data-table="items"][data-save="json"]'))
        table = levels_data.table("items")
        assert [(row["item"], row["text"]) for row in items] == list(table.select("item", "text").iter_rows())
        assert set(items[0]) == set(table.columns)
        page.locator('[data-figure="by_level"] .export summary').click()
        svg = downloaded(page, '[data-figure="by_level"] [data-save="svg"]')
        assert svg.startswith(b"<svg")
        page.locator('[data-figure="by_level"] .export summary').click()
        png = downloaded(page, '[data-figure="by_level"] [data-save="png"]')
        assert png.startswith(b"\x89PNG")
        assert len(png) > 5000


def test_text_of_items_is_only_text(levels_study, open_page, tmp_path, change_record):
    folder = shutil.copytree(levels_study.folder, tmp_path / "study")
    store = StudyStore(folder)
    frame = store.read_items("plain").with_columns(premise=pl.lit(EVIL), label=pl.lit(EVIL))
    store.store.delete(store.item_files()["plain"][0])
    store.write_items("plain", frame)
    task = {"kind": "pattern", "template": f"{EVIL} {{premise}}", "answers": {EVIL: EVIL}}
    for record in folder.glob("runs/*/run.json"):
        change_record(record, tasks={"plain": task})
    store.write_study(f"name: plain\ndescription: {json.dumps(EVIL)}\n")
    report = breadth.report(folder)
    assert EVIL not in report.read_text()
    with open_page(report.as_uri()) as page:
        page.evaluate("breadth.open('items', { testset: 'plain' })")
        page.wait_for_selector("#item-list li")
        assert EVIL in page.locator("#item-list li").first.inner_text()
        page.locator("#item-list button").first.click()
        page.wait_for_selector("#panel pre")
        assert page.inner_text("#panel pre") == f"{EVIL} {EVIL}"
        page.evaluate(
            "window.location.hash = '#' + new URLSearchParams({ panel: 'item', item: '<img src=x onerror=alert(1)>' })"
        )
        page.until("document.getElementById('panel-body').textContent.includes('There is no item <img')")
        assert page.locator("img, iframe").count() == 0
        assert page.title() == "plain · breadth report"
