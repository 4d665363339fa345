"""Twenty LoRA checkpoints on four test sets against lm-evaluation-harness, both from the shell to the last answer.

    python benchmarks/checkpoints.py --peer .venv-lm-eval/bin/python --peer-checkpoints 3 --into DIR
    python benchmarks/checkpoints.py --data DATA --arc arc.parquet ...

Without --data the four test sets are generated ones; with it they are mnli, hans, anli, and ARC-Challenge as the
harness's own arc_challenge asks it (the text of every option after the question). breadth is called once; the harness
once per checkpoint with all four tasks, PEFT loaded its own way, at the batch size that is fastest on the first
checkpoint. Both score the same continuations of the same prompts, in float32 with the same number of threads.

Adapters are on the attention of all layers, or of the top 8 of 30; their values are random, since time does not depend
on them. With --peer-checkpoints below 20, the harness's time for all is that of those it evaluated, multiplied: its
calls do not know of each other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

GENERATED = ("plain", "negation", "science", "chains")
PUBLIC = ("mnli", "hans", "anli", "arc_text")
#: As the harness's own arc_challenge asks it.
ARC_PATTERN = "Question: {question}\nAnswer:"


def write_checkpoints(folder: Path, layers: str | int, count: int) -> list[Path]:
    """Adapters as PEFT saves them, in the directories of a Trainer; each is a random step from the last."""
    import torch
    from peft import LoraConfig, get_peft_model

    from breadth.lm import load_model
    from breadth.lm.layers import lora_targets

    paths = [folder / f"checkpoint-{100 * k}" for k in range(1, count + 1)]
    if not paths[-1].is_dir():
        model = load_model("smollm2-135m").model
        config = LoraConfig(r=8, lora_alpha=16, target_modules=lora_targets(model, "attention", layers))
        adapted = get_peft_model(model, config)
        torch.manual_seed(0)
        for path in paths:
            with torch.no_grad():
                for name, weight in adapted.named_parameters():
                    if "lora_B" in name:
                        weight.add_(0.01 * torch.randn_like(weight))
            adapted.save_pretrained(path)
    return paths


def write_study(folder: Path, checkpoints: list[Path], items: int, arc: Path | None) -> Path:
    """A study file that evaluates the checkpoints on four sets."""
    import polars as pl

    study = {
        "name": "checkpoints",
        "models": [{"checkpoints": [str(path.resolve()) for path in checkpoints], "base": "smollm2-135m"}],
        "recipe": {"method": "evaluate"},
        "evaluate": {"on": list(GENERATED if arc is None else PUBLIC), "items": items},
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
    parser.add_argument("--data", type=Path, help="directory of mnli, hans and anli; default: generated sets")
    parser.add_argument("--arc", type=Path, help="with --data: table of ARC-Challenge (question, labels, choices)")
    parser.add_argument("--into", type=Path, required=True, help="an empty directory")
    chosen = parser.parse_args()
    from breadth.lm import fetch_model

    base, batch = fetch_model("smollm2-135m"), 0
    for layers in chosen.layers:
        place = chosen.into / f"layers-{layers}"
        adapted = layers if layers == "all" else int(layers)
        checkpoints = write_checkpoints(place / "lora", adapted, chosen.checkpoints)
        study = write_study(place, checkpoints, chosen.items, chosen.arc)
        own = run_breadth(study, place / "study", chosen.threads, chosen.data)
        print(
            f"layers {layers}: breadth {own:.0f} s for {len(checkpoints)} checkpoints; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        items = write_tasks(place / "tasks", place / "study")

        harness = partial(time_harness, chosen.peer, base, checkpoints, place, chosen.threads)
        batch = batch or (chosen.batches[0] if len(chosen.batches) == 1 else 0)
        if not batch:
            tried = {size: harness(0, size, 25) for size in chosen.batches}
            batch = min(tried, key=tried.__getitem__)
            print(
                "harness, 100 items, seconds by batch size:", {size: round(t) for size, t in tried.items()}, flush=True
            )
        count = chosen.peer_checkpoints or len(checkpoints)
        picked = sorted({round(k * (len(checkpoints) - 1) / max(count - 1, 1)) for k in range(count)})
        seconds = [harness(k, batch) for k in picked]
        same = total = 0
        for k in picked:
            theirs = harness_answers(place / f"harness-{k}-{batch}-None", items)
            ours = breadth_answers(place / "study", 100 * (k + 1))
            same += sum(ours[item] == answer for item, answer in theirs.items())
            total += len(theirs)
        peer = sum(seconds) / len(seconds) * len(checkpoints)
        how = "" if len(picked) == len(checkpoints) else f" ({len(picked)} calls measured, multiplied)"
        print(
            f"layers {layers}: lm-eval 0.4.13, batch {batch}: {peer:.0f} s{how}; {peer / own:.1f} times as fast; "
            f"same answers {same:,} of {total:,}; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
