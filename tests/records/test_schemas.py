import polars as pl
import pytest

from breadth.errors import InputError
from breadth.records.schemas import conform


def test_columns_are_cast_and_others_kept():
    frame = pl.DataFrame({"subject": [1, 2], "item": ["a", "b"], "correct": [True, False], "note": ["x", "y"]})
    out = conform(frame, "responses", "answers.csv")
    assert out.schema["subject"] == pl.String
    assert out["correct"].to_list() == [1.0, 0.0]
    assert out["note"].to_list() == ["x", "y"]


def test_all_problems_are_reported_together():
    frame = pl.DataFrame({"item": ["a", "b"], "difficulty": ["0.5", "hard"]})
    with pytest.raises(InputError) as caught:
        conform(frame, "items", "items.csv")
    assert "column 'testset' is missing" in str(caught.value)
    assert "row 2, column 'difficulty': 'hard'" in str(caught.value)
