"""The first screen: three to five answers, those that the data allow first, each a link to its section."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from breadth.reporting.data import ReportData
from breadth.results import Answer, Question, State, Verdict
from breadth.results.verdict import MARKS

#: Cards of a page, and characters of a card's sentences; what does not fit is left to the section. The first finding
#: may take more, because advice often speaks of it.
MOST_CARDS, MOST_CHARACTERS, MORE_CHARACTERS = 5, 400, 80

#: Cards up to which questions without an answer fill up the first screen; one of them is always there.
FILLED_CARDS = 3

#: Sections in the order in which a busy reader wants their answers; any other comes after these.
ORDER = ("overview", "ranking", "carry_over", "difficulty", "advice", "stability")

#: What to do where a verdict gives no advice of its own and nothing is open.
ACTIONS: Mapping[tuple[Question, State], str] = {
    (Question.BEST, State.MIXED): "Choose among the first few by cost or by another test set.",
    (Question.BEST, State.YES): "Use it, unless another is much cheaper.",
    (Question.BETTER, State.YES): "Use it, unless the other is much cheaper.",
    (Question.POWER, State.YES): "You can compare models on these data.",
    (Question.POWER, State.NO): "Add data, or rely only on larger differences.",
    (Question.POWER, State.MIXED): "Add data, or rely only on larger differences.",
    (Question.ONE_ABILITY, State.YES): "You can use these difficulties and levels.",
    (Question.SPEAKS_FOR, State.YES): "Where evaluations are expensive, one of them may do.",
    (Question.SUBSET, State.YES): "Ask these few while you develop, and all of them at the end.",
    (Question.SUBSET, State.NO): "Ask all questions.",
    (Question.FLUCTUATION, State.YES): "Average the last checkpoints of a run before you compare.",
    (Question.FLUCTUATION, State.MIXED): "Average the last checkpoints of a run before you compare.",
    (Question.LEVEL_TRANSFER, State.YES): "Train on the level whose examples are cheapest.",
    (Question.LEVEL_TRANSFER, State.MIXED): "Train on examples of every level that counts.",
    (Question.LEVEL_TRANSFER, State.NO): "Train on examples of every level that counts.",
    (Question.SEEDS, State.NO): "Train more runs, or rely only on larger differences.",
    (Question.SEEDS, State.MIXED): "Train more runs, or rely only on larger differences.",
    (Question.DROP, State.YES): "Where evaluations are expensive, leave out what the others predict.",
    (Question.DROP, State.NO): "Keep every test set.",
    (Question.TOGETHER, State.YES): "Use them together, if that is worth the cost.",
    (Question.TOGETHER, State.NO): "Use the best model alone.",
}

#: Between two sentences. A full stop inside a name ("MNLI dev acc. is") has no capital or number after it.
SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z0-9“])")


@dataclass(frozen=True)
class Card:
    """An answer: the question, the answer in large type, why, what else was found, and what to do or what would do."""

    section: str
    question: str
    answer: str
    state: State
    text: str
    findings: str
    more: str

    @property
    def mark(self) -> str:
        """The sign of the state, for readers who do not see its colour."""
        return MARKS[self.state]

    def lines(self) -> tuple[str, ...]:
        """The card as a terminal shows it."""
        words = {str(word) for word in Answer}
        start = f"{self.answer}. {self.text}" if self.answer in words else self.text
        return tuple(line for line in (start, self.findings, self.more) if line)


def answer_cards(data: ReportData) -> list[Card]:
    """The cards of a page."""
    return cards_of(_verdicts(data))


def cards_of(verdicts: Iterable[tuple[str, str, Verdict]]) -> list[Card]:
    """The cards for sections, their titles and verdicts; what cannot be answered comes last.

    A question that cannot be asked of these data at all, such as one about other test sets where there is only one, has
    a card only if there is nothing else to say.
    """
    answered, unanswered, not_asked = [], [], []
    for key, title, verdict in verdicts:
        card = make_card(key, title, verdict)
        if not verdict.computed and not verdict.needed:
            not_asked.append(card)
        elif str(verdict.answer) == Answer.UNKNOWN:
            unanswered.append(card)
        else:
            answered.append(card)
    unanswered = unanswered[: max(1, FILLED_CARDS - len(answered))]
    cards = [*answered[: MOST_CARDS - len(unanswered)], *unanswered]
    return cards or not_asked[:1]


def make_card(section: str, title: str, verdict: Verdict) -> Card:
    """A verdict as a card, in whole sentences."""
    assert verdict.state is not None, "every verdict has a state"
    # Where an answer is open, what would settle it comes before what to do; elsewhere after it.
    first, second = verdict.advice, verdict.needed
    if verdict.state is State.OPEN:
        first, second = second, first
    if not first:
        first, second = second, ""
    if not first and isinstance(verdict.question, Question):
        first = ACTIONS.get((verdict.question, verdict.state), "")
    if not first and verdict.state is State.OPEN:
        first = "Add questions or runs, and make this page again."
    parts = [split_sentences(text) for text in (verdict.reason, first, verdict.findings, second)]
    reason, first, findings, second = (" ".join(part) for part in fit_sentences(parts))
    return Card(
        section,
        verdict.question or title,
        str(verdict.answer),
        verdict.state,
        reason,
        findings,
        " ".join(filter(None, (first, second))),
    )


def split_sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return SENTENCE_END.split(text) if text else []


def fit_sentences(parts: Sequence[Sequence[str]], most: int = MOST_CHARACTERS) -> list[list[str]]:
    """As many sentences of each part as fit together: the first of every part comes before the second of any.

    The first two parts keep their first sentence however long it is: why, and what to do. Advice may speak of what
    findings name, so the first finding comes before the rest of the reason.
    """
    chosen: list[list[str]] = [[] for _ in parts]
    left, full = most, set()
    for depth in range(max(map(len, parts))):
        for number, part in enumerate(parts):
            if depth >= len(part) or number in full:
                continue
            sentence = part[depth]
            room = left + (MORE_CHARACTERS if depth == 0 and number == 2 else 0)
            if len(sentence) > room and not (depth == 0 and number < 2):
                # A later sentence may lean on this one.
                full.add(number)
                continue
            chosen[number].append(sentence)
            left -= len(sentence) + 1
    return chosen


def _verdicts(data: ReportData) -> Iterator[tuple[str, str, Verdict]]:
    """Section, its title and a verdict, in the order of importance; the same question is answered once."""
    contents = sorted(data.contents.items(), key=lambda entry: _place(entry[0].key))
    every = [(section, content.verdict) for section, content in contents]
    for section, content in contents:
        every += [(section, verdict) for verdict in content.further]
    questions = set()
    for section, verdict in every:
        if verdict is None:
            continue
        question = verdict.question or section.title
        if question not in questions:
            questions.add(question)
            yield section.key, section.title, verdict


def _place(key: str) -> int:
    return ORDER.index(key) if key in ORDER else len(ORDER)
