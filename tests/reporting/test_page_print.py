"""The report on paper: few pages, light, nothing clipped, items only on request."""

import re

import pytest

pytestmark = pytest.mark.slow

#: Width of A4 between the page's margins, in CSS pixels.
PAPER = round((210 - 2 * 13) / 25.4 * 96)


def pages(pdf):
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", pdf))


def printed(page):
    return page.pdf(format="A4", prefer_css_page_size=True, print_background=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_study_prints_on_a_few_light_pages(levels_report, open_page, scheme):
    with open_page(levels_report.as_uri(), 1440, scheme) as page:
        page.ready()
        page.evaluate("breadth.open('items', {})")
        # The first screen, and the answers of all advices, take two of them.
        assert 2 <= pages(printed(page)) <= 8
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        # The numbers of the first table are buttons, too, and are printed.
        kinds = "#panel, .plot, .controls, .save, .top, button:not(#grid button), select, input"
        hidden = f"[...document.querySelectorAll('{kinds}')]"
        assert page.evaluate(f"{hidden}.filter((node) => node.checkVisibility()).length") == 0
        light = page.evaluate("breadth.payload.themes.light.tokens['@ink']")
        dark = page.evaluate("breadth.payload.themes.dark.tokens['@ink']")
        drawings = page.evaluate("[...document.querySelectorAll('.paper svg')].map((node) => node.outerHTML)")
        assert len(drawings) >= 5
        assert all(light in text and dark not in text for text in drawings)


@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_clipped_on_paper(levels_report, open_page, width):
    with open_page(levels_report.as_uri(), width) as page:
        page.ready()
        page.emulate_media(media="print")
        page.set_viewport_size({"width": PAPER, "height": 1000})
        assert page.evaluate("document.documentElement.scrollWidth") == PAPER
        wide = page.evaluate(
            """[...document.querySelectorAll(".paper svg, .paper canvas, figcaption, table, p, li, dd")]
                .filter((node) => node.checkVisibility())
                .map((node) => [node.tagName, node.getBoundingClientRect().left, node.getBoundingClientRect().right])
                .filter(([, left, right]) => left < -1 || right > document.documentElement.clientWidth + 1)"""
        )
        assert wide == []
        figures = page.evaluate("Object.keys(breadth.payload.figures).length")
        shown = "[...document.querySelectorAll('.paper svg, .paper canvas')].filter((node) => node.checkVisibility())"
        assert page.evaluate(f"{shown}.filter((node) => node.getBoundingClientRect().height > 50).length") == figures


def test_items_are_printed_on_request(levels_report, levels_data, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        before = pages(printed(page))
        page.click("#print-menu summary")
        page.check("#print-items")
        assert page.url.endswith("#appendix=1")
        rows = levels_data.table("items").height
        page.until(f"document.querySelectorAll('#appendix tbody tr').length === {rows}")
        assert not page.is_visible("#appendix")
        assert pages(printed(page)) > before
        page.emulate_media(media="print")
        assert levels_data.table("items")["item"][0] in page.inner_text("#appendix")


def test_the_print_button_prepares_figures_as_switched(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        page.evaluate(
            "window.print = () => { window.asked = document.querySelectorAll('.paper:not([data-drawn])').length; }"
        )
        page.evaluate("breadth.go({ 'correlations.kind': 'raw' })")
        page.keyboard.press("Control+p")
        page.until("window.asked === 0")
