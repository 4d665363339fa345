"""Mutations of real logs: each must give a study or one clear message.

``python tests/importers/fuzzing.py LOGS 20000`` tries so many, in processes whose memory and time are limited, and
lists what gave anything else.
"""

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
from pathlib import Path

import numpy as np

MEMORY = 2 << 30
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
        return chance.choice(VALUES)
    parent, key = parents[-1]
    if chance.random() < 0.3:
        del parent[key]
    else:
        parent[key] = chance.choice(VALUES)
    return document


def change_zip(content, chance):
    """Rewrite an archive with a bomb, a name that points out of it, or a changed member."""
    kind = chance.choice(["bomb", "traversal", "member", "missing", "twice"])
    target = io.BytesIO()
    from breadth.importers.archives import Archive

    with Archive(io.BytesIO(content), "") as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as changed:
        names = [name for name in source.places if not name.endswith("/")]
        chosen = chance.choice(names)
        for name in names:
            data = source.read(name)
            if name == chosen and kind == "missing":
                continue
            if name == chosen and kind == "bomb":
                data = b'[{"id":1,"input":"' + b"0" * chance.choice([10**6, 6 * 10**8]) + b'"}]'
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


def mutate(content, chance):
    """One mutation of a file's content."""
    if not content:
        return b"{"
    if content[:2] == b"PK" and chance.random() < 0.6:
        return change_zip(content, chance)
    binary = content[:4] in (b"PAR1", b"SQLi") or content[:2] == b"PK"
    return chance.choice([flip, truncate, repeat] + [change_json, change_json, change_json, nest] * (not binary))(
        content, chance
    )


def cases(folder):
    """Files to change, each with the directory that is read: companions lie beside logs."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix not in (".md", ".schema") and path.name != "LICENSE":
            yield path, path.parent


def attack(number, path, directory):
    """What reading gives after a mutation: nothing, or a traceback."""
    import breadth
    from breadth.importers import read_trajectories

    chance = random.Random(number)
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary, "logs")
        beside = [other for other in directory.iterdir() if other.is_file() and other.stat().st_size < 2_000_000]
        copy.mkdir()
        for other in beside if len(beside) < 12 else [path]:
            shutil.copy(other, copy / other.name)
        mark = Path(temporary, "unpickled")
        (copy / path.name).write_bytes(mutate(path.read_bytes(), chance) if chance.random() < 0.98 else pickled(mark))
        signal.alarm(SECONDS)
        try:
            for read in (breadth.read_logs, read_trajectories):
                try:
                    read(copy)
                except breadth.InputError as refused:
                    if not str(refused).strip():
                        return f"{number} {path}: an empty message"
        except BaseException:
            return f"{number} {path}\n{traceback.format_exc(limit=-6)}"
        finally:
            signal.alarm(0)
        return f"{number} {path}: a pickle was read" if mark.exists() else ""


def _attack(case):
    return attack(*case)


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY + (2 << 30), resource.RLIM_INFINITY))  # libraries reserve addresses
    signal.signal(signal.SIGALRM, signal.default_int_handler)


def main(folder, count):
    known = list(cases(Path(folder)))
    work = [(number, *known[number % len(known)]) for number in range(count)]
    done = faults = 0
    with multiprocessing.get_context("spawn").Pool(2, initializer=limit, maxtasksperchild=500) as pool:
        for done, fault in enumerate(pool.imap_unordered(_attack, work, chunksize=20), 1):
            if fault:
                faults += 1
                print(fault, flush=True)
            if done % 1000 == 0:
                print(f"{done:,} mutations, {faults} faults", flush=True)
    print(f"{done} mutations of {len(known)} files: {faults} faults")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
