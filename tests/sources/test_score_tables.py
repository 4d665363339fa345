import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.sources import load_scores, open_answers

WIDE = pl.DataFrame(
    {
        "run": ["b", "b", "a", "a"],
        "step": [1, 0, 1, 0],
        "seed": [0, 0, 0, 0],
        "mnli": [0.5, 0.6, 0.7, 0.8],
        "hans": [0.1, 0.2, 0.3, 0.4],
        "rte": [0.5, None, 0.3, 0.2],
    }
)
LONG = WIDE.unpivot(["mnli", "hans", "rte"], index=["run", "step", "seed"], variable_name="testset", value_name="score")


def test_wide_and_long_are_the_same():
    wide = load_scores(WIDE, "mnli", by="run", order="step")
    long = load_scores(LONG, "mnli", by="run", order="step")
    assert wide.testsets == long.testsets == ("hans", "rte"), "keys such as seed are not scores"
    assert wide.frame.equals(long.frame)
    assert wide.frame.select("run", "step").rows() == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_answers_are_averaged_and_halved():
    generator = np.random.default_rng(0)
    answers = pl.DataFrame(
        [
            {
                "run": run,
                "step": step,
                "testset": testset,
                "item": f"{testset}{i}",
                "correct": int(generator.random() < 0.6),
            }
            for run in ("r1", "r2")
            for step in range(3)
            for testset in ("in", "x", "y")
            for i in range(40)
        ]
    )
    found = load_scores(answers, "in", by="run", order="step", splits=7)
    means = answers.group_by("run", "step", "testset").agg(pl.col("correct").mean())
    row = found.frame.row(4, named=True)
    for name in ("in", "x", "y"):
        expected = means.filter(run=row["run"], step=row["step"], testset=name)["correct"].item()
        assert row[name] == pytest.approx(expected)
    assert found.halves is not None
    assert found.halves.shape == (6, 3, 7)
    # Half the difference of two halves of 40 items has the variance of their mean: p (1 - p) / 40.
    assert np.mean(found.halves**2) == pytest.approx(0.24 / 40, rel=0.3)


def test_names_may_be_joined_by_commas_or_hold_them():
    frame = WIDE.rename({"hans": "hans, all"})
    assert load_scores(frame, "mnli", testsets=["hans, all", "rte"]).testsets == ("hans, all", "rte")
    assert load_scores(WIDE, "mnli", testsets="rte,hans").testsets == ("rte", "hans")


def test_row_labels_are_no_scores(tmp_path):
    import pandas as pd

    pd.DataFrame({"m": [0.1, 0.2], "x": [0.3, 0.4], "y": [0.5, 0.6]}).to_csv(tmp_path / "t.csv")
    assert load_scores(tmp_path / "t.csv", "m").testsets == ("x", "y")
    long = LONG.with_row_index("index").with_columns(id=pl.col("index").cast(pl.String))
    expected = load_scores(LONG, "mnli", by="run", order="step").frame
    assert load_scores(long, "mnli", by="run", order="step").frame.equals(expected)


def test_wildcards():
    assert load_scores(WIDE, "mnli", testsets="h*,r?e").testsets == ("hans", "rte")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control": "mlni"}, r"no column 'mlni' \(control\)\. Did you mean mnli\?.*Columns: run"),
        ({"control": "mnli", "by": "runs"}, r"no column 'runs' \(by\)\. Did you mean run"),
        ({"control": "mnli", "order": "stpe"}, r"Did you mean step"),
        ({"control": "mnli", "testsets": "hans,nothing"}, r"no column 'nothing' \(test set\)"),
        ({"control": "mnli", "testsets": "hans,mnli"}, "both control and test set"),
        ({"control": "step", "by": "run", "order": "step"}, "used for by= or order= and as a score"),
        ({"control": "mnli", "order": "step", "by": ()}, 'column run tells them apart. Add by="run"'),
    ],
)
def test_bad_columns(options, message):
    with pytest.raises(InputError, match=message):
        load_scores(WIDE, **options)


def test_duplicate_checkpoints():
    doubled = pl.concat([WIDE, WIDE.head(1)])
    with pytest.raises(InputError, match=r"run=b, step=1 occurs 2 times"):
        load_scores(doubled, "mnli", by="run", order="step")
    with pytest.raises(InputError, match=r"run=b, step=1 occurs 2 times"):
        load_scores(doubled, "mnli")
    assert load_scores(doubled, "mnli", by="none", order="none").frame.height == 5, "rows are independent then"
    with pytest.raises(InputError, match=r"testset=mnli occurs 2 times"):
        load_scores(pl.concat([LONG, LONG.head(1)]), "mnli", by="run", order="step")


def test_text_in_a_default_facet_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("run,mnli,hans,rte\na,0.1,0.2,0.3\nb,0.1,oops,0.3\nc,0.1,0.2,0.3\n")
    with pytest.raises(InputError, match=r"row 2 \(line 3\), column 'hans': 'oops'"):
        load_scores(path, "mnli")


def test_an_order_needs_a_place_for_every_row():
    with pytest.raises(InputError, match="is empty"):
        load_scores(WIDE.with_columns(step=pl.Series([1, None, 1, 0])), "mnli", by="run", order="step")


def test_a_missing_place_is_named_by_its_own_row():
    blank = WIDE.with_columns(
        pl.when(pl.col("seed") == 0).then(None).otherwise(pl.col(name)).alias(name) for name in ("mnli", "hans", "rte")
    )
    frame = pl.concat([blank.head(2), WIDE]).with_columns(step=pl.Series([5, 6, 1, 0, None, 0]))
    with pytest.raises(InputError, match=r"row 5, column 'step': is empty"):
        load_scores(frame)


def test_order_written_as_text_is_sorted_as_numbers():
    frame = pl.DataFrame({"step": ["10", "9"], "m": [1.0, 2.0], "x": [1.0, 2.0], "y": [0.0, 1.0]})
    assert load_scores(frame, "m", order="step").frame["step"].to_list() == [9.0, 10.0]


def test_mixed_scales_are_warned_about():
    mixed = WIDE.with_columns(hans=pl.Series([0.61, 0.7, 58.0, 61.0]))
    (warning,) = [w for w in load_scores(mixed, "mnli", by="run", order="step").warnings if "mixed" in w]
    assert "'hans'" in warning
    percent = WIDE.with_columns(hans=pl.Series([61.0, 70.0, 58.0, 2.0]))
    assert not [w for w in load_scores(percent, "mnli", by="run", order="step").warnings if "mixed" in w]


def test_shares_among_percentages_are_put_on_one_scale():
    mixed = WIDE.with_columns(hans=pl.Series([61.0, 70.0, 58.0, 2.0]), val_loss=pl.Series([0.9, 0.8, 0.7, 0.6]))
    known = load_scores(mixed, "mnli", by="run", order="step", also="val_loss")
    assert sorted(known.frame["mnli"]) == sorted(100 * WIDE["mnli"])
    assert known.frame["val_loss"].max() == 0.9, "a loss has a scale of its own"
    (warning,) = [line for line in known.warnings if "multiplied by 100" in line]
    assert "mnli" in warning
    assert "val_loss" not in warning


def test_checkpoints_are_recognised_and_said():
    known = load_scores(WIDE)
    given = load_scores(WIDE, "mnli", by="run", order="step")
    assert known.frame.equals(given.frame)
    assert (known.by, known.order, known.controls) == (given.by, given.order, given.controls)
    assert known.reading.lines() == (
        "2 runs (run) x 2 steps (step); in-domain: mnli; test sets: 2 (hans, rte)",
        "wrong? --by, --order, --control, --testsets",
    )
    assert given.reading.lines() == (), "nothing was guessed"


def test_none_means_none():
    rows = load_scores(WIDE, (), by="none", order="none")
    assert (rows.by, rows.order, rows.controls) == ((), None, ())
    assert rows.testsets == ("mnli", "hans", "rte")


def test_losses_count_where_they_are_named():
    frame = WIDE.with_columns(wiki_loss=1 / pl.col("hans"))
    assert load_scores(frame).testsets == ("hans", "rte")
    assert load_scores(frame, also="wiki*").testsets == ("hans", "rte", "wiki_loss")
    assert load_scores(frame, "wiki_loss").testsets == ("mnli", "hans", "rte")


def test_an_answers_table_says_both_what_was_read_and_what_is_correlated():
    answers = pl.DataFrame(
        [
            {"model": model, "task": task, "doc_id": f"{task}{k}", "acc": (k + len(model) + ord(task[0])) % 2}
            for model in ("a", "bb", "ccc")
            for task in ("mnli", "hans", "anli")
            for k in range(4)
        ]
    )
    trajectories = load_scores(answers)
    assert trajectories.controls == ("mnli",)
    assert trajectories.reading.lines() == (
        "3 models (model) x 12 items (doc_id) of 3 test sets (task); right or wrong: acc",
        "3 models (model); in-domain: mnli; test sets: 2 (hans, anli)",
    )
    assert load_scores(answers, by="model").by == ("model",)


def test_answers_outside_0_and_1(tmp_path):
    answers = pl.DataFrame({"run": "a", "testset": ["s", "t"], "item": ["1", "2"], "correct": [1.0, 3.0]})
    with pytest.raises(InputError, match=r"row 2: subject 'a', item '2': 3\.0 is not an answer"):
        load_scores(answers, "s")


def test_a_test_set_named_like_a_key():
    with pytest.raises(InputError, match="has the name of a column"):
        load_scores(LONG.with_columns(testset=pl.col("testset").replace("hans", "seed")), "mnli", by="run")


def test_scores_that_are_shares_are_not_answers():
    """Scores of test sets as shares look like graded answers to a few items; compare would pair test sets as items."""
    shares = np.random.default_rng(0).random((12, 3)).round(3)
    scores = pl.DataFrame(shares, schema=["mnli", "hans", "rte"]).with_columns(
        model=pl.Series([f"m{k}" for k in range(12)])
    )
    with pytest.raises(InputError, match="holds scores of test sets; this takes answers"):
        open_answers(scores)
    graded = pl.DataFrame({"subject": ["a", "a", "b", "b"], "item": ["i", "j"] * 2, "correct": [0.5, 1.0, 0.2, 0.0]})
    assert open_answers(graded).matrix.shape == (2, 2)
    assert open_answers(np.array([[0.5, 1.0], [0.2, 0.0]])).matrix.shape == (2, 2)


SHARES = np.random.default_rng(0).random((80, 120)).round(3)


def wide(columns, names=None):
    names = names or [f"set {k}" for k in range(columns)]
    return pl.DataFrame(SHARES[:, :columns], schema=names).with_columns(model=pl.Series([f"m{k}" for k in range(80)]))


@pytest.mark.parametrize("command", [breadth.calibrate, breadth.scores, breadth.transfer])
def test_scores_of_test_sets_are_no_answers(command, tmp_path):
    frame = wide(4, ["arc", "mmlu", "hellaswag", "gsm8k"])
    frame.write_csv(tmp_path / "scores.csv")
    for source in (frame, tmp_path / "scores.csv"):
        with pytest.raises(InputError, match="holds scores of test sets; this takes answers"):
            command(source)


def test_partial_credit_is_an_answer(tmp_path):
    mostly = wide(6).with_columns(
        pl.when(pl.col(f"set {k}") <= 0.3).then(f"set {k}").otherwise(1).alias(f"set {k}") for k in range(6)
    )
    for frame in (mostly, wide(120), wide(8, [f"q{k}" for k in range(8)]), wide(8, [str(k) for k in range(8)])):
        assert open_answers(frame).matrix.shape == (80, frame.width - 1)
    assert open_answers(SHARES[:, :4]).matrix.shape == (80, 4)
    np.savez(tmp_path / "r.npz", R=SHARES[:, :30], items=np.array([f"problem about {k}" for k in range(30)]))
    assert breadth.calibrate(tmp_path / "r.npz").items.height == 30
