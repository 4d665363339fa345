"""The packages: who may import whom, how large modules are, and what stays light."""

import ast
import importlib
import pkgutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "breadth"

#: From top to bottom; a package imports only from those below it.
PACKAGES = [
    *("cli", "reporting", "integrations", "execute", "study", "advice", "comparison", "level_transfer", "difficulty"),
    *("irt", "fluctuation", "correlation", "endpoints", "lm", "datasets", "sources", "results", "records"),
    *("inference", "threads", "boundary", "errors"),
]

#: Packages whose modules others import one by one: those that need torch or load slowly, and the toolkit ``results``.
BY_MODULE = {"lm", "execute", "study", "datasets", "results", "cli"}

#: Modules that others import past their package, because it would load numerical libraries that they do not need.
LIGHT = {"difficulty.strategies", "records.schemas"}


def imported(path: Path) -> set[str]:
    """Modules of breadth that a file imports, as ``package.module`` or ``package``."""
    tree = ast.parse(path.read_text())
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return {name.removeprefix("breadth.") for name in names if name.startswith("breadth.")}


MODULES = sorted(SOURCE.glob("*/**/*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path):
    package = path.relative_to(SOURCE).parts[0]
    above = PACKAGES[: PACKAGES.index(package)]
    assert not {name.split(".")[0] for name in imported(path)} & set(above)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_packages_are_imported_as_a_whole(path):
    package = path.relative_to(SOURCE).parts[0]
    inside = [name for name in imported(path) if "." in name and name.split(".")[0] not in {package, *BY_MODULE}]
    assert [name for name in inside if name not in LIGHT] == []


def test_every_package_is_listed():
    assert {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"} <= set(PACKAGES)


def test_code_is_not_scattered():
    """A module is as long as its subject; many that are short would cut one subject into pieces."""
    sizes = {str(path): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py") if path.stem != "__init__"}
    assert sum(sizes.values()) / len(sizes) > 160


def test_help_loads_nothing_heavy():
    code = "import sys, breadth.cli; print(*sorted({'torch', 'numpy', 'polars', 'altair', 'scipy'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""


def test_importing_breadth_loads_nothing_heavy():
    code = "import sys, breadth; print(*sorted({'torch', 'numpy', 'polars', 'altair', 'scipy'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""


@pytest.mark.parametrize("package", [path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()])
def test_no_public_name_is_hidden_by_a_module(package):
    """A name that is loaded when first used must not be that of a module: importing the module would replace it."""
    public = importlib.import_module(f"breadth.{package}")
    for info in pkgutil.iter_modules(public.__path__):
        importlib.import_module(f"breadth.{package}.{info.name}")
    names = getattr(public, "__all__", [])
    assert [name for name in names if isinstance(getattr(public, name), types.ModuleType)] == []


def test_python_surface_is_lazy_and_complete():
    import breadth

    for name in breadth.__all__:
        assert getattr(breadth, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = breadth.nothing_like_it
    assert set(breadth.__all__) <= set(dir(breadth))


def test_nothing_was_committed_by_accident():
    """A command that is tried at the root of the repository may leave a file there."""
    root = SOURCE.parents[1]
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode or not (root / ".git").exists():
        pytest.skip("needs the repository")
    top = {name.partition("/")[0] for name in listed.stdout.splitlines() if not name.startswith(".")}
    assert top == {
        *("ARCHITECTURE.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md"),
        *("SECURITY.md", "benchmarks", "constraints.txt", "docs", "mkdocs.yml", "pyproject.toml", "src", "tests"),
    }
