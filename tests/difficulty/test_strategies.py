import subprocess
import sys
from typing import get_args

from breadth.difficulty.strategies import STRATEGIES, Order, Selection, Strategy


def test_every_strategy_has_a_selection_and_an_order():
    assert set(STRATEGIES) == set(get_args(Strategy))
    assert {plan.selection for plan in STRATEGIES.values()} == set(get_args(Selection))
    assert {plan.order for plan in STRATEGIES.values()} == set(get_args(Order))


def test_the_words_load_no_numerical_library():
    code = "import sys, breadth.difficulty.strategies; print(*{'numpy', 'polars', 'scipy'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == ""


def test_the_package_gives_every_public_name():
    import breadth.difficulty as package

    assert all(getattr(package, name) is not None for name in package.__all__)
    assert not hasattr(package, "nothing_like_it")
