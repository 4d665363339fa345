import json

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.irt import Priors
from breadth.records import Responses
from breadth.verbs.items import ITEM_COLUMNS, SUBJECT_COLUMNS


def simulate(subjects=400, items=40, seed=0, slopes=True):
    generator = np.random.default_rng(seed)
    ability, difficulty = generator.standard_normal(subjects), np.sort(generator.standard_normal(items))
    slope = np.exp(0.3 * generator.standard_normal(items)) if slopes else np.ones(items)
    chance = 1 / (1 + np.exp(-slope * (ability[:, None] - difficulty)))
    matrix = (generator.random(chance.shape) < chance).astype(np.int8)
    names = tuple(f"s{i}" for i in range(subjects)), tuple(f"q{j:02d}" for j in range(items))
    return Responses(matrix, *names), ability, difficulty, slope


@pytest.fixture(scope="module")
def truth():
    return simulate()


@pytest.fixture(scope="module")
def result(truth):
    return breadth.calibrate(truth[0], model="2pl")


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


def test_probability_and_information(result):
    one = result.probability(0.5)
    assert one.shape == (40,)
    several = result.probability([0.5, 1.0])
    assert several.shape == (2, 40)
    assert np.allclose(several[0], one)
    assert np.all(several[1] > several[0])
    step = 1e-5
    slope = (result.probability(0.5 + step) - result.probability(0.5 - step)) / (2 * step)
    assert np.allclose(result.information(0.5), slope**2 / (one * (1 - one)), rtol=1e-6)


def test_scoring_the_same_subjects_gives_the_same_abilities(truth, result):
    again = result.score(truth[0])
    assert np.allclose(again["ability"], result.subjects["ability"], atol=1e-6)
    part = Responses(truth[0].matrix[:5, ::-1], truth[0].subjects[:5], truth[0].items[::-1])
    assert np.allclose(breadth.ability(part, result)["ability"], result.subjects["ability"][:5], atol=1e-6)
    few = Responses(truth[0].matrix[:5, :3], truth[0].subjects[:5], (*truth[0].items[:2], "unknown"))
    assert breadth.ability(few, result)["n"].to_list() == [2] * 5


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_round_trip(result, truth, tmp_path, ending):
    path = tmp_path / f"cal.{ending}"
    written = result.save(path)
    assert {p.name for p in written} == {f"cal.{ending}", f"cal.subjects.{ending}", f"cal.fit.{ending}"}
    back = breadth.Calibration.load(path)
    assert back.model == "2pl"
    assert np.allclose(back.score(truth[0])["ability"], result.subjects["ability"], atol=1e-6)
    assert back.levels(10)["level"].to_list() == result.items["level"].to_list()
    with pytest.raises(InputError, match="loaded from a file"):
        back.level_stability()
    assert "2PL on 400 subjects" in back.summary()
    assert back.figure().to_dict()


def test_any_table_of_difficulties_will_do(tmp_path, truth):
    path = tmp_path / "items.csv"
    pl.DataFrame({"item": truth[0].items, "difficulty": truth[2]}).write_csv(path)
    found = breadth.ability(truth[0], path)
    assert np.corrcoef(found["ability"], truth[1])[0, 1] > 0.9
    assert breadth.levels(path, 4)["level"].to_list() == sorted(breadth.levels(path, 4)["level"].to_list())


def test_levels_with_ranges(result):
    frame = result.items
    assert frame["level"].min() == 0
    assert frame["level"].max() == 9
    assert (frame["level_low"] <= frame["level"]).all()
    assert (frame["level"] <= frame["level_high"]).all()
    levels = breadth.levels(result, 5)
    assert levels.columns == ["item", "difficulty", "difficulty_se", "level", "level_low", "level_high", "certainty"]
    with pytest.raises(InputError, match="--n is 1"):
        breadth.levels(result, 1)


def test_few_items_have_few_levels(truth):
    few = breadth.calibrate(truth[0].matrix[:, :4])
    assert few.items["level"].max() == 3
    assert few.levels(10)["level"].max() == 3


def test_broken_items_are_noted(truth):
    matrix = truth[0].matrix.copy()
    matrix[:, 0], matrix[:, 1], matrix[:, 2] = 1, 0, -1
    matrix[:, 3] = 1 - matrix[:, 3]
    matrix[7] = -1
    for model in ("1pl", "2pl", "3pl"):
        found = breadth.calibrate(Responses(matrix, truth[0].subjects, truth[0].items), model=model)
        notes = found.items["note"].to_list()
        assert notes[0] == "right for all: difficulty comes from the prior"
        assert notes[1] == "right for none: difficulty comes from the prior"
        assert notes[2] == "no responses"
        assert "key may be wrong" in notes[3]
        assert found.items["difficulty"][2] is None
        assert found.items["difficulty"].drop_nulls().is_finite().all()
        assert found.items["difficulty_se"][0] > 3 * found.items["difficulty_se"][20]
        assert found.subjects["note"][7] == "no responses"
        assert found.subjects["ability"][7] is None
        assert "q03" in " ".join(found.warnings)
        assert "1 may have a wrong key" in found.summary()


def test_noise_is_not_called_a_wrong_key():
    answers = np.random.default_rng(0).integers(0, 2, (200, 100)).astype(np.int8)
    notes = breadth.calibrate(answers).items["note"].drop_nulls()
    assert notes.str.contains("does not tell").sum() > 0
    assert notes.str.contains("key may be wrong").sum() == 0


def test_subjects_that_are_all_alike_doubt_no_key():
    """Two kinds of subjects that are good at different items: whoever leads, the others' items run against it."""
    chance = np.random.default_rng(1)
    kind = chance.integers(0, 2, 60)
    good = np.where(np.arange(80)[None] < 40, kind[:, None] == 0, kind[:, None] == 1)
    answers = (chance.random((60, 80)) < np.where(good, 0.8, 0.3)).astype(np.int8)
    found = breadth.calibrate(answers)
    assert found.fit["reliability"][0] < 0.5
    assert not found.items["note"].drop_nulls().str.contains("key may be wrong").any()
    assert "too alike to be told apart (reliability 0." in " ".join(found.warnings)


def test_pure_likelihood_lets_extreme_items_go(truth):
    matrix = truth[0].matrix.copy()
    matrix[:, 0] = 1
    found = breadth.calibrate(Responses(matrix, truth[0].subjects, truth[0].items), priors="none")
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
        ('{"slope_sd": "x"}', "number or null"),
    ]:
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            breadth.calibrate(truth[0], priors=path)


def test_anchored_items_keep_their_scale(truth):
    data, ability, difficulty, _ = truth
    first = breadth.calibrate(Responses(data.matrix[:, :30], data.subjects, data.items[:30]), model="2pl")
    able = np.argsort(ability)[200:]
    second = Responses(data.matrix[able][:, 10:], tuple(data.subjects[i] for i in able), data.items[10:])
    found = breadth.calibrate(second, model="2pl", anchor=first)
    assert np.allclose(found.items["difficulty"][:20], first.items["difficulty"][10:])
    assert found.fit["ability_mean"].item() > 0.5, "the second group is abler, and the scale shows it"
    assert np.abs(found.items["difficulty"][20:].to_numpy() - difficulty[30:]).mean() < 0.35
    with pytest.raises(InputError, match="in common"):
        breadth.calibrate(np.ones((5, 12)), anchor=first)


def test_min_responses(truth):
    matrix = truth[0].matrix.copy()
    matrix[50:, 5] = -1
    found = breadth.calibrate(Responses(matrix, truth[0].subjects, truth[0].items), min_responses=100, levels=5)
    assert found.items["note"][5] == "50 responses; 100 were asked for"
    assert found.items["difficulty"][5] is None


def test_copies_can_be_weighed_or_dropped():
    data = simulate(items=150)[0]
    copied = np.repeat(data.matrix[:1], 200, axis=0)
    many = Responses(
        np.concatenate([data.matrix, copied]), (*data.subjects, *(f"c{i}" for i in range(200))), data.items
    )
    alone = breadth.calibrate(data).items["difficulty"].to_numpy()
    kept = np.abs(breadth.calibrate(many).items["difficulty"].to_numpy() - alone).mean()
    for treatment in ("weigh", "drop"):
        found = breadth.calibrate(many, copies=treatment)
        assert np.abs(found.items["difficulty"].to_numpy() - alone).mean() < kept / 5
        assert found.subjects.height == 600
    assert breadth.calibrate(many).copies.distinct <= 401
    assert "near-copies" in breadth.calibrate(many).summary()


def test_second_dimension_is_noticed():
    generator = np.random.default_rng(3)
    ability = generator.standard_normal((500, 2))
    chance = 1 / (1 + np.exp(-(np.repeat(ability, 20, axis=1) - generator.standard_normal(40))))
    matrix = (generator.random(chance.shape) < chance).astype(np.int8)
    assert "something besides one ability" in breadth.calibrate(matrix).summary()
    assert "one ability describes these answers" in breadth.calibrate(simulate(seed=5, slopes=False)[0]).summary()


def test_shares_are_fractional_answers(truth):
    matrix = truth[0].matrix.astype(float)
    blurred = np.where(matrix == 1, 0.9, 0.1)
    for model in ("1pl", "2pl"):
        found = breadth.calibrate(blurred, model=model)
        assert np.corrcoef(found.items["difficulty"], truth[2])[0, 1] > 0.93
    with pytest.raises(InputError, match="3pl needs 0 and 1"):
        breadth.calibrate(blurred, model="3pl")


def test_accuracy_by_level_and_curves(truth, result):
    frame = result.accuracy_by_level(["s0", "s1"], 4)
    assert frame.columns == ["subject", "level", "n", "accuracy", "ci_low", "ci_high", "expected"]
    total = frame.filter(subject="s0").select((pl.col("accuracy") * pl.col("n")).sum()).item()
    assert total == pytest.approx(truth[0].matrix[0].sum())
    lines, dots = result.curves(["q03"])
    assert lines.height == 81
    assert dots["n"].sum() == 400
    with pytest.raises(InputError, match="no item nothing"):
        result.curves(["nothing"])
    with pytest.raises(InputError, match="no subject nobody"):
        result.accuracy_by_level(["nobody"])


def test_difficulty_against_measures(result, tmp_path):
    items = pl.DataFrame(
        {
            "id": [f"q{j:02d}" for j in range(40)],
            "grade": list(range(40)),
            "question": ["word " * (40 - j) for j in range(40)],
        }
    )
    found = breadth.difficulty_vs(result, items, "grade,length")
    assert found["measure"].to_list() == ["grade", "question_length"]
    assert found["rho"][0] > 0.95
    assert found["rho"][1] < -0.95
    assert set(breadth.difficulty_vs(result, items)["measure"]) >= {"grade", "question_length", "digits"}
    assert breadth.difficulty_vs(result, items, "digits")["note"].item().startswith("constant")
    for bad, message in [
        (items.drop("id"), "no column 'item'"),
        (items.with_columns(id=pl.lit("x")), "none of its items"),
    ]:
        with pytest.raises(InputError, match=message):
            breadth.difficulty_vs(result, bad, "grade")
    with pytest.raises(InputError, match="Did you mean grade"):
        breadth.difficulty_vs(result, items, "grades")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "4pl"}, "choose 1pl"),
        ({"levels": 1}, "--levels is 1"),
        ({"copies": "burn"}, "choose keep"),
        ({"priors": "flat"}, "priors are"),
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


def test_items_unknown_to_the_calibration(result):
    with pytest.raises(InputError, match="none of its 3 items is in the calibration"):
        result.score(np.ones((2, 3)))
    with pytest.raises(InputError, match="is no calibration"):
        breadth.levels(pl.DataFrame({"x": [1]}))


class TestRealData:
    def test_gsm8k_leaderboard(self, shared_data):
        path = shared_data / "responses" / "gsm8k_leaderboard.npz"
        rasch, two = (breadth.calibrate(path, model=model) for model in ("1pl", "2pl"))
        assert rasch.fit["converged"].item()
        assert two.fit["converged"].item()
        assert two.fit["log_likelihood"].item() > rasch.fit["log_likelihood"].item() + 10_000
        assert rasch.items["level"].value_counts()["count"].min() >= 54
        found = breadth.difficulty_vs(two, shared_data / "qa" / "gsm8k.parquet", "steps,length")
        assert found["n"].to_list() == [486, 486]
        assert (found["ci_low"] > 0).all()
