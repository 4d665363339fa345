import shutil

import pytest

import breadth
from breadth.records import StudyStore, read_matrix
from breadth.verbs.level_study import ABSENT, level_study
from breadth.verbs.standing import ordered_sets


def crossed(folder):
    study = read_matrix(folder)
    return level_study(study, study.items["level"], ordered_sets(study))


def test_one_matrix_per_model(levels_study):
    tables, words, absent = crossed(levels_study.folder)
    assert tables["cross_cells"].group_by("model").len()["len"].to_list() == [9, 9]
    assert tables["cross_cells"]["n_seeds"].unique().to_list() == [2]
    assert tables["cross_cells"]["n_items"].sum() == 2 * 3 * 60
    assert words[0].startswith("model-a trained on plain: Of 9 cells")
    assert absent == []


def test_runs_that_have_not_ended_are_left_out(levels_study, tmp_path):
    folder = shutil.copytree(levels_study.folder, tmp_path / "s")
    first, *others = StudyStore(folder).runs()
    list(first.parts().values())[-1].unlink()
    tables, _, _ = crossed(folder)
    seeds = tables["cross_cells"].group_by("model", "train_level", maintain_order=True).first()["n_seeds"].to_list()
    assert sorted(seeds) == [1, 2, 2, 2, 2, 2]
    for run in others:
        list(run.parts().values())[-1].unlink()
    tables, _, absent = crossed(folder)
    assert tables == {}
    assert "has reached its last checkpoint" in absent[0]


def test_a_study_without_levels_says_so(simulated_study):
    assert crossed(simulated_study.folder) == ({}, [], [ABSENT])


@pytest.mark.parametrize("key", ["strategy"])
def test_strategies_take_the_place_of_levels(levels_study, tmp_path, key):
    folder = shutil.copytree(levels_study.folder, tmp_path / "s")
    for run in StudyStore(folder).runs():
        path = run.folder / "run.json"
        level = run.spec()["train_level"]
        text = path.read_text().replace(f'"train_level": {level}', '"train_level": null')
        path.write_text(text.replace('"strategy": null', f'"strategy": "way{level}"'))
    tables, _, _ = crossed(folder)
    assert set(tables["strategy_cells"][key]) == {"way0", "way1", "way2"}
    assert "cross_cells" not in tables
    assert "strategy_effects" not in tables


def test_levels_and_strategies_in_one_study(levels_study, tmp_path):
    folder = shutil.copytree(levels_study.folder, tmp_path / "s")
    for run in StudyStore(folder).runs()[6:]:
        path = run.folder / "run.json"
        text = path.read_text().replace(f'"train_level": {run.spec()["train_level"]}', '"train_level": null')
        path.write_text(text.replace('"strategy": null', f'"strategy": "way{run.name}"'))
    tables, _, _ = crossed(folder)
    assert {"cross_cells", "strategy_cells"} <= set(tables)
    page = breadth.write_report(folder).read_text()
    assert "Training level by test level" in page
    assert "Strategy by test level" in page
