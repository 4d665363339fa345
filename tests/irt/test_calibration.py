import numpy as np
import polars as pl
import pytest

import breadth
from breadth.errors import InputError
from breadth.results import Answer


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


def test_scoring_the_same_subjects_gives_the_same_abilities(truth, result, as_study):
    again = result.score(truth[0])
    assert np.allclose(again["ability"], result.subjects["ability"], atol=1e-6)
    part = as_study(truth[0].matrix[:5, ::-1], truth[0].subject_names[:5], truth[0].item_names[::-1])
    assert np.allclose(breadth.ability(part, result).subjects["ability"], result.subjects["ability"][:5], atol=1e-6)
    few = as_study(truth[0].matrix[:5, :3], truth[0].subject_names[:5], (*truth[0].item_names[:2], "unknown"))
    assert breadth.ability(few, result).subjects["n"].to_list() == [2] * 5


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
    assert "2PL on 400 models" in back.details()
    assert back.figure().to_dict()


def test_any_table_of_difficulties_will_do(tmp_path, truth):
    path = tmp_path / "items.csv"
    pl.DataFrame({"item": truth[0].item_names, "difficulty": truth[2]}).write_csv(path)
    found = breadth.ability(truth[0], path).subjects
    assert np.corrcoef(found["ability"], truth[1])[0, 1] > 0.9
    assert breadth.levels(path, n=4).levels["level"].is_sorted()


def test_levels_with_ranges(result):
    frame = result.items
    assert frame["level"].min() == 0
    assert frame["level"].max() == 9
    assert (frame["level_low"] <= frame["level"]).all()
    assert (frame["level"] <= frame["level_high"]).all()
    levels = breadth.levels(result, n=5).levels
    assert levels.columns == ["item", "difficulty", "difficulty_se", "level", "level_low", "level_high", "certainty"]
    with pytest.raises(InputError, match="n= is 1"):
        breadth.levels(result, n=1)


def test_few_items_have_few_levels(truth):
    few = breadth.calibrate(truth[0].matrix[:, :4])
    different = few.items["difficulty"].n_unique()
    assert sorted(set(few.items["level"])) == list(range(different))
    assert few.levels(10)["level"].max() == different - 1


def test_second_dimension_is_noticed(simulate):
    generator = np.random.default_rng(3)
    ability = generator.standard_normal((500, 2))
    chance = 1 / (1 + np.exp(-(np.repeat(ability, 20, axis=1) - generator.standard_normal(40))))
    matrix = (generator.random(chance.shape) < chance).astype(np.int8)
    assert breadth.calibrate(matrix).verdict().answer is Answer.MIXED
    assert breadth.calibrate(simulate(seed=5, slopes=False)[0]).verdict().answer is Answer.YES


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


def test_items_unknown_to_the_calibration(result):
    with pytest.raises(InputError, match="none of its 3 items is in the calibration"):
        result.score(np.ones((2, 3)))
    with pytest.raises(InputError, match="is not a calibration"):
        breadth.levels(pl.DataFrame({"x": [1]}))


def test_a_calibration_is_a_result(result):
    assert list(result.tables()) == ["items", "subjects", "fit"]
    assert result.verdict().headline in str(result)
    assert "BIC" in result.details()
    assert "BIC" not in str(result), "statistics are shown on request"
    assert "<table>" in result._repr_html_()
    assert result.to_pandas("subjects").shape == (400, 8)
    assert result.to_markdown("fit").startswith("| log")


def test_the_model_follows_from_the_parameters_where_it_is_not_on_record(tmp_path):
    path = tmp_path / "items.csv"
    for columns, model in (({}, "1pl"), ({"discrimination": [1.0, 2.0]}, "2pl"), ({"guessing": [0.0, 0.2]}, "3pl")):
        pl.DataFrame({"item": ["a", "b"], "difficulty": [0.0, 1.0], **columns}).write_csv(path)
        loaded = breadth.Calibration.load(path)
        assert loaded.model == model
        assert loaded.figure().to_dict()
        assert loaded.summary() == ""
