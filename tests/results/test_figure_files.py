"""Figures as files: pictures, and the page that follows theme and width in a real browser."""

import altair as alt
import polars as pl
import pytest

from breadth.errors import InputError
from breadth.results import FORMATS, Control, Figure, as_chart, write_figure
from breadth.results.figures import THEMES

EVIL = "</script><script>document.title='broken'</script>"
AXIS = {"type": "quantitative"}
DOTS = {
    "data": {"name": "points"},
    "params": [{"name": "shown", "value": "a"}],
    "transform": [{"filter": "datum.kind == shown"}],
    "usermeta": {"most": 900},
    "width": "container",
    "height": 100,
    "mark": {"type": "point", "color": "@model0"},
    "encoding": {"x": {"field": "x", **AXIS}, "y": {"field": "y", **AXIS}},
}
PANELS = {
    "data": {"name": "points"},
    "usermeta": {"pad": 40, "least": 120},
    "facet": {"field": "kind", "type": "nominal"},
    "spec": {"height": 80, "mark": {"type": "point", "color": "@ink"}, "encoding": DOTS["encoding"]},
}
TABLES = {"points": pl.DataFrame({"x": [*range(12)], "y": [*range(12)], "kind": ["a", "b", "c", "d"] * 3})}
CONTROL = Control("shown", "Kind", (("a", "first"), ("b", "second")))
FIGURES = (
    Figure("dots", "Some points", "What they mean.", DOTS, "points", (CONTROL,)),
    Figure("panels", "In panels", "", PANELS, "points"),
)
CHART = as_chart(*FIGURES, tables=TABLES)


@pytest.mark.parametrize(
    ("ending", "start"), [(".html", b"<!doctype html>"), (".pdf", b"%PDF"), (".png", b"\x89PNG"), (".svg", b"<svg")]
)
def test_every_format(tmp_path, ending, start):
    assert ending in FORMATS
    content = write_figure(CHART, tmp_path / f"figure{ending}", "Heading", "Finding").read_bytes()
    assert content.startswith(start)
    assert len(content) > 5000


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"cannot tell the format from '\.gif'; use \.html, \.pdf, \.png, \.svg"):
        write_figure(CHART, tmp_path / "figure.gif", "x")


def test_pictures_are_light(tmp_path):
    picture = write_figure(CHART, tmp_path / "figure.svg", "x").read_text()
    assert THEMES["light"]["@model0"] in picture
    assert THEMES["dark"]["@model0"] not in picture
    assert f'fill="{THEMES["light"]["@paper"]}"' in picture


def test_a_page_holds_both_themes_and_fetches_nothing(tmp_path):
    evil = Figure("dots", EVIL, EVIL, DOTS, "points")
    page = write_figure(as_chart(evil, tables=TABLES), tmp_path / "f.html", EVIL, f"{EVIL}\nMore.").read_text()
    assert EVIL not in page
    assert '<p class="verdict">&lt;/script&gt;' in page
    assert "<p>More.</p>" in page
    assert all(theme["@model0"] in page for theme in THEMES.values())
    assert not any(f'{kind}="http' in page for kind in ("src", "href"))


def opened(browser, path, width=1200, scheme="light"):
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.trouble = []
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    page.on("console", lambda message: page.trouble.append(message.text) if message.type == "error" else None)
    page.goto(path.as_uri())
    page.wait_for_function(
        "document.querySelectorAll('.plot[data-drawn]').length === document.querySelectorAll('.plot').length"
    )
    return page


@pytest.mark.slow
def test_the_page_follows_the_theme_and_keeps_what_was_chosen(browser, tmp_path):
    page = opened(browser, write_figure(CHART, tmp_path / "f.html", "Heading", "Yes: it does."))
    light, dark = (THEMES[name]["@model0"] for name in ("light", "dark"))
    plot = page.locator(".plot").first
    assert light in plot.inner_html()
    page.get_by_label("second").check()
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector(".plot[data-drawn=dark] >> nth=1")
    assert dark in plot.inner_html()
    assert light not in plot.inner_html()
    assert page.get_by_label("second").is_checked()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert page.trouble == []


@pytest.mark.slow
def test_the_page_fits_a_phone(browser, tmp_path):
    path = write_figure(CHART, tmp_path / "f.html", "A-heading-without-a-space-" * 5, "Finding")
    page = opened(browser, path, width=390)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    widths = "[...document.querySelectorAll('.plot svg.marks')].map((one) => one.getBoundingClientRect().width)"
    assert max(page.evaluate(widths)) <= 358
    page.set_viewport_size({"width": 1200, "height": 800})
    page.wait_for_function(f"Math.min(...{widths}) > 700")
    assert page.trouble == []


@pytest.mark.slow
def test_paper_is_light_and_nothing_is_clipped(browser, tmp_path):
    page = opened(browser, write_figure(CHART, tmp_path / "f.html", "Heading", "Finding"), scheme="dark")
    page.get_by_label("second").check()
    page.emulate_media(media="print")
    page.evaluate("document.body.style.width = '600px'")  # paper is narrower than the window
    papers = page.locator(".paper svg.marks")
    assert [papers.nth(k).is_visible() for k in range(2)] == [True, True]
    assert not page.locator(".plot").first.is_visible()
    assert THEMES["light"]["@model0"] in page.locator(".paper").first.inner_html()
    assert "x: 5; y: 5" in page.locator(".paper").first.inner_html(), "what was chosen is printed"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert all(papers.nth(k).bounding_box()["width"] <= 600 for k in range(2))
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.emulate_media(media="screen")
    assert not papers.first.is_visible()
    assert page.trouble == []


@pytest.mark.slow
def test_a_chart_of_somebody_else_is_drawn_as_it_is(browser, tmp_path):
    chart = alt.Chart(alt.Data(values=[{"x": 1}])).mark_point(color="#123456").encode(x="x:Q")
    page = opened(browser, write_figure(chart, tmp_path / "f.html", "Heading"))
    assert "#123456" in page.locator(".plot").first.inner_html()
    assert page.trouble == []
