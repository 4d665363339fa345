"""What a model is asked to do with an item, and when its answer counts as right."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import Literal

from breadth.errors import InputError, listed

Metric = Literal["exact", "number", "math"]


@dataclass(frozen=True)
class Pattern:
    """Compare answer words at the end of a prompt: the language model's own head decides, nothing is added.

    ``answers`` maps each label to its words (with the leading space that belongs to them). ``shorten`` is the field
    that gives way when a prompt is too long; the others are never cut.
    """

    template: str
    answers: tuple[tuple[str, str], ...]
    shorten: str | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels, in the order of the answers."""
        return tuple(label for label, _ in self.answers)


@dataclass(frozen=True)
class Choice:
    """Compare the options of an item by their log-likelihood after the prompt.

    An item has columns ``options`` (texts), ``option_labels`` (such as A to D) and ``label`` (the right one of these).
    The template may use ``{choices}``, the options one per line with their labels. ``continuation`` says what is
    scored: the label of an option or its whole text; ``normalise`` divides by the length of the text in characters
    (the metric acc_norm).
    """

    template: str
    continuation: Literal["label", "text"] = "text"
    normalise: bool = False
    shorten: str | None = None


@dataclass(frozen=True)
class Generate:
    """Let the model write (greedily), extract an answer from the text, and compare it with ``label``.

    ``extract`` is a regular expression whose first group of the last match is the answer; ``metric`` says how it is
    compared: as text, as a number, or by symbolic equality. ``completion`` is the column with the text to train on.
    """

    template: str
    extract: str
    metric: Metric = "exact"
    most_tokens: int = 256
    stop: tuple[str, ...] = ()
    shorten: str | None = None
    completion: str = "label"


Task = Pattern | Choice | Generate


def fields_of(template: str) -> tuple[str, ...]:
    """Names in braces, in order; a template that cannot be filled is refused.

    >>> fields_of("{premise} Question: {hypothesis} Yes or No?")
    ('premise', 'hypothesis')
    """
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise InputError(f"pattern {template!r}: {error}; write a literal brace twice") from error
    wrong = [
        f"{{{name}}}" for _, name, spec, how in parts if name is not None and (not name.isidentifier() or spec or how)
    ]
    if wrong:
        raise InputError(
            f"pattern {template!r}: {listed(wrong)} is no field; a field is the name of a column in braces"
        )
    return tuple(dict.fromkeys(name for _, name, _, _ in parts if name is not None))


def extract(expression: str, text: str) -> str | None:
    r"""First group of the last match (the whole match if there is no group); None if nothing matches.

    >>> extract(r"####\s*(\S+)", "so 3 + 4 = 7. #### 7")
    '7'
    """
    try:
        matches = list(re.finditer(expression, text, re.DOTALL))
    except re.error as error:
        raise InputError(f"extract {expression!r}: is no regular expression ({error})") from error
    if not matches:
        return None
    last = matches[-1]
    return next((group for group in last.groups() if group is not None), last[0]).strip()
