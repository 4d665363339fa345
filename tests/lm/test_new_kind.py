"""A scoring kind from outside the package: two classes, registered, work from the study file to the trained model."""

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
from pydantic import Field
from scipy import special

from breadth.datasets import KINDS, Task, TaskKeys, load_own, register_kind, unregister_kind
from breadth.errors import InputError
from breadth.lm import (
    SCORERS,
    NextToken,
    Scorer,
    SplitModel,
    Trainer,
    encode_testset,
    encode_train_set,
    evaluate_model,
    keep_frozen_states,
    register_scorer,
    scorer_of,
    unfreeze,
)
from breadth.lm.prompts import encode_continuations, few_shot_text
from breadth.study import Recipe, expand, key_tables, parse_study, resolved_yaml

STUDY = """\
name: rated
models: smollm2-135m
recipe: {method: zero-shot}
evaluate: {on: [plain, mine]}
sets:
  mine:
    file: mine.csv
    kind: rating
    pattern: "{text} Rating: "
    tolerance: 2.5
"""


@dataclass(frozen=True)
class Rating(Task):
    """Predict a number from 0 to 9: the expected value of the next digit."""

    class Keys(TaskKeys):
        tolerance: float = Field(1.0, ge=0, description="largest error that counts as correct (rating)")

    kind = "rating"
    summary = "predict a digit"

    tolerance: float = 1.0

    @classmethod
    def from_keys(cls, keys):
        return cls(keys["pattern"], keys["tolerance"], shorten=keys["shorten"])

    def completion_of(self, row):
        return str(row["label"])


class RatingScorer(Scorer[Rating]):
    longest = 1

    def __init__(self, tokenizer, task, items):
        super().__init__(tokenizer, task, items)
        self.digits = [token for (token,) in encode_continuations(tokenizer, "0123456789")]

    def requests(self, prompts):
        return NextToken(prompts, self.digits)

    def score(self, outputs):
        rating = special.softmax(outputs, axis=1) @ np.arange(10)
        error = np.abs(rating - self.items["label"].cast(pl.Float64).to_numpy())
        return pl.DataFrame(
            {
                "correct": (error <= self.task.tolerance).astype(np.float32),
                "margin": (self.task.tolerance - error).astype(np.float32),
                "answer": [f"{value:.3f}" for value in rating],
            }
        )


@pytest.fixture
def rating():
    register_kind(Rating)
    register_scorer(Rating)(RatingScorer)
    yield Rating
    unregister_kind("rating")
    del SCORERS[Rating]


@pytest.fixture
def read(tmp_path):
    rows = [f"The cat sat on the mat {k} times,{k}" for k in range(10)]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    return lambda text=STUDY: parse_study(text, tmp_path / "s.yaml", tmp_path)


def problems(read, text):
    with pytest.raises(InputError) as caught:
        read(text)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


@pytest.fixture
def testset(rating, read, tmp_path):
    file = read()
    keys = file.study.sets["mine"].keys_in(file.study)
    return load_own("mine", **{**keys, "file": tmp_path / "mine.csv"}, split="all")


def test_a_study_file_uses_it(rating, read):
    file = read()
    assert file.study.sets["mine"].kind == "rating"
    (run,) = expand(file)
    assert run.tasks["mine"] == Rating("{text} Rating: ", 2.5)
    spec = {"kind": "rating", "template": "{text} Rating: ", "tolerance": 2.5, "shorten": None}
    assert run.record().tasks["mine"] == spec
    (again,) = expand(read(resolved_yaml(file.study)))
    assert again.name == run.name
    assert "| `sets.NAME.tolerance` | `1` | largest error that counts as correct (rating) |" in key_tables()
    assert "one of `pattern`, `choice`, `generate`, `rating` |" in key_tables()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("tolerance: 2.5", "tolerence: 2.5"), "line 10, sets.mine.tolerence: unknown key. Did you mean tolerance?"),
        (("tolerance: 2.5", "tolerance: -1"), "line 10, sets.mine.tolerance: -1 is too small; it must be 0 or more"),
        (("tolerance: 2.5", "tolerance: true"), "line 10, sets.mine.tolerance: true and false are neither"),
        (("tolerance: 2.5", "normalise: true"), "line 10, sets.mine.normalise: is for kind choice, and this set is of"),
        (
            ("rating", "ratng"),
            "line 8, sets.mine.kind: 'ratng' is not one of pattern, choice, generate, rating. Did you",
        ),
        (
            ('    pattern: "{text} Rating: "\n', ""),
            "line 6, sets.mine.prompt: is missing: kind rating needs the prompt",
        ),
        (("{text}", "{txt}"), "line 9, sets.mine.pattern: mine.csv has no column 'txt'. Did you mean text?"),
    ],
)
def test_its_keys_are_checked(rating, read, change, expected):
    (problem,) = problems(read, STUDY.replace(*change))
    assert problem.startswith(expected)


def test_its_keys_are_refused_for_other_kinds(rating, read):
    text = STUDY.replace("kind: rating", "kind: choice\n    options: text")
    assert "line 11, sets.mine.tolerance: is for kind rating, and this set is of kind choice" in problems(read, text)


def test_it_is_evaluated(testset, tiny):
    model = tiny()
    split = SplitModel(model.model, 2)
    encoded = encode_testset(model, testset, context=128, before=few_shot_text(testset.task, testset.frame[:1]))
    results = evaluate_model(model, split, [encoded])
    keep_frozen_states(split, [encoded])
    assert evaluate_model(model, split, [encoded])["answer"].equals(results["answer"])
    ratings = results["answer"].cast(pl.Float64)
    errors = (ratings - testset.frame["label"].cast(pl.Float64)).abs()
    assert results["margin"].to_list() == pytest.approx((2.5 - errors).to_list(), abs=1e-3)
    assert results["correct"].to_list() == (errors <= 2.5).cast(pl.Float32).to_list()
    assert ratings.is_between(0, 9).all()


def test_it_is_trained_on(testset, tiny):
    model = tiny()
    unfreeze(model.model, 2)
    with pytest.raises(InputError, match="mine: kind rating has no answers to compare; use loss: completion"):
        encode_train_set(model, testset, "answers", context=128)
    train_set = encode_train_set(model, testset, "completion", context=128)
    trainer = Trainer(SplitModel(model.model), train_set, Recipe(method="full", lr=1e-2, layers=2, batch=10), 0, 30)
    losses = [trainer.advance() for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0]


def test_it_is_gone_once_unregistered(rating, read):
    read()
    unregister_kind("rating")
    try:
        (problem,) = problems(read, STUDY.replace("    tolerance: 2.5\n", ""))
        assert problem.startswith("line 8, sets.mine.kind: 'rating' is not one of pattern, choice, generate.")
        assert "tolerance" not in key_tables()
    finally:
        register_kind(Rating)
    with pytest.raises(ValueError, match="kind 'rating' is registered already"):
        register_kind(Rating)


def test_nothing_is_left_registered():
    assert list(KINDS) == ["pattern", "choice", "generate"]
    with pytest.raises(InputError, match="kind 'rating' has no scorer; register one"):
        scorer_of(Rating("{text}"))
