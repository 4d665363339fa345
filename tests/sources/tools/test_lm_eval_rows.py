import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.errors import InputError
from breadth.sources.tools.lm_eval_rows import (
    cut_row,
    document_hash,
    endings,
    last_part,
    prompted,
    question,
    weighed,
    whole_row,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
#: What makes cutting hard: keys, quotation marks and backslashes inside of texts.
HARD = st.lists(
    st.sampled_from(
        ['", "arg_1": "', ', "arguments": ', ', "filtered_resps": ', "\\", '"', "}}", '\\"', "\n", "é", "a "]
    )
).map("".join)


def line(prompts, continuations, doc=None, **extra):
    requests = zip(prompts, continuations, strict=True)
    row = {"doc_id": 3, "doc": {"question": "Why?"} if doc is None else doc, "target": "1"}
    row["arguments"] = {f"gen_args_{k}": {"arg_0": a, "arg_1": b} for k, (a, b) in enumerate(requests)}
    row |= {"resps": [[["-1.0", "False"]]] * len(prompts), "filtered_resps": [["-1.0", "False"]] * len(prompts)}
    return row | {"doc_hash": document_hash(row["doc"], "")} | extra


def dumped(row, ascii=False):
    return json.dumps(row, ensure_ascii=ascii).encode()


EXPECTED = {"filtered_resps", "doc_hash"}


@given(st.lists(st.tuples(HARD | TEXTS, HARD | TEXTS), min_size=2, max_size=5), HARD | TEXTS, st.booleans())
def test_cut_row_says_what_the_whole_row_says(requests, words, ascii):
    prompts, continuations = zip(*requests, strict=True)
    row = line(prompts, continuations, {"question": words, "choices": ["x", "y"]})
    content = dumped(row, ascii)
    cut, whole = cut_row(content, EXPECTED, True), whole_row(content, True, "file", 1)
    assert cut is not None
    assert (cut.document.doc_id, cut.document.target, cut.document.text) == (3, "1", whole.document.text)
    assert cut.document.options == [["x", "y"]]
    assert cut.rest == {key: row[key] for key in EXPECTED}
    for _ in range(2):  # the second time the continuations are known
        again = cut_row(content, EXPECTED, True)
        assert again is not None
        assert weighed(again, content, len(requests), True) == weighed(whole, content, len(requests), True)


def test_continuations_of_the_last_model_are_not_those_of_the_next():
    first, second = line(["P", "P"], [" a", " b"]), line(["QQ", "QQ"], [" a", " c"])
    three = line(["P", "P", "P"], [" a", " b", " c"])
    for row in (first, second, three, first):
        content = dumped(row)
        requests = row["arguments"].values()
        known = cut_row(content, EXPECTED, True)
        assert weighed(known, content, len(requests), True)[0] == [request["arg_1"] for request in requests]


def test_options_are_in_the_contexts_where_continuations_are_alike():
    for name in ("Sarah", "Maria"):  # prompts of one length
        row = line([f"A book. {name}", "A book. Julia"], [" was glad."] * 2)
        content = dumped(row)
        assert weighed(cut_row(content, EXPECTED, True), content, 2, True)[1] == [name, "Julia"]


def test_options_of_the_document_are_shown_where_the_model_saw_letters():
    row = line(["P"] * 2, [" A", " B"], {"question": "Why?", "choices": {"text": ["rain", "snow"]}})
    content = dumped(row)
    assert weighed(cut_row(content, EXPECTED, True), content, 2, True) == ([" A", " B"], ["rain", "snow"])


@pytest.mark.parametrize(
    "change",
    [
        lambda row: row | {"more": 1},
        lambda row: {key: value for key, value in row.items() if key != "doc_hash"},
        lambda row: row | {"doc_id": "3"},
        lambda row: {"x": 1, **row},
        lambda row: {key: row[key] for key in reversed(row)},
    ],
)
def test_rows_of_another_layout_are_not_cut(change):
    assert cut_row(dumped(change(line(["P"], ["c"]))), EXPECTED, True) is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"doc_id": 3, "arguments": 1', b"[]", b', "arguments": , "filtered_resps": ']
)
def test_damaged_lines_are_not_cut(content):
    assert cut_row(content, EXPECTED, True) is None
    with pytest.raises(InputError, match="file, line 7: "):
        whole_row(content, True, "file", 7)


def test_arguments_that_cannot_be_parsed_give_no_continuations():
    content = dumped(line(["P", "P"], [" a", " b"])).replace(b'"gen_args_1"', b'"gen_args_1')
    row = cut_row(content, EXPECTED, True)
    assert weighed(row, content, 2, True) == ([], [])


def test_hash_is_that_of_the_tool(shared_data):
    path = next(shared_data.glob("logs/lm-eval/made_with_tool/0.4.13/*/samples_arc*"))
    for row in map(json.loads, path.open()):
        assert document_hash(row["doc"], "") == row["doc_hash"]


def test_question_of_documents():
    assert question({"premise": "It rained.", "hypothesis": "It was wet.", "idx": 3}) == "It rained.\nIt was wet."
    assert question({"Question": "Why?", "answer": "x"}) == "Why?"
    assert question({"passage": "Why? Because.", "question": "Why?"}) == "Why? Because."
    assert question({"page": "text of it", "n": 1}) == "page: text of it"
    assert question({"n": 1}) is None
    assert question("Why?") == "Why?"
    assert question(None) is None


def test_prompt_is_the_question_where_the_document_has_no_text():
    content = dumped(line(["Example.\n\nWhy?"], ["c"], {"n": 1}))
    assert prompted(whole_row(content, True, "file", 1), content) == "Why?"


def test_parts_of_prompts():
    assert endings(["The cat sat on", "The cat saw on"]) == ("The cat ", ["sat on", "saw on"])
    assert endings(["same", "same"]) == ("", ["same", "same"])
    assert last_part("Example.\n\nWhy? ") == "Why? "
    assert last_part("Why?\n\n") == "Why?\n\n"
