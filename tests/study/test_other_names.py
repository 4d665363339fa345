import pytest

from breadth.study.other_names import _CONVERSIONS, _NAMES, _WITHOUT, other_name
from breadth.study.schema import StudySpec
from breadth.study.sections import sections

KEYS = {f"{prefix}{key}": section for prefix, section in sections(StudySpec) for key in section.all_fields()}


@pytest.mark.parametrize(
    ("section", "name", "meant"),
    [
        ("recipe.", "learning_rate", "lr"),
        ("recipe.", "num_epochs", "epochs"),
        ("recipe.", "num_train_epochs", "epochs"),
        ("recipe.", "batch_size", "batch"),
        ("recipe.", "per_device_train_batch_size", "batch"),
        ("recipe.", "max_steps", "steps"),
        ("recipe.", "lora_r", "rank"),
        ("recipe.", "r", "rank"),
        ("recipe.", "lora_alpha", "alpha"),
        ("recipe.", "target-modules", "targets"),
        ("recipe.", "Max_Grad_Norm", "clip"),
        ("evaluate.", "eval_steps", "every"),
        ("evaluate.", "tasks", "on"),
        ("evaluate.", "datasets", "on"),
        ("evaluate.", "limit", "items"),
        ("evaluate.", "num_examples", "items"),
        ("train.", "num_examples", "examples"),
        ("train.", "n_train", "examples"),
        ("train.", "datasets", "set"),
        ("train.", "seed", "seeds"),
        ("train.start.", "learning_rate", "lr"),
        ("sets.NAME.", "prompt", "pattern"),
        ("sets.NAME.", "label_column", "label"),
        ("", "model_name", "models"),
        ("", "tasks", "evaluate.on"),
        ("", "lr_scheduler_type", "recipe.schedule"),
        ("", "seed", "train.seeds"),
        ("train.", "learning_rate", "recipe.lr"),
    ],
)
def test_names_of_other_tools(section, name, meant):
    here = dict(sections(StudySpec))[section].all_fields()
    assert other_name(name, here).key == meant


def test_values_that_need_converting_say_so():
    for name in ("warmup_steps", "gradient_accumulation_steps", "per_device_train_batch_size", "load_in_4bit", "beta1"):
        assert other_name(name, ()).note
    assert other_name("learning_rate", ()).note == ""
    assert other_name("output_dir", ()) == ("", "The directory is an option: `breadth run STUDY --into DIR`")
    assert other_name("colour", ()) is None


def test_the_table_names_keys_that_exist_and_no_key_of_ours():
    assert set(_NAMES) <= set(KEYS)
    others = {name for names in _NAMES.values() for name in names.split()}
    assert set(_CONVERSIONS) <= others
    assert not others & set(_WITHOUT)
    for key, names in _NAMES.items():
        assert not set(names.split()) & set(KEYS[key].all_fields()), f"{key} has a key of this name beside it"
