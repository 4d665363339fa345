"""Make the figures that the pages show.

    python docs/make_figures.py [DIRECTORY WITH berts_of_a_feather.csv]

The demo's figure needs nothing; the walk-through's needs the table of 100 BERT runs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import breadth
from breadth.datasets import simulate_scores
from breadth.report.page import write_figure

FIGURES = Path(__file__).parent / "figures"


def main() -> None:
    FIGURES.mkdir(exist_ok=True)
    demo = breadth.correlate(simulate_scores(runs=6), control="in_domain", by="run", order="step")
    print(write_figure(demo.figure(), FIGURES / "demo.png", "demo"))
    if len(sys.argv) > 1:
        berts = breadth.correlate(
            Path(sys.argv[1]) / "berts_of_a_feather.csv",
            control="MNLI dev acc.",
            facets="ln_*,le_*,sn_*,se_*,cn_*,ce_*",
        )
        print(write_figure(berts.figure(), FIGURES / "berts.png", "berts"))


if __name__ == "__main__":
    main()
