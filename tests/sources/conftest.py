"""Small logs: of one subject in memory, and as lm-evaluation-harness writes them."""

import json
import zlib

import numpy as np

from breadth.sources.logs.log import Log, Metric
from breadth.sources.logs.subjects import find_subject

STAMP = "2026-01-01T00-00-00.000000"


def make_log(values, testset="set", model="m", path="m.jsonl", items=None, **described):
    """A log with ``values`` by metric (or of ``acc`` alone); items are called q0, q1, ... unless named."""
    if not isinstance(values, dict):
        values = {"acc": values}
    values = {Metric(key) if isinstance(key, str) else Metric(*key): column for key, column in values.items()}
    names = items or [f"q{k}" for k in range(len(next(iter(values.values()), ())))]
    return Log(
        path=path, tool="tool", version="1", testset=testset, model=model, items=names, values=values, **described
    )


def subject_log(*arguments, names=None, pattern=None, **described):
    """Such a log with its subject."""
    log = make_log(*arguments, **described)
    return find_subject(log, f"sum of {log.path}", names or {}, pattern)


def write_lm_eval(
    folder, model, tasks, *, revision=None, stamp=STAMP, shots=0, first=0, word="Question", stated=None, sha=None
):
    """Write samples and results of one run; returns the files of samples.

    ``tasks`` has the answers to every test set: whether each is right, or a list per metric. The ``first`` item and
    all after it are numbered; their texts begin with ``word``.
    """
    folder = folder / (model.replace("/", "__") + (f"__{revision}" if revision else ""))
    folder.mkdir(parents=True, exist_ok=True)
    paths, means = [], {}
    for task, answers in tasks.items():
        columns = answers if isinstance(answers, dict) else {"acc": answers}
        path = folder / f"samples_{task}_{stamp}.jsonl"
        rows = [
            _sample(task, first + k, dict(zip(columns, scores, strict=True)), word)
            for k, scores in enumerate(zip(*columns.values(), strict=True))
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        own = {f"{metric},none": float(np.mean(column)) for metric, column in columns.items() if None not in column}
        means[task] = own | (stated or {})
        paths.append(path)
    arguments = f"pretrained={model}" + (f",revision={revision}" if revision else "")
    results = {
        "results": means,
        "configs": {task: {"task": task, "num_fewshot": shots} for task in tasks},
        "versions": dict.fromkeys(tasks, 1.0),
        "n-shot": dict.fromkeys(tasks, shots),
        "config": {"model": "hf", "model_args": arguments, "model_sha": sha},
        "lm_eval_version": "0.4.9",
        "model_name": model,
    }
    (folder / f"results_{stamp}.json").write_text(json.dumps(results))
    return paths


def _sample(task, number, scores, word):
    """One line of samples: two options, of which the better one is right if ``acc`` says so."""
    question = f"{word} {number} of {task}"
    likely, unlikely = ["-1.0", "False"], ["-2.5", "False"]
    responses = [likely, unlikely] if scores.get("acc") else [unlikely, likely]
    arguments = {
        f"gen_args_{k}": {"arg_0": f"{question}\nAnswer:", "arg_1": f" {option}"} for k, option in enumerate(("a", "b"))
    }
    return {
        "doc_id": number,
        "doc": {"question": question, "choices": ["a", "b"], "gold": 0},
        "target": "0",
        "arguments": arguments,
        "resps": [[one] for one in responses],
        "filtered_resps": responses,
        "filter": "none",
        "metrics": list(scores),
        "doc_hash": f"{zlib.crc32(f'{task} {number}'.encode()):08x}" * 8,
        "prompt_hash": "0",
        "target_hash": "0",
        **{name: score for name, score in scores.items() if score is not None},
    }


def write_checkpoints(
    folder, models=("lab/a", "lab/b", "lab/c"), steps=(1000, 2000, 3000), testsets=("home", "away"), items=30
):
    """Checkpoints of some models on some test sets, better with every step."""
    for m, model in enumerate(models):
        for k, step in enumerate(steps):
            generator = np.random.default_rng([m, k])
            chance = 0.2 + 0.6 * (k + 1) / len(steps) + generator.normal(0, 0.08)
            tasks = {name: (generator.random(items) < chance).astype(float).tolist() for name in testsets}
            write_lm_eval(folder, model, tasks, revision=f"step{step}", sha=f"{m:x}a{k:x}b" * 10)
    return folder
