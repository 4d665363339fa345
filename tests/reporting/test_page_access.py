"""The page by keyboard and for screen readers: everything can be reached and is named; axe-core finds nothing."""

from itertools import pairwise
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / ".venv" / "axe" / "node_modules" / "axe-core" / "axe.min.js"

#: Every view of the panel, and the page without it.
VIEWS = {
    "closed": "null",
    "items": "breadth.open('items', { one: 'model-a', two: 'model-b', first: 'model-a' })",
    "item": "breadth.items().then((rows) => breadth.open('item', { item: rows[3].item, of: rows[3].testset }))",
    "pair": "breadth.open('pair', { a: 'science', b: 'chains', model: 'model-a', adjusted: '1' })",
    "marks": "breadth.open('marks', { figure: 'profile' })",
}


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(levels_report, open_page, scheme, width):
    if not AXE.is_file():
        pytest.skip("needs axe-core (make test installs it where there is npm)")
    with open_page(levels_report.as_uri(), width, scheme) as page:
        page.ready()
        page.evaluate(AXE.read_text())
        for name, act in VIEWS.items():
            page.evaluate(f"{act}; null")
            page.wait_for_timeout(500)
            assert page.evaluate("breadth.state.panel || 'closed'") == name
            found = page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((run) => run.violations)")
            summary = [(rule["id"], rule["impact"], [node["html"][:120] for node in rule["nodes"]]) for rule in found]
            assert summary == [], name


def focused(page):
    return page.evaluate(
        "(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent).trim()"
    )


def tab_to(page, words):
    """Press Tab until the element in focus is called so."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if words in focused(page):
            return
    raise AssertionError(f"Tab never reached {words!r}")


def test_an_item_can_be_reached_by_keyboard_alone(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        page.keyboard.press("Tab")
        assert focused(page) == "Skip to the answers"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "main"
        title = page.inner_text("[data-figure='profile'] h3")
        tab_to(page, f"Export the figure {title}")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches('.plot[role=group]')")
        finding = page.evaluate(
            "document.getElementById(document.activeElement.getAttribute('aria-describedby').split(' ')[0]).textContent"
        )
        assert finding.strip()
        page.keyboard.press("Enter")
        page.wait_for_selector("#panel tbody tr")
        assert page.evaluate("document.activeElement.id") == "panel-title"
        assert focused(page) == title
        tab_to(page, "Open mark 2")
        page.keyboard.press("Enter")
        page.wait_for_selector("#item-list li")
        assert page.evaluate("document.activeElement.id") == "panel-title"
        tab_to(page, "premise:")
        page.keyboard.press("Enter")
        page.wait_for_selector("#panel dl")
        assert page.evaluate("breadth.state.panel") == "item"
        page.keyboard.press("Escape")
        page.until("document.getElementById('panel').hidden")
        assert page.evaluate("document.activeElement.dataset.key") == "profile"


def test_the_focus_can_be_seen(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        for _ in range(12):
            page.keyboard.press("Tab")
            style = page.evaluate(
                """(() => {
                    const node = document.activeElement;
                    const shown = node.matches("fieldset input") ? node.nextElementSibling : node;
                    return getComputedStyle(shown).outlineStyle;
                })()"""
            )
            assert style != "none", focused(page)


def test_headings_are_in_order(levels_report, open_page):
    with open_page(levels_report.as_uri()) as page:
        page.ready()
        page.evaluate("breadth.items().then((rows) => breadth.open('item', { item: rows[3].item }))")
        page.wait_for_selector("#panel dl")
        levels = page.evaluate(
            "[...document.querySelectorAll('h1, h2, h3, h4')].map((node) => Number(node.tagName[1]))"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
