"""A study on Ray: overhead, speed with two workers, simulation against truth; kills, scheduling, the published study.

    python benchmarks/ray_cluster.py compare|kills|client|scheduling|published [--study small] [--threads 2]

``compare`` runs a study locally, on one worker and on two, one after the other; ``kills`` is what
tests/execute/cluster/test_pool.py does, twenty and ten times; ``client`` starts a head with ``ray start`` and connects
to its ray:// address, without a token and with one.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from breadth.execute import ClusterStatus

ROOT = Path(__file__).resolve().parents[1]

#: One run, so that two workers have to share it; long enough that starting Ray and loading do not decide.
SINGLE = """\
name: single
models: smollm2-135m
train: {set: everyday, examples: 64, seeds: 0}
recipe: {method: lora, rank: 16, alpha: 32, layers: 8, lr: 1e-3, batch: 16, steps: 48}
evaluate: {every: 4, items: 160, on: [everyday, coreference, negation, quantifiers, paraphrase, chat]}
"""

#: Billions of parameters of the published study's models, all on one GPU each: 32 billion in bfloat16 take 64 GB.
PUBLISHED = {
    "opt-2.7b": 2.7, "opt-6.7b": 6.7, "opt-13b": 13, "opt-30b": 30, "olmo2-7b": 7, "olmo2-13b": 13, "olmo2-32b": 32,
    "smollm3-3b": 3,
}  # fmt: skip
GPU_HOURS, RUNS, CHECKPOINTS, STEPS, BATCH = 5500, 6, 41, 640, 32
SIZES = {
    "mnli": 6692, "snli": 6605, "scitail": 2126, "wnli": 635, "rte": 2490, "paws": 8000, "hans": 30000, "anli": 798,
}  # fmt: skip


class Timing(NamedTuple):
    """Seconds by the clock, and processor seconds: of the command itself, and of each worker.

    On a machine that others use, too, the clock says little; the processor seconds still compare.
    """

    wall: float
    command: float
    workers: list[float]

    @property
    def all(self) -> float:
        """Processor seconds of command and workers."""
        return self.command + sum(self.workers)


#: The command times a few batches before a local run and not before one on a cluster; the function never does.
CALL = """
import sys, breadth
study, into, on, workers, threads = sys.argv[1:]
if on == "local":
    import torch
    torch.set_num_threads(int(threads))
breadth.run(study, into=into, on=on, workers=int(workers), threads=int(threads))
"""


def run_study(study: str, into: Path, on: str, workers: int, threads: int) -> Timing:
    """Time ``breadth.run`` in a process of its own."""
    import psutil

    shutil.rmtree(into, ignore_errors=True)
    words = [sys.executable, "-c", CALL, study, str(into), on, str(workers), str(threads)]
    # Ray gives its workers a low priority, which counts on a busy machine.
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "RAY_worker_niceness": "0"}
    began, spent = time.perf_counter(), {0: 0.0}
    with tempfile.TemporaryFile() as said:
        process = psutil.Popen(words, stdout=said, stderr=said, env=environment)
        while process.poll() is None:
            with contextlib.suppress(psutil.Error):
                spent[0] = sum(process.cpu_times()[:2])
                for child in process.children(recursive=True):
                    if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::_Actor"):
                        spent[child.pid] = sum(child.cpu_times()[:2])
            time.sleep(0.5)
        said.seek(0)
        assert process.returncode == 0, said.read().decode()
    return Timing(time.perf_counter() - began, spent.pop(0), sorted(spent.values()))


def parts(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("runs/*/step-*")}


def compare(study: str, folder: Path, threads: int) -> None:
    """A local run, one worker with its threads, two workers of one thread, and what the simulation says of both."""
    predicted = predict(study, folder)
    timings = {}
    for workers, each in dict.fromkeys([(1, 1), (2, 1), (1, threads)]):
        into = folder / f"{workers}-{each}"
        timings[workers, each] = run_study(study, into, "ray", workers, each)
        load = " ".join(f"{value:.1f}" for value in os.getloadavg())
        print(f"{study}, Ray, {workers} workers of {each} threads: {timings[workers, each]}; load {load}", flush=True)
    same, one, two = timings[1, threads], timings[1, 1], timings[2, 1]
    print(f"the same bytes with one worker and two: {parts(folder / '1-1') == parts(folder / '2-1')}")
    busier = one.workers[-1] / two.workers[-1]
    print(f"speed-up: by the clock {one.wall / two.wall:.2f}, by the busier worker {busier:.2f}")
    for workers, real in ((1, one), (2, two)):
        seconds = predicted[workers]
        print(f"simulation, {workers} workers: {seconds:.1f} s, {seconds / real.wall:.2f} of the real time", flush=True)
    local = run_study(study, folder / "local", "local", 1, threads)
    print(f"{study}, local, {threads} threads: {local}", flush=True)
    print(f"the same bytes as local: {parts(folder / f'1-{threads}') == parts(folder / 'local')}")
    print(f"overhead: by the clock {same.wall / local.wall:.3f}, in processor seconds {same.all / local.all:.3f}")


def predict(study: str, folder: Path) -> dict[int, float]:
    """Simulated seconds of one and two workers of one thread."""
    import torch

    torch.set_num_threads(1)
    from breadth.execute import Events, measurable, measure_pace, plan_study
    from breadth.execute.cluster.simulation import forecast
    from breadth.study import read_study_file

    plan = plan_study(read_study_file(study), folder / "none")
    assert plan.study_data is not None
    paces = {}
    for unit in plan.units:
        if unit.run.model not in paces and measurable(unit.run.model) is None:
            paces[unit.run.model] = measure_pace(unit, plan.study_data, Events())
    return {workers: forecast(plan, paces, workers).seconds for workers in (1, 2)}


#: The tiny study that is disturbed: two runs of 13 checkpoints, two of which are the same part.
TINY = """\
name: tiny
models: {model}
train: {{set: plain, examples: 16, seeds: [0, 1]}}
recipe: {{method: lora, layers: 2, dropout: 0.1, trunk: "on", lr: 1.0e-2, batch: 8, steps: 24}}
evaluate: {{on: [plain, negation], every: 2, items: 24}}
"""


def kills(folder: Path, first: int, times: int, driver_times: int) -> None:
    """Kills of a worker or a node, then of the driver, on a simulated cluster; every study must give the same bytes."""
    sys.path.insert(0, str(ROOT / "tests" / "execute" / "cluster"))
    import torch
    from simulated import SimulatedCluster

    from breadth.execute import Events, run
    from breadth.lm.tiny import write_tiny_model

    study = folder / "tiny.yaml"
    study.write_text(TINY.format(model=write_tiny_model(folder / "model")))
    torch.set_num_threads(1)  # as many as a worker has
    run(study, into=folder / "local")
    expected, cluster = parts(folder / "local"), SimulatedCluster(nodes=4)

    class Killer(Events):
        """Kills when so many checkpoints have been written."""

        def __init__(self, after: int, kill: Callable[[], None]) -> None:
            self.after, self.kill, self.retries = after, kill, 0

        def checkpoint(self, *_: object) -> None:
            self.after -= 1
            if self.after == 0:
                self.kill()

        def cluster(self, status: ClusterStatus) -> None:
            self.retries = status.retries

    survived = 0
    for number in range(first - 1, times):
        chance, into = random.Random(number), folder / f"kill-{number}"
        what, kill = [("a node", cluster.lose_node), ("a worker", cluster.kill_worker)][number % 2]
        after = chance.randint(1, 20)
        events, began = Killer(after, functools.partial(kill, chance)), time.perf_counter()
        outcome = run(study, into=into, on=cluster.address, threads=1, workers=4, events=events)
        same = parts(into) == expected and not outcome.failed and events.after <= 0
        survived += same
        print(
            f"kill {number + 1} of {times}: {what} after {after} checkpoints, {events.retries} units done again, "
            f"{time.perf_counter() - began:.0f} s: {'the same bytes' if same else f'DIFFERENT {outcome}'}", flush=True,
        )  # fmt: skip
        shutil.rmtree(into)
    print(f"a worker or a node killed: {survived} of {times - first + 1} gave the bytes of a local run", flush=True)
    survived = sum(
        kill_driver(study, folder / f"driver-{k}", cluster.address, k, expected) for k in range(driver_times)
    )
    print(f"the driver killed: {survived} of {driver_times} gave the bytes of a local run", flush=True)
    cluster.close()


def kill_driver(study: Path, into: Path, address: str, number: int, expected: dict[str, bytes]) -> bool:
    """Kill the command at a random instant after its first part, and start it again."""
    chance = random.Random(number)
    words = [sys.executable, "-m", "breadth", "run", str(study), "--into", str(into), "--on", address]
    words += ["--workers", "2", "--threads", "1"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wanted = chance.randint(0, 25)
    while len(parts(into)) < wanted and process.poll() is None:
        time.sleep(0.005)
    time.sleep(chance.random())
    process.kill()
    process.wait()
    before = parts(into)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    now = parts(into)
    same = done.returncode == 0 and now == expected and before.items() <= now.items()
    result = "the same bytes" if same else f"DIFFERENT {done.stderr}"
    print(f"driver {number + 1}: killed with {len(before)} of {len(expected)} parts: {result}", flush=True)
    return same


def client(folder: Path) -> None:
    """A head that ``ray start`` starts, and the tiny study through its ray:// address, without a token and with one."""
    from breadth.execute import run
    from breadth.lm.tiny import write_tiny_model

    study = folder / "tiny.yaml"
    study.write_text(TINY.format(model=write_tiny_model(folder / "model")))
    run(study, into=folder / "local")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a-token-for-this-benchmark-only-0"}
    wrong = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "another-token-which-is-not-right-0"}
    disabled = {"RAY_AUTH_MODE": "disabled"}
    for name, head, drivers in (
        ("no token", disabled, [disabled]), ("a token", token, [disabled, wrong, token])
    ):  # fmt: skip
        with ray_head(head):
            for number, environment in enumerate(drivers):
                into = folder / f"{len(head)}-{number}"
                words = [sys.executable, "-m", "breadth", "run", str(study), "--into", str(into)]
                words += ["--on", "ray://127.0.0.1:23001", "--workers", "1", "--threads", "1"]
                began = time.perf_counter()
                done = subprocess.run(
                    words, env=os.environ | environment, capture_output=True, text=True, check=False
                )  # fmt: skip
                same = parts(into) == parts(folder / "local")
                last = (done.stderr.strip().splitlines() or [""])[-1]
                print(
                    f"head with {name}, driver with {environment}: exit code {done.returncode} after "
                    f"{time.perf_counter() - began:.1f} s; the same bytes as local: {same}; {last}", flush=True,
                )  # fmt: skip


@contextlib.contextmanager
def ray_head(environment: dict[str, str]) -> Iterator[None]:
    """A head of two processors on this machine, with Ray's client at port 23001, until the end of the context."""
    words = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--port=23100"]
    words += ["--ray-client-server-port=23001", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"]
    process = subprocess.Popen(
        words, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )  # fmt: skip
    time.sleep(15)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


class EmptyWorker:
    """An actor that does nothing, as fast as it can."""

    def __init__(self, data: object, *_: object) -> None:
        import numpy as np

        self.data, self.numpy = data, np

    def environment(self) -> tuple[str, dict[str, object]]:
        """Where it is."""
        import ray

        return str(ray.get_runtime_context().get_node_id()), {}

    def call(self, method: str, run: str, *arguments: object) -> object:
        """What a worker would return."""
        import polars as pl

        from breadth.execute.cluster.shipping import Origin, answers_origin, pack_answers, pack_pieces, seal
        from breadth.execute.cluster.tasks import Measured
        from breadth.execute.cluster.worker import Report
        from breadth.lm import Outputs

        if method == "train":
            step = int(str(arguments[0]))
            weights = seal(b"weights", Origin("the weights", run, step))
            state = seal(b"", Origin("the weights in training", run, step))
            return Report(Measured(train=1.0, steps=1), step), weights, state
        if method == "score":
            frames = [self.data.testsets[name].frame.select("testset", "item") for name in self.data.testsets]
            answers = pl.concat(frames).with_columns(correct=pl.lit(1.0), margin=pl.lit(0.0), answer=pl.lit("Yes"))
            step, pieces = arguments
            return Report(Measured()), pack_answers(answers, answers_origin(run, step, pieces))
        step, cells = arguments[:2]
        pieces = {cell: Outputs([0], self.numpy.zeros((1, 2))) for cell in cells}
        sealed = seal(pack_pieces(pieces), Origin("the outputs", run, step, cells))
        # Every cell takes as long as a unit may, so every unit is one cell.
        return Report(Measured(answers=1000.0 * len(cells), items=len(cells)), pieces=sealed)


def scheduling(folder: Path) -> None:
    """About ten thousand units that do nothing, on two workers, with everything that is written for them."""
    import psutil

    from breadth.execute import Events, plan_study
    from breadth.execute.cluster.connection import connect
    from breadth.execute.cluster.driver import Driver
    from breadth.execute.cluster.executor import chains_of
    from breadth.execute.cluster.pool import RayPool
    from breadth.execute.cluster.resources import Shape
    from breadth.execute.cluster.schedule import Schedule
    from breadth.execute.cluster.shipping import ShippedData
    from breadth.execute.directory import open_directory
    from breadth.records.store import StudyStore
    from breadth.study import expand, read_study_file

    path = folder / "empty.yaml"
    text = SINGLE.replace("every: 4, items: 160", "every: 1, items: 170").replace("steps: 48", "steps: 78")
    path.write_text(text)
    file = read_study_file(str(path))
    plan, store = plan_study(file, folder / "empty"), StudyStore(folder / "empty")
    assert plan.study_data is not None
    open_directory(file, expand(file), plan.study_data, store, print)
    shape = Shape(1)
    chains = chains_of(plan, {"smollm2-135m": shape.name})
    connection = connect()
    runs = [unit.run for unit in plan.units]
    groups = {chain.run: chain.group for chain in chains}
    data = ShippedData.of(runs, plan.study_data)
    pool = RayPool(connection, {shape.name: shape}, data, groups, {}, actor=EmptyWorker)
    pool.prepare()
    schedule = Schedule(chains)
    memory: list[int] = []

    class Memory(Events):
        def checkpoint(self, *_: object) -> None:
            memory.append(psutil.Process().memory_info().rss)

    began = time.perf_counter()
    list(Driver(plan, store, plan.study_data, Memory(), pool, schedule).execute())
    spent = time.perf_counter() - began
    pool.close()
    connection.close()
    tenth = len(memory) // 10
    print(
        f"scheduling: {schedule.done_tasks:,} units, {1000 * spent / schedule.done_tasks:.2f} ms each; "
        f"memory of the driver after a tenth {memory[tenth] / 2**20:.0f} MB, at the end {memory[-1] / 2**20:.0f} MB"
    )


def published() -> None:
    """The published study on 8, 64 and 512 GPUs, simulated."""
    from breadth.execute.cluster.simulation import Costs, simulate
    from breadth.execute.cluster.tasks import Chain, cut

    cells, items = cut(SIZES), sum(SIZES.values())
    # Training an example costs three times as much as evaluating an item: forward, and twice that backward.
    work = RUNS * (CHECKPOINTS * items + 3 * STEPS * BATCH)
    each = GPU_HOURS * 3600 / (work * sum(PUBLISHED.values()))
    costs = {
        name: Costs(load=2 * size, trunk=0, answer=each * size, step=3 * BATCH * each * size, transfer=1.0)
        for name, size in PUBLISHED.items()
    }
    chains = [
        Chain(
            f"{name} {k}", name, "gpu", cells, tuple(16 * i for i in range(CHECKPOINTS)),
            siblings=tuple(f"{name} {j}" for j in range(RUNS) if j != k),
        )
        for name in sorted(PUBLISHED, key=lambda name: -PUBLISHED[name])
        for k in range(RUNS)
    ]  # fmt: skip
    print(f"assumed: {1000 * each:.1f} ms of a GPU per item and billion parameters")
    for workers in (8, 64, 512):
        result = simulate(chains, costs, {"gpu": workers}, 60.0)
        hours = result.seconds / 3600
        print(
            f"{workers} GPUs: {hours:,.1f} h, {workers * hours:,.0f} GPU-hours, busy {result.utilisation:.0%}, "
            f"longest chain {result.chain / 3600:.1f} h, limited by {result.limit}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["compare", "kills", "client", "scheduling", "published"])
    parser.add_argument("--study", help="a study to compare; by default one run of a built-in model")
    parser.add_argument("--threads", type=int, default=1, help="of the local run")
    parser.add_argument("--kills", type=int, default=20, help="of a worker or a node")
    parser.add_argument("--first", type=int, default=1, help="number of the first kill, to go on after an interruption")
    parser.add_argument("--driver-kills", type=int, default=10)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        single = folder / "single.yaml"
        single.write_text(SINGLE)
        if chosen.what == "compare":
            compare(chosen.study or str(single), folder, chosen.threads)
        elif chosen.what == "kills":
            kills(folder, chosen.first, chosen.kills, chosen.driver_kills)
        elif chosen.what == "published":
            published()
        else:
            {"client": client, "scheduling": scheduling}[chosen.what](folder)


if __name__ == "__main__":
    main()
