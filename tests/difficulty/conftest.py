import pytest
from rich.console import Console


@pytest.fixture
def printed():
    """What the terminal shows of a table."""

    def text(table):
        console = Console(width=100)
        with console.capture() as capture:
            console.print(table)
        return capture.get()

    return text
