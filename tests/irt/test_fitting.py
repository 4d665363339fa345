import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.irt import ItemFlag, Priors, SubjectFlag
from breadth.irt.calibration import ITEM_COLUMNS, SUBJECT_COLUMNS
from breadth.records.store import RunRecord, StudyStore
from breadth.results import Answer
from breadth.sources import open_study


def test_columns_are_fixed(result):
    assert result.items.columns == list(ITEM_COLUMNS)
    assert result.subjects.columns == list(SUBJECT_COLUMNS)
    assert result.fit.columns[:6] == ["log_likelihood", "aic", "bic", "converged", "iterations", "reliability"]
    assert result.fit["converged"].item()


def test_truth_is_recovered(truth, result):
    _, ability, difficulty, slope = truth
    assert np.corrcoef(result.items["difficulty"], difficulty)[0, 1] > 0.97
    assert np.corrcoef(result.items["discrimination"], slope)[0, 1] > 0.7
    assert np.corrcoef(result.subjects["ability"], ability)[0, 1] > 0.9
    error = (result.items["difficulty"].to_numpy() - difficulty) / result.items["difficulty_se"].to_numpy()
    assert 0.7 < np.sqrt(np.mean(error**2)) < 1.4
    fit = result.fit.row(0, named=True)
    assert fit["aic"] == pytest.approx(-2 * fit["log_likelihood"] + 2 * 80)
    assert fit["bic"] == pytest.approx(-2 * fit["log_likelihood"] + np.log(400) * 80)


def test_broken_items_are_noted(truth):
    matrix = truth[0].matrix.copy()
    matrix[:, 0], matrix[:, 1], matrix[:, 2] = 1, 0, -1
    matrix[:, 3] = 1 - matrix[:, 3]
    matrix[7] = -1
    for model in ("1pl", "2pl", "3pl"):
        found = breadth.calibrate(replace(truth[0], matrix=matrix), model=model)
        flags = [ItemFlag.ALL_RIGHT, ItemFlag.ALL_WRONG, ItemFlag.NO_ANSWERS, ItemFlag.WRONG_KEY]
        assert found.items["flag"][:4].to_list() == flags
        assert found.items["note"][0] == "every answer is right: the difficulty comes from the prior"
        assert "label may be wrong" in found.items["note"][3]
        assert found.items["flag"].is_null().equals(found.items["note"].is_null().alias("flag"))
        assert found.items["difficulty"][2] is None
        assert found.items["difficulty"].drop_nulls().is_finite().all()
        assert found.items["level"][:2].to_list() == [0, 9], "what all or none got right is the easiest and the hardest"
        if model == "1pl":
            assert found.items["difficulty_se"][0] > 3 * found.items["difficulty_se"][20]
        else:
            assert found.items["difficulty"][:2].abs().max() <= 6.5
            assert found.items.select("difficulty", "level")[3].row(0) == (None, None), "a turned item has no place"
            assert found.items["discrimination"][3] < 0
        assert found.subjects["flag"][7] == SubjectFlag.NO_ANSWERS
        assert found.subjects["ability"][7] is None
        assert "q03" in " ".join(found.warnings)
        assert found.verdict().facts["labels in doubt"] == 1


def test_noise_is_not_called_a_wrong_key():
    answers = np.random.default_rng(0).integers(0, 2, (200, 100)).astype(np.int8)
    flags = breadth.calibrate(answers).items["flag"].to_list()
    assert ItemFlag.NO_DISCRIMINATION in flags
    assert ItemFlag.WRONG_KEY not in flags


def test_two_kinds_of_subjects_doubt_no_key():
    """They are good at different items: whoever leads, the others' items run against it."""
    chance = np.random.default_rng(1)
    kind = chance.integers(0, 2, 60)
    good = np.where(np.arange(80)[None] < 40, kind[:, None] == 0, kind[:, None] == 1)
    found = breadth.calibrate((chance.random((60, 80)) < np.where(good, 0.8, 0.3)).astype(np.int8))
    assert found.fit["reliability"][0] < 0.5
    assert found.scale_warning.startswith("these questions do not measure one ability")
    assert ItemFlag.WRONG_KEY not in found.items["flag"].to_list()


def test_subjects_that_are_all_alike_doubt_no_key(tmp_path):
    chance = np.random.default_rng(1)
    share = chance.uniform(0.2, 0.9, 80)
    found = breadth.calibrate((chance.random((60, 80)) < share).astype(np.int8))
    assert found.fit["reliability"][0] < 0.5
    assert ItemFlag.WRONG_KEY not in found.items["flag"].to_list()
    assert "too alike to rank (reliability 0." in " ".join(found.warnings)
    assert found.warnings[0] == found.scale_warning
    assert found.verdict().answer is Answer.UNKNOWN
    found.save(tmp_path / "c.parquet")
    assert breadth.Calibration.load(tmp_path / "c.parquet").scale_warning == found.scale_warning


def prefer(subjects, items, seed, strength=1.5):
    """Answers of subjects that prefer Yes or No more than they are able, to items labelled so."""
    generator = np.random.default_rng(seed)
    label = np.where(np.arange(items) % 3 == 0, "Yes", "No")
    preference, ability = generator.standard_normal((2, subjects, 1))
    logit = 0.3 * (ability - generator.standard_normal(items)) + strength * np.where(label == "Yes", 1, -1) * preference
    return (generator.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(np.int8), label


def test_a_preference_for_a_label_is_not_an_ability(tmp_path):
    matrix, label = prefer(150, 90, 4)
    np.savez(tmp_path / "answers.npz", R=matrix, label=label)
    found = breadth.calibrate(tmp_path / "answers.npz", model="2pl")
    fit = found.fit.row(0, named=True)
    assert fit["reliability"] > 0.9, "which is why reliability is not enough"
    assert fit["against_scale"] > 0.25
    assert found.scale_warning.startswith("these questions do not measure one ability")
    assert found.warnings[0] == found.scale_warning
    verdict = found.verdict()
    assert verdict.answer is Answer.NO
    assert "how often they say No" in verdict.reason
    assert "auc" in verdict.advice
    assert "labels in doubt" not in verdict.facts, "half of the labels are not wrong"
    assert "labelled Yes have a negative one" in found.details()
    assert ItemFlag.WRONG_KEY not in found.items["flag"].to_list()
    assert not any("wrong label" in line for line in found.warnings)
    backwards = found.items.filter(pl.col("discrimination") < 0)
    assert backwards["difficulty"].null_count() == backwards["level"].null_count() == backwards.height
    assert backwards["note"].str.contains("has no difficulty, and its label may be wrong").any()
    # Chance follows from the two labels.
    assert fit["chance"] == 0.5
    assert fit["subjects_at_chance"] > 75
    assert set(found.subjects["flag"].drop_nulls()) >= {SubjectFlag.AT_CHANCE.value}
    found.save(tmp_path / "c.csv")
    loaded = breadth.Calibration.load(tmp_path / "c.csv")
    assert loaded.scale_warning == found.scale_warning
    assert loaded.verdict().answer is Answer.NO
    assert np.allclose(loaded.score(tmp_path / "answers.npz")["ability"], found.subjects["ability"], atol=1e-6)


@pytest.mark.parametrize("model", ["1pl", "2pl"])
@pytest.mark.parametrize(("subjects", "items", "slope"), [(50, 40, 1.0), (90, 60, 0.7), (250, 30, 2.0)])
def test_one_ability_is_not_doubted_with_few_subjects(model, subjects, items, slope):
    for seed in range(5):
        generator = np.random.default_rng(100 + seed)
        logit = slope * (generator.standard_normal((subjects, 1)) - generator.standard_normal(items))
        matrix = (generator.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(np.int8)
        found = breadth.calibrate(matrix, model=model)
        assert "one ability" not in (found.scale_warning or "")
        assert found.fit["score_correlation"].item() > 0.85


def test_guessing_and_turned_items_are_doubted():
    generator = np.random.default_rng(9)
    ability = np.repeat(generator.standard_normal((250, 2)), [25, 15], axis=1)
    logit = 1.5 * (ability - generator.standard_normal(40))
    two = (generator.random(logit.shape) < 1 / (1 + np.exp(-logit))).astype(np.int8)
    guessed = (generator.random((120, 80)) < 0.25).astype(np.int8)
    swapped = np.where(np.arange(40) < 10, 1 - two[:, :40], two)  # a quarter of the items turned round
    for matrix in (guessed, swapped):
        found = breadth.calibrate(matrix, model="2pl", chance=0.25)
        assert "do not measure one ability" in found.scale_warning
        assert ItemFlag.WRONG_KEY not in found.items["flag"].to_list()
    assert breadth.calibrate(guessed, chance=0.25).fit["subjects_at_chance"].item() > 100
    assert breadth.calibrate(two, model="2pl").fit["score_correlation"].item() < 0.95


def test_a_slope_that_is_not_clear_gives_no_difficulty(truth):
    """Answers to one item are coins, so its difficulty would be anything; to another nearly always right."""
    generator = np.random.default_rng(3)
    matrix = truth[0].matrix.copy()
    matrix[:, 5] = generator.integers(0, 2, 400)
    study = replace(truth[0], matrix=matrix)
    found = breadth.calibrate(study, model="2pl")
    row = found.items.row(5, named=True)
    assert (row["difficulty"], row["difficulty_se"], row["level"], row["level_low"]) == (None,) * 4
    assert row["flag"] == ItemFlag.NO_DISCRIMINATION
    assert row["note"] == "the slope is not clearly above 0, so it has no difficulty"
    assert row["discrimination"] < 1.645 * row["discrimination_se"]
    assert row["intercept"] == pytest.approx(np.log(matrix[:, 5].mean() / (1 - matrix[:, 5].mean())), abs=0.1)
    assert "1 question has no difficulty" in found.details()
    # Everything that rests on difficulty does without it.
    assert found.levels(4)["level"].null_count() == 1
    assert found.level_stability(4, repeats=1).height
    assert found.figure().to_dict()
    assert found.accuracy_by_level(["s0"], 4)["n"].sum() == 39
    assert np.allclose(found.score(study)["ability"], found.subjects["ability"], atol=1e-6)
    profile = breadth.profile(study, found, ["s0", "s1"], levels=4)
    assert profile.warnings == ("39 of 40 items have a level in the calibration; the others are left out",)
    items = pl.DataFrame({"item": study.item_names})
    assert breadth.sample(items, found).items.height == 39
    assert breadth.difficulty_vs(found, items.with_columns(x=pl.int_range(40))).measures["n"].item() == 39
    again = breadth.calibrate(study, model="2pl", anchor=found)
    assert again.items["difficulty"][5] is None
    assert np.allclose(again.items["difficulty"].drop_nulls(), found.items["difficulty"].drop_nulls())


def test_notes_do_not_contradict_the_slope(truth):
    """An item that goes with ability, and against a score that most items make by chance."""
    generator = np.random.default_rng(2)
    matrix = np.where(np.arange(40) < 34, generator.integers(0, 2, (400, 40)), truth[0].matrix).astype(np.int8)
    for model in ("1pl", "2pl"):
        rows = breadth.calibrate(matrix, model=model).items.filter(flag=ItemFlag.NO_DISCRIMINATION.value)
        assert rows.height
        if model == "2pl":
            assert (rows["discrimination"] <= 1.645 * rows["discrimination_se"]).all()
        else:
            against = rows["label_doubt"].is_not_null()
            assert (against == (rows["point_biserial"] < -1.645 / 20)).all()
            assert (rows["note"].str.contains("its label may be wrong") == against).all()


def test_chance_from_options_or_labels(truth):
    def chance(**columns):
        study = replace(truth[0], items=truth[0].items.with_columns(**columns))
        return breadth.calibrate(study).fit["chance"].item()

    assert chance() is None
    assert chance(options=pl.Series([["a", "b", "c", "d"]] * 40)) == 0.25
    assert chance(label=pl.Series(["Yes", "No"] * 20)) == 0.5
    assert chance(label=pl.Series(["A", "B", "C", "D"] * 10)) == 0.25
    assert chance(label=pl.Series([str(k) for k in range(40)])) is None, "free answers"
    assert chance(label=pl.Series(["Yes"] * 39 + ["No"])) is None
    assert breadth.calibrate(truth[0], chance=0.2).fit["chance"].item() == 0.2


def test_pure_likelihood_lets_extreme_items_go(truth):
    matrix = truth[0].matrix.copy()
    matrix[:, 0] = 1
    found = breadth.calibrate(replace(truth[0], matrix=matrix), priors="none")
    assert found.items["difficulty"][0] < -8
    assert found.items["level"][0] == 0


def test_priors_from_a_file(truth, tmp_path):
    path = tmp_path / "priors.json"
    path.write_text(json.dumps({"intercept_sd": 0.5}))
    tight = breadth.calibrate(truth[0], priors=path).items["difficulty"].std()
    assert tight < breadth.calibrate(truth[0]).items["difficulty"].std()
    assert tight == pytest.approx(
        breadth.calibrate(truth[0], priors=Priors(intercept_sd=0.5)).items["difficulty"].std()
    )
    for content, message in [
        ('{"spread": 1}', "unknown prior spread"),
        ("[1", "JSON"),
        ('{"intercept_sd": "x"}', "number or null"),
        ("[1]", "JSON object"),
    ]:
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            breadth.calibrate(truth[0], priors=path)


def test_anchored_items_keep_their_scale(truth, as_study):
    data, ability, difficulty, _ = truth
    first = breadth.calibrate(as_study(data.matrix[:, :30], data.subject_names, data.item_names[:30]), model="2pl")
    able = np.argsort(ability)[200:]
    second = as_study(data.matrix[able][:, 10:], tuple(data.subject_names[i] for i in able), data.item_names[10:])
    found = breadth.calibrate(second, model="2pl", anchor=first)
    assert np.allclose(found.items["difficulty"][:20], first.items["difficulty"][10:])
    assert found.fit["ability_mean"].item() > 0.5, "the second group is abler, and the scale shows it"
    assert np.abs(found.items["difficulty"][20:].to_numpy() - difficulty[30:]).mean() < 0.35
    with pytest.raises(InputError, match="in common"):
        breadth.calibrate(np.ones((5, 12)), anchor=first)


def test_min_responses(truth):
    matrix = truth[0].matrix.copy()
    matrix[50:, 5] = -1
    found = breadth.calibrate(replace(truth[0], matrix=matrix), min_responses=100, levels=5)
    assert found.items["flag"][5] == ItemFlag.TOO_FEW_ANSWERS
    assert found.items["note"][5] == "50 answers; at least 100 are required"
    assert found.items["difficulty"][5] is None


def test_copies_can_be_weighed_or_dropped(simulate, as_study):
    data = simulate(items=150)[0]
    copied = np.repeat(data.matrix[:1], 200, axis=0)
    many = as_study(
        np.concatenate([data.matrix, copied]), (*data.subject_names, *(f"c{i}" for i in range(200))), data.item_names
    )
    alone = breadth.calibrate(data).items["difficulty"].to_numpy()
    kept = np.abs(breadth.calibrate(many).items["difficulty"].to_numpy() - alone).mean()
    for treatment in ("weigh", "drop"):
        found = breadth.calibrate(many, copies=treatment)
        assert np.abs(found.items["difficulty"].to_numpy() - alone).mean() < kept / 5
        assert found.subjects.height == 600
    assert breadth.calibrate(many).copies.distinct <= 401
    assert "near-copies" in breadth.calibrate(many).summary()


def test_shares_are_fractional_answers(truth):
    matrix = truth[0].matrix.astype(float)
    blurred = np.where(matrix == 1, 0.9, 0.1)
    for model in ("1pl", "2pl"):
        found = breadth.calibrate(blurred, model=model)
        assert np.corrcoef(found.items["difficulty"], truth[2])[0, 1] > 0.93
    with pytest.raises(InputError, match="answers: 3PL needs answers that are right"):
        breadth.calibrate(blurred, model="3pl")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "5pl"}, "choose 1pl"),
        ({"levels": 1}, "levels= is 1"),
        ({"copies": "burn"}, "choose keep"),
        ({"priors": "flat"}, "priors are"),
        ({"testset": "u"}, "no test set 'u'"),
        ({"chance": 4.0}, "chance= is 4; it lies between 0 and 1"),
    ],
)
def test_bad_options(truth, options, message):
    with pytest.raises(InputError, match=message):
        breadth.calibrate(truth[0], **options)


@pytest.mark.parametrize("shape", [(1, 20), (20, 1)])
def test_one_subject_or_one_item(shape):
    matrix = np.random.default_rng(0).integers(0, 2, shape).astype(np.int8)
    with pytest.raises(InputError, match="at least 2"):
        breadth.calibrate(matrix, levels=2)


@pytest.fixture(scope="module")
def study(write_study, tmp_path_factory):
    runs = [{"model": model, "seed": seed} for model in ("small", "owner/large") for seed in (0, 1)]
    runs = [{**run, "name": f"{run['model'].split('/')[-1]}-s{run['seed']}"} for run in runs]
    return write_study(tmp_path_factory.mktemp("study"), runs, steps=6, levels=3)


def test_checkpoints_are_subjects(study):
    found = breadth.calibrate(study)
    assert found.items.columns == [*ITEM_COLUMNS, "testset", "label"]
    assert found.items["testset"].value_counts().sort("testset")["count"].to_list() == [60, 60, 60]
    assert set(found.items["label"]) == {"Yes", "No"}
    # Step 0 of the second run of a model is that of the first.
    assert found.subjects.height == 4 * 6 - 2
    assert "large-s1/0" not in found.subjects["subject"].to_list()
    assert any(line.startswith("2 of 24 checkpoints repeat the answers") for line in found.warnings)
    assert any("22 checkpoints come from 4 runs" in line and "too small" in line for line in found.warnings)
    abilities = found.subjects.filter(pl.col("subject").str.starts_with("small-s0/"))
    assert abilities["ability"][0] < abilities["ability"][-1]


def test_one_testset(study, tmp_path):
    found = breadth.calibrate(study, testset="away")
    assert found.items["testset"].unique().to_list() == ["away"]
    assert found.items.height == 60
    found.save(tmp_path / "c.parquet")
    assert breadth.Calibration.load(tmp_path / "c.parquet").items.columns[-2:] == ["testset", "label"]
    with pytest.raises(InputError, match=r"no test set 'awey'\. Did you mean away"):
        breadth.calibrate(study, testset="awey")


def test_a_testset_of_a_table_or_matrix(tmp_path):
    matrix = np.random.default_rng(0).integers(0, 2, (30, 20)).astype(np.int8)
    testset = np.array(["x"] * 12 + ["y"] * 8)
    np.savez(tmp_path / "answers.npz", R=matrix, testset=testset, items=np.arange(20).astype(str))
    long = pl.DataFrame(
        {
            "subject": np.repeat(np.arange(30), 20).astype(str),
            "item": np.tile(np.arange(20), 30).astype(str),
            "testset": np.tile(testset, 30),
            "correct": matrix.ravel(),
        }
    )
    found = [breadth.calibrate(source, testset="x").items for source in (tmp_path / "answers.npz", long)]
    assert found[0].equals(found[1])
    assert found[0].height == 12
    with pytest.raises(InputError, match="no test set 'x'"):
        breadth.calibrate(long.drop("testset"), testset="x")


def test_checkpoints_in_a_table_are_not_independent(study):
    answers = open_study(study)
    long = answers.responses.collect().join(answers.subjects.select("subject", "run", "step"), on="subject")
    found = breadth.calibrate(long.drop("subject"))
    assert any("24 checkpoints come from 4 runs" in line for line in found.warnings)


def test_ids_that_repeat_between_sets(write_study, tmp_path):
    store = StudyStore(tmp_path)
    for name in ("a", "b"):
        store.write_items(name, pl.DataFrame({"item": ["1", "2"], "testset": name, "label": [name, name]}))
    answers = pl.DataFrame({"testset": ["a", "a", "b", "b"], "item": ["1", "2"] * 2, "margin": 0.0, "answer": "x"})
    run = store.run("r")
    run.write_record(RunRecord(model="m", checkpoints=(0, 1, 2)))
    for step, correct in enumerate([[1, 0, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0]]):
        run.write_part(step, answers.with_columns(correct=pl.Series(correct)))
    items = breadth.calibrate(tmp_path).items
    assert items.select("item", "testset", "label").rows()[0] == ("a / 1", "a", "a")
    assert items["label"].to_list() == ["a", "a", "b", "b"]


class TestRealData:
    def test_gsm8k_leaderboard(self, shared_data):
        path = shared_data / "responses" / "gsm8k_leaderboard.npz"
        rasch, two = (breadth.calibrate(path, model=model) for model in ("1pl", "2pl"))
        assert rasch.fit["converged"].item()
        assert two.fit["converged"].item()
        assert two.fit["log_likelihood"].item() > rasch.fit["log_likelihood"].item() + 10_000
        assert rasch.items["level"].value_counts()["count"].min() >= 54
        found = breadth.difficulty_vs(two, shared_data / "qa" / "gsm8k.parquet", measures="steps,length").measures
        assert found["n"].to_list() == [486, 486]
        assert (found["ci_low"] > 0).all()
        assert rasch.scale_warning is None
        assert two.scale_warning is None
        assert two.fit["score_correlation"].item() > 0.98

    @pytest.mark.parametrize("name", ["rte", "sst2", "musr", "legalbench"])
    def test_answers_that_do_not_measure_one_ability(self, shared_data, name):
        found = breadth.calibrate(shared_data / "responses" / f"{name}.npz", model="2pl")
        assert "do not measure one ability" in found.scale_warning
        assert found.fit["against_scale"].item() > 0.25
        assert found.fit["score_correlation"].item() < 0.75
        assert ItemFlag.WRONG_KEY not in found.items["flag"].to_list()
        assert found.items["difficulty"].abs().max() <= 6.5
        easiest, hardest = (found.items.filter(level=level)["p_correct"].mean() for level in (0, 9))
        assert easiest > hardest + 0.1, "levels are not turned round"

    @pytest.mark.parametrize("name", ["med_qa", "arc_challenge", "ifeval", "openllm_math", "bigcodebench"])
    def test_answers_that_do(self, shared_data, name):
        for model in ("1pl", "2pl"):
            found = breadth.calibrate(shared_data / "responses" / f"{name}.npz", model=model)
            assert found.scale_warning is None
            assert found.fit["against_scale"].item() < 0.06
            assert found.fit["score_correlation"].item() > 0.98
            right = found.items.drop_nulls("level").group_by("level").agg(pl.col("p_correct").mean()).sort("level")
            assert right["p_correct"][0] > right["p_correct"][4] > right["p_correct"][9]
