import time
from contextlib import contextmanager

import pytest


def until(page, expression, seconds):
    """Wait for an expression to become true. (The page's policy forbids playwright's own way, which evaluates text.)"""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never true: {expression}"
        page.wait_for_timeout(100)


@pytest.fixture(scope="session")
def levels_report(levels_study, tmp_path_factory):
    """The page of the study by levels."""
    import breadth

    return breadth.report(levels_study.folder, out=tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture(scope="session")
def levels_data(levels_study):
    """What that page is made of."""
    from breadth.reporting import build_report

    return build_report(levels_study.folder)


@pytest.fixture
def open_page(browser):
    """Open a page and watch it: console errors and requests that leave it are collected in ``page.trouble``."""
    contexts = []

    @contextmanager
    def watched(url, width=1280, scheme="light"):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        contexts.append(context)
        page = context.new_page()
        page.trouble = []
        home = url.split("/study")[0] if url.startswith("http") else url
        page.on("console", lambda message: page.trouble.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: page.trouble.append(str(error)))
        allowed = (home, "data:", "blob:")
        page.on(
            "request", lambda request: None if request.url.startswith(allowed) else page.trouble.append(request.url)
        )
        page.until = lambda expression, seconds=30: until(page, expression, seconds)
        page.ready = lambda: page.until("document.documentElement.dataset.ready === 'yes'", 60)
        page.goto(url)
        yield page
        assert page.trouble == []

    yield watched
    for context in contexts:
        context.close()
