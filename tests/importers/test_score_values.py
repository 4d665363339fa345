import pytest

from breadth.importers.score_files import Run, Score, ScoreFormat
from breadth.importers.score_values import Testset as Set  # pytest would take "Testset" for a class of tests
from breadth.importers.score_values import TestsetMetric as Metric
from breadth.importers.score_values import Values

A, B = Run("a"), Run("b")
LOG = ScoreFormat("log", bool, iter)
EXPORT = LOG._replace(exported=True)
ACCURACY = Metric("accuracy", "", False)


def collected(*scores, metric=None, losses=False, known=LOG):
    values = Values(metric, losses)
    values.add_file("file", known, scores, 0)
    return values


def cells(values, testset, metric=ACCURACY):
    series = values.testsets[Set(*testset, "") if len(testset) == 2 else Set(*testset)][metric]
    return {(run.name, step): value.value for (run, step), value in series.cells.items()}


def test_scores_are_kept_and_the_rest_is_said():
    names = ("eval_hans_accuracy", "eval_hans_loss", "epoch", "loss", "kl")
    values = collected(*(Score(A, 1, name, 0.5) for name in names))
    assert values.testsets.keys() == {("eval", "hans", "")}
    assert values.left_out.keys() == {"eval_hans_loss", "epoch", "loss", "kl"}
    assert values.sources == [("file", "log", 5)]


def test_losses_are_kept_when_asked_for():
    values = collected(Score(A, 1, "eval_hans_loss", 0.5), Score(A, 1, "train/loss", 0.5), losses=True)
    assert cells(values, ("eval", "hans"), Metric("loss", "", True)) == {("a", 1): 0.5}
    assert values.left_out.keys() == {"train/loss"}


def test_what_was_exported_is_kept_but_for_bookkeeping():
    names = ("train/loss", "kl", "_step", "eval/hans/acc")
    values = collected(*(Score(A, 1, name, 0.5) for name in names), known=EXPORT)
    assert values.testsets.keys() == {("train", "", ""), ("", "kl", ""), ("eval", "hans", "")}
    assert values.left_out.keys() == {"_step"}


@pytest.mark.parametrize(
    ("metric", "kept"), [("kl", {"kl"}), ("*", {"kl", "entropy"}), ("e*", {"entropy"}), ("x", set())]
)
def test_names_that_are_not_known_can_be_asked_for(metric, kept):
    values = collected(Score(A, 1, "kl", 0.5), Score(A, 1, "entropy", 0.5), Score(A, 1, "lr", 1), metric=metric)
    assert {testset.name for testset in values.testsets} == kept


def test_rows_of_training_are_left_out_whatever_their_names():
    assert not collected(Score(A, 1, "token_accuracy", 0.5, training=True)).testsets


def test_the_later_value_counts_in_any_order():
    early, late = (Score(A, 1, "eval_x_accuracy", value, time) for value, time in ((0.25, 5), (0.5, 6)))
    for scores in ((early, late), (late, early)):
        values = collected(*scores)
        assert cells(values, ("eval", "x")) == {("a", 1): 0.5}
        assert values.replaced == {A: 1}
    assert not collected(early, early).replaced


def test_a_format_with_more_digits_counts_more():
    values = Values(None, False)
    values.add_file("state", LOG, [Score(A, 1, "eval_x_accuracy", 0.1, 7)], 0)
    values.add_file("events", LOG, [Score(A, 1, "eval/x_accuracy", 0.10000000149, 1e9)], -1)
    assert cells(values, ("eval", "x")) == {("a", 1): 0.1}
    assert not values.replaced


def test_one_test_set_under_two_names():
    scores = (Score(A, 1, "eval_x_accuracy", 0.25), Score(B, 1, "x/accuracy", 0.5))
    values = collected(*scores)
    values.join_stages()
    assert cells(values, ("eval", "x")) == {("a", 1): 0.25, ("b", 1): 0.5}
    apart = collected(*scores, Score(A, 1, "x/accuracy", 0.75))
    apart.join_stages()
    assert apart.testsets.keys() == {("eval", "x", ""), ("", "x", "")}
    stages = collected(*scores, Score(B, 1, "test_x_accuracy", 0.5))
    stages.join_stages()
    assert len(stages.testsets) == 3


def test_values_without_steps_go_where_others_have_steps():
    values = collected(
        Score(A, 1, "eval_x_acc", 0.5), Score(A, None, "eval_x_acc", 0.5), Score(B, None, "eval_y_acc", 0.5)
    )
    assert values.keep_steps() == (True, [A, B])
    assert {testset.name for testset in values.testsets} == {"x"}
    assert collected(Score(A, None, "eval_x_acc", 0.5)).keep_steps() == (False, [])


def test_not_every_file_of_a_run_names_the_model():
    values = collected(
        Score(A, 1, "eval_x_acc", 0.5),
        Score(A._replace(model="m"), 2, "eval_x_acc", 0.5),
        Score(A, 3, "eval_x_acc", 0.5),
    )
    assert values.runs == [A]
    assert values.models == {A: "m"}


def test_files_without_scores_are_said():
    assert collected().left_out == {"file": "no scores, though it looks like log"}
