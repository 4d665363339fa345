import json
import shutil
from dataclasses import replace
from html import escape
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import false_discovery_control

import breadth
from breadth.errors import InputError
from breadth.inference import wilson_interval
from breadth.records.store import StudyStore
from breadth.reporting import build_report
from breadth.reporting.pages import heading
from breadth.reporting.sources import MOST_MODELS
from breadth.results import Question, State
from breadth.results.table_writing import plain_markdown


@pytest.fixture(scope="module")
def data(simulated_study):
    return build_report(simulated_study.folder)


@pytest.fixture(scope="module")
def with_levels(levels_study):
    return build_report(levels_study.folder)


def content(data, key):
    return next(content for section, content in data.contents.items() if section.key == key)


def remove(run, steps):
    """Delete the checkpoints of a run that are not among ``steps``."""
    for step, name in run.parts().items():
        if step not in steps:
            (run.folder / name).unlink()


def test_accuracies_are_means_of_answers(data, simulated_study):
    study = breadth.open(simulated_study.folder)
    answers = study.responses.collect().join(study.subjects, on="subject").cast({"correct": pl.Float64})
    last = answers.filter(pl.col("step") == pl.col("step").max())
    means = last.group_by("model", "testset").agg(pl.col("correct").mean().alias("truth"))
    after = data.table("profile").filter(pl.col("when") == "after").join(means, on=["model", "testset"])
    assert after.height == 16
    assert (after["accuracy"] - after["truth"]).abs().max() < 1e-12
    assert ((after["ci_low"] < after["accuracy"]) & (after["accuracy"] < after["ci_high"])).all()


def test_findings_hold_numbers(data, with_levels):
    for built in (data, with_levels):
        for section, content in built.contents.items():
            assert content.lines, section.key
            for text in (*content.lines, *content.details, *content.absent):
                assert "None" not in text
                assert "nan" not in text.split()


def test_the_verdict_counts_gains_and_correlations(data):
    gains = data.table("gains").filter(~pl.col("in_domain"))
    verdict = content(data, "overview").verdict
    up = gains.filter((pl.col("q") < 0.05) & (pl.col("gain") > 0)).height
    assert verdict.question == "Did training on “plain” carry over?"
    assert (verdict.facts["changes"], verdict.facts["better"]) == (gains.height, up)
    assert sum(verdict.facts[change] for change in ("better", "worse", "behind", "undecided")) == gains.height
    # The number of the sentence is that of the table.
    largest = gains.sort(pl.col("gain").abs()).row(-1, named=True)
    assert f"{100 * largest['gain']:+.0f} points" in verdict.reason


def test_few_checkpoints_still_give_a_report(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "s")
    for run in StudyStore(folder).runs():
        remove(run, {0, 16, 32})
    data = build_report(folder)
    assert not data.table("correlations").height
    assert content(data, "carry_over").lines[0].startswith("Not enough data")
    assert any("too few checkpoints" in reason for reason in content(data, "carry_over").absent)
    assert "4 runs are not finished" in content(data, "overview").details[0]
    assert breadth.report(folder).stat().st_size > 10**5


def test_one_model_evaluated_once_still_gives_a_report(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "s")
    first, *others = StudyStore(folder).runs()
    remove(first, {0})
    for run in others:
        shutil.rmtree(run.folder)
    data = build_report(folder)
    verdict = content(data, "overview").verdict
    assert verdict.question is Question.HOW_GOOD
    profile = data.table("profile")
    assert verdict.answer == f"{profile['accuracy'].mean():.1%}"
    for row in (profile.sort("accuracy").row(0, named=True), profile.sort("accuracy").row(-1, named=True)):
        assert f"{row['testset']} {row['accuracy']:.1%}" in verdict.findings
    assert "training" not in {section.key for section in data.contents}
    assert "at least 10 subjects" in content(data, "difficulty").absent[0]
    assert [figure.key for figure in content(data, "difficulty").figures] == ["by_level"]
    assert breadth.report(folder, out=tmp_path / "r.html").exists()
    assert breadth.report(folder, out=tmp_path / "r.md").exists()


def test_one_model_and_one_test_set_have_an_accuracy_with_its_interval(tmp_path):
    answers = pl.DataFrame({"model": "m", "item": [f"q{number}" for number in range(40)], "correct": [1, 0, 0, 1] * 10})
    answers.write_csv(tmp_path / "quiz.csv")
    verdict = content(build_report(tmp_path / "quiz.csv"), "overview").verdict
    low, high = wilson_interval(np.array([0.5]), np.array([40.0]))
    assert verdict.answer == "50.0%"
    assert verdict.facts["questions"] == 40
    for number in (low[0], high[0]):
        assert f"{100 * number:.1f}" in verdict.reason


def test_scores_of_one_run_on_one_test_set_are_told_from_first_to_last(tmp_path):
    pl.DataFrame({"step": range(0, 50, 10), "hans_acc": [0.5, 0.52, 0.6, 0.66, 0.7]}).write_csv(tmp_path / "run.csv")
    line, *_ = content(build_report(tmp_path / "run.csv"), "overview").lines
    assert "70.0%" in line
    assert "50.0%" in line


def test_a_study_without_study_file_or_environment(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "bare")
    (folder / "study.yaml").unlink()
    for path in folder.glob("runs/*/*.json*"):
        if path.name != "run.json":
            path.unlink()
    data = build_report(folder)
    assert data.headings == ("bare", "")
    assert data.environments == []
    assert "no study.yaml" in breadth.report(folder).read_text()


def test_formats_hold_the_same(simulated_study, data, tmp_path):
    report = json.loads(breadth.report(simulated_study.folder, out=tmp_path / "r.json").read_text())
    page = breadth.report(simulated_study.folder, out=tmp_path / "r.html").read_text()
    words = breadth.report(simulated_study.folder, out=tmp_path / "r.md").read_text()
    for section, content in data.contents.items():
        assert report["findings"][section.key]["finding"] == " ".join(content.lines)
        assert f"## {plain_markdown(heading(section, content))}" in words
        assert escape(heading(section, content)) in page
    assert report["tables"]["pairs"] == data.table("pairs").to_dicts()
    assert len(page.encode()) < 5_000_000


def test_what_cannot_be_written_is_refused(simulated_study, tmp_path):
    with pytest.raises(InputError, match="nothing to read"):
        breadth.report(tmp_path)
    with pytest.raises(InputError, match="choose html, md or json"):
        breadth.report(simulated_study.folder, format="pdf")
    with pytest.raises(InputError, match="cannot tell the format"):
        breadth.report(simulated_study.folder, out=tmp_path / "r.pdf")


def test_untrained_runs_beside_trained_ones(simulated_study, tmp_path, change_record):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "s")
    run = StudyStore(folder).run(simulated_study.runs[0])
    remove(run, {0})
    change_record(run.folder / "run.json", train_set=None, method="zero-shot", checkpoints=[0])
    data = build_report(folder)
    profile = data.table("profile").filter(pl.col("model") == "model-a")
    assert set(profile.filter(pl.col("train_set").is_null())["when"]) == {"after"}
    assert set(profile.filter(pl.col("train_set") == "plain")["when"]) == {"before", "after"}
    assert profile.filter(pl.col("train_set") == "plain")["runs"].unique().to_list() == [1]
    assert any("without training" in reason for reason in content(data, "carry_over").absent)
    assert breadth.report(folder).stat().st_size > 10**5


def test_a_test_set_that_some_runs_lack(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "s")
    run = StudyStore(folder).run(simulated_study.runs[0])
    for step, name in run.parts().items():
        part = pl.read_parquet(run.folder / name)
        (run.folder / name).unlink()
        run.write_part(step, part.filter(pl.col("testset") != "chat"))
    data = build_report(folder)
    chat = data.table("gains").filter((pl.col("testset") == "chat") & (pl.col("model") == "model-a"))
    assert chat["runs"].to_list() == [1]
    assert chat["gain"].null_count() == 0
    assert breadth.report(folder).stat().st_size > 10**5


def test_damaged_parts_are_named_on_the_page(simulated_study, tmp_path):
    folder = shutil.copytree(simulated_study.folder, tmp_path / "s")
    path = StudyStore(folder).run(simulated_study.runs[0]).part_path(16)
    path.write_bytes(b"torn")
    page = breadth.report(folder).read_text()
    assert f"<li>runs/{simulated_study.runs[0]}/{path.name}: is damaged" in page
    assert page.index('class="cards"') < page.index("is damaged") < page.index("<section")
    assert path.exists()


def test_poorly_measured_difficulty_is_undecided(simulated_study, data, monkeypatch):
    keys = [figure.key for figure in content(data, "difficulty").figures]
    assert keys == ["map", "by_level"]
    for module in ("flags", "words"):
        monkeypatch.setattr(f"breadth.irt.{module}.LEAST_RELIABILITY", 1.1)
    stored = content(build_report(simulated_study.folder), "difficulty")
    assert [figure.key for figure in stored.figures] == ["by_level"], "its items come with their levels"
    study = breadth.open(simulated_study.folder)
    without = content(build_report(replace(study, items=study.items.drop("level"))), "difficulty")
    assert without.verdict.state is State.OPEN
    assert without.figures == []
    assert any("the map of difficulty" in reason for reason in without.absent)
    monkeypatch.setattr("breadth.irt.flags.MOST_AGAINST", -1)
    several = content(build_report(replace(study, items=study.items.drop("level"))), "difficulty")
    assert several.verdict.state is State.NO


def test_answers_from_elsewhere(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    chance = 1 / (1 + np.exp(generator.normal(size=40) - generator.normal(size=(60, 1))))
    answers = (generator.random((60, 40)) < chance).astype(np.int8)
    names = {"models": [f"org/model-{i}" for i in range(60)], "items": [f"q{i}" for i in range(40)]}
    np.savez(tmp_path / "answers.npz", R=answers, testset=["a", "b"] * 20, **names)
    monkeypatch.chdir(tmp_path)
    assert breadth.report("answers.npz") == Path("report.html")
    report = json.loads(breadth.report(tmp_path / "answers.npz", format="json").read_text())
    assert report["name"] == "answers.npz"
    assert report["facts"]["runs"] == 60
    findings = {key: section["absent"] for key, section in report["findings"].items()}
    assert "training" not in findings
    assert "nothing is taken into account" in " ".join(findings["carry_over"])
    assert findings["difficulty"] == [
        "transfer between levels: no run was trained on one level of difficulty or by a strategy"
    ]
    assert len(report["tables"]["profile"]) == 60 * 2
    assert len(report["tables"]["subjects"]) == 60
    assert len({row["model"] for row in report["tables"]["by_level"]}) == MOST_MODELS
    frame = pl.DataFrame({"subject": ["x", "y"] * 3, "item": [1, 1, 2, 2, 3, 3], "correct": [1, 0, 1, 1, 0, 1]})
    assert "2 models on 1 test set of 3 questions" in breadth.report(frame, format="md").read_text()


def test_a_table_with_runs_has_the_findings_of_its_study(simulated_study, data):
    study = breadth.open(simulated_study.folder)
    texts = study.items.drop("difficulty", "level", strict=False)
    table = study.responses.collect().join(study.subjects, on="subject").join(texts, on=["testset", "item"])
    from_table = build_report(table)
    for key in ("overview", "training", "carry_over"):
        assert content(from_table, key).finding == content(data, key).finding


def test_sets_that_lag_behind_the_in_domain_gain_decide(write_study, tmp_path):
    runs = [{"model": "m", "seed": seed} for seed in range(3)]

    def rise(run, of_set, level):
        return np.where(of_set == "home", 3.0, 0.0)

    built = build_report(write_study(tmp_path / "s", runs, items=200, rise=rise))
    gains = built.table("gains").filter(~pl.col("in_domain"))
    assert (gains["behind"] < 0).all()
    assert gains["q_behind"].to_list() == pytest.approx(false_discovery_control(gains["p_behind"].to_numpy()).tolist())
    verdict = content(built, "overview").verdict
    assert verdict.state is State.NO
    assert (verdict.facts["better"], verdict.facts["behind"]) == (0, 2)
    assert all(f"“{name}”" in verdict.reason for name in gains["testset"])
