"""Twenty LoRA checkpoints on four test sets against lm-evaluation-harness, both from the shell to the last answer.

    python benchmarks/checkpoints.py --peer .venv-lm-eval/bin/python --peer-checkpoints 3 --into DIR
    python benchmarks/checkpoints.py --data DATA --sets mnli hans anli snli ...
    python benchmarks/checkpoints.py --data DATA --sets mnli hans anli --arc arc.parquet ...

The test sets are four generated ones unless --sets names others. --arc adds ARC-Challenge as the harness's own
arc_challenge asks it (the text of every option after the question). breadth is called once; the harness
once per checkpoint with all four tasks, PEFT loaded its own way, at the batch size that is fastest on the first
checkpoint. Both score the same continuations of the same prompts with the same number of threads, the harness in
float32 and breadth in float32, mixed, or one after the other.

Adapters are on the attention of all layers, or of the top 8 of 30, and trained: with dtype mixed, time depends on how
close answers are. With --peer-checkpoints below 20, the harness's time for all is that of those it evaluated,
multiplied: its calls do not know of each other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

GENERATED = ("plain", "negation", "science", "chains")
#: As the harness's own arc_challenge asks it.
ARC_PATTERN = "Question: {question}\nAnswer:"


def write_checkpoints(folder: Path, layers: str | int, count: int) -> list[Path]:
    """Adapters as PEFT saves them, in the directories of a Trainer, every 4 steps of a training on `plain`."""
    paths = [folder / f"checkpoint-{100 * k}" for k in range(1, count + 1)]
    if paths[-1].is_dir():
        return paths
    from breadth.datasets import load
    from breadth.lm import SplitModel, Trainer, attach_lora, encode_train_set, load_model
    from breadth.study import Recipe

    steps = 4 * count
    recipe = Recipe(method="lora", layers=layers, lr=1e-3, warmup=0.1, steps=steps)
    loaded = load_model("smollm2-135m")
    adapted = attach_lora(loaded.model, rank=8, alpha=16, layers=layers)
    examples = encode_train_set(loaded, load("plain", "train", items=512), "answers", context=512)
    trainer = Trainer(SplitModel(adapted), examples, recipe, 0, steps)
    for path in paths:
        for _ in range(steps // count):
            trainer.advance()
        adapted.save_pretrained(path)
    return paths


def write_study(
    folder: Path, checkpoints: list[Path], items: int, sets: Sequence[str], arc: Path | None, dtype: str
) -> Path:
    """A study file that evaluates the checkpoints on these sets."""
    import polars as pl

    study = {
        "name": "checkpoints",
        "models": [{"checkpoints": [str(path.resolve()) for path in checkpoints], "base": "smollm2-135m"}],
        "recipe": {"method": "evaluate", "dtype": dtype},
        "evaluate": {"on": [*sets, *([] if arc is None else ["arc_text"])], "items": items},
    }
    if arc is not None:
        table = pl.read_parquet(arc).filter(pl.col("split") == "test")
        rows = [
            {"id": row["id"], "question": row["question"], "options": row["choices"],
             "label": "ABCDE"[row["labels"].index(row["answer"])]}
            for row in table.iter_rows(named=True)
        ]  # fmt: skip
        pl.DataFrame(rows).write_parquet(folder / "arc_text.parquet")
        study["sets"] = {
            "arc_text": {"file": "arc_text.parquet", "kind": "choice", "options": "options", "pattern": ARC_PATTERN}
        }
    path = folder / "study.yaml"
    path.write_text(json.dumps(study))  # JSON is YAML
    return path


def write_tasks(folder: Path, study: Path) -> dict[str, list[tuple[str, list[str]]]]:
    """The study's own items as tasks of the harness: the same prompts and answers.

    Returns the items of each set, and the label of every continuation that the harness is offered.
    """
    import polars as pl

    from breadth.datasets import REGISTRY

    folder.mkdir(parents=True, exist_ok=True)
    items = {}
    for path in sorted((study / "items").glob("*.parquet")):
        name = path.name.partition(".")[0]
        frame = pl.read_parquet(path)
        if name in REGISTRY:
            task = REGISTRY[name].task
            pattern, labels = task.template, [label for label, _ in task.answers]
            rows = [(row, [words for _, words in task.answers], labels) for row in frame.iter_rows(named=True)]
        else:
            pattern = ARC_PATTERN
            rows = [
                (row, [f" {text}" for text in row["options"]], row["option_labels"])
                for row in frame.iter_rows(named=True)
            ]
        items[name] = [(row["item"], labels) for row, _, labels in rows]
        docs = [{"prompt": pattern.format(**row), "continuations": offered} for row, offered, _ in rows]
        data = folder / f"{name}.jsonl"
        data.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
        task = {
            "task": f"breadth_{name}",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(data)}},
            "test_split": "test",
            "output_type": "multiple_choice",
            "doc_to_text": "{{prompt}}",
            "doc_to_choice": "{{continuations}}",
            "doc_to_target": 0,
            "target_delimiter": "",
            "metric_list": [{"metric": "acc"}],
        }
        (folder / f"{name}.yaml").write_text(json.dumps(task))
    return items


def environment(threads: int) -> dict[str, str]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(threads)), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "0"}


def run_harness(
    python: str, base: Path, checkpoint: Path, tasks: Path, out: Path, batch: int, threads: int, limit: int | None
) -> float:
    """Seconds of one call of the harness."""
    command = [
        *(python, "-m", "lm_eval", "--model", "hf", "--model_args"),
        f"pretrained={base},peft={checkpoint},dtype=float32",
        *("--tasks", ",".join(f"breadth_{path.stem}" for path in sorted(tasks.glob("*.yaml")))),
        *("--include_path", str(tasks), "--device", "cpu"),
        *("--batch_size", str(batch), "--log_samples", "--output_path", str(out)),
        *([] if limit is None else ["--limit", str(limit)]),
    ]
    started = time.perf_counter()
    done = subprocess.run(command, env=environment(threads), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    return time.perf_counter() - started


def time_harness(
    python: str, base: Path, checkpoints: list[Path], place: Path, threads: int, k: int, batch: int,
    limit: int | None = None,
) -> float:  # fmt: skip
    """Seconds of one call for checkpoint ``k``."""
    out = place / f"harness-{k}-{batch}-{limit}"
    return run_harness(python, base, checkpoints[k], place / "tasks", out, batch, threads, limit)


def harness_answers(out: Path, items: dict[str, list[tuple[str, list[str]]]]) -> dict[str, str]:
    """The answer to every item that a call of the harness chose."""
    answers = {}
    for name, known in items.items():
        for line in next(out.rglob(f"samples_breadth_{name}_2*.jsonl")).read_text().splitlines():
            sample = json.loads(line)
            scores = [float(pair[0]) for pair in sample["filtered_resps"]]
            item, labels = known[sample["doc_id"]]
            answers[item] = labels[scores.index(max(scores))]
    return answers


def run_breadth(study: Path, into: Path, threads: int, data: Path | None) -> float:
    """Seconds of one call of breadth."""
    command = [sys.executable, "-m", "breadth", "run", str(study), "--into", str(into), "--threads", str(threads)]
    command += [] if data is None else ["--data", str(data)]
    started = time.perf_counter()
    subprocess.run(command, env=environment(threads), check=True, stdout=sys.stderr)
    return time.perf_counter() - started


def breadth_answers(study: Path, step: int) -> dict[str, str]:
    """The answer to every item at a checkpoint."""
    import polars as pl

    part = pl.read_parquet(next(study.glob(f"runs/*/step-{step:06d}.*.parquet")))
    return dict(part.select("item", "answer").iter_rows())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", default=".venv-lm-eval/bin/python")
    parser.add_argument("--checkpoints", type=int, default=20)
    parser.add_argument("--items", type=int, default=200, help="of each test set")
    parser.add_argument("--peer-checkpoints", type=int, help="default: all")
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[4, 8, 16, 32], help="batch sizes the harness may use"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", choices=["all", "8"], nargs="+", default=["all", "8"], help="with adapters")
    parser.add_argument("--sets", nargs="+", default=GENERATED)
    parser.add_argument("--data", type=Path, help="directory with the files of public sets")
    parser.add_argument("--arc", type=Path, help="table of ARC-Challenge (question, labels, choices): one more set")
    parser.add_argument("--dtype", nargs="+", default=["float32", "mixed"], choices=["float32", "mixed"])
    parser.add_argument("--into", type=Path, required=True, help="an empty directory")
    chosen = parser.parse_args()
    from breadth.lm import fetch_model

    base, batch = fetch_model("smollm2-135m"), 0
    for layers in chosen.layers:
        place = chosen.into / f"layers-{layers}"
        adapted = layers if layers == "all" else int(layers)
        checkpoints = write_checkpoints(place / "lora", adapted, chosen.checkpoints)
        own = {}
        for dtype in chosen.dtype:
            study = write_study(place, checkpoints, chosen.items, chosen.sets, chosen.arc, dtype)
            own[dtype] = run_breadth(study, place / dtype, chosen.threads, chosen.data)
            load = os.getloadavg()[0]
            print(f"layers {layers}: breadth, {dtype}, {own[dtype]:.0f} s; load {load:.1f}", flush=True)
        items = write_tasks(place / "tasks", place / chosen.dtype[0])

        harness = partial(time_harness, chosen.peer, base, checkpoints, place, chosen.threads)
        batch = batch or (chosen.batches[0] if len(chosen.batches) == 1 else 0)
        if not batch:
            tried = {size: harness(0, size, 25) for size in chosen.batches}
            batch = min(tried, key=tried.__getitem__)
            print(
                "harness, 25 of each set, seconds by batch size:", {k: round(t) for k, t in tried.items()}, flush=True
            )
        count = chosen.peer_checkpoints or len(checkpoints)
        picked = sorted({round(k * (len(checkpoints) - 1) / max(count - 1, 1)) for k in range(count)})
        peer = sum(harness(k, batch) for k in picked) / len(picked) * len(checkpoints)
        how = "" if len(picked) == len(checkpoints) else f" ({len(picked)} calls measured, multiplied)"
        load = os.getloadavg()[0]
        print(f"layers {layers}: lm-eval 0.4.13, batch {batch}: {peer:.0f} s{how}; load {load:.1f}", flush=True)
        theirs = {k: harness_answers(place / f"harness-{k}-{batch}-None", items) for k in picked}
        for dtype, seconds in own.items():
            ours = {k: breadth_answers(place / dtype, 100 * (k + 1)) for k in picked}
            same = sum(ours[k][item] == answer for k in picked for item, answer in theirs[k].items())
            total = sum(map(len, theirs.values()))
            print(f"  {dtype}: {peer / seconds:.1f} times as fast; same answers {same:,} of {total:,}", flush=True)
        if len(own) > 1:
            one, other = (
                [breadth_answers(place / dtype, 100 * (k + 1)) for k in range(len(checkpoints))] for dtype in own
            )
            differ = sum(one[k][item] != other[k][item] for k in range(len(one)) for item in one[k])
            print(f"  {' and '.join(own)} differ in {differ:,} of {sum(map(len, one)):,} answers", flush=True)


if __name__ == "__main__":
    main()
