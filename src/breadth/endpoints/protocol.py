"""What is sent to an OpenAI-compatible server and what is read from its replies. No network here.

A reply is data from outside: whatever is not of the expected form raises ``MalformedError``, which is worth another
try; a reply that is well formed but has no log-probabilities raises ``NoLogprobsError``, which is not.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from breadth.lm import cut_at_stop

#: Most stop strings of a request; a text is cut at all of them afterwards.
MOST_STOPS = 4

#: Characters of the prompt by which the end of the echoed prompt is recognised.
ANCHOR = 12

#: How far rounding may lift a log-probability above 0; some servers compute in half precision.
ROUNDING = 0.01

#: Most characters of a text that a model wrote: no model writes so much in reply to one question. What was asked for is
#: a number of tokens, of which few have as many characters as this, and some servers write more of them than that.
MOST_WRITTEN, MOST_PER_TOKEN, ANY_WRITTEN = 2**20, 2**8, 2**16

#: How some servers spell a space and a line break in tokens.
_SPELLING = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n"})

Reply = dict[str, Any]

#: What is kept of a reply: a text, a log-probability, or log-probabilities of answers (None if not listed).
Value = Any


class MalformedError(Exception):
    """A reply that is not of the expected form."""


class NoLogprobsError(Exception):
    """A reply without the log-probabilities that were asked for."""


class Tokens(NamedTuple):
    """Tokens of a prompt and of what was written, as the server counted them; 0 if it does not say."""

    read: int = 0
    written: int = 0


@dataclass(frozen=True)
class Question(ABC):
    """One request to a model. Equal questions have the same answer, so each is asked once."""

    prompt: str

    @property
    def api(self) -> Literal["completions", "chat"]:
        """The way it is asked."""
        return "completions"

    @property
    def path(self) -> str:
        """Where the request goes, below the address of the endpoint."""
        return "/chat/completions" if self.api == "chat" else "/completions"

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """The body of the request, except for the model."""

    @abstractmethod
    def read(self, reply: Reply) -> Value:
        """What to keep of the reply; plain JSON."""

    @cached_property
    def key(self) -> str:
        """Identifies the question."""
        return hashlib.sha256(json.dumps(self._identity(), sort_keys=True).encode()).hexdigest()[:24]

    def _identity(self) -> list[Any]:
        return [type(self).__name__, self.path, self.fields()]

    def _prompted(self, prompt: str, tokens: int) -> dict[str, Any]:
        """The prompt, and the settings of greedy decoding."""
        fields: dict[str, Any] = {"prompt": prompt}
        if self.api == "chat":
            fields = {"messages": [{"role": "user", "content": prompt}]}
        return {**fields, "max_tokens": tokens, "temperature": 0}


@dataclass(frozen=True)
class Written(Question):
    """What the model writes after a prompt."""

    way: Literal["completions", "chat"]
    max_tokens: int
    stop: tuple[str, ...] = ()

    @property
    def api(self) -> Literal["completions", "chat"]:  # noqa: D102
        return self.way

    def fields(self) -> dict[str, Any]:  # noqa: D102
        fields = self._prompted(self.prompt, self.max_tokens)
        if self.stop:
            fields["stop"] = list(self.stop[:MOST_STOPS])
        return fields

    def read(self, reply: Reply) -> str:
        """The text up to the first stop string."""
        choice = _choice(reply)
        if self.way == "chat":
            text = _get(choice, "message", dict).get("content")
            if text is None:  # how chat says that nothing was written
                text = ""
        else:
            text = choice.get("text")
        if not isinstance(text, str):
            raise MalformedError("the reply has no text")
        most = min(MOST_WRITTEN, max(ANY_WRITTEN, MOST_PER_TOKEN * self.max_tokens))
        if len(text) > most:
            raise MalformedError(f"the text of the reply has more than {most:,} characters")
        # A lone surrogate, half of a character, is no text that could be kept.
        return cut_at_stop(text.encode("utf-8", "replace").decode(), self.stop)


@dataclass(frozen=True)
class Continued(Question):
    """How likely a continuation is after a prompt: the prompt comes back with the log-probability of every token."""

    continuation: str

    def fields(self) -> dict[str, Any]:  # noqa: D102
        # Some servers refuse to write nothing, so one token is written and ignored.
        return {**self._prompted(self.prompt + self.continuation, 1), "logprobs": 1, "echo": True}

    def _identity(self) -> list[Any]:
        return [*super()._identity(), self.continuation]  # the same text may be split elsewhere

    def read(self, reply: Reply) -> list[float]:
        """The log-probability, and 1 if a token of it begins in the prompt."""
        logprobs = _logprobs(reply)
        if "tokens" not in logprobs:
            raise NoLogprobsError("the reply does not repeat the prompt with log-probabilities")
        tokens = [_text(token).translate(_SPELLING) for token in _get(logprobs, "tokens", list)]
        values = _get(logprobs, "token_logprobs", list)
        if len(values) != len(tokens):
            raise MalformedError("the reply has more or fewer log-probabilities than tokens")
        place = _locate(tokens, self.prompt, self.continuation, tokens_of(reply).read)
        if place is None:
            raise NoLogprobsError("the reply does not repeat the prompt with log-probabilities")
        first, end = place
        total = sum(_log_probability(value) for value in values[first:end])
        if not math.isfinite(total):
            raise MalformedError("the log-probabilities of the reply do not add up to a number")
        begins_in_prompt = len("".join(tokens[first:end])) > len(self.continuation)
        return [total, float(begins_in_prompt)]


@dataclass(frozen=True)
class FirstToken(Question):
    """How likely single-token answers are right after a prompt, from the list of the likeliest tokens."""

    way: Literal["completions", "chat"]
    answers: tuple[str, ...]
    most: int = 20

    @property
    def api(self) -> Literal["completions", "chat"]:  # noqa: D102
        return self.way

    def fields(self) -> dict[str, Any]:  # noqa: D102
        fields = self._prompted(self.prompt, 1)
        if self.way == "chat":
            return {**fields, "logprobs": True, "top_logprobs": self.most}
        return {**fields, "logprobs": self.most}

    def _identity(self) -> list[Any]:
        return [*super()._identity(), self.answers]  # only their log-probabilities are kept

    def read(self, reply: Reply) -> list[float | None]:
        """The log-probability of every answer; None for one that is not listed.

        A message begins without the space that a word after plain text has, so there spaces do not count.
        """
        listed = _likeliest(_logprobs(reply))
        return [self._total(answer, listed) for answer in self.answers]

    def _total(self, answer: str, listed: Sequence[tuple[str, float]]) -> float | None:
        if self.way == "chat":
            same = [value for token, value in listed if token.strip() == answer.strip()]
        else:
            same = [value for token, value in listed if token == answer]
        if not same:
            return None
        most = max(same)  # taken out before exp, which would be 0 for all that are unlikely
        return most + math.log(sum(math.exp(value - most) for value in same))


@dataclass(frozen=True)
class Counted(Question):
    """How many tokens a prompt has, as far as the server says; for whether an answer is a single token."""

    way: Literal["completions", "chat"]

    @property
    def api(self) -> Literal["completions", "chat"]:  # noqa: D102
        return self.way

    def fields(self) -> dict[str, Any]:  # noqa: D102
        return self._prompted(self.prompt, 1)

    def read(self, reply: Reply) -> int:  # noqa: D102
        return tokens_of(reply).read


class KeptAnswer(NamedTuple):
    """What is kept of the reply to a question."""

    question: Question
    value: Value
    tokens: Tokens


def tokens_of(reply: Reply) -> Tokens:
    """The tokens that a reply accounts for."""
    usage = reply.get("usage")
    if not isinstance(usage, dict):
        return Tokens()
    return Tokens(_token_count(usage.get("prompt_tokens")), _token_count(usage.get("completion_tokens")))


def _token_count(value: Any) -> int:
    # Not isinstance: True is an int. The bound keeps sums of nonsense within 64 bits.
    if type(value) is int and 0 <= value < 2**40:
        return value
    return 0


def model_ids(reply: Reply) -> list[str]:
    """Names of models in the reply to ``/models``."""
    data = _get(reply, "data", list)
    return [each["id"] for each in data if isinstance(each, dict) and isinstance(each.get("id"), str)]


def server_message(reply: Any) -> str:
    """What a server says about an error, wherever it puts it."""
    if not isinstance(reply, dict):
        return ""
    for key in ("error", "message", "detail"):
        said = reply.get(key)
        if isinstance(said, dict):
            said = said.get("message")
        if isinstance(said, str) and said:
            return said
    return ""


def error_words(reply: Reply) -> str:
    """What a server says in place of an answer, though with a good status; empty if there is an answer."""
    choices = reply.get("choices")
    if not choices:
        return server_message(reply)
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        return ""
    return server_message({"error": choices[0].get("error")})


def _locate(tokens: Sequence[str], prompt: str, text: str, counted: int) -> tuple[int, int] | None:
    """The first and the end of the tokens that spell ``text`` after ``prompt``; None if the prompt does not come back.

    The last token is usually the one that was written. Characters before the text tell whether it is; they do not if
    the server spells them in its own way, and then the text alone must do. A server that ignores ``echo`` may write the
    text, too: that is not the text that was asked about, so tokens of the prompt must come before it. ``counted`` are
    the tokens that the server counts in the prompt, 0 if it does not say.
    """
    ends = [end for end in (len(tokens) - 1, len(tokens)) if end > 0]
    for before in (prompt, prompt[-ANCHOR:], ""):
        for end in ends:
            if not "".join(tokens[:end]).endswith(before + text):
                continue
            first, length = end, 0
            while length < len(text):
                first -= 1
                length += len(tokens[first])
            if first > 0 and (before == prompt or _covers(tokens, first, prompt, counted)):
                return first, end
    return None


def _covers(tokens: Sequence[str], first: int, prompt: str, counted: int) -> bool:
    """Whether tokens that are not spelled like the prompt are still as many as it has.

    One may be written, and one that begins a text may not be counted. Bytes in place of a character make a prompt
    longer, never shorter.
    """
    if counted:
        return 0 <= len(tokens) - counted <= 2
    return len("".join(tokens[:first])) >= len(prompt)


def _likeliest(logprobs: dict[str, Any]) -> list[tuple[str, float]]:
    """The likeliest first tokens, from either form of a reply."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(logprobs.get("content"), list):
        # Of chat: an object for every written token, with the list of those that were likely in its place.
        if logprobs["content"]:
            for entry in _get(logprobs["content"][0], "top_logprobs", list):
                if not isinstance(entry, dict):
                    raise MalformedError("the likeliest tokens of the reply are not a list of objects")
                pairs.append((entry.get("token"), entry.get("logprob")))
    elif logprobs.get("top_logprobs"):
        # Of completions: for every written token, log-probabilities by token; null if the server lists none.
        first = _get(logprobs, "top_logprobs", list)[0]
        if not isinstance(first, dict | None):
            raise MalformedError("the likeliest tokens of the reply are not an object")
        pairs.extend((first or {}).items())
    if not pairs:
        raise NoLogprobsError("the reply lists no likeliest tokens")
    listed = [(_text(token).translate(_SPELLING), _log_probability(value)) for token, value in pairs]
    total = math.fsum(math.exp(value) for _, value in listed)
    if total > math.exp(ROUNDING):
        raise MalformedError(f"the likeliest tokens of the reply have probabilities that add up to {total:.3g}")
    return listed


def _logprobs(reply: Reply) -> dict[str, Any]:
    logprobs = _choice(reply).get("logprobs")
    if not logprobs:
        raise NoLogprobsError("the reply has no log-probabilities")
    if not isinstance(logprobs, dict):
        raise MalformedError("the log-probabilities of the reply are not an object")
    return logprobs


def _choice(reply: Reply) -> dict[str, Any]:
    choices = _get(reply, "choices", list)
    if not choices or not isinstance(choices[0], dict):
        raise MalformedError("the reply has no choices")
    # One answer was asked for. Which of several is the answer to this prompt, nobody knows.
    if len(choices) > 1:
        raise MalformedError(f"the reply has {len(choices):,} choices and not one")
    if choices[0].get("index") not in (0, None):
        raise MalformedError("the choice of the reply is the answer to another prompt, by its index")
    return choices[0]


def _get(value: Any, key: str, kind: type) -> Any:
    inner = value.get(key) if isinstance(value, dict) else None
    if not isinstance(inner, kind):
        raise MalformedError(f"the reply has no {key}")
    return inner


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise MalformedError("a token of the reply is not text")
    return value


def _log_probability(value: Any) -> float:
    # Not isinstance alone: True is an int.
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedError("a log-probability of the reply is not a number")
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not math.isfinite(number):
        raise MalformedError("a log-probability of the reply is not finite")
    if number > ROUNDING:
        raise MalformedError(f"a log-probability of the reply is above 0 ({number:.3g})")
    return number
