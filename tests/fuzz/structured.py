"""Structure-aware fuzzing: changed tables, matrices, logs, calibrations and studies go through every verb that reads.

``python tests/fuzz/structured.py --seed 1 --minutes 15 --keep /tmp/found --logs DIR`` tries changes until the time is
over and lists what gave anything but a result or an ``InputError``: another exception, a hang, or a gigabyte. The same
seed gives the same inputs. ``--only answers``, ``--only "advise items"`` or ``--only answers/calibrate`` restricts it;
``--count 100`` stops after so many inputs, ``--verbs 3`` tries so many verbs of each; ``--case answers:7.12`` repeats
one and prints tracebacks. ``python tests/fuzz/known.py`` runs the known blow-ups.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sandbox
import structures
import verbs
from sandbox import Finding, Outcome
from structures import Case
from verbs import Companions

#: How often each kind of input is drawn.
WEIGHTS = {
    "table": 6, "answers": 7, "matrix": 3, "calibration": 3, "short": 1, "items": 1, "study": 4, "yaml": 2, "log": 6,
}  # fmt: skip

#: Seconds for making the input of a new finding smaller.
SHRINKING = 6


def prepare(folder: Path, logs: Path | None = None) -> Companions:
    """Sound files that verbs need besides the changed one, made in a child process."""
    folder.mkdir(parents=True, exist_ok=True)
    made = sandbox.watch([("prepare", lambda: _make_companions(folder))], folder, seconds=120)
    if made[0].status != "ok":
        raise RuntimeError(f"companions could not be made: {made[0]}")
    return Companions(folder)


def _make_companions(folder: Path) -> None:
    from breadth.datasets import simulate_study

    chance = random.Random(0)
    structures.frame_of(structures.answers_long(chance, 24, 45)).write_csv(folder / "answers.csv")
    structures.frame_of(structures.answers_long(chance, 24, 60)).write_csv(folder / "more.csv")
    structures.frame_of(structures.answers_trained(chance)).write_csv(folder / "trained.csv")
    structures.frame_of(structures.items_table(chance)).write_csv(folder / "items.csv")
    verbs.command_line("calibrate {a} --out {c}", a=str(folder / "answers.csv"), c=str(folder / "calibration.parquet"))
    verbs.command_line("advise items {a} -k 10 --into {s}", a=str(folder / "answers.csv"), s=str(folder / "short.npz"))
    verbs.command_line("import {a} --into {i}", a=str(folder / "answers.csv"), i=str(folder / "imported"))
    sets = ("plain", "science")
    simulate_study(folder / "levels", runs=6, checkpoints=3, items=30, testsets=sets, train_levels=3)


def names_of(number: int, seed: int, kinds: Sequence[str]) -> tuple[str, str]:
    """The kind and the seed of an input."""
    chance = random.Random(f"{seed}.{number}")
    kind = chance.choices(kinds, [WEIGHTS[kind] for kind in kinds])[0]
    return kind, f"{seed}.{number}"


class CannotBuildError(RuntimeError):
    """Changes that do not go together, such as one of a column in a file that an earlier change emptied."""


def attempt(
    case: Case, companions: Companions, only: Sequence[str] = (), keep: Path | None = None, most: int | None = None
) -> list[Outcome]:
    """What every verb makes of a case, or ``most`` of them; its files are moved to ``keep``, if that is given."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "input").mkdir()
        made: list[Path] = []

        def write() -> None:
            path = structures.build(case, folder / "input", companions.folder)
            # The child tells the path to itself and, by a file, to the children after it.
            (folder / ".path").write_bytes(bytes(path))
            (folder / ".notes").write_text("; ".join(structures.NOTES), errors="replace")

        def path_of() -> Path:
            import os

            if not made:
                made.append(Path(os.fsdecode((folder / ".path").read_bytes())))
            return made[0]

        prepared = sandbox.watch([("prepare", write)], folder, seconds=60)
        if prepared[0].status != "ok":
            raise CannotBuildError(f"{case}: {prepared[0].message}")
        todo = verbs.tasks(case.kind, path_of(), companions, case.seed, only)
        if most is not None and len(todo) > most:
            todo = random.Random(case.form).sample(todo, most)
        outcomes = sandbox.watch(todo, folder)
        if keep is not None:
            shutil.rmtree(keep, ignore_errors=True)
            shutil.copytree(folder / "input", keep)
            shutil.copy(folder / ".notes", keep.with_name(keep.name + ".notes"))
        return outcomes


def shrink(case: Case, finding: Finding, companions: Companions, seconds: float = SHRINKING) -> Case:
    """The case with as few changes as still give the finding."""
    end = time.monotonic() + seconds
    smaller = True
    while smaller and time.monotonic() < end:
        smaller = False
        for candidate in case.smaller():
            if time.monotonic() < end and _still(candidate, finding, companions):
                case, smaller = candidate, True
                break
    return case


def _still(case: Case, finding: Finding, companions: Companions) -> bool:
    try:
        outcomes = attempt(case, companions, [finding.verb])
    except CannotBuildError:
        return False
    return any(outcome.finding and outcome.finding.key == finding.key for outcome in outcomes)


def shorten(folder: Path, case: Case, finding: Finding, companions: Companions, seconds: float = SHRINKING) -> None:
    """Leave out lines of a kept file of text as long as the finding stays."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    if len(paths) != 1 or paths[0].suffix not in (".csv", ".tsv", ".md", ".jsonl", ".txt", ".ndjson"):
        return
    path, end = paths[0], time.monotonic() + seconds
    lines = path.read_bytes().splitlines(keepends=True)
    size = len(lines) // 2
    while size and time.monotonic() < end:
        at = 1  # the header stays
        while at < len(lines) and time.monotonic() < end:
            fewer = lines[:at] + lines[at + size :]
            path.write_bytes(b"".join(fewer))
            if _gives(path, case, finding, companions):
                lines = fewer
            else:
                at += size
        size //= 2
    path.write_bytes(b"".join(lines))


def _gives(path: Path, case: Case, finding: Finding, companions: Companions) -> bool:
    with tempfile.TemporaryDirectory() as temporary:
        todo = verbs.tasks(case.kind, path, companions, case.seed, [finding.verb])
        outcomes = sandbox.watch(todo, Path(temporary))
    return any(outcome.finding and outcome.finding.key == finding.key for outcome in outcomes)


@dataclass
class Found:
    """A finding with where it was seen first, and how often."""

    finding: Finding
    case: Case
    count: int = 1
    kept: Path | None = None


@dataclass
class Campaign:
    """All findings of a run, each once for every verb, exception and innermost line of breadth."""

    companions: Companions
    keep: Path | None = None
    found: dict[tuple[str, str, str], Found] = field(default_factory=dict)
    statuses: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    slowest: list[tuple[float, int, str, str]] = field(default_factory=list)
    unbuilt: list[str] = field(default_factory=list)

    def add(self, case: Case, outcomes: Sequence[Outcome]) -> Iterator[Found]:
        """Count outcomes; new findings are given back, and kept."""
        for outcome in outcomes:
            self.statuses[case.kind, outcome.verb, outcome.status] += 1
            if outcome.seconds > 5 or outcome.grown > sandbox.MEMORY // 4:
                self.slowest.append((outcome.seconds, outcome.grown, outcome.verb, f"{case.kind}:{case.seed}"))
            finding = outcome.finding
            if finding is None:
                continue
            if finding.key in self.found:
                self.found[finding.key].count += 1
                continue
            # Every verb that reads meets the same fault of a reader: one input is kept for all of them.
            alike = [found for found in self.found.values() if found.finding.key[1:] == finding.key[1:]]
            new = self.found[finding.key] = Found(finding, case)
            if alike:
                new.kept = alike[0].kept
            elif self.keep is not None:
                self._keep(new)
            yield new

    def _keep(self, new: Found) -> None:
        """Save a small input that gives the finding, with a line that says what it is."""
        finding, case = new.finding, new.case
        if finding.what != "hang":
            case = shrink(case, finding, self.companions)
        name = re.sub(r"[^\w.]+", "-", f"{finding.verb}-{finding.what}-{finding.frame}")[:120]
        assert self.keep is not None
        target = self.keep / name
        attempt(case, self.companions, ["nothing"], keep=target)
        if finding.what != "hang":
            shorten(target, case, finding, self.companions)
        words = verbs.words_of(case.kind, finding.verb, case.seed)
        line = f"breadth {words}: {finding.what} at {finding.frame}: {finding.message}"
        notes = target.with_name(target.name + ".notes")
        text = f"{line}\n{case.base}: {notes.read_text()}\n{case}\n\n{finding.trace}\n"
        notes.unlink()
        (self.keep / f"{name}.txt").write_text(text, errors="replace")
        new.kept, new.case = target, case


def run(
    seed: int = 0,
    *,
    minutes: float = 1.0,
    count: int | None = None,
    only: str = "",
    keep: Path | None = None,
    logs: Path | None = None,
    start: int = 0,
    most: int | None = None,
) -> Campaign:
    """Try inputs until the time is over, or ``count`` of them, each with all verbs or with ``most`` that are drawn."""
    sandbox.load()
    kinds, chosen = _restricted(only)
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as temporary:
        campaign = Campaign(prepare(Path(temporary, "companions")), keep)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
        number = start
        while time.monotonic() < end and (count is None or number < start + count):
            kind, name = names_of(number, seed, kinds)
            number += 1
            case = structures.make_case(kind, name, logs)
            try:
                outcomes = attempt(case, campaign.companions, chosen, most=most)
            except CannotBuildError as error:
                campaign.unbuilt.append(str(error))
                continue
            for new in campaign.add(case, outcomes):
                finding = new.finding
                print(f"{kind}:{name} {finding.verb}: {finding.what} at {finding.frame}: {finding.message}", flush=True)
            if number % 50 == 0:
                print(f"{number - start:,} inputs, {len(campaign.found)} findings", flush=True)
    print(
        f"{number - start:,} inputs of seed {seed}: {len(campaign.found)} findings, {len(campaign.unbuilt)} not built"
    )
    return campaign


def _restricted(only: str) -> tuple[list[str], list[str]]:
    """Kinds and verbs from ``kind``, ``verb`` or ``kind/verb``."""
    if not only:
        return list(verbs.KINDS), []
    kind, _, verb = only.partition("/")
    if kind in verbs.KINDS:
        return [kind], [verb] if verb else []
    if only in verbs.verb_names():
        return [kind for kind in verbs.KINDS if only in verbs.COMMANDS[kind]] or list(verbs.KINDS), [only]
    raise SystemExit(f"--only {only}: choose a kind ({', '.join(verbs.KINDS)}) or a verb ({verbs.verb_names()})")


def repeat(named: str, logs: Path | None, only: Sequence[str] = ()) -> None:
    """Try one case again, and print what every verb made of it."""
    sandbox.load()
    kind, _, name = named.partition(":")
    case = structures.make_case(kind, name, logs)
    with tempfile.TemporaryDirectory() as temporary:
        companions = prepare(Path(temporary, "companions"))
        for outcome in attempt(case, companions, only, keep=Path("repeated")):
            print(f"{outcome.verb}: {outcome.status} ({outcome.seconds:.2f} s) {outcome.message[:300]}")
            if outcome.finding:
                print(f"{outcome.finding.what} at {outcome.finding.frame}\n{outcome.finding.trace}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--count", type=int, help="stop after so many inputs")
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--verbs", type=int, help="try so many verbs of each input, drawn by its seed; all by default")
    parser.add_argument("--only", default="", help="a kind, a verb, or kind/verb")
    parser.add_argument("--keep", type=Path, help="directory for an input of every finding")
    parser.add_argument("--logs", type=Path, help="directory of logs of other tools")
    parser.add_argument("--case", help="repeat one input: KIND:SEED.NUMBER; its files are written to ./repeated")
    parser.add_argument("--json", type=Path, help="file for findings and counts")
    given = parser.parse_args(arguments)
    if given.case:
        repeat(given.case, given.logs, _restricted(given.only)[1])
        return 0
    campaign = run(
        given.seed, minutes=given.minutes, count=given.count, only=given.only, keep=given.keep, logs=given.logs,
        start=given.start, most=given.verbs,
    )  # fmt: skip
    ordered = sorted(campaign.found.values(), key=lambda found: -found.count)
    together: dict[tuple[str, str], list[Found]] = {}
    for found in ordered:
        together.setdefault(found.finding.key[1:], []).append(found)
    for group in together.values():
        finding, names = group[0].finding, ", ".join(found.finding.verb for found in group)
        total = sum(found.count for found in group)
        print(f"{total:4} x {finding.what} at {finding.frame}: {finding.message[:150]} ({names})")
    if given.json:
        rows = [
            {**found.finding.__dict__, "count": found.count, "case": f"{found.case.kind}:{found.case.seed}",
             "base": found.case.base, "kept": str(found.kept or "")}
            for found in ordered
        ]  # fmt: skip
        counts = [[*key, n] for key, n in sorted(campaign.statuses.items())]
        slowest = sorted(campaign.slowest, reverse=True)[:40]
        given.json.write_text(
            json.dumps({"findings": rows, "counts": counts, "slowest": slowest, "unbuilt": campaign.unbuilt}, indent=1)
        )
    return 1 if ordered else 0


if __name__ == "__main__":
    sys.exit(main())
