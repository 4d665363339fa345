from pathlib import Path

import pytest

from breadth.execute.materials import Materials
from breadth.study import expand, parse_study


@pytest.fixture
def materials(tmp_path):
    """Materials and runs of a study written as text; own files lie in ``tmp_path``."""

    def read(text):
        whole = f"name: s\nmodels: smollm2-135m\n{text}\n"
        file = parse_study(whole, Path("s.yaml"), tmp_path)
        return Materials(file), expand(file)

    return read
