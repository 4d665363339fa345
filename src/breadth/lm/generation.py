"""Text that a model writes: greedy decoding in batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from breadth.datasets import Generate
from breadth.lm.batches import plan_batches, tokens_per_batch
from breadth.lm.precision import computing_in
from breadth.lm.scores import cut_at_stop

#: Generation runs one token per sequence at a time, so its batches hold this many times as many tokens.
BATCH_FACTOR = 8


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
    stopping: dict[str, Any] = {"stop_strings": list(task.stop), "tokenizer": tokenizer} if task.stop else {}
    if language_model.chat is not None:
        stopping["eos_token_id"] = _end_tokens(language_model)
    texts = [""] * len(prompts)
    for index in plan_generation(language_model, prompts, task):
        width = max(len(prompts[i]) for i in index)
        ids = torch.full((len(index), width), padding or 0, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, i in enumerate(index):  # new tokens come at the end, so the padding is on the left
            ids[row, width - len(prompts[i]) :] = torch.tensor(prompts[i])
            mask[row, width - len(prompts[i]) :] = 1
        with torch.inference_mode(), computing_in(language_model.compute, device, keep_casts=True):
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
                **stopping,
            )
        for row, i in enumerate(index):
            text = tokenizer.decode(out[row, width:], skip_special_tokens=True)
            texts[i] = cut_at_stop(text, task.stop)
        if progress:
            progress(len(index))
    return texts


def _end_tokens(language_model: Any) -> list[int]:
    """Tokens that end what a model writes in a chat: those it was configured with, and what ends the turn."""
    configured = language_model.model.generation_config.eos_token_id
    if configured is None:
        configured = language_model.tokenizer.eos_token_id
    own = configured if isinstance(configured, list) else [configured]
    tokens = [*own, *language_model.chat.end_tokens()]
    return list(dict.fromkeys(token for token in tokens if token is not None))
