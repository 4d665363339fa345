"""Everything the docs show is run or checked: commands, Python, study files, names in the text, links, the site.

To refresh what commands and Python print: ``BREADTH_UPDATE_DOCS=1 make test``, then read the difference.
"""

import ast
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import breadth
from breadth.cli import load_commands
from breadth.questions import Question
from breadth.study import key_tables

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TEXTS = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
HISTORY = [ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "LOG.md"]
REAL = ("trajectories/berts_of_a_feather.csv", "responses/gsm8k_leaderboard.npz", "qa/gsm8k.parquet")
DEMO = ("scores.csv", "answers.npz")
#: Files and studies of the reader's own in calls that are named in the text: such calls are checked, not made.
READERS_OWN = {"my-study", "studies", "studies/mnli", "answers.parquet"}
#: Old names and turns of phrase that have been replaced; the change log lists the names.
OLD_WORDS = (
    "regressor", "--inference", "--rank", "facet", r"\bshots\b", "most_tokens", "embedded model", "breadth cross",
    "write_report", "taken out", "goes on where", "foretold", r"\bmend", r"\banew\b", "is no number", r"breadth\.verbs",
    "It depends:", "breadth validate", "difficulty-vs", "import trajectories", "--describe", "--curves", "--profiles",
)  # fmt: skip
#: A console block; a study file, which is written under the name in its first line; or a Python block, with what it
#: prints in a text block right behind it if the page shows that.
BLOCK = re.compile(
    r"```console\n(?P<console>.*?)```"
    r"|```yaml\n# (?P<file>\S+\.yaml)\n(?P<yaml>.*?)```"
    r"|```python\n(?P<python>.*?)```(?:\n\n```text\n(?P<printed>.*?)```)?",
    re.DOTALL,
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n", re.MULTILINE)
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
KEYS = set(re.findall(r"^\| `(\S+?)` \|", key_tables(), re.MULTILINE))


def by_page(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


#: What a shell does with a line beyond splitting it into words: such lines are given to a shell.
SHELL = re.compile(r"[|&;<>$()`*?{}\[\]~]|^[A-Z_]+=")


def environment() -> dict[str, str]:
    """The environment of this process, with its ``breadth`` first and a terminal of 100 columns."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "COLUMNS": "100"}


def run(command: str, folder: Path, forks: Any) -> str:
    """Run one line in ``folder`` with the breadth of this environment, as a terminal of 100 columns would show it."""
    command = command.replace("\\\n", " ")  # a line that goes on is one command; shlex would keep the line break
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", command)
    words = shlex.split(command)
    if words[0] == "breadth" and not SHELL.search(unquoted):
        # A child of a process that has loaded the libraries starts seconds earlier than a new one.
        answer = forks.ask(command=words[1:], environment=environment(), directory=str(folder))
        lines = (answer["said"] + answer["printed"]).splitlines()
    else:
        out = subprocess.run(
            command, shell=True, cwd=folder, capture_output=True, text=True, check=False, env=environment()
        )
        lines = (out.stderr + out.stdout).splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines if not line.startswith("wrote "))


def rerun(block: str, folder: Path, forks: Any) -> str:
    """The block with every command run again; a line of three dots stands for what the page leaves out.

    As many lines as before it, and as many paragraphs as after it, are shown again.
    """
    parts = COMMAND.split(block)
    fresh = parts[0]
    for command, shown in zip(parts[1::2], parts[2::2], strict=True):
        printed = run(command, folder, forks)
        if "...\n" in shown:
            head, tail = shown.split("...\n")
            first = printed.splitlines(keepends=True)[: head.count("\n")]
            last = printed.strip("\n").split("\n\n")[-len(tail.strip("\n").split("\n\n")) :] if tail.strip() else []
            printed = "".join([*first, "...\n", "\n\n".join(last), "\n" if last else ""])
        fresh += f"$ {command}\n{printed}"
    return fresh


def run_python(code: str, folder: Path, forks: Any) -> str:
    """Run a block as a script in ``folder``; it must not fail."""
    answer = forks.ask(code=code, environment=environment(), directory=str(folder))
    assert answer["code"] == 0, f"{code}\n{answer['said']}"
    return str(answer["printed"])


def renewed(match: re.Match[str], folder: Path, forks: Any) -> str:
    """A block of a page as it reads after running it."""
    whole, console, code, printed = match.group(0, "console", "python", "printed")
    if console is not None:
        return f"```console\n{rerun(console, folder, forks)}```"
    if code is None:
        (folder / match["file"]).write_text(match["yaml"])
        return whole
    fresh = run_python(code, folder, forks)
    return whole if printed is None else f"```python\n{code}```\n\n```text\n{fresh}```"


@pytest.fixture(scope="session")
def demo(tmp_path_factory, forks):
    """The files that ``breadth demo`` writes."""
    folder = tmp_path_factory.mktemp("demo")
    run("breadth demo --into .", folder, forks)
    return [folder / name for name in DEMO]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=by_page)
def test_commands_print_what_the_page_shows(page, tmp_path, request, forks):
    text = page.read_text()
    if not BLOCK.search(text):
        assert "$ breadth" not in text, "a command outside a console block is never run"
        return
    files = [request.getfixturevalue("shared_data") / name for name in REAL if Path(name).name in text]
    if "$ breadth demo" not in text and any(name in text for name in DEMO):  # else the page makes them itself
        files += request.getfixturevalue("demo")
    for path in files:
        shutil.copy(path, tmp_path)
    fresh = BLOCK.sub(lambda match: renewed(match, tmp_path, forks), text)
    if os.environ.get("BREADTH_UPDATE_DOCS"):
        page.write_text(fresh)
        return
    assert fresh == text


def inline_code(text: str) -> list[str]:
    """What stands between single backticks, outside blocks."""
    return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCED.sub("", text))


def resolve(node: ast.expr) -> Any:
    """What a dotted name means after ``import breadth`` alone."""
    if isinstance(node, ast.Attribute):
        owner = resolve(node.value)
        assert owner is not breadth or node.attr in breadth.__all__, f"breadth.{node.attr} is not public"
        return getattr(owner, node.attr)
    assert isinstance(node, ast.Name)
    assert node.id == "breadth"
    return breadth


def check_python(text: str) -> None:
    """Names must exist, calls must fit; those that need nothing of the reader's are made."""
    node = ast.parse(text, mode="eval").body
    if not isinstance(node, ast.Call):
        resolve(node)
        return
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    literals = [value.value for value in values if isinstance(value, ast.Constant)]
    if literals == [...]:
        resolve(node.func)
        return
    inspect.signature(resolve(node.func)).bind(*node.args, **{str(key.arg): key.value for key in node.keywords})
    if len(literals) == len(values) and not READERS_OWN.intersection(literals):
        eval(compile(ast.Expression(node), text, "eval"), {"breadth": breadth})


@pytest.mark.parametrize("page", TEXTS, ids=by_page)
def test_python_named_in_the_text_exists(page):
    for code in inline_code(page.read_text()):
        if code.startswith("breadth."):
            check_python(code)
        elif code.startswith(("from breadth", "import breadth")):
            exec(code, {})


def options(command: Any) -> set[str]:
    names = {name for param in command.params for name in getattr(param, "opts", ())}
    return {name for name in names if name.startswith("--")} | {"--help"}


def commands(group: Any) -> Iterator[Any]:
    """A command and all that are below it."""
    yield group
    for command in getattr(group, "commands", {}).values():
        yield from commands(command)


BREADTH = load_commands()
ALL_OPTIONS = set().union(*(options(command) for command in commands(BREADTH)))


def check_command(line: str) -> None:
    """The command must exist, and so must its options."""
    command: Any = BREADTH
    words = shlex.split(line, comments=True)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    assert command is not BREADTH or not words or words[0] in options(command), f"no such command: {line}"
    unknown = {word.partition("=")[0] for word in words if word.startswith("--")} - options(command)
    assert not unknown, f"{line}: no such option: {', '.join(unknown)}"


@pytest.mark.parametrize("page", TEXTS, ids=by_page)
def test_commands_and_options_named_in_the_text_exist(page):
    text = page.read_text()
    shown = [line for _, kind, block in FENCED.findall(text) if kind == "sh" for line in block.splitlines()]
    for code in [*shown, *inline_code(text)]:
        if code.startswith("breadth "):
            check_command(code)
        elif code.startswith("--"):
            assert re.split(r"[ =:|]", code)[0] in ALL_OPTIONS, f"no command has {code}"


def keys(section: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Keys of a study file, as the reference writes them."""
    for key, value in section.items():
        name = "sets.NAME" if prefix == "sets." else f"{prefix}{key}"
        if prefix != "sets.":
            yield name
        if isinstance(value, dict) and any(known.startswith(f"{name}.") for known in KEYS):
            yield from keys(value, f"{name}.")


@pytest.mark.parametrize("page", PAGES, ids=by_page)
def test_study_file_keys_named_in_the_text_exist(page):
    text = page.read_text()
    named = {code for code in inline_code(text) if re.fullmatch(r"(train|recipe|evaluate|sets)\.[\w.]+", code)}
    for _, kind, block in FENCED.findall(text):
        if kind == "yaml":
            named.update(keys(yaml.load(block, Loader=yaml.BaseLoader)))
    assert named <= KEYS


@pytest.mark.parametrize("page", PAGES, ids=by_page)
def test_old_words_are_gone(page):
    assert re.findall("|".join(OLD_WORDS), page.read_text()) == []


def test_links_lead_somewhere():
    broken = []
    for page in [*TEXTS, *HISTORY]:
        for target in re.findall(r"\]\(([^)#\s]+)", FENCED.sub("", page.read_text())):
            path = page.parent / target
            made = path.parent.name == "reference"  # pages that docs/hooks.py makes
            broken += [f"{by_page(page)}: {target}"] if ":" not in target and not (made or path.exists()) else []
    assert broken == []


def test_every_question_leads_to_a_page():
    home = (ROOT / "docs" / "index.md").read_text()
    assert [question for question in Question if f"[{question}](how-to/" not in home] == []


def section_of(page: str, heading: str) -> str:
    """What a page says below a heading, up to the next one."""
    text = (ROOT / page).read_text()
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def assert_tests_exist(text: str) -> None:
    """Tests that are named (``tests/file.py`` or ``tests/file.py::test``) must be there."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert named, f"names no test: {text[:60]}"
    for file, test in named:
        path = ROOT / file
        assert path.is_file(), f"no such file: {file}"
        functions = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
        assert not test or test in functions, f"{file} has no {test}"


def test_every_invariant_names_tests_that_exist():
    invariants = [line for line in section_of("ARCHITECTURE.md", "Invariants").splitlines() if line.startswith("- ")]
    assert len(invariants) >= 10
    for line in invariants:
        assert_tests_exist(line)


def test_every_promise_names_tests_that_exist():
    promises = re.findall(r"^- \*\*(.+?)\.?\*\*", section_of("SECURITY.md", "What breadth promises"), re.MULTILINE)
    rows = dict(
        re.findall(r"^\| (.+?) \| (`tests/.+) \|$", section_of("SECURITY.md", "How it is tested"), re.MULTILINE)
    )
    assert promises
    assert list(rows) == promises
    for tests in rows.values():
        assert_tests_exist(tests)


def test_the_reference_of_tables_has_what_results_declare():
    specification = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    page = hooks.tables_page()
    for result in hooks.result_classes():
        for name, columns in result.COLUMNS.items():
            table = page.partition(f"### {result.__name__}: {name}\n")[2].partition("\n#")[0]
            for column in columns:
                assert f"| `{column.name}" in table
                assert column.title in table
    assert breadth.Ranking in hooks.result_classes()


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_fetches_nothing(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=quiet)
    assert out.returncode == 0, out.stderr
    assert out.stderr == ""
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > len(PAGES)
    for page in pages:
        tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text())
        assert [tag for tag in tags if re.search(r"""(?:src|href)=["']?(?:https?:)?//""", tag)] == []
