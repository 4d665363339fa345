"""Sets by name: generated, or from files of every format, cut into train and test that share nothing."""

import hashlib

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.datasets import REGISTRY, load
from breadth.datasets.load import GENERATED_ITEMS
from breadth.errors import InputError

CANONICAL = ["item", "testset", "shift", "label"]

# Test and train items in the shared files; sizes of whole splits are the published ones.
REAL = {
    "snli": (6605, 6607),
    "mnli": (3354, 3338),
    "scitail": (1041, 1085),
    "wnli": (635, 71),
    "rte": (2490, 277),
    "paws": (3270, 3216),
    "hans": (14897, 15103),
    "anli": (1101, 1031),
    "arc": (245, 1114),
    "gsm8k": (251, 235),
}


@pytest.mark.parametrize("name", REAL)
def test_real_files_load_and_parts_share_nothing(name, shared_data):
    test, train, both = (load(name, split, shared_data) for split in ("test", "train", "all"))
    assert (test.frame.height, train.frame.height) == REAL[name]
    assert both.frame.height == sum(REAL[name])
    assert both.frame["item"].n_unique() == both.frame.height
    assert both.frame["item"].str.starts_with(f"{name}-").all()
    assert test.frame.columns[:4] == CANONICAL
    texts = [column for column in ("premise", "hypothesis", "question", "options") if column in test.frame.columns]
    assert not test.frame.join(train.frame, on=texts, how="inner").height
    assert str(shared_data) in test.source
    if REGISTRY[name].kind == "nli":
        assert set(test.frame["label"]) == {"entailment", "not_entailment"}


def test_further_columns_stay(shared_data):
    raw = pl.read_parquet(shared_data / "nli" / "mnli.parquet")
    frame = load("mnli", "all", shared_data).frame
    joined = frame.join(raw, on="id")
    assert (joined["n_correct_of_100_berts"] == joined["n_correct_of_100_berts_right"]).all()
    assert frame.height == raw.filter(pl.col("label") != "neutral").height == 6692
    assert {"heuristic", "subcase"} <= set(load("hans", data=shared_data).frame.columns)


def test_arc_names_options_by_letters(shared_data):
    frame = load("arc", "all", shared_data).frame
    raw = pl.read_parquet(shared_data / "qa" / "arc.parquet")
    right = {(row["split"], row["id"]): row["choices"][row["labels"].index(row["answer"])] for row in raw.to_dicts()}
    for row in frame.iter_rows(named=True):
        assert row["options"][row["option_labels"].index(row["label"])] == right[row["split"], row["id"]]
        assert row["option_labels"] == list("ABCDE")[: len(row["options"])]


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv", "tsv"])
@pytest.mark.parametrize("room", ["", "nli"])
def test_files_of_every_format_give_the_same_items(pairs, tmp_path, ending, room):
    folder = tmp_path / room
    folder.mkdir(exist_ok=True)
    path = folder / f"mnli.{ending}"
    writers = {
        "parquet": pairs.write_parquet,
        "jsonl": pairs.write_ndjson,
        "csv": pairs.write_csv,
        "tsv": lambda target: pairs.write_csv(target, separator="\t"),
    }
    writers[ending](path)
    loaded = load("mnli", "all", tmp_path)
    assert loaded.frame.height == 60
    assert loaded.notes == ("30 items whose label the set leaves out were dropped",)
    texts = "Person 0 met a friend.\x1fPerson 0 was not alone."
    assert f"mnli-{hashlib.blake2b(texts.encode(), digest_size=8).hexdigest()}" in loaded.frame["item"]


def test_integers_of_the_hub_and_words_mean_the_same(pairs, tmp_path):
    numbers = {"entailment": 0, "neutral": 1, "contradiction": 2}
    pairs.write_parquet(tmp_path / "snli.parquet")
    words = load("snli", "all", tmp_path).frame
    pairs.with_columns(pl.col("label").replace_strict(numbers)).write_parquet(tmp_path / "snli.parquet")
    assert load("snli", "all", tmp_path).frame.equals(words)
    pairs.with_columns(pl.col("label").replace_strict(numbers)).head(89).write_csv(tmp_path / "snli.csv")
    (tmp_path / "snli.parquet").unlink()
    assert load("snli", "all", tmp_path).frame.height == 60 - 1


def test_column_names_of_the_hub_are_understood(pairs, tmp_path):
    renamed = pairs.filter(pl.col("label") != "neutral").select(
        sentence1="premise", sentence2="hypothesis", label=pl.col("label").eq("entailment").cast(pl.Int8)
    )
    renamed.with_row_index("idx").write_parquet(tmp_path / "wnli.parquet")
    frame = load("wnli", "all", tmp_path).frame
    assert frame.columns == [*CANONICAL, "premise", "hypothesis", "id"]
    assert frame["label"].value_counts()["count"].to_list() == [30, 30]


@given(st.randoms())
def test_order_of_rows_changes_nothing(tmp_path_factory, order):
    folder = tmp_path_factory.mktemp("rows")
    rows = [(f"p{i}", f"h{i % 7}", ("entailment", "contradiction")[i % 2]) for i in range(40)]
    schema = ["premise", "hypothesis", "label"]
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(folder / "mnli.parquet")
    first = load("mnli", data=folder)
    order.shuffle(rows)
    pl.DataFrame(rows, schema=schema, orient="row").write_parquet(folder / "mnli.parquet")
    assert load("mnli", data=folder).frame.equals(first.frame)


row_of = st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz"), st.booleans(), st.sampled_from(["train", "test"]))


@given(st.lists(row_of, min_size=1, max_size=40), st.booleans(), st.booleans())
def test_train_and_test_never_share_an_item_or_a_text(tmp_path_factory, rows, with_splits, with_ids):
    folder = tmp_path_factory.mktemp("shared")
    labels = {True: "entailment", False: "contradiction"}
    frame = pl.DataFrame(
        [(premise, hypothesis, labels[follows], split) for premise, hypothesis, follows, split in rows],
        schema=["premise", "hypothesis", "label", "split"],
        orient="row",
    )
    frame = frame if with_splits else frame.drop("split")
    frame = frame.with_row_index("id") if with_ids else frame
    frame.write_parquet(folder / "mnli.parquet")
    parts = {}
    for split in ("train", "test"):
        try:
            parts[split] = load("mnli", split, folder).frame
        except InputError:  # too few items: nothing is left, or one label only
            return
    for keys in (["item"], ["premise", "hypothesis"]):
        assert not parts["train"].join(parts["test"], on=keys, how="inner").height
    assert all(part["item"].n_unique() == part.height for part in parts.values())


def test_test_items_whose_texts_are_trained_on_are_dropped(pairs, tmp_path):
    both = pl.concat([pairs.with_columns(split=pl.lit(name)) for name in ("train", "test")])
    fresh = pairs.with_columns(pl.col("premise") + " Again.", split=pl.lit("test"))
    pl.concat([both, fresh]).with_row_index("id").write_parquet(tmp_path / "snli.parquet")
    test = load("snli", data=tmp_path)
    assert test.frame.height == 60
    assert test.frame["premise"].str.ends_with("Again.").all()
    assert "60 of the test part, whose texts are in the train part, dropped" in test.notes
    assert load("snli", "all", tmp_path).frame["premise"].n_unique() == 120


def test_most_draws_items_in_proportion(shared_data):
    whole, some = load("scitail", data=shared_data), load("scitail", data=shared_data, most=100, seed=4)
    assert some.frame.height == 100
    share = whole.frame["label"].eq("entailment").mean()
    assert abs(some.frame["label"].eq("entailment").mean() - share) <= 0.01
    assert some.frame["item"].is_in(whole.frame["item"].to_list()).all()


def test_generated_sets_need_no_files(monkeypatch):
    monkeypatch.setenv("BREADTH_DATA", "/nowhere")
    assert load("chains").frame.height == GENERATED_ITEMS
    small = load("chains", most=10)
    assert set(small.frame["item"]) <= set(load("chains").frame["item"])
    assert small.frame["steps"].null_count() == 0
    other = load("chains", most=10, seed=3)
    assert not set(small.frame["item"]) & set(other.frame["item"])
    assert not set(load("chains", "all", most=10).frame["premise"]) - set(
        small.frame["premise"].to_list() + load("chains", "train", most=10).frame["premise"].to_list()
    )


def test_the_environment_names_the_directory(pairs, tmp_path, monkeypatch):
    pairs.write_parquet(tmp_path / "mnli.parquet")
    monkeypatch.setenv("BREADTH_DATA", str(tmp_path))
    assert load("mnli", "all").frame.height == 60
    monkeypatch.setenv("BREADTH_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match="none: is no directory; BREADTH_DATA names a directory"):
        load("mnli")


def test_ids_that_repeat_within_a_split_are_refused(pairs, tmp_path):
    pairs.with_columns(id=pl.lit("x")).write_parquet(tmp_path / "mnli.parquet")
    with pytest.raises(InputError, match="id 'mnli-x' stands in more than one row"):
        load("mnli", data=tmp_path)


def test_one_text_with_two_labels_is_no_item(pairs, tmp_path):
    same = pairs.head(1)
    twisted = same.with_columns(label=pl.lit("contradiction"))
    pl.concat([pairs, twisted, pairs[2:3]]).write_parquet(tmp_path / "mnli.parquet")
    loaded = load("mnli", "all", tmp_path)
    assert loaded.frame.height == 59
    assert loaded.notes[1:] == (
        "2 items with the same text and different labels were dropped",
        "1 item with the text and label of another one was dropped",
    )


def test_wrong_split():
    with pytest.raises(InputError, match="split 'dev' is none of test, train, all"):
        load("plain", "dev")
