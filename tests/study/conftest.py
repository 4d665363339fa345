from pathlib import Path

import pytest

from breadth.errors import InputError
from breadth.study import parse_study

GOOD = """\
name: good
models: smollm2-135m
train: {set: plain, examples: 32}
recipe: {epochs: 1}
evaluate: {on: [plain, negation]}
"""


@pytest.fixture
def study(tmp_path):
    """Read a study from text; own files lie in ``tmp_path``."""

    def read(text=GOOD):
        return parse_study(text, Path("s.yaml"), tmp_path)

    return read


@pytest.fixture
def problems(study):
    """The lines of the message about a study that is wrong."""

    def find(text):
        with pytest.raises(InputError) as caught:
            study(text)
        first, *rest = str(caught.value).splitlines()
        assert first == f"s.yaml: {len(rest)} problem{'s' if len(rest) > 1 else ''}"
        return [line.removeprefix("  ") for line in rest]

    return find
