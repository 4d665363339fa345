import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from breadth.inference import benjamini_hochberg


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_equals_scipys(p):
    assert np.allclose(benjamini_hochberg(np.array(p)), stats.false_discovery_control(p))


def test_missing_tests_do_not_count():
    q = benjamini_hochberg(np.array([0.01, np.nan, 0.04]))
    assert np.isnan(q[1])
    assert np.allclose(q[[0, 2]], [0.02, 0.04])
    assert benjamini_hochberg(np.array([])).size == 0
