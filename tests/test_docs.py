"""Commands and Python in the docs are run, and what they print is what the docs show.

To refresh the pages after a change: ``BREADTH_UPDATE_DOCS=1 make test``.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
REAL = ("trajectories/berts_of_a_feather.csv", "responses/gsm8k_leaderboard.npz", "qa/gsm8k.parquet")
#: A console block; or a Python block, with what it prints in a text block right behind it if the page shows that.
BLOCK = re.compile(
    r"```console\n(?P<console>.*?)```|```python\n(?P<python>.*?)```(?:\n\n```text\n(?P<printed>.*?)```)?", re.DOTALL
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)


def run(command: str, folder: Path) -> str:
    """Run one line in ``folder`` with the breadth of this environment, as a terminal of 100 columns would show it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    out = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": path, "COLUMNS": "100"},
    )  # fmt: skip
    lines = (out.stderr + out.stdout).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines if not line.startswith("wrote "))


def rerun(block: str, folder: Path) -> str:
    """The block with every command run again; a line of three dots stands for what the page leaves out."""
    parts = COMMAND.split(block)
    fresh = parts[0]
    for command, shown in zip(parts[1::2], parts[2::2], strict=True):
        printed = run(command, folder)
        if "...\n" in shown:
            head, tail = (part.count("\n") for part in shown.split("...\n"))
            lines = printed.splitlines(keepends=True)
            printed = "".join([*lines[:head], "...\n", *lines[len(lines) - tail :]])
        fresh += f"$ {command}\n{printed}"
    return fresh


def run_python(code: str, folder: Path) -> str:
    """Run a block as a script in ``folder``; it must not fail."""
    out = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert out.returncode == 0, f"{code}\n{out.stderr}"
    return out.stdout


def renewed(match: re.Match[str], folder: Path) -> str:
    """A block of a page as it reads after running it."""
    whole, console, code, printed = match.group(0, "console", "python", "printed")
    if console is not None:
        return f"```console\n{rerun(console, folder)}```"
    fresh = run_python(code, folder)
    return whole if printed is None else f"```python\n{code}```\n\n```text\n{fresh}```"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(page, tmp_path, request):
    text = page.read_text()
    if not BLOCK.search(text):
        assert "$ breadth" not in text, "a command outside a console block is never run"
        return
    for name in REAL:
        if Path(name).name in text:
            shutil.copy(request.getfixturevalue("shared_data") / name, tmp_path)
    run("breadth demo --simulated --into .", tmp_path)
    fresh = BLOCK.sub(lambda match: renewed(match, tmp_path), text)
    if os.environ.get("BREADTH_UPDATE_DOCS"):
        page.write_text(fresh)
    assert fresh == text


def test_links_lead_somewhere():
    broken = []
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            missing = not target.startswith("http") and not (page.parent / target).exists()
            broken += [f"{page.name}: {target}"] if missing else []
    assert broken == []
