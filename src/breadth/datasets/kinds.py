"""The built-in scoring kinds: compare answer words, compare the options of an item, or let the model write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

import polars as pl
from pydantic import BeforeValidator, Field

from breadth.datasets.extraction import BOXED, RULES
from breadth.datasets.tasks import KeyProblem, Predict, Task, TaskKeys, fields_of, register_kind
from breadth.errors import InputError, listed

Metric = Literal["exact", "words", "number", "math"]

#: What is scored of an item's options, in the words of a study file and of the task.
ChoiceTexts = Literal["letters", "bracketed", "texts"]
Continuation = Literal["label", "bracketed", "text"]
_CONTINUATIONS: dict[str, Continuation] = {"letters": "label", "bracketed": "bracketed", "texts": "text"}
#: The answer of a model that finds a token more likely than all answer words (``predict: vocabulary``).
NEITHER = "neither"

#: What counts as the answer by default: the first line, the last number, or the last boxed expression.
EXTRACT: dict[Metric, str] = {
    "exact": r"\A\s*([^\n]*\S)",
    "words": r"\A\s*([^\n]*\S)",
    "number": r"(-?\d[\d,]*(?:\.\d+)?)",
    "math": BOXED,
}


def _as_text(value: Any) -> Any:
    """Labels and answers are text, even where they look like numbers."""
    if not isinstance(value, dict):
        return value
    return {
        str(key): str(text).lower() if isinstance(text, bool) else str(text) if isinstance(text, int | float) else text
        for key, text in value.items()
    }


Texts = Annotated[dict[str, str], BeforeValidator(_as_text)]


def _as_stops(value: Any) -> Any:
    """One text stands for a list of one; an empty text would stop at once."""
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list | tuple) and not all(texts):
        raise InputError("a text to stop at is empty")
    return texts


Stops = Annotated[tuple[str, ...], BeforeValidator(_as_stops)]


@register_kind
@dataclass(frozen=True)
class Pattern(Task):
    """Compare answer words as the next words after the prompt.

    ``answers`` pairs each label with its answer words, including the leading space. With ``predict`` vocabulary, an
    answer counts only if the model finds no other token of its vocabulary more likely than the one it begins with.
    """

    class Keys(TaskKeys):
        """Keys of kind pattern."""

        answers: Texts | None = Field(None, description="label: answer words, with their leading space (pattern)")

    kind = "pattern"
    summary = "compare answer words"
    shared_keys = ("pattern", "answers")
    losses = ("answers", "completion", "vocabulary")

    answers: tuple[tuple[str, str], ...]
    predict: Predict = field(default="answers", kw_only=True)

    @classmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Self:  # noqa: D102
        answers = NLI_PATTERN.answers if keys["answers"] is None else tuple(keys["answers"].items())
        if keys["pattern"] is None:
            return cls(NLI_PATTERN.template, answers, shorten=keys["shorten"] or NLI_PATTERN.shorten, **worded(keys))
        return cls(keys["pattern"], answers, shorten=keys["shorten"], **worded(keys))

    def overridden(self, keys: Mapping[str, Any]) -> Self:  # noqa: D102
        answers = keys.get("answers")
        return super().overridden({**keys, "answers": None if answers is None else list(answers.items())})

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of the answers."""
        return tuple(label for label, _ in self.answers)

    def completion_of(self, row: Mapping[str, Any]) -> str:  # noqa: D102
        return dict(self.answers)[row["label"]]

    def reworded(self, pattern: str | None, answers: Mapping[str, str] | None) -> Pattern:  # noqa: D102
        # One mapping of answers may serve sets with different labels; each takes its own.
        own = tuple((label, answers[label]) for label in self.labels) if answers else self.answers
        if pattern is None:
            return replace(self, answers=own)
        shorten = self.shorten if f"{{{self.shorten}}}" in pattern else None
        return replace(self, template=pattern, answers=own, shorten=shorten)

    def spec(self) -> dict[str, Any]:
        """As for every task; the order of the answers does not matter, since it changes no result."""
        values = {**super().spec(), "answers": dict(self.answers)}
        if self.predict == "answers":
            del values["predict"]  # the names of runs from before there was a choice stay as they are
        return values

    def predicting(self, predict: Predict) -> Pattern:  # noqa: D102
        return replace(self, predict=predict)

    def check(self, where: str) -> None:  # noqa: D102
        super().check(where)
        words = [answer for _, answer in self.answers]
        if len(words) < 2:
            raise InputError(f"{where}: give answers for at least two labels")
        if len(set(words)) < len(words) or not all(word.strip() for word in words):
            raise InputError(f"{where}: answers must differ and must not be empty; they are {listed(map(repr, words))}")

    @classmethod
    def problems(cls, keys: Mapping[str, Any]) -> Iterator[KeyProblem]:  # noqa: D102
        answers = keys["answers"]
        if answers is None:
            yield KeyProblem(
                ("answers",), "is missing: kind pattern needs answers for at least two labels", ("kind", "answers")
            )
            return
        yield from answer_problems(answers)
        unknown = dict.fromkeys(label for label in (keys["labels"] or {}).values() if label not in answers)
        if unknown and answers:
            yield KeyProblem(("labels",), f"no answer for {', '.join(map(repr, unknown))}", ("answers",))

    @classmethod
    def table_problems(cls, keys: Mapping[str, Any], frame: pl.DataFrame, file: str) -> Iterator[KeyProblem]:  # noqa: D102
        label, labels, answers = keys["label"], keys["labels"], keys["answers"] or {}
        values = frame[label].cast(pl.String, strict=False).drop_nulls().unique().sort().to_list()
        mapped = values if labels is None else [labels.get(value) for value in values]
        if answers and not set(mapped) & set(answers):
            yield KeyProblem(
                ("label",),
                f"column {label!r} of {file} contains {listed(values, most=5)}, and none of these is a label with an "
                f"answer ({listed(answers)}); map values to labels under labels",
                ("answers", "labels"),
            )

    @classmethod
    def warnings(cls, keys: Mapping[str, Any]) -> Iterator[KeyProblem]:  # noqa: D102
        yield from answer_warnings(keys["answers"] or {}, keys["pattern"] or "")


#: The default of kind pattern, and the task of all inference sets.
NLI_PATTERN = Pattern(
    template="{premise} Question: {hypothesis} Yes or No?",
    answers=(("entailment", " Yes"), ("not_entailment", " No")),
    shorten="premise",
)


@register_kind
@dataclass(frozen=True)
class Choice(Task):
    """Compare the options of an item by their log-likelihood after the prompt.

    An item has columns ``options`` (texts), ``option_labels`` (such as A to D) and ``label`` (the correct one's label).
    The template may use ``{choices}``, the options one per line with their labels. ``continuation`` is what is scored:
    the label of an option, alone or in round brackets, or its whole text. ``normalise`` divides by the length of what
    is scored in characters (acc_norm).
    """

    class Keys(TaskKeys):
        """Keys of kind choice."""

        choices: ChoiceTexts = Field(
            "texts", description="what is scored of an option: its letter or its text (choice)"
        )
        normalise: bool = Field(False, description="divide an option's log-likelihood by its length (choice)")

    kind = "choice"
    summary = "compare an item's options"
    uses_options = True

    continuation: Continuation = "text"
    normalise: bool = False

    @classmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Self:  # noqa: D102
        template = keys["pattern"] or "Question: {question}\n{choices}\nAnswer:"
        continuation = _CONTINUATIONS[keys["choices"]]
        return cls(template, continuation, keys["normalise"], shorten=keys["shorten"], **worded(keys))

    def overridden(self, keys: Mapping[str, Any]) -> Self:  # noqa: D102
        changes = {key: value for key, value in keys.items() if key != "choices"}
        if keys.get("choices") is not None:
            changes["continuation"] = _CONTINUATIONS[keys["choices"]]
        return super().overridden(changes)

    def option_texts(self, row: Mapping[str, Any]) -> list[str]:
        """What is compared for an item: the labels of its options, or their texts."""
        if self.continuation == "text":
            return list(row["options"])
        if self.continuation == "bracketed":
            return [f"({label})" for label in row["option_labels"]]
        return list(row["option_labels"])

    def completion_of(self, row: Mapping[str, Any]) -> str:  # noqa: D102
        return f" {self.option_texts(row)[row['option_labels'].index(row['label'])]}"

    def check_items(self, items: pl.DataFrame) -> None:  # noqa: D102
        for column in ("options", "option_labels"):
            if column not in items.columns:
                raise InputError(f"kind choice needs the column {column!r}; columns: {listed(items.columns, 40)}")
        for row in items.iter_rows(named=True):
            options, labels = row["options"], row["option_labels"]
            if len(options) < 2 or len(options) != len(labels) or row["label"] not in labels:
                raise InputError(
                    f"item {row['item']!r}: has {len(options)} options with labels {listed(labels)}, and the label "
                    f"{row['label']!r}; it needs at least two options, and the label of one of them"
                )

    @classmethod
    def problems(cls, keys: Mapping[str, Any]) -> Iterator[KeyProblem]:  # noqa: D102
        if keys["options"] is None:
            yield KeyProblem(("options",), "is missing: kind choice needs the column with the options", ("kind",))


@register_kind
@dataclass(frozen=True)
class Generate(Task):
    """Let the model write (greedy decoding), extract an answer from the text, and compare it with ``label``.

    ``extract`` is a regular expression, of which the first group of the last match is the answer, or the name of a rule
    (``breadth.datasets.extraction``). ``metric`` says how answers are compared: as text, as words without case and
    punctuation, as numbers, or by symbolic equality. ``completion`` may also be the bare name of a column.
    """

    class Keys(TaskKeys):
        """Keys of kind generate."""

        extract: str | None = Field(
            None,
            description=f"regular expression whose first group is the answer, or a rule: {', '.join(RULES)} (generate)",
        )
        metric: Metric = Field("exact", description="how answers are compared (generate)")
        max_tokens: int = Field(256, ge=1, description="maximum tokens to write (generate)")
        stop: Stops = Field((), description="texts at which writing stops (generate)")

    kind = "generate"
    summary = "let the model write"
    generates = True

    extract: str
    metric: Metric = "exact"
    max_tokens: int = 256
    stop: tuple[str, ...] = ()

    @classmethod
    def from_keys(cls, keys: Mapping[str, Any]) -> Self:  # noqa: D102
        expression = keys["extract"] or EXTRACT[keys["metric"]]
        template = keys["pattern"] or "Question: {question}\nAnswer:"
        stop = tuple(keys["stop"])
        return cls(
            template, expression, keys["metric"], keys["max_tokens"], stop, shorten=keys["shorten"], **worded(keys)
        )

    def completion_of(self, row: Mapping[str, Any]) -> str:  # noqa: D102
        column = self.completion
        if column is None or fields_of(column):  # a text with columns in braces is what is trained on, not the answer
            column = "label"
        return f" {row[column]}"

    def spec(self) -> dict[str, Any]:
        """As for every task; the column to train on has always been part of it."""
        return {**super().spec(), "completion": self.completion or "label"}

    def check(self, where: str) -> None:  # noqa: D102
        super().check(where)
        wrong = _expression_problem(self.extract)
        if wrong:
            raise InputError(f"{where}: extract {self.extract!r} {wrong}")

    @classmethod
    def problems(cls, keys: Mapping[str, Any]) -> Iterator[KeyProblem]:  # noqa: D102
        wrong = _expression_problem(keys["extract"] or EXTRACT["exact"])
        if keys["extract"] is None and keys["metric"] != "number":
            message = "is missing: kind generate needs it, unless metric is number (then the last number counts)"
            yield KeyProblem(("extract",), message, ("metric", "kind"))
        elif wrong:
            yield KeyProblem(("extract",), wrong)


def worded(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a task that keys common to all kinds give: prompt in training, completion, lines of options."""
    given = {"train_template": keys.get("train_prompt"), "completion": keys.get("completion")}
    if keys.get("choice_format") is not None:
        given["choice_format"] = keys["choice_format"]
    return given


def answer_problems(answers: Mapping[str, str]) -> Iterator[KeyProblem]:
    """Answer words that are empty, too few, or the same for two labels."""
    if len(answers) < 2:
        yield KeyProblem(("answers",), "needs at least two labels with their answers", ("answers",))
    empty = [label for label, words in answers.items() if not words.strip()]
    if empty:
        yield KeyProblem(("answers", empty[0]), "the answer is empty")
    words = [each.strip() for each in answers.values() if each.strip()]
    twice = dict.fromkeys(each for each in words if words.count(each) > 1)
    if twice:
        message = f"two labels have the answer {', '.join(map(repr, twice))}; no model can tell them apart"
        yield KeyProblem(("answers",), message)


def answer_warnings(answers: Mapping[str, str], pattern: str) -> Iterator[KeyProblem]:
    """Answer words without the leading space of a word after the prompt."""
    for label, words in answers.items() if not pattern.endswith((" ", "\n", "\t")) else ():
        if words[:1].isalnum():
            message = f"{words!r} has no leading space, unlike a word after the prompt; use {' ' + words!r}"
            yield KeyProblem(("answers", label), message)


def _expression_problem(expression: str) -> str | None:
    if expression in RULES:
        return None
    try:
        return None if re.compile(expression).groups else "has no group; put the answer in round brackets"
    except re.error as error:
        return f"is not a regular expression: {error}"
