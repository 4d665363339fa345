"""What is said of small inputs: a command or an expression is typed where some files are, and its words are kept.

Files are given by name: text, bytes, or a function that writes at the path.
"""

import contextlib
import io
import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

import breadth
from breadth.cli import main
from breadth.sources.vocabulary_data import load_vocabulary

from .tiny_logs import dump

#: Scores of two runs at two steps on three test sets.
SCORES = "run,step,mnli,hans,rte\nb,1,0.5,0.1,0.5\nb,0,0.6,0.2,\na,1,0.7,0.3,0.3\na,0,0.8,0.4,0.2\n"

#: Answers of two subjects to three items.
ANSWERS = "subject,item,correct\nm1,a,1\nm1,b,0\nm2,a,0\nm2,b,1\nm2,c,1\n"


def hear(typed, files, folder):
    """The exit code and the words on standard error of what is typed in a directory that holds the files."""
    for name, content in files.items():
        write_file(folder / name, content)
    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = type_python(typed[4:]) if typed.startswith(">>> ") else type_command(typed)
    return code, mask(said.getvalue(), folder)


#: What other libraries say in brackets, which depends on their versions.
REASON = re.compile(
    r"(another format|not JSON|not TOML|regular expression|read as CSV|MLflow database) \(.*\)(?=[;\n])"
)


def mask(text, folder):
    """What was said, without what differs from machine to machine."""
    return REASON.sub(r"\1 (<reason>)", text.replace(str(folder), "<work>"))


def type_command(line):
    words, sys.argv = sys.argv, ["breadth", *shlex.split(line)]
    try:
        main()
    except SystemExit as end:
        return end.code or 0
    finally:
        sys.argv = words
    return 0


def type_python(line):
    """Evaluate an expression; a refusal has the exit code that a command would have."""
    try:
        eval(
            line,
            {
                "hear": print_reading,
                "breadth": breadth,
                "np": np,
                "pl": pl,
                "pd": pd,
                "Path": Path,
                "load_vocabulary": load_vocabulary,
            },
        )
    except breadth.InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def print_reading(study):
    """Print what is said of a study when it is opened."""
    print(*study.reading.lines(), *study.warnings, sep="\n", file=sys.stderr)


def write_file(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, pl.DataFrame):
        content.write_csv(path) if path.suffix == ".csv" else content.write_parquet(path)
    else:
        content(path)


def npz(**arrays):
    """The bytes of an NPZ file."""
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def changed(write, name, change):
    """Write logs, and change what one file of JSON holds, in place; ``name`` is a pattern below the directory."""

    def write_changed(folder):
        write(folder)
        path = sorted(folder.glob(name))[0]
        content = json.loads(path.read_text())
        change(content)
        dump(path, content)

    return write_changed


def replaced(write, name, old, new=""):
    """Write logs, and replace the first place of some text in one file."""

    def write_replaced(folder):
        write(folder)
        path = sorted(folder.glob(name))[0]
        text = path.read_text()
        assert old in text, text
        path.write_text(text.replace(old, new, 1))

    return write_replaced


def alone(write, name):
    """Of some logs, only what one pattern names."""

    def write_alone(path):
        logs = path.with_name("all")
        write(logs)
        (found,) = sorted(logs.glob(name))[:1]
        shutil.copy(found, path)
        shutil.rmtree(logs)

    return write_alone


def append(folder, name, text):
    (path,) = sorted(folder.glob(name))
    path.write_text(path.read_text() + text)


def write_matrices(folder):
    """Two test sets with the same subjects in another order, and items of the same name."""
    folder.mkdir()
    (folder / "snli.csv").write_text("model,a,b\nm1,1,0\nm2,0,\n")
    np.savez(folder / "hans.npz", R=np.array([[1, 1, 0], [0, 0, -1]]), models=["m2", "m1"], items=["a", "x", "y"])


def trainer_state(*rows):
    return json.dumps({"global_step": 1, "log_history": list(rows)})
