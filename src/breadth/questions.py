"""The questions that breadth answers: one name each, in the terminal, on pages, in the documentation and in Python."""

from __future__ import annotations

from enum import StrEnum


class Question(StrEnum):
    """What an analysis answers. A card, a section, a verdict and a page of the documentation share its wording."""

    CARRIED_OVER = "Did training carry over to other test sets?"
    IMPROVED = "Did training improve every test set?"
    SPEAKS_FOR = "Does one test set speak for another?"
    BEST = "Which model is best?"
    BETTER = "Which one is better?"
    HOW_GOOD = "How good is it?"
    ANSWER_BIAS = "Is accuracy partly a leaning towards one answer?"
    FLUCTUATION = "How much do scores move between checkpoints?"
    ONE_ABILITY = "Do these questions measure one ability?"
    ABILITIES = "How able is each model?"
    LEVELS = "How hard are the levels of difficulty?"
    STABLE_LEVELS = "How many models does it take for stable levels?"
    PROFILE = "Where do models differ: on easy or on hard questions?"
    LEVEL_TRANSFER = "Does training on one level of difficulty help on the others?"
    STRATEGIES = "Does training help on every level of difficulty?"
    HUMAN_MEASURES = "Do human measures of difficulty agree with the models?"
    SAMPLE = "Which questions to train on?"
    POWER = "How much data does it take to see a difference?"
    SEEDS = "How many training runs does it take?"
    SUBSET = "Can a few questions stand for all?"
    SUBSET_SCORE = "What would the score on all questions be?"
    DROP = "Which test sets can be dropped?"
    TOGETHER = "Would several models do better together?"
