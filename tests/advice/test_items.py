"""``advise_items`` and ``advise_score``: from answers to a file, and from the file to scores."""

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.datasets import simulate_answers
from breadth.errors import InputError
from breadth.results import Question, State

MATRIX = simulate_answers(80, 240).matrix


def test_a_short_form_is_written_and_scores_new_models(tmp_path):
    form = breadth.advise_items(MATRIX[:60], k=40)
    assert form.items["weight"].sum() == pytest.approx(1)
    assert form.errors["models"].to_list() == ["like these", "stronger"]
    verdict = form.verdict()
    assert verdict.question == Question.SUBSET
    assert (verdict.facts["questions of the subset"], verdict.facts["all questions"]) == (40, 240)
    assert f"{100 * form.errors['within'][0]:.1f}" in verdict.numbers()
    # A quantile of errors lies above their root mean square, and below what any error could be.
    assert (form.errors["rmse"] < form.errors["within"]).all()
    assert (form.errors["within"] < 4 * form.errors["rmse"]).all()
    path = form.save(tmp_path / "short.npz")
    own = breadth.advise_score(form, MATRIX[60:])
    stored = breadth.advise_score(path, MATRIX[60:])
    assert stored.scores.equals(own.scores)
    truth = MATRIX[60:].mean(axis=1)
    covered = ((own.scores["ci_low"].to_numpy() <= truth) & (truth <= own.scores["ci_high"].to_numpy())).mean()
    assert covered >= 0.8
    assert "do predict each other" in own.details()
    verdict = own.verdict()
    best = own.scores.sort("score", descending=True).row(0, named=True)
    assert verdict.question == Question.SUBSET_SCORE
    assert best["subject"] in verdict.reason
    assert f"{100 * best['ci_low']:.1f}" in verdict.numbers()
    alone = breadth.advise_score(form, MATRIX[60:61])
    assert f"{100 * alone.scores['score'][0]:.1f}%" in alone.verdict().answer
    assert own.shown()[0].frame.filter(estimate="plain")["why"].null_count() == 0
    for result in (form, own):
        assert result.figure().to_dict()["datasets"]


def test_the_same_seed_gives_the_same_items():
    first, second, third = (breadth.advise_items(MATRIX, k=20, seed=seed).items["item"].to_list() for seed in (1, 1, 2))
    assert first == second != third


def test_items_are_drawn_from_every_test_set():
    names = [f"{name}{j}" for name in "ab" for j in range(120)]
    long = pl.concat(
        pl.DataFrame({"model": f"m{i}", "item": names, "testset": [n[0] for n in names], "correct": MATRIX[i]})
        for i in range(40)
    )
    form = breadth.advise_items(long, k=40)
    assert form.items["testset"].value_counts()["count"].to_list() == [20, 20]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (MATRIX[:19], {}, "has 19 models with enough answers; .*takes at least 20"),
        (MATRIX, {"k": 4}, "k= is 4; choose from 10 to 120"),
        (MATRIX, {"k": 200}, "k= is 200"),
        (np.tile(MATRIX[:1], (30, 1)), {"k": 20}, "reference models differ no more than by chance"),
        (
            np.where(np.arange(240) == 3, -1, MATRIX).astype(np.int8),
            {"k": 20},
            "1 questions were answered by nobody .3.",
        ),
        (MATRIX / 2, {"k": 20}, "answers are shares"),
    ],
)
def test_what_is_refused(source, options, message):
    with pytest.raises(InputError, match=message):
        breadth.advise_items(source, **options)


def test_scoring_with_other_items_names_them(tmp_path):
    form = breadth.advise_items(MATRIX, k=20)
    with pytest.raises(InputError, match=r"lacks .* of the 20 questions of the subset: .*its own questions"):
        breadth.advise_score(form, MATRIX[:, :100])
    np.savez(tmp_path / "other.npz", R=MATRIX)
    with pytest.raises(InputError, match="is no subset of questions"):
        breadth.advise_score(tmp_path / "other.npz", MATRIX)
    with pytest.raises(InputError, match="no such file"):
        breadth.advise_score(tmp_path / "none.npz", MATRIX)


def test_subjects_that_did_not_answer_all_are_left_out():
    form, gaps = breadth.advise_items(MATRIX, k=20), MATRIX[:3].copy()
    gaps[1] = -1
    result = breadth.advise_score(form, gaps)
    assert result.scores["subject"].to_list() == ["0", "2"]
    assert any(text.endswith("left out: 1") for text in result.warnings)


def family_source(models=48):
    """Answers of models of six families, as a long table."""
    return pl.concat(
        pl.DataFrame({"model": f"m{i}", "family": f"f{i % 6}", "item": np.arange(240), "correct": MATRIX[i]})
        for i in range(models)
    )


def test_families_are_recognised_kept_in_the_file_and_said(tmp_path):
    form = breadth.advise_items(family_source(), k=40)
    assert form.errors["models"].to_list() == ["like these", "stronger", "of another family"]
    assert form.holds_for == "a model of another family"
    assert "another family" in form.verdict().findings
    assert form.references.family is not None
    assert form.references.models == tuple(sorted(f"m{i}" for i in range(48)))
    named = {(int(name[1:]) % 6, k) for name, k in zip(form.references.models, form.references.family, strict=True)}
    assert len(named) == 6, "every family has one number, and every number one family"
    stored = breadth.advise_score(form.save(tmp_path / "short.npz"), MATRIX[48:])
    assert stored.scores.equals(breadth.advise_score(form, MATRIX[48:]).scores)
    assert stored.holds_for == "a model of another family"
    assert stored.holds_for in stored.details()
    assert stored.scores["assisted_low"].min() >= 0
    assert stored.scores["assisted_high"].max() <= 1
    assert form.figure().to_dict()["datasets"]


def test_families_can_be_turned_off_and_files_without_them_are_read(tmp_path):
    form = breadth.advise_items(family_source(), k=40, cluster="none")
    assert form.errors.height == 2
    stored = breadth.advise_score(form.save(tmp_path / "short.npz"), MATRIX[48:])
    assert (stored.family, stored.holds_for) == (None, "a model like these")
    with pytest.raises(InputError, match="there is no column 'base'"):
        breadth.advise_items(family_source(), k=40, cluster="base")


def test_a_file_whose_families_do_not_fit_is_refused(tmp_path):
    path = breadth.advise_items(family_source(), k=40).save(tmp_path / "short.npz")
    with np.load(path) as stored:
        arrays = dict(stored)
    np.savez(path, **(arrays | {"family": arrays["family"][:5]}))
    with pytest.raises(InputError, match="its array family is not what belongs there"):
        breadth.advise_score(path, MATRIX[48:])


def test_where_a_subset_is_too_small_a_larger_one_is_enough():
    answers = simulate_answers(80, 1200).matrix
    small = breadth.advise_items(answers, k=30)
    verdict = small.verdict()
    assert verdict.state in (State.NO, State.MIXED)
    assert f"{100 * small.errors['within'][0]:.1f}" in verdict.answer
    assert verdict.facts["difference that the subset shows, in points"] > 100 * small.errors["within"].max()
    needed = int(verdict.facts["questions that would be enough"])
    assert breadth.advise_items(answers, k=needed).errors["rmse"].max() == pytest.approx(0.05, abs=0.01)
