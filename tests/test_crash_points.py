"""Whatever writes files: killed before any of its file operations and started again, it leaves the same bytes.

A new writer is a line in ``WRITERS``; models are fetched in tests/lm/test_fetch.py. A few operations of every writer
are tried. With BREADTH_EVERY_CRASH_POINT set, all are: of those of the demo, which are thousands, a hundred.
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

#: Commands that write below ``{into}``, from what the directory ``here`` holds.
WRITERS = {
    "run": "run study.yaml --into {into}",
    "run, keep best": "run best.yaml --into {into}",
    "run, keep all": "run all.yaml --into {into}",
    "evaluate": "evaluate lora --on plain,negation --items 6 --into {into}/study",
    "init": "init --out {into}/study.yaml",
    "demo": "demo --no-open --into {into}",
    "import": "import answers.csv --into {into}",
    "import, one more log": "import answers.csv more.csv --into {into}/study",
    "import-scores": "import-scores trainer --out {into}/scores.parquet",
    "export, csv": "export answers.csv --to csv --out {into}/long.csv",
    "export, parquet": "export answers.csv --to parquet --out {into}/long.parquet",
    "export, npz": "export answers.csv --to npz --out {into}/matrix.npz",
    "export, csv tables": "export answers.csv --to csv --out {into}/tables",
    "export, parquet tables": "export answers.csv --to parquet --out {into}/tables",
    "export, eee": "export answers.csv --to eee --out {into}/eee",
    "report, html": "report scores.csv --out {into}/report.html",
    "report, md": "report scores.csv --out {into}/report.md",
    "report, json": "report scores.csv --out {into}/report.json",
    "correlate": "correlate scores.csv --control mnli --by run --out {into}/pairs.csv --figure {into}/pairs.html",
    "calibrate": "calibrate matrix.csv --out {into}/calibration.parquet --figure {into}/map.svg",
    "ability": "ability matrix.csv --with calibration.parquet --out {into}/abilities.csv",
    "difficulty levels": "difficulty levels calibration.parquet --n 2 --out {into}/levels.csv",
    "difficulty profile": "difficulty profile matrix.csv --calibration calibration.parquet --subjects m1,m2 --levels 2 "
    "--out {into}/profile.csv",
    "difficulty sample": "difficulty sample items.csv --calibration calibration.parquet --n 6 --out {into}/train.jsonl",
    "difficulty versus": "difficulty versus calibration.parquet --items items.csv --out {into}/measures.csv",
    "scores": "scores labelled.csv --out {into}/scores.csv",
    "stability": "stability scores.csv --by run --order step --out {into}/runs.csv",
    "transfer": "transfer gains.csv --out {into}/gains.csv",
    "compare": "compare matrix.csv m1 m2 --out {into}/cells.csv --figure {into}/cells.svg",
    "compare --all": "compare matrix.csv --all --out {into}/ranks.csv",
    "advise power": "advise power matrix.csv --out {into}/plan.csv",
    "advise items": "advise items matrix.csv -k 10 --into {into}/short.npz --out {into}/items.csv",
    "advise score": "advise score short.npz matrix.csv --out {into}/scores.csv",
    "advise testsets": "advise testsets board.csv --out {into}/steps.csv",
    "advise together": "advise together matrix.csv --out {into}/gains.csv",
}

#: Writers whose result is there before the command: it has to survive, or to be added to.
BEGUN = {"import, one more log": "import answers.csv --into {into}/study"}

#: Crash points of a writer that are tried by default, and of the demo when all are.
FEW, MOST = 2, 100

#: Writers of many kinds of files get more.
MORE = dict.fromkeys(("run", "run, keep best", "run, keep all", "export, eee", "import, one more log"), 3)

#: Options that name what a verb writes, and verbs that write nothing or are tried elsewhere (models are fetched in
#: tests/lm/test_fetch.py).
OUTPUTS = {"--out", "--into", "--figure"}
ELSEWHERE = {"get"}


@pytest.fixture(scope="module")
def here(forks, tmp_path_factory, write_adapters):
    from breadth.lm.tiny import write_tiny_model

    here = tmp_path_factory.mktemp("here")
    model = write_tiny_model(here / "tiny")
    write_adapters(model, here / "lora", steps=(10, 20))
    for name, text in (("study", STUDY), ("best", BEST), ("all", ALL)):
        (here / f"{name}.yaml").write_text(text.format(model=model))
    write_tables(here)
    for command in (
        "calibrate {into}/matrix.csv --out {into}/calibration.parquet",
        "advise items {into}/matrix.csv -k 10 --into {into}/short.npz",
    ):
        out = start(forks, command, here)
        assert out.returncode == 0, out.stderr
    return here


def write_tables(here):
    """Small tables of every kind that a verb reads."""
    import numpy as np
    import polars as pl

    from breadth.datasets import simulate_scores

    generator = np.random.default_rng(0)
    simulate_scores(runs=3).rename({"in_domain": "mnli"}).write_csv(here / "scores.csv")
    few = [{"model": f"m{i}", "item": f"q{j}", "correct": (i * j) % 2} for i in range(3) for j in range(5)]
    pl.DataFrame(few).write_csv(here / "answers.csv")
    pl.DataFrame(few).with_columns(model="more-" + pl.col("model")).write_csv(here / "more.csv")

    models = pl.DataFrame({"model": [f"m{i}" for i in range(40)]})
    names = [f"q{j}" for j in range(24)]
    chances = 1 / (1 + np.exp(generator.normal(size=len(names)) - generator.normal(size=(40, 1))))
    right = pl.DataFrame((generator.random(chances.shape) < chances).astype(int), schema=names)
    pl.concat([models, right], how="horizontal").write_csv(here / "matrix.csv")
    questions = ["x" * (j + 1) for j in range(len(names))]
    pl.DataFrame({"item": names, "question": questions}).write_csv(here / "items.csv")
    board = 60 + 5 * generator.normal(size=(40, 1)) + generator.normal(size=(40, 5))
    board = pl.DataFrame(board, schema=[f"set{j}" for j in range(5)])
    pl.concat([models, board], how="horizontal").write_csv(here / "board.csv")

    gains, labelled = [], []
    for level in ("", "0", "1", "2"):
        for seed in (0, 1):
            for i in range(30):
                correct = int(generator.random() < 0.6)
                row = {"train_level": level, "seed": seed, "item": f"i{i}", "level": i % 3, "correct": correct}
                gains.append(row)
    pl.DataFrame(gains).write_csv(here / "gains.csv")
    for i in range(40):
        margin = float(generator.normal())
        row = {"testset": "plain", "item": f"i{i}", "label": ("Yes", "No")[i % 2], "margin": margin}
        labelled.append({**row, "correct": int(margin > 0)})
    pl.DataFrame(labelled).write_csv(here / "labelled.csv")

    (here / "trainer").mkdir()
    history = [{"step": step, "epoch": 1.0, "eval_mnli_accuracy": 0.5 + step / 100} for step in (10, 20)]
    state = {"global_step": 20, "log_history": history}
    (here / "trainer" / "trainer_state.json").write_text(json.dumps(state))


def start(forks, command, into, **options):
    """Run a command that writes below ``into``."""
    return forks.command(*command.format(into=into).split(), **options)


def content(folder):
    """Bytes of every file but those that hold times, and hidden ones that were being written."""
    own = [path for path in folder.rglob("*") if path.is_file() and PARTIAL not in path.name]
    paths = [path for path in own if path.name not in (".lock", "log.jsonl")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("name", WRITERS)
def test_killed_before_any_operation(forks, here, tmp_path, monkeypatch, name):
    monkeypatch.chdir(here)

    def begin(folder):
        folder.mkdir()
        if name in BEGUN:
            out = start(forks, BEGUN[name], folder)
            assert out.returncode == 0, out.stderr
        return folder

    folder = begin(tmp_path / "whole")
    counted = tmp_path / "operations"
    out = start(forks, WRITERS[name], folder, count_operations=(str(counted), f"{folder}/"))
    assert out.returncode == 0, out.stderr
    whole = content(folder)
    assert whole
    if name == "run, keep best":  # else nothing that was the best has been deleted
        assert not any("weights/step-000002/" in path for path in whole)
    plain = comparable(whole, folder)
    points = chosen_points(name, int(counted.read_text()))
    assert len(points) > 1
    for point in points:
        into = begin(tmp_path / f"torn{point}")
        out = start(forks, WRITERS[name], into, die_before=(point, f"{into}/"))
        assert out.returncode == -signal.SIGKILL, (point, out.stderr)
        out = start(forks, WRITERS[name], into)
        assert out.returncode == 0, (point, out.stderr)
        torn = content(into)
        assert torn.keys() == whole.keys(), point
        assert [path for path, text in comparable(torn, into).items() if text != plain[path]] == [], point
    print(json.dumps({name: {"operations": int(counted.read_text()), "kills": len(points)}}))


def chosen_points(name, count):
    """Which operations of a writer it is killed before; before the first, nothing has been written."""
    most = MORE.get(name, FEW)
    if os.environ.get("BREADTH_EVERY_CRASH_POINT"):
        most = MOST if name == "demo" else count
    if most >= count:
        return list(range(1, count + 1))
    return [1 + round(k * count / (most + 1)) for k in range(1, most + 1)]


def comparable(files, folder):
    """Files without the directory and the time that a page or record names."""
    times = re.compile(rb'\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?|(?<="retrieved_timestamp": )"\d+"')
    return {path: times.sub(b"", text.replace(bytes(folder), b"")) for path, text in files.items()}


def test_every_verb_that_writes_is_tried():
    from breadth.cli import load_commands

    writing = set()
    for name, verb in load_commands().commands.items():
        for inner, command in getattr(verb, "commands", {"": verb}).items():
            options = {option for parameter in command.params for option in parameter.opts}
            if options & OUTPUTS:
                writing.add(f"{name} {inner}".strip())
    tried = set()
    for line in WRITERS.values():
        words = line.split()
        tried.add(" ".join(words[: 2 if words[0] in ("advise", "difficulty") else 1]))
    assert "advise power" in writing
    assert writing - ELSEWHERE == tried
