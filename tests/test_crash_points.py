"""Whatever writes files: killed before any of its file operations and started again, it leaves the same bytes.

A new writer is a line in ``WRITERS``; models are fetched in tests/lm/test_fetch.py. With BREADTH_EVERY_CRASH_POINT set,
every operation of a writer is tried (every tenth part of those of the demo, which are thousands).
"""

import json
import os
import re
import signal

import pytest

from breadth.records.files import PARTIAL

pytestmark = pytest.mark.slow

STUDY = """\
name: s
models: {model}
train: {{set: plain, examples: 8, seeds: [0, 1]}}
recipe: {{method: lora, layers: 1, lr: 1.0e-2, batch: 8, steps: 2}}
evaluate: {{on: [plain, negation], every: 1, items: 6}}
"""
#: Keeps the weights of a checkpoint before its answers, and deletes those of the last best after them.
BEST = """\
name: s
models: {model}
train: {{set: plain, examples: 16, seeds: 0}}
recipe: {{method: lora, layers: 2, lr: 1.0e-2, batch: 8, steps: 8, keep: best}}
evaluate: {{on: [plain, negation], every: 2, items: 24}}
"""
ALL = STUDY.replace("method: lora", "method: full").replace("steps: 2", "steps: 2, keep: all")

#: The command that writes below ``{into}``, and the share of its crash points that are tried.
WRITERS = {
    "run": (["run", "{here}/study.yaml", "--into", "{into}"], 6),
    "keep best": (["run", "{here}/best.yaml", "--into", "{into}"], 12),
    "keep all": (["run", "{here}/all.yaml", "--into", "{into}"], 12),
    "import": (["import", "{here}/answers.csv", "--into", "{into}"], 1),
    "report": (["report", "{here}/scores.csv", "--out", "{into}/r.html"], 1),
    "out": (["correlate", "{here}/scores.csv", "--control", "mnli", "--by", "run", "--out", "{into}/p.csv"], 1),
    "demo": (["demo", "--into", "{into}"], 600),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    import polars as pl

    from breadth.datasets import simulate_scores
    from breadth.lm.tiny import write_tiny_model

    here = tmp_path_factory.mktemp("here")
    model = write_tiny_model(here / "tiny")
    (here / "study.yaml").write_text(STUDY.format(model=model))
    (here / "best.yaml").write_text(BEST.format(model=model))
    (here / "all.yaml").write_text(ALL.format(model=model))
    simulate_scores(runs=3).rename({"in_domain": "mnli"}).write_csv(here / "scores.csv")
    rows = [{"model": f"m{i}", "item": f"q{j}", "correct": (i * j) % 2} for i in range(3) for j in range(5)]
    pl.DataFrame(rows).write_csv(here / "answers.csv")
    return here


def content(folder):
    """Bytes of every file but those that hold times, and hidden ones that were being written."""
    own = [path for path in folder.rglob("*") if path.is_file() and PARTIAL not in path.name]
    paths = [path for path in own if path.name not in (".lock", "log.jsonl")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", WRITERS)
def test_killed_before_any_operation(forks, here, tmp_path, name):
    words, stride = WRITERS[name]
    if os.environ.get("BREADTH_EVERY_CRASH_POINT"):
        stride = max(1, stride // 10)

    def start(into, **options):
        into.mkdir(exist_ok=True)
        arguments = [word.format(here=here, into=into) for word in words]
        return forks.command(*arguments, **options)

    out = start(tmp_path / "whole")
    assert out.returncode == 0, out.stderr
    whole = content(tmp_path / "whole")
    if name == "keep best":  # else nothing that was the best has been deleted
        assert not any("weights/step-000002/" in path for path in whole)
    point = kills = 0
    while True:
        point += stride
        into = tmp_path / f"torn{point}"
        out = start(into, die_before=(point, str(into) + "/"))
        if out.returncode == 0:
            break
        assert out.returncode == -signal.SIGKILL, out.stderr
        kills += 1
        out = start(into)
        assert out.returncode == 0, out.stderr
        torn = content(into)
        assert torn.keys() == whole.keys(), point
        plain = comparable(whole, tmp_path / "whole")
        assert [path for path, text in comparable(torn, into).items() if text != plain[path]] == [], point
    assert kills > 1
    print(json.dumps({name: kills}))


def comparable(files, folder):
    """Files without the directory and the time that a page or record names."""
    times = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?")
    return {path: times.sub(b"", text.replace(bytes(folder), b"")) for path, text in files.items()}
