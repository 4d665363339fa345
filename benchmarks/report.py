"""How long the report of a large study takes, and how quick its page is.

    python benchmarks/report.py [--into DIR] [--runs 48] [--checkpoints 41] [--items 640]

Makes a study of 48 runs x 41 checkpoints x 8 test sets of 640 items (10 million answers) unless DIR already holds one,
writes its report in a process of its own (time and peak memory), and opens the page in Chromium: seconds until the
first figure is painted, milliseconds until the panel shows items, a filter is applied, an item or a pair is open.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODELS = [f"model-{letter}" for letter in "abcdefgh"]


def measure(folder: Path) -> None:
    from breadth.reporting import report

    start = time.perf_counter()
    page = report(folder, out=folder / "report.html")
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| report, s | {seconds:.1f} |\n| peak, GB | {peak:.2f} |\n| page, MB | {page.stat().st_size / 1e6:.1f} |")


#: Notes in the page when its first figure is painted: asking from outside would wait for the figures after it.
FIRST = """
new MutationObserver((_, observer) => {
    if (!document.querySelector("figure .plot[data-drawn]")) return;
    observer.disconnect();
    requestAnimationFrame(() => { const channel = new MessageChannel();
        channel.port1.onmessage = () => { window.firstFigure = performance.now(); };
        channel.port2.postMessage(0); });
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-drawn"] });
"""

#: What is done in the panel, and what shows that it is done.
STEPS = {
    "panel, ms": ("breadth.open('items', { testset: 'science', first: 'model-b' })", "#item-list li"),
    "filter, ms": ("window.list.remove(); breadth.go({ testset: null, text: 'bank' })", "#item-list ol"),
    "item, ms": ("breadth.open('item', { item: 'science-test-000100', of: 'science' })", "#panel .facts"),
    "correlation, ms": ("breadth.open('pair', { a: 'science', b: 'chains', model: 'model-b' })", "#panel .small"),
}


def browse(page: Path) -> None:
    """Medians of three loads; steps in the panel are timed from the call to the new content, laid out."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        taken: dict[str, list[float]] = {"first figure, s": [], **{name: [] for name in STEPS}}
        for _ in range(3):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            tab.add_init_script(FIRST)
            tab.goto(page.as_uri(), wait_until="commit")
            while not tab.evaluate("document.documentElement.dataset.ready"):
                tab.wait_for_timeout(200)
            taken["first figure, s"].append(tab.evaluate("window.firstFigure") / 1000)
            for name, (act, sign) in STEPS.items():
                wait = f"while (!document.querySelector('{sign}')) await new Promise((done) => setTimeout(done));"
                milliseconds = tab.evaluate(
                    f"""async () => {{
                        window.list = document.querySelector("#item-list ol");
                        const start = performance.now();
                        {act};
                        {wait}
                        document.getElementById("panel").getBoundingClientRect();
                        return performance.now() - start;
                    }}"""
                )
                taken[name].append(milliseconds)
                tab.wait_for_timeout(1500)  # figures are fitted to the narrower page
            tab.close()
        browser.close()
    for name, times in taken.items():
        print(f"| {name} | {sorted(times)[1]:.{2 if name.endswith(' s') else 0}f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--runs", type=int, default=48)
    parser.add_argument("--checkpoints", type=int, default=41)
    parser.add_argument("--items", type=int, default=640, help="of each of the eight test sets")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one)
        return
    from breadth.datasets import simulate_study
    from breadth.records.store import is_study

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.into or Path(temporary) / "study"
        if not is_study(folder):
            simulate_study(
                folder, runs=options.runs, checkpoints=options.checkpoints, items=options.items, models=MODELS
            )
        print(f"| answers | {options.runs * options.checkpoints * options.items * 8:,} |", flush=True)
        subprocess.run([sys.executable, __file__, "--one", str(folder)], check=True)
        if shutil.which("chromium"):
            browse(folder / "report.html")


if __name__ == "__main__":
    main()
