"""Training on a mixture of sets: how many examples of each, what it is called, and what is refused."""

import pytest

from breadth.study import expand, share_out, start_key
from breadth.study.overview import show_study

HEAD = "name: s\nmodels: smollm2-135m\n"
RECIPE = "recipe: {method: lora, steps: 4}\n"
EVALUATE = "evaluate: {on: [plain, negation, science]}\n"


def text_of(mix="{plain: 0.7, negation: 0.3}", more="examples: 32", recipe=RECIPE, evaluate=EVALUATE):
    return f"{HEAD}train: {{mix: {mix}, {more}}}\n{recipe}{evaluate}"


@pytest.mark.parametrize(
    ("examples", "shares", "expected"),
    [
        (32, [0.7, 0.3], [22, 10]),
        (10, [0.7, 0.3], [7, 3]),
        (10, [7, 3], [7, 3]),
        (3, [1, 1], [2, 1]),  # of equal remainders, the first
        (7, [1, 1, 1], [3, 2, 2]),
        (1, [0.9, 0.1], [1, 0]),
        (100, [1e-3, 1], [0, 100]),
    ],
)
def test_the_largest_remainders_are_rounded_up(examples, shares, expected):
    mix = {f"s{k}": share for k, share in enumerate(shares)}
    counts = share_out(examples, mix)
    assert list(counts.values()) == expected
    assert sum(counts.values()) == examples


def test_a_mixture_is_one_run_each(study):
    runs = expand(study(text_of(more="examples: [16, 32], seeds: [0, 1]")))
    assert len(runs) == 4
    assert {run.train_set for run in runs} == {"plain+negation"}
    assert runs[0].train_sets == {"plain": 11, "negation": 5}
    assert set(runs[0].tasks) == {"plain", "negation", "science"}
    assert "+" not in runs[0].name
    record = runs[0].record()
    assert record.mix == {"plain": 0.7, "negation": 0.3}
    assert "mix" not in expand(study(f"{HEAD}train: {{set: plain}}\n{RECIPE}{EVALUATE}"))[0].record().specification()


def test_shares_are_normalised(study):
    names = [expand(study(text_of(mix)))[0].name for mix in ("{plain: 0.7, negation: 0.3}", "{plain: 7, negation: 3}")]
    assert names[0] == names[1]
    assert expand(study(text_of("{plain: 1, negation: 1}")))[0].name != names[0]


def test_a_start_depends_on_the_mixture(study):
    more = "examples: 32, start: {examples: 20}"
    keys = {
        start_key(expand(study(text_of(mix, more)))[0])
        for mix in ("{plain: 7, negation: 3}", "{plain: 1, negation: 1}")
    }
    assert len(keys) == 2


def test_the_numbers_are_shown(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(text_of("{plain: 7, negation: 3}"))
    facts = dict(show_study(str(path)).facts)
    assert facts["train"].startswith("a mixture (plain 70%, negation 30%): 32 examples (plain 22, negation 10)")


@pytest.mark.parametrize(
    ("train", "place"),
    [
        ("{examples: 8}", "train.set"),
        ("{set: plain, mix: {plain: 1, negation: 1}}", "train.mix"),
        ("{mix: {plain: 1}}", "train.mix"),
        ("{mix: {}}", "train.mix"),
        ("{mix: [plain, negation]}", "train.mix"),
        ("{mix: {plain: true, negation: 1}}", "train.mix"),
        ("{mix: {plain: 0, negation: 1}}", "train.mix.plain"),
        ("{mix: {plain: .inf, negation: 1}}", "train.mix.plain"),
        ("{mix: {plain: 1, negaton: 1}}", "train.mix.negaton"),
        ("{mix: {plain: 0.99, negation: 0.01}, examples: 8}", "train.mix.negation"),
        ("{mix: {plain: 1, negation: 1}, start: {examples: 1}}", "train.mix.negation"),
        ("{mix: {plain: 1, negation: 1}, difficulty: {column: steps}, levels: 2}", "train.mix"),
        ("{mix: {plain: 1, arc: 1}}", "train.mix.arc"),  # cannot be trained with loss answers
    ],
)
def test_what_is_refused(problems, train, place):
    (line,) = problems(f"{HEAD}train: {train}\n{RECIPE}{EVALUATE}")
    assert line.startswith(f"line 3, {place}:")


def test_examples_of_a_prompt_are_shared_out_as_well(problems, study):
    recipe = "recipe: {method: few-shot, num_fewshot: 2}\n"
    assert expand(study(text_of(more="seeds: 0", recipe=recipe)))[0].train_sets == {"plain": 1, "negation": 1}
    (line,) = problems(text_of(more="seeds: 0", recipe=recipe.replace("2", "1")))
    assert "train.mix.negation" in line


def test_one_set_of_a_mixture_is_control_enough(study):
    assert study(text_of(evaluate="evaluate: {on: [plain, science]}\n")).warnings == ()
    (warning,) = study(text_of(evaluate="evaluate: {on: [science, chat]}\n")).warnings
    assert "no in-domain control" in warning
