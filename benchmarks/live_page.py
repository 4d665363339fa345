"""`breadth view` of a study with many runs: the first page, idle polls, and many readers at once."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from breadth.errors import InputError
from breadth.records.store import RunRecord, StudyStore
from breadth.reporting import live, view


def write_study(folder: Path, runs: int, steps: int) -> None:
    """A study of ``runs`` finished runs with few items; nothing is flushed to the disk, which would take an hour."""
    os.fsync = lambda handle: None  # type: ignore[assignment]
    store = StudyStore(folder)
    items = pl.DataFrame({"testset": ["plain"] * 3 + ["far"] * 3, "item": [f"i{k}" for k in range(6)], "label": "Yes"})
    for name, frame in items.group_by("testset", maintain_order=True):
        store.write_items(str(name[0]), frame)
    answers = items.select("testset", "item", correct=pl.Series([1, 0, 1, 0, 1, 1]), margin=pl.lit(0.5), answer="label")
    store.write_study("name: many\n")
    for k in range(runs):
        run = store.run(f"run-{k:05d}")
        run.write_record(RunRecord("m", "plain", 8, k, method="lora", checkpoints=tuple(range(steps))))
        for step in range(steps):
            run.write_part(step, answers)


def _not_analysed(folder: Path) -> None:
    raise InputError(f"{folder}: nothing is analysed here")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--polls", action="store_true", help="measure the server alone: nothing is analysed")
    options = parser.parse_args()
    if options.polls:
        live.build_report = _not_analysed
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "many")
        write_study(folder, options.runs, options.steps)
        server = view(folder, port=0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]

        def ask(path: str, **headers: str) -> tuple[int, bytes, str]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader("etag") or ""

        start, processor = time.perf_counter(), time.process_time()
        _, page, _ = ask("/")
        spent = time.process_time() - processor
        print(f"first page: {time.perf_counter() - start:.2f} s, {spent:.2f} s CPU, {len(page):,} bytes", flush=True)
        start = time.perf_counter()
        while b"is being analysed" in page:
            time.sleep(1)
            _, page, _ = ask("/")
        print(f"whole report: after {time.perf_counter() - start:.0f} s more, {len(page):,} bytes", flush=True)
        poll = f"/study/many/state.json?seen={json.loads(ask('/study/many/state.json')[1])['fingerprint']}"
        _, state, tag = ask(poll)
        time.sleep(5)
        polls, statuses = 20, []
        start = time.process_time()
        for _ in range(polls):
            time.sleep(0.5)
            statuses.append(ask(poll, **{"If-None-Match": tag})[0])
        spent = (time.process_time() - start) / polls
        print(f"idle poll: {1000 * spent:.1f} ms CPU (client included), answers {set(statuses)}, {len(state):,} bytes")
        with ThreadPoolExecutor(200) as pool:
            statuses = list(pool.map(lambda _: ask("/")[0], range(200)))
        print(f"200 loads at once: {statuses.count(200)} answered")
        server.shutdown()


if __name__ == "__main__":
    main()
