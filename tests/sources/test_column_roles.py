"""Inputs as people have them, each with what it must be understood as, or the question that must be asked."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breadth.correlation import correlate
from breadth.errors import InputError
from breadth.records.study import Study
from breadth.sources import ScoreTable, open_source
from breadth.sources.column_roles import Kind, infer_columns
from breadth.sources.tables import read_table
from breadth.sources.vocabulary import Role

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"


def noise(*names, rows=24, seed=0, scale=1.0):
    """Scores of test sets, as fractions."""
    generator = np.random.default_rng(seed)
    return {name: (scale * generator.uniform(0.3, 0.9, rows)).round(4).tolist() for name in names}


def runs(run="run", step="step", names=("in_domain", "hans", "anli"), count=3, steps=8, scale=1.0):
    """Checkpoints of runs: a row per run and step."""
    keys = {run: np.repeat([f"r{k}" for k in range(count)], steps).tolist()} if run else {}
    keys[step] = [100 * k for _ in range(count) for k in range(steps)]
    return pl.DataFrame(keys | noise(*names, rows=count * steps, scale=scale))


def models(*names, rows=24, model="model", scale=1.0, **others):
    """A row per model."""
    columns = {model: [f"org/model-{k}b" for k in range(rows)]} | noise(*names, rows=rows, scale=scale)
    return pl.DataFrame(columns | {name: [values(k) for k in range(rows)] for name, values in others.items()})


def answers(model="model", item="item", correct="correct", testset=None, right=(1, 0), **others):
    """A row per answer: three models, two test sets, five items each."""
    rows = []
    for k in range(30):
        row = {model: f"m{k % 3}"} | ({testset: f"set{k % 2}"} if testset else {})
        row |= {item: f"q{k // 6}" if testset else f"q{k // 3}", correct: right[(k * 7 % 5) % 2]}
        rows.append(row | {name: values(k) for name, values in others.items()})
    return pl.DataFrame(rows)


def chart(*metrics, names=("run-1", "run-2"), steps=9):
    """What W&B exports of a chart: a column per run and value, with its smallest and largest."""
    columns = {"Step": list(range(steps))}
    for number, (run, metric) in enumerate((run, metric) for run in names for metric in metrics):
        values = noise("x", rows=steps, seed=number)["x"]
        columns |= {f"{run} - {metric}{end}": values for end in ("", "__MIN", "__MAX")}
    return pl.DataFrame(columns)


def history(evaluated=("mnli", "hans", "anli"), steps=6):
    """The log of a Hugging Face trainer: a row per log of training, and one per evaluation set."""
    rows = []
    for step in range(1, steps + 1):
        rows.append(
            {"loss": 2.0 / step, "grad_norm": 1.1, "learning_rate": 1e-5, "epoch": step / 10, "step": step * 10}
        )
        for name in evaluated:
            value = 0.5 + 0.03 * step + 0.001 * len(name)
            rows.append(
                {f"eval_{name}_loss": 1 / step, f"eval_{name}_accuracy": value, f"eval_{name}_runtime": 3.2,
                 f"eval_{name}_samples_per_second": 99.1, "epoch": step / 10, "step": step * 10}
            )  # fmt: skip
    return rows


HARNESS = """\
hf (pretrained={model},dtype=float16), gen_kwargs: (None), limit: None, num_fewshot: None, batch_size: 8
|    Tasks    |Version|     Filter     |n-shot|  Metric   |   |Value |   |Stderr|
|-------------|------:|----------------|-----:|-----------|---|-----:|---|-----:|
|boolq        |      2|none            |     0|acc        |↑  |{0}|±  |0.0084|
|gsm8k        |      3|strict-match    |     5|exact_match|↑  |{1}|±  |0.0040|
|mmlu         |      2|none            |      |acc        |↑  |{2}|±  |0.0036|
| - humanities|      2|none            |      |acc        |↑  |{3}|±  |0.0067|
| - stem      |      2|none            |      |acc        |↑  |{4}|±  |0.0077|

|Groups|Version|Filter|n-shot|Metric|   |Value |   |Stderr|
|------|------:|------|------|------|---|-----:|---|-----:|
|mmlu  |      2|none  |      |acc   |↑  |{2}|±  |0.0036|

"""


def harness(count=3):
    values = noise(*"abcde", rows=count)
    return "".join(
        HARNESS.format(*(column[k] for column in values.values()), model=f"EleutherAI/pythia-{k}b")
        for k in range(count)
    )


def long(keys, testset, value, frame=None):
    frame = runs() if frame is None else frame
    return frame.unpivot(index=keys, variable_name=testset, value_name=value)


def flat(frame, **options):
    return frame.write_csv(**options)


def r_table(frame, separator, header=True):
    """What R writes with row names; write.table leaves out the name of their column."""
    lines = [('"",' if header else "") + separator.join(f'"{name}"' for name in frame.columns)]
    lines += [separator.join([f'"{k + 1}"', *map(str, row)]) for k, row in enumerate(frame.iter_rows())]
    return "\n".join(lines) + "\n"


@dataclass
class Case:
    """What to write under which name (text, a frame, or JSON), and what it is."""

    source: object
    file: str = "table.csv"
    kind: Kind = Kind.SCORES
    by: tuple = ()
    order: str | None = None
    controls: tuple = ()
    testsets: set = field(default_factory=set)
    ignored: set = field(default_factory=set)
    shape: tuple | None = None
    options: dict = field(default_factory=dict)
    question: str | None = None

    def write(self, folder):
        if not isinstance(self.source, str | list | dict) and self.file == "table.csv":
            return self.source
        path = folder / self.file
        path.write_text(self.source if isinstance(self.source, str) else json.dumps(self.source), encoding="utf-8")
        return path


def scores(source, by, order, controls, testsets, ignored=(), **others):
    controls = (controls,) if controls else ()
    return Case(source, by=by, order=order, controls=controls, testsets={*testsets}, ignored={*ignored}, **others)


def answered(source, rows, items, **others):
    return Case(source, kind=Kind.ANSWERS, shape=(rows, items), **others)


def asked(source, question, **others):
    return Case(source, question=question, **others)


EVAL = ("eval/mnli_acc", "eval/hans_acc", "eval/anli_acc", "eval/scitail_acc")
LOGGED = runs("run_name", "Step", EVAL).with_columns(
    pl.lit(0.7).alias("train/loss"), pl.lit(0.4).alias("eval/loss"), pl.lit(1e-5).alias("train/learning_rate"),
    (1.7e9 + pl.col("Step")).alias("_timestamp"), (pl.col("Step") * 0.3).alias("_runtime"),
    pl.lit(0.1).alias("lora_dropout"), pl.lit(0.25).alias("sparsity"),
)  # fmt: skip
GAPS = LOGGED.with_columns(
    pl.when(pl.int_range(pl.len()) % 2 == 1).then(None).otherwise(pl.col(name)).alias(name) for name in EVAL
)
BOARD = models("IFEval", "BBH", "MATH Lvl 5", scale=100, model="fullname").with_columns(
    pl.mean_horizontal("IFEval", "BBH", "MATH Lvl 5").round(2).alias("Average ⬆️"), pl.lit("🔶").alias("T"),
    pl.lit("LlamaForCausalLM").alias("Architecture"), pl.lit("bfloat16").alias("Precision"),
    pl.lit(7.2).alias("#Params (B)"), pl.int_range(pl.len()).alias("Hub ❤️"), pl.lit(True).alias("Available on the hub"),
    pl.lit("2024-06-26").alias("Upload To Hub Date"), (pl.col("IFEval") / 100).alias("IFEval Raw"),
    pl.lit(1.3).alias("CO₂ cost (kg)"), pl.lit("abc123").alias("Model sha"),
)  # fmt: skip
TWO_SEEDS = pl.concat([runs("model").with_columns(seed=pl.lit(k)) for k in (0, 1)])

CASES = {
    # Experiment trackers and trainers.
    "W&B history of runs": scores(
        LOGGED,
        ("run_name",),
        "Step",
        EVAL[0],
        EVAL[1:],
        ("train/loss", "eval/loss", "_timestamp", "_runtime", "train/learning_rate", "lora_dropout", "sparsity"),
    ),
    "W&B history with gaps": scores(GAPS, ("run_name",), "Step", EVAL[0], EVAL[1:], ("train/loss", "_timestamp")),
    "W&B steps and the trainer's": scores(
        pl.concat(
            [
                LOGGED.with_columns(
                    (pl.col("Step") * len(EVAL) + k).alias("_step"),
                    *(pl.lit(None, dtype=pl.Float64).alias(other) for other in EVAL if other != name),
                )
                for k, name in enumerate(EVAL)
            ]
        ).rename({"Step": "train/global_step"}),
        ("run_name",),
        "train/global_step",
        EVAL[0],
        EVAL[1:],
        ("_step", "train/loss"),
    ),
    "W&B table of runs": scores(
        models(*EVAL, model="Name").with_columns(
            pl.lit("finished").alias("State"),
            pl.lit(3600).alias("Runtime"),
            pl.lit(16).alias("batch_size"),
            pl.int_range(pl.len()).alias("_step"),
            pl.lit(0.9).alias("train/loss"),
            pl.lit(0.05).alias("warmup"),
        ),
        (),
        None,
        EVAL[0],
        EVAL[1:],
        ("Runtime", "batch_size", "_step", "train/loss", "warmup"),
    ),
    "W&B chart of several values": scores(
        chart("eval/mnli_acc", "eval/hans_acc", "eval/anli_acc"),
        ("run",),
        "Step",
        "eval/mnli_acc",
        ("eval/hans_acc", "eval/anli_acc"),
    ),
    "W&B chart of one value": asked(chart("eval/acc"), "eval/acc; a correlation needs at least 2"),
    "W&B chart of a loss": asked(chart("train/loss"), "train/loss; a correlation needs at least 2"),
    "TensorBoard scalar": asked(
        pl.DataFrame({"Wall time": [1.7e9, 1.7e9], "Step": [0, 10], "Value": [0.5, 0.6]}),
        "Value; a correlation needs",
    ),
    "log_history as JSON lines": scores(
        "".join(json.dumps(row) + "\n" for row in history()),
        (),
        "step",
        "eval_mnli_accuracy",
        ("eval_hans_accuracy", "eval_anli_accuracy"),
        ("loss", "learning_rate"),
        file="log.jsonl",
    ),
    "log_history as a list": scores(
        history(("rte", "hans", "anli")),
        (),
        "step",
        None,
        ("eval_rte_accuracy", "eval_hans_accuracy", "eval_anli_accuracy"),
        ("loss",),
        file="log.json",
    ),
    "Lightning's CSV": scores(
        runs(None, "step", ("val_acc", "test_hans_acc", "test_anli_acc"), 1).with_columns(
            epoch=pl.col("step") // 200, train_loss=pl.lit(0.3), val_loss=pl.lit(0.2)
        ),
        (),
        "step",
        "val_acc",
        ("test_hans_acc", "test_anli_acc"),
        ("epoch", "train_loss", "val_loss"),
    ),
    "only losses of test sets": scores(
        runs(names=("wiki_loss", "code_loss", "books_loss")),
        ("run",),
        "step",
        None,
        ("wiki_loss", "code_loss", "books_loss"),
    ),
    "losses that are named": scores(
        LOGGED,
        ("run_name",),
        "Step",
        EVAL[0],
        ("eval/loss", "eval/hans_acc"),
        ("train/loss",),
        options={"testsets": "eval/loss,eval/hans_acc"},
    ),
    "epochs only": scores(runs(step="epoch"), ("run",), "epoch", "in_domain", ("hans", "anli")),
    "tokens only": scores(
        runs(step="tokens").with_columns(pl.col("tokens") * 1.5e9),
        ("run",),
        "tokens",
        "in_domain",
        ("hans", "anli"),
    ),
    "tokens as 1.5B": scores(
        runs(step="tokens").with_columns(pl.format("{}B", pl.col("tokens") / 100)),
        ("run",),
        "tokens",
        "in_domain",
        ("hans", "anli"),
    ),
    "steps in scientific notation": scores(
        flat(runs().with_columns(step=pl.format("{}e2", pl.col("step") // 100))),
        ("run",),
        "step",
        "in_domain",
        ("hans", "anli"),
        file="scientific.csv",
    ),
    "checkpoint-500": scores(
        runs(step="checkpoint").with_columns(pl.format("checkpoint-{}", "checkpoint")),
        ("run",),
        "checkpoint",
        "in_domain",
        ("hans", "anli"),
    ),
    "steps in the names of models": scores(
        runs("model").select(
            pl.format("EleutherAI/{}-step{}", "model", "step").alias("model"), "in_domain", "hans", "anli"
        ),
        ("run",),
        "step",
        "in_domain",
        ("hans", "anli"),
    ),
    "steps and epochs that agree": scores(
        runs().with_columns(epoch=pl.col("step") / 300),
        ("run",),
        "step",
        "in_domain",
        ("hans", "anli"),
        ("epoch",),
    ),
    "steps that disagree": asked(
        runs().with_columns(iteration=pl.col("step").reverse()),
        "'step' and 'iteration' order the checkpoints differently",
    ),
    "a step that was chosen": scores(
        runs().with_columns(iteration=pl.col("step").reverse()),
        ("run",),
        "iteration",
        "in_domain",
        ("hans", "anli"),
        options={"order": "iteration"},
    ),
    "runs told apart by seeds": scores(TWO_SEEDS, ("model", "seed"), "step", "in_domain", ("hans", "anli")),
    "runs told apart by something unknown": asked(
        TWO_SEEDS.rename({"seed": "flavour"}),
        'column flavour tells them apart. Add by="model,flavour"',
    ),
    "duplicates": asked(pl.concat([runs(), runs().head(1)]), "run=r0, step=0 occurs 2 times"),
    "seeds of few models": scores(
        pl.DataFrame({"model": ["a"] * 12 + ["b"] * 12, "seed": [*range(12)] * 2} | noise("in_domain", "hans", "anli")),
        ("model",),
        None,
        "in_domain",
        ("hans", "anli"),
    ),
    "three seeds of eight models": asked(
        pl.DataFrame(
            {"model": [*"abcdefgh"] * 3, "seed": [0] * 8 + [1] * 8 + [2] * 8} | noise("in_domain", "hans", "anli")
        ),
        r'8 models \(model\) with about 3 rows each, too few to correlate within one.*by="none"',
    ),
    "times instead of steps": asked(
        runs(step="_timestamp"), 'add by="run" order="_timestamp"; if they are independent, order="none"'
    ),
    "dates instead of steps": asked(
        runs(step="date").with_columns(pl.format("2024-01-0{}", pl.col("date") // 100 + 1).alias("date")),
        "'date' has times",
    ),
    "a date that was chosen": scores(
        runs(step="date").with_columns(pl.format("2024-01-0{}", pl.col("date") // 100 + 1).alias("date")),
        ("run",),
        "date",
        "in_domain",
        ("hans", "anli"),
        options={"order": "date"},
    ),
    "a last checkpoint called final": asked(
        runs(step="checkpoint").with_columns(
            pl.when(pl.col("checkpoint") == 700)
            .then(pl.lit("final"))
            .otherwise(pl.format("step{}", "checkpoint"))
            .alias("checkpoint")
        ),
        "column 'checkpoint': 'final' is not a place in training, as 'step0' is",
    ),
    "paths of checkpoints": scores(
        runs(None, "checkpoint", count=1).with_columns(
            pl.format("out/run-7b/checkpoint-{}", "checkpoint").alias("checkpoint")
        ),
        (),
        "checkpoint",
        "in_domain",
        ("hans", "anli"),
    ),
    "a learning rate along the way": scores(
        runs(None, count=1).with_columns(learning_rate=pl.when(pl.col("step") < 300).then(1e-5).otherwise(5e-6)),
        (),
        "step",
        "in_domain",
        ("hans", "anli"),
    ),
    "learning rates that tell runs apart": scores(
        runs("lr").with_columns(pl.col("lr").replace_strict({"r0": 1e-5, "r1": 1e-4, "r2": 1e-3})),
        ("lr",),
        "step",
        "in_domain",
        ("hans", "anli"),
    ),
    "runs that nothing tells apart": asked(runs().drop("run"), "step=0 occurs 3 times"),
    "runs with their last steps, or checkpoints": asked(
        models(*EVAL, model="Name", model_name=lambda k: f"m{k % 2}", _step=lambda k: 1000 + k),
        "rows have names of their own .Name., but may be checkpoints of each model_name",
    ),
    "runs named after what they were trained on": scores(
        runs(names=("mnli", "snli", "hans")).with_columns(pl.format("opt-snli-{}", "run").alias("run")),
        ("run",),
        "step",
        "snli",
        ("mnli", "hans"),
    ),
    "runs trained on this and that": scores(
        runs(names=("mnli", "snli", "hans")).with_columns(pl.col("run").replace({"r0": "opt-snli", "r1": "opt-mnli"})),
        ("run",),
        "step",
        None,
        ("mnli", "snli", "hans"),
    ),
    "a training set in a column": scores(
        runs(names=("snli", "mnli", "hans")).with_columns(train_set=pl.lit("SNLI")),
        ("run",),
        "step",
        "snli",
        ("mnli", "hans"),
    ),
    # Harnesses and leaderboards.
    "lm-eval's Markdown": scores(
        harness(),
        (),
        None,
        None,
        ("boolq", "gsm8k", "humanities", "stem"),
        ("Version", "Stderr"),
        file="results.md",
    ),
    "lm-eval's table as CSV with two metrics": scores(
        "Tasks,Version,Filter,n-shot,Metric,Value,Stderr\narc_easy,1,none,0,acc,0.6,0.01\n,,none,0,acc_norm,0.61,0.01\n"
        "piqa,1,none,0,acc,0.7,0.01\n,,none,0,acc_norm,0.71,0.01\n",
        (),
        None,
        None,
        ("arc_easy/acc", "piqa/acc"),
        ("arc_easy/acc_norm", "piqa/acc_norm"),
        file="results.csv",
    ),
    "lm-eval's table with the metric chosen": scores(
        "Tasks,Version,Filter,n-shot,Metric,Value,Stderr\narc_easy,1,none,0,acc,0.6,0.01\n,,none,0,acc_norm,0.61,0.01\n"
        "piqa,1,none,5,acc,0.7,0.01\n,,none,5,acc_norm,0.71,0.01\n",
        (),
        None,
        None,
        ("arc_easy/acc", "piqa/acc"),
        ("arc_easy/acc_norm",),
        options={"testsets": "*/acc"},
    ),
    "results per model and task": scores(
        long(["model"], "task", "acc", models("boolq", "piqa", "sciq")).with_columns(
            pl.lit(0.01).alias("acc_stderr"),
            pl.col("task").replace_strict({"boolq": 0, "piqa": 5, "sciq": 25}).alias("num_fewshot"),
        ),
        (),
        None,
        None,
        ("boolq", "piqa", "sciq"),
        ("acc_stderr", "num_fewshot"),
    ),
    "Open LLM Leaderboard": scores(
        BOARD,
        (),
        None,
        None,
        ("IFEval", "BBH", "MATH Lvl 5"),
        ("Average ⬆️", "#Params (B)", "Hub ❤️", "IFEval Raw", "CO₂ cost (kg)", "Available on the hub"),
    ),
    "an average under another name": scores(
        models("mmlu", "gsm8k", "arc", rows=60).with_columns(
            pl.mean_horizontal("mmlu", "gsm8k", "arc").round(3).alias("Open LLM")
        ),
        (),
        None,
        None,
        ("mmlu", "gsm8k", "arc"),
        ("Open LLM",),
    ),
    "an average of few rows": scores(
        models("mmlu", "gsm8k", "arc", rows=5).with_columns(
            pl.mean_horizontal("mmlu", "gsm8k", "arc").round(3).alias("All")
        ),
        (),
        None,
        None,
        ("mmlu", "gsm8k", "arc"),
        ("All",),
    ),
    "an overall score and a rank": scores(
        models("mmlu", "gsm8k", "arc").with_columns(Score=pl.lit(0.5), Rank=pl.int_range(1, pl.len() + 1)),
        (),
        None,
        None,
        ("mmlu", "gsm8k", "arc"),
        ("Score", "Rank"),
    ),
    "yes, no and whole numbers": scores(
        models("mmlu", "gsm8k", chat=lambda k: "yes" if k % 2 else "no", heads=lambda k: k % 5),
        (),
        None,
        None,
        ("mmlu", "gsm8k"),
        ("chat", "heads"),
    ),
    "HELM": scores(
        models("MMLU - EM", "BoolQ - EM", "NarrativeQA - F1", model="Model/adapter").with_columns(
            pl.lit(0.61).alias("Mean win rate")
        ),
        (),
        None,
        None,
        ("MMLU - EM", "BoolQ - EM", "NarrativeQA - F1"),
        ("Mean win rate",),
    ),
    "GLUE, where nothing is in-domain": scores(
        models("MNLI", "QQP", "SST-2", "RTE"), (), None, None, ("MNLI", "QQP", "SST-2", "RTE")
    ),
    "sizes and compute": scores(
        models(
            "mmlu",
            "arc",
            "gsm8k",
            params_b=lambda k: 7,
            tokens_t=lambda k: k,
            flops_1e21=lambda k: 84.0 * k,
            year=lambda k: 2024,
        ),
        (),
        None,
        None,
        ("mmlu", "arc", "gsm8k"),
        ("params_b", "tokens_t", "flops_1e21", "year"),
    ),
    "an unknown number that is no score": scores(
        models("mmlu", "arc", "gsm8k", vocab=lambda k: 32000 + k),
        (),
        None,
        None,
        ("mmlu", "arc", "gsm8k"),
        ("vocab",),
    ),
    "two scores of every test set": scores(
        models("hans_acc", "hans_f1", "anli_acc", "anli_f1"),
        (),
        None,
        None,
        ("hans_acc", "anli_acc"),
        ("hans_f1", "anli_f1"),
    ),
    "standard errors beside scores": scores(
        models("hans_mean", "hans_std", "anli_mean", "anli_std", "rte_mean", "rte_std"),
        (),
        None,
        None,
        ("hans_mean", "anli_mean", "rte_mean"),
        ("hans_std", "anli_std"),
    ),
    "transposed": scores(
        pl.DataFrame(
            {"benchmark": ["mmlu", "arc", "gsm8k"], "gpt-4": [86.4, 96.3, 92.0], "llama-2-7b": [45.3, 53.1, 14.6]}
        ),
        (),
        None,
        None,
        ("mmlu", "arc", "gsm8k"),
    ),
    "data sets that may be either": asked(
        pl.DataFrame({"dataset": ["mnli", "qqp"], "first": [0.8, 0.7], "second": [0.5, 0.6]}),
        "trained on or what it was tested on. Rename it to train_set or to testset",
    ),
    # Long tables.
    "metric and value": scores(
        long(
            ["run", "step"],
            "metric",
            "value",
            runs(names=("eval/mnli_acc", "eval/hans_acc", "eval/anli_acc", "train/loss")),
        ),
        ("run",),
        "step",
        "eval/mnli_acc",
        ("eval/hans_acc", "eval/anli_acc"),
        ("train/loss",),
    ),
    "data set, subset and accuracy": scores(
        long(["model"], "subset", "accuracy", models("anatomy", "law", "virology")).with_columns(
            dataset=pl.lit("mmlu")
        ),
        (),
        None,
        None,
        ("anatomy", "law", "virology"),
    ),
    "subsets of the same name": scores(
        long(["model"], "__", "accuracy", models("a/easy", "a/hard", "b/easy", "b/hard"))
        .with_columns(dataset=pl.col("__").str.head(1), subset=pl.col("__").str.slice(2))
        .drop("__"),
        (),
        None,
        None,
        ("a/easy", "a/hard", "b/easy", "b/hard"),
    ),
    "notes beside scores": scores(
        long(["run", "step"], "testset", "score").with_row_index("id").with_columns(note=pl.format("row {}", "id")),
        ("run",),
        "step",
        "in_domain",
        ("hans", "anli"),
        ("note",),
    ),
    "validation and test parts": asked(
        pl.DataFrame(
            [
                {"model": f"m{k % 6}", "dataset": "ab"[k // 6 % 2], "split": ("val", "test")[k // 12], "acc": k / 30}
                for k in range(24)
            ]
        ),
        r'a/val, a/test seem to be scores of one test set.*testsets="\*/val"',
    ),
    "test sets in a column of another name": asked(
        long(["model"], "domain", "accuracy", models("law", "news", "chat")),
        "If it names test sets, rename it to testset",
    ),
    "MMLU's subjects": scores(
        long(["model"], "subject", "acc", models("anatomy", "law", "virology")),
        (),
        None,
        None,
        ("anatomy", "law", "virology"),
    ),
    # Ways to write a table.
    "pandas with its index": scores(
        "," + flat(models("mmlu", "arc", "gsm8k")).replace("\n", "\n0,", 24),
        (),
        None,
        None,
        ("mmlu", "arc", "gsm8k"),
        file="pandas.csv",
    ),
    "a pandas frame with dates": scores(
        pd.DataFrame(models("mmlu", "arc", "gsm8k").to_dict(as_series=False)).assign(date=pd.Timestamp("2024-05-05")),
        (),
        None,
        None,
        ("mmlu", "arc", "gsm8k"),
        ("date",),
    ),
    "R's write.csv": scores(r_table(models("mmlu", "arc"), ","), (), None, None, ("mmlu", "arc"), file="r.csv"),
    "R's write.table": scores(
        r_table(models("mmlu", "arc"), "\t", header=False), (), None, None, ("mmlu", "arc"), file="r.csv"
    ),
    "semicolons and decimal commas": scores(
        flat(runs(), separator=";").replace(".", ","),
        ("run",),
        "step",
        "in_domain",
        ("hans", "anli"),
        file="de.csv",
    ),
    "a byte order mark": scores(
        "\ufeff" + flat(runs()), ("run",), "step", "in_domain", ("hans", "anli"), file="excel.csv"
    ),
    "tabs in a .csv": scores(
        flat(runs(), separator="\t"), ("run",), "step", "in_domain", ("hans", "anli"), file="tabs.csv"
    ),
    "percentages": scores(runs(scale=100), ("run",), "step", "in_domain", ("hans", "anli")),
    "percent signs": scores(
        models("mmlu", "arc", "gsm8k").with_columns(pl.format("{}%", "mmlu"), pl.format("**{}** ± 0.3", "arc")),
        (),
        None,
        None,
        ("mmlu", "arc", "gsm8k"),
    ),
    "missing cells": scores(
        runs().with_columns(
            pl.when(pl.col("step") == 100).then(pl.lit("—")).otherwise(pl.col("hans").cast(pl.String)).alias("hans")
        ),
        ("run",),
        "step",
        "in_domain",
        ("hans", "anli"),
    ),
    "JSON of pandas": scores(
        {
            name: {str(k): value for k, value in enumerate(column)}
            for name, column in models("mmlu", "arc").to_dict(as_series=False).items()
        },
        (),
        None,
        None,
        ("mmlu", "arc"),
        file="frame.json",
    ),
    "two columns of one name": asked(
        "model,acc,acc\na,0.1,0.2\nb,0.2,0.3\n", "two columns are called 'acc'", file="twice.csv"
    ),
    "one score": asked(models("mmlu", merged=lambda k: True), "mmlu; a correlation needs at least 2"),
    "decimal commas in quotes": scores(
        'model,mmlu,arc\na,"84,3","0,7"\nb,"81,2","0,5"\nc,"80,1","0,4"\n',
        (),
        None,
        None,
        ("mmlu", "arc"),
        file="quoted.csv",
    ),
    "a footnote that cannot be read": asked(
        "model,mmlu,arc\na,84.3*,0.7 or so\nb,81.2,0.5\nc,80.1,0.4\n",
        "column 'arc': '0.7 or so' is not a number",
        file="notes.csv",
    ),
    # In-domain scores.
    "id and ood": scores(models("id_acc", "ood_acc", "far_acc"), (), None, "id_acc", ("ood_acc", "far_acc")),
    "iid": scores(runs(names=("iid", "shift_a", "shift_b")), ("run",), "step", "iid", ("shift_a", "shift_b")),
    "languages, of which id is one": scores(models("en", "de", "fr", "id"), (), None, None, ("en", "de", "fr", "id")),
    "validation and tests": scores(
        models("validation", "test_a", "test_b"), (), None, "validation", ("test_a", "test_b")
    ),
    "two candidates for the control": scores(
        models("iid_a", "in_domain", "source", "far"), (), None, None, ("iid_a", "in_domain", "source", "far")
    ),
    # Answers.
    "answers as breadth names them": answered(answers(testset="testset"), 3, 10),
    "model, task, question_id, is_correct": answered(
        answers("model", "question_id", "is_correct", "task"),
        3,
        10,
    ),
    "model_name, dataset, doc_id, acc": answered(answers("model_name", "doc_id", "acc", "dataset"), 3, 10),
    "Model, benchmark, sample_id, score": answered(answers("Model", "sample_id", "score", "benchmark"), 3, 10),
    "eval_name, subset, item_id, correct": answered(answers("eval_name", "item_id", "correct", "subset"), 3, 10),
    "run_id, problem_id, passed": answered(answers("run_id", "problem_id", "passed", right=(True, False)), 3, 10),
    "model, instance_id, resolved": answered(
        answers("model", "instance_id", "resolved", right=("resolved", "unresolved")), 3, 10
    ),
    "model, task_id, pass@1": answered(answers("model", "task_id", "pass@1"), 3, 10),
    "model, prompt_id, exact_match, in words": answered(
        answers("model", "prompt_id", "exact_match", right=("True", "False")), 3, 10
    ),
    "Inspect's C and I": answered(answers("model", "sample_id", "score", right=("C", "I")), 3, 10),
    "model, id, correct": answered(answers("model", "id", "correct"), 3, 10),
    "answers of checkpoints": answered(
        pl.concat([answers("run_name", "doc_id", "is_correct", "task").with_columns(Step=pl.lit(k)) for k in (0, 100)]),
        6,
        10,
    ),
    "a gold answer called correct": answered(
        answers("model", "id", "is_correct").with_columns(correct=pl.lit("A")), 3, 10
    ),
    "HumanEval's samples": answered(answers("model", "task_id", "passed").with_columns(sample_id=pl.lit(0)), 3, 10),
    "ratings are no answers": asked(answers("model", "question_id", "score", right=(8, 3)), "is not an answer"),
    "flags beside items": answered(
        pl.DataFrame({"model": ["a", "b"], "is_chat": [1, 0], "params_b": [7, 13], "i1": [1, 0], "i2": [0, 0]}),
        2,
        2,
        ignored={"is_chat", "params_b"},
    ),
    "answers with two scores": asked(
        answers("model", "doc_id", "acc").with_columns(exact_match=1 - pl.col("acc")),
        "exact_match, acc may all say whether an answer is right. Rename the one to use to correct",
    ),
    "a student per row": answered(
        pl.DataFrame(
            {"student": ["a", "b", "c"], "q1": [1, 0, 1], "q2": [0, 0, 1], "q3": [1, 1, 0], "score": [2, 1, 2]}
        ),
        3,
        3,
        ignored={"score"},
    ),
    "True and False in a wide table": answered(
        "model,q1,q2,q3\ngpt-x,True,False,TRUE\ngpt-y,False,False,True\n",
        2,
        3,
        file="wide.csv",
    ),
    "items per row": answered(
        pl.DataFrame({"question_id": ["a", "b", "c"], "gpt-4": [1, 1, 0], "claude-2": [1, 0, 0]}),
        2,
        3,
    ),
    "shares of items": answered(
        pl.DataFrame({"model": ["a", "b", "c"], **{f"item_{k}": [0.5, 1.0, 0.25 * (k % 4)] for k in range(6)}}),
        3,
        6,
    ),
    "no names at all": answered(pl.DataFrame({f"Item.{k}": [0, 1, 1, 0, k % 2] for k in range(4)}), 5, 4),
    # Real files.
    "Open LLM Leaderboard 1": scores(
        REAL / "scores/open_llm_leaderboard_v1.csv",
        (),
        None,
        None,
        ("arc", "hellaswag", "mmlu", "truthfulqa", "winogrande", "gsm8k"),
        ("params_b", "merged", "flagged"),
    ),
    "Open LLM Leaderboard 2": scores(
        REAL / "scores/open_llm_leaderboard_v2.csv",
        (),
        None,
        None,
        ("ifeval", "bbh", "math_lvl_5", "gpqa", "musr", "mmlu_pro"),
        ("params_b", "submitted"),
    ),
    "base models": scores(
        REAL / "scores/base_models_observational.csv",
        (),
        None,
        None,
        ("mmlu", "arc_c", "hellaswag", "winograd", "truthfulqa", "gsm8k", "xwinograd", "humaneval"),
        ("params_b", "tokens_t", "flops_1e21"),
    ),
    "Pythia": scores(
        REAL / "trajectories/pythia_zero_shot.csv",
        ("model",),
        "step",
        None,
        ("arc_challenge", "arc_easy", "lambada_openai", "logiqa", "piqa", "sciq", "winogrande", "wsc"),
    ),
    "LSAT6": answered(REAL / "classic/LSAT6.csv", 1000, 5),
    "LSAT7": answered(REAL / "classic/LSAT7.csv", 1000, 5),
    "SAT12": answered(REAL / "classic/SAT12_scored_key5.csv", 600, 32),
    "models of GSM8K": asked(
        REAL / "responses/gsm8k_leaderboard_models.csv", "full_score; a correlation needs at least 2"
    ),
    "a chart of nanoGPT": asked(
        REAL / "logs/trajectories/wandb/nanoGPT_wandb_export.csv",
        "train/loss; a correlation needs at least 2",
    ),
}


FRAMES = [name for name, case in CASES.items() if isinstance(case.source, pl.DataFrame)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_table_is_understood_or_asked_about(case, tmp_path):
    if isinstance(case.source, Path) and not case.source.exists():
        pytest.skip(f"{case.source.name} is not on this machine")
    source = case.write(tmp_path)
    if case.question is not None:
        with pytest.raises(InputError, match=case.question):
            correlate(open_source(source, **case.options))
        return
    understood, whole = infer_columns(read_table(source), **case.options), open_source(source, **case.options)
    assert understood.kind is case.kind
    assert case.ignored <= understood.reading.left_out.keys()
    assert len(whole.reading.lines()) <= 2
    if case.kind is Kind.ANSWERS:
        assert isinstance(whole, Study)
        assert whole.matrix.shape == case.shape
        assert whole.answered.all()
        return
    assert isinstance(whole, ScoreTable)
    assert (understood.by, understood.order) == (case.by, case.order)
    # Names are shown without what all of them begin or end with.
    original = {short: name for name, short in understood.renamed.items()}
    assert tuple(original.get(name, name) for name in understood.controls) == case.controls
    assert {original.get(name, name) for name in understood.testsets} == case.testsets
    parts = (whole.by, whole.order, whole.controls, whole.testsets)
    assert parts == (understood.by, understood.order, understood.controls, understood.testsets)
    assert {*case.by, *whole.controls, *whole.testsets} <= {*whole.frame.columns}


def test_a_state_of_a_trainer_is_read_as_scores_of_checkpoints(tmp_path):
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps({"best_metric": None, "global_step": 60, "log_history": history()}))
    opened = open_source(path)
    assert (opened.by, opened.order, opened.controls) == (("run",), "step", ("mnli",))
    assert set(opened.testsets) == {"hans", "anli"}


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FRAMES), st.integers(0, 2**32 - 1))
def test_the_order_of_rows_and_columns_does_not_matter(name, seed):
    case, generator = CASES[name], np.random.default_rng(seed)
    frame = case.source.select(generator.permutation(case.source.columns).tolist())
    frame = frame[generator.permutation(frame.height)]
    if case.question is not None:
        with pytest.raises(InputError):
            correlate(open_source(frame, **case.options))
        return
    plain, mixed = (
        infer_columns(read_table(case.source), **case.options),
        infer_columns(read_table(frame), **case.options),
    )
    assert (mixed.kind, mixed.by, mixed.order, mixed.controls) == (plain.kind, plain.by, plain.order, plain.controls)
    assert set(mixed.testsets) == set(plain.testsets)
    assert dict(mixed.reading.left_out) == dict(plain.reading.left_out)
    assert mixed.reading.summary.split(";")[0] == plain.reading.summary.split(";")[0]


def test_rows_that_complete_each_other_are_one_checkpoint():
    settled = open_source(CASES["W&B steps and the trainer's"].source)
    assert settled.frame.height == LOGGED.height
    assert settled.frame.equals(open_source(LOGGED).frame.rename({"Step": "train/global_step"}))


def test_the_lines_say_what_was_taken_for_what():
    assert open_source(LOGGED).reading.lines() == (
        "3 runs (run_name) x 8 steps (Step); in-domain: mnli; test sets: 3 (hans, anli, scitail)",
        "ignored: sparsity (not known as a score), train/loss (training), eval/loss (loss), train/learning_rate, "
        "lora_dropout (not a score), _timestamp, _runtime (time); names are shortened (eval/mnli_acc is mnli); wrong? "
        "--by, --order, --control, --testsets",
    )
    settled = open_source(LOGGED, by="run_name", order="Step", control=EVAL[0], testsets=EVAL[1:])
    assert settled.reading.lines() == (), "everything was given"
    roles = infer_columns(read_table(LOGGED)).reading.roles
    assert (roles["run_name"], roles["Step"], roles["eval/hans_acc"]) == (Role.RUN, Role.ORDER, Role.SCORE)


def test_what_the_user_says_counts():
    frame = runs(names=("mnli", "hans", "anli", "rte")).with_columns(model=pl.lit("m"), epoch=pl.col("step") // 100)
    settled = open_source(frame, by="model,run", order="epoch", control="rte", testsets="h*,mnli")
    assert (settled.by, settled.order, settled.controls) == (("model", "run"), "epoch", ("rte",))
    assert settled.testsets == ("hans", "mnli")
    rows = open_source(frame, by="none", order="none", control="none")
    assert (rows.by, rows.order, rows.controls) == ((), None, ())
    assert rows.frame.height == frame.height
    for option in ("by", "order", "control", "testsets"):
        with pytest.raises(InputError, match=r"there is no column 'anly'.*Did you mean anli"):
            open_source(frame, **{option: "anly"})
