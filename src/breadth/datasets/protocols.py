"""How published studies ask and score their sets, where that differs from breadth's own prompts.

A protocol gives some sets other keys: those that a study file may give a set under ``sets`` (prompt, completion,
choices, extract and so on). ``protocol: NAME`` in a study file takes it; keys under ``sets`` still come after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Protocol:
    """Prompts and scoring of a published study.

    ``wording`` maps a set to its keys. ``mismatched`` are the sets that are trained with one prompt and evaluated with
    another.
    """

    name: str
    summary: str
    wording: Mapping[str, Mapping[str, Any]]

    @property
    def mismatched(self) -> tuple[str, ...]:
        """Sets whose prompts in training and evaluation differ."""
        return tuple(name for name, keys in self.wording.items() if "train_prompt" in keys)


_QUESTION = "Question: {question}\n{choices}\nAnswer:\n"

#: Texts that end an answer; the tokens that end a turn do so by themselves.
_STOP = ("Q:",)

# Published, and read from the public code of arXiv 2511.21692. Prompts of BBH, MATH and MuSR in training differ from
# those in evaluation, which the paper does not mention.
_PUBLISHED: dict[str, dict[str, Any]] = {
    "arc": {"pattern": _QUESTION, "choice_format": "{letter}) {text}", "choices": "letters"},
    "gpqa": {"pattern": _QUESTION, "choice_format": "{letter}) {text}", "choices": "bracketed"},
    "mmlu_pro": {
        "pattern": _QUESTION,
        "choice_format": "{letter}) {text}",
        "completion": "{label}",
        "extract": "first-letter",
        "metric": "words",
        "max_tokens": 2048,
        "stop": _STOP,
    },
    "gsm8k": {
        "pattern": "Q: {question}\nA:\n",
        "completion": "{reasoning} So the answer is {label}",
        # The code scores both the number after "So the answer is" (strict) and the last number (flexible); which one
        # the paper reports is not said. A model before training does not know the phrase, so the last number counts.
        "extract": "last-number",
        "metric": "exact",
        "max_tokens": 1024,
        "stop": _STOP,
    },
    "bbh": {
        "train_prompt": "Question: {question}\nAnswer:\n",
        "pattern": "Q: {question}\nA:",
        "completion": "{label}",
        "extract": "like-label",
        "metric": "words",
        "max_tokens": 1024,
        "stop": _STOP,
    },
    "math": {
        "train_prompt": "Problem:\n{question}\n\nAnswer:",
        "pattern": "Problem:\n{question}\n\nSolution:",
        "completion": "{label}",
        "extract": "whole-text",
        "metric": "math",
        "max_tokens": 4096,
        "stop": _STOP,
    },
    "musr": {
        "train_prompt": "{narrative}\n\n{question}\n\n{choices}\n\nAnswer:",
        "pattern": "{narrative}\n\n{question}\n\n{choices}\nAnswer:",
        "choice_format": "{number} - {text}",
        "choices": "texts",
        "normalise": True,
    },
}


def _without_mismatch(keys: Mapping[str, Any]) -> dict[str, Any]:
    """The same with the prompt of training in evaluation, too."""
    own = dict(keys)
    if "train_prompt" in own:
        own["pattern"] = own.pop("train_prompt")
    return own


#: Protocols by the name that study files use.
PROTOCOLS: dict[str, Protocol] = {
    "level-transfer": Protocol(
        "level-transfer",
        "as published (arXiv 2511.21692)",
        _PUBLISHED,
    ),
    "level-transfer-matched": Protocol(
        "level-transfer-matched",
        "as published (arXiv 2511.21692), but evaluated with the prompts of training",
        {name: _without_mismatch(keys) for name, keys in _PUBLISHED.items()},
    ),
}
