"""Accuracy on the training examples at every checkpoint: kept apart from what is a test."""

import polars as pl
import pytest

from breadth.correlation import correlate
from breadth.errors import InputError
from breadth.execute import plan_study, run
from breadth.records.store import StudyStore
from breadth.reporting import scores
from breadth.reporting.progress import Progress
from breadth.reporting.sections import written_report
from breadth.sources import open_study
from breadth.study import expand, read_study_file

from .cluster.in_process import run_in_process
from .conftest import FULL, LORA, START, parts

TRAINING = [("items: 24", "items: 24, training: true")]
THREE = [*TRAINING, ("on: [plain, negation]", "on: [plain, negation, science]")]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny):
    """A study with training examples in its evaluation: the file, and where it was run."""
    folder = tmp_path_factory.mktemp("training")
    text = LORA.format(model=tiny)
    for old, new in THREE:
        text = text.replace(old, new)
    path = folder / "study.yaml"
    path.write_text(text)
    run(path, into=folder / "s")
    return path, folder / "s"


def test_every_run_is_evaluated_on_its_own_examples(finished):
    path, folder = finished
    measured = open_study(folder)
    training = measured.training
    assert training.testsets == ["plain.training"]
    assert set(training.items["shift"]) == {"training"}
    assert training.subjects.equals(measured.subjects)
    assert (training.answered.sum(axis=1) == 16).all()
    plan = plan_study(read_study_file(path), folder)
    stored = StudyStore(folder).read_items("plain.training")
    own = set()
    for each in expand(read_study_file(path)):
        drawn = set(plan.study_data.training(each).frame["item"])
        rows = training.answered[(training.subjects["run"] == each.name).to_numpy()]
        assert set(training.items["item"].filter(rows[0])) == drawn
        own |= drawn
    assert len(own) > 16
    assert set(stored["item"]) == own
    assert stored["premise"].null_count() == 0


def test_no_analysis_takes_them_for_a_test(finished):
    measured = open_study(finished[1])
    assert set(measured.testsets) == {"plain", "negation", "science"}
    assert "training" not in measured.shifts.values()
    assert not [name for name in measured.trajectories.columns if "training" in name]
    assert set(measured.responses.collect()["testset"]) == set(measured.testsets)
    pairs = correlate(measured, adjust="linear").pairs
    assert set(pairs["a"]) | set(pairs["b"]) == {"negation", "science"}
    # Runs share their model before training, although their training examples differ.
    assert measured.distinct().subjects.filter(step=0).height == 1
    assert measured.select(pl.col("step") == 8).training.subjects.height == 2
    found = scores(measured)
    assert set(found.changes["testset"]) == set(measured.testsets)
    assert set(found.tested["testset"]) == set(measured.testsets)


def test_they_are_shown(finished, tmp_path):
    measured = open_study(finished[1])
    found = scores(measured).scores.filter(testset="plain.training")
    expected = measured.training.scores[0][:, 0]
    shown = dict(zip(found.select("run", "step").rows(), found["accuracy"], strict=True))
    for row, key in enumerate(measured.subjects.select("run", "step").rows()):
        assert shown[key] == pytest.approx(expected[row])
    rows = Progress(finished[1]).state()["trajectories"]
    assert {row["testset"] for row in rows} == {"plain", "negation", "science", "plain.training"}
    _, page = written_report(finished[1], tmp_path / "report.html")
    assert "plain.training" in set(page.table("trajectories")["testset"])
    assert "plain.training" not in set(page.table("gains")["testset"])


def test_only_runs_with_the_same_examples_share_step_0(study, tmp_path):
    path = study(changes=TRAINING)
    plan = plan_study(read_study_file(path), tmp_path / "s")
    assert [unit.siblings for unit in plan.units] == [(), ()]
    assert [unit.copies_step0 for unit in plan.units] == [False, False]
    without = plan_study(read_study_file(study()), tmp_path / "other")
    assert [unit.copies_step0 for unit in without.units] == [False, True]
    # 5 checkpoints of two runs, each with 48 test items and 16 examples.
    assert plan.answers_left == 10 * (48 + 16)


def test_a_start_is_still_trained_once_and_untrained_models_have_no_examples(study, tmp_path):
    path = study(START, [("items: 24", "items: 24, training: true")])
    run(path, into=tmp_path / "s")
    assert len(list((tmp_path / "s" / "starts").iterdir())) == 1
    untrained = open_study(tmp_path / "s")
    zero = (untrained.subjects["method"] == "zero-shot").to_numpy()
    assert zero.sum() == 1
    assert not untrained.training.answered[zero].any()


@pytest.mark.slow
@pytest.mark.parametrize("text", [LORA, FULL])
def test_the_same_bytes_on_workers(study, tmp_path, text):
    path = study(text, TRAINING)
    run(path, into=tmp_path / "local")
    outcome, _, _ = run_in_process(path, tmp_path / "workers", workers=3)
    assert not outcome.failed
    assert parts(tmp_path / "workers") == parts(tmp_path / "local")


def test_more_seeds_add_examples(study, tmp_path):
    into = tmp_path / "s"
    changes = [*TRAINING, ("seeds: [0, 1]", "seeds: 0"), ("steps: 8", "steps: 2")]
    run(study(changes=changes), into=into)
    before = parts(into)
    first = StudyStore(into).read_items("plain.training")
    assert first.height == 16
    # A checkpoint that is lost is computed again, with the same examples.
    (into / next(name for name in before if "step-000002" in name)).unlink()
    run(study(changes=changes), into=into)
    assert parts(into) == before
    changes[1] = ("seeds: [0, 1]", "seeds: [0, 1, 2]")
    run(study(changes=changes), into=into)
    more = StudyStore(into).read_items("plain.training")
    assert more.height > 16
    assert set(first["item"]) < set(more["item"])
    assert len(list((into / "items").glob("plain.training.*"))) == 1
    assert open_study(into).training.items["premise"].null_count() == 0
    with pytest.raises(InputError, match="differ from those the study began with"):
        StudyStore(into).write_items("plain.training", first.with_columns(premise=pl.lit("x")), may_grow=True)


def test_names_of_runs_stay(study):
    names = [each.name for each in expand(read_study_file(study()))]
    said = expand(read_study_file(study(changes=[("items: 24", "items: 24, training: false")])))
    assert [each.name for each in said] == names
