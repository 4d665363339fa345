import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.study import StudySpec, differences, read_study_file, resolved_study, resolved_yaml, shipped_studies
from breadth.study.document import read_document

words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=12)
awkward = st.sampled_from(
    ["on", "yes", "No", "null", "~", "1e5", "1_0", "0x1f", "010", "1:30", "=", "<<", "2001-01-01", ".5"]
)
texts = words | awkward
numbers = st.floats(1e-9, 1e6)


@st.composite
def studies(draw):
    names = st.lists(texts, min_size=1, max_size=3)
    recipe = st.fixed_dictionaries(
        {},
        optional={
            "lr": numbers,
            "alpha": numbers,
            "layers": st.just("all") | st.integers(1, 99),
            "targets": st.sampled_from(["attention", "mlp"]) | names,
            "clip": st.none() | numbers,
            "epochs": numbers,
            "device": texts,
        },
    )
    models = st.lists(texts | st.fixed_dictionaries({"name": texts, "recipe": recipe}), min_size=1, max_size=3)
    own = st.fixed_dictionaries(
        {"file": texts}, optional={"answers": st.dictionaries(texts, texts, max_size=3), "pattern": texts}
    ) | st.fixed_dictionaries({"file": texts, "kind": st.just("choice")}, optional={"normalise": st.booleans()})
    train = st.fixed_dictionaries(
        {"set": names}, optional={"examples": st.integers(1, 9), "strategies": st.just(["full"])}
    )
    return StudySpec.model_validate(
        {
            "name": "s",
            "description": draw(st.text(st.characters(codec="utf-8"), max_size=200)),
            "models": draw(models),
            "train": draw(st.none() | train),
            "recipe": draw(recipe),
            "evaluate": {"on": draw(names)},
            "sets": draw(st.dictionaries(texts, own, max_size=2)),
            "answers": draw(st.none() | st.dictionaries(texts, texts, max_size=3)),
        }
    )


@given(studies())
def test_resolved_yaml_reads_back_to_the_same_study(study):
    text = resolved_yaml(study)
    again = StudySpec.model_validate(read_document(text, "s.yaml").value)
    assert again == study
    assert resolved_yaml(again) == text
    assert differences(resolved_study(study), resolved_study(again)) == []


@pytest.mark.parametrize(
    "word",
    [
        "no",
        "off",
        "Yes",
        "y",
        "0x1f",
        "0o17",
        "0b1",
        "1_000",
        "1_0.5",
        "1:30",
        "2001-01-01",
        "=",
        "<<",
        "+.5e",
        "1.5.2",
    ],
)
def test_text_of_yaml_1_2(word):
    """Other versions and libraries take these for numbers, dates, booleans or merged keys."""
    assert read_document(f"{word}: [{word}]", "s.yaml").value == {word: [word]}
    assert read_document(f"%YAML 1.1\n---\n- {word}", "s.yaml").value == [word]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("1e-3", 0.001),
        ("1.", 1.0),
        (".5", 0.5),
        ("+5", 5),
        ("010", 10),
        ("-.inf", -math.inf),
        ("~", None),
        ("TRUE", True),
    ],
)
def test_words_that_are_no_text(word, value):
    document = read_document(f"{word}: {word}", "s.yaml")
    assert document.value == {word: value}  # keys are text as written
    assert type(document.value[word]) is type(value)


def test_aliases_are_read_where_they_stand():
    document = read_document("a: &x {b: 1, b: 2}\nc:\n- *x\n", "s.yaml")
    assert document.value == {"a": {"b": 1}, "c": [{"b": 1}]}
    assert [(problem.place, problem.line) for problem in document.problems] == [(("a", "b"), 1), (("c", 0, "b"), 1)]


def test_shipped_studies_read_back():
    for name in shipped_studies():
        study = read_study_file(name).study
        assert StudySpec.model_validate(read_document(resolved_yaml(study), name).value) == study


def test_differences():
    old = resolved_study(read_study_file("small").study)
    new = resolved_study(read_study_file("small").study)
    new["recipe"]["lr"] = 0.0001
    new["models"] = [
        {"name": "smollm2-135m", "recipe": {"layers": 4}, "resources": None},
        {"name": "a/b", "recipe": {}, "resources": None},
    ]
    new["train"]["examples"] = [256, 512]
    new["evaluate"]["on"] = list(reversed(old["evaluate"]["on"]))[:-1]
    new["sets"] = {"mine": {"file": "x.csv"}}
    new["recipe"]["clip"] = None
    new["name"] = "large"
    assert differences(old, new) == [
        "name: small -> large",
        "models.smollm2-135m.recipe.layers: 4 added",
        "models: gemma3-270m removed",
        "models: a/b added",
        "train.examples: 512 added",
        "recipe.lr: 0.001 -> 0.0001",
        "recipe.clip: 1.0 -> nothing",
        "evaluate.on: everyday removed",
        "sets.mine: {file: x.csv} added",
    ]


def test_another_order_is_a_difference():
    assert differences({"on": ["a", "b"]}, {"on": ["b", "a"]}) == ["on: [a, b] -> [b, a]"]
    assert differences({"x": [0, 0]}, {"x": [0]}) == ["x: [0, 0] -> [0]"]
    assert differences({"x": False}, {"x": True}) == ["x: false -> true"]


def test_entries_of_one_name_are_compared_with_their_like():
    def models(*recipes):
        return {"models": [{"name": "m", "recipe": recipe} for recipe in recipes]}

    few, lora = {"method": "few-shot"}, {"method": "lora", "lr": 0.1}
    assert differences(models(few, lora), models(lora, few)) == []
    assert differences(models(few), models(few, lora)) == ["models: m added"]
    assert differences(models(few, lora), models(few)) == ["models: m removed"]
    assert differences(models(few, lora), models(few, {**lora, "lr": 0.2})) == ["models.m.recipe.lr: 0.1 -> 0.2"]
