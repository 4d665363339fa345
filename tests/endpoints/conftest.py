import pytest

from breadth.endpoints import client as http

from .raw_server import certificate

__all__ = ["certificate"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Waits between tries are short."""
    monkeypatch.setattr(http, "FIRST_WAIT", 0.01)
