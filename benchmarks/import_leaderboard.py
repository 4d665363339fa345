"""A leaderboard of 200 models x 14,000 items in lm-evaluation-harness's logs: import, calibrate, report.

Bars: under 60 s each. The logs are simulated (Rasch answers, four options with log-likelihoods, short questions) and
written to a temporary directory first.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import orjson

import breadth


def write_logs(folder: Path, models: int, items: int, sets: int) -> int:
    generator = np.random.default_rng(0)
    ability, difficulty = generator.normal(size=models), generator.normal(size=items)
    names = [f"task{k}" for k in range(sets)]
    per_set = items // sets
    size = 0
    for m in range(models):
        stamp = f"2025-01-01T00-00-{m // 60:02d}.{m:06d}"
        results: dict[str, dict[str, float]] = {}
        home = folder / f"org__model-{m}"
        home.mkdir(parents=True)
        for s, name in enumerate(names):
            right = generator.random(per_set) < 1 / (1 + np.exp(difficulty[s * per_set :][:per_set] - ability[m]))
            logs = generator.normal(-20, 2, size=(per_set, 4))
            rows = []
            for k in range(per_set):
                gold = k % 4
                best = gold if right[k] else (gold + 1) % 4
                logs[k, best] = logs[k].max() + 1
                question = f"Question {k} of {name}: which of the four options is the right one? " + "x" * 200
                row = {
                    "doc_id": k,
                    "doc": {"question": question, "choices": ["one", "two", "three", "four"], "answer": gold},
                    "target": str(gold),
                    "arguments": {
                        f"gen_args_{j}": {"arg_0": question, "arg_1": f" {letter}"} for j, letter in enumerate("ABCD")
                    },
                    "resps": [[[str(value), "False"]] for value in logs[k]],
                    "filtered_resps": [[str(value), "False"] for value in logs[k]],
                    "doc_hash": f"{s:04d}{k:060d}",
                    "prompt_hash": "0" * 64,
                    "target_hash": "0" * 64,
                    "acc": float(right[k]),
                }
                rows.append(json.dumps(row).encode())
            content = b"\n".join(rows) + b"\n"
            size += len(content)
            (home / f"samples_{name}_{stamp}.jsonl").write_bytes(content)
            results[name] = {"alias": name, "acc,none": float(right.mean())}
        summary = {
            "results": results, "config": {"model": "hf", "model_args": f"pretrained=org/model-{m}"},
            "model_name": f"org/model-{m}", "n-shot": dict.fromkeys(names, 0), "versions": dict.fromkeys(names, 1),
        }  # fmt: skip
        (home / f"results_{stamp}.json").write_bytes(orjson.dumps(summary))
    return size


def timed(label: str, function: object, *arguments: object, **options: object) -> object:
    started = time.perf_counter()
    result = function(*arguments, **options)  # type: ignore[operator]
    print(f"{label:<28}{time.perf_counter() - started:8.1f} s", flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--items", type=int, default=14_000)
    parser.add_argument("--sets", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        size = write_logs(folder / "logs", given.models, given.items, given.sets)
        print(f"{given.models} models x {given.items:,} items, {size / 1e9:.2f} GB")
        timed("import", breadth.import_logs, folder / "logs", into=folder / "answers")
        timed("import again", breadth.import_logs, folder / "logs", into=folder / "answers")
        timed("calibrate (Rasch)", breadth.calibrate, folder / "answers")
        timed("report", breadth.report, folder / "answers")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory of this process {peak:.2f} GB")


if __name__ == "__main__":
    main()
