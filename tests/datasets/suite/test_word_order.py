"""Full overlap, and who did what to whom, read back from the text."""

import re

import pytest

from breadth.datasets.suite import generate

NOUN = r"((?:[Tt]he )?[A-Z]?[a-z]+)"
VERB = r"(\w+ed)"
BESIDE = "beside|behind|opposite|in front of|to the left of"
KNOWING = "knew|noticed|remembered|regretted"
FUNCTION_WORDS = {"the", "was", "by", "to", "before", "after", "a", "an"}


def words(text):
    return re.findall(r"\w+", text.lower())


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_content_word_of_the_hypothesis_is_in_the_premise(split):
    for row in generate("word_order", 2000, split=split).iter_rows(named=True):
        assert set(words(row["hypothesis"])) - FUNCTION_WORDS <= set(words(row["premise"])), row


def low(noun):
    return noun[0].lower() + noun[1:] if noun.startswith("The ") else noun


def triple(text):
    text = text.rstrip(".")
    if match := re.fullmatch(rf"{NOUN} was {VERB} by {NOUN}", text):
        return low(match[3]), match[2], low(match[1])
    match = re.fullmatch(rf"{NOUN} {VERB} {NOUN}", text)
    return low(match[1]), match[2], low(match[3])


PATTERNS = {
    "swap": [(rf"(?:.*, )?{NOUN} {VERB} {NOUN}(?: .*|\.)", [(1, 2, 3)])],
    "passive": [(rf"{NOUN} was {VERB} by {NOUN} .*", [(3, 2, 1)]), (rf"{NOUN} {VERB} {NOUN} .*", [(1, 2, 3)])],
    "relative_subject": [(rf"{NOUN} who {VERB} {NOUN} {VERB} {NOUN} .*", [(1, 2, 3), (1, 4, 5)])],
    "relative_object": [(rf"{NOUN} whom {NOUN} {VERB} {VERB} {NOUN} .*", [(2, 3, 1), (1, 4, 5)])],
    "coordination": [(rf"{NOUN} {VERB} {NOUN} and {NOUN} {VERB} {NOUN} .*", [(1, 2, 3), (4, 5, 6)])],
    "modifier": [(rf"{NOUN} (?:{BESIDE}) {NOUN} {VERB} {NOUN} .*", [(1, 3, 4)])],
    "embedded": [(rf".*?(?:{KNOWING}) that {NOUN} had {VERB} {NOUN}(?: and .*|\.)", [(1, 2, 3)])],
}  # fmt: skip


def facts(template, premise):
    for pattern, places in PATTERNS[template]:
        if match := re.fullmatch(pattern, premise):
            return {tuple(low(match[k]) for k in place) for place in places}
    raise AssertionError(premise)


def directed(row):
    def read(text):
        text = text.rstrip(".").split(", ")[-1]
        return [low(part) for part in re.fullmatch(rf"{NOUN} {VERB} {NOUN} to {NOUN}", text).groups()]

    return read(row["premise"]) == read(row["hypothesis"])


def clause_order(row):
    def read(text):
        """The two events, the earlier first."""
        text = text.rstrip(".")
        if match := re.fullmatch(r"(Before|After) (.+), (.+)", text):
            word, side, main = match[1].lower(), match[2], match[3]
        else:
            main, word, side = re.fullmatch(r"(.+) (before|after) (.+)", text).groups()
        return [low(clause) for clause in ((main, side) if word == "before" else (side, main))]

    return read(row["premise"]) == read(row["hypothesis"])


@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_by_reading_roles(split):
    special = {"directed": directed, "clause_order": clause_order}
    for row in generate("word_order", 2000, seed=7, split=split).iter_rows(named=True):
        if row["template"] in special:
            follows = special[row["template"]](row)
        else:
            follows = triple(row["hypothesis"]) in facts(row["template"], row["premise"])
        assert follows == (row["label"] == "entailment"), row
