"""Make the figures that the pages show.

    python docs/make_figures.py [DATA]

The demo's figure needs nothing; those of real data need DATA/trajectories/berts_of_a_feather.csv and
DATA/responses/gsm8k_leaderboard.npz.
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
        data = Path(sys.argv[1])
        berts = breadth.correlate(
            data / "trajectories" / "berts_of_a_feather.csv",
            control="MNLI dev acc.",
            facets="ln_*,le_*,sn_*,se_*,cn_*,ce_*",
        )
        print(write_figure(berts.figure(), FIGURES / "berts.png", "berts"))
        gsm8k = breadth.calibrate(data / "responses" / "gsm8k_leaderboard.npz", model="2pl")
        print(write_figure(gsm8k.figure(), FIGURES / "gsm8k.png", "gsm8k"))


if __name__ == "__main__":
    main()
