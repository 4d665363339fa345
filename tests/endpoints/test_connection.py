from typing import NamedTuple

import polars as pl
import pytest

from breadth.datasets import Choice, Generate, Pattern, Task
from breadth.endpoints import (
    AskedTestSet,
    Budget,
    BudgetSpentError,
    Connection,
    Connections,
    Endpoint,
    Form,
    How,
    Kept,
    forms_of,
)
from breadth.errors import InputError

from ..serving import Server, fault, prompt_of, text_reply, writes

ITEMS = pl.DataFrame({"item": ["a", "b"], "testset": "s", "q": ["1", "2"], "label": ["yes", "no"]})


class Set(NamedTuple):
    task: Task
    frame: pl.DataFrame = ITEMS
    name: str = "s"


SUMS = Set(Generate("{q}=", r"(\d+)"))
YES_NO = Set(Pattern("{q}?", (("yes", " Yes"), ("no", " No"))))
QUIZ = Set(
    Choice("{q}?"),
    ITEMS.with_columns(options=pl.Series([["x", "y"]] * 2), option_labels=pl.Series([["yes", "no"]] * 2)),
)


def gives(*kinds, tokens=1, most=20):
    """A server that gives log-probabilities of some kinds, and counts so many tokens in an answer."""

    def answer(path, body):
        prompt, chat = prompt_of(body), path.startswith("/chat")
        after = prompt.partition("?")[2]
        reply = text_reply(" Yes", chat=chat, prompt_tokens=0 if tokens is None else 5 + tokens * bool(after))
        if body.get("echo"):
            if "echo" in kinds:
                pieces = [prompt[: -len(after)], after, "."]
                reply["choices"][0]["logprobs"] = {"tokens": pieces, "token_logprobs": [None, -float(len(after)), -1.0]}
        elif body.get("logprobs"):
            asked = body["top_logprobs"] if chat else body["logprobs"]
            if asked > most:
                return fault(400, {"error": {"message": "too many"}})
            if "top" in kinds:
                listed = [{"token": " Yes", "logprob": -0.1}, {"token": " No", "logprob": -3.0}]
                reply["choices"][0]["logprobs"] = {"content": [{"top_logprobs": listed}]}
        return reply

    return answer


def connection(server, **options):
    return Connection(Endpoint(server.url, "stub", **options))


def test_the_best_form_is_found_with_one_request():
    with Server(gives("echo", "top")) as server:
        here = connection(server)
        assert here.choose(SUMS).form == ("completions", How.WRITE, 0)
        assert here.choose(YES_NO).form == ("completions", How.ECHO, 0)
        assert here.choose(QUIZ).form == ("completions", How.ECHO, 0)
    assert len(server.asked) == 3
    assert here.notes == []
    # These answers need not be asked for again.
    assert len(here.answers) == 3


def test_chat_where_there_are_no_completions():
    with Server(writes(), paths=("/chat/completions",)) as server:
        here = connection(server)
        assert here.choose(SUMS).form.api == "chat"
        assert here.notes == [
            "prompts are sent as chat messages, to which the server applies its chat template (Not Found (status 404))"
        ]
        with pytest.raises(InputError, match="Not Found"):
            connection(server, api="completions").choose(SUMS)


@pytest.mark.parametrize("most", [20, 5])
def test_lists_of_likeliest_tokens(most):
    with Server(gives("top", most=most)) as server:
        here = connection(server)
        assert here.choose(YES_NO).form == ("completions", How.TOP, most)
        assert f"answers are compared by the {most} likeliest first tokens" in here.notes[0]
        assert connection(server, api="chat").choose(YES_NO).form == ("chat", How.TOP, most)


def test_answers_of_several_tokens_need_more_than_a_list():
    with Server(gives("top", tokens=2)) as server, pytest.raises(InputError, match=r"the answer ' Yes' has 2 tokens"):
        connection(server).choose(YES_NO)


def test_a_server_that_does_not_count_tokens():
    with Server(gives("top", tokens=None)) as server:
        assert connection(server).choose(YES_NO).form.how is How.TOP
        rare = Set(Pattern("{q}?", (("yes", " Yes"), ("no", " Rarely"))))
        with pytest.raises(InputError, match="' Rarely' is not among the likeliest tokens"):
            connection(server).choose(rare)


def test_no_log_probabilities():
    message = r"s is of kind pattern, which needs log-probabilities that the server does not give .*such as vLLM"
    with Server(gives()) as server:
        with pytest.raises(InputError, match=message):
            connection(server).choose(YES_NO)
        with pytest.raises(InputError, match=r"kind choice.*chat messages have none for whole answers"):
            connection(server, api="chat").choose(QUIZ)
    assert len(server.asked) <= 5


def test_no_such_model():
    def answer(path, body):
        return fault(404, {"error": {"message": f"The model `{body['model']}` does not exist."}})

    message = r"\(stub\): the server has no such model; it lists first, sec\?ond"
    with Server(answer, models=("first", "sec\x1bond")) as server, pytest.raises(InputError, match=message):
        connection(server).choose(SUMS)
    with (
        Server(answer, models=fault(404)) as server,
        pytest.raises(InputError, match="The model `stub` does not exist"),
    ):
        connection(server).choose(SUMS)


def test_a_model_that_is_not_listed_but_answers():
    with Server(writes(), models=("another",)) as server:
        here = connection(server)
        here.choose(SUMS)
        assert "is not in the server's list of models" in here.notes[0]
        assert "it lists another" in here.notes[0]


def kept_in(values):
    return Kept(values, lambda answer: values.update({answer.question.key: answer.value}))


@pytest.mark.parametrize("kind", ["echo", "top"])
def test_what_was_answered_before_is_not_asked_again(kind):
    """Not even by a connection that knows nothing yet, nor the form that was refused then."""
    values = {}
    with Server(gives(kind)) as server:
        first = connection(server).choose(YES_NO, kept=kept_in(values))
        asked = len(server.asked)
        assert asked == {"echo": 1, "top": 5}[kind]
        again = connection(server)
        assert again.choose(YES_NO, kept=kept_in(values)).form == first.form
        assert [("as in the answers that are kept" in note) for note in again.notes] == [True] * (kind == "top")
        assert len(server.asked) == asked


def test_every_answer_is_kept_at_once():
    values, connections = {}, []
    with Server(gives("top", tokens=2)) as server:
        for _ in range(3):
            connections.append(Connection(Endpoint(server.url, "stub", "completions"), Budget(2)))
            with pytest.raises((BudgetSpentError, InputError)) as caught:
                connections[-1].choose(YES_NO, kept=kept_in(values))
    # A refused form and its list; two counts, which refuse the list; the other list, which takes the same counts.
    assert [each.client.budget.spent for each in connections] == [2, 2, 2]
    assert len({str(body) for body in server.asked}) == 5
    assert "the answer ' Yes' has 2 tokens" in str(connections[1].unsupported) + str(caught.value)


@pytest.mark.parametrize("failure", [fault(500), fault(cut=True)], ids=["500", "cut"])
def test_a_server_that_fails_where_it_should_refuse(failure):
    def answer(path, body):
        return failure if path.startswith("/chat") else gives()(path, body)

    with Server(answer) as server, pytest.raises(InputError, match="needs log-probabilities that the server does not"):
        connection(server).choose(YES_NO)


def test_other_errors_end_it():
    broken = Server(writes(), faults=[fault(500)] * 9)
    with broken as server, pytest.raises(InputError, match="gave up after 3 requests"):
        connection(server).choose(SUMS)


def test_connections_share_a_budget():
    connections, endpoint = Connections(3), Endpoint("http://127.0.0.1:9/v1", "stub")
    assert connections.of(endpoint) is connections.of(Endpoint("http://127.0.0.1:9/v1", "stub"))
    other = connections.of(Endpoint("http://127.0.0.1:9/v1", "other"))
    assert other.client.budget is connections.of(endpoint).client.budget


WORDS = Pattern("{q}?", (("yes", " Yes"), ("no", " No")))
TEXTS, LETTERS = Choice("{q}"), Choice("{q}", continuation="label")
NUMBERS = Generate("{q}=", r"(\d+)", "number", max_tokens=5, stop=("\n",))


def a_set(task, **columns):
    frame = pl.DataFrame({"item": ["i0", "i1", "i2"], "testset": "s", "q": ["a", "b", "c"], **columns})
    return Set(task, frame)


OPTIONS = {"options": [["four", "five"]] * 3, "option_labels": [["A", "B"]] * 3, "label": ["A", "B", "A"]}


def test_forms():
    assert [form.how for form in forms_of(NUMBERS, "auto")] == [How.WRITE] * 2
    assert [form.api for form in forms_of(NUMBERS, "chat")] == ["chat"]
    assert [form.how for form in forms_of(TEXTS, "auto")] == [How.ECHO]
    for task in (WORDS, LETTERS):
        assert [form.how for form in forms_of(task, "auto")] == [How.ECHO, *[How.TOP] * 4]
        assert [form.most for form in forms_of(task, "chat")] == [20, 5]
    assert forms_of(TEXTS, "chat") == []

    class Other(Generate):
        kind = "other"

    assert forms_of(Other("{q}", "(.)"), "chat")  # a kind that writes, too

    class Unknown(Task):
        kind = "unknown"
        from_keys = completion_of = None

    Unknown.__abstractmethods__ = frozenset()
    with pytest.raises(InputError, match="kind 'unknown' cannot be asked of a model behind an endpoint"):
        forms_of(Unknown("{q}"), "auto")


def test_questions():
    written = AskedTestSet.make(a_set(NUMBERS, label=["1", "2", "3"]), Form("chat", How.WRITE), "Q\n\n")
    assert [question.prompt for question in written.questions] == ["Q\n\na=", "Q\n\nb=", "Q\n\nc="]
    assert (written.questions[0].max_tokens, written.questions[0].stop) == (5, ("\n",))
    echoed = AskedTestSet.make(a_set(WORDS, label=["yes", "no", "no"]), Form("completions", How.ECHO))
    assert [question.continuation for question in echoed.questions] == [" Yes", " No"] * 3
    texts = AskedTestSet.make(a_set(TEXTS, **OPTIONS), Form("completions", How.ECHO))
    assert [question.continuation for question in texts.questions[:2]] == [" four", " five"]
    letters = AskedTestSet.make(a_set(LETTERS, **OPTIONS), Form("chat", How.TOP, 5))
    assert letters.questions[0].answers == (" A", " B")


def test_a_field_that_the_data_does_not_have():
    with pytest.raises(InputError, match=r"the pattern uses \{other\}, which is not a column"):
        AskedTestSet.make(a_set(Generate("{other}", "(.)"), label=["1", "2", "3"]), Form("chat", How.WRITE))


def scored(asked, answers):
    return asked.scores(dict(zip((question.key for question in asked.questions), answers, strict=True)))


def test_scores_of_echoed_answers():
    asked = AskedTestSet.make(a_set(WORDS, label=["yes", "no", "no"]), Form("completions", How.ECHO))
    answers = [[-1.0, 0.0], [-2.0, 1.0], [-1.0, 0.0], [-2.0, 1.0], [-2.0, 0.0], [-1.0, 1.0]]
    frame = scored(asked, answers)
    assert frame["item"].to_list() == ["i0", "i1", "i2"]
    assert frame["correct"].to_list() == [1.0, 0.0, 1.0]
    assert frame["margin"].to_list() == [1.0, -1.0, 1.0]
    values = dict(zip((question.key for question in asked.questions), answers, strict=True))
    assert asked.notes(values) == ["s: 3 of 6 answers share a token with their prompt; it counts with them"]


@pytest.mark.parametrize("task", [WORDS, LETTERS], ids=["pattern", "choice"])
def test_answers_that_are_not_listed(task):
    """What is listed decides; a margin needs both; an item without any answer is wrong."""
    columns = {"label": ["yes", "no", "no"]} if task is WORDS else OPTIONS
    asked = AskedTestSet.make(a_set(task, **columns), Form("chat", How.TOP, 5))
    answers = [[-1.0, None], [-1.0, -3.0], [None, None]]
    frame = scored(asked, answers)
    assert frame["correct"].to_list() == [1.0, 0.0, 0.0]
    assert frame["margin"].to_list() == [None, -2.0, None]
    assert frame["answer"].to_list() == [*(["yes"] * 2 if task is WORDS else ["A"] * 2), None]
    values = dict(zip((question.key for question in asked.questions), answers, strict=True))
    (note,) = asked.notes(values)
    assert "for 2 of 3 items not every answer is among the 5 likeliest tokens" in note
    assert "1 of them, without any answer there, count as wrong" in note


def test_scores_of_texts():
    asked = AskedTestSet.make(a_set(NUMBERS, label=["1", "2", "3"]), Form("chat", How.WRITE))
    frame = scored(asked, ["1", "so 3", ""])
    assert frame["correct"].to_list() == [1.0, 0.0, 0.0]
    assert frame["answer"].to_list() == ["1", "so 3", ""]
