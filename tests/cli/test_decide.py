import numpy as np
import polars as pl
import pytest


def first_lines(out):
    """What is printed before the table: the question and the answer, whose lines are cut by the terminal."""
    return " ".join(out.stdout.split("\n\n")[0].split())


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    path = tmp_path_factory.mktemp("pair") / "answers.csv"
    luck, items = np.random.default_rng(0).random((2, 300)), np.arange(300)
    described = {"testset": np.where(items % 2, "hans", "anli"), "item": items, "passage": items // 4}
    rows = [
        pl.DataFrame({"subject": name, **described, "correct": (luck[k] < 0.7 - 0.3 * k).astype(int)})
        for k, name in enumerate(("old", "new"))
    ]
    pl.concat(rows).write_csv(path)
    return path


def test_compare_prints_the_answer_first_and_writes_files(breadth, pair, tmp_path):
    files = ("--out", tmp_path / "c.csv", "--figure", tmp_path / "c.svg")
    out = breadth("compare", pair, "old", "new", "--cluster", "passage", "--margin", 0.01, *files)
    assert "old is better than new by" in first_lines(out)
    assert pl.read_csv(tmp_path / "c.csv").height == 3
    assert (tmp_path / "c.items.csv").exists()


def test_a_threshold_that_is_crossed_ends_with_code_3(breadth, pair):
    crossed = breadth("compare", pair, "old", "new", "--fail-if-worse", 0.02, "--on", "hans,anli", ok=False)
    assert crossed.returncode == 3
    assert "new is worse than old by more than 2 points: on " in " ".join(crossed.stdout.split())
    assert breadth("compare", pair, "new", "old", "--fail-if-worse", 0.02).returncode == 0


def test_ranking(breadth, pair, tmp_path):
    out = breadth("compare", pair, "--all", "--out", tmp_path / "r.csv")
    assert "old is better than new" in first_lines(out)
    assert pl.read_csv(tmp_path / "r.csv")["rank_high"].to_list() == [1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("old", "newer"), "nothing is called 'newer'. Did you mean new?"),
        (("old", "new", "--on", "hans"), "--on names the test sets for --fail-if-worse"),
        (("--all", "--margin", "0.1"), "--all ranks models"),
        (("old", "new", "--cluster", "topic"), "there is no column 'topic'"),
        (("old", "new", "--fail-if-worse", "2"), "--fail-if-worse is 2"),
    ],
)
def test_bad_input_is_one_message(breadth, pair, options, message):
    refused = breadth("compare", pair, *options, ok=False)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_power(breadth, answers, tmp_path):
    out = breadth(
        "advise", "power", answers, "--difference", 0.05, "--out", tmp_path / "p.csv", "--figure", tmp_path / "p.svg"
    )
    assert "40 questions" in first_lines(out)
    assert pl.read_csv(tmp_path / "p.csv")["items_paired"][0] > 40


def test_items_then_score(breadth, answers, tmp_path):
    short = tmp_path / "short.npz"
    made = breadth("advise", "items", answers, "-k", 20, "--into", short, "--out", tmp_path / "items.csv")
    assert "20 questions chosen from these 40" in first_lines(made)
    assert pl.read_csv(tmp_path / "items.csv").height == 20
    out = breadth("advise", "score", short, answers, "--out", tmp_path / "scores.csv")
    assert "of all 40 questions right" in first_lines(out)
    assert pl.read_csv(tmp_path / "scores.csv").height == 300
    with np.load(answers) as stored:
        np.savez(tmp_path / "few.npz", R=stored["R"][:, :5], models=stored["models"], items=stored["items"][:5])
    refused = breadth("advise", "score", short, tmp_path / "few.npz", ok=False)
    assert refused.returncode == 2
    assert "of the 20 questions of the subset" in refused.stderr


def test_items_without_into_leave_no_file_behind(breadth, answers, tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    breadth("advise", "items", answers, "-k", 20)
    assert list(here.iterdir()) == []


def test_testsets(breadth, tmp_path):
    generator = np.random.default_rng(0)
    ability = generator.normal(50, 10, 60)
    columns = {name: ability + generator.normal(0, 2, 60) for name in ("arc", "mmlu", "hellaswag")}
    pl.DataFrame({"model": [f"m{k}" for k in range(60)], **columns}).write_csv(tmp_path / "scores.csv")
    out = breadth("advise", "testsets", tmp_path / "scores.csv", "--error", 4)
    assert "can drop arc and mmlu" in first_lines(out)


def test_together(breadth, answers):
    out = breadth("advise", "together", answers)
    assert "best triple" in out.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("power", "--seeds"), "every model has one run"),
        (("items", "-k", "3"), "-k is 3"),
        (("together", "--cluster", "topic"), "there is no column 'topic'"),
        (("testsets",), "has one test set"),
    ],
)
def test_bad_input_of_advise_is_one_message(breadth, answers, options, message):
    verb, *others = options
    refused = breadth("advise", verb, answers, *others, ok=False)
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr
