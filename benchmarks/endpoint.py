"""Throughput of a study against an endpoint: breadth against a bare concurrent client, same server, same concurrency.

The bare client does nothing but send the same bodies and read the replies, with aiohttp or with urllib3 in threads
(--peer). The server runs in a process of its own. By default it is a stub that
answers at once (or after --delay seconds), so that what a client costs shows; --url asks a real one.

    python benchmarks/endpoint.py --requests 4000 --concurrency 32
    python benchmarks/endpoint.py --url http://127.0.0.1:8000/v1 --model MODEL --requests 64 --concurrency 4 --tokens 16
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

STUB = r"""
import asyncio, json, sys
DELAY = float(sys.argv[1])
REPLY = json.dumps({"choices": [{"index": 0, "text": " 4", "finish_reason": "stop"}],
                    "usage": {"prompt_tokens": 20, "completion_tokens": 1}}).encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(REPLY)

class Stub(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""
    def data_received(self, data):
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            head = self.data[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0
            if len(self.data) < end + 4 + length:
                return
            self.data = self.data[end + 4 + length:]
            if DELAY:
                asyncio.get_running_loop().call_later(DELAY, self.transport.write, HEAD + REPLY)
            else:
                self.transport.write(HEAD + REPLY)

async def main():
    server = await asyncio.get_running_loop().create_server(Stub, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


def bodies(args: argparse.Namespace, number: int) -> list[bytes]:
    """The requests of a study with ``number`` as part of every prompt, so that no two runs share an answer."""
    prompts = [prompt(number, k) for k in range(args.requests)]
    fields = {"max_tokens": args.tokens, "temperature": 0}
    return [json.dumps({"model": args.model, "prompt": each, **fields}).encode() for each in prompts]


def prompt(number: int, k: int) -> str:
    return f"Question {number}: Tom has {k} apples and buys {k % 7} more. How many apples does Tom have now? Answer:"


def bare_threads(args: argparse.Namespace, content: list[bytes]) -> float:
    import urllib3

    pool = urllib3.connectionpool.connection_from_url(args.url, maxsize=args.concurrency)
    waiting, headers = deque(content), {"Content-Type": "application/json"}
    path = "/" + args.url.split("/", 3)[3] + "/completions"

    def work() -> None:
        while waiting:
            try:
                body = waiting.popleft()
            except IndexError:
                return
            reply = pool.urlopen("POST", path, body=body, headers=headers)
            json.loads(reply.data)["choices"][0]["text"]

    started = time.perf_counter()
    threads = [threading.Thread(target=work) for _ in range(args.concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


def bare_aiohttp(args: argparse.Namespace, content: list[bytes]) -> float:
    import aiohttp

    async def everything() -> float:
        waiting, headers = deque(content), {"Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(limit=args.concurrency)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

            async def work() -> None:
                while waiting:
                    async with session.post(f"{args.url}/completions", data=waiting.popleft()) as reply:
                        (await reply.json())["choices"][0]["text"]

            started = time.perf_counter()
            await asyncio.gather(*(work() for _ in range(args.concurrency)))
            return time.perf_counter() - started

    return asyncio.run(everything())


def ours(args: argparse.Namespace, number: int) -> float:
    """Seconds that a run takes between its first and its last answer: journal, checksums and progress included."""
    import polars as pl

    from breadth.execute import Events, run

    class Clock(Events):
        begin = end = 0.0

        def ready(self, run: object) -> None:
            self.begin = time.perf_counter()

        def checkpoint(self, run: object, step: int, answers: pl.DataFrame) -> None:
            self.end = time.perf_counter()

    with tempfile.TemporaryDirectory() as name:
        folder, clock = Path(name), Clock()
        rows = {"question": [prompt(number, k) for k in range(args.requests)], "label": ["4"] * args.requests}
        pl.DataFrame(rows).write_csv(folder / "sums.csv")
        (folder / "study.yaml").write_text(
            f"name: s\nmodels: {{endpoint: '{args.url}', model: '{args.model}', concurrency: {args.concurrency}}}\n"
            "recipe: {method: zero-shot}\nevaluate: {on: sums}\nsets:\n"
            "  sums: {file: sums.csv, kind: generate, label: label, metric: number, pattern: '{question}', "
            f"max_tokens: {args.tokens}}}\n"
        )
        run(folder / "study.yaml", into=folder / "s", events=clock)
    return clock.end - clock.begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that the stub takes for an answer")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--url", default="", help="a real server instead of the stub")
    parser.add_argument("--model", default="stub")
    parser.add_argument("--peer", choices=["urllib3", "aiohttp"], default="urllib3")
    args = parser.parse_args()
    stub = None
    if not args.url:
        stub = subprocess.Popen([sys.executable, "-c", STUB, str(args.delay)], stdout=subprocess.PIPE, text=True)
        assert stub.stdout is not None
        args.url = f"http://127.0.0.1:{stub.stdout.readline().strip()}/v1"
    bare = bare_threads if args.peer == "urllib3" else bare_aiohttp
    ratios = []
    try:
        for k in range(args.repeat):
            # One after the other within each round, so that a busy machine slows both.
            own, theirs = ours(args, k), bare(args, bodies(args, k))
            ratios.append(theirs / own)
            rates = f"breadth {args.requests / own:,.0f}/s, {args.peer} {args.requests / theirs:,.0f}/s"
            print(f"{rates}, ratio {ratios[-1]:.2f}", flush=True)
    finally:
        if stub is not None:
            stub.kill()
    print(f"median ratio of throughput to a bare {args.peer} client: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
