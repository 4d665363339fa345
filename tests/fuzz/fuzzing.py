"""Mutations of files that breadth reads: each must give a result or one clear message, in little time and memory.

``python tests/fuzz/fuzzing.py 20000`` tries so many over every reader, in processes whose memory and time are limited,
and lists what gave anything else; further arguments are directories of real files to change besides ``corpus/``.
The number of a mutation is its seed: ``--first 5000000`` tries others than a run that began at 0.
"""

import argparse
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import zipfile
from copy import deepcopy
from pathlib import Path

import numpy as np

from breadth.errors import InputError

CORPUS = Path(__file__).with_name("corpus")

#: Most memory that reading a file may take above that of the libraries, and most seconds of the processor.
MEMORY = 1 << 30
SECONDS = 20
VALUES = [
    None, True, -1, 0, 1.5, 1e308, 10**400, float("nan"), float("inf"), "", "x", "\x00", "NaN", [], {}, [[]], {"a": 1},
    ["a"], "9" * 5000, -(2**63), 2**64, "\ud800",
]  # fmt: skip


def flip(content, chance):
    """Change up to eight bytes."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def truncate(content, chance):
    return content[: chance.randrange(len(content))]


def repeat(content, chance):
    """Insert a piece of the file somewhere in it."""
    start = chance.randrange(len(content))
    piece = content[start : start + chance.randint(1, 2000)]
    at = chance.randrange(len(content))
    return content[:at] + piece + content[at:]


def nest(content, chance):
    """Replace a value by deep nesting."""
    depth = chance.choice([100, 1500, 100_000])
    at = content.find(b":", chance.randrange(len(content)))
    return content[: at + 1] + chance.choice([b"[", b'{"a":']) * depth + content[at + 1 :]


def change_json(content, chance):
    """Change, remove or add values somewhere in a JSON document or in one of its lines."""
    lines = content.splitlines(keepends=True)
    single = content.lstrip()[:1] == b"[" or len(lines) < 2 or not lines[0].rstrip().endswith(b"}")
    which = chance.randrange(len(lines))
    text = content if single else lines[which]
    try:
        document = json.loads(text)
    except ValueError:
        return flip(content, chance)
    for _ in range(chance.randint(1, 3)):
        document = _change(document, chance)
    changed = json.dumps(document, indent=2 if single else None).encode() + b"\n"
    if single:
        return changed
    lines[which] = changed
    return b"".join(lines)


def _change(document, chance):
    place, parents = document, []
    while isinstance(place, dict | list) and place and (not parents or chance.random() < 0.8):
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        parents.append((place, key))
        place = place[key]
    if not parents:
        return deepcopy(chance.choice(VALUES))
    parent, key = parents[-1]
    if chance.random() < 0.3:
        del parent[key]
    else:
        parent[key] = deepcopy(chance.choice(VALUES))
    return document


def every_place(document, place=()):
    """The paths of all values inside a JSON value."""
    if place:
        yield place
    inner = {}
    if isinstance(document, dict | list):
        inner = document if isinstance(document, dict) else dict(enumerate(document))
    for key, value in inner.items():
        yield from every_place(value, (*place, key))


def replace_at(document, place, value):
    """A copy of a JSON value in which the value at a place is another, or removed if that is ``...``."""
    document = deepcopy(document)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    if value is ...:
        del parent[place[-1]]
    else:
        parent[place[-1]] = value
    return document


def change_zip(content, chance):
    """Rewrite an archive with a bomb, a name that points out of it, or a changed member."""
    kind = chance.choice(["bomb", "traversal", "member", "missing", "twice"])
    target = io.BytesIO()
    from breadth.sources.zip_archives import Archive

    with Archive(io.BytesIO(content), "") as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as changed:
        names = [name for name in source.members if not name.endswith("/")]
        chosen = chance.choice(names)
        for name in names:
            data = source.read(name)
            if name == chosen and kind == "missing":
                continue
            if name == chosen and kind == "bomb":
                with changed.open(name, "w") as member:
                    member.write(b'[{"id":1,"input":"')
                    for _ in range(chance.choice([1, 600])):
                        member.write(b"0" * 10**6)
                    member.write(b'"}]')
                continue
            if name == chosen and kind == "member" and data:
                data = chance.choice([flip, truncate, change_json, nest])(data, chance)
            changed.writestr("../../" + name if name == chosen and kind == "traversal" else name, data)
            if name == chosen and kind == "twice":
                changed.writestr(name + "2", data)
    return target.getvalue()


class Touch:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def pickled(path):
    """An NPZ matrix that runs code if it is unpickled."""
    content = io.BytesIO()
    np.savez(content, R=np.array([[Touch(path)]], dtype=object), models=np.array(["m"]))
    return content.getvalue()


def change_text(content, chance):
    """Replace, repeat or remove lines and cells of a table or of a study file."""
    lines = content.decode(errors="replace").splitlines() or [""]
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        cells = lines[at].split(",")
        cells[chance.randrange(len(cells))] = str(chance.choice(VALUES))[:100]
        odd = [",".join(cells), "", lines[at] * 2, chance.choice(lines), lines[at][::-1], chance.choice(ODD)]
        lines[at] = chance.choice(odd)
    return "\n".join(lines).encode(errors="replace")


#: Lines that make YAML or a table mean something else.
ODD = [
    "a: &a [*a, *a]", "name: *x", "models: [~nouser/x, {name: /}]", "recipe: {steps: 1000000000}", "? [a]: b", "<<: 1",
    "evaluate: {on: [plain], every: 1, items: 99999999999}", "train: {set: plain, examples: [1, 1e9], seeds: [-1]}",
    "^x$,^y$,.*", '"' + "x" * 200_000 + '"', ",".join(map(str, range(3000))), "- - - -",
    "!!python/object:os.system x",
    "sets: {mine: {file: /dev/zero}}", "\ufeff=1+1,\x1b[31m", "|---|---|", "nan,inf,-inf,1e400", "é" * 3000,
]  # fmt: skip


def mutate(content, chance):
    """One mutation of a file's content."""
    if not content:
        return b"{"
    if content[:2] == b"PK" and chance.random() < 0.6:
        return change_zip(content, chance)
    binary = content[:4] in (b"PAR1", b"SQLi") or content[:2] == b"PK"
    if binary:
        return chance.choice([flip, truncate, repeat])(content, chance)
    is_json = content.lstrip()[:1] in (b"{", b"[")
    text = [change_json, change_json, change_json, nest] if is_json else [change_text, change_text, change_text]
    return chance.choice([flip, truncate, repeat, *text])(content, chance)


def logs(folder):
    """Logs of other tools, each read with what lies beside it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in (".md", ".schema") and path.name != "LICENSE":
            yield "log", path


def files(folder=CORPUS):
    """Tables, study files and directories of studies, each with the readers that are tried on it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "README.md":
            inside = path.relative_to(folder).parts
            kind = "study" if len(inside) > 1 else "study file" if path.suffix == ".yaml" else "table"
            yield kind, path


def readers(kind, path, copy):
    """What is tried on a changed file, whose copy is ``copy``."""
    import breadth
    from breadth.reporting.progress import Progress
    from breadth.reporting.sources import read_source
    from breadth.sources.checkpoint_scores.importing import read_trajectories
    from breadth.study import read_study_file, show_study

    if kind == "log":
        return [lambda: breadth.read_logs(copy.parent), lambda: read_trajectories(copy.parent)]
    if kind == "study file":
        return [lambda: read_study_file(copy), lambda: show_study(str(copy))]
    if kind == "study":
        return [
            lambda: breadth.open(folder_of(copy)),
            lambda: show_study(str(folder_of(copy))),
            lambda: Progress(folder_of(copy)).state(),
        ]
    return [lambda: breadth.open(copy), lambda: read_source(copy), lambda: breadth.open(copy.parent)]


def folder_of(path):
    """The directory of the study that a file is in."""
    return next(parent for parent in path.parents if (parent / "runs").is_dir())


def copied(kind, path, target):
    """A copy of a file among those it is read with."""
    if kind == "study":
        root = path.parents[len(path.relative_to(CORPUS).parts) - 2]
        shutil.copytree(root, target / root.name)
        return target / path.relative_to(CORPUS)
    target.mkdir()
    beside = [other for other in path.parent.iterdir() if other.is_file() and other.stat().st_size < 2_000_000]
    for other in beside if kind == "log" and len(beside) < 12 else [path]:
        shutil.copy(other, target / other.name)
    return target / path.name


def reseal(path, content):
    """Give changed files the name or the checksum that makes them sound again: damage alone is noticed anyway."""
    from breadth.records.files import checksum, sealed

    if path.suffix == ".json" and content.lstrip()[:1] == b"{":
        try:
            values = json.loads(content)
            values.pop("checksum", None)
            content = sealed(values)
        except (ValueError, RecursionError, AttributeError, UnicodeError):
            pass
    elif path.name == "study.yaml":
        body = content.rpartition(b"# checksum: ")[0] or content
        content = body + b"# checksum: " + checksum(body).encode() + b"\n"
    elif path.suffix == ".parquet" and path.name.count(".") > 1:
        first = path.name.rsplit(".", 2)[0]
        path.unlink()
        path = path.with_name(f"{first}.{checksum(content)}.parquet")
    path.write_bytes(content)
    return path


def attack(number, kind, path):
    """What reading gives after a mutation: nothing, or a traceback."""
    import breadth

    chance = random.Random(number)
    with tempfile.TemporaryDirectory() as temporary:
        copy = copied(kind, path, Path(temporary, "files"))
        mark = Path(temporary, "unpickled")
        try:
            content = mutate(path.read_bytes(), chance) if chance.random() < 0.98 else pickled(mark)
        except InputError:  # an archive that cannot be taken apart
            content = flip(path.read_bytes(), chance)
        copy = reseal(copy, content) if kind == "study" and chance.random() < 0.8 else write(copy, content)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of the processor: other processes may use it, too
        try:
            for read in readers(kind, path, copy):
                try:
                    read()
                except breadth.InputError as refused:
                    if not str(refused).strip():
                        return f"{number} {kind} {path}: an empty message"
        except BaseException:
            return f"{number} {kind} {path}\n{traceback.format_exc(limit=-6)}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        return f"{number} {path}: a pickle was read" if mark.exists() else ""


def write(path, content):
    path.write_bytes(content)
    return path


def _attack(case):
    return attack(*case)


def limit():
    """Limit this process; libraries reserve addresses that they do not use."""
    import breadth.reporting  # noqa: F401

    reserved = 4 << 30
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY + reserved, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, signal.default_int_handler)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, help="how many mutations to try")
    parser.add_argument("folders", nargs="*", type=Path, help="directories of real files to change, too")
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation")
    given = parser.parse_args(arguments)
    known = [*files(), *(case for folder in given.folders for case in logs(folder))]
    numbers = range(given.first, given.first + given.count)
    work = [(number, *known[number % len(known)]) for number in numbers]
    done = faults = peak = 0
    with multiprocessing.get_context("spawn").Pool(
        int(os.environ.get("FUZZERS", "2")), limit, maxtasksperchild=500
    ) as pool:
        for done, (fault, used) in enumerate(pool.imap_unordered(_measured, work, chunksize=20), 1):
            peak = max(peak, used)
            if fault:
                faults += 1
                print(fault, flush=True)
            if done % 1000 == 0:
                print(f"{done:,} mutations, {faults} faults, at most {peak >> 10:,} MB", flush=True)
    print(f"{done:,} mutations of {len(known)} files: {faults} faults, at most {peak >> 10:,} MB")
    return bool(faults)


def _measured(case):
    return _attack(case), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main())
