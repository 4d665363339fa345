"""Examples in docstrings run and print what they say."""

import doctest
import importlib
import pkgutil

import pytest

import breadth

MODULES = [
    info.name for info in pkgutil.walk_packages(breadth.__path__, "breadth.") if not info.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
