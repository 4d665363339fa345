import pytest

from breadth.datasets import REGISTRY, describe_datasets
from breadth.errors import InputError


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))


def available(frame):
    return dict(frame.select("name", "available").iter_rows())


def test_what_is_at_hand_is_told_from_what_is_not(tmp_path):
    (tmp_path / "nli").mkdir()
    (tmp_path / "nli" / "hans.csv").touch()
    cached = tmp_path / "cache" / "facebook___anli" / "plain_text" / "0.1.0" / "abc"
    cached.mkdir(parents=True)
    (cached / "anli-test_r3.arrow").touch()
    frame = describe_datasets(tmp_path)
    assert frame["name"].to_list() == list(REGISTRY)
    there = available(frame)
    assert there["hans"] == f"yes: {tmp_path / 'nli'}"
    assert there["anli"] == "yes: cached"
    assert there["chains"] == "yes: generated"
    assert there["snli"].startswith("no: put snli.parquet")


def test_no_directory(tmp_path):
    with pytest.raises(InputError, match="--data names a directory"):
        describe_datasets(tmp_path / "none")
