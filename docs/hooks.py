"""What the documentation site makes while it is built, so that it cannot go stale.

The reference pages come from the code (commands, public names, study-file keys), the pages on the project from files
outside ``docs/``, and formulas become MathML, which browsers show without a script. Links are written so that they
work in the repository; here they are pointed to the pages of the site.
"""

from __future__ import annotations

import html
import os
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latex2mathml.converter import convert
from typer.cli import get_docs_for_click

import breadth
from breadth.cli import load_commands
from breadth.correlation import Flag
from breadth.difficulty import MeasureFlag
from breadth.fluctuation import StabilityFlag
from breadth.irt import ItemFlag, SubjectFlag
from breadth.level_transfer import TransferFlag
from breadth.reporting import GainFlag
from breadth.results import Result
from breadth.study import key_tables

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]

#: Pages of the site whose text is a file outside docs/.
PROJECT = {
    "project/architecture.md": "ARCHITECTURE.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/measurements.md": "benchmarks/LOG.md",
}
#: Codes in columns ``flag``, by the table that has them.
FLAGS = {
    "`pairs` of `breadth correlate`": Flag,
    "`items` of `breadth calibrate`": ItemFlag,
    "`subjects` of `breadth calibrate`": SubjectFlag,
    "`changes` of `breadth scores`": GainFlag,
    "`models` and `runs` of `breadth stability`": StabilityFlag,
    "`cells` of `breadth transfer`": TransferFlag,
    "measures of `breadth difficulty versus`": MeasureFlag,
}
LINK = re.compile(r"(?<=\]\()([^)#\s]+)")
SHORT_HELP = re.compile(r"\*\*Commands\*\*:\n\n(?:\* .*\n)+\n")
ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):(?=<code>)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made here."""
    from mkdocs.structure.files import File

    pages = {name: (ROOT / source).read_text() for name, source in PROJECT.items()}
    pages |= {
        "reference/api.md": api_page(),
        "reference/commands.md": commands_page(),
        "reference/flags.md": flags_page(),
        "reference/study-file.md": study_file_page(),
        "reference/tables.md": tables_page(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links between files of the repository to pages of the site."""
    name = page.file.src_uri
    source = ROOT / PROJECT.get(name, f"docs/{name}")
    outside = {ROOT / path: made for made, path in PROJECT.items()}

    def replace(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(source.parent / match[1]))
        if ":" in match[1] or not (target in outside or target.is_relative_to(ROOT / "docs")):
            return match[1]
        found = outside.get(target) or target.relative_to(ROOT / "docs").as_posix()
        return os.path.relpath(found, Path(name).parent)

    return LINK.sub(replace, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Turn TeX into MathML, and drop the roles that docstrings put before names (:func:`...`)."""

    def replace(match: re.Match[str]) -> str:
        return convert(html.unescape(match[2]), display="block" if match[1] == "div" else "inline")

    return FORMULA.sub(replace, ROLE.sub("", content))


def commands_page() -> str:
    """Every command with its arguments and options, as ``--help`` shows them."""
    group: Any = load_commands()
    context = group.make_context("breadth", [], resilient_parsing=True)
    text = get_docs_for_click(obj=group, ctx=context, name="breadth", title="Commands")
    rows = [
        f"| {command.rich_help_panel} | [`breadth {name}`](#breadth-{name}) | {command.help.partition(chr(10))[0]} |"
        for name, command in group.commands.items()
    ]
    table = "\n".join(["| to | command | what it does |", "|---|---|---|", *rows])
    return SHORT_HELP.sub(lambda _: f"{table}\n\n", text, count=1)


def study_file_page() -> str:
    """Every key of a study file."""
    return f"# Study-file keys\n\n[How to write a study file](../how-to/study-file.md).\n\n{key_tables()}"


def flags_page() -> str:
    """The codes of every flag."""
    text = "# Flags\n\nThe column `flag` holds a code for programs; `note` holds a sentence for people.\n"
    for table, flags in FLAGS.items():
        text += f"\n## {table}\n\n{flags.__doc__}\n\n" + "\n".join(f"- `{flag}`" for flag in flags) + "\n"
    return text


def tables_page() -> str:
    """The columns of every table of every result, as the result declares them."""
    text = (
        "# Columns of tables\n\n"
        "`result.table(NAME)` is the table in Python, `--out FILE` writes it. *Header* is what the terminal and the "
        "page show above the column. The columns `flag` and `note` are explained in [Flags](flags.md).\n"
    )
    for result in result_classes():
        text += f"\n## {result.__name__}\n\n{first_sentence(result)}\n"
        for name, columns in result.COLUMNS.items():
            text += f"\n### {result.__name__}: {name}\n\n| column | header | meaning |\n|---|---|---|\n"
            for row in columns.documented().iter_rows(named=True):
                # A bar would end the cell.
                cells = [str(cell).replace("|", "\\|") for cell in (row["header"], row["meaning"])]
                text += f"| `{row['column']}` | {cells[0]} | {cells[1]} |\n"
    return text


def result_classes() -> list[type[Result]]:
    """Every kind of result that declares columns, by name."""
    for name in breadth.__all__:
        getattr(breadth, name)  # public names are loaded when first used, and their results with them
    found: dict[str, type[Result]] = {}
    waiting = [Result]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            # Results that a reader adds in a script are not part of the documentation.
            if kind.__module__.startswith("breadth.") and kind.COLUMNS:
                found[kind.__name__] = kind
    return [found[name] for name in sorted(found)]


def first_sentence(result: type[Result]) -> str:
    """What a result is, without the roles that docstrings put before names."""
    paragraph = " ".join((result.__doc__ or "").partition("\n\n")[0].split())
    return re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", paragraph)


def api_page() -> str:
    """Every public name of ``breadth`` and ``breadth.datasets``, for mkdocstrings to fill in."""
    text = "# Python\n\nEverything on this page is available after `import breadth`.\n"
    for package, names in public_names().items():
        text += f"\n## {package}\n\n" + "".join(f"::: {name}\n\n" for name in names)
    return text


def public_names() -> dict[str, list[str]]:
    """Full names of public functions and classes, by the package that holds them."""
    names: dict[str, list[str]] = {}
    for module in (breadth, import_module("breadth.datasets")):
        for name in module.__all__:
            home = getattr(getattr(module, name), "__module__", "")
            if home.startswith("breadth."):
                # A module of the same name would hide the function from mkdocstrings, which runs no code.
                path = f"{home}.{name}" if home.endswith(f".{name}") else f"{module.__name__}.{name}"
                names.setdefault(".".join(home.split(".")[:2]), []).append(path)
    return names
