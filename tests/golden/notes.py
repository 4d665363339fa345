"""Small inputs that breadth reads and says something about on standard error, where notes and warnings go.

The words are in texts/notes.txt.
"""

import json
import shutil

import numpy as np

from .small_inputs import append, changed, npz, replaced, trainer_state, write_file, write_matrices
from .tiny_logs import (
    write_alpaca_eval,
    write_eee,
    write_helm,
    write_inspect,
    write_lm_eval,
    write_olmes,
    write_openai_evals,
    write_opencompass,
    write_swe_bench,
    write_trainer_states,
)

NOTES = {}


def noted(title, typed, files):
    """Add an input of which something is said."""
    assert title not in NOTES, title
    NOTES[title] = (typed, files)


# Tables

noted(
    "columns that are recognised",
    "correlate scores.csv --by none --order none --adjust linear",
    {
        "scores.csv": "run,step,mnli,hans,rte\n"
        + "".join(
            f"r,{k},{0.5 + 0.01 * (7 * k % 11)},{0.5 + 0.03 * (k % 5)},{0.4 + 0.02 * (5 * k % 7)}\n" for k in range(12)
        )
    },
)
noted(
    "columns with the names of another tool",
    "calibrate answers.csv",
    {
        "answers.csv": "model_name,task,question_id,is_correct\n"
        + "".join(f"m{k},nli,q{j},{(k * j + k // 3 + j) % 2}\n" for k in range(12) for j in range(6))
    },
)
noted(
    "columns that are left out, and names that are shortened",
    "correlate logged.csv --adjust linear",
    {
        "logged.csv": "run_name,Step,eval/mnli_acc,eval/hans_acc,eval/anli_acc,eval/loss,train/loss,"
        "learning_rate,sparsity\n"
        + "".join(
            f"{run},{step},{0.5 + step / 40 + 0.01 * (step * k % 3)},{0.4 + step / 50 + 0.01 * (step % 2)},"
            f"{0.3 + step / 60 + 0.02 * (step % 3)},{2 - step / 9},{2 - step / 8},0.001,{k}\n"
            for k, run in enumerate("abc")
            for step in range(12)
        )
    },
)
noted(
    "a matrix that is turned",
    ">>> hear(breadth.open('r.npz'))",
    {"r.npz": npz(R=np.eye(3, 2, dtype=np.int8), models=["m1", "m2"], items=["a", "b", "c"])},
)
noted(
    "a matrix with models as columns",
    ">>> hear(breadth.open('t.csv'))",
    {"t.csv": "prompt,meta-llama/Llama-3-8B,Qwen/Qwen2-7B\nq1,1,0\nq2,0,1\n"},
)
noted(
    "matrices of other subjects",
    ">>> hear(breadth.open('sets'))",
    {"sets": write_matrices, "sets/more.csv": "model,y,z\nm1,1,0\nm3,0,1\n"},
)
noted(
    "matrices that name no subjects",
    ">>> hear(breadth.open('sets'))",
    {
        "sets/a.npz": npz(R=np.ones((4, 2), np.int8), testset=["a1"] * 2),
        "sets/b.npz": npz(R=np.ones((4, 3), np.int8), testset=["b1"] * 3),
    },
)
noted(
    "shares among percentages",
    "correlate scores.csv --control mnli --by none --order none --adjust linear",
    {
        "scores.csv": "model,mnli,hans,rte\n"
        + "".join(f"m{k},{0.5 + 0.01 * (7 * k % 11)},{50 + 3 * k % 17},{40 + 5 * k % 13}\n" for k in range(12))
    },
)


def noted_import(title, write, options="", name="logs"):
    noted(title, f"import {name} --dry-run {options}".strip(), {name: write})


def overlapping(folder):
    """A second run of one model that answers some of the items again."""
    write_lm_eval(folder)
    for path in sorted(folder.glob("org__one/*2026-01-01*")):
        later = path.with_name(path.name.replace("2026-01-01", "2026-02-01"))
        shutil.copy(path, later)
        if later.name.startswith("samples"):
            later.write_text("".join(later.read_text().splitlines(keepends=True)[:3]))


def other_shots(folder):
    write_lm_eval(folder)
    write_lm_eval(folder / "five", shots=5)


def other_texts(folder):
    write_lm_eval(folder)
    for path in folder.glob("org__two/samples_*"):
        path.write_text(path.read_text().replace("Question 3", "Other question 3"))


def fail_and_invalidate(log):
    first, second = log["samples"][:2]
    first["error"] = {"message": "x"}
    second["invalidation"] = {"author": "me"}


def stages(folder):
    write_lm_eval(folder / "step3_evaluate")


noted_import(
    "a mean that differs from the stated one",
    replaced(write_lm_eval, "org__one/results*", '"acc,none": 0.6666666666666666', '"acc,none": 0.9'),
)
noted_import("two runs that share answers", overlapping)
noted_import("two settings of one test set", other_shots)
noted_import("other texts under the same names", other_texts)
noted_import("a directory that is called like a step", stages)
noted_import(
    "Inspect: failed and invalid samples",
    changed(
        write_inspect,
        "*one.json",
        fail_and_invalidate,
    ),
)
noted_import(
    "Inspect: a run that did not finish", changed(write_inspect, "*one.json", lambda log: log.update(status="started"))
)
noted_import("Inspect: an unknown version", changed(write_inspect, "*one.json", lambda log: log.update(version=9)))
noted_import(
    "Inspect: fewer samples than were counted",
    changed(write_inspect, "*one.json", lambda log: log["samples"].pop()),
)
noted_import("HELM: perturbed instances", write_helm)
noted_import(
    "HELM: an instance without scores",
    changed(write_helm, "*one/per_instance_stats.json", lambda rows: rows.pop(1)),
)
noted_import(
    "SWE-bench: a count that differs",
    changed(write_swe_bench, "reports/org__one*", lambda report: report.update(resolved_instances=1)),
)
noted_import(
    "OLMES: a missing file", lambda folder: (write_olmes(folder), next(folder.glob("org__one/*-metrics.json")).unlink())
)
noted_import(
    "every_eval_ever: fewer lines than stated, and an unknown version",
    lambda folder: (
        changed(
            write_eee,
            "*0.json",
            lambda about: about.update(
                detailed_evaluation_results={"total_rows": 9, "hash_algorithm": "sha256", "checksum": "0" * 64}
            ),
        )(folder),
        replaced(lambda _: None, "*0_samples.jsonl", '"schema_version": "0.3.0"', '"schema_version": "7.0"')(folder),
    ),
)
noted_import("AlpacaEval: a judgment that failed", write_alpaca_eval)
noted_import(
    "OpenAI evals: a sample that failed",
    lambda folder: (
        write_openai_evals(folder),
        append(
            folder,
            "org-one.jsonl",
            json.dumps(
                {"run_id": "r", "event_id": 9, "sample_id": "task.dev.9", "type": "error", "data": {"message": "x"}}
            )
            + "\n",
        ),
    ),
)
noted_import(
    "OpenCompass: a mean that differs",
    changed(write_opencompass, "*/results/org-one/*.json", lambda content: content.update(accuracy=75.0)),
)


def noted_trajectories(title, content, name):
    noted(title, f"import-scores {name} --dry-run", {name: content})


noted_trajectories("a step that was logged twice", write_trainer_states, "runs")
noted_trajectories(
    "other metrics in other runs",
    lambda folder: [
        write_file(
            folder / run / "trainer_state.json", trainer_state({"step": 1, "epoch": 1.0, f"eval_x_{metric}": 0.5})
        )
        for run, metric in (("a", "f1"), ("b", "f1"), ("c", "precision"))
    ],
    "runs",
)
noted_trajectories(
    "a chart of W&B over epochs, with minima and maxima",
    '"epoch","a - acc","a - acc__MIN","a - acc__MAX"\n"0.5","0.5","0.4","0.6"\n',
    "w.csv",
)
noted_trajectories(
    "a chart of W&B with two runs of one name", '"Step","a - acc","a - acc","b - acc"\n"0","0.1","0.2","0.3"\n', "w.csv"
)
for to in ("csv", "npz", "eee"):
    noted(
        f"what {to} does not hold",
        f"export answers.csv --to {to} --out out.{to}",
        {"answers.csv": "subject,testset,item,correct,margin,text\n007,one,a,0.5,0.5,Why?\n007,two,b,1,1.5,\n"},
    )
