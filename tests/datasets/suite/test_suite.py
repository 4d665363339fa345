"""What every generated set guarantees: size, reproducibility, no duplicates, no overlap, balance, pairing."""

import hashlib
import subprocess
import sys

import polars as pl
import pytest

from breadth import records
from breadth.datasets.suite import MAX_ITEMS, SCHEMA, SETS, SPLITS, generate
from breadth.errors import InputError

STYLES = ("plain", "formal", "chat")


@pytest.fixture(scope="module")
def frames():
    return {(name, split): generate(name, 2000, split=split) for name in SETS for split in SPLITS}


def test_the_thirteen_sets_cover_every_kind_of_shift():
    expected = (
        "everyday workplace plain science formal chat negation quantifiers numbers word_order paraphrase coreference "
        "chains"
    )
    assert set(SETS) >= set(expected.split())
    assert {testset.shift for testset in SETS.values()} == set(records.SHIFTS)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", SETS)
def test_frame_has_its_schema_and_no_duplicates(frames, name, split):
    frame = frames[name, split]
    assert dict(frame.schema) == SCHEMA
    assert frame.height == 2000
    assert frame.select("premise", "hypothesis").n_unique() == 2000
    assert frame["item"].n_unique() == 2000
    assert frame["item"][123] == f"{name}-{split}-000123"
    assert frame["testset"].unique().to_list() == [name]
    assert frame["shift"].unique().to_list() == [SETS[name].shift]
    required = frame.drop("pair", "steps")
    assert required.null_count().sum_horizontal().item() == 0


@pytest.mark.parametrize("name", SETS)
def test_same_arguments_same_frame_and_a_prefix_is_a_prefix(name):
    whole = generate(name, 301, seed=5, split="train")
    assert whole.equals(generate(name, 301, seed=5, split="train"))
    for m in (0, 1, 2, 150):
        assert whole.head(m).equals(generate(name, m, seed=5, split="train"))
    assert not whole["premise"].equals(generate(name, 301, seed=6, split="train")["premise"])


def test_another_process_with_another_hash_seed_generates_the_same():
    code = "from breadth.datasets.suite import *; print(*(generate(s, 40).hash_rows().sum() for s in SETS))"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1


#: Hashes of the first 300 test items and the first 300 train items of each set.
FROZEN = {
    "everyday": "bdecfd8d2d26df83",
    "workplace": "1e907a3d72796dd9",
    "plain": "051dc10a9ee320a7",
    "science": "0095abaf58908a50",
    "formal": "abb05909168376fa",
    "chat": "901a1644d12c7454",
    "negation": "7647e996dd9c9f8d",
    "quantifiers": "70fef8c24b6fa3e3",
    "numbers": "eb304c8e80807256",
    "word_order": "2a54da07c8bb67e3",
    "paraphrase": "58055cb979be189e",
    "coreference": "25373199a348b225",
    "chains": "9ba30d2cc09bc8e3",
}


@pytest.mark.parametrize("name", SETS)
def test_items_are_frozen(name):
    """Published ids must keep their texts: change these only together with a note in the changelog."""
    rows = [generate(name, 300, split=split).rows() for split in ("test", "train")]
    assert hashlib.sha256(repr(rows).encode()).hexdigest()[:16] == FROZEN[name]


def test_the_first_item_of_a_set():
    row = generate("negation", 1).row(0, named=True)
    assert row["premise"] == "On Sunday, Edith did not find the keys, but Max did."
    assert row["hypothesis"] == "Edith did not find the keys."


def test_train_and_test_share_no_premise_and_no_hypothesis(frames):
    """Across all sets, and across seeds."""

    def texts(split):
        more = [generate(name, 1000, seed=seed, split=split) for name in SETS for seed in (1, 2)]
        both = pl.concat([*more, *(frames[name, split] for name in SETS)])
        return set(both["premise"]) | set(both["hypothesis"])

    assert not texts("train") & texts("test")


@pytest.mark.parametrize("n", [1, 7, 100, 2000])
@pytest.mark.parametrize("name", SETS)
def test_labels_are_balanced_overall_and_in_each_family(name, n):
    frame = generate(name, n, seed=2)
    difference = pl.when(pl.col("label") == "entailment").then(1).otherwise(-1).sum().abs()
    assert frame.select(difference).item() <= 1
    assert frame.group_by("template").agg(difference.alias("off"))["off"].max() <= 1
    assert set(frame["label"]) <= {"entailment", "not_entailment"}


@pytest.mark.parametrize("name", SETS)
def test_families_have_equal_shares(frames, name):
    shares = frames[name, "test"]["template"].value_counts()["count"]
    assert shares.len() >= 4
    assert shares.max() - shares.min() <= 12  # chains give a relation all its six lengths in one turn


def test_styles_say_the_same_item_for_item(frames):
    plain, formal, chat = (frames[name, "test"] for name in STYLES)
    assert plain["pair"].n_unique() == plain.height
    for other in (formal, chat):
        assert other.select("pair", "label", "template").equals(plain.select("pair", "label", "template"))
    for column in ("premise", "hypothesis"):
        assert not (plain[column] == formal[column]).any()
        assert not (plain[column] == chat[column]).any()
        assert not (formal[column] == chat[column]).any()


def test_styles_are_about_the_same_people(frames):
    import re

    from breadth.datasets.suite.templates import PEOPLE

    def named(text):
        return {word for word in re.findall(r"[A-Z]\w+", text) if word in PEOPLE.test}

    for column in ("premise", "hypothesis"):
        for texts in zip(*(frames[name, "test"][column] for name in STYLES), strict=True):
            plain, formal, chat = map(named, texts)
            assert plain == formal == chat


def test_only_styles_are_paired_and_only_chains_have_steps(frames):
    for name in SETS:
        frame = frames[name, "test"]
        assert frame["pair"].null_count() == (0 if name in STYLES else 2000)
        assert frame["steps"].null_count() == (0 if name == "chains" else 2000)


def test_arguments_out_of_range_are_refused():
    with pytest.raises(InputError, match=r"unknown set 'negaton'. Did you mean negation\?"):
        generate("negaton", 10)
    with pytest.raises(InputError, match="between 0 and 20,000"):
        generate("plain", MAX_ITEMS + 1)
    with pytest.raises(InputError, match=r"n is -1.*seed is -1.*unknown split 'dev'"):
        generate("plain", -1, seed=-1, split="dev")


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", SETS)
def test_the_maximum_can_be_generated(name, split):
    frame = generate(name, MAX_ITEMS, seed=1, split=split)
    assert frame.select("premise", "hypothesis").n_unique() == MAX_ITEMS
