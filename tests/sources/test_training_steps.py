import re

import pytest

from breadth.errors import InputError
from breadth.sources.training_steps import parse_step_pattern, step_by_pattern, step_in, trainer_step


@pytest.mark.parametrize(
    ("name", "step", "rest"),
    [
        ("step143000", 143000, ""),
        ("step1000-tokens4B", 1000, ""),
        ("stage1-step1000-tokens5B", 1000, "stage1"),
        ("seed-2-step_500", 500, "seed-2"),
        ("runs/out/checkpoint-800", 800, "runs/out"),
        ("runs/checkpoint-800/merged", 800, "runs/merged"),
        ("global_step_800", 800, ""),
        ("global_step800", 800, ""),
        ("iter_0001000", 1000, ""),
        ("iteration=12", 12, ""),
        ("ckpt-7", 7, ""),
        ("Step12", 12, ""),
        ("checkpoint-100/step-200", 200, "checkpoint-100"),
        ("step-10k", 10_000, ""),
        ("m-step_2M", 2_000_000, "m"),
        ("TinyLlama-1.1B-intermediate-step-240k-503b", 240_000, "TinyLlama-1.1B-intermediate"),
        ("TinyLlama-1.1B-intermediate-step-1431k-3T", 1_431_000, "TinyLlama-1.1B-intermediate"),
        ("m-step-10k-7b", 10_000, "m-7b"),
        ("step1000-105b", 1000, "-105b"),
        ("step10kg", None, "step10kg"),
        ("main", None, "main"),
        ("meta-llama/Llama-3-8B", None, "meta-llama/Llama-3-8B"),
        ("twostep5", None, "twostep5"),
        ("step", None, "step"),
        ("step5b-model", None, "step5b-model"),
        ("step3.5-flash", None, "step3.5-flash"),
        ("step12.5k", None, "step12.5k"),
        ("step-100.safetensors", 100, ".safetensors"),
        ("step" + "9" * 40, None, "step" + "9" * 40),
    ],
)
def test_steps_in_names(name, step, rest):
    assert step_in(name) == (step, rest)


def test_patterns_of_the_user_have_one_group():
    assert parse_step_pattern(None) is None
    assert parse_step_pattern(r"s(\d+)").search("s12")[1] == "12"
    with pytest.raises(InputError, match=r'step_from="s\(": is not a regular expression'):
        parse_step_pattern("s(")
    for wrong in ("step", r"(s)(\d+)"):
        with pytest.raises(InputError, match="needs one group for the digits"):
            parse_step_pattern(wrong)


def test_steps_by_a_pattern():
    pattern = re.compile(r"it(\d*)")
    assert step_by_pattern("lab/m-it20", pattern) == (20, "lab/m")
    for name in ("main", "m-it", "it" + "9" * 40):
        assert step_by_pattern(name, pattern) == (None, name)


@pytest.mark.parametrize(
    ("state", "step"), [('{"global_step": 7}', 7), ('{"global_step": "x"}', None), ("[" * 100_000, None), ("{}", None)]
)
def test_the_state_that_a_trainer_left(tmp_path, state, step):
    (tmp_path / "trainer_state.json").write_text(state)
    assert trainer_step(str(tmp_path)) == step
    assert trainer_step("no/such/model") is None
