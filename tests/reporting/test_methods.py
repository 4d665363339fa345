"""Which findings of a simulated study are true."""

import json
import shutil

import pytest

from breadth.datasets import simulate_study
from breadth.reporting import build_report


def section(data, key):
    return next((content for part, content in data.contents.items() if part.key == key), None)


def test_most_findings_are_true(levels_study):
    data = build_report(levels_study.folder)
    rows = {row["about"]: row for row in data.table("truth").to_dicts()}
    assert rows["wrong labels"]["effects"] == len(levels_study.wrong_labels)
    for row in rows.values():
        assert row["true"] + row["missed"] == row["effects"]
        assert row["true"] <= row["findings"]
    gains = rows["gains on shifted test sets (per model, with their sign)"]
    assert gains["true"] == gains["findings"] > 0
    assert "are true" in section(data, "truth").lines[0]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "[" * 100_000, '{"correlations": [1]}', '{"correlations": [{"model": []}]}']
)
def test_another_file_of_that_name_is_ignored(tmp_path, levels_study, content):
    folder = tmp_path / "study"
    shutil.copytree(levels_study.folder, folder)
    (folder / "truth.json").write_text(content)
    assert section(build_report(folder), "truth") is None


def test_the_truth_that_is_written(tmp_path):
    study = simulate_study(
        tmp_path / "s", runs=2, checkpoints=3, items=10, testsets=("plain", "formal", "chat", "science")
    )
    truth = json.loads((study.folder / "truth.json").read_text())
    signs = {(row["model"], row["a"], row["b"]): row["sign"] for row in truth["correlations"]}
    assert signs["model-a", "formal", "chat"] == 1  # the halves go together in the first model
    assert signs["model-b", "formal", "chat"] == -1
    assert signs["model-b", "chat", "science"] == 1
    assert truth["wrong_labels"] == list(study.wrong_labels)
