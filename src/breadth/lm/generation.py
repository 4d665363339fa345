"""Scoring by generation: the model writes greedily, an answer is extracted and compared with the label."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import polars as pl
import torch

from breadth.datasets.tasks import Generate, Metric, extract
from breadth.errors import InputError
from breadth.lm.batches import plan_batches

#: A number as people write it: sign, thousands separated by commas, decimals.
NUMBER = r"(?:(?<![\d.])[-+])?\$?\d[\d,]*(?:\.\d+)?"


#: Most seconds for reading or comparing one formula.
MATH_SECONDS = 5


def same_answer(given: str | None, wanted: str, metric: Metric) -> bool:
    """Whether an extracted answer is the right one: as text, as a number, or by symbolic equality.

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
    found = re.findall(NUMBER, text)
    try:
        return Decimal(re.sub(r"[,$]", "", found[-1])) if found else None
    except InvalidOperation:
        return None


def _same_formula(given: str, wanted: str) -> bool:
    try:
        from math_verify import parse, verify
    except ImportError as error:
        raise InputError("metric math needs math-verify; install with: pip install 'breadth[math]'") from error
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # what cannot be parsed is wrong, and no news
    # Its limits on time need signals, which only the main thread may set.
    limit = MATH_SECONDS if threading.current_thread() is threading.main_thread() else None
    texts = [text if "$" in text or "\\boxed" in text else f"${text}$" for text in (wanted, given)]
    return bool(verify(*(parse(text, parsing_timeout=limit) for text in texts), timeout_seconds=limit))


def generate_texts(
    language_model: Any,
    prompts: list[list[int]],
    task: Generate,
    tokens: int,
    progress: Callable[[int], None] | None = None,
) -> list[str]:
    """Continue every prompt greedily, longest prompts first; cut at the first stop string.

    Nothing of what a model's makers recommend for sampling applies: every token is the most likely one.
    """
    model, tokenizer = language_model.model, language_model.tokenizer
    device = next(model.parameters()).device
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    texts = [""] * len(prompts)
    for index in plan_batches([len(prompt) + task.most_tokens for prompt in prompts], tokens):
        width = max(len(prompts[i]) for i in index)
        ids = torch.full((len(index), width), padding or 0, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, i in enumerate(index):  # new tokens come at the end, so here the padding stands in front
            ids[row, width - len(prompts[i]) :] = torch.tensor(prompts[i])
            mask[row, width - len(prompts[i]) :] = 1
        with torch.inference_mode():
            out = model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                max_new_tokens=task.most_tokens,
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


def generation_results(task: Generate, items: pl.DataFrame, texts: list[str]) -> pl.DataFrame:
    """Right or wrong for every text; the answer is what was written, and there is no margin."""
    right = [
        float(same_answer(extract(task.extract, text), str(label), task.metric))
        for text, label in zip(texts, items["label"], strict=True)
    ]
    schema = {"correct": pl.Float32, "margin": pl.Float32, "answer": pl.String}
    return pl.DataFrame({"correct": right, "margin": [None] * len(texts), "answer": texts}, schema=schema)
