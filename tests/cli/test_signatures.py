"""Commands made from public functions: their help, how options are read, and what they print."""

import inspect
import json
import math
import os
import re
import shlex
from datetime import date

import numpy as np
import polars as pl
import pytest

import breadth as package
from breadth.cli import FIRST_STEPS, MADE, MADE_BELOW, MOVED, load_commands
from breadth.cli.signatures import json_values, option_words, parameter_words, parse_pairs
from breadth.datasets import simulate_scores
from breadth.errors import InputError

VERBS = [verb for _, verb in MADE.values()] + [verb for *_, below in MADE_BELOW.values() for verb in below]


def every_command(group, *before):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from every_command(command, *before, name)
        else:
            yield " ".join([*before, name]), command


@pytest.fixture(scope="module")
def commands():
    return dict(every_command(load_commands()))


def refused(out):
    """The one message of a command that was refused."""
    assert out.returncode == 2, out.stdout
    assert out.stdout == ""
    assert "Traceback" not in out.stderr
    said = [line for line in out.stderr.splitlines() if line.startswith("breadth: ")]
    assert len(said) == 1, out.stderr
    return said[0]


@pytest.fixture(scope="module")
def scores(tmp_path_factory):
    path = tmp_path_factory.mktemp("scores") / "scores.csv"
    simulate_scores(runs=3).write_csv(path)
    return path


@pytest.fixture(scope="module")
def leaderboard(tmp_path_factory):
    generator = np.random.default_rng(0)
    ability = generator.normal(50, 10, 40)
    columns = {name: ability + generator.normal(0, 2, 40) for name in ("arc", "mmlu", "hellaswag")}
    path = tmp_path_factory.mktemp("leaderboard") / "leaderboard.csv"
    pl.DataFrame({"model": [f"m{k}" for k in range(40)], **columns}).write_csv(path)
    return path


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Answers of four models to two test sets; two models were trained on a level of difficulty."""
    generator = np.random.default_rng(1)
    rows = []
    models = (("base", None, 0), ("easy", 0, 0), ("hard", 1, 0), ("again", None, 1))
    for k, (name, trained, seed) in enumerate(models):
        right = generator.random(60) < 0.4 + 0.1 * k
        described = {"testset": ["home", "away"] * 30, "item": range(60), "level": [0, 0, 1, 1] * 15}
        model = {"subject": name, "train_level": trained, "seed": seed}
        rows.append(pl.DataFrame({**model, **described, "correct": right}))
    path = tmp_path_factory.mktemp("few") / "few.csv"
    pl.concat(rows, how="vertical_relaxed").write_csv(path)
    return path


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "questions.csv"
    pl.DataFrame({"item": [f"q{j}" for j in range(40)], "grade": [j % 7 for j in range(40)]}).write_csv(path)
    return path


@pytest.fixture(scope="module")
def subset(breadth, answers, tmp_path_factory):
    path = tmp_path_factory.mktemp("subset") / "short.npz"
    breadth("advise", "items", answers, "-k", 20, "--into", path)
    return path


# help


def test_every_command_has_a_summary_and_an_example(commands):
    for name, command in commands.items():
        assert command.help.strip(), name
        assert f"breadth {name}" in command.help, name


def test_every_example_parses(commands):
    """Options exist, and values have the type that is asked for; files need not exist."""
    tried = 0
    for name, command in commands.items():
        for line in re.findall(rf"`(?:\w+=\S+ )?breadth ({re.escape(name)}\b[^`]*)`", command.help):
            words = shlex.split(line)[len(name.split()) :]
            command.make_context(name, words).close()
            tried += 1
    assert tried >= len(commands)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_option_has_help_and_no_option_is_for_python_only(commands, verb):
    command = commands[verb.name]
    options = {option.name: option for option in command.params}
    for name, option in options.items():
        assert option.help, name
        assert "``" not in option.help, name
        assert ":func:" not in option.help, name
    parameters = inspect.signature(getattr(package, verb.function)).parameters
    assert set(parameters) - set(options) == set(parameters) & set(verb.python_only)
    assert not {"resamples", "progress"} & set(options)
    for name in verb.advanced:
        assert options[name].rich_help_panel == "Advanced"
    for name in verb.required:
        assert options[name].required, name


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.figure or verb.tables], ids=lambda verb: verb.name)
def test_every_result_has_details_and_json(commands, verb):
    spelled = {word for option in commands[verb.name].params for word in option.opts}
    assert {"--details", "--json", "--out"} <= spelled
    assert ("--figure" in spelled) == verb.figure


def test_help_shows_flags_without_a_type(breadth, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    shown = breadth("calibrate", "--help").stdout
    assert not re.search(r"<\w+", shown)
    assert "{ANSWERS}" in shown
    panel = shown.partition("─ Advanced ─")[2]
    assert "--anchor" in panel
    assert "--model" not in panel
    several = breadth("correlate", "--help").stdout
    assert "TABLE" in several
    assert "......" not in several.replace(" ", "")
    assert "TABLE......" not in several


def test_renamed_and_required_options(breadth, answers, calibration):
    assert "--with" in breadth("ability", "--help").stdout
    out = breadth("ability", answers, ok=False)
    assert out.returncode == 2
    assert "--with" in out.stderr
    assert "--calibration" not in breadth("ability", answers, "--with", calibration, "--details").stdout
    out = breadth("difficulty", "versus", calibration, ok=False)
    assert out.returncode == 2
    assert "--items" in out.stderr


def test_help_of_an_option_is_what_the_docstring_says_first():
    words = parameter_words("Title.\n\nParameters\n----------\na, b\n    One thing. Another.\n*c\n    Third.\n")
    assert words == {"a": "One thing. Another.", "b": "One thing. Another.", "c": "Third."}
    assert option_words("Whether to count it.", [], {}) == "Count it."
    assert option_words("Say ``b`` or ``auto``; see :func:`x.y`.", ["b"], {"b": "with"}) == (
        "Say --with or `auto`; see `x.y`."
    )
    long = "First sentence. " + "Word " * 60 + "end."
    assert option_words(long, [], {}) == "First sentence."


# first steps


def test_first_steps_with_no_arguments(breadth):
    out = breadth()
    assert out.stdout == FIRST_STEPS
    known = {name.split()[0] for name in dict(every_command(load_commands()))}
    named = re.findall(r"^  breadth ([a-z-]+)", FIRST_STEPS, re.MULTILINE)
    assert len(named) >= 5
    assert set(named) <= known


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_a_command_that_moved_says_where(breadth, commands, tmp_path, monkeypatch, old, new):
    monkeypatch.chdir(tmp_path)
    said = refused(breadth(old, "answers.csv", "--out", "x.csv", ok=False))
    assert f"breadth {new}" in said
    assert new in commands


def test_an_unknown_command_is_refused(breadth):
    for words in (["corelate", "x.csv"], ["difficulty", "level", "x.csv"], ["advise", "powers"]):
        out = breadth(*words, ok=False)
        assert out.returncode == 2
        assert words[-2 if words[-1].endswith("csv") else -1] in out.stderr
        assert "Traceback" not in out.stderr


def test_a_path_alone_is_reported(breadth, scores, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    breadth(scores)
    assert (tmp_path / "report.html").exists()


# values


def test_pairs():
    assert parse_pairs("--item-counts", ["a=1,b=2", "c = 3"], number=True) == {"a": 1, "b": 2, "c": 3}
    assert parse_pairs("--kinds", ["hans_*=adversarial"], number=False) == {"hans_*": "adversarial"}
    assert parse_pairs("--item-counts", ["none"], number=True) == "none"
    assert parse_pairs("--item-counts", None, number=True) is None
    for wrong in ("a", "a=", "=1", "a=x", "a=-1", "a=1,,b=2"):
        with pytest.raises(InputError, match="NAME=NUMBER"):
            parse_pairs("--item-counts", [wrong], number=True)


def test_names_are_repeated_or_separated_by_commas(breadth, scores):
    control = ("correlate", scores, "--control", "in_domain", "--json", "--testsets")
    joined = breadth(*control, "negation,science").stdout
    assert breadth(*control, "negation", "--testsets", "science").stdout == joined
    pairs = json.loads(joined)["tables"]["pairs"]
    assert {(row["a"], row["b"]) for row in pairs} == {("negation", "science")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["correlate", "SCORES", "--seed", "-1"], "--seed"),
        (["correlate", "SCORES", "--windows", "x"], "--windows"),
        (["correlate", "SCORES", "--resamples", "10"], "--resamples"),
        (["calibrate", "ANSWERS", "--model", "5pl"], "--model"),
        (["calibrate", "ANSWERS", "--levels", "2.5"], "--levels"),
        (["compare"], "ANSWERS"),
    ],
)
def test_mistakes_in_options_are_refused(breadth, scores, answers, words, message):
    places = {"SCORES": scores, "ANSWERS": answers}
    out = breadth(*(places.get(word, word) for word in words), ok=False)
    assert out.returncode == 2
    assert message in out.stderr
    assert "Traceback" not in out.stderr
    assert out.stdout == ""


# what is printed

RESULTS = [
    "compare {few} base hard",
    "compare {few} --all",
    "correlate {scores} --control in_domain",
    "stability {scores}",
    "scores {few}",
    "calibrate {answers} --levels 4",
    "ability {answers} --with {calibration}",
    "transfer {few}",
    "difficulty levels {calibration} --n 4",
    "difficulty profile {answers} --calibration {calibration} --levels 4",
    "difficulty versus {calibration} --items {questions} --measures grade",
    "difficulty sample {questions} --calibration {calibration} --n 10",
    "advise power {few}",
    "advise items {answers} -k 10",
    "advise score {subset} {answers}",
    "advise testsets {leaderboard}",
    "advise together {few}",
]


@pytest.fixture(scope="module")
def places(scores, answers, calibration, few, questions, subset, leaderboard):
    return {
        "scores": scores, "answers": answers, "calibration": calibration, "few": few, "questions": questions,
        "subset": subset, "leaderboard": leaderboard,
    }  # fmt: skip


def test_every_result_command_is_tried_below(commands):
    tried = {words.partition(" {")[0] for words in RESULTS}
    assert tried == {verb.name for verb in VERBS if verb.name != "report"}


def strict(text):
    def refuse(word):
        raise ValueError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def same(left, right):
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9)
    return left == right


@pytest.mark.parametrize("words", RESULTS)
def test_json_is_all_of_standard_output_and_equals_the_file(breadth, places, tmp_path, words):
    words = words.format(**places).split()
    target = tmp_path / "out.json"
    out = breadth(*words, "--json", "--out", target)
    printed = strict(out.stdout)
    assert f"wrote {target}" in out.stderr
    assert set(printed["verdict"]) >= {"question", "answer", "state", "reason", "facts"}
    assert printed["verdict"]["state"] in {"yes", "no", "mixed", "open"}
    assert printed["verdict"]["question"]
    assert printed["verdict"]["reason"]
    frame = next(iter(printed["tables"].values()))
    written = strict(target.read_text())
    assert len(written) == len(frame) > 0
    for ours, theirs in zip(frame, written, strict=True):
        for name, value in theirs.items():
            assert same(ours[name], value), name


@pytest.mark.parametrize("words", RESULTS)
def test_details_are_printed_when_asked_for(breadth, places, words):
    words = words.format(**places).split()
    brief, full = breadth(*words), breadth(*words, "--details")
    details = strict(breadth(*words, "--json").stdout)["details"]
    assert full.stdout.startswith(brief.stdout.rstrip("\n"))
    squeezed = "".join(full.stdout.split())
    assert "".join(details.split()) in squeezed
    assert (len(full.stdout) > len(brief.stdout)) == bool(details)


def test_warnings_are_counted_and_all_of_them_are_details(breadth, scores):
    options = ("correlate", scores, "--control", "in_domain", "--by", "none", "--order", "none")
    brief, full = breadth(*options), breadth(*options, "--details")
    assert brief.stderr.count("warning: ") <= full.stderr.count("warning: ")
    told = strict(breadth(*options, "--json").stdout)["warnings"]
    assert full.stderr.count("warning: ") == len(told)


def test_a_threshold_leaves_json_whole(breadth, few):
    out = breadth("compare", few, "hard", "base", "--json", "--fail-if-worse", "0.01", ok=False)
    assert out.returncode == 3
    assert strict(out.stdout)["tables"]
    assert "worse" in out.stderr


def test_a_subset_is_saved_beside_json(breadth, answers, tmp_path):
    out = breadth("advise", "items", answers, "-k", 10, "--into", tmp_path / "s.npz", "--json")
    assert strict(out.stdout)["verdict"]["answer"]
    assert "s.npz" in out.stderr
    assert (tmp_path / "s.npz").exists()


def test_values_that_json_does_not_have():
    values = {"a": math.nan, "b": [math.inf, np.float64(0.5)], "c": np.arange(2), "d": date(2026, 1, 2), 3: {"x": None}}
    assert json_values(values) == {"a": None, "b": [None, 0.5], "c": [0, 1], "d": "2026-01-02", "3": {"x": None}}
    assert json_values(os.path) != "", "anything else as text"
