"""Make the figures that the pages show.

    python docs/make_figures.py [DATA]

The demo's figure needs nothing; the picture of the report needs Chromium; those of real data need
DATA/trajectories/berts_of_a_feather.csv and DATA/responses/gsm8k_leaderboard.npz.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import breadth
from breadth.datasets import simulate_scores, simulate_study
from breadth.results import write_figure

FIGURES = Path(__file__).parent / "figures"

#: The ten models of docs/examples/gsm8k.md.
TEN = [
    "EleutherAI/pythia-12b", "lmsys/vicuna-13b-v1.5", "google/gemma-7b-it", "mistralai/Mistral-7B-v0.1",
    "meta-llama/Llama-2-70b-hf", "microsoft/phi-2", "upstage/SOLAR-10.7B-Instruct-v1.0", "Qwen/Qwen-72B",
    "microsoft/Phi-3-medium-4k-instruct", "meta-llama/Meta-Llama-3-70B-Instruct",
]  # fmt: skip


def main() -> None:
    FIGURES.mkdir(exist_ok=True)
    demo = breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step")
    print(write_figure(demo.figure(), FIGURES / "demo.png", "demo"))
    if shutil.which("chromium"):
        print(*picture_of_report(), sep="\n")
    else:
        print("report.png is left as it is: there is no chromium", file=sys.stderr)
    if len(sys.argv) > 1:
        data = Path(sys.argv[1])
        berts = breadth.correlate(
            data / "trajectories" / "berts_of_a_feather.csv",
            control="MNLI dev acc.",
            testsets="ln_*,le_*,sn_*,se_*,cn_*,ce_*",
        )
        print(write_figure(berts.figure(), FIGURES / "berts.png", "berts"))
        answers = data / "responses" / "gsm8k_leaderboard.npz"
        gsm8k = breadth.calibrate(answers, model="2pl")
        print(write_figure(gsm8k.figure(), FIGURES / "gsm8k.png", "gsm8k"))
        ten = breadth.profile(answers, gsm8k, TEN)
        print(write_figure(ten.figure(), FIGURES / "gsm8k_profile.png", "ten models on GSM8K"))
    if len(sys.argv) > 2:  # the directory that `breadth run mnli-levels` made
        print(write_figure(breadth.transfer(sys.argv[2]).figure(), FIGURES / "mnli_levels.png", "levels of MNLI"))


def picture_of_report() -> list[Path]:
    """The first section of a report, and that on difficulty, as a reader sees them."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        study = simulate_study(Path(folder) / "study", runs=16, items=100, train_levels=4)
        page = breadth.report(study.folder)
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        tab = browser.new_page(viewport={"width": 1180, "height": 1000}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.evaluate("breadth.drawAll()")
        tab.screenshot(path=FIGURES / "report.png", clip={"x": 0, "y": 0, "width": 1180, "height": 960})
        tab.add_style_tag(content=".top { position: static !important }")
        tab.locator("#difficulty").screenshot(path=FIGURES / "report-difficulty.png")
        browser.close()
    return [FIGURES / "report.png", FIGURES / "report-difficulty.png"]


if __name__ == "__main__":
    main()
