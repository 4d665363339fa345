import json
import math

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.sources import source_files as reading
from breadth.sources.source_files import (
    SourceFile,
    beside,
    blocks,
    entries,
    log_odds,
    mapping,
    number,
    numbered,
    parse,
    plain,
    text_item,
    words,
)


@pytest.fixture
def write(tmp_path):
    def write(content, name="log"):
        path = tmp_path / name
        path.write_bytes(content)
        return SourceFile.look(path)

    return write


class TestLooking:
    @pytest.mark.parametrize(
        ("content", "keys"),
        [
            (b'{"a": {"b": 1}, "c": [{"d": ":"}]}', {"a", "c"}),
            (b'\xef\xbb\xbf\n [{"a": 1, "b": "}"}, {"c": 1}]', {"a", "b"}),
            (b'{"a": 1}\n{"b": 1}\n', {"a"}),
            (b'{"\\"": 1, "b\\\\": {"c', {'\\"', "b\\\\"}),
            (b'{"a": "cut \\" off: {', {"a"}),
            (b"[[[", set()),
            (b"", set()),
            (b"# a: {b: 1}", set()),
        ],
    )
    def test_keys_of_the_first_object(self, write, content, keys):
        assert write(content).keys == keys

    def test_a_text_full_of_quotes_is_one_text(self, write):
        assert write(b'{"a": "' + b'\\": {' * reading.HEAD).keys == {"a"}  # took minutes when each started a text

    def test_other_files_have_no_members_and_columns(self, write):
        for content in (b"PK\3\4", b"PAR1", b"PAR1" + bytes(50) + b"PAR1", b"{}"):
            assert write(content).members == write(content).columns == frozenset()

    def test_a_file_that_cannot_be_read_is_named(self, tmp_path):
        with pytest.raises(InputError, match=r"gone\.json: no such file"):
            SourceFile.look(tmp_path / "gone.json")

    def test_a_file_larger_than_the_limit_is_not_read(self, write, monkeypatch):
        monkeypatch.setattr(reading, "MOST_BYTES", 10)
        with pytest.raises(InputError, match="log: has 12 bytes; at most 10"):
            write(b'["123456789]').json()
        assert list(write(b"1\n2\n" * 5).rows())[-1] == (10, b"2\n")
        with pytest.raises(InputError, match="log, line 2: has more than 10 bytes"):
            list(write(b'1\n"' + bytes(20)).rows())


class TestRows:
    @pytest.mark.parametrize("indent", [None, 0, 1, 2, 4])
    @given(
        rows=st.lists(
            st.dictionaries(
                st.text(),
                st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.lists(st.text()),
            ),
            max_size=5,
        )
    )
    def test_rows_of_a_list_are_its_elements(self, tmp_path_factory, indent, rows):
        path = tmp_path_factory.mktemp("rows") / "log"
        path.write_text(json.dumps(rows, indent=indent), newline="")
        assert [parse(row, "") for _, row in SourceFile.look(path).rows()] == rows

    def test_lines_are_counted_and_empty_ones_skipped(self, write):
        assert list(write(b'{"a": 1}\n\n{"a": 2}').rows()) == [(1, b'{"a": 1}\n'), (3, b'{"a": 2}')]
        rows = json.dumps([{"a": 1}, {}, {"b": [1, {"c": 2}]}], indent=2).encode()
        assert [(line, orjson.loads(row)) for line, row in write(rows).rows()] == [
            (2, {"a": 1}),
            (5, {}),
            (6, {"b": [1, {"c": 2}]}),
        ]

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (b"]\n", b"", "line 5: the file ends inside a list"),
            (b"  },\n", b"", "is not JSON"),
            (b'  {\n    "b"', b'  7,\n  {\n    "b"', "line 5: expected an object"),
            (b'  {\n    "b"', b'  {"lost": 1},\n  {\n    "b"', "line 5: expected an object"),
        ],
    )
    def test_damaged_blocks_are_refused_not_skipped(self, write, old, new, message):
        content = json.dumps([{"a": 1}, {"b": 2}], indent=2).encode() + b"\n"
        file = write(content.replace(old, new))
        with pytest.raises(InputError, match=message):
            [parse(row, "log", line) for line, row in file.rows()]

    def test_a_block_has_a_limit(self, monkeypatch):
        monkeypatch.setattr(reading, "MOST_BYTES", 10)
        with pytest.raises(InputError, match="log, line 1: has more than 10 bytes"):
            list(blocks([b"  {\n", b"    123456789\n"], "log"))

    def test_elements_that_orjson_cannot_write_are_still_rows(self, write):
        deep = "[" * 300 + "]" * 300
        file = write(f'[{{"large": {10**30}}}, {{"not": NaN}}, {deep}]'.encode())
        large, nan, nested = (parse(row, "") for _, row in file.rows())
        assert large["large"] == pytest.approx(1e30)
        assert nan["not"] is None or math.isnan(nan["not"])
        assert json.dumps(nested) == deep

    def test_nesting_beyond_all_limits_is_refused(self, write):
        with pytest.raises(InputError, match="log"):
            list(write(b"[" * 100_000).rows())


class TestParse:
    def test_nan_and_infinity(self):
        value = parse(b'{"a": NaN, "b": -Infinity, "c": 1}', "log")
        assert math.isnan(value["a"])
        assert value["b"] == -math.inf

    @pytest.mark.parametrize("content", [rb'["\ud800"]', b'["\xed\xa0\x80"]', rb'[NaN, "\udc00x"]'])
    def test_halves_of_surrogate_pairs_can_be_written_again(self, content):
        text = parse(content, "log")[-1]
        assert text.encode()
        assert "?" in text

    def test_whole_surrogate_pairs_stay(self):
        assert parse(rb'[NaN, "\ud83d\ude00"]', "log")[1] == "😀"

    @pytest.mark.parametrize(
        "content", [b"", b"{", b'{"a": 1}}', b"\xff", b"[" * 5000, b"9" * 5000, b'{"a": ' * 2000, b"nul", b"\x00" * 9]
    )
    def test_what_is_not_json_is_refused_with_file_and_line(self, content):
        with pytest.raises(InputError, match=r"^log, line 7: is not JSON \(.*\); the file is damaged"):
            parse(content, "log", 7)

    def test_huge_numbers(self):
        assert parse(b"1" * 400, "log") == int("1" * 400)
        assert parse(b"1e999", "log") == math.inf

    def test_the_line_is_the_parsers_where_none_is_given(self):
        with pytest.raises(InputError, match="log, line 3: is not JSON"):
            parse(b'{\n"a":\n}', "log")

    def test_too_many_values_are_refused_before_they_fill_the_memory(self, monkeypatch):
        monkeypatch.setattr(reading, "SMALL", 10)
        monkeypatch.setattr(reading, "MOST_VALUES", 10)
        assert len(parse(b"[%b]" % b",".join([b"1"] * 9), "log")) == 9
        with pytest.raises(InputError, match="log: has more than 10 values"):
            parse(b"[%b]" % b",".join([b"[]"] * 9), "log")


def test_a_companion_is_kept_until_it_changes(tmp_path):
    path = tmp_path / "results.json"
    assert beside(path) is None
    path.write_text("[1]")
    assert beside(path) is beside(path)
    path.write_text("[1, 2]")
    assert beside(path) == [1, 2]
    assert beside(tmp_path) is None


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1.0),
        (0, 0.0),
        (0.25, 0.25),
        (10**400, None),
        (math.nan, None),
        (-math.inf, None),
        ("1", None),
        ([1], None),
    ],
)
def test_a_number_is_finite(value, expected):
    assert number(value) == expected


@given(ANY)
def test_values_of_any_type_are_taken_for_what_they_are(value):
    assert number(value) is None or math.isfinite(number(value))
    assert words(value) is None or words(value).strip()
    assert mapping(value) == (value if isinstance(value, dict) else {})
    assert list(entries(value)) == (value if isinstance(value, list) else [])
    assert plain(value) is None or isinstance(plain(value), str | bool | float)


def test_a_truth_value_that_describes_a_subject_stays_one():
    assert plain(True) is True
    assert plain(3) == 3.0


@given(st.lists(st.sampled_from(["a", "b", "a#2", "a#2#2", "a#3"])))
def test_repeated_items_get_names_of_their_own(items):
    names = numbered(items)
    assert len(set(names)) == len(items)
    assert all(name.startswith(item) for name, item in zip(names, items, strict=True))


def test_repeats_are_counted():
    assert numbered(["a", "b", "a", "a"]) == ["a", "b", "a#2", "a#3"]
    assert numbered(["a", "a", "a#2"]) == ["a", "a#2", "a#2#2"]
    assert numbered(["a#2", "a", "a"]) == ["a#2", "a", "a#3"]


def test_texts_identify_items():
    assert text_item("a", "b") != text_item("b", "a")
    assert text_item("a") == text_item("a")
    assert text_item("\ud800") != text_item("\udfff")


@given(st.lists(st.floats(-50, 0), min_size=2, max_size=6), st.data())
def test_log_odds_are_those_of_the_softmax(scores, data):
    gold = data.draw(st.integers(0, len(scores) - 1))
    total = sum(map(math.exp, scores))
    right = math.exp(scores[gold]) / total
    if 1e-9 < right < 1 - 1e-9:
        assert log_odds(scores, [gold]) == pytest.approx(math.log(right / (1 - right)), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    ("scores", "gold"),
    [
        ([], [0]),
        ([0.0], [0]),
        ([0.0, -1.0], []),
        ([0.0, -1.0], [0, 1]),
        ([-math.inf, -math.inf], [0]),
        ([0, math.nan], [0]),
    ],
)
def test_log_odds_that_are_not_finite_are_missing(scores, gold):
    assert log_odds(scores, gold) is None


def test_several_right_options_count_together():
    assert log_odds([0.0, 0.0, 0.0, 0.0], [0, 1, 2]) == pytest.approx(math.log(3))
    assert log_odds([-1000.0, 0.0], [0]) == -1000.0
