"""Studies on a Ray of several simulated nodes, with a worker, a node and the driver killed while they run.

These are few, because every worker that starts loads torch. ``benchmarks/ray_cluster.py kills`` kills twenty times and
the driver ten times; the tests of the schedule and of the driver make faults of every kind without Ray.
"""

import random
import time
from functools import partial

import pytest
from filelock import FileLock

from breadth.errors import InputError
from breadth.execute import Events, run

from ..conftest import LORA, parts
from .simulated import SimulatedCluster

ray = pytest.importorskip("ray")
pytest.importorskip("grpc")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One process of the tests at a time has a cluster."""
    with FileLock(tmp_path_factory.getbasetemp().parent / "ray.lock"):
        yield


@pytest.fixture(scope="module")
def cluster(alone):
    simulated = SimulatedCluster(nodes=2)
    yield simulated
    simulated.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny):
    """A study, and the bytes of a local run of it with one thread."""
    folder = tmp_path_factory.mktemp("whole")
    path = folder / "study.yaml"
    path.write_text(LORA.format(model=tiny).replace("steps: 8", "steps: 24"))
    run(path, into=folder / "s")
    return path, parts(folder / "s")


class Killer(Events):
    """Does something when so many checkpoints have been written."""

    def __init__(self, **kills):
        self.kills, self.seen, self.retries = {int(name[2:]): kill for name, kill in kills.items()}, 0, 0

    def checkpoint(self, run, step, answers):
        self.seen += 1
        self.kills.pop(self.seen, lambda: None)()

    def cluster(self, status):
        self.retries = status.retries


def test_a_worker_and_a_node_killed(cluster, whole, tmp_path):
    path, expected = whole
    chance = random.Random(0)
    events = Killer(at3=lambda: cluster.kill_worker(chance), at9=lambda: cluster.lose_node(chance))
    outcome = run(path, into=tmp_path / "s", on=cluster.address, threads=1, workers=2, events=events)
    assert not events.kills
    assert events.retries
    assert not outcome.failed
    assert parts(tmp_path / "s") == expected


def damaging_actor(marker):
    """A worker of Ray that changes one bit of the first outputs that any worker returns."""

    from breadth.execute.cluster.pool import _Actor as Actor

    class Damaging(Actor):
        def call(self, method, *arguments):
            values = Actor.call(self, method, *arguments)
            if method != "evaluate":
                return values
            try:
                with open(marker, "x"):
                    pass
            except FileExistsError:
                return values
            content = bytearray(values.pieces.content)
            content[-1] ^= 1
            return values._replace(pieces=values.pieces._replace(content=bytes(content)))

    return Damaging


def test_a_damaged_part_is_made_again(cluster, whole, tmp_path, monkeypatch):
    from breadth.execute.cluster import pool

    path, answers = whole
    marker, warnings = tmp_path / "damaged", []

    class Heard(Events):
        def warn(self, text):
            warnings.append(text)

    monkeypatch.setattr(pool, "RayPool", partial(pool.RayPool, actor=damaging_actor(marker)))
    outcome = run(path, into=tmp_path / "s", on=cluster.address, threads=1, workers=2, events=Heard())
    assert marker.exists()
    assert not outcome.failed
    assert parts(tmp_path / "s") == answers
    assert any("damaged result" in text for text in warnings)


def test_the_driver_killed_and_started_again_elsewhere(cluster, command, whole, tmp_path):
    """It begins on a machine of the cluster, and is resumed from outside, through Ray's client."""
    path, expected = whole
    into, options = tmp_path / "s", ("--workers", 1, "--threads", 1)
    process = command("run", path, "--into", into, "--on", cluster.address, *options, wait=False)
    until = time.monotonic() + 300
    while len(parts(into)) < 6:
        assert time.monotonic() < until
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    before = parts(into)
    out = command("run", path, "--into", into, "--on", cluster.client, *options)
    assert out.returncode == 0, out.stderr
    assert "(resumed)" in out.stderr
    assert "1 worker, " in out.stderr
    assert parts(into) == expected
    assert before.items() <= parts(into).items()


def test_a_model_that_no_node_can_hold(cluster, study, tmp_path):
    path = study(LORA + "resources: {{gpus: 2}}\n")
    with pytest.raises(
        InputError, match=r"a worker needs 1 CPU, 2 GPUs.*no node of the cluster has that \(at most 1 C"
    ):
        run(path, into=tmp_path / "s", on=cluster.address)


def test_a_ray_of_this_machine_and_a_run_that_fails(alone, command, study, tiny, tmp_path):
    """The second model diverges: its run is set aside, the first is done, and the command says so."""
    import shutil

    copy = shutil.copytree(tiny, tmp_path / "diverging")
    path = study(
        LORA,
        [
            (f"models: {tiny}", f"models: [{tiny}, {{name: {copy}, recipe: {{lr: 1.0e+30}}}}]"),
            ("seeds: [0, 1]", "seeds: 0"),
            ("steps: 8", "steps: 4"),
        ],
    )
    out = command("run", path, "--into", tmp_path / "s", "--on", "ray", "--threads", 1, "--workers", 1)
    assert out.returncode == 1, out.stderr
    assert "runs: 1 done now, 1 failed." in out.stdout
    assert "Traceback" not in out.stderr
    failed = out.stderr[out.stderr.index("breadth: ") :]
    assert "diverging" in failed
    assert "the loss is" in failed
    assert "set aside after 3 failures" in out.stderr.replace("\n", " ")
    (log,) = tmp_path.glob("s/runs/*diverging*/failures.log")
    assert "the loss is" in log.read_text()
    done = parts(tmp_path / "s")
    # Step 0 needs no training: the failed run has it, too.
    assert sorted(name.partition("/step-")[2][:6] for name in done) == ["000000", "000000", "000002", "000004"]
