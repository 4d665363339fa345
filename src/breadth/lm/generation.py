"""Text that a model writes: greedy decoding in batches, and whether an extracted answer is the right one."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import torch

from breadth.datasets import Generate, Metric
from breadth.errors import InputError
from breadth.lm.split_model import plan_batches, tokens_per_batch

#: A number with an optional sign, commas between thousands, and decimals.
NUMBER = r"(?:(?<![\d.])[-+])?\$?\d[\d,]*(?:\.\d+)?"

#: Generation runs one token per sequence at a time, so its batches hold this many times as many tokens.
BATCH_FACTOR = 8

#: Maximum seconds to parse or compare one formula.
MATH_SECONDS = 5


def same_answer(given: str | None, wanted: str, metric: Metric) -> bool:
    """Whether an extracted answer is correct: compared as text, as a number, or by symbolic equality.

    >>> same_answer("1,200.0", "1200", "number"), same_answer("Yes.", "yes", "exact")
    (True, True)
    """
    if given is None:
        return False
    if metric == "number":
        numbers = [_number(text) for text in (given, wanted)]
        return None not in numbers and numbers[0] == numbers[1]
    if metric == "math":
        return _same_formula(given, wanted)
    return _plain(given) == _plain(wanted)


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()


def _number(text: str) -> Decimal | None:
    numbers = re.findall(NUMBER, text)
    try:
        return Decimal(re.sub(r"[,$]", "", numbers[-1])) if numbers else None
    except InvalidOperation:
        return None


def _same_formula(given: str, wanted: str) -> bool:
    try:
        from math_verify import parse, verify
    except ImportError as error:
        raise InputError("metric math needs math-verify; install with: pip install 'breadth[math]'") from error
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # what cannot be parsed is wrong
    # Its time limits use signals, which only the main thread may set.
    limit = MATH_SECONDS if threading.current_thread() is threading.main_thread() else None
    texts = [text if "$" in text or "\\boxed" in text else f"${text}$" for text in (wanted, given)]
    return bool(verify(*(parse(text, parsing_timeout=limit) for text in texts), timeout_seconds=limit))


def plan_generation(language_model: Any, prompts: list[list[int]], task: Generate) -> list[list[int]]:
    """The prompts of each batch, longest first."""
    limit = BATCH_FACTOR * tokens_per_batch(language_model.device)
    return plan_batches([len(prompt) + task.max_tokens for prompt in prompts], limit)


def generate_texts(
    language_model: Any, prompts: list[list[int]], task: Generate, progress: Callable[[int], None] | None = None
) -> list[str]:
    """Continue every prompt by greedy decoding, longest prompts first, up to the first stop string.

    Sampling settings that a model ships with do not apply: every token is the most likely one.
    """
    model, tokenizer = language_model.model, language_model.tokenizer
    device = next(model.parameters()).device
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    texts = [""] * len(prompts)
    for index in plan_generation(language_model, prompts, task):
        width = max(len(prompts[i]) for i in index)
        ids = torch.full((len(index), width), padding or 0, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, i in enumerate(index):  # new tokens come at the end, so the padding is on the left
            ids[row, width - len(prompts[i]) :] = torch.tensor(prompts[i])
            mask[row, width - len(prompts[i]) :] = 1
        with torch.inference_mode():
            out = model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                max_new_tokens=task.max_tokens,
                do_sample=False,
                num_beams=1,
                temperature=1.0,
                top_p=1.0,
                top_k=50,
                repetition_penalty=1.0,
                pad_token_id=padding,
                **({"stop_strings": list(task.stop), "tokenizer": tokenizer} if task.stop else {}),
            )
        for row, i in enumerate(index):
            text = tokenizer.decode(out[row, width:], skip_special_tokens=True)
            ends = [text.index(stop) for stop in task.stop if stop in text]
            texts[i] = text[: min(ends)] if ends else text
        if progress:
            progress(len(index))
    return texts
