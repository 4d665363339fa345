import json
import shutil

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import breadth
from breadth.errors import InputError
from breadth.records import StudyStore, read_matrix
from breadth.report.pages import sections
from breadth.verbs import gather


@pytest.fixture(scope="module")
def gathered(simulated_study):
    return gather(simulated_study.folder)


@pytest.fixture(scope="module")
def with_levels(levels_study):
    return gather(levels_study.folder)


def test_pairs_are_those_of_the_command(gathered, simulated_study):
    facets = [name for name in gathered.testsets if name != "plain"]
    command = breadth.correlate(simulated_study.folder, "plain", facets, "run", "step", windows=2)
    assert_frame_equal(gathered.table("pairs").drop("train_set", "control"), command.pairs)
    assert_frame_equal(gathered.table("heterogeneity").drop("train_set", "control"), command.heterogeneity)
    assert_frame_equal(gathered.table("similarity").drop("train_set", "control"), command.similarity)
    assert_frame_equal(gathered.table("windows").drop("train_set", "control"), command.windows)
    assert command.summary() in gathered.summaries["carry_over"]


def test_calibration_and_profile_are_those_of_the_commands(gathered, simulated_study):
    command = breadth.calibrate(simulated_study.folder)
    assert_frame_equal(
        gathered.table("items").select("item", "difficulty", "p_correct", "note"),
        command.items.select("item", "difficulty", "p_correct", "note"),
    )
    assert_frame_equal(
        gathered.table("subjects").select("subject", "ability"), command.subjects.select("subject", "ability")
    )
    last = gathered.table("profile_by_run")["subject"].unique(maintain_order=True).to_list()
    assert_frame_equal(gathered.table("profile_by_run"), breadth.profile(simulated_study.folder, command, last).levels)


def test_means_per_model_are_those_of_the_models_runs(gathered, simulated_study):
    own = [run for run in simulated_study.runs if run.startswith("model-a")]
    facets = [name for name in gathered.testsets if name != "plain"]
    study = read_matrix(simulated_study.folder)
    command = breadth.correlate(study.trajectories(own, "plain", facets), "plain", by="run", order="step")
    means = gathered.table("correlations").filter((pl.col("panel") == "model-a") & (pl.col("kind") == "partial"))
    assert_frame_equal(
        means.select("a", "b", "r", "ci_low", "ci_high"),
        command.heterogeneity.select("a", "b", pl.col("r_mean").alias("r"), "ci_low", "ci_high"),
    )


def test_accuracies_are_means_of_answers(gathered, simulated_study):
    answers = breadth.records.read_answers(simulated_study.folder).frame
    last = answers.filter(pl.col("step") == pl.col("step").max())
    means = last.group_by("model", "testset").agg(pl.col("correct").mean().alias("truth"))
    after = gathered.table("profile").filter(pl.col("when") == "after").join(means, on=["model", "testset"])
    assert after.height == 16
    assert (after["accuracy"] - after["truth"]).abs().max() < 1e-12
    assert ((after["ci_low"] < after["accuracy"]) & (after["accuracy"] < after["ci_high"])).all()


def test_levels_give_the_matrix_of_cross(with_levels, levels_study):
    cells = with_levels.table("cross_cells")
    assert cells.height == 2 * 3 * 3
    answers = breadth.records.read_answers(levels_study.folder).frame.filter(
        (pl.col("testset") == "plain") & (pl.col("model") == "model-a")
    )
    trained = answers.filter(pl.col("step") == pl.col("step").max())
    first = answers.filter((pl.col("step") == 0) & (pl.col("train_level") == 0)).with_columns(
        train_level=pl.lit(None, dtype=pl.Int64)
    )
    command = breadth.cross(pl.concat([trained, first]))
    assert_frame_equal(cells.filter(pl.col("model") == "model-a").drop("model", "train_set"), command.cells)
    assert with_levels.has("cross_effects")


def test_doubted_labels_are_mostly_the_wrong_ones(simulated_study, gathered):
    doubted = set(gathered.table("items").filter(pl.col("doubt").is_not_null())["item"])
    found = doubted & set(simulated_study.wrong_labels)
    assert len(found) >= 0.5 * len(simulated_study.wrong_labels)


def test_findings_have_no_unmade_numbers(gathered, with_levels):
    for found in (gathered, with_levels):
        for section in sections(found):
            assert section.finding
            for text in (section.finding, *section.details):
                assert "None" not in text
                assert "nan" not in text.split()


def shortened(study, target, steps, runs=None):
    folder = shutil.copytree(study.folder, target)
    for run in StudyStore(folder).runs():
        if runs is not None and run.name not in runs:
            shutil.rmtree(run.folder)
            continue
        for step, path in run.parts().items():
            if step not in steps:
                path.unlink()
    return folder


def test_few_checkpoints_still_give_a_report(simulated_study, tmp_path):
    folder = shortened(simulated_study, tmp_path / "s", {0, 16, 32})
    found = gather(folder)
    assert not found.has("correlations")
    assert "needs six or more" in found.absent["correlations"]
    text = {section.key: section for section in sections(found)}
    assert text["carry_over"].finding.startswith("Undecided")
    assert breadth.write_report(folder).stat().st_size > 10**5


def test_one_model_measured_once_still_gives_a_report(simulated_study, tmp_path):
    folder = shortened(simulated_study, tmp_path / "s", {0}, simulated_study.runs[:1])
    found = gather(folder)
    text = {section.key: section for section in sections(found)}
    assert "Undecided" in text["glance"].finding
    assert "one checkpoint" in text["training"].absent[0]
    assert "at least 10 subjects" in text["difficulty"].absent[0]
    assert [figure.key for figure in text["difficulty"].figures] == ["by_level"]
    assert breadth.write_report(folder, tmp_path / "r.html").exists()
    assert breadth.write_report(folder, tmp_path / "r.md").exists()


def test_a_study_without_study_file_or_environment(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "bare")
    (folder / "study.yaml").unlink()
    for path in folder.glob("runs/*/*.json*"):
        if path.name != "run.json":
            path.unlink()
    found = gather(folder)
    assert found.name == "bare"
    assert found.environments == ()
    assert "no study.yaml" in breadth.write_report(folder).read_text()


def test_formats_say_the_same(simulated_study, gathered, tmp_path):
    data = json.loads(breadth.write_report(simulated_study.folder, tmp_path / "r.json").read_text())
    page = breadth.write_report(simulated_study.folder, tmp_path / "r.html").read_text()
    words = breadth.write_report(simulated_study.folder, tmp_path / "r.md").read_text()
    for section in sections(gathered):
        assert data["findings"][section.key]["finding"] == section.finding
        assert section.title in words
        assert section.title in page
    assert data["tables"]["pairs"] == gathered.table("pairs").to_dicts()
    assert len(page.encode()) < 5_000_000


def test_what_cannot_be_written_is_refused(simulated_study, tmp_path):
    with pytest.raises(InputError, match="is not the directory of a study"):
        breadth.write_report(tmp_path)
    with pytest.raises(InputError, match="choose html, md or json"):
        breadth.write_report(simulated_study.folder, format="pdf")
    with pytest.raises(InputError, match="cannot tell the format"):
        breadth.write_report(simulated_study.folder, tmp_path / "r.pdf")


def test_untrained_runs_beside_trained_ones(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "s")
    run = StudyStore(folder).run(simulated_study.runs[0])
    for step, path in run.parts().items():
        if step:
            path.unlink()
    spec = run.spec() | {"train_set": None, "method": "zero-shot", "checkpoints": [0]}
    (run.folder / "run.json").write_text(json.dumps(spec))
    found = gather(folder)
    profile = found.table("profile").filter(pl.col("model") == "model-a")
    assert set(profile.filter(pl.col("train_set").is_null())["when"]) == {"after"}
    assert set(profile.filter(pl.col("train_set") == "plain")["when"]) == {"before", "after"}
    assert profile.filter(pl.col("train_set") == "plain")["runs"].unique().to_list() == [1]
    assert "no training set" in found.absent["correlations"]
    assert breadth.write_report(folder).stat().st_size > 10**5


def test_a_test_set_that_some_runs_lack(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "s")
    run = StudyStore(folder).run(simulated_study.runs[0])
    for step, path in run.parts().items():
        part = pl.read_parquet(path)
        path.unlink()
        run.write_part(step, part.filter(pl.col("testset") != "chat"))
    found = gather(folder)
    chat = found.table("gains").filter((pl.col("testset") == "chat") & (pl.col("model") == "model-a"))
    assert chat["runs"].to_list() == [1]
    assert chat["gain"].null_count() == 0
    assert breadth.write_report(folder).stat().st_size > 10**5


def test_difficulty_that_was_hardly_measured_is_no_finding(simulated_study, gathered, monkeypatch):
    def finding(found):
        return next(section for section in sections(found) if section.key == "difficulty").finding

    assert not finding(gathered).startswith("Undecided")
    monkeypatch.setattr("breadth.verbs.calibration.LEAST_RELIABILITY", 1.1)
    assert not finding(gather(simulated_study.folder)).startswith("Undecided"), "its items come with their levels"
    monkeypatch.setattr("breadth.verbs.report._stored_levels", lambda study: False)
    assert finding(gather(simulated_study.folder)).startswith("Undecided: the subjects are too alike to be told apart")
