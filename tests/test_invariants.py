"""What holds for every public analysis: order of rows, threads, seeds, and numbers that cannot be computed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import breadth
from breadth.errors import InputError

MODELS, ITEMS = 24, 30
FLOATS = (pl.Float32, pl.Float64)


def write_inputs(folder, generator, shuffle=False):
    """Answers (items of three test sets and six passages), their items, scores of runs, and a leaderboard.

    And answers of models that were trained on one of three levels of difficulty, two seeds each, and of the untrained
    one.
    """
    ability, hardness = np.linspace(-1.5, 1.5, MODELS), generator.normal(0, 1, ITEMS)
    rows = []
    for i in range(MODELS):
        for j in range(ITEMS):
            right = generator.random() < 1 / (1 + np.exp(hardness[j] - ability[i]))
            row = {"model": f"m{i:02d}", "item": f"q{j:02d}", "testset": "abc"[j % 3], "passage": f"p{j % 6}"}
            rows.append({**row, "correct": int(right)})
    scores = []
    for run in range(6):
        for step in range(12):
            base = 0.3 + 0.04 * step + generator.normal(0, 0.02)
            row = {"model": f"m{run // 2}", "seed": run % 2, "step": 10 * step, "in_domain": base}
            scores.append({**row, **{name: base * 0.8 + generator.normal(0, 0.03) for name in ("x", "y", "z")}})
    board = []
    for i in range(40):
        general = generator.normal(60, 8)
        row = {"model": f"b{i:02d}"}
        board.append({**row, **{name: general + generator.normal(0, 3) for name in ("s", "t", "u", "v")}})
    items = []
    for j in range(ITEMS):
        row = {"item": f"q{j:02d}", "testset": "abc"[j % 3], "question": f"Is it {j}?"}
        items.append({**row, "grade": round(hardness[j] + generator.normal(0, 1))})
    trained = []
    for condition in (None, 0, 1, 2):
        for seed in (0, 1) if condition is not None else (None,):
            for j in range(ITEMS):
                gain = 0.0 if condition is None else 0.3 - 0.1 * abs(condition - j % 3)
                row = {"train_level": condition, "seed": seed, "item": f"q{j:02d}", "level": j % 3}
                trained.append({**row, "correct": int(generator.random() < 0.5 + gain)})
    contents = {"answers": rows, "items": items, "scores": scores, "board": board, "trained": trained}
    for name, content in contents.items():
        frame = pl.DataFrame(content, infer_schema_length=None)
        if shuffle:
            frame = frame.sample(fraction=1.0, shuffle=True, seed=7)
        frame.write_csv(folder / f"{name}.csv")
    return folder


#: Every public analysis of answers, of scores during training, and of scores of models.
ANALYSES = {
    "calibrate": lambda folder: breadth.calibrate(folder / "answers.csv"),
    "ability": lambda folder: breadth.ability(folder / "answers.csv", breadth.calibrate(folder / "answers.csv")),
    "levels": lambda folder: breadth.levels(breadth.calibrate(folder / "answers.csv"), n=3),
    "profile": lambda folder: breadth.profile(
        folder / "answers.csv", breadth.calibrate(folder / "answers.csv"), levels=3
    ),
    "sample": lambda folder: breadth.sample(
        folder / "items.csv", breadth.calibrate(folder / "answers.csv"), strategy="middle", n=10
    ),
    "difficulty_vs": lambda folder: breadth.difficulty_vs(
        breadth.calibrate(folder / "answers.csv"), folder / "items.csv"
    ),
    "transfer": lambda folder: breadth.transfer(folder / "trained.csv"),
    "scores": lambda folder: breadth.scores(folder / "answers.csv"),
    "compare": lambda folder: breadth.compare(folder / "answers.csv", "m01", "m20"),
    "rank": lambda folder: breadth.rank(folder / "answers.csv"),
    "advise_power": lambda folder: breadth.advise_power(folder / "answers.csv", "m01", "m20"),
    "advise_items": lambda folder: breadth.advise_items(folder / "answers.csv", k=10),
    "advise_score": lambda folder: breadth.advise_score(
        breadth.advise_items(folder / "answers.csv", k=10), folder / "answers.csv"
    ),
    "advise_together": lambda folder: breadth.advise_together(folder / "answers.csv"),
    "advise_testsets": lambda folder: breadth.advise_testsets(folder / "board.csv"),
    "correlate": lambda folder: breadth.correlate(folder / "scores.csv"),
    "stability": lambda folder: breadth.stability(folder / "scores.csv"),
}


def frames_of(analysis, folder):
    """The frames of a result by name; nothing if the input is refused with a message."""
    try:
        result = ANALYSES[analysis](folder)
    except InputError:
        return {}
    return {"": result} if isinstance(result, pl.DataFrame) else result.tables()


def key_columns(frame):
    """Columns of text, which tell the rows of a frame apart."""
    return [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum, pl.Boolean)]


def as_set(frame):
    """The frame in an order of its own, numbers to ten digits."""
    rounded = frame.with_columns(
        pl.col(name).round_sig_figs(10) for name in frame.columns if frame[name].dtype in FLOATS
    )
    rows = [json.dumps(row, default=str, sort_keys=True) for row in rounded.to_dicts()]
    return sorted(rows)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """The inputs in order, and with their rows shuffled."""
    plain, other = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("shuffled")
    write_inputs(plain, np.random.default_rng(3))
    write_inputs(other, np.random.default_rng(3), shuffle=True)
    return plain, other


def close(first, second):
    """Whether two frames have the same rows, apart from rounding and from their order."""
    assert first.schema == second.schema
    assert first.height == second.height
    keys = key_columns(first)
    numbers = [name for name, kind in first.schema.items() if kind in FLOATS]
    others = [name for name in first.columns if name not in numbers and first[name].dtype.is_nested() is False]
    order = [*keys, *[name for name in others if name not in keys], *numbers]
    first, second = first.sort(order), second.sort(order)
    assert first.select(others).equals(second.select(others))
    for name in numbers:
        ours, theirs = first[name].to_numpy(), second[name].to_numpy()
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8, equal_nan=True, err_msg=name)


@pytest.mark.parametrize("analysis", ANALYSES)
def test_the_order_of_rows_changes_no_result(analysis, inputs):
    plain, shuffled = (frames_of(analysis, folder) for folder in inputs)
    assert plain
    assert list(plain) == list(shuffled)
    for name in plain:
        close(plain[name], shuffled[name])


#: Analyses that draw items, or choose among equal models or items.
DRAWS = ("rank", "profile", "sample", "advise_items", "advise_together")


@pytest.mark.parametrize("analysis", DRAWS)
def test_draws_and_ties_depend_on_names_down_to_the_order_of_rows(analysis, tmp_path):
    """Models and items that are equal but for their names, and rows in three orders."""
    folder = write_inputs(tmp_path, np.random.default_rng(3))
    found = []
    for seed in (None, 1, 2):
        generator = np.random.default_rng(4)
        rows = []
        for i in range(MODELS):
            right = generator.random(ITEMS // 2) < 0.3 + 0.05 * (i // 3)
            for j in range(ITEMS):
                row = {"model": f"m{i:02d}", "item": f"q{j:02d}", "testset": "ab"[j % 2], "level": j % 3}
                rows.append({**row, "correct": int(right[j // 2])})
        answers, items = pl.DataFrame(rows), pl.read_csv(folder / "items.csv")
        if seed is not None:
            answers, items = (frame.sample(fraction=1.0, shuffle=True, seed=seed) for frame in (answers, items))
        answers.write_csv(folder / "answers.csv")
        items.write_csv(folder / "items.csv")
        found.append(frames_of(analysis, folder))
    assert found[0]
    for name, frame in found[0].items():
        for other in found[1:]:
            assert_frame_equal(frame, other[name], abs_tol=1e-6)


def test_samples_of_subjects_depend_on_their_names(inputs):
    """Levels of two samples of subjects are compared, which are drawn."""
    plain, shuffled = (breadth.calibrate(folder / "answers.csv").level_stability(n=3, repeats=2) for folder in inputs)
    close(plain, shuffled)


CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_invariants import ANALYSES, as_set, frames_of
from pathlib import Path
found = {name: {key: as_set(frame) for key, frame in frames_of(name, Path(sys.argv[2])).items()} for name in ANALYSES}
json.dump(found, sys.stdout)
"""


@pytest.mark.slow
def test_the_number_of_threads_changes_no_result(inputs):
    """Two processes, each with another number of threads for linear algebra and tables."""
    found = []
    for threads in ("1", "4"):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")
        command = [sys.executable, "-c", CHILD, str(Path(__file__).parent), str(inputs[0])]
        environment = {**os.environ, **dict.fromkeys(names, threads)}
        out = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert out.returncode == 0, out.stderr
        found.append(json.loads(out.stdout))
    assert set(found[0]) == set(ANALYSES)
    assert all(found[0].values())
    for analysis in ANALYSES:
        assert found[0][analysis] == found[1][analysis], analysis


def degenerate(folder, kind):
    """Inputs from which hardly any number can be computed."""
    write_inputs(folder, np.random.default_rng(3))
    names = ("answers", "scores", "board", "trained")
    answers, scores, board, trained = (pl.read_csv(folder / f"{name}.csv") for name in names)
    values = {"in_domain", "x", "y", "z"}
    if kind == "all right":
        answers, trained = (frame.with_columns(correct=pl.lit(1)) for frame in (answers, trained))
        scores = scores.with_columns(pl.lit(1.0).alias(name) for name in values)
        board = board.with_columns(pl.lit(100.0).alias(name) for name in "stuv")
    elif kind == "all wrong":
        answers, trained = (frame.with_columns(correct=pl.lit(0)) for frame in (answers, trained))
        scores = scores.with_columns(pl.lit(0.0).alias(name) for name in values)
        board = board.with_columns(pl.lit(0.0).alias(name) for name in "stuv")
    elif kind == "two alike":
        answers, trained = (
            frame.with_columns(correct=(pl.col("item") < "q15").cast(pl.Int64)) for frame in (answers, trained)
        )
        scores = scores.with_columns(x=pl.col("in_domain"), y=pl.col("in_domain"), z=pl.lit(0.5))
        board = board.with_columns(t=pl.col("s"), u=pl.col("s"), v=pl.lit(50.0))
    elif kind == "hardly anything":
        answers = answers.filter(pl.col("model").is_in(["m01", "m20"]), pl.col("item") < "q04")
        trained = trained.filter(pl.col("item") < "q04")
        scores = scores.filter(pl.col("step") < 30)
        board = board.head(3)
    elif kind == "one model":
        answers = answers.filter(pl.col("model") == "m01")
        trained = trained.filter(pl.col("train_level") == 0)
        scores = scores.filter(pl.col("model") == "m0", pl.col("seed") == 0)
        board = board.head(1)
    for name, frame in zip(names, (answers, scores, board, trained), strict=True):
        frame.write_csv(folder / f"{name}.csv")
    return folder


@pytest.mark.parametrize("kind", ["all right", "all wrong", "two alike", "hardly anything", "one model"])
def test_no_frame_has_a_number_that_is_none(tmp_path, kind):
    """A number that cannot be computed is null. An input may be refused, never with anything but a message."""
    folder = degenerate(tmp_path, kind)
    answered = 0
    for analysis in ANALYSES:
        for name, frame in frames_of(analysis, folder).items():
            answered += 1
            numbers = frame.select(pl.col(FLOATS))
            bad = [column for column in numbers.columns if not numbers[column].drop_nulls().is_finite().all()]
            assert bad == [], f"{kind}: {analysis}.{name}"
            for flag in [column for column in frame.columns if column == "flag"]:
                codes = frame[flag].drop_nulls().cast(pl.String)
                assert not codes.str.contains(r"[^a-z0-9_]").any(), f"{kind}: {analysis}.{name}"
    assert answered > 5


def test_a_seed_decides(inputs):
    """The same seed gives the same bootstrap, another one another."""
    path = inputs[0] / "answers.csv"
    first, again, other = (breadth.advise_items(path, k=10, seed=seed).tables()["items"] for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
