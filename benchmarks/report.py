"""How long the report of a large study takes, and how quick its page is.

    python benchmarks/report.py [--into DIR] [--runs 48] [--checkpoints 41] [--items 640]

Makes a study of 48 runs x 41 checkpoints x 8 test sets of 640 items (10 million answers) unless DIR already holds one,
writes its report in a process of its own (time and peak memory), and opens the page in Chromium: seconds until the
first figure is drawn, and until a filter of the item table is applied.
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


def browse(page: Path) -> None:
    """Medians of three loads; the filter is timed from the event to the table's new rows."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        first, filtered = [], []
        for _ in range(3):
            tab = browser.new_page(viewport={"width": 1280, "height": 900})
            start = time.perf_counter()
            tab.goto(page.as_uri(), wait_until="commit")
            tab.wait_for_selector('[data-figure="profile"] .plot[data-drawn]', timeout=60_000)
            first.append(time.perf_counter() - start)
            tab.evaluate("breadth.drawAll()")
            filtered.append(
                tab.evaluate(
                    """() => {
                        const field = document.querySelector("#filters [name=text]");
                        field.value = "bank";
                        const start = performance.now();
                        field.dispatchEvent(new Event("input", { bubbles: true }));
                        document.getElementById("item-table").getBoundingClientRect();
                        return performance.now() - start;
                    }"""
                )
            )
            tab.close()
        browser.close()
    print(f"| first figure, s | {sorted(first)[1]:.2f} |\n| filter, ms | {sorted(filtered)[1]:.0f} |")


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
    from breadth.records import is_study

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
