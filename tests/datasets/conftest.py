import polars as pl
import pytest

NLI = "{premise} Question: {hypothesis} Yes or No?"


@pytest.fixture
def pairs():
    """A small table of inference items, three labels by turns."""
    labels = ["entailment", "neutral", "contradiction"]
    return pl.DataFrame(
        {
            "premise": [f"Person {i} met a friend." for i in range(90)],
            "hypothesis": [f"Person {i} was not alone." for i in range(90)],
            "label": [labels[i % 3] for i in range(90)],
        }
    )


@pytest.fixture(autouse=True)
def no_data_directory(monkeypatch):
    monkeypatch.delenv("BREADTH_DATA", raising=False)
