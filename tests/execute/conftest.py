"""Studies of tiny models, and commands that can be killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LORA = """\
name: s
models: {model}
train: {{set: plain, examples: 16, seeds: [0, 1]}}
recipe: {{method: lora, layers: 2, dropout: 0.1, trunk: "on", lr: 1.0e-2, batch: 8, steps: 8}}
evaluate: {{on: [plain, negation], every: 2, items: 24}}
"""
FULL = """\
name: s
models: {model}
train: {{set: plain, examples: 16, seeds: 0}}
recipe: {{method: full, trunk: "off", lr: 1.0e-3, batch: 8, steps: 6}}
evaluate: {{on: [plain, negation], every: 2, items: 24}}
"""
START = """\
name: s
models: {model}
train: {{set: plain, examples: 16, seeds: [0, 1], start: {{examples: 24, epochs: 2, lr: 2.0e-2}}}}
recipe: {{method: lora, layers: 2, dropout: 0.1, trunk: "on", lr: 1.0e-2, batch: 8, steps: 4}}
evaluate: {{on: [plain, negation], items: 24}}
"""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A tiny model in a directory that no other process writes."""
    from breadth.lm.tiny import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="session")
def tiny_opt(tmp_path_factory):
    """A tiny model with biases."""
    from breadth.lm.tiny import write_tiny_model

    return write_tiny_model(tmp_path_factory.mktemp("model") / "opt", "opt")


@pytest.fixture
def study(tmp_path, tiny):
    """Write a study file; ``changes`` replaces text in it."""

    def write(text=LORA, changes=(), name="study.yaml"):
        text = text.format(model=tiny)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def study_data(tmp_path):
    """StudyData and runs of a study written as text; own files lie in ``tmp_path``."""
    from breadth.execute import StudyData
    from breadth.study import expand, parse_study

    def read(text):
        whole = f"name: s\nmodels: smollm2-135m\n{text}\n"
        file = parse_study(whole, Path("s.yaml"), tmp_path)
        return StudyData(file), expand(file)

    return read


@pytest.fixture(scope="session")
def command():
    """The command line in a process of its own, one thread."""

    def start(*arguments, wait=True, env=(), **options):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **dict(env)}
        words = [sys.executable, "-m", "breadth", *map(str, arguments)]
        if not wait:
            return subprocess.Popen(
                words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
            )
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, **options)

    return start


def parts(folder):
    """Names and bytes of all answers of a study."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).glob("runs/*/step-*"))}


def refused(out):
    """The one line with which a command refused; no traceback."""
    assert out.returncode == 2, out.stderr
    assert "Traceback" not in out.stderr
    lines = [line for line in out.stderr.splitlines() if line.startswith("breadth: ")]
    assert len(lines) == 1, out.stderr
    return out.stderr[out.stderr.index("breadth: ") :]
