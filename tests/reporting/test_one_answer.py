"""Card, section, JSON, terminal and Python give the same answer to the same question, on twelve kinds of data."""

import html
import json

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers, simulate_scores, simulate_study
from breadth.reporting import build_report
from breadth.reporting.cards import answer_cards, split_sentences
from breadth.reporting.pages import render_html, render_json

#: The public function behind each section, where it can be asked about the whole source.
FUNCTIONS = {"carry_over": "correlate", "ranking": "rank", "stability": "stability", "difficulty": "calibrate"}


def study(folder, **options):
    settings = {"runs": 4, "checkpoints": 10, "items": 40, "testsets": ("plain", "science", "negation")}
    return simulate_study(folder / "study", **(settings | options)).folder


def matrix(folder, models, items, testsets=1):
    """A long table of simulated answers."""
    answers = simulate_answers(models, items, seed=models + items).matrix
    rows, columns = np.indices(answers.shape)
    frame = pl.DataFrame({
        "model": [f"model-{row}" for row in rows.ravel()], "item": [f"q{column}" for column in columns.ravel()],
        "testset": [f"set-{column % testsets}" for column in columns.ravel()],
        "correct": answers.ravel().astype(int),
    })  # fmt: skip
    frame.write_csv(folder / "answers.csv")
    return folder / "answers.csv"


def scores(folder, **options):
    simulate_scores(**options).write_csv(folder / "scores.csv")
    return folder / "scores.csv"


def leaderboard(folder):
    generator = np.random.default_rng(1)
    ability = generator.normal(0.6, 0.1, 60)
    columns = {name: (ability + generator.normal(0, 0.04, 60)).clip(0, 1) for name in ("arc", "mmlu", "gsm8k", "musr")}
    pl.DataFrame({"model": [f"model-{k}" for k in range(60)], **columns}).write_csv(folder / "board.csv")
    return folder / "board.csv"


SOURCES = {
    "study": study,
    "study of levels": lambda folder: study(folder, runs=6, train_levels=3, testsets=("plain", "science", "chains")),
    "study with answer bias": lambda folder: study(folder, answer_bias=0.6),
    "study of two runs": lambda folder: study(folder, runs=2),
    "long study": lambda folder: study(folder, runs=6, checkpoints=24, items=30),
    "scores of runs": lambda folder: scores(folder, runs=5),
    "scores of one run": lambda folder: scores(folder, runs=1),
    "leaderboard": leaderboard,
    "one model": lambda folder: matrix(folder, 1, 120),
    "two models": lambda folder: matrix(folder, 2, 200, testsets=3),
    "many models, one test set": lambda folder: matrix(folder, 40, 80),
    "many models, four test sets": lambda folder: matrix(folder, 30, 120, testsets=4),
}


def same(verdict, other):
    """Whether two verdicts answer alike: question, answer, state and words."""
    return (verdict.answer, verdict.state, verdict.lines()) == (other.answer, other.state, other.lines())


@pytest.mark.parametrize("name", SOURCES)
def test_every_place_gives_the_same_answer(name, tmp_path, forks):
    source = SOURCES[name](tmp_path)
    data = build_report(str(source))
    verdicts = {section.key: content.verdict for section, content in data.contents.items() if content.verdict}
    assert verdicts
    every = [*verdicts.values(), *(v for content in data.contents.values() for v in content.further)]

    # A card says what its section says.
    cards = answer_cards(data)
    assert 1 <= len(cards) <= 5
    page = html.unescape(render_html(data))
    for card in cards:
        matching = [verdict for verdict in every if (str(verdict.answer), verdict.state) == (card.answer, card.state)]
        assert any(card.text.startswith(split_sentences(verdict.reason)[0]) for verdict in matching), card
        assert card.more
        assert card.text in page
        assert card.answer in page

    # So does the page as data.
    findings = json.loads(render_json(data))["findings"]
    for key, verdict in verdicts.items():
        assert (findings[key]["answer"], findings[key]["state"]) == (str(verdict.answer), str(verdict.state))
        assert findings[key]["finding"] == " ".join(verdict.lines())

    # So do Python and the command line, where they answer the same question about the same data.
    for key, function in FUNCTIONS.items():
        if key not in verdicts or not verdicts[key].question:
            continue
        try:
            asked = getattr(breadth, function)(source).verdict()
        except breadth.InputError:
            continue
        if str(asked.question) != str(verdicts[key].question):
            continue  # two models are compared, not ranked
        assert same(verdicts[key], asked), key
        words = ["compare", source, "--all"] if function == "rank" else [function, source]
        out = forks.ask(
            command=[*map(str, words), "--json"],
            environment={"PATH": "", "HOME": str(tmp_path)},
            directory=str(tmp_path),
        )
        said = json.loads(out["printed"])["verdict"]
        assert (said["answer"], said["state"]) == (str(asked.answer), str(asked.state))
        assert said["reason"] == asked.reason


def test_terminal_prints_what_the_page_says(tmp_path, forks):
    source = leaderboard(tmp_path)
    data = build_report(str(source))
    out = forks.ask(
        command=["report", str(source), "--out", str(tmp_path / "r.html")],
        environment={"PATH": "", "HOME": str(tmp_path), "COLUMNS": "100"}, directory=str(tmp_path),
    )  # fmt: skip
    printed = " ".join(out["printed"].split())
    headlines = [content for section, content in data.contents.items() if section.headline and content.verdict]
    assert headlines
    for content in headlines:
        assert " ".join(content.verdict.headline.split()) in printed
