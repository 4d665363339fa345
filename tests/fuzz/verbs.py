"""Every verb that reads, as the command line calls it, with the kinds of input that it is tried on."""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sandbox import Task

#: Kinds of input: what a changed file is.
KINDS = ("table", "answers", "matrix", "calibration", "short", "items", "study", "yaml", "log")

#: What is tried on anything that holds answers or scores; of several ways to call a verb, one is drawn.
#: {path} is the changed file; {out} is a new file or directory; the others are sound files that go with it.
DATA = {
    "correlate": [
        "correlate {path} --out {out}.csv", "correlate {path} --adjust none --figure {out}.html",
        "correlate {path} --moderators size --moderators kind", "correlate {path} --robust --by none",
        "correlate {path} --method spearman --windows 2 --ci iid", "correlate {path} --ci block",
        "correlate {path} --testsets '*' --order none --adjust none", "correlate {path} --score auc",
        "correlate {path} --order step --by run", "correlate {path} --cluster model --adjust none",
    ],
    "calibrate": [
        "calibrate {path} --out {out}.parquet", "calibrate {path} --model 2pl --figure {out}.html",
        "calibrate {path} --anchor {calibration}", "calibrate {path} --copies weigh --levels 3",
        "calibrate {path} --stability --min-responses 1", "calibrate {path} --model 3pl --priors none",
    ],
    "ability": ["ability {path} --with {calibration} --out {out}.csv", "ability {path} --with {calibration}"],
    "profile": [
        "difficulty profile {path} --calibration {calibration} --figure {out}.html", "difficulty profile {path}",
        "difficulty profile {path} --levels 2 --subjects '*' --calibration {calibration} --out {out}.md",
    ],
    "sample": [
        "difficulty sample {path} --calibration {calibration} --out {out}.jsonl",
        "difficulty sample {path} --difficulty difficulty",
        "difficulty sample {path} --ease score --strategy spiral --n 3",
        "difficulty sample {path} --strategy curriculum",
    ],
    "scores": ["scores {path} --out {out}.csv", "scores {path} --out {out}.json", "scores {path}"],
    "stability": [
        "stability {path} --out {out}.csv", "stability {path} --figure {out}.html", "stability {path} --order step",
        "stability {path} --cluster none --item-counts none",
    ],
    "transfer": [
        "transfer {path} --figure {out}.html", "transfer {path} --calibration {calibration} --out {out}.csv",
        "transfer {path} --levels 2 --by strategy", "transfer {path} --model model-a --score auc",
    ],
    "difficulty-vs": ["difficulty versus {calibration} --items {path} --out {out}.csv"],
    "compare": [
        "compare {path} m00 m01 --figure {out}.html", "compare {path} --out {out}.csv",
        "compare {path} 'm0*' 'm1*' --calibration {calibration} --fail-if-worse 0.1",
        "compare {path} m00 m01 --cluster passage --margin 0.01",
    ],
    "rank": ["compare {path} --all --figure {out}.html", "compare {path} --all --out {out}.parquet"],
    "advise power": [
        "advise power {path} --figure {out}.html", "advise power {path} --seeds --out {out}.csv",
        "advise power {path} m00 m01 --cluster passage",
    ],
    "advise items": [
        "advise items {path} -k 10 --into {out}.npz", "advise items {path} -k 12 --into {out}.npz --figure {out}.html",
    ],
    "advise score": ["advise score {short} {path} --out {out}.csv", "advise score {short} {path} --figure {out}.html"],
    "advise testsets": [
        "advise testsets {path} --figure {out}.html", "advise testsets {path} --date date --out {out}.csv",
        "advise testsets {path} --cluster family --error 1",
    ],
    "advise together": ["advise together {path} --figure {out}.html", "advise together {path} --cluster passage"],
    "report": [
        "report {path} --out {out}.html", "report {path} --out {out}.md", "report {path} --out {out}.json",
        "report {path} --out {out}.html --score auc", "report {path} --out {out}.html --order step --by run",
    ],
    "import": [
        "import {path} --into {out}", "import {path} --dry-run --keep all", "import {path} --into {out} --epochs each",
        "import {path} --into {out} --no-texts --keep newest",
    ],
    "import-scores": [
        "import-scores {path} --out {out}.parquet", "import-scores {path} --dry-run --losses",
    ],
    "export": [
        "export {path} --to csv --out {out}.csv", "export {path} --to npz --out {out}.npz",
        "export {path} --to parquet --out {out}.parquet", "export {path} --to eee --out {out}",
    ],
}  # fmt: skip

#: What is tried on a calibration besides.
CALIBRATION = {
    "levels": ["difficulty levels {path} --out {out}.csv", "difficulty levels {path} --n 3"],
    "ability --with": ["ability {answers} --with {path}", "ability {answers} --with {path} --method wle"],
    "profile --calibration": ["difficulty profile {answers} --calibration {path} --figure {out}.html"],
    "calibrate --anchor": ["calibrate {more} --anchor {path}", "calibrate {more} --anchor {path} --model 2pl"],
    "compare --calibration": ["compare {answers} m00 m01 --calibration {path} --figure {out}.html"],
    "sample --calibration": ["difficulty sample {items} --calibration {path} --strategy spiral --out {out}.csv"],
    "difficulty-vs": ["difficulty versus {path} --items {items} --out {out}.csv"],
    "transfer --calibration": ["transfer {trained} --calibration {path} --levels 2 --out {out}.csv"],
    "report": ["report {path} --out {out}.html", "report {path} --out {out}.json"],
}

SHORT = {
    "advise score": ["advise score {path} {answers} --out {out}.csv", "advise score {path} {answers}"],
    "calibrate": ["calibrate {path}"],
    "report": ["report {path} --out {out}.html"],
}

STUDY = {"show": ["show {path}", "show {path} --resolved"]}
YAML = {"show": ["show {path}", "show {path} --resolved"]}

#: The few that read a file of items.
ITEMS = {name: DATA[name] for name in ("sample", "difficulty-vs", "report")}

COMMANDS: dict[str, dict[str, list[str]]] = {
    "table": DATA,
    "answers": DATA,
    "matrix": DATA,
    "calibration": CALIBRATION,
    "short": SHORT,
    "items": ITEMS,
    "study": DATA | STUDY,
    "yaml": YAML,
    "log": {name: DATA[name] for name in ("report", "import", "import-scores", "correlate", "calibrate")},
}


@dataclass(frozen=True)
class Companions:
    """Sound files that verbs need besides the changed one."""

    folder: Path

    @property
    def places(self) -> dict[str, Path]:
        names = {
            "answers": "answers.csv",
            "more": "more.csv",
            "trained": "trained.csv",
            "items": "items.csv",
            "calibration": "calibration.parquet",
            "short": "short.npz",
        }
        return {key: self.folder / name for key, name in names.items()}


def command_line(words: str, **places: str) -> None:
    """Run a command as ``breadth`` would, but for what happens to exceptions."""
    from breadth.cli import app

    arguments = [_placed(word, places) for word in shlex.split(words)]
    app(arguments, standalone_mode=False)


def _placed(word: str, places: dict[str, str]) -> str:
    for name, place in places.items():
        word = word.replace("{" + name + "}", place)
    return word


def plan(path: Path, into: Path) -> None:
    """What ``breadth run --dry-run`` prints, without the minute in which it measures how fast this machine is."""
    from breadth.cli.run import print_plan
    from breadth.execute import plan_study
    from breadth.study import read_study_file

    print_plan(plan_study(read_study_file(str(path)), into, dry=True))


def tasks(kind: str, path: Path, companions: Companions, seed: object, only: Iterable[str] = ()) -> list[Task]:
    """Everything that is tried on an input.

    Which way of calling each verb depends on ``seed`` alone; it is the first one if that is None.
    """
    wanted = set(only)
    found: list[Task] = []
    for verb in COMMANDS[kind]:
        words = words_of(kind, verb, seed)
        out = f"{kind}-{verb}-out".replace(" ", "-")
        places = {"path": os.fspath(path), "out": out}
        places |= {name: os.fspath(place) for name, place in companions.places.items()}
        found.append((verb, partial(command_line, words, **places)))
    found += [(verb, partial(function, path)) for verb, function in _functions(kind).items()]
    return [task for task in found if not wanted or task[0] in wanted]


def words_of(kind: str, verb: str, seed: object) -> str:
    """The command that :func:`tasks` draws."""
    ways = COMMANDS[kind].get(verb)
    if ways is None:
        return f"{verb} {{path}}"
    if seed is None:
        return ways[0]
    chance = random.Random(f"{seed} {verb}")
    return ways[0] if chance.random() < 0.5 else chance.choice(ways)


def _functions(kind: str) -> dict[str, Callable[[Path], object]]:
    """Readers that no verb of the command line calls on this kind of input alone."""
    if kind == "yaml":
        return {"run --dry-run": lambda path: plan(path, Path("planned"))}
    if kind == "log":
        return {"read_logs": _read_logs, "read_trajectories": _read_trajectories}
    if kind == "study":
        return {"open": _open, "Progress": _progress, "run --dry-run": lambda path: plan(path / "study.yaml", path)}
    if kind in ("table", "answers", "matrix"):
        return {"open": _open, "open directory": lambda path: _open(path.parent)}
    return {}


def _open(path: Path) -> object:
    import breadth

    return breadth.open(path)


def _read_logs(path: Path) -> object:
    import breadth

    return breadth.read_logs(path)


def _read_trajectories(path: Path) -> object:
    import breadth

    return breadth.read_trajectories(path)


def _progress(path: Path) -> object:
    from breadth.reporting.progress import Progress

    return Progress(path).state()


def verb_names() -> list[str]:
    """Every verb that is tried on some kind of input."""
    return sorted({verb for kind in KINDS for verb in (*COMMANDS[kind], *_functions(kind))})
