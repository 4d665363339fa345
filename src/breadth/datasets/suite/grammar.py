"""The little English grammar that templates need: articles, lists, capitals and full stops."""

from __future__ import annotations

from collections.abc import Sequence

#: Words whose spelling misleads about the first sound.
SOUNDS_LIKE_CONSONANT = ("uni", "use", "usu", "eu", "one", "once")
SOUNDS_LIKE_VOWEL = ("hour", "honest", "heir", "honour")


def a(noun: str) -> str:
    """Put the right indefinite article in front.

    >>> a("umbrella"), a("uniform"), a("hour")
    ('an umbrella', 'a uniform', 'an hour')
    """
    lowered = noun.lower()
    vowel = lowered[0] in "aeiou" and not lowered.startswith(SOUNDS_LIKE_CONSONANT)
    return f"{'an' if vowel or lowered.startswith(SOUNDS_LIKE_VOWEL) else 'a'} {noun}"


def listing(parts: Sequence[str], word: str = "and") -> str:
    """Join with commas and a last conjunction: "Ann, Bob and Cy"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {word} {parts[-1]}"


def sentence(text: str) -> str:
    """Begin with a capital letter and end with a full stop, unless the text ends in a stop of its own."""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?”" else ".")


def sentences(*texts: str) -> str:
    """Make a sentence of each text and put them in a row."""
    return " ".join(sentence(text) for text in texts)


def plural(noun: str) -> str:
    """Form the regular plural of a noun (the pools hold no others)."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"
