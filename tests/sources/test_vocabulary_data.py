"""What a user's own vocabulary adds, and what is said of a mistake in it."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import polars as pl
import pytest

from breadth import InputError
from breadth.sources.vocabulary_data import SHIPPED, VARIABLE, load_vocabulary, own_file


@pytest.fixture
def own(tmp_path):
    """Writes a user's vocabulary."""

    def write(text):
        path = tmp_path / "mine.toml"
        path.write_text(text, "utf-8")
        return path

    return write


def run_with(path, code, **environment):
    """Run code in a process of its own, as the words are loaded once."""
    environment = {**os.environ, VARIABLE: str(path), **environment}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    return done.stdout.strip() or done.stderr.strip()


def test_words_of_the_user_are_used_everywhere(own, tmp_path):
    path = own(
        '[columns]\norder = ["Schritt"]\n[scores]\nlosses = ["surprisal"]\n[items]\nmy_set = 1234\nhans = 600\n'
        '[families]\nseries = ["acme-?lm"]\n[model_sizes]\nacme-large = 7e8\n[steps]\nwords = ["phase"]\n'
    )
    table = tmp_path / "scores.csv"
    sets = {name: [0.5 + k / 100 for k in range(8)] for name in ("hans", "my_set", "anli")}
    frame = pl.DataFrame(
        {"run": ["a"] * 8, "Schritt": range(8), **sets, "x_surprisal": [2.0 - k / 9 for k in range(8)]}
    )
    frame.write_csv(table)
    code = f"""
import json
from breadth.datasets.sizes import usual_items
from breadth.sources import is_lower_better, load_scores, size_of_model
from breadth.sources.model_families import family_of_name
from breadth.sources.training_steps import step_in
scores = load_scores({str(table)!r})
print(json.dumps([
    scores.order, sorted(scores.testsets),
    usual_items("eval/my_set acc"), usual_items("hans"), usual_items("hellaswag"),
    is_lower_better("x_surprisal"), family_of_name("AcmeLM-2-chat"), size_of_model("acme-large-v1"),
    step_in("m/phase-30").step, step_in("m/step-40").step,
]))
"""
    order, testsets, mine, hans, hellaswag, lower, family, size, *steps = json.loads(run_with(path, code))
    assert order == "Schritt"
    assert testsets == ["anli", "hans", "my_set"]
    assert (mine, hans, hellaswag) == (1234, 600, 10042)
    assert lower
    assert (family, size) == ("acmelm-2", 7e8)
    assert steps == [30, 40]


def test_the_file_may_lie_where_programs_keep_their_settings(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("platformdirs.user_config_path", lambda *names, **options: tmp_path)
    assert own_file() is None
    (tmp_path / "vocabulary.toml").write_text("")
    assert own_file() == tmp_path / "vocabulary.toml"
    monkeypatch.setenv(VARIABLE, "other.toml")
    assert str(own_file()) == "other.toml"


def test_words_of_the_user_come_first_and_are_put_in_plain_form(own):
    words = load_vocabulary(own('[scores]\nmetrics = ["My Metric", "f1"]\n[training_sets]\nmy_nli = ["HANS 2"]\n'))
    assert words["scores"]["metrics"][:3] == ["my_metric", "f1", "exact_match"]
    assert words["scores"]["metrics"].count("f1") == 1
    assert words["training_sets"]["mynli"] == ["hans2"]


def test_a_column_is_what_the_user_takes_it_for(own):
    words = load_vocabulary(own('[columns]\ntestset = ["subject"]\n'))["columns"]
    assert words["testset"][0] == "subject"
    assert "subject" not in words["model"]


def test_the_example_of_the_docs_is_one(own):
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "tables.md").read_text("utf-8")
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1]
    words = load_vocabulary(own(example))
    assert words["items"]["hellaswag"] == 1000
    assert words["columns"]["order"][0] == "schritt"


def test_an_empty_file_changes_nothing(own):
    assert load_vocabulary(own("")) == load_vocabulary(None) == tomllib.loads(SHIPPED.read_text("utf-8"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[column]\nrun = []", r"\[column\].*Did you mean columns"),
        ("[columns]\nsteps = ['x']", r"\[columns\] steps.*Keys: run"),
        ("[columns]\nrun = 'x'", r"\[columns\] run: 'x' is not a list of words"),
        ("[columns]\nrun = [3]", r"\[columns\] run: \[3\] is not a list of words"),
        ("[items]\nhans = 'many'", r"\[items\] hans: 'many' is not a whole number above 0"),
        ("[items]\nhans = 0.5", r"\[items\] hans: 0.5 is not a whole number"),
        ("[items]\nhans = -3", r"\[items\] hans: -3 is not"),
        ("[items]\nhans = true", r"\[items\] hans: True is not"),
        ("[model_sizes]\nm = inf", r"\[model_sizes\] m: inf is not a number"),
        ("[patterns]\ntime = ['(']", r"\[patterns\] time: '\(' is not a regular expression"),
        ("[families]\nseries = ['*']", r"\[families\] series: '\*' is not a regular expression"),
        ("scores = 3", r"scores: is a table"),
        ("[scores]\nlosses = [", r"is not TOML"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(own, text, place):
    path = own(text)
    with pytest.raises(InputError, match=rf"(?s){path}.*{place}"):
        load_vocabulary(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"missing\.toml: no such file"):
        load_vocabulary(tmp_path / "missing.toml")
    (tmp_path / "bytes.toml").write_bytes(b"[scores]\nlosses = ['\xff']")
    with pytest.raises(InputError, match="is not TOML"):
        load_vocabulary(tmp_path / "bytes.toml")


def test_the_command_line_says_a_mistake_in_one_line(own, tmp_path):
    path = own("[items]\nhans = 'many'")
    (tmp_path / "s.csv").write_text("run,step,hans,mnli\na,1,0.5,0.5\n")
    environment = {**os.environ, VARIABLE: str(path)}
    command = [sys.executable, "-m", "breadth", "correlate", str(tmp_path / "s.csv")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr.count("mine.toml, [items] hans") == 1
    assert "Traceback" not in done.stderr
