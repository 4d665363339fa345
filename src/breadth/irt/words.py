"""What a difficulty scale says: whether questions measure one ability, and the statistics behind that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from breadth.irt.diagnostics import Dimension, Patterns
from breadth.irt.flags import (
    FEW_SUBJECTS,
    LEAST_RELIABILITY,
    LINK,
    MOST_AGAINST,
    ItemFlag,
    NotOneAbility,
    doubted_items,
    is_placed,
    not_one_ability,
    scale_warning,
    suspect_items,
)
from breadth.irt.models import MODELS
from breadth.results import Answer, Question, Verdict, about
from breadth.results.words import agree, capitalised, count, joined, number_words, sentences

#: Reliability from which single models are distinguished well enough, and the one that a test should reach.
ENOUGH_RELIABILITY, WANTED_RELIABILITY = 0.8, 0.9

#: Questions beyond which it is not said how many would reach it: nobody writes more.
MOST_ITEMS = 100_000

#: First residual component, as a multiple of what noise would show, above which one ability is not enough.
TOO_MANY_DIMENSIONS = 1.5

#: Answers right beyond guessing below which questions are hard for the models, and above which they are easy.
HARD, EASY = 0.35, 0.65

#: A label is named if it has this many questions; labels differ if their shares of negative slopes differ by this much,
#: and by this many standard errors.
LEAST_LABELLED, LABELS_APART, LABELS_SURE = 5, 0.5, 3.3

#: Questions that a verdict names because of their labels, and as examples of those that run against the others.
MOST_NAMED, MOST_EXAMPLES = 5, 3


def calibration_verdict(
    items: pl.DataFrame, fit: pl.DataFrame, dimension: Dimension | None = None, noun: str = "model"
) -> Verdict | None:
    """Do these questions measure one ability, and how precisely? None where the fit is not on record.

    Not enough data: nothing links blocks of models and questions (:func:`breadth.irt.one_scale.linked_components`), or
    reliability is below 0.5. No: questions run against the scale, or models differ most in something else than the
    score counts (:func:`breadth.irt.flags.not_one_ability`). Mixed: the first residual component is at least 1.5 times
    what noise would show (``dimension``, None where that was not checked), reliability is below 0.8, or the fit did not
    converge. Yes: otherwise. ``needed`` is the number of questions for a reliability of 0.9 by the formula of Spearman
    and Brown: with f times as many questions like these, r becomes f r / (1 + (f - 1) r).

    What to do begins with questions whose label may be wrong: these can be checked. ``noun`` is what answered: models,
    or checkpoints.
    """
    if not fit.height:
        return None
    row = fit.row(0, named=True)
    reliable, doubt = row["reliability"], not_one_ability(row)
    facts: dict[str, float | str] = {"questions": row["items"], f"{noun}s": row["subjects"]}
    facts |= {"reliability": _agreement(reliable), "perfect reliability": 1}
    said = _Said(count(row["items"], "question"), noun, row["subjects"], _agreement(reliable), _testsets(items))
    if said.testsets > 1:
        facts["test sets"] = said.testsets
    labels = _labels_to_check(items, noun, facts)
    # Where several things are measured, the first thing to do is to separate them; else labels come first.
    labels_first = labels and f"First {labels}"
    labels_then = labels and f"Then {labels}"
    extreme = _extreme(items, noun, facts)

    def answered(answer: Answer, reason: str, advice: str, needed: str = "") -> Verdict:
        return Verdict(answer, reason, extreme, needed, question=Question.ONE_ABILITY, advice=advice, facts=facts)

    if row.get("blocks"):
        facts["blocks"] = int(row["blocks"])
        reason = (
            f"The answers fall into {row['blocks']:,.0f} blocks that share no {noun} and no question, so nothing puts "
            "them on one scale."
        )
        advice = "Do not compare difficulties or levels of different blocks."
        return answered(Answer.UNKNOWN, reason, advice, f"{LINK}.")
    if doubt is not None:
        reason, advice = _not_one_words(items, row, doubt, said, facts)
        steps = (advice, labels_then) if said.testsets > 1 else (labels_first, advice)
        return answered(Answer.NO, reason, sentences(*steps))
    needed = _needed_items(reliable, row["items"], noun, facts)
    if reliable < LEAST_RELIABILITY:
        reason = (
            f"The {count(said.subjects, noun)} are too alike for {said.questions} to rank: as many other questions "
            f"like these would rank them differently (agreement {said.agreement}; 1 is perfect)."
        )
        return answered(Answer.UNKNOWN, reason, "Do not use the difficulty levels yet.", needed)
    several = dimension is not None and dimension.ratio >= TOO_MANY_DIMENSIONS
    rough = reliable < ENOUGH_RELIABILITY
    if rough:
        facts["enough reliability"] = ENOUGH_RELIABILITY
    settled = "" if row["converged"] else " The estimates had not settled when the fit stopped, so they are rough."
    answer, reason, advice = Answer.YES, said.reliable(), "Difficulties and levels can be used."
    if several:
        answer, reason, advice = Answer.MIXED, said.several(rough), said.advice_of_several()
    elif rough:
        answer, reason = Answer.MIXED, said.rough()
        advice = f"Difficulties and levels can be used; do not rank {noun}s that are close to each other."
    elif settled:
        answer, advice = Answer.MIXED, "Use difficulties and levels with care."
    return answered(answer, reason + settled, sentences(labels_first, advice), needed)


def _testsets(items: pl.DataFrame) -> int:
    """How many test sets the questions come from, as far as that is on record."""
    return items["testset"].n_unique() if "testset" in items.columns else 1


class _Said(NamedTuple):
    """What sentences about a scale speak of: questions, what answered, how many, agreement with others, test sets."""

    questions: str
    noun: str
    subjects: int
    agreement: str
    testsets: int

    def reliable(self) -> str:
        return (
            f"These {self.questions} measure one ability, so accuracy is a fair summary. As many other questions like "
            f"these would rank the {self.noun}s much the same (agreement {self.agreement}; 1 is perfect)."
        )

    def rough(self) -> str:
        return f"These {self.questions} measure one ability, but rank single {self.noun}s only roughly: {self._order()}"

    def _order(self) -> str:
        return (
            "as many other questions like these would give a somewhat different order (agreement "
            f"{self.agreement}; {ENOUGH_RELIABILITY} is enough, 1 is perfect)."
        )

    def several(self, rough: bool) -> str:
        fair = (
            f"Accuracy is a fair summary of these {self.questions}: as many others like them would rank the "
            f"{self.noun}s much the same (agreement {self.agreement}; 1 is perfect)."
        )
        if rough:
            fair = f"Accuracy on these {self.questions} ranks single {self.noun}s only roughly: {self._order()}"
        return (
            f"{fair} The difficulty scale is usable as an average over several abilities: some groups of questions are "
            "right or wrong together for another reason, such as a skill, the form of the answer, or "
            f"{self.noun}s that are copies of each other."
        )

    def advice_of_several(self) -> str:
        """How to get scales of one ability each."""
        if self.testsets > 1:
            return f"If you need difficulties of one ability, make a scale for each of the {self.testsets} test sets."
        return (
            "If you need difficulties of one ability, make a scale for each kind of question (topic, form of answer)."
        )


def _agreement(reliability: float) -> str:
    """Reliability with two digits; never 1, which no set of questions reaches."""
    if reliability > 0.995:
        return "more than 0.99"
    return f"{reliability:.2f}"


def _not_one_words(
    items: pl.DataFrame, row: Mapping[str, Any], doubt: NotOneAbility, said: _Said, facts: dict[str, float | str]
) -> tuple[str, str]:
    """Why questions do not measure one ability, in words of answers, and what to do instead."""
    which = said.questions
    if said.testsets > 1:
        which += f" of {said.testsets} test sets"
    start = f"These {which} do not measure one ability:"
    by_label = compare_labels(items, _own_slopes(row))
    if by_label is not None:
        reason = f"{start} what mainly differs between the {said.noun}s is how often they say {by_label.preferred}."
        advice = "Do not use the difficulty levels. Compare accuracy on each label by itself, or auc, which does not "
        return reason, advice + f"depend on how often a {said.noun} says {by_label.preferred}."
    against = doubt.against > MOST_AGAINST
    if against:
        facts["against the others"] = f"{doubt.against:.0%}"
        reason = (
            f"{start} {said.noun}s that do well on one part of them do badly on another part ({doubt.against:.0%} of "
            "the questions)."
        )
    else:
        facts["rank correlation"] = number_words(doubt.correlation or 0.0, ".2f")
        reason = (
            f"{start} what mainly separates the {said.noun}s has little to do with how many questions they get right "
            f"(rank correlation {facts['rank correlation']}; 1 is the same order)."
        )
    return reason, sentences(_what_to_split(items, said, against, facts), _few_words(row, said))


def _what_to_split(items: pl.DataFrame, said: _Said, against: bool, facts: dict[str, float | str]) -> str:
    """What to do where questions measure several things: test sets are told apart first."""
    usable = "Accuracy can be used if the labels are right; these difficulty levels cannot."
    if said.testsets > 1:
        return f"{usable} Split into the {said.testsets} test sets first, and make a difficulty scale for each."
    if not against:
        return f"{usable} Leave out {said.noun}s that only guess or favour one answer, and make the scale again."
    suspects = f"Suspect swapped labels, or {said.noun}s that only guess or favour one answer"
    examples = _most_against(items, facts)
    if examples:
        suspects += f": look at questions {examples} first"
    return f"{suspects}. {usable}"


def _most_against(items: pl.DataFrame, facts: dict[str, float | str]) -> str:
    """The questions that run most clearly against the others, as examples; empty where single labels are named."""
    if "label_doubt" not in items.columns or "labels in doubt" in facts:
        return ""
    clear = items.drop_nulls("label_doubt").sort("label_doubt", descending=True, maintain_order=True)
    if clear.height < MOST_EXAMPLES:
        return ""
    names = [str(name) for name in clear["item"].head(MOST_EXAMPLES)]
    for number, name in enumerate(names, start=1):
        facts[f"example {number}"] = name
    return joined(names)


def _few_words(row: Mapping[str, Any], said: _Said) -> str:
    """That slopes of few models may be noise, where every question has its own."""
    if not _own_slopes(row) or said.subjects >= FEW_SUBJECTS:
        return ""
    return (
        f"With only {count(said.subjects, said.noun)} this may also be noise: see whether the simplest scale (1pl) "
        "says the same."
    )


def _own_slopes(row: Mapping[str, Any]) -> bool:
    return row["model"] in MODELS and MODELS[row["model"]].slope == "item"


def _needed_items(reliable: float, items: int, noun: str, facts: dict[str, float | str]) -> str:
    """How many questions reach the wanted reliability; nothing where it is reached."""
    if reliable >= WANTED_RELIABILITY:
        return ""
    times = WANTED_RELIABILITY * (1 - reliable) / ((1 - WANTED_RELIABILITY) * reliable) if reliable > 0 else math.inf
    if not times * items <= MOST_ITEMS:
        return f"No number of such questions is enough: add {noun}s of other abilities, or harder and easier questions."
    facts |= {"questions needed": about(times * items), "wanted reliability": WANTED_RELIABILITY}
    return (
        f"An agreement of {WANTED_RELIABILITY} takes about {about(times * items)} questions like these, or {noun}s "
        "that differ more in ability."
    )


def _labels_to_check(items: pl.DataFrame, noun: str, facts: dict[str, float | str]) -> str:
    """Questions whose label should be checked, the most doubtful first, as a sentence after "First" or "Then".

    On a scale that is not trusted no label is flagged, but whoever checks labels begins with those under suspicion.
    """
    questions = doubted_items(items) or suspect_items(items)
    if not questions:
        return ""
    number = len(questions)
    facts["labels in doubt"] = number
    for place, name in enumerate(questions[:MOST_NAMED], start=1):
        facts[f"label in doubt {place}"] = name
    why = f"better {noun}s get {agree(number, 'it', 'them')} wrong more often than weaker ones"
    if number <= MOST_NAMED:
        which = f"{agree(number, 'label of question', 'labels of questions')} {joined(questions)}"
        return f"check the {which}: {why}."
    facts["labels not named"] = number - MOST_NAMED
    named = joined(questions[:MOST_NAMED])
    return (
        f"check the labels of {number:,} questions, beginning with {named}: {why}. The full table of questions has a "
        f"note on all {number:,}."
    )


def _extreme(items: pl.DataFrame, noun: str, facts: dict[str, float | str]) -> str:
    """Questions that all or none got right."""
    if "flag" not in items.columns:
        return ""
    said: list[str] = []
    total = 0
    for flag, word in ((ItemFlag.ALL_RIGHT, "right"), (ItemFlag.ALL_WRONG, "wrong")):
        number = items.filter(pl.col("flag") == flag).height
        if not number:
            continue
        facts[f"answered {word} by all"] = number
        if said:
            said.append(f"{number:,} that all got {word}")
        else:
            said.append(f"{count(number, 'question')} that all {noun}s got {word}")
        total += number
    if not said:
        return ""
    facts["answered alike by all"] = total
    return capitalised(f"{joined(said)} {agree(total, 'does', 'do')} not help to tell them apart.")


def calibration_details(
    items: pl.DataFrame,
    subjects: pl.DataFrame,
    fit: pl.DataFrame,
    copies: Patterns | None = None,
    dimension: Dimension | None = None,
    noun: str = "model",
) -> str:
    """The statistics behind a difficulty scale: what was fitted, how hard questions are, and what was checked.

    ``copies`` and ``dimension`` are None where that was not checked.
    """
    row = fit.row(0, named=True) if fit.height else {}
    trusted, parts = scale_warning(row) is None, []
    if row:
        parts.append(_fitted_words(row, noun))
        by_label = compare_labels(items, _own_slopes(row))
        if by_label is not None:
            parts.append(by_label.sentence(noun))
        if row.get("chance") is not None:
            parts.append(_chance_words(row, noun))
    difficulty = items.filter(is_placed(items))["difficulty"]
    if trusted and row and difficulty.len() and {"n", "p_correct"} <= {*items.columns}:
        # Difficulties that should not be used are not described.
        parts.append(_span_words(items, difficulty, row, noun))
    if unplaced := items["difficulty"].null_count() if "difficulty" in items.columns else 0:
        parts.append(f"{count(unplaced, 'question')} {'has' if unplaced == 1 else 'have'} no difficulty and no level.")
    if copies is not None:
        parts.append(_copies_words(copies, subjects.height, noun))
    if dimension is not None:
        parts.append(_dimension_words(dimension))
    return " ".join(parts)


def _fitted_words(row: Mapping[str, Any], noun: str) -> str:
    """What was fitted to what, and how it went."""
    model = MODELS[row["model"]].title if row["model"] in MODELS else row["model"]
    if row.get("floor") is not None:
        model += f" with the chance of guessing fixed at {row['floor']:.0%}"
    answers = f"{row['responses']:,} answers"
    if row.get("repeated"):
        answers += f"; {row['repeated']:,} more repeat those before training"
    ended = "converged" if row["converged"] else "did NOT converge"
    text = (
        f"{model} on {count(row['subjects'], noun)} x {count(row['items'], 'question')} ({answers}): {ended} after "
        f"{row['iterations']} iterations, log-likelihood {row['log_likelihood']:,.1f}, BIC {row['bic']:,.1f}. "
        f"Abilities have reliability {row['reliability']:.2f}"
    )
    if row.get("score_correlation") is not None:
        text += f", and a rank correlation of {row['score_correlation']:.2f} with the score"
    if row.get("main_correlation") is not None:
        text += (
            f"; what {noun}s differ in most (first principal component) has one of {row['main_correlation']:.2f}, and "
            f"{row['against_main']:.0%} of the questions run clearly against it"
        )
    if row.get("blocks"):
        text += f". Blocks of answers: {row['block_sizes']}"
    return f"{text}."


def _chance_words(row: Mapping[str, Any], noun: str) -> str:
    """Who and what is not above guessing, and why curves do not start at the known chance where they do not."""
    text = (
        f"Chance is {row['chance']:.0%}: {row['subjects_at_chance']:,.0f} of {count(row['subjects'], noun)} and "
        f"{row['items_at_chance']:,.0f} of {count(row['items'], 'question')} are not clearly above it (one-sided 5%)"
    )
    if row.get("floor") is None and row.get("below_chance") is not None:
        why = f"{row['below_chance']:.0%} of the questions are clearly below it"
        if row.get("floor_gain") is not None:
            why = f"curves without guessing fit better (log-likelihood {-row['floor_gain']:,.0f} higher)"
        text += f"; {why}, so guessing is not allowed for"
    return f"{text}."


def _span_words(items: pl.DataFrame, difficulty: pl.Series, row: Mapping[str, Any], noun: str) -> str:
    """Between which difficulties most questions lie, and whether they suit the models."""
    low, high = (float(difficulty.quantile(q) or 0) for q in (0.05, 0.95))
    right = items.select((pl.col("p_correct") * pl.col("n")).sum() / pl.col("n").sum()).item()
    chance = row.get("chance") or 0.0
    beyond = (right - chance) / (1 - chance)
    match = "suit"
    if beyond < HARD:
        match = "are hard for"
    elif beyond > EASY:
        match = "are easy for"
    corrected = f" ({beyond:.0%} after correction for chance)" if chance else ""
    scale = f"mean {row.get('ability_mean', 0.0):.3g} and standard deviation {row.get('ability_sd', 1.0):.3g}"
    return (
        f"Nine in ten questions have a difficulty between {low:.2f} and {high:.2f} (ability has {scale}); {right:.0%} "
        f"of the answers are right{corrected}: the questions {match} these {noun}s."
    )


def _copies_words(copies: Patterns, subjects: int, noun: str) -> str:
    """Whether models are near-copies of each other."""
    text = f"The {count(subjects, noun)} have {count(copies.distinct, 'distinct pattern')} of answers"
    if not len(copies.pairs):
        return f"{text}, and there are no near-copies among them."
    return (
        f"{text}; {count(len(copies.pairs), 'pair')} are near-copies, which leaves {copies.cluster.max() + 1:,} "
        f"groups. Standard errors treat all {noun}s as independent and are therefore too small (copies: weigh "
        "counts every group once)."
    )


def _dimension_words(dimension: Dimension) -> str:
    """How much is left when one ability is accounted for."""
    return (
        f"What one ability leaves unexplained: its first component holds {dimension.share:.1%} of the residual "
        f"variance, {dimension.ratio:.1f} times what noise would show (from {TOO_MANY_DIMENSIONS} on, something else "
        "moves groups of questions together)."
    )


class LabelComparison(NamedTuple):
    """Two labels of which one's questions run against the scale and the other's do not, with the shares that do.

    ``preferred`` is the label of those that go with it: whoever stands high on the scale prefers this answer.
    """

    what: str
    preferred: str
    preferred_n: int
    preferred_share: float
    other: str
    other_n: int
    other_share: float

    def sentence(self, noun: str) -> str:
        """How much labels differ."""
        return (
            f"{self.what}s depend on the label: {self.other_share:.0%} of the {count(self.other_n, 'question')} "
            f"labelled {self.other} have a negative one, and {self.preferred_share:.0%} of the {self.preferred_n:,} "
            f"labelled {self.preferred}. The scale shows which of these answers a {noun} prefers."
        )


def compare_labels(items: pl.DataFrame, own_slopes: bool) -> LabelComparison | None:
    """Name two labels if nearly all questions of one run against the scale and few of the other; else None.

    A model that prefers an answer gets the questions right that have it as their label and the others wrong. If models
    differ in this more than in ability, the preference becomes the scale, and slopes have the sign of the label.
    """
    column, what = ("discrimination", "Slope") if own_slopes else ("point_biserial", "Item-rest correlation")
    if not {"label", "p_correct", column} <= set(items.columns):
        return None  # a saved calibration may lack what was dropped from it
    usable = pl.col("label").is_not_null() & pl.col(column).is_not_null()
    usable &= pl.col("p_correct").is_between(0, 1, "none")
    by_label = items.filter(usable).group_by("label")
    rows = by_label.agg(pl.len().alias("n"), (pl.col(column) < 0).mean().alias("negative"))
    rows = rows.filter(pl.col("n") >= LEAST_LABELLED).sort("negative", "label")
    if rows.height < 2:
        return None
    found = LabelComparison(what, *rows.row(0), *rows.row(-1))
    low, high, low_n, high_n = found.preferred_share, found.other_share, found.preferred_n, found.other_n
    pooled = (low * low_n + high * high_n) / (low_n + high_n)
    error = math.sqrt(pooled * (1 - pooled) * (1 / low_n + 1 / high_n))
    if high - low < LABELS_APART or high - low < LABELS_SURE * error:
        return None
    return found
