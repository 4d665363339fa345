import subprocess
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from breadth.endpoints import Endpoint
from breadth.errors import InputError
from breadth.study import expand, parse_study, read_study_file, resolved_study

HEAD = "name: s\nmodels: smollm2-135m\n"
TRAIN = "train: {set: plain, examples: 32}\n"
RECIPE = "recipe: {epochs: 1}\n"
EVALUATE = "evaluate: {on: [plain, negation]}\n"


def test_a_good_file(study):
    file = study()
    assert file.name == "good"
    assert file.study.train.examples == [32]
    assert file.study.models[0].name == "smollm2-135m"
    assert file.warnings == ()


def test_words_are_words(study):
    text = HEAD + TRAIN + RECIPE + EVALUATE + "answers: {entailment: ' Yes', not_entailment: No}\ndescription: on\n"
    spec = study(text).study
    assert spec.answers == {"entailment": " Yes", "not_entailment": "No"}
    assert spec.description == "on"
    assert study(HEAD + TRAIN + "recipe: {epochs: 1, lr: 1e-3}\n" + EVALUATE).study.recipe.lr == 0.001


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: x\nmodels: [a, b\nrecipe: {}\n", r"s.yaml: line 3, column 7: is not YAML .*began in line 2"),
        ("name: x\n\tmodels: [a]\n", r"line 2, column 1: .*indent with blanks, not tabs"),
        ("name: x\npattern: a: b\n", r"line 2, column 11: .*quote text that contains"),
        ("name: x\nmodels: &a [*a]\n", r"line 2, column 9: .*alias that contains itself"),
        ("name: !!python/object:os.system x\n", r"line 1, column 7: .*is not allowed"),
        ("name: !!set {x}\n", r"line 1, column 7: .*is not allowed"),
        ("name: x\n? [a]\n: b\n", r"line 2, column 3: .*a key must be a single word"),
        ("name: x\nb: \x01\n", r"line 2: contains a control character"),
        ("- a\n", "is not a study file"),
        ("only words", "is not a study file"),
        ("# nothing\n", "is empty"),
        ("name: x\n---\nname: y\n", "line 2, column 1: is not YAML"),
        ("a: [" + "[" * 5000 + "]" * 5000 + "]", "nested too deeply"),
        ("name: x\ndescription: !!int abc\n", "line 2, column 14: .*cannot be read"),
    ],
)
def test_no_yaml(study, text, message):
    with pytest.raises(InputError, match=message) as caught:
        study(text)
    assert "\n" not in str(caught.value)


def test_nested_aliases_do_not_fill_the_memory(study):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 9)]
    with pytest.raises(InputError, match="more than 20,000 values"):
        study("\n".join(lines))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: a b\nmodels: smollm2-135m\n", "line 1, name: 'a b' must consist of letters"),
        ("name: s\nmodels: []\n", "line 2, models: is empty"),
        (
            "name: s\nmodels: smolm2-135m\n",
            "line 2, models: unknown model 'smolm2-135m'. Did you mean smollm2-135m?",
        ),
        ("name: s\nmodels:\n- smollm2-135m\n- ./nowhere\n", "line 4, models: './nowhere' is not a directory"),
        ("name: s\nmodels:\n- smollm2-135m\n- smollm2-135m\n", "line 4, models: 'smollm2-135m' is listed more than"),
        (
            "name: s\nmodels:\n- a/b\n- name: c/d\n  recipe:\n    lrr: 1\n",
            "line 6, models.recipe.lrr: unknown key. Did you mean lr?",
        ),
        (
            "name: s\nmodels:\n- {name: a/b, recipe: {rank: 0}}\n",
            "line 3, models.recipe.rank: 0 is too small; it must be 1",
        ),
        ("name: s\nmodels:\n- {recipe: {rank: 1}}\n", "line 3, models.name: is missing"),
        ("name: s\nmodels: a/b\nsets: [a]\n", "line 3, sets: must have keys, as sets: {key: value}, not ['a']"),
        ("name: s\nmodels: a/b\nsets: {x: y.csv}\n", "line 3, sets.x: must have keys (file, shift, fields"),
        ("name: s\nmodels:\n- a/b\n- 7\n", "line 4, models: a model is a name or {name: ..., recipe: {...}}, not 7"),
        (f"{HEAD}recpie: {{}}\n", "line 3, recpie: unknown key. Did you mean recipe?"),
        (f"{HEAD}epochs: 3\n", "line 3, epochs: unknown key. It belongs under recipe."),
        (f"{HEAD}zzz: 3\n", "line 3, zzz: unknown key. Keys here: name, description"),
        (f"{HEAD}pattern: no field\n", "line 3, pattern: has no field in braces"),
        (f"{HEAD}pattern: '{{premis}} is'\n", "line 3, pattern: plain has no field 'premis'. Did you mean premise?"),
        (f"{HEAD}pattern: '{{premise'\n", "line 3, pattern: pattern '{premise': expected '}'"),
        (f"{HEAD}answers: {{entailment: Yes}}\n", "line 3, answers: needs at least two labels"),
        (f"{HEAD}answers: {{a: Yes, b: No}}\n", "line 3, answers: no answer for 'entailment', 'not_entailment'"),
        (
            f"{HEAD}answers:\n  entailment: Yes\n  not_entailment: ' '\n",
            "line 5, answers.not_entailment: the answer is",
        ),
        (
            f"{HEAD}answers: {{entailment: Yes, not_entailment: 'Yes '}}\n",
            "line 3, answers: two labels have the answer 'Yes'",
        ),
    ],
)
def test_head(problems, text, expected):
    (problem,) = problems(text + TRAIN + RECIPE + EVALUATE)
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        ("{epochs: 1, steps: 2}", "recipe.steps: method lora: both epochs and steps are given"),
        ("{method: full}", "recipe.method: method full: give epochs or steps"),
        ("{method: zero-shot, steps: 3}", "recipe.steps: method zero-shot trains nothing; remove steps"),
        ("{method: few-shot, epochs: 3}", "recipe.epochs: method few-shot trains nothing"),
        ("{method: zero-shot, keep: last}", "recipe.keep: method zero-shot trains no weights to keep"),
        ("{epochs: 1, keep: lats}", "recipe.keep: 'lats' is not one of none, last, best, all. Did you mean last"),
        ("{epochs: 1, batch: 8, micro_batch: 3}", "recipe.micro_batch: 3 does not divide batch 8"),
        (
            "{epochs: 1, method: lra}",
            "recipe.method: 'lra' is not one of lora, ia3, bitfit, full, zero-shot, few-shot, evaluate.",
        ),
        (
            "{epochs: 1, targets: atention}",
            "recipe.targets: 'atention' is not one of attention, mlp, all. Did you mean att",
        ),
        ("{epochs: 1, layers: 0}", "recipe.layers: 0 is wrong; give all, or how many layers"),
        ("{epochs: 1, lr: fast}", "recipe.lr: 'fast' is not a number"),
        ("{epochs: 1, lr: .inf}", "recipe.lr: inf is not a finite number"),
        ("{epochs: 1, rank: 2.5}", "recipe.rank: 2.5 is not a whole number"),
        ("{epochs: 1, rank: true}", "recipe.rank: true and false are neither numbers nor text"),
        ("{epochs: 1, dropout: 1}", "recipe.dropout: 1 is too large; it must be below 1"),
        ("{epochs: 1, warmup: 2}", "recipe.warmup: 2 is too large; it must be 1 or less"),
        ("{epochs: 0}", "recipe.epochs: 0 is too small; it must be above 0"),
        ("{epochs: 1, betas: [0.9, 1.5]}", "recipe.betas: 1.5 is too large; it must be below 1"),
        ("{epochs: 1, betas: 0.9}", "recipe.betas: 0.9 is not a list"),
        ("{epochs: 1, dtype: null}", "recipe.dtype: None is not one of auto, float32"),
        (
            "lora",
            "recipe: must have keys (method, rank, alpha, dropout, targets, layers, ... (25 in all)), not",
        ),
    ],
)
def test_recipe(problems, recipe, expected):
    (problem,) = problems(f"{HEAD}{TRAIN}{EVALUATE}recipe: {recipe}\n")
    assert problem.startswith(f"line 5, {expected}")


def test_training_needs_examples(problems):
    assert problems(HEAD + RECIPE + EVALUATE) == [
        "line 1, train: is missing: method lora needs examples, as train: {set: plain, examples: 128}"
    ]
    (problem,) = problems(HEAD + "recipe: {method: few-shot}\n" + EVALUATE)
    assert problem.startswith(
        "line 1, train: is missing: method few-shot needs examples, which it takes from train.set"
    )


def test_checkpoints_need_training(problems):
    text = HEAD + "recipe: {method: zero-shot}\nevaluate:\n  on: plain\n  every: 4\n"
    (problem,) = problems(text)
    assert problem.startswith("line 6, evaluate.every: nothing is trained")


@pytest.mark.parametrize(
    ("train", "expected"),
    [
        ("{set: plane}", "train.set: unknown data set 'plane'. Did you mean plain?"),
        ("{set: [plain, plain]}", "train.set: 'plain' is listed more than once"),
        ("{examples: 3}", "train.set: is missing (data sets to train on"),
        ("{set: gsm8k}", "train.set: gsm8k is of kind generate, which loss answers cannot train on"),
        ("{set: plain, examples: [8, 0]}", "train.examples: 0 is too small; it must be 1 or more"),
        ("{set: plain, examples: [8, 8]}", "train.examples: 8 is listed more than once"),
        ("{set: plain, seeds: -1}", "train.seeds: -1 is too small; it must be 0 or more"),
        ("{set: plain, seeds: [1, 1]}", "train.seeds: 1 is listed more than once"),
        ("{set: plain, seeds: [true]}", "train.seeds: true and false are neither numbers"),
        ("{set: plain, levels: 5}", "train.levels: needs train.difficulty"),
        ("{set: plain, strategies: [easy]}", "train.strategies: needs train.difficulty"),
        ("{set: plain, order: rising}", "train.order: needs train.difficulty"),
        (
            "{set: plain, strategies: [spirl]}",
            "train.strategies: 'spirl' is not one of easy, hard, middle, full, centred, "
            "spiral, curriculum, anti-curriculum. Did you mean spiral?",
        ),
        ("{set: plain, difficulty: {}}", "train.difficulty: give column, calibration or study"),
        ("{set: plain, difficulty: {column: a, study: b}}", "train.difficulty: column and study are given; keep one"),
        ("{set: plain, difficulty: {study: b, hard_is: low}}", "train.difficulty.hard_is: is only for column"),
        ("{set: plain, difficulty: {column: 3}}", "train.difficulty.column: 3 is not text"),
        ("{set: plain, train_levels: [0]}", "train.train_levels: needs train.levels"),
        (
            "{set: plain, difficulty: {column: a}, levels: 3, train_levels: [0, 3]}",
            "train.train_levels: unknown level 3; levels are 0 to 2",
        ),
        (
            "{set: plain, difficulty: {column: a}, levels: 3, train_levels: [1, 1]}",
            "train.train_levels: 1 is listed",
        ),
        ("{set: plain, difficulty: {column: a}, levels: 3, train_levels: []}", "train.train_levels: is empty"),
        ("{set: plain, difficulty: {column: a}, levels: 1}", "train.levels: 1 is too small; it must be 2 or more"),
        ("{set: plain, start: {epochs: 2}}", "train.start.examples: is missing"),
        ("{set: plain, start: 5}", "train.start: must have keys (examples, lr, epochs), not 5"),
        ("{set: plain, start: {examples: 0}}", "train.start.examples: 0 is too small; it must be 1 or more"),
        ("{set: plain, start: {examples: 8, steps: 3}}", "train.start.steps: unknown key"),
        ("3", "train: must have keys (set, mix, examples, seeds"),
    ],
)
def test_train(problems, train, expected):
    (problem,) = problems(f"{HEAD}{RECIPE}{EVALUATE}train: {train}\n")
    assert problem.startswith(f"line 5, {expected}")


@pytest.mark.parametrize(
    ("evaluate", "expected"),
    [
        ("{on: [plain, negaton]}", "evaluate.on: unknown data set 'negaton'. Did you mean negation?"),
        ("{on: [plain, qqqqqqq]}", "evaluate.on: unknown data set 'qqqqqqq'. Data sets: "),
        ("{on: [plain, plain]}", "evaluate.on: 'plain' is listed more than once"),
        ("{on: plain, every: 0}", "evaluate.every: 0 is too small"),
        ("{on: plain, items: 1}", "evaluate.items: 1 is too small; it must be 2 or more"),
        ("{every: 3}", "evaluate.on: is missing"),
        ("{on: [plain, 3]}", "evaluate.on: 3 is not text"),
    ],
)
def test_evaluate(problems, evaluate, expected):
    (problem,) = problems(f"{HEAD}{RECIPE}{TRAIN}evaluate: {evaluate}\n")
    assert problem.startswith(f"line 5, {expected}")


def test_the_same_key_twice(problems):
    text = HEAD + TRAIN + EVALUATE + "recipe:\n  epochs: 1\n  rank: 4\n  epochs: 2\nname: t\n"
    assert problems(text) == [
        "line 8, recipe.epochs: is given twice (first in line 6); keep one",
        "line 9, name: is given twice (first in line 1); keep one",
    ]


def test_everything_at_once(problems):
    lines = problems(
        "models: [smolm2-135m, {nam: x}]\n"
        "train:\n  set: [plane, 3]\n  levels: 4\n"
        "recipe:\n  method: lora\n  lr: fast\n  epochs: -1\n  micro_batch: 5\n"
        "evaluate:\n  on: [snlii]\n"
        "sets:\n  snli: {kind: choice, options: null, pattern: '{q}'}\n"
    )
    assert [line.split(":")[0] for line in lines] == [
        "line 1, name", "line 1, models.nam", "line 1, models", "line 3, train.set",
        "line 3, train.set", "line 4, train.levels", "line 7, recipe.lr", "line 8, recipe.epochs",
        "line 9, recipe.micro_batch", "line 11, evaluate.on", "line 13, sets.snli.kind", "line 13, sets.snli.options",
    ]  # fmt: skip


def test_a_key_under_another_name_is_one_problem(problems):
    """That the key it was meant for is missing follows from it, wherever that key is."""
    assert problems(f"name: s\nmodel_name_or_path: a/b\n{TRAIN}{EVALUATE}recipe: {{num_train_epochs: 1}}\n") == [
        "line 2, model_name_or_path: unknown key. Did you mean models?",
        "line 5, recipe.num_train_epochs: unknown key. Did you mean epochs?",
    ]
    assert problems(f"{HEAD}{TRAIN}{EVALUATE}recipe: {{}}\nmax_steps: 100\n") == [
        "line 6, max_steps: unknown key. Did you mean recipe.steps?"
    ]
    # A key that is there under its own name too can have problems of its own.
    assert problems(f"{HEAD}{TRAIN}{EVALUATE}recipe: {{epoch: 1, epochs: -1}}\n") == [
        "line 5, recipe.epochs: -1 is too small; it must be above 0",
        "line 5, recipe.epoch: unknown key. Did you mean epochs?",
    ]


def test_a_wrong_value_is_not_reported_again_as_missing(problems):
    assert problems(f"{HEAD}{TRAIN}{EVALUATE}recipe: {{steps: -1}}\n") == [
        "line 5, recipe.steps: -1 is too small; it must be 1 or more"
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            "evaluate: {on: negation}",
            "evaluate.on: plain is trained on but not evaluated, so there is no in-domain control",
        ),
        ("evaluate: {on: plain, every: 50}", "evaluate.every: no run has more than 2 steps"),
        (
            "evaluate: {on: plain}\nanswers: {entailment: Yes, not_entailment: ' No'}",
            "answers.entailment: 'Yes' has no leading space",
        ),
    ],
)
def test_warnings(study, change, expected):
    (warning,) = study(f"{HEAD}{TRAIN}{RECIPE}{change}\n").warnings
    assert expected in warning
    assert warning.startswith("line ")


@pytest.mark.parametrize("method", ["lora", "full"])
def test_float16_trains_nothing(study, method):
    text = HEAD + TRAIN + f"recipe:\n  method: {method}\n  epochs: 1\n  dtype: float16\n" + EVALUATE
    with pytest.raises(InputError, match=r"line 7, recipe.dtype: .*loss scale.*; use bfloat16 or float32"):
        study(text)
    assert study(HEAD + "recipe: {method: zero-shot, dtype: float16}\n" + EVALUATE).warnings == ()


def test_training_in_half_precision_is_warned_of_by_name(study):
    text = HEAD.replace("smollm2-135m", "[smollm2-135m, gemma3-270m]") + TRAIN + EVALUATE
    (warning,) = study(text + "recipe: {epochs: 1, dtype: pure-bfloat16}\n").warnings
    assert warning.startswith("line 5, recipe.dtype: ")
    assert all(figure in warning for figure in ("5.54", "5.84", "3.55", "0.83", "0.9%"))
    own = text.replace("gemma3-270m]", "{name: gemma3-270m, recipe: {dtype: pure-bfloat16}}]")
    (warning,) = study(own + "recipe: {epochs: 1}\n").warnings
    assert warning.startswith("line 2, models.recipe.dtype: ")
    assert study(text + "recipe: {epochs: 1, dtype: bfloat16}\n").warnings == ()
    assert study(HEAD + EVALUATE + "recipe: {method: zero-shot, dtype: pure-bfloat16}\n").warnings == ()


def test_warnings_about_what_is_not_used(study):
    text = (
        HEAD + "train: {set: gsm8k, examples: 3}\nrecipe: {method: few-shot}\nevaluate: {on: gsm8k}\npattern: '{a}'\n"
    )
    assert [line.split(":")[0] for line in study(text).warnings] == ["line 3, train.examples", "line 6, pattern"]


def test_a_calibration_that_is_not_there_yet(study, tmp_path):
    text = HEAD + RECIPE + EVALUATE + "train: {set: plain, levels: 3, difficulty: {calibration: c.csv}}\n"
    (warning,) = study(text).warnings
    assert warning == "line 5, train.difficulty.calibration: c.csv does not exist yet; `breadth run` will need it"
    (tmp_path / "c.csv").write_text("item,difficulty\na,1\n")
    assert study(text).warnings == ()


def test_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(HEAD + TRAIN + RECIPE + EVALUATE)
    assert read_study_file("s.yaml").base == read_study_file(tmp_path / "s.yaml").base.relative_to(tmp_path)
    with pytest.raises(InputError, match=r"nor the name of a study that comes with breadth\. Did you mean small\?"):
        read_study_file("smal")
    with pytest.raises(InputError, match=r"Did you mean s\.yaml\?"):
        read_study_file("ss.yaml")
    with pytest.raises(InputError, match="is a directory"):
        read_study_file(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("name: é".encode("latin-1"))
    with pytest.raises(InputError, match="cannot be read as UTF-8 text"):
        read_study_file("latin.yaml")


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=5)
        | st.sampled_from(["plain", "all"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["name", "models", "recipe", "train", "set", "on", "sets", "file", "evaluate", "answers", "x"]
                ),
                inner,
                max_size=6,
            )
        ),
        max_leaves=12,
    )
)
def test_no_value_gives_a_traceback(tmp_path_factory, value):
    """Whatever is in a file, the answer is a study or an InputError with a line for every problem."""
    folder = tmp_path_factory.getbasetemp()
    said = str(folder / "s.yaml")
    try:
        count = len(expand(parse_study(yaml.safe_dump(value, allow_unicode=True), folder / "s.yaml", folder)))
    except InputError as error:
        count = str(error).count(said)
    assert count


def test_a_shipped_study_is_found_beside_its_own_directory(tmp_path, monkeypatch):
    """`breadth run small` makes a directory small; the same command again must resume it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()
    assert read_study_file("small").name == "small"


def test_validating_stays_light():
    code = "import sys, breadth.study; print(*{'scipy', 'torch', 'altair'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""


BOUNDED = """\
name: s
models: smollm2-135m
train: {set: plain, examples: 16}
recipe: {method: lora, steps: 8}
evaluate: {on: [plain], every: 1}
"""
MANY = ", ".join(map(str, range(1, 1001)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps: 8", "steps: 1000000000", "too large; it must be 10,000,000 or less"),
        ("steps: 8", "steps: 9999999", "the study has 10,000,001 checkpoints; at most 1,000,000"),
        ("steps: 8", "epochs: 1.0e+12", "too large"),
        ("steps: 8", "epochs: 900000", "steps; at most|checkpoints; at most"),
        ("examples: 16", f"examples: [{MANY}], seeds: [{MANY}]", "the study has 1,000,000 runs; at most 100,000"),
        ("examples: 16", "examples: 99999999999", "too large"),
        ("smollm2-135m", "~nouser/x", "is not a directory"),
        ("smollm2-135m", "/" + "x" * 300, "is not a directory"),
    ],
)
def test_numbers_and_paths_beyond_reason(tmp_path, old, new, message):
    (tmp_path / "s.yaml").write_text(BOUNDED.replace(old, new).replace("examples: 16", "examples: 1600"))
    with pytest.raises(InputError, match=message):
        read_study_file(tmp_path / "s.yaml")


def test_bombs_of_aliases(tmp_path):
    nested = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    long = f"x: &x '{'y' * 500_000}'\nname: [{', '.join(['*x'] * 9000)}]\n"
    for text in (f"{nested}name: *i\n", long):
        (tmp_path / "s.yaml").write_text(text)
        with pytest.raises(InputError, match="with aliases expanded"):
            read_study_file(tmp_path / "s.yaml")
    (tmp_path / "s.yaml").write_text("#" * 1_000_001)
    with pytest.raises(InputError, match="a study file has at most 1,000,000"):
        read_study_file(tmp_path / "s.yaml")


def test_a_study_file_is_a_regular_file(tmp_path):
    (tmp_path / "s.yaml").symlink_to("/dev/zero")
    with pytest.raises(InputError, match="is not a regular file"):
        read_study_file(tmp_path / "s.yaml")


ENDPOINT = """\
name: good
models: {model}
recipe: {{method: zero-shot}}
evaluate: {{on: plain}}
"""


def test_a_model_behind_an_endpoint(study):
    model = "[{endpoint: 'http://localhost:8000/v1/', model: org/m, key_env: MY_KEY}, smollm2-135m]"
    text = ENDPOINT.format(model=model)
    first, second = study(text).study.models
    assert first.name == "org/m"
    assert first.behind() == Endpoint("http://localhost:8000/v1", "org/m", key_env="MY_KEY")
    assert second.behind() is None
    resolved = resolved_study(study(text).study)["models"]
    assert resolved[0]["key_env"] == "MY_KEY"
    assert "endpoint" not in resolved[1]
    assert study(text).warnings == ()
    assert "the key is sent without encryption" in study(text.replace("localhost", "example.org")).warnings[0]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("{endpoint: U, model: m, key_env: sk-secret-1}", "models.key_env: is not the name of an"),
        ("{endpoint: U, model: m, api_key: sk-secret-1}", "unknown key. Did you mean key_env?"),
        ("{endpoint: 'http://u:sk-secret-1@h/v1', model: m}", "models.endpoint: has a user or password"),
        ("{endpoint: 'h:8000', model: m}", "models.endpoint: is not an address"),
        ("{endpoint: U}", "models: model is missing"),
        ("{endpoint: U, name: n}", "models: model is missing"),
        ("{name: smollm2-135m, key_env: K}", "models.key_env: is for a model behind an endpoint"),
        ("{endpoint: U, model: m, concurrency: 0}", "models.concurrency: 0 is too small"),
        ("{endpoint: U, model: m, resources: {gpus: 1}}", "models.resources: a model behind an endpoint"),
        ("{endpoint: U, model: m, recipe: {method: lora}}", "method lora trains weights, which an endpoint"),
    ],
)
def test_wrong_endpoints(problems, model, said):
    (line,) = problems(ENDPOINT.format(model="[" + model.replace("U", "'http://h/v1'") + "]"))
    assert said in line
    assert "sk-secret-1" not in line


def test_a_study_that_trains_is_one_problem(problems):
    text = ENDPOINT.format(model="{endpoint: 'http://h/v1', model: m}").replace("{method: zero-shot}", "{}")
    (line,) = problems(text)
    assert "method lora trains weights, which an endpoint does not give; use zero-shot or few-shot" in line
