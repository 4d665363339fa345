"""The report in a real browser: drawn, filtered, drilled into, downloaded; at both widths and in both themes."""

import csv
import io
import json

import polars as pl
import pytest

import breadth
from breadth.reporting import build_report

pytestmark = pytest.mark.slow

EVIL = "<script>document.title = 'broken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def report(levels_study, tmp_path_factory):
    return breadth.report(levels_study.folder, out=tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="module")
def data(levels_study):
    return build_report(levels_study.folder)


def marks(page, figure):
    plot = page.locator(f'[data-figure="{figure}"] .plot')
    return plot.locator("svg path[aria-roledescription]").count() + plot.locator("canvas").count()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_figure_is_drawn_and_fits(report, data, open_page, width, scheme):
    with open_page(report.as_uri(), width, scheme) as page:
        page.wait_for_selector('[data-figure="profile"] .plot[data-drawn]', timeout=20_000)
        page.evaluate("breadth.drawAll()")
        names = page.evaluate("Object.keys(breadth.payload.figures)")
        assert {
            "profile",
            "trajectories",
            "correlations",
            "agreement",
            "map",
            "by_level",
            "transfer",
            "distance",
        } <= set(names)
        for name in names:
            assert marks(page, name) > 0, name
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 26)")


def test_figures_follow_the_theme_button(report, open_page):
    with open_page(report.as_uri()) as page:
        plot = page.locator('[data-figure="profile"] .plot svg')
        plot.wait_for()
        before = plot.inner_html()
        page.click("#theme")
        page.until("document.querySelector('[data-figure=\"profile\"] .plot svg')?.innerHTML.includes('#56B4E9')")
        assert "#56B4E9" in page.locator('[data-figure="profile"] .plot svg').inner_html()
        assert "#0072B2" in before


def test_filters_narrow_the_table(report, data, open_page):
    items = data.table("items")
    with open_page(report.as_uri()) as page:
        page.wait_for_selector("#item-table tbody tr")
        assert page.locator("#item-table tbody tr").count() == 100
        page.select_option("#filters [name=testset]", "science")
        page.select_option("#filters [name=level]", "2")
        expected = items.filter((pl.col("testset") == "science") & (pl.col("level") == 2))
        assert page.locator("#item-table tbody tr").count() == expected.height
        page.select_option("#filters [name=label]", "entailment")
        assert page.locator("#item-table tbody tr").count() == expected.filter(pl.col("label") == "entailment").height
        page.click("#filters [type=reset]")
        page.check("#filters [name=doubt]")
        assert page.locator("#item-table tbody tr").count() == items.filter(pl.col("doubt").is_not_null()).height
        page.uncheck("#filters [name=doubt]")
        word = items["text"][7].split()[1].lower()
        page.fill("#filters [name=text]", word)
        assert (
            f"of {items.filter(pl.col('text').str.to_lowercase().str.contains(word, literal=True)).height:,}"
            in page.inner_text("#count")
        )


def test_sorting_and_paging(report, data, open_page):
    with open_page(report.as_uri()) as page:
        page.get_by_role("button", name="Difficulty").click()
        first = page.locator("#item-table tbody tr .id").first.inner_text()
        assert first == data.table("items").sort("difficulty")["item"][0]
        page.click("#next")
        assert page.inner_text("#page") == "2 / 2"
        assert page.locator("#item-table tbody tr").count() == 80


FIND = """async ([figure, role, words]) => {
    const marks = `[data-figure="${figure}"] .plot svg path[aria-roledescription="${role}"]`;
    const middle = () => {
        const node = [...document.querySelectorAll(marks)]
            .find((one) => words.every((word) => one.getAttribute("aria-label").includes(word)));
        if (!node) return null;
        node.scrollIntoView({ block: "center" });
        const box = node.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
    };
    for (let before = null, now = middle(); ; before = now, now = middle()) {
        if (now && String(before) === String(now)) return now;
        await new Promise((done) => setTimeout(done, 100));
    }
}"""


def click(page, figure, role, *words):
    """Click the mark whose description holds the words, as a reader would: with the mouse, where it came to rest."""
    page.evaluate("document.activeElement.blur()")
    page.mouse.click(*page.evaluate(FIND, [figure, role, words]))
    page.until("document.activeElement === document.getElementById('filters').elements[0]")
    assert page.evaluate("document.getElementById('items').getBoundingClientRect().top") < 900
    return page.evaluate("Object.fromEntries(new FormData(document.getElementById('filters')))")


def test_marks_lead_to_the_items_behind_them(report, data, open_page):
    items = data.table("items")
    with open_page(report.as_uri()) as page:
        page.evaluate("breadth.drawAll()")
        chosen = click(page, "profile", "point", "test set: chains", "model: model-b")
        assert chosen["testset"] == "chains"
        assert page.inner_text("#chips") == "failures of model-b first ✕"
        assert page.locator("#item-table tbody tr").count() == items.filter(pl.col("testset") == "chains").height
        first = page.locator("#item-table tbody tr .id").first.inner_text()
        assert items.filter(pl.col("item") == first)["right_model-b"][0] == 0
        chosen = click(page, "transfer", "rect mark", "test level: 1")
        assert (chosen["testset"], chosen["level"]) == ("", "1")
        chosen = click(page, "by_level", "point", "level: 2", "model: model-a")
        assert chosen["level"] == "2"
        assert page.inner_text("#chips") == "failures of model-a first ✕"
        page.locator('[data-figure="trajectories"]').scroll_into_view_if_needed()
        page.click('[data-figure="trajectories"] canvas', position={"x": 150, "y": 120})
        page.until("document.querySelector('#filters [name=testset]').value === 'plain'")
        click(page, "correlations", "rect mark", "a: science", "b: chains")
        assert page.inner_text("#chips") == "sets: science, chains ✕"
        click(page, "map", "bar", "what: items")
        assert page.inner_text("#chips").startswith("difficulty ")
        low, high = (float(edge.replace("−", "-")) for edge in page.inner_text("#chips").split()[1:4:2])
        count = items.filter(pl.col("difficulty").is_between(low - 0.005, high + 0.005)).height
        assert f"of {count}" in page.inner_text("#count")


def test_a_pair_leads_to_both_sets_and_keyboard_reaches_it(report, open_page):
    with open_page(report.as_uri()) as page:
        numbers = page.locator('[data-figure="correlations"] [data-numbers]')
        numbers.focus()
        page.keyboard.press("Enter")
        show = page.locator('[data-figure="correlations"] .numbers-table button').first
        show.focus()
        page.keyboard.press("Enter")
        assert "sets: " in page.inner_text("#chips")
        sets = set(page.locator("#item-table tbody td[data-label='Test set']").all_inner_texts())
        assert len(sets) <= 2
        page.locator("#chips button").click()
        assert page.inner_text("#chips") == ""


def test_switching_kinds_and_runs(report, open_page):
    with open_page(report.as_uri()) as page:
        page.evaluate("breadth.drawAll()")
        drawn = "document.querySelector('[data-figure=\"correlations\"] svg').innerHTML"
        page.evaluate(f"window.before = {drawn}")
        page.locator('[data-figure="correlations"] [value=raw] + span').click()
        page.until(f"{drawn} !== window.before")
        page.select_option('[data-figure="correlations"] select', "model-a")
        page.until("document.querySelector('[data-figure=\"correlations\"] svg').textContent.includes('model-a-00')")
        page.click(".choose summary")
        page.click('[data-runs-of="model-a"]')
        assert page.inner_text("#runs-shown") == "6 of 12"
        shown = page.evaluate("breadth.views.trajectories.signal('shown')")
        assert set(shown) == {f"model-a-{k:02d}" for k in range(0, 12, 2)}


def downloaded(page, selector):
    with page.expect_download() as waiting:
        page.locator(selector).first.click()
    return waiting.value.path().read_bytes()


def test_one_switch_shows_accuracy_sensitivity_and_bias(report, data, open_page):
    table = data.table("trajectories")
    with open_page(report.as_uri()) as page:
        page.wait_for_selector('[data-figure="profile"] .plot[data-drawn]', timeout=20_000)
        page.evaluate("breadth.drawAll()")
        switch = page.locator('[data-figure="trajectories"] input[data-signal=measure]')
        assert [switch.nth(k).get_attribute("value") for k in range(3)] == ["accuracy", "auc", "share"]
        for name in ("auc", "share", "accuracy"):
            page.locator(f'[data-figure="trajectories"] input[value={name}]').check(force=True)
            low, high = table[name].min(), table[name].max()
            ends = "breadth.views.trajectories.scale('y').domain()"
            page.until(f"{ends}[0] <= {low} && {ends}[1] >= {high} && {ends}[1] - {ends}[0] < {high - low + 0.3}")


def test_downloads_hold_the_numbers(report, data, open_page):
    with open_page(report.as_uri()) as page:
        text = downloaded(page, '.downloads [data-table="pairs"][data-save="csv"]').decode()
        rows = list(csv.DictReader(io.StringIO(text)))
        table = data.table("pairs")
        assert [float(row["r"]) for row in rows] == pytest.approx(table["r"].to_list(), rel=1e-6)
        assert [row["run"] for row in rows] == table["run"].to_list()
        cells = json.loads(downloaded(page, '.downloads [data-table="transfer_cells"][data-save="json"]'))
        assert [row["gain"] for row in cells] == pytest.approx(data.table("transfer_cells")["gain"].to_list(), rel=1e-6)
        svg = downloaded(page, '[data-figure="by_level"] [data-save="svg"]')
        assert svg.startswith(b"<svg")
        png = downloaded(page, '[data-figure="by_level"] [data-save="png"]')
        assert png.startswith(b"\x89PNG")
        assert len(png) > 5000


def test_text_of_items_is_only_text(levels_study, open_page, tmp_path):
    import shutil

    folder = shutil.copytree(levels_study.folder, tmp_path / "study")
    path = folder / "items" / "plain.parquet"
    frame = pl.read_parquet(path)
    frame.with_columns(premise=pl.lit(EVIL), label=pl.lit(EVIL)).write_parquet(path)
    (folder / "study.yaml").write_text(f"name: plain\ndescription: {json.dumps(EVIL)}\n")
    report = breadth.report(folder)
    assert EVIL not in report.read_text()
    with open_page(report.as_uri()) as page:
        page.wait_for_selector("#item-table tbody tr")
        assert EVIL in page.locator("#item-table tbody tr").first.inner_text()
        assert page.locator("img, iframe").count() == 0
        assert page.title() == "plain · breadth report"
