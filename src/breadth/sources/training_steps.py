"""Training steps in the names of revisions, models and directories: by the usual words, or by a pattern of the user."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import NamedTuple

from breadth.errors import InputError
from breadth.sources.vocabulary_data import VOCABULARY


def _step_words() -> str:
    """The words that mark a step as a regular expression, longer ones first: a checkpoint is no ckpt."""
    words = sorted(VOCABULARY["steps"]["words"], key=len, reverse=True)
    return "|".join(re.escape(word).replace("_", "[-_]?") for word in words)


#: The words that mark a training step, as a regular expression that polars knows as well.
STEP_WORDS = _step_words()

#: A training step in a revision, a model's name or a path: step143000, checkpoint-800, global_step_800, iter_0001000,
#: step-240k. The number of tokens that may follow belongs to it: step1000-tokens4B, step-240k-503b, step-1431k-3T.
STEP = re.compile(
    rf"(?<![A-Za-z])(?:{STEP_WORDS})[-_=]?(\d+)([km]?)(?!\.?\d|[A-Za-z])"
    r"(?:-tokens\d+\w*|(?<=[km])-(?:\d{3,}b|\d+(?:\.\d+)?t)(?![A-Za-z\d]))?",
    re.IGNORECASE,
)

#: What a step's unit stands for. A number with B is the size of a model.
UNITS = {"": 1, "k": 1000, "m": 1_000_000}

#: How a model may be called itself: step3, Step3-VL-10B, step-2-16k. Step is a family of models, of StepFun.
NAMED_STEP = re.compile(r"step[-_]?[1-9](?!\d)(.*)", re.IGNORECASE)
STEPFUN = "stepfun"

#: Digits of a training step; longer numbers are something else.
MOST_DIGITS = 15


class StepInName(NamedTuple):
    """A training step and the name without it; the name is empty if there is nothing else in it."""

    step: int | None
    rest: str


def step_in(name: str, model: str = "") -> StepInName:
    """Find the training step that a revision, a model's name or a path says; the last one counts.

    What the ``model`` itself is called is not a step: neither in its name nor in a path that is named after it.
    """
    own = _name_like_a_step(model)
    searched = name.replace(own, "-" * len(own)) if own else name
    last = None
    for match in STEP.finditer(searched):
        if len(match[1]) <= MOST_DIGITS:
            last = match
    if last is None:
        return StepInName(None, name)
    return StepInName(int(last[1]) * UNITS[last[2].lower()], without_match(name, last))


def step_by_pattern(name: str, pattern: re.Pattern[str]) -> StepInName:
    """Find the training step in a name by the user's pattern, which has one group of digits."""
    match = pattern.search(name)
    if match is None or not match[1] or not match[1].isdecimal() or len(match[1]) > MOST_DIGITS:
        return StepInName(None, name)
    return StepInName(int(match[1]), without_match(name, match))


def without_match(name: str, match: re.Match[str]) -> str:
    """A name without its step, where a pattern found one."""
    return (name[: match.start()].rstrip("/-_.@") + name[match.end() :]).strip("/")


def parse_step_pattern(text: str | None) -> re.Pattern[str] | None:
    """The user's pattern for steps: one group of digits."""
    if text is None:
        return None
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise InputError(f"--step-from {text!r}: is not a regular expression ({error})") from error
    if pattern.groups != 1:
        raise InputError(f"--step-from {text!r}: needs one group for the digits, such as 'step_(\\d+)'")
    return pattern


def trainer_step(model: str) -> int | None:
    """The step of a model's directory on this machine, if a trainer left its state there."""
    path = Path(model, "trainer_state.json")
    try:
        if not path.is_file():
            return None
        step = json.loads(path.read_text())["global_step"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # a model's name need not be a path
        return None
    return step if isinstance(step, int) else None


def _name_like_a_step(model: str) -> str:
    """The end of a model's name if it looks like a step but is what the model is called.

    ``m/step3`` is a step of m, and so is what follows a directory; ``step3`` alone is a model, ``stepfun-ai/step3`` one
    of that family, and ``lab/Step3-VL-10B`` is more than a step.
    """
    *before, name = model.split("/")
    match = NAMED_STEP.fullmatch(name)
    if match is None:
        return ""
    is_below_a_model = bool(before) and not before[-1].lower().startswith(STEPFUN)
    return "" if is_below_a_model and not match[1] else name
