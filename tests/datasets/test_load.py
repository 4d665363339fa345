"""Sets by name (generated, from files, from the Hub) and a user's own file; train and test share nothing."""

import dataclasses
import hashlib
import os
import subprocess
import sys
import time

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.datasets import REGISTRY, Choice, Generate, Pattern, draw_examples, load, load_own
from breadth.datasets.load import GENERATED_ITEMS, _cache_only, fetch
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
    test, train, both = (load(name, split, data=shared_data) for split in ("test", "train", "all"))
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
    frame = load("mnli", "all", data=shared_data).frame
    joined = frame.join(raw, on="id")
    assert (joined["n_correct_of_100_berts"] == joined["n_correct_of_100_berts_right"]).all()
    assert frame.height == raw.filter(pl.col("label") != "neutral").height == 6692
    assert {"heuristic", "subcase"} <= set(load("hans", data=shared_data).frame.columns)


def test_arc_names_options_by_letters(shared_data):
    frame = load("arc", "all", data=shared_data).frame
    raw = pl.read_parquet(shared_data / "qa" / "arc.parquet")
    right = {(row["split"], row["id"]): row["choices"][row["labels"].index(row["answer"])] for row in raw.to_dicts()}
    for row in frame.iter_rows(named=True):
        assert row["options"][row["option_labels"].index(row["label"])] == right[row["split"], row["id"]]
        assert row["option_labels"] == list("ABCDE")[: len(row["options"])]


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "csv", "tsv"])
@pytest.mark.parametrize("subfolder", ["", "nli"])
def test_files_of_every_format_give_the_same_items(pairs, tmp_path, ending, subfolder):
    folder = tmp_path / subfolder
    folder.mkdir(exist_ok=True)
    path = folder / f"mnli.{ending}"
    writers = {
        "parquet": pairs.write_parquet,
        "jsonl": pairs.write_ndjson,
        "csv": pairs.write_csv,
        "tsv": lambda target: pairs.write_csv(target, separator="\t"),
    }
    writers[ending](path)
    loaded = load("mnli", "all", data=tmp_path)
    assert loaded.frame.height == 60
    assert loaded.notes == ("dropped 30 items whose label the set excludes",)
    texts = "Person 0 met a friend.\x1fPerson 0 was not alone."
    assert f"mnli-{hashlib.blake2b(texts.encode(), digest_size=8).hexdigest()}" in loaded.frame["item"]


def test_integers_of_the_hub_and_words_mean_the_same(pairs, tmp_path):
    numbers = {"entailment": 0, "neutral": 1, "contradiction": 2}
    pairs.write_parquet(tmp_path / "snli.parquet")
    words = load("snli", "all", data=tmp_path).frame
    pairs.with_columns(pl.col("label").replace_strict(numbers)).write_parquet(tmp_path / "snli.parquet")
    assert load("snli", "all", data=tmp_path).frame.equals(words)
    pairs.with_columns(pl.col("label").replace_strict(numbers)).head(89).write_csv(tmp_path / "snli.csv")
    (tmp_path / "snli.parquet").unlink()
    assert load("snli", "all", data=tmp_path).frame.height == 60 - 1


def test_column_names_of_the_hub_are_understood(pairs, tmp_path):
    renamed = pairs.filter(pl.col("label") != "neutral").select(
        sentence1="premise", sentence2="hypothesis", label=pl.col("label").eq("entailment").cast(pl.Int8)
    )
    renamed.with_row_index("idx").write_parquet(tmp_path / "wnli.parquet")
    frame = load("wnli", "all", data=tmp_path).frame
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
            parts[split] = load("mnli", split, data=folder).frame
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
    assert "dropped 60 test items whose texts are in the train part" in test.notes
    assert load("snli", "all", data=tmp_path).frame["premise"].n_unique() == 120


def test_a_number_of_items_is_drawn_in_proportion(shared_data):
    whole, some = load("scitail", data=shared_data), load("scitail", data=shared_data, items=100, seed=4)
    assert some.frame.height == 100
    share = whole.frame["label"].eq("entailment").mean()
    assert abs(some.frame["label"].eq("entailment").mean() - share) <= 0.01
    assert some.frame["item"].is_in(whole.frame["item"].to_list()).all()


def test_generated_sets_need_no_files(monkeypatch):
    monkeypatch.setenv("BREADTH_DATA", "/nowhere")
    assert load("chains").frame.height == GENERATED_ITEMS
    small = load("chains", items=10)
    assert set(small.frame["item"]) <= set(load("chains").frame["item"])
    assert small.frame["steps"].null_count() == 0
    other = load("chains", items=10, seed=3)
    assert not set(small.frame["item"]) & set(other.frame["item"])
    assert not set(load("chains", "all", items=10).frame["premise"]) - set(
        small.frame["premise"].to_list() + load("chains", "train", items=10).frame["premise"].to_list()
    )


def test_the_environment_names_the_directory(pairs, tmp_path, monkeypatch):
    pairs.write_parquet(tmp_path / "mnli.parquet")
    monkeypatch.setenv("BREADTH_DATA", str(tmp_path))
    assert load("mnli", "all").frame.height == 60
    monkeypatch.setenv("BREADTH_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match="none: not a directory; BREADTH_DATA must name a directory"):
        load("mnli")


def test_ids_that_repeat_within_a_split_are_refused(pairs, tmp_path):
    pairs.with_columns(id=pl.lit("x")).write_parquet(tmp_path / "mnli.parquet")
    with pytest.raises(InputError, match="id 'mnli-x' occurs more than once"):
        load("mnli", data=tmp_path)


def test_one_text_with_two_labels_is_no_item(pairs, tmp_path):
    same = pairs.head(1)
    twisted = same.with_columns(label=pl.lit("contradiction"))
    pl.concat([pairs, twisted, pairs[2:3]]).write_parquet(tmp_path / "mnli.parquet")
    loaded = load("mnli", "all", data=tmp_path)
    assert loaded.frame.height == 59
    assert loaded.notes[1:] == (
        "dropped 2 items with the same text and different labels",
        "dropped 1 item with the same text and label as another item",
    )


def test_wrong_split():
    with pytest.raises(InputError, match="unknown split 'dev'; use one of test, train, all"):
        load("plain", "dev")


@pytest.fixture
def offline(monkeypatch, tmp_path):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))


def copy_of(name, folder, monkeypatch, **splits):
    """Let a registered set live in a directory, which the library reads as it reads a repository of the Hub."""
    folder.mkdir()
    for split, frame in splits.items():
        frame.write_parquet(folder / f"{split}.parquet")
    entry = dataclasses.replace(REGISTRY[name], hub=str(folder), configs=(None,))
    monkeypatch.setitem(REGISTRY, name, entry)
    return entry


def test_splits_of_the_hub_become_canonical(offline, tmp_path, monkeypatch):
    rows = [(i, f"p{i}", f"h{i}", i % 3 - 1) for i in range(30)]
    frame = pl.DataFrame(rows, schema=["idx", "sentence1", "sentence2", "label"], orient="row")
    blank = pl.DataFrame([(30, "", "h", 1)], schema=frame.schema, orient="row")
    copy_of("rte", tmp_path / "rte", monkeypatch, train=pl.concat([frame, blank]), validation=frame.head(6))
    test, train = load("rte"), load("rte", "train")
    assert test.frame.height == 20
    assert train.frame["item"].sort().to_list() == [f"rte-validation-{i}" for i in (1, 2, 4, 5)]
    assert test.frame.filter(pl.col("premise") == "p1")["label"].item() == "entailment"
    assert test.notes == (
        "dropped 1 item without text",
        "dropped 10 items whose label the set excludes",
    )
    assert test.source.endswith("split train")
    assert load("rte", "all").frame.height == 24


def test_a_set_without_train_split_is_halved(offline, tmp_path, monkeypatch):
    rows = [
        {"narrative": f"Story {i}", "question": "Who?", "choices": "['x', 'y']", "answer_index": 1} for i in range(40)
    ]
    entry = copy_of("musr", tmp_path / "musr", monkeypatch, test=pl.DataFrame(rows))
    monkeypatch.setitem(REGISTRY, "musr", dataclasses.replace(entry, test_split="test"))
    test, train = load("musr"), load("musr", "train")
    assert test.frame.height + train.frame.height == 40
    assert not set(test.frame["narrative"]) & set(train.frame["narrative"])
    assert load("musr", "all").frame.height == 40


def test_offline_and_not_cached(offline, tmp_path):
    with pytest.raises(InputError, match=r"snli: not in a .*HF_HUB_OFFLINE is set\. To work offline, "):
        load("snli")


def test_a_split_that_is_not_there(offline, tmp_path, monkeypatch):
    frame = pl.DataFrame({"premise": ["p"], "hypothesis": ["h"], "label": [0]})
    entry = copy_of("snli", tmp_path / "snli", monkeypatch, train=frame)
    with pytest.raises(InputError, match="could not be downloaded: Unknown split") as caught:
        fetch(entry, "test")
    assert "\n" not in str(caught.value)


def test_no_network_fails_within_seconds_and_in_one_line(tmp_path):
    pytest.importorskip("datasets")
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("HF_HUB_OFFLINE", "BREADTH_DATA")},
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path),
    }
    code = (
        "import time; from breadth.datasets import load; from breadth.errors import InputError; start = time.time()\n"
        "try: load('hans')\n"
        "except InputError as error: print(time.time() - start, error)"
    )
    start = time.monotonic()
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert time.monotonic() - start < 60
    seconds, message = out.stdout.strip().split(" ", 1)
    assert float(seconds) < 30
    assert message.startswith("hans: not in a data directory and not in the cache")
    assert "the Hub did not answer" in message
    assert "\n" not in message


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"snli: .* install breadth\[lm\]"):
        load("snli")


def test_reading_the_cache_only_is_undone(monkeypatch):
    config = pytest.importorskip("datasets.config")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    with _cache_only():
        assert config.HF_HUB_OFFLINE is True
    assert config.HF_HUB_OFFLINE is False


REVIEWS = pl.DataFrame(
    {
        "text": [f"Review {i} of a film." for i in range(40)],
        "stars": [i % 2 * 4 + 1 for i in range(40)],
        "shift": "my own",
        "year": range(1980, 2020),
    }
)
ASKED = {
    "pattern": "{review} Was it good?",
    "answers": {"good": " Yes", "bad": " No"},
    "labels": {"5": "good", "1": "bad"},
    "fields": {"review": "text"},
    "label": "stars",
}


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "reviews.csv"
    REVIEWS.write_csv(path)
    return path


@pytest.mark.parametrize(("shift", "asks"), [("user group", 0), ("2024, after the crash", 0), ("adversarail", 1)])
def test_any_word_is_a_kind_of_shift(reviews, shift, asks):
    loaded = load_own("films", file=reviews, split="all", shift=shift, **ASKED)
    assert set(loaded.frame["shift"]) == {shift}
    assert len([note for note in loaded.notes if "Did you mean adversarial?" in note]) == asks


def test_a_pattern_with_its_own_columns(reviews):
    loaded = load_own("films", file=reviews, split="all", shift="style", shorten="review", **ASKED)
    assert loaded.task == Pattern("{review} Was it good?", (("good", " Yes"), ("bad", " No")), shorten="review")
    assert loaded.frame.columns == ["item", "testset", "shift", "label", "review", "shift_in_file", "year"]
    assert set(loaded.frame["shift"]) == {"style"}
    assert (loaded.frame["label"].eq("good") == (loaded.frame["year"] % 2).eq(1)).all()
    assert draw_examples(loaded.frame, 10, 0)["label"].value_counts()["count"].to_list() == [5, 5]


def test_halves_of_one_file_share_nothing(reviews):
    train, test = (load_own("films", file=reviews, split=split, **ASKED).frame for split in ("train", "test"))
    assert train.height + test.height == 40
    assert not set(train["review"]) & set(test["review"])


def test_a_train_file_leaves_the_whole_file_for_testing(reviews, tmp_path):
    other = tmp_path / "more.jsonl"
    extra = REVIEWS.with_columns(pl.col("text") + " Second part.")
    pl.concat([extra, REVIEWS.head(3)]).with_columns(pl.lit("x").alias("split")).write_ndjson(other)
    test = load_own("films", file=reviews, train_file=other, **ASKED)
    assert test.frame.height == 37
    assert test.notes[-1] == "dropped 3 test items whose texts are in the train part"
    train = load_own("films", file=reviews, train_file=other, split="train", **ASKED)
    assert train.frame.height == 43
    assert not set(train.frame["item"]) & set(test.frame["item"])


def test_ids_of_two_files_that_count_alike_are_told_apart(tmp_path):
    for name in ("a", "b"):
        REVIEWS.with_columns(pl.col("text") + name).with_row_index("nr").write_csv(tmp_path / f"{name}.csv")
    both = load_own("films", file=tmp_path / "a.csv", train_file=tmp_path / "b.csv", item="nr", split="all", **ASKED)
    assert both.frame["item"].n_unique() == 80
    assert {"films-test-0", "films-train-0"} <= set(both.frame["item"])


def test_the_default_pattern_is_the_inference_one(pairs, tmp_path):
    pairs.filter(pl.col("label") != "neutral").with_columns(
        pl.col("label").replace("contradiction", "not_entailment")
    ).write_parquet(tmp_path / "mine.parquet")
    loaded = load_own("mine", file=tmp_path / "mine.parquet")
    assert loaded.task.template == "{premise} Question: {hypothesis} Yes or No?"
    assert loaded.task.shorten == "premise"


def test_choices_from_text(tmp_path):
    path = tmp_path / "quiz.csv"
    rows = [f'Question {i}?,"[""red"", ""blue {i}""]",{i % 2}' for i in range(20)]
    path.write_text("\n".join(["question,colours,right", *rows]))
    loaded = load_own("quiz", file=path, kind="choice", options="colours", label="right", normalise=True, split="all")
    assert isinstance(loaded.task, Choice)
    assert loaded.task.normalise
    row = loaded.frame.filter(pl.col("question") == "Question 3?").row(0, named=True)
    assert (row["options"], row["option_labels"], row["label"]) == (["red", "blue 3"], ["A", "B"], "B")
    assert load_own("quiz", file=path, kind="choice", options="colours", label="right").frame.height < 20
    path.write_text("question,colours,right\nWhy?,\"['a', 'b']\",C")
    with pytest.raises(InputError, match=r"quiz.csv, row 1 \(line 2\), column 'right': 'C' is not an option"):
        load_own("quiz", file=path, kind="choice", options="colours", label="right")


def test_generation_with_and_without_extraction(tmp_path):
    path = tmp_path / "sums.jsonl"
    pl.DataFrame({"question": [f"{i} + 1?" for i in range(20)], "label": list(range(1, 21))}).write_ndjson(path)
    task = load_own("sums", file=path, kind="generate", metric="number", max_tokens=8, split="all").task
    assert isinstance(task, Generate)
    assert (task.metric, task.max_tokens, task.completion) == ("number", 8, None)
    frame = load_own("sums", file=path, kind="generate", extract=r"= (\d+)", split="all").frame
    assert set(frame["label"]) == {str(i) for i in range(1, 21)}
    for wrong, complaint in (("(", "is not a regular expression"), (r"\d+", "has no group")):
        with pytest.raises(InputError, match=complaint):
            load_own("sums", file=path, kind="generate", extract=wrong)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"shift": "  "}, "films: shift is empty"),
        ({"shift": "time\n"}, "cannot be shown"),
        ({"shift": "x" * 41}, "has 41 characters"),
        ({"split": "dev"}, "unknown split 'dev'; use one of"),
        ({"kind": "essay"}, "unknown kind 'essay'; use one of pattern, choice, generate"),
        ({"fields": {"review": "txt"}}, r"no column 'txt' \(field 'review' of the pattern\). Did you mean text\?"),
        ({"fields": {}}, r"no column 'review' \(a field of the pattern\).*Columns: text, stars, shift, year"),
        ({"label": "star"}, r"no column 'star' \(the label\). Did you mean stars"),
        ({"item": "number"}, "no column 'number'"),
        (
            {"labels": {"5": "good"}},
            r"row 1 \(line 2\), column 'stars': unknown label '1'; the set has 5",
        ),
        (
            {"answers": {"good": " Yes", "poor": " No"}},
            "label 'bad' has no answer; answers are defined for good",
        ),
        ({"answers": {"good": " Yes", "bad": " Yes"}}, "answers must differ"),
        ({"answers": {"good": " Yes"}}, "give answers for at least two labels"),
        ({"pattern": "Was it good?"}, "has no field"),
        ({"pattern": "{review"}, "pattern '{review'"),
        ({"shorten": "year"}, "shorten is 'year', which is not a field of the pattern"),
        ({"labels": {"5": "good", "1": "good"}}, "every item has the label 'good'"),
        ({"extract": "(x)"}, "option 'extract' does not apply to kind pattern"),
        ({"anwsers": {}}, r"unknown option 'anwsers'\. Did you mean answers\?"),
        ({"answers": {"good": None, "bad": " No"}}, "films: answers.good: "),
        ({"file": "none.csv"}, "none.csv: no such file"),
    ],
)
def test_errors_are_one_line(reviews, changes, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        load_own("films", **{"file": reviews, **ASKED, **changes})
    assert "\n" not in str(caught.value)


def test_the_same_file_twice_leaves_nothing(reviews):
    with pytest.raises(InputError, match="no items are left for test"):
        load_own("films", file=reviews, train_file=reviews, **ASKED)
