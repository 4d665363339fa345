import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadth.endpoints import protocol
from breadth.endpoints.protocol import (
    Continued,
    Counted,
    FirstToken,
    MalformedError,
    NoLogprobsError,
    Written,
    error_words,
    model_ids,
    server_message,
    tokens_of,
)


def choice(**values):
    return {"choices": [values]}


def test_what_is_sent():
    plain = Written("2 + 2 =", "completions", 8, ("\n", "a", "b", "c", "d")).fields()
    assert plain == {"prompt": "2 + 2 =", "max_tokens": 8, "temperature": 0, "stop": ["\n", "a", "b", "c"]}
    chat = Written("2 + 2 =", "chat", 8).fields()
    assert chat == {"messages": [{"role": "user", "content": "2 + 2 ="}], "max_tokens": 8, "temperature": 0}
    assert Continued("Yes or No?", " Yes").fields()["prompt"] == "Yes or No? Yes"
    assert FirstToken("p", "chat", (" Yes",), 5).fields()["top_logprobs"] == 5
    assert Written("p", "chat", 1).path == "/chat/completions"
    assert Written("p", "completions", 1).path == Continued("p", "c").path == "/completions"


def test_equal_questions_have_the_same_key():
    assert Written("p", "chat", 3).key == Written("p", "chat", 3).key
    others = [
        Written("p", "chat", 4), Written("p", "completions", 3), Written("q", "chat", 3),
        Written("p", "chat", 3, ("x",)),
        Continued("p", "c"), Continued("pc", ""), FirstToken("p", "chat", ("c",)), FirstToken("p", "chat", ("d",)),
        Counted("p", "chat"),
    ]  # fmt: skip
    assert len({question.key for question in [Written("p", "chat", 3), *others]}) == 1 + len(others)


def test_texts():
    assert Written("p", "completions", 9).read(choice(text=" 4")) == " 4"
    assert Written("p", "completions", 9, ("\n\n",)).read(choice(text="4\n\nNext")) == "4"
    assert Written("p", "chat", 9).read(choice(message={"content": "4"})) == "4"
    assert Written("p", "chat", 9).read(choice(message={"content": None})) == ""
    assert Written("p", "completions", 9).read(choice(text="a\ud800")) == "a?"


def echoed(tokens, values, **more):
    return choice(logprobs={"tokens": tokens, "token_logprobs": values}, **more)


@pytest.mark.parametrize(
    ("tokens", "values"),
    [
        (["Yes", " or", " No?", " Ye", "s", "\n"], [None, -1.0, -1.0, -0.5, -0.25, -9.0]),
        (["Yes", " or", " No?", " Ye", "s", " Yes"], [None, -1.0, -1.0, -0.5, -0.25, -9.0]),
        (["Yes", " or", " No?", " Ye", "s"], [None, -1.0, -1.0, -0.5, -0.25]),  # nothing was written
        (["<s>", "Yes", "Ġor", "ĠNo", "?", "ĠYe", "s", "Ċ"], [None, -1, -1.0, -1.0, -1.0, -0.5, -0.25, -9.0]),
    ],
)
def test_the_continuation_is_found_in_the_echo(tokens, values):
    assert Continued("Yes or No?", " Yes").read(echoed(tokens, values)) == [-0.75, 0.0]


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 5}, {"prompt_tokens": 6}])
def test_a_prompt_that_comes_back_as_bytes(usage):
    """Tokens that hold a part of a character do not spell the prompt; their number, or their length, covers it."""
    reply = {
        **echoed(["\ufffd", "\ufffd", "?", " Ye", "s", "."], [None, -1.0, -1.0, -0.5, -0.25, -9.0]),
        "usage": usage,
    }
    assert Continued("é?", " Yes").read(reply) == [-0.75, 0.0]


IGNORED = {
    "the answer is written": ("Yes or No?", [" Yes"], {}),
    "after a prompt of one token": ("Q", [" Yes"], {"prompt_tokens": 1}),
    "after nothing": ("", [" Yes"], {}),
    "with the end of the prompt": ("Is it so, Yes or No?", [" Yes or No?", " Yes"], {}),
    "with more than was asked for": ("Yes or No?", [" I", " would", " say", " Yes", "."], {"prompt_tokens": 12}),
}


@pytest.mark.parametrize("name", IGNORED)
def test_what_was_written_is_not_taken_for_an_echo(name):
    """A server that ignores echo gives the log-probability of what it writes, which may be the answer's own words."""
    prompt, tokens, usage = IGNORED[name]
    with pytest.raises(NoLogprobsError, match="does not repeat the prompt"):
        Continued(prompt, " Yes").read({**echoed(tokens, [-0.5] * len(tokens)), "usage": usage})


def test_a_token_that_begins_in_the_prompt_counts_and_is_reported():
    reply = echoed(["A", "ns", "wer: Y", "es", "."], [None, -1.0, -0.5, -0.25, -9.0])
    assert Continued("Answer:", " Yes").read(reply) == [-0.75, 1.0]


@pytest.mark.parametrize(
    "reply",
    [
        choice(text=" Yes", logprobs=None),
        choice(text=" Yes"),
        echoed(["\n"], [-0.1]),  # echo was ignored
        choice(logprobs={"content": [{"token": "x", "logprob": -1.0}]}),
    ],
)
def test_no_log_probabilities(reply):
    with pytest.raises(NoLogprobsError):
        Continued("Yes or No?", " Yes").read(reply)


def test_likeliest_tokens():
    listed = {" Yes": -0.5, " No": -1.5, "Yes": -2.0}
    plain = choice(logprobs={"top_logprobs": [listed]})
    content = [{"token": token, "logprob": value} for token, value in listed.items()]
    chat = choice(logprobs={"content": [{"token": " Yes", "logprob": -0.5, "top_logprobs": content}]})
    answers = (" Yes", " No", " Maybe")
    assert FirstToken("p", "completions", answers).read(plain) == [-0.5, -1.5, None]
    assert FirstToken("p", "completions", answers).read(chat) == [-0.5, -1.5, None]  # as llama.cpp replies
    together = math.log(math.exp(-0.5) + math.exp(-2.0))
    assert FirstToken("p", "chat", answers).read(chat) == [pytest.approx(together), -1.5, None]
    for empty in ({"top_logprobs": []}, {"content": []}, {"content": None, "top_logprobs": None, "tokens": ["x"]}):
        with pytest.raises(NoLogprobsError):
            FirstToken("p", "completions", answers).read(choice(logprobs=empty))


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        (Written("p", "completions", 1), {}),
        (Written("p", "completions", 1), {"choices": []}),
        (Written("p", "completions", 1), {"choices": ["x"]}),
        (Written("p", "completions", 1), choice(text=None)),
        (Written("p", "chat", 1), choice(text="4")),
        (Written("p", "chat", 1), choice(message={"content": [1]})),
        (Continued("p", " c"), choice(logprobs=[1])),
        (Continued("p", " c"), echoed(["p", " c"], [None])),
        (Continued("p", " c"), echoed(["p", 7], [None, -1.0])),
        (Continued("p", " c"), echoed(["p", " c", "x"], [None, None, -1.0])),
        (Continued("p", " c"), echoed(["p", " c", "x"], [None, math.nan, -1.0])),
        (FirstToken("p", "chat", ("c",)), choice(logprobs={"content": [{"top_logprobs": [{"token": 1}]}]})),
        (FirstToken("p", "completions", ("c",)), choice(logprobs={"top_logprobs": [{"c": True}]})),
    ],
)
def test_malformed_replies(question, reply):
    with pytest.raises(MalformedError):
        question.read(reply)


def listed_for_chat(*values):
    """A reply to a message with log-probabilities of the likeliest tokens."""
    entries = [{"token": f"t{k}", "logprob": value} for k, value in enumerate(values)]
    return choice(logprobs={"content": [{"top_logprobs": entries}]})


def listed_for_text(*values):
    """The same for plain text."""
    return choice(logprobs={"top_logprobs": [{f"t{k}": value for k, value in enumerate(values)}]})


#: What is no log-probability, and the words that tell the kinds apart.
NO_LOGPROBS = [
    (True, "not a number"),
    ("-0.5", "not a number"),
    (None, "not a number"),
    ([-0.5], "not a number"),
    ({"value": -0.5}, "not a number"),
    (math.nan, "not finite"),
    (math.inf, "not finite"),
    (-math.inf, "not finite"),
    (-(10**400), "not finite"),
    (10**400, "not finite"),
    (0.02, "above 0"),
    (7, "above 0"),
    (1e300, "above 0"),
]


@pytest.mark.parametrize(("value", "words"), NO_LOGPROBS, ids=lambda value: str(value)[:12])
def test_what_is_no_log_probability(value, words):
    with pytest.raises(MalformedError, match=words):
        Continued("p", " c").read(echoed(["p", " c", "x"], [None, value, -1.0]))
    for way, listed in (("chat", listed_for_chat), ("completions", listed_for_text)):
        with pytest.raises(MalformedError, match=words):
            FirstToken("p", way, ("t0",)).read(listed(-1.0, value))


def test_log_probabilities_may_be_rounded():
    assert Continued("p", " c").read(echoed(["p", " c", "x"], [None, 1e-4, -1.0])) == [1e-4, 0.0]
    assert FirstToken("p", "chat", ("t0",)).read(listed_for_chat(0, -30.5)) == [0.0]
    assert FirstToken("p", "chat", ("t1",)).read(listed_for_chat(0.001, -9999.0)) == [-9999.0]


@pytest.mark.parametrize("listed", [listed_for_chat, listed_for_text])
def test_probabilities_that_add_up_to_more_than_one(listed):
    assert FirstToken("p", "completions", ("t0",)).read(listed(math.log(0.5), math.log(0.5))) == [math.log(0.5)]
    with pytest.raises(MalformedError, match=r"add up to 1\.5"):
        FirstToken("p", "completions", ("t0",)).read(listed(*[math.log(0.5)] * 3))


def test_log_probabilities_whose_sum_is_no_number():
    with pytest.raises(MalformedError, match="do not add up"):
        Continued("p", " cc").read(echoed(["p", " c", "c", "x"], [None, -1.5e308, -1.5e308, -1.0]))


@pytest.mark.parametrize(
    "logprobs",
    [
        {"content": [{"top_logprobs": {"a": -1.0}}]},
        {"content": [{"top_logprobs": [["a", -1.0]]}]},
        {"content": [{"top_logprobs": ["a", "b"]}]},
        {"content": [[]]},
        {"content": ["a"]},
        {"top_logprobs": {"a": -1.0}},
        {"top_logprobs": [[["a", -1.0]]]},
        {"top_logprobs": ["a"]},
        {"top_logprobs": [3]},
        {"top_logprobs": "abc"},
    ],
)
def test_lists_of_odd_shapes(logprobs):
    for way in ("chat", "completions"):
        with pytest.raises(MalformedError):
            FirstToken("p", way, ("a",)).read(choice(logprobs=logprobs))


def test_a_text_that_no_model_writes(monkeypatch):
    monkeypatch.setattr(protocol, "MOST_WRITTEN", 100)
    assert Written("p", "completions", 1).read(choice(text="a" * 100)) == "a" * 100
    with pytest.raises(MalformedError, match="more than 100 characters"):
        Written("p", "completions", 1).read(choice(text="a" * 101))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "text", "logprobs", "tokens", "token_logprobs", "top_logprobs", "content", "usage"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_reply_is_read_or_refused(value):
    """What a server sends never ends in another exception."""
    for question in (Written("p", "completions", 1), Written("p", "chat", 1), Continued("p", " c"),
                     FirstToken("p", "chat", ("c",)), Counted("p", "chat")):  # fmt: skip
        reply = {"choices": [value], "usage": value}
        with suppress(MalformedError, NoLogprobsError):
            question.read(reply)
        assert isinstance(error_words(reply), str)
    assert isinstance(server_message(value), str)
    assert isinstance(error_words({"choices": value}), str)


def test_tokens_and_names():
    assert tokens_of({"usage": {"prompt_tokens": 5, "completion_tokens": 2}}) == (5, 2)
    assert tokens_of({"usage": {"prompt_tokens": -5, "completion_tokens": True}}) == tokens_of({}) == (0, 0)
    assert Counted("p", "chat").read({"usage": {"prompt_tokens": 5}}) == 5
    assert model_ids({"data": [{"id": "a"}, {"id": 3}, "b"]}) == ["a"]
    assert server_message({"error": {"message": "no"}}) == server_message({"detail": "no"}) == "no"
    assert server_message(["no"]) == server_message({"error": {"code": 3}}) == ""
