"""How fast lm-evaluation-harness logs are imported, against parsing every line with json and with orjson.

    python benchmarks/import_speed.py [--gigabytes 2] [--files 50] [--no-texts]

Samples are written to a temporary directory: half of the files have four options and five-shot prompts, the others a
five-shot prompt with a chain of thought and two filters; rows have 6 to 31 KB, ten models share the test sets. Each
reader runs in a process of its own with the files in the page cache. CPU seconds are those of all its processes, start
included; memory is the largest sum over them (proportional share, so that shared pages count once).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

MODELS = 10
STAMP = "2025-03-0{}T10-00-00.123456"

READERS = {
    "json, line by line": (
        "import json, sys\nfor path in sys.argv[1:]:\n    for line in open(path, 'rb'): json.loads(line)"
    ),
    "orjson, line by line": (
        "import orjson, sys\nfor path in sys.argv[1:]:\n    for line in open(path, 'rb'): orjson.loads(line)"
    ),
    "breadth import": (
        "import sys, breadth\n"
        "if __name__ == '__main__':\n"
        "    breadth.import_logs(sys.argv[1], into=sys.argv[2], texts=sys.argv[3] == 'True')"
    ),
}


def sentences(generator: random.Random, characters: int) -> str:
    """Text of about so many characters, with line breaks and quotation marks to escape."""
    words: list[str] = []
    length = 0
    while length < characters:
        word = "".join(generator.choices("etaoinshrdlu", k=generator.randint(2, 9)))
        words.append(generator.choice((word, word, word, word, f'"{word}"', f"{word}.\n", f"{word}é")))
        length += len(words[-1]) + 1
    return " ".join(words)


def question(testset: str, k: int) -> dict[str, Any]:
    """The k-th document of a test set, the same for every model."""
    generator = random.Random(f"{testset} {k}")
    choices = [sentences(generator, 30) for _ in "ABCD"]
    return {
        "id": f"{testset}-{k}",
        "question": sentences(generator, 200),
        "choices": {"text": choices, "label": list("ABCD")},
        "answerKey": generator.choice("ABCD"),
    }


def rows(testset: str, model: int, free: bool) -> Iterator[dict[str, Any]]:
    """Rows of samples without end, as version 0.4.7 and later write them."""
    pool = sentences(random.Random(testset), 200_000)
    k = 0
    while True:
        generator = random.Random(f"{testset} {k}")
        doc, answer = question(testset, k), random.Random(f"{testset} {k} {model}")
        size = generator.randint(5000, 28000) if free else generator.randint(1200, 7000)
        start = generator.randrange(len(pool) - size)
        prompt = f"{pool[start : start + size]}\n\nQuestion: {doc['question']}\nAnswer:"
        hashed = hashlib.sha256(json.dumps(doc, indent=2, ensure_ascii=False).encode()).hexdigest()
        row: dict[str, Any] = {"doc_id": k, "doc": doc}
        if free:
            written = sentences(answer, 300)
            row["target"] = "18"
            row["arguments"] = {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["Question:"], "do_sample": False}}}
            row["resps"] = [[written]]
        else:
            options = doc["choices"]["text"]
            row["target"] = str("ABCD".index(doc["answerKey"]))
            row["arguments"] = {
                f"gen_args_{i}": {"arg_0": prompt, "arg_1": f" {option}"} for i, option in enumerate(options)
            }
            logs = [[str(-answer.expovariate(0.05)), "False"] for _ in options]
            row["resps"] = [[log] for log in logs]
        for name in ("strict-match", "flexible-extract") if free else ("none",):
            row["filtered_resps"] = [answer.choice(("18", "[invalid]"))] if free else logs
            scores = {"exact_match": float(row["filtered_resps"][0] == "18")} if free else {}
            if not free:
                sums = [float(log) for log, _ in logs]
                norms = [one / len(option) for one, option in zip(sums, options, strict=True)]
                gold = int(row["target"])
                scores = {
                    "acc": float(sums.index(max(sums)) == gold),
                    "acc_norm": float(norms.index(max(norms)) == gold),
                }
            hashes = {"doc_hash": hashed, "prompt_hash": hashed[::-1], "target_hash": hashed}
            yield row | {"filter": name, "metrics": list(scores)} | hashes | scores
        k += 1


def write_logs(folder: Path, size: int, files: int) -> list[Path]:
    """Write so many bytes of samples in so many files, with the results of every model beside them."""
    paths = []
    for number in range(files):
        model, task = number % MODELS, number // MODELS
        testset, free = f"task_{task}", task % 2 == 1
        place = folder / f"acme__model-{model}"
        place.mkdir(exist_ok=True)
        path = place / f"samples_{testset}_{STAMP.format(model % 9 + 1)}.jsonl"
        written = 0
        with path.open("w", encoding="utf-8") as file:
            for row in rows(testset, model, free):
                written += file.write(json.dumps(row, ensure_ascii=False) + "\n")
                if written > size // files and row.get("filter") != "strict-match":
                    break
        paths.append(path)
        results = {
            "results": {}, "configs": {}, "n-shot": {f"task_{k}": 5 for k in range(files)}, "versions": {},
            "config": {"model": "hf", "model_args": f"pretrained=acme/model-{model}"},
        }  # fmt: skip
        (place / f"results_{STAMP.format(model % 9 + 1)}.json").write_text(json.dumps(results))
    return paths


def measure(command: list[str]) -> tuple[float, float, float]:
    """Seconds by the clock, CPU seconds and peak memory in GB of a command with all its children."""
    before, started, peak = os.times(), time.perf_counter(), 0
    process = subprocess.Popen(command)
    while process.poll() is None:
        peak = max(peak, _memory(process.pid))
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"{command[1]} failed with code {process.returncode}")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - started, cpu, peak / 1e9


def _memory(number: int) -> int:
    total = 0
    try:
        parent = psutil.Process(number)
        for process in (parent, *parent.children(recursive=True)):
            full = process.memory_full_info()
            total += getattr(full, "pss", full.rss)
    except psutil.Error:
        return total
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--files", type=int, default=50)
    parser.add_argument("--no-texts", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder, "logs")
        logs.mkdir()
        paths = write_logs(logs, int(options.gigabytes * 1e9), options.files)
        size = sum(path.stat().st_size for path in paths) / 1e6
        print(f"{size:,.0f} MB in {len(paths)} files")
        print(f"{'reader':22}{'MB per CPU-second':>18}{'seconds':>9}{'CPU seconds':>13}{'peak GB':>9}")
        script = Path(folder, "reader.py")
        for name, code in READERS.items():
            script.write_text(code)
            own = name == "breadth import"
            given = (
                [str(logs), str(Path(folder, "answers")), str(not options.no_texts)] if own else list(map(str, paths))
            )
            seconds, cpu, peak = measure([sys.executable, str(script), *given])
            print(f"{name:22}{size / cpu:18,.0f}{seconds:9.1f}{cpu:13.1f}{peak:9.2f}")


if __name__ == "__main__":
    main()
