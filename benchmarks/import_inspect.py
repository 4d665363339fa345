"""Reading an Inspect log of many samples: breadth.read_logs against inspect_ai's samples_df, in the same run.

    python benchmarks/import_inspect.py --peer .venv-inspect/bin/python [--samples 10000] [--rounds 3] [--deflate]

Writes an archive with an answer to a question of four choices per sample, with the messages, events and attachments
that Inspect keeps (13 KB each), and reads it with each tool in processes of their own. Prints the median CPU seconds of
reading alone and with imports, and peak memory. Both read scores and questions; samples_df has its default columns. The
peer needs benchmarks/peers_inspect.txt.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import zstandard

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
MODEL = "openai/gpt-4o-mini"
LETTERS = "ABCD"
WHEN = "2026-11-16T07:34:09.702645+00:00"
PROSE = (
    "which statement best explains why the rate of a reaction rises with temperature when two samples of rock from "
    "different layers are compared in the laboratory by students who measure mass volume and the energy of particles"
)

OWN = """
import breadth.sources.tools.inspect_ai, breadth.sources.tools.lm_eval
from breadth import read_logs
imported = time.process_time()
study = read_logs(path)
answers, mean = int(study.answered.sum()), float(study.correct[study.answered].mean())
"""
PEER = """
from inspect_ai.analysis import samples_df
from inspect_ai.scorer import value_to_float
imported = time.process_time()
frame = samples_df(path, quiet=True)
answers, mean = len(frame), float(frame["score_choice"].map(value_to_float()).mean())
"""
MEASURE = """
import json, resource, sys, time
path = sys.argv[1]
{read}
done = time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({{"read": done - imported, "all": done, "peak": peak / 2**20, "answers": answers, "mean": mean}}))
"""


def write_archive(path: Path, members: Iterable[tuple[str, bytes]], method: int = ZSTANDARD, frames: int = 1) -> int:
    """Write a zip archive and return its unpacked size; Python before 3.14 cannot write zstandard in zip archives."""
    directory, offset, unpacked = [], 0, 0
    with path.open("wb") as file:
        for name, content in members:
            packed, encoded = _packed(content, method, frames), name.encode()
            sizes = (zlib.crc32(content), len(packed), len(content))
            fields = (63 if method == ZSTANDARD else 20, 0x800, method, 0, 33, *sizes, len(encoded))
            file.write(struct.pack("<4s5H3I2H", b"PK\3\4", *fields, 0) + encoded + packed)
            directory.append(struct.pack("<4s6H3I5H2I", b"PK\1\2", 63, *fields, 0, 0, 0, 0, 0, offset) + encoded)
            offset, unpacked = offset + 30 + len(encoded) + len(packed), unpacked + len(content)
        listing, count = b"".join(directory), len(directory)
        file.write(listing + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(listing), offset, 0))
    return unpacked


def _packed(content: bytes, method: int, frames: int) -> bytes:
    if method == ZSTANDARD:
        size = max(-(-len(content) // frames), 1)
        parts = [content[k : k + size] for k in range(0, len(content), size)]
        return b"".join(map(zstandard.ZstdCompressor().compress, parts or [b""]))
    if method == DEFLATED:
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(content) + packer.flush()
    return content


def _text(generator: random.Random, words: int) -> str:
    return " ".join(generator.choices(PROSE.split(), k=words)).capitalize() + "."


def make_sample(generator: random.Random, number: int) -> dict[str, Any]:
    """A sample as Inspect 0.3.285 writes it."""
    question, choices = _text(generator, 40), [_text(generator, 8) for _ in LETTERS]
    target, answer = generator.choice(LETTERS), generator.choice(LETTERS)
    listed = "\n".join(f"{letter}) {choice}" for letter, choice in zip(LETTERS, choices, strict=True))
    prompt = f"Answer the following multiple choice question. {_text(generator, 40)}\n\n{question}\n\n{listed}"
    completion = f"{_text(generator, 105)}\n\nANSWER: {answer}"
    usage = {"input_tokens": 180, "output_tokens": 330, "total_tokens": 510}
    said = {"id": f"a{number}", "content": completion, "source": "generate", "role": "assistant", "model": MODEL}
    messages = [{"id": f"u{number}", "content": prompt, "source": "input", "role": "user"}, said]
    output = {
        "model": MODEL, "choices": [{"message": said, "stop_reason": "stop"}], "completion": completion, "usage": usage,
        "time": 1.5,
    }  # fmt: skip
    state = {"messages": messages, "tools": [], "store": {}, "output": output, "completed": False, "metadata": {}}
    own = {"id": f"q{number:05d}", "input": question, "choices": choices, "target": target, "metadata": {}}
    event = {"span_id": "main", "timestamp": WHEN, "working_start": 0.02}
    events = [
        {"uuid": f"e{number}a", **event, "event": "sample_init", "sample": own, "state": state},
        {
            "uuid": f"e{number}b", **event, "event": "model", "model": MODEL, "input": messages[:1], "tools": [],
            "tool_choice": "none", "config": {}, "output": output, "completed": WHEN, "working_time": 1.5,
        },
    ]  # fmt: skip
    score = {"value": "C" if answer == target else "I", "answer": answer, "explanation": completion, "history": []}
    return {
        **own, "epoch": 1, "messages": messages, "output": output, "scores": {"choice": score}, "store": {},
        "events": events, "model_usage": {MODEL: usage}, "role_usage": {}, "started_at": WHEN, "completed_at": WHEN,
        "total_time": 1.6, "working_time": 1.5, "uuid": f"s{number}", "error_retries": [], "attachments": {},
    }  # fmt: skip


def _summary(sample: dict[str, Any]) -> dict[str, Any]:
    kept = ("id", "epoch", "input", "choices", "target", "metadata", "model_usage", "role_usage", "uuid")
    score = sample["scores"]["choice"]
    shortened = {**score, "explanation": score["explanation"][:1021] + "..."}
    times = {key: sample[key] for key in ("started_at", "completed_at", "total_time", "working_time")}
    told = {"retries": 0, "completed": True, "message_count": 2, "turn_count": 1}
    return {**{key: sample[key] for key in kept}, "scores": {"choice": shortened}, **times, **told}


def make_header(samples: int, mean: float) -> dict[str, Any]:
    """The header of a log."""
    accuracy = {"accuracy": {"name": "accuracy", "value": mean, "params": {}}}
    score = {"name": "choice", "scorer": "choice", "scored_samples": samples, "unscored_samples": 0, "params": {}}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": "e", "run_id": "r", "created": WHEN, "task": "arc", "task_id": "t", "task_version": 0,
            "task_attribs": {}, "task_args": {}, "dataset": {"name": "arc", "samples": samples, "shuffled": False},
            "model": MODEL, "model_args": {}, "config": {"epochs": 1}, "packages": {"inspect_ai": "0.3.285"},
            "scorers": [{"name": "choice", "options": {}, "metrics": [{"name": "inspect_ai/accuracy"}]}],
        },
        "plan": {"name": "plan", "steps": [{"solver": "multiple_choice", "params": {}}], "config": {}},
        "results": {
            "total_samples": samples, "completed_samples": samples, "scores": [{**score, "metrics": accuracy}],
        },
        "stats": {"started_at": WHEN, "completed_at": WHEN, "model_usage": {}},
    }  # fmt: skip


def log_members(samples: int) -> Iterator[tuple[str, bytes]]:
    """Members of a log's archive, in the order in which Inspect writes them."""
    generator = random.Random(1)
    summaries, right = [], 0
    header = make_header(samples, 0)
    yield "_journal/start.json", _json({key: header[key] for key in ("version", "eval", "plan")})
    for number in range(samples):
        sample = make_sample(generator, number)
        right += sample["scores"]["choice"]["value"] == "C"
        summaries.append(_summary(sample))
        yield f"samples/{sample['id']}_epoch_1.json", _json(sample)
    yield "summaries.json", _json(summaries)
    yield "reductions.json", b"[]"
    yield "header.json", _json(make_header(samples, right / samples))


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=2).encode()


def measure(python: str, read: str, path: Path, rounds: int) -> dict[str, float]:
    """Medians over rounds, each in a fresh process."""
    command = [python, "-c", MEASURE.format(read=read), str(path)]
    results = []
    for _ in range(rounds):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", help="a Python with benchmarks/peers_inspect.txt installed")
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--deflate", action="store_true", help="write deflate, as Inspect did before 0.3.206")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.eval"
        unpacked = write_archive(path, log_members(options.samples), DEFLATED if options.deflate else ZSTANDARD)
        sizes = f"{path.stat().st_size / 1e6:.0f} MB, {unpacked / 1e6:.0f} MB unpacked"
        print(f"{options.samples:,} samples, {sizes}\n\n| tool | reading, CPU s | with imports, CPU s | peak, GB |")
        print("|---|---|---|---|")
        tools = {"breadth.read_logs": (sys.executable, OWN)}
        if options.peer:
            tools["inspect_ai samples_df"] = (options.peer, PEER)
        rows = {}
        for name, (python, read) in tools.items():
            row = rows[name] = measure(python, read, path, options.rounds)
            print(f"| {name} | {row['read']:.2f} | {row['all']:.2f} | {row['peak']:.2f} |", flush=True)
        own, *others = rows.values()
        for other in others:
            if (own["answers"], round(own["mean"], 6)) != (other["answers"], round(other["mean"], 6)):
                sys.exit(f"the tools read different answers: {own}, {other}")
            print(f"| times faster | {other['read'] / own['read']:.1f} | {other['all'] / own['all']:.1f} | |")


if __name__ == "__main__":
    main()
