from typing import NamedTuple

import polars as pl
import pytest

from breadth.datasets import Choice, Generate, Pattern, Task
from breadth.endpoints import Budget, BudgetSpentError, Connection, Connections, Endpoint, How, Kept
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
