"""Every table of a report is what a command gives on the same study, or is derived from public functions alone."""

import json

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import breadth
from breadth.cli import app
from breadth.comparison import paired_difference
from breadth.inference import with_wilson
from breadth.irt import doubted_items, scale_map
from breadth.level_transfer import trained_groups
from breadth.reporting import SECTIONS

#: Tables that a command gives; they are equal to the last digit.
COMMANDS = {
    "trajectories": "scores",
    "gains": "scores",
    "pairs": "correlate",
    "heterogeneity": "correlate",
    "similarity": "correlate",
    "residuals": "correlate",
    "windows": "correlate --windows",
    "window_changes": "correlate --windows",
    "stability": "stability",
    "stability_runs": "stability",
    "stability_comparisons": "stability",
    "subjects": "calibrate",
    "fit": "calibrate",
    "profile_by_run": "profile",
    **{f"{kind}_{name}": "transfer" for kind in ("transfer", "strategy") for name in ("cells", "breaks", "best")},
    "transfer_effects": "transfer",
    "ranks": "compare --all",
    "neighbours": "compare --all",
    "comparison": "compare",
    "power_plan": "advise power",
    "power_curve": "advise power",
    "seed_plan": "advise power",
    "seed_noise": "advise power",
    "short_form_errors": "advise items",
    "short_form_items": "advise items",
    "testset_steps": "advise testsets",
    "together": "advise together",
}

#: Tables that no command gives, and what they are derived from.
DERIVED = {
    "truth": "what was simulated",
    "runs": "the study's runs",
    "differing": "the items of compare, and the levels of the report",
    "profile": "answers at the ends of runs",
    "correlations": "correlate, with and without control, on all runs and on those of every model",
    "window_means": "correlate --windows",
    "scale_map": "calibrate",
    "by_level": "answers at the ends of runs",
    "items": "the study's items, calibrate, and answers at the ends of runs",
}


def runs(models, **more):
    return [{"model": model, "seed": seed, **more} for model in models for seed in (0, 1)]


@pytest.fixture(scope="module", params=["simulated", "levels", "shared", "shared without levels"])
def folder(request, simulated_study, levels_study, write_study, tmp_path_factory):
    """A study; in the last two, all runs of a model share step 0."""
    if not request.param.startswith("shared"):
        return {"simulated": simulated_study, "levels": levels_study}[request.param].folder
    trained = [run for level in range(3) for run in runs(["m1", "m2"], train_level=level)]
    trained += [run for name in ("easy", "full") for run in runs(["m2"], strategy=name)]
    sizes = {"levels": 0, "items": 120} if "without" in request.param else {"levels": 3, "items": 60}
    testsets = ("home", "away", "abroad", "beyond")
    return write_study(tmp_path_factory.mktemp("shared") / "study", trained, testsets, **sizes)


@pytest.fixture(scope="module")
def tables(folder, tmp_path_factory):
    path = breadth.report(folder, out=tmp_path_factory.mktemp("report") / "report.json")
    return json.loads(path.read_text())["tables"]


@pytest.fixture(scope="module")
def calibration(folder):
    return breadth.calibrate(folder)


@pytest.fixture(scope="module")
def stored(folder):
    """Whether the items of the study come with their levels."""
    return "level" in breadth.open(folder).items.columns


def same(rows, frame):
    """Equal to the last digit, in the same order, with the same columns."""
    assert rows == frame.to_dicts()
    assert list(rows[0]) == frame.columns


def close(rows, frame, keys):
    """Equal up to rounding, row by row, by the columns ``keys``."""
    table = pl.DataFrame(rows, schema=frame.schema).join(frame, on=keys, how="full", nulls_equal=True, suffix="_other")
    assert table.height == len(rows) == frame.height
    for name in frame.columns:
        if frame[name].dtype.is_float():
            assert table[name].is_null().equals(table[f"{name}_other"].is_null().alias(name)), name
            assert (table[name] - table[f"{name}_other"]).abs().max() in (None, pytest.approx(0, abs=1e-12)), name


def test_every_table_is_compared(tables):
    known = {name for section in SECTIONS for name in section.tables}
    assert known == {*COMMANDS, *DERIVED}
    assert set(tables) <= known
    assert {"pairs", "subjects", "items", "profile"} <= set(tables)


def test_correlate(folder, tables):
    result = breadth.correlate(folder, windows=2 if "windows" in tables else None)
    for name in ("pairs", "heterogeneity", "similarity", "windows"):
        if name in tables:
            same(tables[name], result.table(name))


def test_changes_between_windows_and_stability(folder, tables):
    if "window_changes" in tables:
        same(tables["window_changes"], breadth.correlate(folder, windows=2).changes)
    if "stability" in tables:
        result = breadth.stability(folder)
        same(tables["stability"], result.models)
        same(tables["stability_runs"], result.runs)
        assert tables.get("stability_comparisons", []) == result.comparisons.to_dicts()


def test_compare_and_advise(folder, tables):
    ranking = breadth.rank(folder)
    same(tables["ranks"], ranking.table("ranks"))
    same(tables["neighbours"], ranking.table("neighbours"))
    best = ranking.ranks["model"].head(2).to_list()[::-1] if ranking.ranks.height > 2 else ()
    compared = breadth.compare(folder, *best)
    same(tables["comparison"], compared.table("cells"))
    apart = compared.items.filter((pl.col("right_first") >= 0.5) != (pl.col("right_second") >= 0.5))
    key = ["testset", "item"]
    assert pl.DataFrame(tables["differing"]).select(key).sort(key).equals(apart.select(key).sort(key))
    plan = breadth.advise_power(folder)
    same(tables["power_plan"], plan.table("plan"))
    same(tables["power_curve"], plan.table("curve"))
    if "testset_steps" in tables:
        same(tables["testset_steps"], breadth.advise_testsets(folder).table("steps"))
    if "together" in tables:
        same(tables["together"], breadth.advise_together(folder).table("gains"))


def test_calibrate_and_profile(folder, tables, calibration):
    same(tables["subjects"], calibration.subjects)
    same(tables["fit"], calibration.fit)
    same(tables["scale_map"], scale_map(calibration.items, calibration.subjects))
    ends = breadth.open(folder).ends
    last = [f"{run}/{step}" for run, step in ends.select("run", "last_step").iter_rows()][:12]
    same(tables["profile_by_run"], breadth.profile(folder, calibration, subjects=last).levels)


def test_step_0_that_runs_share_counts_once(folder, tables):
    study = breadth.open(folder)
    assert len(tables["subjects"]) == study.distinct().subjects.height
    if folder.parent.name.startswith("shared"):
        assert len(tables["subjects"]) == study.subjects.height - (study.subjects["run"].n_unique() - 2)


def test_transfer(folder, tables, calibration, stored):
    expected = {}
    for keys in trained_groups(breadth.open(folder)):
        result = breadth.transfer(folder, None if stored else calibration, **keys)
        for name, table in result.tables().items():
            key = name if name.startswith("strategy_") else f"transfer_{name}"
            lead = [pl.Series(key, [value] * table.height) for key, value in keys.items()]
            expected.setdefault(key, []).extend(pl.DataFrame([*lead, *table.get_columns()]).to_dicts())
    shown = {name for name in tables if name.startswith(("transfer_", "strategy_"))}
    assert shown == {name for name, rows in expected.items() if rows}
    for name in shown:
        assert tables[name] == expected[name], name


def crossed(answers):
    """A mean over runs and items, as the report gives it."""
    items = ~np.isnan(answers).any(axis=0)
    complete = answers[:, items].astype(float)
    # The error of a difference from as many runs that never vary, as `compare` has it, is that of the mean.
    mean = paired_difference(np.zeros_like(complete), complete)
    return {"runs": len(answers), "n_items": int(items.sum()), "estimate": mean.estimate, "se": mean.se}


def close_means(rows, expected, name):
    for row, one in zip(rows, expected, strict=True):
        assert {key: row[key] for key in one if key not in ("estimate", "se")}.items() <= one.items()
        assert (row[name], row["se"]) == pytest.approx((one["estimate"], one["se"]), rel=1e-12)


def test_accuracies_and_gains(folder, tables):
    study = breadth.open(folder)
    profile, gains = [], []
    for (model, train_set), group in study.ends.group_by(["model", "train_set"], maintain_order=True):
        for testset in study.shifts:
            inside = study.set_index == study.testsets.index(testset)
            ends = {when: study.correct[group[column]][:, inside] for when, column in END.items()}
            key = {"model": model, "train_set": train_set, "testset": testset}
            profile += [key | {"when": when} | crossed(answers) for when, answers in ends.items()]
            gains.append(key | crossed(ends["after"] - ends["before"]))
    close_means(tables["profile"], profile, "accuracy")
    close_means(tables["gains"], gains, "gain")


END = {"before": "first", "after": "last"}


def test_accuracy_by_level(folder, tables, calibration, stored):
    study = breadth.open(folder)
    names = pl.DataFrame({"item": study.item_names})
    level = study.items["level"] if stored else names.join(calibration.items, on="item", how="left")["level"]
    if not stored and calibration.scale_warning is not None:
        assert "by_level" not in tables, "levels of a scale that should not be used"
        return
    expected = []
    for model in dict.fromkeys(study.subjects["model"]):
        ends = study.ends.filter(pl.col("model") == model)
        for when, column in END.items():
            for one in sorted(level.drop_nulls().unique()):
                mean = crossed(study.correct[ends[column]][:, (level == one).fill_null(False)])
                expected.append({"model": model, "when": when, "level": one} | mean)
    close_means(tables["by_level"], expected, "accuracy")


def test_runs_and_trajectories(folder, tables):
    study = breadth.open(folder)
    assert [row["run"] for row in tables["runs"]] == sorted(study.runs)
    for row in tables["runs"]:
        own = study.subjects.filter(pl.col("run") == row["run"])
        assert row["checkpoints"] == row["planned"] == own.height
        assert row["last_step"] == own["step"].max()
        assert row["seed"] == study.runs[row["run"]].seed
    answers = study.responses.collect().join(study.subjects, on="subject").cast({"correct": pl.Float64})
    means = with_wilson(answers.group_by("run", "step", "testset").agg(n=pl.len(), accuracy=pl.col("correct").mean()))
    close(
        [{name: row[name] for name in means.columns} for row in tables["trajectories"]],
        means.with_columns(pl.col("n").cast(pl.Int64)),
        ["run", "step", "testset"],
    )


def test_scores(folder, tables):
    result = breadth.scores(folder)
    shown = pl.DataFrame(tables["trajectories"], infer_schema_length=None).columns
    same(tables["trajectories"], result.scores.select(shown))
    same(tables["gains"], result.changes)


@pytest.fixture(scope="module")
def areas(simulated_study, levels_study, tmp_path_factory):
    """Two studies and their reports by the area under the curve."""
    reports = {}
    for study in (simulated_study, levels_study):
        path = breadth.report(study.folder, out=tmp_path_factory.mktemp("areas") / "report.json", score="auc")
        reports[study.folder] = json.loads(path.read_text())["tables"]
    return reports


def test_another_score_is_that_of_the_commands(areas):
    for folder, tables in areas.items():
        result = breadth.correlate(folder, score="auc", windows=2 if "windows" in tables else None)
        for name in ("pairs", "heterogeneity"):
            same(tables[name], result.table(name))
        assert [row["auc"] for row in tables["profile"] if row["when"] == "after"] == pytest.approx(
            [row["auc"] for row in mean_areas(folder)]
        )
        for keys in trained_groups(breadth.open(folder)):
            expected = breadth.transfer(folder, score="auc", **keys).cells.to_dicts()
            own = [row for row in tables["transfer_cells"] if keys.items() <= row.items()]
            assert [{name: row[name] for name in expected[0]} for row in own] == expected


def mean_areas(folder):
    """The area of last checkpoints per model and test set, in the order of the report."""
    study = breadth.open(folder)
    last = breadth.scores(folder).scores.filter(pl.col("step") == pl.col("step").max().over("run"))
    means = last.group_by("model", "testset").agg(pl.col("auc").mean())
    models = study.ends["model"].unique(maintain_order=True)
    order = [(model, testset) for model in models for testset in study.shifts]
    return [means.filter(model=model, testset=testset).row(0, named=True) for model, testset in order]


def test_correlations_and_their_means(folder, tables):
    study = breadth.open(folder)
    numbers = ["r", "ci_low", "ci_high"]
    shown = pl.DataFrame(tables["correlations"], infer_schema_length=None)
    beside_control = pl.all_horizontal(pl.col("a", "b").is_in([*shown["a"], *shown["b"]]))
    for kind, adjust in (("partial", "gam"), ("raw", "none")):
        options = {"adjust": adjust, "item_counts": "none"}
        pairs = breadth.correlate(folder, **options).pairs.filter(beside_control)
        single = shown.filter((pl.col("kind") == kind) & pl.col("run").is_not_null())
        keys = ["run", "a", "b"]
        close(single.select(*keys, *numbers).to_dicts(), pairs.select(*keys, *numbers), keys)
        for model in study.subjects["model"].unique():
            own = breadth.correlate(study.select(pl.col("model") == model), **options)
            means = shown.filter((pl.col("kind") == kind) & pl.col("run").is_null() & (pl.col("model") == model))
            expected = own.heterogeneity.filter(beside_control).rename({"r_mean": "r"}).select("a", "b", *numbers)
            if own.groups.height > 1:
                close(means.select("a", "b", *numbers).to_dicts(), expected, ["a", "b"])


def test_corrected_correlations_and_window_means(folder, tables):
    study = breadth.open(folder)
    numbers = ["r", "ci_low", "ci_high"]
    windows = 2 if "windows" in tables else None
    shown = pl.DataFrame(tables["correlations"], infer_schema_length=None).filter(pl.col("kind") == "corrected")
    corrected = breadth.correlate(folder).pairs.select(
        "run", "a", "b", **{name: f"{name}_corrected" for name in numbers}
    )
    single = shown.filter(pl.col("run").is_not_null())
    close(single.select(corrected.columns).to_dicts(), corrected, ["run", "a", "b"])
    for model in study.subjects["model"].unique():
        own = breadth.correlate(study.select(pl.col("model") == model), windows=windows)
        if own.groups.height == 1:
            continue
        means = shown.filter(pl.col("run").is_null() & (pl.col("model") == model))
        expected = own.heterogeneity.rename({"r_mean": "r"}).select("a", "b", *numbers)
        close(means.select("a", "b", *numbers).to_dicts(), expected, ["a", "b"])
        if windows and "unit" not in own.changes.columns:
            means = pl.DataFrame(tables["window_means"], infer_schema_length=None)
            late = means.filter(model=model, window=windows).join(own.changes.select("a", "b", "late"), on=["a", "b"])
            assert late.height == expected.height
            assert (late["r"] - late["late"]).abs().max() in (None, pytest.approx(0, abs=1e-9))


def test_items(folder, tables, calibration, stored):
    study = breadth.open(folder)
    items = pl.DataFrame(tables["items"], infer_schema_length=None)
    assert items["item"].to_list() == study.items["item"].to_list()
    trusted = calibration.scale_warning is None
    for name in ("n", "p_correct", "difficulty", "difficulty_se", "flag", "note"):
        if name in ("difficulty", "difficulty_se") and not trusted:
            # The page says that they should not be used, so it offers none.
            assert name not in items.columns
        else:
            assert items[name].to_list() == calibration.items[name].to_list()
    if stored or trusted:
        assert items["level"].to_list() == (study.items if stored else calibration.items)["level"].to_list()
    else:
        assert "level" not in items.columns
    last = study.correct[study.ends["last"]]
    assert items["right"].to_list() == last.mean(axis=0, dtype=float).tolist()
    backwards = items.filter(pl.col("doubt_flag") == "against_ability")
    assert set(backwards["item"]) == set(doubted_items(calibration.items)), "one number, wherever it is shown"
    confident = items.filter(pl.col("doubt_flag") == "confidently_wrong")
    assert confident.filter((pl.col("right") > 0.2) | (pl.col("margin") >= -2)).height == 0


def test_the_commands_themselves(folder, tables, tmp_path):
    """The files that the commands write hold the same numbers."""
    for command, name, written in (
        (["correlate", str(folder)], "pairs", "out.parquet"),
        (["calibrate", str(folder)], "subjects", "out.subjects.parquet"),
    ):
        assert CliRunner().invoke(app, [*command, "--out", str(tmp_path / "out.parquet")]).exit_code == 0
        same(tables[name], pl.read_parquet(tmp_path / written))
