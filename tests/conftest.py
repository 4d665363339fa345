import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

# As many workers as cores: with one thread each they do not wait for one another. Before anything imports torch.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A busy machine is no reason to fail; and a gate that must be repeatable searches the same examples every time.
hypothesis.settings.register_profile("steady", deadline=None, derandomize="CI" in os.environ)
hypothesis.settings.load_profile("steady")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public data sets kept beside the repository; tests that need them are skipped elsewhere."""
    folder = Path(os.environ.get("BREADTH_SHARED_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("needs the shared data (set BREADTH_SHARED_DATA to its directory)")
    return folder


@pytest.fixture(scope="session")
def trajectory_data(shared_data: Path) -> Path:
    return shared_data / "trajectories"


class Forks:
    """Runs studies and commands, each in a fresh child of one process that has loaded the libraries."""

    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        command = [sys.executable, str(Path(__file__).with_name("forking.py"))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, study, into, **options):
        """Exit code (negative for a signal), seconds it took, and what was said on standard error.

        ``kill_after`` kills after so many seconds; ``kill_at`` = "before 3" or "after 3" before or after the third
        rename of a file, which is how every file of a study comes into being; ``file_limit`` is the most bytes that a
        file may have, ``shard`` as in the command, ``together`` a list of shards (or of None) to run at the same time;
        ``die_before`` = (7, "/x") kills before the seventh operation that changes files below /x;
        ``count_operations`` = ("/n", "/x") writes to /n how many there were.
        """
        return self.ask(study=str(study), into=str(into), **options)

    def command(self, *arguments, **options):
        """What ``breadth`` with these arguments returned, printed and said on standard error."""
        words = [str(argument) for argument in arguments]
        answer = self.ask(command=words, environment=dict(os.environ), directory=os.getcwd(), **options)
        return subprocess.CompletedProcess(words, answer["code"], answer["printed"], answer["said"])

    def code(self, text, **options):
        """Exit code of a child that executes ``text``, and what it said on standard error."""
        return self.ask(code=text, environment=dict(os.environ), **options)

    def ask(self, **options):
        self.process.stdin.write(json.dumps(options) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


@pytest.fixture(scope="session")
def forks():
    processes = Forks()
    yield processes
    processes.close()


@pytest.fixture(scope="session")
def simulated_study(tmp_path_factory):
    """A small study of two models with 24 checkpoints a run, and which of its labels are wrong."""
    from breadth.datasets import simulate_study

    return simulate_study(tmp_path_factory.mktemp("studies") / "plain-study", runs=4, checkpoints=24, items=50)


@pytest.fixture(scope="session")
def levels_study(tmp_path_factory):
    """A small study whose runs train on one of three levels of difficulty, two seeds each."""
    from breadth.datasets import simulate_study

    folder = tmp_path_factory.mktemp("studies") / "levels-study"
    return simulate_study(
        folder, runs=12, checkpoints=8, items=60, testsets=("plain", "science", "chains"), train_levels=3
    )


@pytest.fixture(scope="session")
def write_study():
    """Write the directory of a study as ``breadth run`` does, from simulated answers.

    ``runs`` are descriptions of runs; every one has ``steps`` checkpoints 16 steps apart (its own ``steps`` if it says
    so). Abilities rise along the run, and step 0 depends on the model alone.
    """
    import zlib

    import numpy as np
    import polars as pl

    from breadth.records.store import RunRecord, StudyStore

    def write(folder, runs, testsets=("home", "away", "abroad"), items=60, steps=12, levels=0, rise=None):
        store = StudyStore(folder)
        names = [f"{testset}-{i:03d}" for testset in testsets for i in range(items)]
        of_set = np.repeat(testsets, items)
        difficulty = np.random.default_rng(1).normal(size=len(names))
        level = np.array([-1] * len(names))
        for testset in testsets[:1] if levels else ():
            inside = of_set == testset
            level[inside] = np.argsort(np.argsort(difficulty[inside])) * levels // items
        for testset in testsets:
            inside = of_set == testset
            frame = pl.DataFrame({"item": np.array(names)[inside], "testset": testset, "shift": "domain"})
            frame = frame.with_columns(label=pl.Series(["Yes", "No"] * (items // 2)))
            if levels and testset == testsets[0]:
                frame = frame.with_columns(level=pl.Series(level[inside]), difficulty=pl.Series(difficulty[inside]))
            store.write_items(testset, frame)
        for described in runs:
            run = {"method": "lora", "train_set": testsets[0], "examples": 8, "seed": 0, **described}
            name = run.pop("name", None) or "-".join(
                str(run[key])
                for key in ("model", "train_set", "examples", "seed", "train_level", "strategy")
                if key in run
            )
            count = run.pop("steps", steps)
            checkpoints = [16 * k for k in range(count)]
            own = store.run(name)
            own.write_record(RunRecord(**{"checkpoints": tuple(checkpoints), **run}))
            for k, step in enumerate(checkpoints):
                seed = zlib.crc32(f"{run['model']} {name if step else ''} {step}".encode())
                generator = np.random.default_rng(seed)
                ability = k / max(count - 1, 1) * (np.ones(len(names)) if rise is None else rise(run, of_set, level))
                shared = {testset: generator.normal(0, 0.3) * (step > 0) for testset in testsets}
                ability = ability + np.array([shared[testset] for testset in of_set])
                # One draw per item and model: what makes an item easy for the model stays through training.
                luck = np.random.default_rng(zlib.crc32(run["model"].encode())).random(len(names))
                luck = np.where(generator.random(len(names)) < 0.5 * (step > 0), generator.random(len(names)), luck)
                correct = (luck < 1 / (1 + np.exp(difficulty - ability))).astype(int)
                answers = pl.DataFrame({"testset": of_set, "item": names, "correct": correct})
                own.write_part(step, answers.with_columns(margin=pl.lit(0.0), answer=pl.lit("Yes")))
        return folder

    return write


@pytest.fixture(scope="session")
def change_record():
    """Change values of a ``run.json`` as breadth would write it, checksum included."""
    from breadth.records.files import sealed

    def change(path, **changes):
        values = json.loads(path.read_bytes())
        del values["checksum"]
        path.write_bytes(sealed(values | changes))

    return change


@pytest.fixture(scope="session")
def browser():
    """A real browser; tests that need one are skipped where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("needs a Chromium browser on the PATH")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as started:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        chromium = started.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def write_adapters():
    """Write LoRA adapters as PEFT and a Trainer do: ``write(base, folder, steps, layers)``."""
    from .checkpoint_files import write_adapters

    return write_adapters


@pytest.fixture(scope="session")
def write_whole():
    """Write whole weights as transformers and a Trainer do: ``write(base, folder, steps, pick)``."""
    from .checkpoint_files import write_whole

    return write_whole


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory):
    """A tiny model."""
    from breadth.lm import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("base") / "base")


@pytest.fixture(scope="session")
def adapters(tmp_path_factory, tiny_base, write_adapters):
    """Three adapters of the tiny model, on all layers."""
    return write_adapters(tiny_base, tmp_path_factory.mktemp("adapters") / "lora")


@pytest.fixture(scope="session")
def whole(tmp_path_factory, tiny_base, write_whole):
    """Three checkpoints of the tiny model with all weights."""
    return write_whole(tiny_base, tmp_path_factory.mktemp("whole") / "full")
