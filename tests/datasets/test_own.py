"""A user's own file as a test set."""

import polars as pl
import pytest

from breadth.datasets import Choice, Generate, Pattern, draw_examples, load_own
from breadth.errors import InputError

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
    assert (task.metric, task.max_tokens, task.completion) == ("number", 8, "label")
    frame = load_own("sums", file=path, kind="generate", extract=r"= (\d+)", split="all").frame
    assert set(frame["label"]) == {str(i) for i in range(1, 21)}
    for wrong, complaint in (("(", "is not a regular expression"), (r"\d+", "has no group")):
        with pytest.raises(InputError, match=complaint):
            load_own("sums", file=path, kind="generate", extract=wrong)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"shift": "sideways"}, "unknown shift 'sideways'; use one of in-domain"),
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
