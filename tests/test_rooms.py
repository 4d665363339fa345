"""The rooms of the house: who may import whom, and what stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "breadth"

#: From the top of the house to the bottom; a room imports only from those below it.
ROOMS = [
    *("cli", "verbs", "report", "execute", "study", "difficulty", "irt", "stats"),
    *("lm", "datasets", "records", "threads", "errors"),
]


def imported_rooms(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("breadth.")}


@pytest.mark.parametrize("path", sorted(SOURCE.glob("*/**/*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    room = path.relative_to(SOURCE).parts[0]
    above = ROOMS[: ROOMS.index(room)]
    assert not imported_rooms(path) & set(above)


def test_every_room_is_listed():
    assert {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"} <= set(ROOMS)


def test_modules_stay_readable():
    long = [str(path) for path in SOURCE.rglob("*.py") if len(path.read_text().splitlines()) > 400]
    assert long == []


def test_help_loads_nothing_heavy():
    code = "import sys, breadth.cli; print(*sorted({'torch', 'numpy', 'polars', 'altair', 'scipy'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""


def test_python_surface_is_lazy_and_complete():
    import breadth

    for name in breadth.__all__:
        assert getattr(breadth, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = breadth.nothing_like_it
    assert set(breadth.__all__) <= set(dir(breadth))
