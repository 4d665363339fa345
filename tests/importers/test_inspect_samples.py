import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.importers.inspect_samples import (
    CUT,
    answer_of,
    choices_told,
    describe,
    group,
    identify,
    means,
    record,
    records,
    score_all,
    text_columns,
    to_number,
)
from breadth.importers.logs import Metric

ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MESSAGE = st.fixed_dictionaries({"role": ANY, "content": ANY | st.lists(st.fixed_dictionaries({"type": ANY}))})
SCORE = st.fixed_dictionaries({"value": ANY, "answer": ANY})
PICTURE = "data:image/png;base64,iVBORw0KGgo="


def sample(id=1, **fields):
    return {"id": id, "epoch": 1, "input": "Why?", "target": "because", **fields}


def read(*samples):
    return records(list(samples), "log")


def items(*samples):
    rows = group(read(*samples))
    return identify(rows, [describe(one, lambda row: row, True, False) for one in rows])


class TestRecord:
    @settings(max_examples=50)
    @given(
        st.one_of(st.integers(), st.text()),
        st.dictionaries(
            st.sampled_from(["epoch", "input", "choices", "target", "scores", "score", "error", "attachments"]),
            ANY | st.lists(MESSAGE) | st.dictionaries(st.text(), SCORE),
        ),
    )
    def test_fields_may_have_any_type(self, id, fields):
        rows = read({**fields, "id": id})
        samples = group(rows)
        values, _ = score_all(samples, ["a"], False)
        assert all(math.isfinite(means(numbers, 1, None)[0]) for numbers in values.values())
        assert len(identify(samples, rows)) == 1
        assert all(len(column) == 1 for column in text_columns(rows).values())

    @pytest.mark.parametrize("content", [None, [], "x", {"id": None}, {"id": True}, {"id": 1.5}, {}])
    def test_a_sample_without_id_is_refused_by_its_number(self, content):
        with pytest.raises(InputError, match="log, sample 2: has no id"):
            read(sample(), content)

    def test_what_is_not_a_list_is_refused(self):
        with pytest.raises(InputError, match="log: expected a list of samples"):
            records({}, "log")

    def test_messages_are_shown_with_their_roles_where_there_are_several(self):
        one = [{"role": "user", "content": "Why?"}]
        two = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
        ]
        assert record(sample(input=one), "log").text == "Why?"
        assert record(sample(input=two), "log").text == "system: Be brief.\n\nuser: Why?"

    def test_images_are_named_in_the_text_and_tell_items_apart(self):
        def asked(image, **fields):
            content = [{"type": "text", "text": "What is it?"}, {"type": "image", "image": image}]
            return sample(input=[{"role": "user", "content": content}], **fields)

        attached = asked("attachment://7f", attachments={"7f": PICTURE})
        assert record(asked(PICTURE), "log").text == "What is it?\n[image]"
        assert items(asked(PICTURE)) == items(attached)
        assert items(asked(PICTURE)) != items(asked(PICTURE + "A"))
        assert record(sample(input=f"![]({PICTURE})"), "log").text == "![]([data])"

    def test_a_text_kept_as_attachment_is_found(self):
        assert record(sample(input="attachment://a", attachments={"a": "Why?"}), "log").text == "Why?"
        assert record(sample(input="attachment://b", attachments={"a": "Why?"}), "log").text == "attachment://b"

    @pytest.mark.parametrize(
        ("fields", "cut"),
        [
            ({"input": "x" * 5120 + CUT}, True),
            ({"target": ["a", "b" + CUT]}, True),
            ({"input": [{"role": "user", "content": "x" + CUT}]}, True),
            ({"input": [{"role": "user", "content": [{"type": "text", "text": "(Image)"}]}]}, True),
            ({"input": "What is (Image)?", "target": "(c)"}, False),
        ],
    )
    def test_summaries_that_were_cut(self, fields, cut):
        assert record(sample(**fields), "log").cut is cut


class TestDescribe:
    def test_a_sample_is_opened_only_where_its_summary_does_not_suffice(self):
        opened = []

        def whole(row):
            opened.append(row.id)
            return row

        cut = sample("cut", input="x" + CUT, choices=["a"])
        samples = group(read(sample("told", choices=["a"]), sample("new"), cut, sample(3)))
        for one in samples:
            describe(one, whole, True, told=one[0].id == "new")
        assert opened == ["cut", 3]
        for one in samples:
            describe(one, whole, False, told=False)
        assert opened == ["cut", 3, "cut", 3]

    @pytest.mark.parametrize(
        ("version", "told"),
        [
            ("0.3.156", True),
            ("0.3.155", False),
            ("0.3.154.dev4+g32", False),
            ("1.0.0rc1", True),
            (None, False),
            ("x", False),
        ],
    )
    def test_versions_whose_summaries_hold_choices(self, version, told):
        assert choices_told(version) is told


class TestIdentify:
    def test_ids_that_are_text_are_kept(self):
        assert items(sample("q7"), sample("q8", input="What?")) == ["q7", "q8"]

    @given(st.permutations(range(6)))
    def test_numbered_samples_are_the_same_items_in_any_order(self, order):
        questions = [{"input": f"Why {k}?", "choices": ["yes", f"no {k}"]} for k in range(6)]
        shuffled = items(*(sample(place, **questions[k]) for place, k in enumerate(order)))
        assert shuffled == [items(sample(1, **questions[k]))[0] for k in order]

    def test_choices_in_another_order_are_the_same_item(self):
        assert items(sample(choices=["a", "b"])) == items(sample(choices=["b", "a"]))
        assert items(sample(choices=["a", "b"])) != items(sample(choices=["a", "c"]))

    def test_repeated_questions_are_told_apart(self):
        first, second = items(sample(1), sample(2))
        assert second == f"{first}#2"

    def test_an_id_with_two_texts_is_two_items(self):
        assert items(sample("a"), sample("a", input="What?")) == ["a", "a#2"]

    def test_epochs_of_one_sample_are_one_item_even_if_its_input_varies(self):
        assert items(sample("a"), sample("a", epoch=2), sample("a", epoch=3, input="Why (seed 3)?")) == ["a"]

    @given(st.permutations([(text, epoch) for text in "AB" for epoch in (1, 2)]))
    def test_epochs_of_two_samples_with_one_id(self, order):
        samples = group(read(*(sample("a", input=text, epoch=epoch) for text, epoch in order)))
        assert sorted("".join(sorted(row.text for row in one)) for one in samples) == ["AA", "BB"]

    def test_a_sample_that_was_run_again_is_one_item(self):
        (one,) = group(read(sample("a", error={"message": "no"}), sample("a", scores={"s": {"value": 1}})))
        values, _ = score_all([one], [], False)
        assert means(values[Metric("s", "s")], 1, None) == [1]


class TestScores:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("C", 1), ("I", 0), ("P", 0.5), ("N", 0), ("c", None), ("yes", 1), ("True", 1), ("NO", 0), ("false", 0),
            (True, 1), (False, 0), (0.25, 0.25), (7, 7), ("0.5", 0.5), ("nan", None), ("inf", None), ("good", None),
            (math.nan, None), (None, None), ([1], None), ({}, None), (10**400, None), ("", None),
        ],
    )  # fmt: skip
    def test_values_count_as_in_inspect(self, value, expected):
        assert to_number(value) == expected

    def collect(self, *samples, scorers=(), failed_count=False):
        grouped = group(read(*samples))
        values, others = score_all(grouped, scorers, failed_count)
        return {metric: means(numbers, len(grouped), None) for metric, numbers in values.items()}, others

    def test_a_score_per_scorer_and_per_key(self):
        scores = {"match": {"value": "C"}, "rubric": {"value": {"style": 0.5, "facts": "I", "note": "fine"}}}
        values, others = self.collect(sample(1, scores=scores), sample(2, scores={"match": {"value": "I"}}))
        assert values == {
            Metric("match", "match"): [1, 0],
            Metric("style", "rubric"): [0.5, None],
            Metric("facts", "rubric"): [0, None],
        }
        assert others == {Metric("note", "rubric"): 1}

    def test_lists_are_not_single_numbers(self):
        assert self.collect(sample(scores={"f1": {"value": [1, 0]}})) == ({}, {Metric("f1", "f1"): 1})

    def test_the_score_of_the_oldest_logs_belongs_to_their_scorer(self):
        old = sample(score={"value": "C", "answer": "4"})
        assert self.collect(old, scorers=["match"])[0] == {Metric("match", "match"): [1]}
        assert self.collect(old)[0] == {Metric("score", "score"): [1]}

    def test_errors_and_invalid_samples_are_missing(self):
        scores = {"match": {"value": "I"}}
        samples = (
            sample(1, scores=scores), sample(2, input="2", scores=scores, error="Boom"),
            sample(3, input="3", scores=scores, invalidation={"author": "me"}),
        )  # fmt: skip
        assert self.collect(*samples)[0] == {Metric("match", "match"): [0, None, None]}
        assert self.collect(*samples, failed_count=True)[0] == {Metric("match", "match"): [0, 0, None]}

    def test_the_current_value_of_an_edited_score_counts(self):
        edited = {"value": "C", "history": [{"value": "I"}, {"value": "C", "provenance": {"author": "me"}}]}
        assert self.collect(sample(scores={"match": edited}))[0] == {Metric("match", "match"): [1]}

    def test_epochs_are_averaged_over_those_that_are_scored(self):
        values = ["C", "I", math.nan, "C"]
        rows = (sample("a", epoch=k, scores={"s": {"value": value}}) for k, value in enumerate(values, 1))
        assert self.collect(*rows)[0] == {Metric("s", "s"): [2 / 3]}
        assert means([(0, 1, 1.0), (0, 2, 0.0), (1, 1, 1.0)], 2, 2) == [0, None]
        assert means([(0, 1, 1e308), (0, 2, 1e308)], 1, None) == [math.inf]

    def test_the_answer_is_that_of_the_first_scorer_that_tells(self):
        scores = {"b": {"value": 1, "answer": "B"}, "a": {"value": 1}, "c": {"value": 1, "answer": "C"}}
        rows = read(sample(scores=scores))
        assert answer_of(rows, ["a", "c"]) == "C"
        assert answer_of(rows, []) == "B"
        assert answer_of(read(sample(), *[sample(epoch=2, scores={"a": {"answer": "A"}})]), []) is None


def test_columns_of_texts():
    rows = read(
        sample(choices=["x", "y"], target="B"),
        sample(choices=[], target=["a", "b"]),
        sample(choices=[str(k) for k in range(28)], target="2"),
        sample(target=None),
    )
    columns = text_columns(rows)
    assert columns["text"] == ["Why?"] * 4
    assert columns["options"][:2] == [["x", "y"], None]
    assert columns["option_labels"][0] == ["A", "B"]
    assert columns["option_labels"][2][-3:] == ["Z", "1", "2"]
    assert columns["label"] == ["B", None, "2", None]
    assert columns["target"] == [None, "a | b", None, None]
    assert set(text_columns(rows[3:])) == {"text"}
