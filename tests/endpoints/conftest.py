import pytest

from breadth.endpoints import client as http


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Waits between tries are short."""
    monkeypatch.setattr(http, "FIRST_WAIT", 0.01)
