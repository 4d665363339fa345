r"""What counts as the answer in a text that a model wrote: a regular expression, or a rule that has a name.

The named rules are those by which arXiv 2511.21692 scores its sets (see ``protocols``). Each takes the text and the
right answer's label, which tells the kind of answer that is looked for and nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from breadth.errors import InputError

# Braces may nest four deep, more than the answers of MATH need; \boxed 5$ without braces is allowed. The length is
# bounded, because the search must stay fast on whatever a model writes.
_INNER = r"\{(?:\\.|[^{}\\])*\}"
for _ in range(3):
    _INNER = rf"\{{(?:\\.|[^{{}}\\]|{_INNER})*\}}"
BOXED = rf"(?s)\\(?:boxed|fbox)\s*\{{?((?:\\.|[^{{}}$\\]|{_INNER}){{1,400}})(?=[}}$])"

_NUMBER = r"-?\$?\d[\d,]*(?:\.\d+)?"
_LAST_NUMBER = re.compile(_NUMBER)
_SO_THE_ANSWER = re.compile(rf"So the answer is:?\s*({_NUMBER})")
_LETTER = re.compile(r"[A-J]")
_LONE_LETTER = re.compile(r"[\W_]*([a-j])[\W_]*")

#: Kinds of answers that a label may belong to, and where the first one in a text is.
_KINDS_OF_LABELS = (
    (re.compile(r"true|false", re.IGNORECASE), re.compile(r"\b(true|false)\b", re.IGNORECASE)),
    (re.compile(r"yes|no", re.IGNORECASE), re.compile(r"\b(yes|no)\b", re.IGNORECASE)),
    (re.compile(r"valid|invalid", re.IGNORECASE), re.compile(r"\b(valid|invalid)\b", re.IGNORECASE)),
    (re.compile(r"\([A-Z]\)"), re.compile(r"(\([A-Z]\))")),
)


def extract_answer(rule: str, text: str, label: str = "") -> str | None:
    """The answer in a text by a named rule or a regular expression; None if there is none.

    >>> extract_answer("first-letter", "(B)"), extract_answer("like-label", "True. It follows.", "False")
    ('B', 'True')
    """
    if rule in RULES:
        return RULES[rule](text, label)
    return extract(rule, text)


def extract(expression: str, text: str) -> str | None:
    r"""First group of the last match (the whole match if there is no group); None if nothing matches.

    >>> extract(r"####\s*(\S+)", "so 3 + 4 = 7. #### 7")
    '7'
    """
    try:
        matches = list(re.finditer(expression, text, re.DOTALL))
    except re.error as error:
        raise InputError(f"extract {expression!r}: is not a regular expression ({error})") from error
    if not matches:
        return None
    last = matches[-1]
    return next((group for group in last.groups() if group is not None), last[0]).strip()


def first_letter(text: str, label: str = "") -> str | None:
    """The first of the letters A to J.

    Capital letters only, because every text contains small ones; a text that is one small letter is an answer, too.
    """
    found = _LETTER.search(text)
    if found:
        return found[0]
    alone = _LONE_LETTER.fullmatch(text.strip())
    return alone[1].upper() if alone else None


def last_number(text: str, label: str = "") -> str | None:
    """The last number of a text, without commas and dollar signs."""
    found = _LAST_NUMBER.findall(text)
    return _plain_number(found[-1]) if found else None


def number_after_so(text: str, label: str = "") -> str | None:
    """The number after the first "So the answer is", without commas and dollar signs."""
    found = _SO_THE_ANSWER.search(text)
    return _plain_number(found[1]) if found else None


def like_label(text: str, label: str) -> str | None:
    """The first answer of the label's kind: True or False, yes or no, valid or invalid, a number, or a letter as (A).

    A number is the last one of the text. A text that has no such answer, and a label of another kind, are compared
    whole.
    """
    kind = label.strip()
    if re.fullmatch(_NUMBER, kind):
        return last_number(text)
    for of_label, in_text in _KINDS_OF_LABELS:
        if of_label.fullmatch(kind):
            found = in_text.search(text)
            return found[1] if found else text.strip()
    return text.strip()


def whole_text(text: str, label: str = "") -> str | None:
    """All of it: for metrics that look for the answer themselves."""
    return text.strip() or None


def _plain_number(text: str) -> str:
    """A number as it is compared: without commas, dollar signs and a final full stop.

    >>> _plain_number("$1,200.")
    '1200'
    """
    return re.sub(r"[,$]", "", text).removesuffix(".")


#: Rules by the name that study files use.
RULES: dict[str, Callable[[str, str], str | None]] = {
    "first-letter": first_letter,
    "last-number": last_number,
    "so-the-answer-is": number_after_so,
    "like-label": like_label,
    "whole-text": whole_text,
}
