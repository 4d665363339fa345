"""Against a real server on loopback, the one that comes with transformers: the same text as on this machine."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import polars as pl
import pytest

import breadth
from breadth.errors import InputError

pytest.importorskip("fastapi", reason="needs the libraries of transformers serve")
pytest.importorskip("openai", reason="needs the libraries of transformers serve")
pytestmark = pytest.mark.slow

SERVE = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; main()"


def built_in(name):
    from breadth.lm import fetch_model

    try:
        return fetch_model(name)
    except InputError as error:
        pytest.skip(f"needs {name}: {error}")


@pytest.fixture(scope="module", params=["tiny", "smollm2-135m"])
def served(request, tmp_path_factory):
    """The directory of a model, and the address of a server that has loaded it."""
    from breadth.lm import write_tiny_model

    name = request.param
    folder = write_tiny_model(tmp_path_factory.mktemp("model") / "tiny") if name == "tiny" else built_in(name)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-c", SERVE, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    words += ["--device", "cpu", "--dtype", "float32"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process)
        yield folder, f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


def wait_for(url, process, seconds=300):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert process.poll() is None, "the server ended"
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise AssertionError("the server did not start")


@pytest.fixture
def study(tmp_path):
    rows = [(f"Tom has {k} apples and buys {k + 2} more. How many are there?", str(2 * k + 2)) for k in range(3, 11)]
    pl.DataFrame(rows, schema=["question", "sum"], orient="row").write_csv(tmp_path / "sums.csv")

    def write(model, name, on="sums"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(
            f"name: s\nmodels: {model}\nrecipe: {{method: zero-shot, dtype: float32, device: cpu}}\n"
            f"evaluate: {{on: [{on}], items: 8}}\n"
            "sets:\n"
            "  sums: {file: sums.csv, kind: generate, label: sum, metric: number, max_tokens: 16,\n"
            "         pattern: 'Question: {question} Answer:'}\n"
        )
        return path

    return write


def answers_of(folder):
    return pl.concat(pl.read_parquet(path) for path in folder.glob("runs/*/step-*.parquet")).sort("item")


def test_the_same_answers_as_here(served, study, tmp_path):
    folder, url = served
    breadth.run(study(f"{{endpoint: {url}, model: {folder}, concurrency: 3}}", "asked"), into=tmp_path / "asked")
    breadth.run(study(folder, "here"), into=tmp_path / "here")
    asked, here = answers_of(tmp_path / "asked"), answers_of(tmp_path / "here")
    assert asked.equals(here)
    assert here["answer"].n_unique() > 1


def test_it_gives_no_log_probabilities(served, study, tmp_path):
    folder, url = served
    path = study(f"{{endpoint: {url}, model: {folder}}}", "asked", on="plain")
    with pytest.raises(InputError, match="plain is of kind pattern, which needs log-probabilities"):
        breadth.run(path, into=tmp_path / "asked")


def test_another_model_is_refused(served, study, tmp_path):
    _, url = served
    with pytest.raises(InputError, match=r"\(another\): .*\(status 400\)"):
        breadth.run(study(f"{{endpoint: {url}, model: another}}", "asked"), into=tmp_path / "asked")
