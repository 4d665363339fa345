"""What is published: the version is one, and wheel and sdist hold everything that they need."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

import breadth

ROOT = Path(__file__).resolve().parents[1]

#: Files that are no Python code, by folder: without them commands fail only where breadth is installed from a wheel.
DATA = ("reporting/assets", "reporting/templates", "results/templates", "study/files")
SINGLE = ("py.typed", "sources/vocabulary.toml")


def expected_data() -> set[str]:
    """Paths of the data files, below ``breadth/``."""
    paths = {*SINGLE}
    for folder in DATA:
        for path in (ROOT / "src" / "breadth" / folder).iterdir():
            paths.add(f"{folder}/{path.name}")
    return paths


def test_there_is_one_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == breadth.__version__
    # Below the heading for what is to come stands the release that this is.
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1] == f"{breadth.__version__} ({citation['date-released']})"


def test_no_kind_of_data_file_is_forgotten_here():
    """A new folder of templates or a new file of words has to be added above, and so to the tests of the packages."""
    package = ROOT / "src" / "breadth"
    present = set()
    for path in package.rglob("*"):
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            present.add(path.relative_to(package).as_posix())
    assert present == expected_data()


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """A directory with wheel and sdist, built without a network."""
    pytest.importorskip("hatchling", reason="needs hatchling, which the extra dev installs")
    into = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return into


@pytest.fixture(scope="session")
def installed(built, tmp_path_factory) -> Path:
    """The commands of an environment in which the wheel is installed, and this one's libraries can be imported."""
    home = tmp_path_factory.mktemp("installed") / "venv"
    # Without pip it is there at once: the pip of this environment installs into it.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    [wheel] = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(home), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", str(wheel)], check=True)
    [packages] = home.glob("lib/python*/site-packages")
    # A .pth file inside a directory that a .pth file names is not read: this environment's editable breadth stays out.
    libraries = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "libraries.pth").write_text("\n".join(libraries) + "\n")
    return home / "bin"


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the installed breadth, which must not see the source."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
def test_the_wheel_holds_the_package_with_its_data_and_nothing_else(built):
    [wheel] = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"breadth/{path}" for path in expected_data()} <= set(names)
    assert {name.partition("/")[0] for name in names} == {"breadth", f"breadth-{breadth.__version__}.dist-info"}
    assert [name for name in names if "__pycache__" in name] == []


@pytest.mark.slow
def test_the_sdist_holds_tests_and_documentation(built):
    [sdist] = built.glob("*.tar.gz")
    top = f"breadth-{breadth.__version__}/"
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(top) for name in archive.getnames()}
    assert {f"src/breadth/{path}" for path in expected_data()} <= names
    for path in ("tests/test_packaging.py", "tests/conftest.py", "docs/quickstart.md", "docs/hooks.py", "mkdocs.yml"):
        assert path in names
    for path in ("README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "Makefile", "constraints.txt"):
        assert path in names


@pytest.mark.slow
def test_an_installed_breadth_is_the_one_in_the_wheel(installed, tmp_path):
    printed = run([str(installed / "breadth"), "--version"], tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert breadth.__version__ in printed.stdout
    where = run([str(installed / "python"), "-c", "import breadth; print(breadth.__file__)"], tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(installed.parent)


@pytest.mark.slow
def test_an_installed_breadth_writes_a_report(installed, tmp_path):
    rows = ["run,step,in_domain,negation,science"]
    for run_name in ("a", "b"):
        for step in range(12):
            rows.append(f"{run_name},{step},{0.5 + step / 40},{0.5 + (step % 5) / 30},{0.5 + (step % 4) / 20}")
    (tmp_path / "scores.csv").write_text("\n".join([*rows, ""]))
    command = [str(installed / "breadth"), "report", "scores.csv", "--out", "report.html"]
    outcome = run(command, tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "negation" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_an_installed_breadth_knows_its_studies(installed, tmp_path):
    outcome = run([str(installed / "breadth"), "show", "small"], tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "smollm2-135m" in outcome.stdout
