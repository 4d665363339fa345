import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.records.imported import imported_study
from breadth.sources.logs.assembly import assemble
from breadth.sources.logs.log import Metric, Options
from breadth.sources.source_files import text_hash

from ..conftest import subject_log


def put_together(*entries, keep=None, **options):
    return assemble(entries, Options(**options), keep)


def answers(assembly):
    """Every answer by subject and item."""
    study = imported_study(assembly.imported, "study")
    return {
        (subject, item): study.correct[row, column]
        for row, subject in enumerate(study.subject_names)
        for column, item in enumerate(study.items["item"])
        if study.answered[row, column]
    }


def test_logs_become_three_tables():
    assembly = put_together(
        subject_log([1, 0], model="a", path="a.json", margins={("acc", ""): [0.5, -0.5]}, answers=["A", "B"]),
        subject_log([0, 1], model="b", path="b.json", step=7, stated={("acc", ""): 0.5}, stamp="2026"),
        subject_log([1], model="b", testset="t", path="b.json", step=7, subject={"adapter": "x"}),
    )
    logs, items, responses = assembly.imported
    assert logs.select("subject", "run", "step", "testset", "rows", "answered", "mean", "stated").rows() == [
        ("a", "a", None, "set", 2, 2, 0.5, None),
        ("b/7", "b", 7, "set", 2, 2, 0.5, 0.5),
        ("b adapter=x/7", "b adapter=x", 7, "t", 1, 1, 1.0, None),
    ]
    assert logs["path"].to_list() == ["a.json", "b.json", "b.json"]
    assert logs["checksum"].to_list() == ["sum of a.json", "sum of b.json", "sum of b.json"]
    assert logs.select("tool", "version", "metric", "variant").unique().rows() == [("tool", "1", "acc", "")]
    assert json.loads(logs["attributes"][2]) == {"adapter": "x"}
    assert items.rows() == [("set", "q0"), ("set", "q1"), ("t", "q0")]
    assert responses.rows() == [
        (0, 0, 1.0, 0.5, "A"),
        (0, 1, 0.0, -0.5, "B"),
        (1, 0, 0.0, None, None),
        (1, 1, 1.0, None, None),
        (2, 2, 1.0, None, None),
    ]


def test_answers_that_are_not_scored_are_missing():
    assembly = put_together(subject_log([1, None, 0], model="a"), subject_log([None, None, 1], model="b"))
    assert answers(assembly) == {("a", "q0"): 1, ("a", "q2"): 0, ("b", "q2"): 1}
    assert assembly.imported.items["item"].to_list() == ["q0", "q2"]  # nobody answered q1
    assert assembly.imported.logs.select("rows", "answered", "mean").rows() == [(3, 2, 0.5), (3, 1, 1.0)]


def test_shares_stay_shares():
    assert answers(put_together(subject_log([0.25, 1.0]))) == {("m", "q0"): 0.25, ("m", "q1"): 1}


def test_test_sets_without_a_usable_metric_are_left_out_with_the_reason():
    assembly = put_together(subject_log([1]), subject_log({"bleu": [31.0]}, testset="t"))
    assert assembly.left_out == {"t": "no metric between 0 and 1 (bleu is 31 in m.jsonl; metrics: bleu)"}
    assert assembly.imported.logs["testset"].to_list() == ["set"]
    with pytest.raises(InputError, match=r"^t: no metric between 0 and 1"):
        put_together(subject_log({"bleu": [31.0]}, testset="t"))


def test_mean_that_differs_is_a_note_of_its_log():
    assembly = put_together(subject_log([1, 0], stated={Metric("acc"): 0.9}, notes=["partial"]))
    assert assembly.imported.logs["notes"].to_list() == [
        ["partial", "m.jsonl: the mean of acc over 2 answers to set is 0.5, but the log states 0.9"]
    ]
    assert "the log states 0.9" in imported_study(assembly.imported, "s").warnings[1]


def test_equal_answers_are_merged():
    assembly = put_together(subject_log([1, 0], path="a", stamp="1"), subject_log([1, 0], path="b", stamp="2"))
    assert answers(assembly) == {("m", "q0"): 1, ("m", "q1"): 0}
    assert assembly.imported.logs["path"].to_list() == ["b"]
    assert assembly.left_out == {"a": "the same answers as b"}


def test_logs_that_overlap_are_merged():
    old = subject_log([1, 0, 1], path="a", stamp="1", items=["x", "y", "z"], stated={Metric("acc"): 2 / 3})
    new = subject_log([1, 1], path="b", stamp="2", items=["z", "w"])
    assembly = put_together(old, new)
    assert answers(assembly) == {("m", "x"): 1, ("m", "y"): 0, ("m", "z"): 1, ("m", "w"): 1}
    assert assembly.imported.logs.select("path", "rows", "answered").rows() == [("a", 3, 2), ("b", 2, 2)]
    assert assembly.imported.logs["notes"].to_list() == [["shares 1 of its 3 answers with b"], []]
    assert assembly.imported.responses.select("log", "item").is_unique().all()


def test_parts_of_a_test_set_are_merged():
    assembly = put_together(subject_log([1], path="a", items=["x"]), subject_log([0], path="b", items=["y"]))
    assert answers(assembly) == {("m", "x"): 1, ("m", "y"): 0}
    assert assembly.left_out == {}
    assert assembly.imported.logs["notes"].to_list() == [[], []]


def test_an_answer_that_the_later_log_misses_is_that_of_the_earlier():
    old, new = subject_log([1, 0], path="a", stamp="1"), subject_log([1, None], path="b", stamp="2")
    assert answers(put_together(old, new)) == {("m", "q0"): 1, ("m", "q1"): 0}
    old, new = subject_log([1, None], path="a", stamp="1"), subject_log([1, 0], path="b", stamp="2")
    assert put_together(old, new).left_out == {"a": "the same answers as b"}


def conflict():
    return (
        subject_log([1, 0, 1], path="a", stamp="1", items=["x", "y", "z"]),
        subject_log([0, 0], path="b", stamp="2", items=["x", "y"]),
    )


def test_different_answers_are_refused_with_both_files():
    with pytest.raises(InputError, match=r"^a and b hold different answers of 'm' to 1 item of set; use keep=.newest."):
        put_together(*conflict())


def test_every_pair_of_different_answers_is_named():
    pairs = [subject_log([value], testset=testset, path=f"{testset}{value}") for testset in "st" for value in (0, 1)]
    with pytest.raises(InputError) as refused:
        put_together(*pairs)
    assert len(str(refused.value).splitlines()) == 2


@pytest.mark.parametrize("order", [1, -1])
def test_the_newest_of_different_answers(order):
    assembly = put_together(*conflict()[::order], keep="newest")
    assert answers(assembly) == {("m", "x"): 0, ("m", "y"): 0}
    assert assembly.left_out == {"a": "older than b, which has the same subject and test set"}


@pytest.mark.parametrize("order", [1, -1])
def test_all_of_different_answers(order):
    assembly = put_together(*conflict()[::order], keep="all")
    assert answers(assembly) == {
        ("m", "x"): 0,
        ("m", "y"): 0,
        ("m log=1", "x"): 1,
        ("m log=1", "y"): 0,
        ("m log=1", "z"): 1,
    }


def test_logs_of_one_time_stay_apart_too():
    logs = [
        subject_log(values, path=path, stamp="1") for path, values in zip("abc", ([1, 0], [0, 1], [1, 1]), strict=True)
    ]
    assembly = put_together(*logs, keep="all")
    assert assembly.imported.logs["subject"].to_list() == ["m log=a", "m log=b", "m"]
    assert len(answers(assembly)) == 6


def test_earlier_logs_that_agree_are_one_subject():
    first, second, last = (subject_log(v, path=p, stamp=p) for p, v in (("1", [1, 0]), ("2", [1, 0]), ("3", [0, 0])))
    assembly = put_together(first, second, last, keep="all")
    assert assembly.imported.logs["subject"].to_list() == ["m log=2", "m"]
    assert assembly.left_out == {"1": "the same answers as 2"}


def test_an_earlier_run_of_several_test_sets_is_one_subject():
    logs = [subject_log([k], testset=t, path=f"{t}{k}", stamp=str(k)) for t in "st" for k in (0, 1)]
    subjects = put_together(*logs, keep="all").imported.logs.select("subject", "testset").rows()
    assert subjects == [("m log=0", "s"), ("m", "s"), ("m log=0", "t"), ("m", "t")]


def test_settings_make_different_answers_subjects():
    logs = [subject_log([k], settings={"num_fewshot": 5 * k}, path=str(k)) for k in (0, 1)]
    assembly = put_together(*logs)
    assert answers(assembly) == {("m 0-shot", "q0"): 0, ("m 5-shot", "q0"): 1}
    assert assembly.notes == ["set: num_fewshot differs between subjects: 0 for m 0-shot; 5 for m 5-shot"]


def test_settings_that_differ_between_models_are_noted():
    logs = [subject_log([1], model=model, settings={"num_fewshot": len(model)}) for model in ("a", "b", "cc")]
    assert put_together(*logs).notes == ["set: num_fewshot differs between subjects: 1 for a, b; 2 for cc"]


def described(model, texts, values=None, **others):
    return subject_log(values or [1] * len(texts), model=model, path=model, texts={"text": texts, **others})


def test_items_of_one_name_with_other_texts_are_kept_apart():
    assembly = put_together(described("a", ["One?", "Two?"]), described("b", ["One?", "Three?"]))
    items = assembly.imported.items
    assert items["text"].to_list() == ["One?", "Two?", "Three?"]
    assert items["item"].n_unique() == 3
    assert items["item"][2].startswith("q1~")
    (note,) = assembly.notes
    assert note.startswith("set: 1 answer to items of the same name but another text (it differs in b)")


@pytest.mark.parametrize("place", [0, 2, 3])
def test_the_log_whose_texts_differ_is_named(place):
    logs = [described(model, ["One?", "Two?"]) for model in "abcd"]
    logs[place] = described("odd", ["One?", "Three?"])
    (note,) = put_together(*logs).notes
    assert "(it differs in odd)" in note


def hashed(model, texts):
    return subject_log([1] * len(texts), model=model, path=model, texts={"text_hash": list(map(text_hash, texts))})


@pytest.mark.parametrize(("first", "second"), [(hashed, hashed), (hashed, described), (described, hashed)])
def test_hashes_of_texts_keep_items_apart_under_the_same_names(first, second):
    whole = put_together(described("a", ["One?", "Two?"]), described("b", ["One ?", "Three?"])).imported.items
    items = put_together(first("a", ["One?", "Two?"]), second("b", ["One ?", "Three?"])).imported.items
    assert items["item"].to_list() == whole["item"].to_list()
    alike = put_together(first("a", ["One  more?"]), second("b", ["One more?"])).imported.items
    assert alike.height == 1
    assert ("text" in alike.columns) == (first is described or second is described)


def test_the_same_questions_under_other_names_are_noted():
    texts = ["One?", "Two?", "Three?"]
    first = subject_log([1, 0, 1], model="a", items=["a", "b", "c"], texts={"text": texts})
    other = subject_log([1, 0, 1], model="b", items=["x", "y", "c"], texts={"text": texts})
    (note,) = put_together(first, other).notes
    assert note.startswith("set: 2 questions with the same text but different documents in different logs")
    first_again = subject_log([1, 0, 1], model="c", path="c", items=["a", "b", "c"], texts={"text": texts})
    odd = subject_log([1, 0, 1], model="b", path="odd", items=["x", "y", "c"], texts={"text": texts})
    for logs in ((first, first_again, odd), (odd, first, first_again)):
        (note,) = put_together(*logs).notes
        assert "(in odd; " in note
    apart = subject_log([1] * 3, model="b", items=["x", "y", "z"], texts={"text": ["One?", "Four?", "Five?"]})
    assert put_together(first, apart).notes == []
    again = subject_log([1] * 3, model="b", items=["c", "b", "a"], texts={"text": texts[::-1]})
    assert put_together(first, again).notes == []


def test_blanks_do_not_make_another_item():
    assembly = put_together(described("a", ["One  more?\n"]), described("b", [" One more?"]))
    assert assembly.imported.items.height == 1
    assert assembly.notes == []


def test_answers_to_other_items_of_one_name_are_not_the_same_answers():
    logs = [
        subject_log([1], path=path, stamp=path, texts={"text": [text]})
        for path, text in (("a", "One?"), ("b", "Other?"))
    ]
    assembly = put_together(*logs)
    assert assembly.imported.items.height == 2
    assert assembly.left_out == {}
    logs = [
        subject_log([k], path=path, stamp=path, texts={"text": [text]})
        for k, (path, text) in enumerate((("a", "One?"), ("b", "Other?")))
    ]
    assert sorted(answers(put_together(*logs)).values()) == [0, 1]


def test_there_is_one_copy_of_texts():
    options = {"options": [["x", "y"]] * 2, "option_labels": [["A", "B"]] * 2, "label": ["A", None]}
    first, second = described("a", ["One?", "Two?"], **options), described("b", ["One?", "Two?"], **options)
    items = put_together(first, second, subject_log([1, 0], model="c")).imported.items
    assert items.height == 2
    assert items["options"].to_list() == [["x", "y"]] * 2
    assert items["label"].to_list() == ["A", None]
    assert items.schema["options"] == pl.List(pl.String)


def test_texts_of_a_later_log_fill_what_is_missing():
    items = put_together(subject_log([1, 0], model="a"), described("b", ["One?", "Two?"])).imported.items
    assert items["text"].to_list() == ["One?", "Two?"]


def test_texts_may_hold_anything():
    odd = ['<script>"\\', "\x00\n\u2028", "", "é🙂"]
    items = put_together(described("a", odd, options=[odd] * 4)).imported.items
    assert items["text"].to_list() == odd
    assert items["options"].to_list() == [odd] * 4


LOGS = st.lists(
    st.tuples(
        st.sampled_from(["m", "n"]),
        st.sampled_from(["s", "t"]),
        st.dictionaries(st.sampled_from("wxyz"), st.sampled_from([0.0, 1.0, None]), min_size=1),
    ),
    min_size=1,
    max_size=6,
)


def made(logs):
    return [
        subject_log(list(own.values()), model=model, testset=testset, path=f"{k}", stamp=f"{k}", items=list(own))
        for k, (model, testset, own) in enumerate(logs)
    ]


@given(LOGS, st.sampled_from(["newest", "all"]))
def test_no_answer_is_counted_twice_and_none_is_invented(logs, keep):
    try:
        assembly = put_together(*made(logs), keep=keep)
    except InputError:
        assert all(value is None for _, _, own in logs for value in own.values())
        return
    frame = assembly.imported.responses
    rows = assembly.imported.logs.with_row_index("log").with_columns(pl.col("log").cast(pl.UInt32))
    joined = frame.join(rows, on="log")
    assert joined.select("subject", "item").is_unique().all()
    names = assembly.imported.items["item"]
    for row in joined.iter_rows(named=True):
        assert logs[int(row["path"])][2][names[row["item"]]] == row["correct"]
    if keep == "all":  # every answer of every log is that of some subject
        kept = {
            (row["model"], row["testset"], names[row["item"]], row["correct"]) for row in joined.iter_rows(named=True)
        }
        assert kept == {(m, t, item, v) for m, t, own in logs for item, v in own.items() if v is not None}
