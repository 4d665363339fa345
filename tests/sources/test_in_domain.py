"""Which test sets are in-domain for what a run was trained on."""

import numpy as np
import polars as pl
import pytest

from breadth.records.study import Study

SHIFTS = {"mnli.a": "in-domain", "mnli.b": "in-domain", "hans": "in-domain", "snli": "domain", "mnli2": "in-domain"}


def study_of(shifts):
    items = [(name, f"{name}-{k}", shift) for name, shift in shifts.items() for k in range(2)]
    frame = pl.DataFrame(items, schema=["testset", "item", "shift"], orient="row")
    return Study("s", pl.DataFrame({"subject": ["a"]}), frame, np.ones((1, frame.height), dtype=np.int8))


@pytest.mark.parametrize(
    ("train_set", "expected"),
    [
        (None, ()),
        ("hans", ("hans",)),
        ("snli", ("snli",)),  # by its name, whatever its shift
        ("mnli", ("mnli.a", "mnli.b")),
        ("mnli+hans", ("hans", "mnli.a", "mnli.b")),
        ("hans+qnli", ("hans",)),
        ("qnli", ("hans",)),  # not evaluated: the first that is marked
    ],
)
def test_the_in_domain_sets(train_set, expected):
    assert study_of(SHIFTS).in_domain(train_set) == expected


def test_nothing_is_in_domain():
    assert study_of({"snli": "domain"}).in_domain("mnli") == ()
