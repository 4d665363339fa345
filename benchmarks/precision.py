"""What half precision costs: does training in bfloat16 go where float32 goes, and are answers the same?

    python benchmarks/precision.py training --data DIR --model smollm2-135m --steps 40
    python benchmarks/precision.py training --data DIR --model gemma3-270m --steps 20
    python benchmarks/precision.py training --data DIR --model smollm2-135m --steps 40 --method lora
    python benchmarks/precision.py answers --data DIR --model gemma3-270m

``training`` fine-tunes with the optimiser settings of the study ``level-transfer`` on GSM8K, in float32 and in every
other ``--dtype``, and prints how far along float32's way the weights went: <d, d32> / <d32, d32>, where d is the
displacement from the first step to the last. ``answers`` compares zero-shot answers on test sets with float32's: ties,
accuracy, and how many answers differ. DIR (or nli/ and qa/ in it) holds gsm8k.parquet, snli.parquet, ...
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import torch

from breadth.datasets import Loaded, load
from breadth.lm import (
    SplitModel,
    Trainer,
    attach_lora,
    compute_outputs,
    encode_testset,
    encode_train_set,
    load_model,
    prepare_training,
    score_outputs,
    unfreeze,
)
from breadth.study import Recipe, read_study_file

NLI = ("snli", "mnli", "rte", "scitail", "hans", "anli", "paws", "wnli")
EXAMPLES = 64


def short_examples(data: str, characters: int | None) -> Loaded:
    """As many examples as a level of the study has: the shortest, so that a run takes minutes on a CPU.

    Solutions may be cut after so many characters, because a large vocabulary makes their tokens dear.
    """
    whole = load("gsm8k", "train", data=data)
    texts = [name for name in whole.frame.columns if whole.frame[name].dtype == pl.String]
    length = pl.sum_horizontal(pl.col(name).str.len_chars() for name in texts)
    frame = whole.frame.sort(length, "item").head(EXAMPLES)
    if characters is not None:
        solution = pl.col(whole.task.completion)  # type: ignore[attr-defined]
        frame = frame.with_columns(solution.str.slice(0, characters))
    return replace(whole, frame=frame)


def train(model: str, examples: Loaded, dtype: str, recipe: Recipe, steps: int) -> dict[str, Any]:
    """Losses of every step, and the displacement of every weight, as one vector in float32."""
    is_full = recipe.method == "full"
    loaded = load_model(model, dtype=dtype, device="cpu", train_all=is_full)
    if is_full:
        unfreeze(loaded.model)
    else:
        loaded = replace(loaded, model=attach_lora(loaded.model, rank=recipe.rank, alpha=recipe.alpha))
    loaded = prepare_training(loaded)
    split = SplitModel(loaded.model, compute=loaded.compute)
    train_set = encode_train_set(loaded, examples, recipe.loss, context=recipe.context)
    trainer = Trainer(split, train_set, recipe.model_copy(update={"dtype": dtype}), 42, steps)
    before = {name: weight.detach().clone() for name, weight in trainer.weights.items()}
    started = time.perf_counter()
    losses = []
    for _ in range(steps):
        losses.append(trainer.advance())
        print(f"  {dtype} step {trainer.step}: loss {losses[-1]:.4f}", flush=True)
    seconds = (time.perf_counter() - started) / steps
    moved = [(weight.detach().float() - before[name].float()).flatten() for name, weight in trainer.weights.items()]
    return {"losses": losses, "moved": torch.cat(moved), "seconds": seconds}


def compare_training(model: str, examples: Loaded, dtypes: list[str], steps: int, method: str) -> None:
    """Print a table with one row per dtype."""
    recipe = read_study_file("level-transfer").study.recipe
    changes: dict[str, Any] = {"method": method, "epochs": None, "steps": steps, "context": 512}
    if method == "lora":
        changes |= {"lr": 1e-4, "rank": 8, "alpha": 32}  # adapters learn nothing at 5e-6 within so few steps
    recipe = recipe.model_copy(update=changes)
    quarter = max(steps // 4, 1)
    exact = train(model, examples, "float32", recipe, steps)
    length = float(exact["moved"].double().square().sum())
    lines = ["dtype              first    last  last quarter   ratio  projection  cosine  s/step"]
    last32 = float(np.mean(exact["losses"][-quarter:]))
    for dtype in ("float32", *dtypes):
        found = exact if dtype == "float32" else train(model, examples, dtype, recipe, steps)
        along = float((found["moved"].double() * exact["moved"].double()).sum())
        own = float(found["moved"].double().square().sum())
        last = float(np.mean(found["losses"][-quarter:]))
        cosine = along / (own * length) ** 0.5 if own else 0.0
        lines.append(
            f"{dtype:16}{found['losses'][0]:8.3f}{found['losses'][-1]:8.3f}{last:14.4f}{last / last32:8.3f}"
            f"{along / length:12.4f}{cosine:8.4f}{found['seconds']:8.2f}"
        )
    print(f"{model}, {method}, {steps} steps")
    print("\n".join(lines))


def answers(model: str, data: str, dtype: str, names: list[str], items: int) -> dict[str, tuple[Any, pl.DataFrame]]:
    """Logits of the answers, and scores, by test set."""
    loaded = load_model(model, dtype=dtype, device="cpu")
    split = SplitModel(loaded.model)
    found = {}
    for name in names:
        testset = encode_testset(loaded, load(name, data=data, items=items), context=512)
        if not found and not split.agrees(testset.prompts[0]):
            raise SystemExit(f"{model}: hidden states times head do not give the model's own logits")
        (outputs,) = compute_outputs(loaded, split, [(testset, testset.part(0, 1))])
        found[name] = outputs.values[np.argsort(outputs.index)], score_outputs(testset, [outputs])
        print(f"  {dtype} {name}", flush=True)
    return found


def compare_answers(model: str, data: str, dtypes: list[str], names: list[str], items: int) -> None:
    """Print a table with one row per test set and dtype."""
    exact = answers(model, data, "float32", names, items)
    lines = ["set       dtype        items  ties  accuracy  float32  points  differ     rms"]
    for dtype in dtypes:
        found = answers(model, data, dtype, names, items)
        for name in names:
            (logits, scores), (logits32, scores32) = found[name], exact[name]
            best = np.sort(logits, axis=1)
            ties = int((best[:, -1] == best[:, -2]).sum())
            own, wanted = (float(each["correct"].mean()) for each in (scores, scores32))
            differ = int((scores["answer"] != scores32["answer"]).sum())
            error = float(np.sqrt(((np.ptp(logits, axis=1) - np.ptp(logits32, axis=1)) ** 2).mean()))
            lines.append(
                f"{name:10}{dtype:12}{len(logits):6}{ties:6}{own:10.3f}{wanted:9.3f}{100 * (own - wanted):+8.2f}"
                f"{differ:8}{error:8.4f}"
            )
    print(f"{model}, zero-shot")
    print("\n".join(lines))


def main() -> None:
    """Parse and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["training", "answers"])
    parser.add_argument("--data", required=True)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", nargs="+", default=["bfloat16"])
    parser.add_argument("--method", choices=["full", "lora"], default="full")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--characters", type=int, help="length after which solutions are cut")
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--sets", nargs="+", default=list(NLI))
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    if given.what == "training":
        examples = short_examples(given.data, given.characters)
        compare_training(given.model, examples, given.dtype, given.steps, given.method)
    else:
        compare_answers(given.model, given.data, given.dtype, given.sets, given.items)


if __name__ == "__main__":
    main()
