"""Items per second of one checkpoint's evaluation against lm-evaluation-harness: same model, items, prompt, threads.

    python benchmarks/evaluation_speed.py --peer .venv-lm-eval/bin/python

Both score " Yes" and " No" after the same prompts with smollm2-135m, in processes of their own, one after the other, in
turns, so that both see the same machine. The harness runs its own HFLM.loglikelihood at the two batch sizes that were
fastest on some of the items, and the faster one counts; loading is not timed on either side.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ITEMS, ROUNDS, BATCHES = 240, 2, (4, 8, 16, 32)
PATTERN = "{premise} Question: {hypothesis} Yes or No?"
HERE = Path(__file__).resolve()


def make_prompts() -> list[str]:
    """Prompts of all generated sets in turn; their mean length is near 40 tokens."""
    from breadth.datasets import SETS, generate

    rows = [row for name in SETS for row in generate(name, ITEMS // len(SETS) + 1).iter_rows(named=True)]
    return [PATTERN.format(**row) for row in rows][:ITEMS]


def time_harness(folder: str, prompts: list[str], batch: int, rounds: int) -> dict[str, object]:
    """Score with lm-evaluation-harness; runs inside its own environment."""
    import torch
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=batch)
    requests = [
        Instance(request_type="loglikelihood", doc={}, arguments=(prompt, answer), idx=k)
        for prompt in prompts
        for k, answer in enumerate((" Yes", " No"))
    ]
    seconds, scores = [], []
    for _ in range(rounds):
        started = time.perf_counter()
        scores = [value for value, _ in model.loglikelihood(requests, disable_tqdm=True)]
        seconds.append(time.perf_counter() - started)
    return {"seconds": min(seconds), "margins": [a - b for a, b in zip(scores[::2], scores[1::2], strict=True)]}


def time_breadth(folder: str, prompts: list[str], top: int, rounds: int) -> dict[str, object]:
    """Score with breadth: the whole model (top 0), or the top layers on kept states of the frozen layers."""
    import polars as pl
    import torch

    from breadth.datasets import Loaded, Pattern
    from breadth.lm import SplitModel, encode_testset, evaluate_model, keep_frozen_states, load_model

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    loaded = load_model(folder)
    task = Pattern("{text}", (("yes", " Yes"), ("no", " No")))
    frame = pl.DataFrame({"item": [f"i{k:04d}" for k in range(len(prompts))], "text": prompts})
    frame = frame.with_columns(testset=pl.lit("speed"), shift=pl.lit("domain"), label=pl.lit("yes"))
    model = SplitModel(loaded.model, top or None)
    testset = encode_testset(loaded, Loaded("speed", "domain", task, frame, ""), context=512)
    if top:
        keep_frozen_states(model, [testset])
    seconds, answers = [], None
    for _ in range(rounds):
        started = time.perf_counter()
        answers = evaluate_model(loaded, model, [testset])
        seconds.append(time.perf_counter() - started)
    assert answers is not None
    return {"seconds": min(seconds), "margins": answers["margin"].to_list()}


def in_process(python: str, job: dict[str, object], threads: int) -> dict[str, object]:
    """Run one job in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "job.json", Path(folder) / "found.json"
        given.write_text(json.dumps(job))
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "0",
        }
        subprocess.run(
            [python, str(HERE), "--job", str(given), str(found)], check=True, env=environment, stdout=sys.stderr
        )
        result: dict[str, object] = json.loads(found.read_text())
        return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", default=".venv-lm-eval/bin/python")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--job", nargs=2)
    chosen = parser.parse_args()
    if chosen.job:
        job = json.loads(Path(chosen.job[0]).read_text())
        work = time_harness if job.pop("who") == "harness" else time_breadth
        Path(chosen.job[1]).write_text(json.dumps(work(**job)))
        return
    from breadth.lm import fetch_model

    folder, prompts = str(fetch_model("smollm2-135m")), make_prompts()
    common = {"folder": folder, "prompts": prompts}
    tried = {
        batch: in_process(
            chosen.peer,
            {"who": "harness", "folder": folder, "prompts": prompts[:60], "batch": batch, "rounds": 1},
            chosen.threads,
        )["seconds"]
        for batch in BATCHES
    }
    sizes = sorted(tried, key=lambda batch: float(str(tried[batch])))[:2]
    print("harness, 60 items, seconds by batch size:", {batch: round(float(str(s)), 1) for batch, s in tried.items()})
    jobs = {
        **{f"lm-eval 0.4.13, batch {size}": (chosen.peer, {"who": "harness", "batch": size}) for size in sizes},
        "breadth, whole model": (sys.executable, {"who": "breadth", "top": 0}),
        "breadth, kept states, top 8 of 30": (sys.executable, {"who": "breadth", "top": 8}),
        "breadth, kept states, top 4 of 30": (sys.executable, {"who": "breadth", "top": 4}),
    }
    fastest: dict[str, float] = {}
    margins: dict[str, list[float]] = {}
    for _ in range(ROUNDS):
        for name, (python, job) in jobs.items():
            found = in_process(python, {**common, **job, "rounds": 2}, chosen.threads)
            fastest[name] = min(fastest.get(name, float("inf")), float(str(found["seconds"])))
            margins[name] = found["margins"]  # type: ignore[assignment]
    first = min((name for name in jobs if name.startswith("lm-eval")), key=fastest.__getitem__)
    print(f"{len(prompts)} items, {chosen.threads} thread(s), best of {2 * ROUNDS} passes, in turns")
    print(f"{'':34} items/s   ratio   same answers   largest difference of log-odds")
    for name, seconds in fastest.items():
        pairs = list(zip(margins[name], margins[first], strict=True))
        same = sum((a > 0) == (b > 0) for a, b in pairs)
        gap = max(abs(a - b) for a, b in pairs)
        rate = len(prompts) / seconds
        print(f"{name:34} {rate:7.1f} {fastest[first] / seconds:7.2f}   {same:>4} of {len(pairs)}   {gap:.1e}")


if __name__ == "__main__":
    main()
