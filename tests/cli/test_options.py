"""Help: fast, grouped by what a person wants, with an example, choices and defaults for every verb."""

import inspect
import re
import subprocess
import sys

import pytest

import breadth as package

PANELS = {
    "Measure": ["demo", "init", "run", "evaluate", "import", "import-scores"],
    "Analyse": ["compare", "correlate", "stability", "scores", "calibrate", "ability", "transfer", "difficulty"],
    "Decide": ["advise"],
    "Show": ["report", "view"],
    "Manage": ["show", "export", "get", "ls"],
}


def plain(text):
    """A help text without box characters, in one line."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def test_verbs_are_grouped(breadth):
    out = breadth("--help").stdout
    assert "Example" in out
    panel, verbs = None, {}
    for line in out.splitlines():
        title = re.match(r"╭─ (\w+) ─", line)
        panel = title[1] if title else panel
        entry = re.match(r"│ ([a-z][a-z-]*) {2,}\w", line)
        if entry:
            verbs.setdefault(panel, []).append(entry[1])
    assert verbs == PANELS
    assert list(verbs) == list(PANELS), "in this order"
    assert "Exit codes: 0 answered, 1 a run failed, 2 bad input, 3 a threshold" in plain(out)
    assert breadth("--version").stdout.startswith("breadth ")


def test_help_loads_nothing_heavy():
    code = (
        "import sys; from breadth.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: print('heavy:', *sorted({'torch', 'numpy', 'polars', 'altair', 'scipy'} & {*sys.modules}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "heavy:"


@pytest.mark.parametrize(
    ("verb", "option", "choices"),
    [
        ("correlate", "adjust", "gam|linear|none"),
        ("correlate", "method", "pearson|spearman"),
        ("correlate", "ci", "auto|iid|ar|block"),
        ("calibrate", "model", "1pl|2pl|3pl"),
        ("calibrate", "copies", "keep|weigh|drop"),
        ("ability", "method", "eap|wle"),
        ("difficulty sample", "order", "shuffled, rising, falling, spiral"),
        ("transfer", "by", "train_level|strategy"),
        ("report", "format", "html|md|json"),
        ("difficulty profile", "levels", "N"),
    ],
)
def test_choices_and_defaults_are_those_of_the_function(breadth, monkeypatch, verb, option, choices):
    monkeypatch.setenv("COLUMNS", "160")
    shown = plain(breadth(*verb.split(), "--help").stdout).partition(" Options")[2]
    shown = shown[shown.index(f" --{option} ") + 1 :].partition(" --")[0]
    assert choices in shown
    default = inspect.signature(getattr(package, verb.split()[-1])).parameters[option].default
    assert (f"[default: {default}]" in shown) == (default is not None)
