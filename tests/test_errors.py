"""Messages: one wording for the command line and for Python, and names that no terminal runs."""

import ast
import re
from pathlib import Path

import polars as pl
import pytest

import breadth
from breadth import errors
from breadth.errors import InputError, in_words_of_the_caller
from breadth.results import Result

SOURCE = Path(breadth.__file__).parent

#: Words of messages that are values of the option before them.
VALUES = {"none", "linear", "spearman", "pearson", "block", "newest", "all", "accuracy", "balanced", "bin", "ray"}


@pytest.fixture
def command_line(monkeypatch):
    monkeypatch.setattr(errors._Speech, "options", True)


def messages():
    """Texts in the source that name an option; what is computed stands as ``{}``."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "cli" in path.parts or path.name == "errors.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
                yield path.name, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not re.search("``|\n", node.value):
                yield path.name, node.value


@pytest.mark.parametrize(
    ("said", "in_python"),
    [
        ("give --item-counts A=635,.. or --cluster none", 'give item_counts= or cluster="none"'),
        ("--margin is 5; choose a share", "margin= is 5; choose a share"),
        ("-k is 3; choose from 10", "k= is 3; choose from 10"),
        ("give --by and --order; choose one", "give by= and order=; choose one"),
        ("add --by model --order step; if not", 'add by="model" order="step"; if not'),
        ("--cluster family has 3 values", 'cluster="family" has 3 values'),
        ("--item-counts mnli=6692 overrides this", 'item_counts={"mnli": 6692} overrides this'),
        ("--subject base=a/b: no log", 'subject={"base": "a/b"}: no log'),
        ("--into /a/b c: is a file", 'into="/a/b" c: is a file'),
        ("choose with --testsets 'a_*'", 'choose with testsets="a_*"'),
        ("--robust and --method spearman both", 'robust=True and method="spearman" both'),
        ("leave out --seeds", "leave out seeds=True"),
        ("with --into DIR (or try --dry-run)", "with into= (or try dry_run=True)"),
        ("--with FILE is needed", "calibration= is needed"),
        ("--no-texts leaves", "texts=False leaves"),
        ("rank all with --all", "rank all with breadth.rank"),
        ("--port 70000: a port is", "port=70000: a port is"),
        ("(see --control)", "(see control=)"),
        ("--data must name a directory", "data= must name a directory"),
        ("--from smal: is not a study", 'source="smal": is not a study'),
        ("`breadth run STUDY --into DIR` resumes", "`breadth run STUDY --into DIR` resumes"),
        ("made with --predict_only or --limit 10", "made with --predict_only or --limit 10"),
        ("a well-known state-of-the-art - or not -- at all", "a well-known state-of-the-art - or not -- at all"),
    ],
)
def test_options_are_arguments_in_python(said, in_python):
    assert in_words_of_the_caller(said) == in_python
    assert str(InputError(said)) == in_python


def test_options_are_options_on_the_command_line(command_line):
    said = "give --item-counts A=635,.. or --cluster none"
    assert str(InputError(said)) == said


def test_every_message_names_arguments_in_python():
    """A word behind an option is a value or goes on with the sentence: one that is new here has to be decided."""
    seen = 0
    for place, text in messages():
        bare = re.sub(r"`[^`]*`", "", text)
        for option, word in re.findall(r"(?<![\w-])--([a-z][a-z-]*)(?![\w-])(?: ([a-z]+)\b(?![='`]))?", bare):
            seen += 1
            assert not word or word in VALUES or errors._PROSE.fullmatch(word), f"{place}: --{option} {word}: {text}"
        left = re.findall(r"(?<![\w-])--[a-z][a-z-]*(?![\w-])", re.sub(r"`[^`]*`", "", in_words_of_the_caller(bare)))
        assert {option[2:] for option in left} <= errors._FOREIGN, f"{place}: {text}"
    assert seen > 150


class Warned(Result):
    warnings = ("too few rows; give --item-counts A=635,..", "another")

    def tables(self):
        return {"rows": pl.DataFrame({"x": range(20)})}


def test_a_result_in_python_names_arguments():
    for shown in (str(Warned()), repr(Warned()), Warned()._repr_html_()):
        assert "item_counts=" in shown
        assert "--" not in re.sub(r"<!--|-->", "", shown)
    assert ".table()" in str(Warned())


def test_a_result_on_the_command_line_names_options(command_line):
    assert "--item-counts A=635" in str(Warned())
    assert "--out FILE" in str(Warned())
