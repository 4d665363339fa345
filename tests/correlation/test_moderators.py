"""What makes test sets agree: found where it is true, not where it is not, and refused where it cannot be known."""

import numpy as np
import polars as pl
import pytest

import breadth
from breadth.correlation.moderators import ANY, ModeratorFlag, kinds_of
from breadth.datasets import autoregressive, simulate_study
from breadth.errors import InputError

SETS = ("a", "b", "c", "d")


def simulate(z, *, steps=41, seed=0, columns=None):
    """One run per entry of z [G] or [G, P]: test sets whose fluctuations have these correlations."""
    generator = np.random.default_rng(seed)
    z = np.broadcast_to(np.asarray(z, dtype=float).reshape(len(z), -1), (len(z), 6))
    matrix = np.zeros((len(z), 4, 4))
    first, second = np.triu_indices(4, 1)
    matrix[:, first, second] = matrix[:, second, first] = np.tanh(z)
    matrix += np.eye(4)
    values, vectors = np.linalg.eigh(matrix)
    matrix = vectors @ (np.maximum(values, 0.02)[:, :, None] * vectors.transpose(0, 2, 1))
    moves = autoregressive(generator, len(z), steps, matrix, 0.3)
    control = np.linspace(0, 1, steps) + 0.02 * generator.standard_normal((len(z), steps))
    scores = 0.5 + 0.2 * control[:, :, None] + 0.02 * moves
    frames = []
    for index in range(len(z)):
        about = {name: pl.lit(values[index]) for name, values in (columns or {}).items()}
        data = {"step": np.arange(steps), "in_domain": 0.5 + 0.3 * control[index]}
        data |= {name: scores[index, :, column] for column, name in enumerate(SETS)}
        frames.append(pl.DataFrame(data).with_columns(run=pl.lit(f"run-{index:02d}"), **about))
    return pl.concat(frames)


def correlate(table, **options):
    options = {"control": "in_domain", "by": "run", "order": "step", "item_counts": "none"} | options
    return breadth.correlate(table, **({"testsets": list(SETS)} | options))


@pytest.fixture(scope="module")
def sizes():
    return [f"net-{size}" for size in ("70m", "160m", "410m", "1b", "2.8b", "6.9b", "12b", "30b")]


def test_correlations_that_grow_with_size_are_found(sizes):
    table = simulate(np.linspace(0, 1.2, 8), columns={"model": sizes})
    result = correlate(table, moderators="size")
    row = result.moderators.row(0, named=True)
    assert row["contrast"] == "per tenfold"
    assert row["q"] < 0.05
    assert row["p_permutation"] < 0.05
    truth = 1.2 / np.log10(30e9 / 70e6)
    assert row["ci_low"] < truth < row["ci_high"]
    assert row["r_from"] < 0.25
    assert row["r_to"] > 0.6
    assert (row["k"], row["n"], row["over"]) == (8, 8, "run")
    assert "grow with size" in result.verdict().findings
    assert "70M" in result.verdict().findings


def test_in_few_studies_without_an_effect_is_one_found(sizes):
    """A small version of benchmarks/moderators.py; runs are what is random, so each model has its own level."""
    generator = np.random.default_rng(0)
    found, covered = [], []
    for seed in range(40):
        z = 0.3 + 0.2 * generator.standard_normal((4, 1)) + 0.1 * generator.standard_normal((4, 6))
        table = simulate(z, steps=25, seed=seed, columns={"model": sizes[::2]})
        row = correlate(table, adjust="linear", moderators="size").moderators.row(0, named=True)
        found.append(row["p"] < 0.05)
        covered.append(row["ci_low"] <= 0 <= row["ci_high"])
    assert np.mean(found) <= 0.125
    assert np.mean(covered) >= 0.875


def test_seeds_of_a_model_are_not_models():
    """Six seeds of each of four models that differ at random: 24 runs would make a slope of chance."""
    generator = np.random.default_rng(5)
    level = np.repeat(0.3 + 0.4 * generator.standard_normal(4), 6)
    model = [f"m{index}" for index in np.repeat(range(4), 6)]
    table = simulate(level, columns={"model": model, "size": np.repeat([1e8, 1e9, 1e10, 1e11], 6)})
    row = correlate(table, moderators="size").moderators.row(0, named=True)
    assert (row["over"], row["k"], row["df"], row["n"]) == ("model", 4, 2, 24)
    alone = correlate(table, moderators="size", cluster="none").moderators.row(0, named=True)
    assert alone["df"] == 22
    assert alone["se"] < row["se"]


def test_what_varies_within_models_is_judged_within_them():
    generator = np.random.default_rng(1)
    level = np.repeat(generator.normal(0.5, 0.5, 5), 3)
    examples = np.tile([64, 512, 4096], 5)
    z = level + 0.3 * np.log10(examples / 512)
    model = [f"m{index}" for index in np.repeat(range(5), 3)]
    row = correlate(simulate(z, columns={"model": model, "examples": examples}), moderators="examples").moderators
    row = row.row(0, named=True)
    assert row["over"] == "model"
    assert row["df"] == pytest.approx(4)
    assert row["ci_low"] < 0.3 < row["ci_high"]
    assert row["p"] < 0.05


def test_two_models_speak_for_themselves_only():
    z = np.tile([0.0, 0.0, 0.9, 0.9], 2)
    table = simulate(z, columns={"model": np.repeat(["m0", "m1"], 4), "train_set": np.tile(["x", "x", "y", "y"], 2)})
    result = correlate(table, moderators="train_set")
    row = result.moderators.row(0, named=True)
    assert row["contrast"] == "y - x"
    assert (row["over"], row["k"], row["n"]) == ("run", 2, 8)
    assert row["q"] < 0.05
    assert "these models only" in result.verdict().findings


def test_models_themselves_are_compared_over_their_runs():
    table = simulate(np.repeat([0.0, 0.1, 1.2], 4), columns={"model": np.repeat(["m0", "m1", "m2"], 4)})
    frame = correlate(table, moderators="model").moderators
    assert frame["contrast"].to_list() == ["m0 - others", "m1 - others", "m2 - others", ANY]
    assert frame["over"].unique().to_list() == ["run"]
    assert frame.filter(pl.col("contrast") == ANY)["q"][0] < 0.05
    assert frame.filter(pl.col("contrast") == "m2 - others")["estimate"][0] > 0.5


def test_a_moderator_is_also_estimated_with_the_others_held_constant():
    """Family explains everything; size goes with it, and has nothing of its own."""
    family = np.repeat(["old", "new"], 6)
    size = np.concatenate([np.geomspace(1e8, 3e9, 6), np.geomspace(1e9, 3e10, 6)])
    z = np.where(family == "new", 0.9, 0.1)
    frame = correlate(simulate(z, columns={"family": family, "size": size}), moderators=["size", "family"]).moderators
    alone, held = (frame.filter(pl.col("moderator") == "size", pl.col("given") == given) for given in ("", "family"))
    assert alone["p"][0] < 0.05
    assert held["p"][0] > 0.05
    assert frame.filter(pl.col("moderator") == "family", pl.col("given") == "size")["p"][0] < 0.05


def test_noise_that_falls_with_size_is_not_taken_for_agreement():
    """All models have r .7; small ones hardly move, so that noise hides more of it."""
    generator = np.random.default_rng(2)
    table = simulate(np.full(10, 0.87), seed=3, columns={"size": np.geomspace(1e8, 1e10, 10)}, steps=81)
    moves = np.repeat(np.linspace(0.4, 1.6, 10), 81)
    noisy = {"in_domain": generator.binomial(20_000, table["in_domain"].to_numpy()) / 20_000}
    for name in SETS:
        expected = 0.5 + (table["in_domain"].to_numpy() - 0.5) * 2 / 3
        share = expected + moves * (table[name].to_numpy() - expected)
        noisy[name] = generator.binomial(1000, np.clip(share, 0, 1)) / 1000
    table = table.with_columns(pl.Series(name, values) for name, values in noisy.items())
    plain = correlate(table, moderators="size").moderators.row(0, named=True)
    assert plain["p"] < 0.01
    counts = {"in_domain": 20_000} | dict.fromkeys(SETS, 1000)
    known = correlate(table, moderators="size", item_counts=counts).moderators.row(0, named=True)
    assert known["estimate_plain"] == pytest.approx(plain["estimate"], abs=1e-6)
    assert known["p"] > 0.05
    assert known["ci_low"] < 0 < known["ci_high"]
    assert abs(known["estimate"]) < plain["estimate"]


def test_test_sets_too_small_to_correct_are_shown_as_observed(sizes):
    table = simulate(np.full(8, 0.3), columns={"model": sizes})
    counts = {"in_domain": 5000} | dict.fromkeys(SETS, 30)
    row = correlate(table, moderators="size", item_counts=counts).moderators.row(0, named=True)
    assert row["flag"] == ModeratorFlag.LOW_RELIABILITY
    assert row["p"] is not None


def test_kinds_of_shift_that_agree_are_found_and_shuffled():
    generator = np.random.default_rng(0)
    names = [f"{kind}{index}" for kind in "uvw" for index in range(3)]
    shared = generator.standard_normal((6, 60, 3))
    own = generator.standard_normal((6, 60, 9))
    scores = 0.5 + 0.02 * (np.repeat(shared, 3, axis=2) + own)
    table = pl.DataFrame({
        "run": np.repeat([f"r{index}" for index in range(6)], 60), "step": np.tile(np.arange(60), 6),
        **{name: scores[:, :, column].reshape(-1) for column, name in enumerate(names)},
    })  # fmt: skip
    kinds = {"u*": "style", "v*": "domain", "w*": "difficulty"}
    options = {"adjust": "none", "by": "run", "order": "step", "item_counts": "none", "moderators": "kind"}
    row = breadth.correlate(table, kinds=kinds, **options).moderators.row(0, named=True)
    assert row["estimate"] > 0.3
    assert row["q"] < 0.05
    assert row["p_permutation"] < 0.05
    # The same names dealt out so that they mean nothing.
    dealt = {f"{kind}{index}": str(index) for kind in "uvw" for index in range(3)}
    row = breadth.correlate(table, kinds=dealt, **options).moderators.row(0, named=True)
    assert row["estimate"] < 0
    assert row["p_permutation"] > 0.05


def test_kinds_come_from_names_studies_and_patterns():
    kinds = kinds_of(["hans", "mine", "other_1", "other_2"], {"other*": "style"}, {"mine": "domain"})
    assert kinds == {"hans": "adversarial", "mine": "domain", "other_1": "style", "other_2": "style"}


def test_pairs_say_what_is_known_of_their_runs(sizes):
    table = simulate(np.zeros(8), columns={"model": sizes, "seed": np.arange(8), "family": ["x"] * 8})
    pairs = correlate(table).pairs
    assert pairs.columns[:4] == ["run", "a", "b", "n"]
    assert pairs.columns[-4:] == ["model", "seed", "size", "family"]
    assert pairs.filter(pl.col("model") == "net-6.9b")["size"].unique().to_list() == [6.9e9]


def test_a_study_knows_its_kinds_and_models(tmp_path):
    study = simulate_study(tmp_path / "study", runs=4, checkpoints=20, items=100)
    result = breadth.correlate(study.folder, moderators=["model", "kind"], adjust="linear")
    assert result.kinds["negation"] == "adversarial"
    assert set(result.moderators["moderator"]) == {"model", "kind"}
    assert result.moderators.filter(pl.col("moderator") == "model")["over"][0] == "run"


def test_training_sets_of_a_study_are_compared_within_models(write_study, tmp_path):
    """Four models with two runs on each of two training sets: each part has its own control, the question is one."""
    sets = ("home", "away", "abroad", "far")
    runs = [
        {"model": f"net-{size}", "seed": seed, "train_set": name}
        for size in ("100m", "300m", "1b", "3b") for seed in (0, 1) for name in ("home", "away")
    ]  # fmt: skip
    result = breadth.correlate(write_study(tmp_path, runs, sets), moderators=["train_set", "size"], adjust="linear")
    alone = result.moderators.filter(pl.col("given") == "")
    assert alone["moderator"].to_list() == ["train_set", "size"]
    assert alone["over"].to_list() == ["model", "model"]
    assert alone["k"].to_list() == [4, 4]
    assert alone["n"].to_list() == [16, 16]
    assert result.pairs.columns[:3] == ["train_set", "run", "a"]


class TestRefusals:
    def test_a_column_that_is_not_there(self, sizes):
        table = simulate(np.zeros(4), columns={"flavour": list("wxyz")})
        with pytest.raises(InputError, match=r"no column 'flavor'.*flavour"):
            correlate(table, moderators="flavor")
        with pytest.raises(InputError, match="size of the models is not known"):
            correlate(table, moderators="size")

    def test_a_constant(self):
        with pytest.raises(InputError, match="'x' in every group"):
            correlate(simulate(np.zeros(4), columns={"kind_of_model": ["x"] * 4}), moderators="kind_of_model")

    def test_missing_values(self, sizes):
        table = simulate(np.zeros(4), columns={"model": [*sizes[:3], "acme"]})
        with pytest.raises(InputError, match=r"size is missing for 1 of 4 groups \(run-03\)"):
            correlate(table, moderators="size")

    def test_a_value_that_changes_within_a_run(self):
        table = simulate(np.zeros(4)).with_columns(pace=pl.col("step") // 10)
        with pytest.raises(InputError, match="pace changes within a run"):
            correlate(table, moderators="pace")

    def test_a_table_without_groups(self):
        table = simulate(np.zeros(2)).drop("run", "step")
        with pytest.raises(InputError, match="name the column of groups with by="):
            correlate(table, by="none", order="none", moderators="size")

    def test_kinds_that_are_not_known_or_say_nothing(self):
        table = simulate(np.zeros(4))
        with pytest.raises(InputError, match="kind of shift of every test set, and that of a, b, c, d is"):
            correlate(table, moderators="kind")
        with pytest.raises(InputError, match="all test sets are of one kind"):
            correlate(table, moderators="kind", kinds={"*": "style"})

    def test_too_few_models_have_no_slope(self, sizes):
        result = correlate(simulate(np.zeros(3), columns={"model": sizes[:3]}), moderators="size")
        row = result.moderators.row(0, named=True)
        assert row["flag"] == ModeratorFlag.TOO_FEW_UNITS
        assert row["p"] is None
        assert "at least 4" in result.verdict().findings


def test_real_models_of_one_series_do_not_agree_more_when_larger(trajectory_data):
    table = trajectory_data / "pythia_zero_shot.csv"
    result = breadth.correlate(table, control="lambada_openai", item_counts="none", moderators="size")
    row = result.moderators.row(0, named=True)
    assert (row["k"], row["over"]) == (16, "model")
    assert row["p"] > 0.3
    assert row["ci_high"] < 0.1
    points = result.moderator_means.filter(pl.col("what") == "unit")
    assert points["value"].min() == 70e6
    assert points["value"].max() == 12e9
