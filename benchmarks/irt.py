"""Calibration: recovery and speed against peers on simulated answers, and growth with size.

    python benchmarks/irt.py peers --python .venv-peers/bin/python    # one thread each, in one run
    python benchmarks/irt.py scale                                    # all threads

Peers live in an environment of their own (``make bench`` sets it up): py-irt, girth, and mirt from PyPI.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent


def simulated(subjects: int, items: int, model: str, missing: float = 0.0):
    """Answers and the true difficulties behind them."""
    from breadth.datasets import simulate_answers

    truth = simulate_answers(subjects, items, model=model, missing=missing)
    return truth.matrix, truth.difficulty


def error(estimate, truth) -> tuple[float, float]:
    """RMSE and correlation after putting the estimate on the truth's mean and spread, which models fix differently."""
    import numpy as np

    known = np.isfinite(estimate)
    scaled = (estimate[known] - estimate[known].mean()) / estimate[known].std()
    target = (truth[known] - truth[known].mean()) / truth[known].std()
    return float(np.sqrt(np.mean((scaled - target) ** 2))), float(np.corrcoef(scaled, target)[0, 1])


def ours(path: str, model: str) -> tuple[float, list[float]]:
    """Best of five runs of the whole fit with standard errors, without reading the file."""
    import numpy as np

    from breadth.irt import MODELS, Answers

    matrix = np.load(path)["R"]
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        estimates = MODELS[model].fit(Answers.of(matrix))
        seconds.append(time.perf_counter() - start)
    return min(seconds), estimates.difficulty.tolist()


def compare(peer_python: str, quick: bool) -> None:
    cases = [("1pl", 1000, 1000, ["girth", "mirt", "py-irt"]), ("2pl", 1000, 1000, ["girth", "mirt", "py-irt"])]
    cases += [("1pl", 500, 500, ["girth", "mirt"]), ("2pl", 500, 500, ["girth", "mirt"]), ("3pl", 2000, 1000, ["mirt"])]
    cases += [("1pl", 2000, 5000, ["girth"]), ("2pl", 2000, 5000, ["girth"])]
    print("| model | subjects x items | tool | seconds | ratio | RMSE | r |\n|---|---|---|---|---|---|---|", flush=True)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "RAYON_NUM_THREADS": "1",
    }
    for model, subjects, items, peers in cases:
        matrix, truth = simulated(subjects, items, model)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "answers.npz"
            import numpy as np

            np.savez(path, R=matrix)
            call = [sys.executable, __file__, "ours", str(path), model]
            base = json.loads(subprocess.run(call, capture_output=True, text=True, check=True, env=environment).stdout)
            rmse, r = error(np.array(base["difficulty"]), truth)
            size = f"{subjects} x {items}"
            print(f"| {model} | {size} | breadth | {base['seconds']:.4f} | 1 | {rmse:.4f} | {r:.4f} |", flush=True)
            for peer in peers:
                if quick and peer == "py-irt":
                    continue
                call = [peer_python, str(HERE / "irt_peers.py"), peer, model, str(path)]
                out = subprocess.run(call, capture_output=True, text=True, check=False, env=environment, timeout=1500)
                if out.returncode:
                    print(
                        f"| {model} | {size} | {peer} | failed: {out.stderr.strip().splitlines()[-1][:60]} | | | |",
                        flush=True,
                    )
                    continue
                fitted = json.loads(out.stdout.strip().splitlines()[-1])
                rmse, r = error(np.array(fitted["difficulty"]), truth)
                ratio = fitted["seconds"] / base["seconds"]
                print(
                    f"| {model} | {size} | {peer} | {fitted['seconds']:.2f} | {ratio:,.0f} | {rmse:.4f} | {r:.4f} |",
                    flush=True,
                )


def measure(model: str, subjects: int, items: int, missing: float) -> None:
    import numpy as np

    import breadth
    from breadth.irt import MODELS, Answers

    matrix, truth = simulated(subjects, items, model, missing)
    parameters, whole = [], []
    for _ in range(2):
        start = time.perf_counter()
        MODELS[model].fit(Answers.of(matrix), errors=False)
        parameters.append(time.perf_counter() - start)
        start = time.perf_counter()
        result = breadth.calibrate(matrix, model=model)
        whole.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    rmse, r = error(result.items["difficulty"].to_numpy(), truth)
    se = result.items["difficulty_se"].to_numpy()
    print(
        f"| {model} | {subjects} x {items} | {missing:.0%} | {matrix.size / 1e6:.0f} | {min(parameters):.2f} "
        f"| {min(whole):.2f} | {peak:.2f} | {rmse:.4f} | {r:.4f} | {np.nanmedian(se):.3f} |",
        flush=True,
    )


def scale() -> None:
    columns = ["model", "subjects x items", "missing", "million cells", "parameters, s", "all, s", "peak GB"]
    columns += ["RMSE", "r", "median se"]
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|", flush=True)
    cases = [
        ("1pl", 1000, 1000, 0), ("1pl", 2000, 5000, 0), ("1pl", 5000, 10000, 0), ("1pl", 10000, 10000, 0),
        ("1pl", 5000, 10000, 0.2),
        ("2pl", 1000, 1000, 0), ("2pl", 2000, 5000, 0), ("2pl", 5000, 10000, 0), ("2pl", 10000, 10000, 0),
        ("2pl", 5000, 10000, 0.2), ("3pl", 2000, 1000, 0),
    ]  # fmt: skip
    for case in cases:
        subprocess.run([sys.executable, __file__, "measure", *map(str, case)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    peers = commands.add_parser("peers")
    peers.add_argument("--python", required=True, help="Python of the environment that has the peers")
    peers.add_argument("--quick", action="store_true", help="leave out py-irt, which takes minutes")
    commands.add_parser("scale")
    inner = commands.add_parser("ours")
    inner.add_argument("path")
    inner.add_argument("model")
    one = commands.add_parser("measure")
    for name, kind in (("model", str), ("subjects", int), ("items", int), ("missing", float)):
        one.add_argument(name, type=kind)
    options = parser.parse_args()
    if options.command == "peers":
        compare(options.python, options.quick)
    elif options.command == "scale":
        scale()
    elif options.command == "ours":
        seconds, difficulty = ours(options.path, options.model)
        print(json.dumps({"seconds": seconds, "difficulty": difficulty}))
    else:
        measure(options.model, options.subjects, options.items, options.missing)


if __name__ == "__main__":
    main()
