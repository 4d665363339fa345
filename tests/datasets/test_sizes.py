import pytest

from breadth.datasets.registry import REGISTRY
from breadth.datasets.sizes import usual_items
from breadth.sources import USUAL_ITEMS


@pytest.mark.parametrize(
    ("column", "items"),
    [
        ("hans", 30000),
        ("HellaSwag", 10042),
        ("hella_swag", 10042),
        ("eval/hellaswag acc_norm", 10042),
        ("lambada_openai", 5153),
        ("ARC-Challenge", 1172),
        ("my own set", None),
        ("hans_subset", None),
        ("", None),
    ],
)
def test_well_known_sets_are_found_by_name(column, items):
    assert usual_items(column) == items


def test_sets_of_the_registry_have_the_size_that_breadth_evaluates():
    known = [name for name, entry in REGISTRY.items() if entry.kind != "generated"]
    assert known
    for name in known:
        assert usual_items(name) == REGISTRY[name].items


def test_a_generated_set_has_as_many_items_as_its_user_asks_for():
    for name, entry in REGISTRY.items():
        if entry.kind == "generated" and name not in USUAL_ITEMS:
            assert usual_items(name) is None, name
