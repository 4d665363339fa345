"""Numbers in words, the same way everywhere: points, shares, counts, intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

#: What is called a finding remains with the false discovery rate at this level.
FINDING = 0.05

#: Scores as a sentence names them.
SCORE_WORDS = {
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "dprime": "d'",
    "balanced": "balanced accuracy",
    "logscore": "mean log-probability of the right answer",
}


def points_text(value: float | None) -> str:
    """A difference of accuracies in whole points, with its sign."""
    return "an unknown number of points" if value is None else f"{100 * value:+.0f} points".replace("-", "−")


def change_text(value: float | None, share: bool = True) -> str:
    """A difference of scores, with its sign: in points if they are shares."""
    return points_text(value) if share or value is None else f"{value:+.3g}".replace("-", "−")


def score_interval_text(row: Mapping[str, Any], share: bool = True) -> str:
    """The ends of an interval of scores, in points if they are shares; empty where there is none."""
    if row.get("ci_low") is None:
        return ""
    ends = (row["ci_low"], row["ci_high"])
    return " to ".join(f"{100 * end:+.0f}" if share else f"{end:+.3g}" for end in ends).replace("-", "−")


def correlation_text(r: float, sign: bool = False) -> str:
    """A correlation without its leading zero, with the sign of a sentence.

    >>> correlation_text(-0.5), correlation_text(0.5, sign=True)
    ('−.50', '+.50')
    """
    text = f"{r:+.2f}" if sign else f"{r:.2f}"
    return text.replace("0.", ".", 1).replace("-", "−")


def ends_text(low: float, high: float, digits: int = 0) -> str:
    """The ends of an interval of shares or points as a sentence says them: 19 to 36, or −3 to 11."""
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f}".replace("-", "−")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number and its noun."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def agree(number: int, singular: str, plural: str) -> str:
    """The form of a word, such as a verb, that goes with a number.

    >>> agree(1, "is", "are"), agree(2, "is", "are")
    ('is', 'are')
    """
    return singular if number == 1 else plural


def sentences(*parts: str) -> str:
    """Sentences as a paragraph, without those that are empty."""
    return " ".join(filter(None, parts))


#: Small numbers as a sentence writes them.
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def number_word(number: int) -> str:
    """A number as a word up to ten: "the other five".

    >>> number_word(5), number_word(1200)
    ('five', '1,200')
    """
    return NUMBERS[number] if number < len(NUMBERS) else f"{number:,}"


def distance_text(share: float, digits: int = 1) -> str:
    """How far apart two scores are, in points; who is ahead is said in words beside it.

    >>> distance_text(-0.0391), distance_text(0.02, 0)
    ('3.9 points', '2 points')
    """
    number = f"{abs(100 * share):.{digits}f}"
    return f"{number} {'point' if number == '1' else 'points'}"


def size_text(share: float) -> str:
    """A difference that a user asked for, in points, with the digits that it was given with.

    >>> size_text(0.02), size_text(0.01), size_text(0.025)
    ('2 points', '1 point', '2.5 points')
    """
    number = f"{100 * share:g}"
    return f"{number} {'point' if number == '1' else 'points'}"


def rounded_up(number: float) -> str:
    """A number of questions or runs that is needed, as two digits: nobody needs 4,896 of them exactly.

    >>> rounded_up(4896), rounded_up(52), rounded_up(7)
    ('4,900', '52', '7')
    """
    digits = max(0, len(str(int(number))) - 2)
    return f"{math.ceil(number / 10**digits) * 10**digits:,}"


#: Numbers of cases of which a chance is said to be so many: small ones first, which are easier to picture.
CASES = (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 50, 100)

#: How far the chance that is said may be from the chance that is meant, as a share of the rarer of the two outcomes.
CASES_OFF = 0.15


def chances_text(probability: float, noun: str = "chance") -> str:
    """A probability as so many chances in so many.

    >>> chances_text(0.19), chances_text(0.76), chances_text(0.001, "time")
    ('1 chance in 5', '3 chances in 4', 'less than 1 time in 100')
    """
    most = CASES[-1]
    if probability < 1 / most:
        return f"less than {count(1, noun)} in {most}"
    if probability > 1 - 1 / most:
        return f"more than {count(most - 1, noun)} in {most}"
    rarer = min(probability, 1 - probability)
    for cases in CASES:
        number = round(probability * cases)
        if 0 < number < cases and abs(number / cases - probability) <= CASES_OFF * rarer:
            break
    return f"{count(number, noun)} in {cases}"


def agree_chance(chance: str) -> str:
    """The verb that a number of chances takes, and they.

    >>> agree_chance("3 chances in 4"), agree_chance("1 chance in 2")
    ('are 3 chances in 4', 'is 1 chance in 2')
    """
    verb = "are"
    if " chance in " in chance:
        verb = "is"
    return f"{verb} {chance}"


def joined(names: Sequence[str], most: int = 6) -> str:
    """Names as a sentence lists them."""
    shown = list(names)[:most]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def verdict(low: float | None, high: float | None) -> int:
    """1 if an interval lies above 0, -1 below, 0 if it covers 0 or is not known."""
    if low is None or high is None:
        return 0
    return 1 if low > 0 else -1 if high < 0 else 0


def amount_text(value: float) -> str:
    """A difference of accuracies in points, without its sign: words beside it say on which side it is."""
    points = abs(100 * value)
    if points >= 0.95 or points < 0.05:
        return count(round(points), "point")
    return f"{points:.1f} points"


def interval_words(low: float | None, high: float | None, level: bool = False, sign: int = 1) -> str:
    """The ends of an interval in points, such as ``95% interval 8 to 16``; empty where there is none.

    ``sign`` -1 turns the interval round, for a sentence that says by how much the second is behind. Ends of an interval
    that holds 0 have their signs.
    """
    if low is None or high is None:
        return ""
    ends = sorted((100 * sign * low, 100 * sign * high))
    form = ".0f" if ends[0] >= 0 else "+.0f"
    text = f"{ends[0]:{form}} to {ends[1]:{form}}".replace("-", "−")
    return f"95% interval {text}" if level else text


def bracketed(*parts: str) -> str:
    """What is known of some parts in brackets, after a blank; empty where nothing is."""
    known = [part for part in parts if part]
    return f" ({', '.join(known)})" if known else ""


def capitalised(text: str) -> str:
    """A sentence with a capital; names inside it stay as they are."""
    return text[:1].upper() + text[1:]


def number_words(value: float, form: str = "+.2f") -> str:
    """A number in a sentence, with the sign − where it is below 0."""
    return f"{value:{form}}".replace("-", "−")
