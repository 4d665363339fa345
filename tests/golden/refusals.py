"""Small inputs that breadth refuses: a title, what is typed (a command, or Python after ``>>>``), and its files.

The messages are in texts/refusals.txt.
"""

import gzip
import io
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np

from .small_inputs import ANSWERS, SCORES, alone, append, changed, npz, replaced, trainer_state, write_matrices
from .texts import write_answers
from .tiny_logs import (
    dump_lines,
    write_alpaca_eval,
    write_eee,
    write_helm,
    write_inspect,
    write_lighteval,
    write_lm_eval,
    write_olmes,
    write_openai_evals,
    write_opencompass,
    write_swe_bench,
    write_trainer_states,
)

REFUSALS = {}


def refused(title, typed, files=None):
    """Add an input that is refused."""
    assert title not in REFUSALS, title
    REFUSALS[title] = (typed, files or {})


# Files of tables

CELLS = {
    "an empty file": ("empty.csv", ""),
    "a header alone": ("header.csv", "a,b\n"),
    "a row that was cut off": ("cut.csv", "a,b,c\n1,2,3\n4,5"),
    "a row that is too long": ("long.csv", 'a,b\n1,"2\n"\n4,5,6\n'),
    "a title above the header": ("title.csv", "Our results,,\na,b,c\n1,2,3\n"),
    "a comment above the header": ("comment.csv", "# made in May\na,b,c\n1,2,3\n"),
    "text in UTF-16 that was cut off": ("utf16.csv", "a,b\n1,2\n".encode("utf-16")[:-1]),
    "text in Latin-1": ("latin.csv", "a,b\n1,é\n".encode("latin-1")),
    "Parquet that is none": ("bad.parquet", b"PAR1 not really"),
    "NPZ that was cut off": ("bad.npz", b"PK\x03\x04 cut off"),
    "JSON lines that were cut off": ("bad.jsonl", '{"a": 1}\n{"a": '),
    "JSON that was cut off": ("bad.json", '[{"a": 1}, {"a": '),
    "JSON that is no table": ("columns.json", '{"columns": 3, "data": [[1]]}'),
    "JSON without rows": ("empty.json", "[]"),
    "Markdown without a table": ("text.md", "# No table\n"),
    "Markdown with two tables": ("two.md", "|a|\n|--|\n|1|\n\n|b|\n|--|\n|1|\n"),
    "a spreadsheet": ("table.xlsx", "x"),
    "JSON that is nested too deep": ("nested.json", "[" * 3000 + "]" * 3000),
    "JSON lines that are nested too deep": ("nested.jsonl", '{"a":' * 1000 + "1" + "}" * 1000),
    "JSON with a column per row": ("keys.json", json.dumps([{f"k{k}": 1} for k in range(10_000)])),
    "an array that would fill the memory": ("bomb.npz", npz(R=np.zeros((10_000, 10_000), np.int8))),
    "text that would fill the memory": ("bomb.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 20_000_000, 1)),
    "too many columns": ("wide.csv", ",".join(f"c{k}" for k in range(100_001)) + "\n"),
    "a column called like a pattern": ("pattern.csv", "^x$,y\n1,2\n"),
    "a column with a very long name": ("long-name.csv", "x" * 20_000 + ",y\n1,2\n"),
    "an array without names": ("unnamed.npz", npz(S=np.eye(3))),
    "an NPZ file without a matrix": ("vector.npz", npz(x=np.arange(3))),
    "an NPZ file with two matrices": ("two.npz", npz(R=np.eye(3), Q=np.eye(3))),
    "text instead of numbers in an array": ("text.npz", npz(R=np.eye(3).astype(str), items=["a", "b", "c"])),
    "names in an array that are not unique": ("twice.npz", npz(R=np.eye(3), items=["a", "a", "c"])),
}
for title, (name, content) in CELLS.items():
    refused(title, f"correlate {name}", {name: content})


def encrypted():
    content = bytearray(npz(R=np.ones((3, 4))))
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


refused("an archive that is encrypted", "correlate encrypted.npz", {"encrypted.npz": encrypted()})
refused(
    "an array of objects, which can run code",
    "correlate objects.npz",
    {"objects.npz": npz(R=np.eye(3), items=np.array(["a", None, 3], dtype=object))},
)
refused("a file that is not there", "correlate none.csv")
refused("a pattern that fits nothing", "correlate 'runs/*.csv'")
refused("a device instead of a file", "correlate zero.csv", {"zero.csv": lambda path: path.symlink_to("/dev/zero")})
refused("a frame with columns of one name", ">>> breadth.correlate(pd.DataFrame([[1, 2, 3]], columns=['x', 'x', 'y']))")
refused("something that is no table", ">>> breadth.correlate([1, 2])")
refused(
    "a column of lists",
    ">>> breadth.correlate(pl.DataFrame({'x': [[1.0], [2.0]], 'y': [1, 2], 'z': [1, 2]}), control='x')",
)
refused(
    "an infinite number",
    ">>> breadth.correlate(pl.DataFrame({'x': [1.0, np.inf], 'y': [1, 2], 'z': [1, 2]}), control='x')",
)

# Tables of scores

for title, options in {
    "a control that is not there": "--control mlni",
    "a group that is not there": "--control mnli --by runs",
    "an order that is not there": "--control mnli --order stpe",
    "a test set that is not there": "--control mnli --testsets hans,nothing",
    "a test set that is the control as well": "--control mnli --testsets hans,mnli",
    "a single test set": "--control mnli --testsets hans",
    "a key as a score": "--control step --by run --order step",
    "steps of several runs without the runs": "--control mnli --order step --by none",
    "no column that is known to be in-domain": "--testsets hans,rte,mnli",
    "no such adjustment": "--control mnli --adjust quadratic",
    "no such interval": "--control mnli --ci wide",
    "no such correlation": "--control mnli --method kendall",
    "no such score": "--control mnli --score area",
    "a score of single answers from a table of scores": "--control mnli --score auc",
    "a loss that is not there": "--control mnli --lower-is-better los",
    "two options that exclude each other": "--control mnli --robust --method spearman",
    "numbers of items without a number": "--control mnli --item-counts hans",
    "a column for both groups and order": "--control mnli --by step --order step",
    "a table of an unknown format": "--control mnli --out x.doc",
    "a figure of an unknown format": "--control mnli --figure x.gif",
    "a table in a directory that is not there": "--control mnli --out nowhere/x.csv",
}.items():
    refused(title, f"correlate scores.csv {options}", {"scores.csv": SCORES})
refused("a checkpoint that occurs twice", "correlate scores.csv", {"scores.csv": SCORES + "b,1,0.5,0.1,0.5\n"})
refused(
    "a word among numbers",
    "correlate scores.csv --control mnli",
    {"scores.csv": "run,mnli,hans,rte\na,0.1,0.2,0.3\nb,0.1,oops,0.3\nc,0.1,0.2,0.3\n"},
)
refused(
    "a checkpoint without a step", "correlate scores.csv --control mnli --by run --order step",
    {"scores.csv": SCORES.replace("b,0", "b,")},
)  # fmt: skip
refused(
    "a test set with the name of a key",
    "correlate scores.csv --control mnli --by run",
    {"scores.csv": "run,seed,testset,score\na,0,mnli,0.1\na,0,seed,0.2\nb,0,mnli,0.1\nb,0,seed,0.2\n"},
)
refused("scores where answers are needed", "calibrate scores.csv", {"scores.csv": SCORES})
refused(
    "scores of models where answers are needed",
    "calibrate scores.csv",
    {"scores.csv": "model,arc,mmlu,gsm8k\na,0.312,0.512,0.712\nb,0.334,0.556,0.778\nc,0.391,0.592,0.793\n"},
)

# Answers

MATRIX = "model,a,b,c\nm1,1,0,\nm2,0,1,1\n"
for title, text in {
    "an answer that is none": ANSWERS.replace("m2,b,1", "m2,b,3"),
    "an answer that is given twice": ANSWERS + "m1,a,1\n",
    "an answer without a subject": ANSWERS.replace("m2,a", ",a"),
    "an answer without an item": ANSWERS.replace("m2,a", "m2,"),
    "answers without a column of items": "subject,correct\nm1,1\nm2,0\n",
    "a table in which nothing is an answer": "model,name\nm,x\n",
    "a subject with two rows of answers": MATRIX + "m1,1,1,1\n",
    "subjects with several rows of answers, as checkpoints have": "model,step,a,b\nm,0,0.3,1\nm,10,0.4,0\nn,0,0.5,1\n",
    "a word among answers": MATRIX.replace("1,0,", "wrong,0,"),
}.items():
    refused(title, "calibrate answers.csv", {"answers.csv": text})
for title, code in {
    "numbers that are no answers": "breadth.open(np.array([[1, 2], [0, 1]]))",
    "an array of another shape": "breadth.open(np.zeros(3))",
    "an array of text": "breadth.open(np.array([['x']]))",
}.items():
    refused(title, f">>> {code}")
for title, arrays in {
    "more names of subjects than subjects": {"models": ["m1", "m2", "m3", "m4"]},
    "a name of two items": {"items": ["a", "a", "b"]},
    "a name with characters that do not exist": {"items": np.array([0x110000, 97, 98], np.uint32).view("<U1")},
}.items():
    refused(title, "calibrate r.npz", {"r.npz": npz(R=np.array([[1, 0, -1], [0, 1, 1]], np.int8), **arrays)})
refused("an empty directory", "calibrate empty", {"empty": Path.mkdir})

for title, (name, text) in {
    "a matrix of other subjects": ("more.csv", "model,z\nm7,1\nm8,0\n"),
    "a matrix beside others that names no subjects": ("more.csv", "z\n1\n0\n"),
    "two matrices of one test set": ("snli.tsv", "model\tz\nm1\t1\n"),
    "points beside matrices": ("more.csv", "model,points\nm1,7\nm2,13\n"),
    "a table without answers beside matrices": ("more.csv", "model,size\nm1,7\nm2,13\n"),
    "a subject with two rows in one of several matrices": ("more.csv", "model,z\nm1,1\nm1,0\n"),
    "an empty file beside matrices": ("more.csv", ""),
}.items():
    refused(title, "calibrate sets", {"sets": write_matrices, f"sets/{name}": text})
refused(
    "clusters that are not there", "compare answers.csv m1 m2 --cluster pasage",
    {"answers.csv": "subject,item,correct,passage\nm1,a,1,x\nm1,b,0,y\nm2,a,0,x\nm2,b,1,y\n"},
)  # fmt: skip
for title, options in {
    "a model that is not there": "m1 m3",
    "one model to compare": "m1",
    "test sets for a threshold that is not given": "m1 m2 --on a",
    "a margin for a ranking": "--all --margin 0.1",
}.items():
    refused(title, f"compare answers.csv {options}", {"answers.csv": ANSWERS})
for title, options in {
    "a chance above 1": "--chance 25",
    "a single level": "--levels 1",
    "priors that are not there": "--priors nothing.json",
    "an anchor that is not there": "--anchor nothing.parquet",
    "an item for a curve that is not there": "--curves zz --figure x.svg",
    "no such model of answers": "--model 9pl",
    "no such test set": "--testset awey",
}.items():
    refused(title, f"calibrate answers.npz {options}", {"answers.npz": write_answers})
refused("answers instead of a calibration", "difficulty levels answers.csv", {"answers.csv": ANSWERS})
refused(
    "answers to other items than the calibrated ones",
    "ability answers.csv --with calibration.csv",
    {"answers.csv": ANSWERS, "calibration.csv": "item,difficulty,slope\nx,0.5,1\ny,-0.5,1\n"},
)
refused(
    "more items than there are",
    "difficulty sample items.csv --difficulty hard --n 9",
    {"items.csv": "item,hard\na,1\nb,2\nc,3\n"},
)

# Logs of other tools


def refused_import(title, write, options="", name="logs"):
    refused(title, f"import {name} --dry-run {options}".strip(), {name: write})


def conflict(folder):
    """Two runs of one model whose answers differ."""
    write_lm_eval(folder)
    for path in sorted(folder.glob("org__one/*2026-01-01*")):
        text = path.read_text().replace('"acc": 1.0', '"acc": 0.0', 1)
        path.with_name(path.name.replace("2026-01-01", "2026-02-01")).write_text(text)


def two_metrics(folder):
    """Answers of one model are scored by another metric."""
    write_lm_eval(folder)
    for path in folder.glob("org__two/samples_*"):
        path.write_text(path.read_text().replace("acc", "f1"))


def percentages(folder):
    write_lm_eval(folder)
    for path in folder.glob("*/samples_*"):
        path.write_text(
            path.read_text().replace('"acc": 1.0', '"acc": 85.0').replace('"acc_norm": 1.0', '"acc_norm": 7')
        )


def damaged(folder):
    """The last line of two files is cut off."""
    write_lm_eval(folder)
    for path in folder.glob("*/samples_*"):
        path.write_text(path.read_text()[:-20])


refused("no logs", "import empty --dry-run", {"empty": Path.mkdir})
refused("a directory of something else", "import notes --dry-run", {f"notes/{k}.md": "text" for k in range(5)})
refused("logs that are not there", "import nowhere --dry-run")
refused("an import without a target", "import logs", {"logs": write_lm_eval})
refused("an import into a file", "import logs --into answers", {"logs": write_lm_eval, "answers": "x"})
refused("an import among other files", "import logs --into own", {"logs": write_lm_eval, "own/thesis.tex": ""})
refused("compressed logs", "import s.jsonl.gz --dry-run", {"s.jsonl.gz": gzip.compress(b'{"doc_id": 0}')})
refused("a table of scores as a log", "import s.csv --dry-run", {"s.csv": "model,mnli,hans\na,0.5,0.6\n"})
refused("scores of a trainer as answers", "import runs --dry-run", {"runs": write_trainer_states})
for title, options in {
    "a metric that no log has": "--metric acc_nrm",
    "no such way to count epochs": "--epochs first",
    "no such choice of logs": "--keep oldest",
    "no such tool": "--format helmet",
    "a tool that wrote no logs": "--format helm",
    "a pattern of steps that is none": "--step-from '('",
    "a pattern of steps without digits": "--step-from step",
    "a subject without a path": "--subject base",
    "a subject at a path without logs": "--subject base=nowhere",
    "an option for trajectories": "--out x.csv",
}.items():
    refused_import(title, write_lm_eval, options)
refused_import("logs that hold different answers", conflict)
refused_import("logs with different metrics", two_metrics)
refused_import("answers that are percentages", percentages)
refused_import("percentages that are asked for", percentages, "--metric acc")
refused_import("logs that were cut off", damaged)


def drop_scores(log):
    for sample in log["samples"]:
        sample["scores"] = None


def fail_samples(log):
    for sample in log["samples"]:
        sample |= {"scores": {}, "error": {"message": "x"}}


def invalidate(log):
    for sample in log["samples"]:
        sample["invalidation"] = {"author": "me"}


def score_by_lists(log):
    for sample in log["samples"]:
        sample["scores"] = {"f1": {"value": [1, 2]}}


for title, change in {
    "Inspect: no model": lambda log: log["eval"].pop("model"),
    "Inspect: a task without a name": lambda log: log["eval"].update(task="/"),
    "Inspect: a score of the results that is none": lambda log: log["results"].update(scores=[1]),
    "Inspect: samples that are no list": lambda log: log.update(samples={"a": 1}),
    "Inspect: a sample without an id": lambda log: log["samples"][1].pop("id"),
    "Inspect: an epoch that is no number": lambda log: log["samples"][1].update(epoch="1"),
    "Inspect: scores that are no object": lambda log: log["samples"][2].update(scores=[1]),
    "Inspect: a score that is no object": lambda log: log["samples"][2]["scores"].update(match=1),
    "Inspect: all samples failed": fail_samples,
    "Inspect: no scores": drop_scores,
    "Inspect: all samples are invalid": invalidate,
    "Inspect: scores that are lists": score_by_lists,
}.items():
    refused_import(title, alone(changed(write_inspect, "*org-one.json", change), "*org-one.json"), name="log.json")
refused_import(
    "Inspect: a log that was cut off",
    alone(replaced(write_inspect, "*one.json", "\n  ]\n}"), "*one.json"),
    name="log.json",
)


def write_cut_archive(path):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": {}, "plan": {}}))
    path.write_bytes(content.getvalue()[:-20])


refused("an archive that was cut off", "import log.eval --dry-run", {"log.eval": write_cut_archive})

for title, row in {
    "HELM: a row without an item": {},
    "HELM: an item that is no text": {"instance_id": 1, "stats": []},
    "HELM: a row without scores": {"instance_id": "a"},
    "HELM: a score without a name": {"instance_id": "a", "stats": [{}]},
}.items():
    refused_import(title, changed(write_helm, "*one/per_instance_stats.json", lambda rows, row=row: rows.append(row)))
for title, (file, text) in {
    "HELM: a specification that is a list": ("run_spec.json", "[]"),
    "HELM: a specification without a model": ("run_spec.json", '{"name": "gsm"}'),
    "HELM: a statistic that is a number": ("stats.json", "[1]"),
}.items():
    refused(title, "import logs --dry-run", {"logs": write_helm, f"logs/gsm:model=org_one/{file}": text})


def perturb(rows):
    for row in rows:
        row["perturbation"] = {"name": "typos"}


def leave_numbers(rows):
    for row in rows:
        row["stats"] = [stat for stat in row["stats"] if stat["name"]["name"] == "num_bytes"]


def write_one_helm(change):
    def write(folder):
        changed(write_helm, "*one/per_instance_stats.json", change)(folder)
        shutil.rmtree(folder / "gsm:model=org_two")

    return write


refused_import("HELM: all instances are perturbed", write_one_helm(perturb))
refused_import("HELM: no score that is right or wrong", write_one_helm(leave_numbers))
refused_import("HELM: a split that is not there", write_helm, "--split valid")

for title, tasks in {
    "EvalPlus: a task that is a number": {"HumanEval/0": 3},
    "EvalPlus: a sample that is a number": {"HumanEval/0": [3]},
    "EvalPlus: a sample without a status": {"HumanEval/0": [{"solution": "x"}]},
    "EvalPlus: a status that is not known": {"HumanEval/0": [{"base_status": "crashed"}]},
}.items():
    results = {"date": "2026-01-01 10:00", "hash": "abc", "eval": tasks}
    refused(title, "import m_eval_results.json --dry-run", {"m_eval_results.json": json.dumps(results)})

for title, change in {
    "SWE-bench: a list of numbers": lambda report: report.update(error_ids=[1]),
    "SWE-bench: an instance in two lists": lambda report: report.update(resolved_ids=report["unresolved_ids"]),
    "SWE-bench: counts alone": lambda report: report.pop("resolved_ids"),
}.items():
    one = alone(changed(write_swe_bench, "reports/org__one*", change), "reports/org__one*")
    refused_import(title, one, name="m.r.json")
refused(
    "SWE-bench: an outcome that is a word",
    "import eval_results.json --dry-run",
    {"eval_results.json": '{"instance_a__a-1": true, "instance_b__b-2": "yes"}'},
)
refused(
    "SWE-bench: resolved instances alone",
    "import evaluation --dry-run",
    {
        "evaluation/verified/20240620_agent/results/results.json": (
            '{"no_generation": ["a__a-3"], "no_logs": [], "resolved": ["a__a-1"]}'
        )
    },
)
refused_import(
    "OLMES: a line without metrics",
    lambda folder: (write_olmes(folder), append(folder, "org__one/*predictions.jsonl", '{"doc_id": 1}\n')),
)

refused_import(
    "OpenCompass: details that are a number",
    alone(
        changed(write_opencompass, "*/results/org-one/*.json", lambda content: content.update(details=3)),
        "*/results/org-one/*.json",
    ),
    name="results/org-one/ARC-c.json",
)


def forget_correct(content):
    for detail in content["details"].values():
        if isinstance(detail, dict):
            detail.pop("correct")
    content |= {"bleu": 12.0}
    content.pop("accuracy")


refused_import(
    "OpenCompass: details that do not say what is right",
    alone(changed(write_opencompass, "*/results/org-one/*.json", forget_correct), "*/results/org-one/*.json"),
    name="ARC-c.json",
)
refused_import(
    "every_eval_ever: a line without a model",
    lambda folder: (write_eee(folder), append(folder, "*0_samples.jsonl", '{"sample_id": "q"}\n')),
)


def write_eee_samples(change):
    """Samples of one model alone, each changed, with or without the file that describes them."""

    def write(folder):
        write_eee(folder)
        for path in folder.glob("*1*.json*"):
            path.unlink()
        (path,) = folder.glob("*0_samples.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            change(row)
        dump_lines(path, rows)

    return write


refused_import("every_eval_ever: no scores", write_eee_samples(lambda row: row.update(evaluation={})))
refused_import("every_eval_ever: points", write_eee_samples(lambda row: row["evaluation"].update(score=73.5)))
refused_import(
    "every_eval_ever: errors instead of scores",
    changed(
        write_eee_samples(lambda row: None),
        "*0.json",
        lambda about: about["evaluation_results"][0]["metric_config"].update(lower_is_better=True),
    ),
)


def judged(**changes):
    def change(rows):
        rows[1] |= changes

    return changed(write_alpaca_eval, "org-one/*.json", change)


refused_import("AlpacaEval: a preference that is none", judged(preference=3))
refused_import("AlpacaEval: an instruction that is a list", judged(instruction=["q"]))
refused_import("AlpacaEval: no model", judged(generator_2=None))
refused_import(
    "OpenAI evals: no model",
    replaced(write_openai_evals, "org-one.jsonl", '"completion_fns": ["org/one"], '),
)
refused(
    "OpenAI evals: no matches",
    "import log.jsonl --dry-run",
    {
        "log.jsonl": '{"spec": {"completion_fns": ["m"], "eval_name": "t", "run_id": "r", "created_at": "x"}}\n'
        '{"run_id": "r", "event_id": 0, "sample_id": "a", "type": "sampling", "data": {"prompt": "q"}}\n'
    },
)
refused_import(
    "lighteval: details that are damaged",
    lambda folder: (write_lighteval(folder), damage(folder, "details/org/one/*/*.parquet")),
)


def damage(folder, name):
    (path,) = sorted(folder.glob(name))
    path.write_bytes(path.read_bytes()[:4] + bytes(500) + path.read_bytes()[504:])


for title, text in {
    "a matrix of chosen options": "model,Item.1,Item.2\na,1,5\nb,4,3\nc,2,1\n",
    "a matrix of letters": "model,q1,q2\na,A,B\nb,B,D\nc,C,A\n",
    "a matrix of scores of test sets": "model,arc,mmlu,gsm8k\na,0.312,0.512,0.712\nb,0.334,0.556,0.778\n",
    "a matrix with a subject twice": "model,q1,q2\na,1,0\na,0,1\n",
    "a matrix with an answer that is none": "subject,item,correct\ns,a,1\ns,b,7\n",
}.items():
    refused(title, "import t.csv --dry-run", {"t.csv": text})

# Scores of checkpoints

refused("no scores of checkpoints", "import-scores empty --dry-run", {"empty": Path.mkdir})
refused("something else than checkpoints", "import-scores notes.txt --dry-run", {"notes.txt": "nothing"})
refused("checkpoints that are not there", "import-scores nowhere --dry-run")
refused("trajectories without a path", "import-scores --dry-run")
refused("trajectories without a target", "import-scores runs", {"runs": write_trainer_states})
for title, options in {
    "trajectories into a directory": "--dry-run --into x",
    "trajectories without texts": "--dry-run --no-texts",
    "trajectories into a directory that is not there": "--out nowhere/at/all.csv",
    "a metric that no checkpoint has": "--dry-run --metric acuracy",
    "a pattern of steps of checkpoints that is none": "--dry-run --step-from '('",
}.items():
    refused(title, f"import-scores runs {options}", {"runs": write_trainer_states})
for title, text in {
    "a state without steps": trainer_state({"step": "one", "eval_x_acc": 0.5}),
    "a state with losses alone": trainer_state({"step": 1, "epoch": 1.0, "eval_loss": 2.5}),
    "a state that was cut off": '{"global_step": 1,\n"log_history": [{"step": 1},',
}.items():
    refused(title, "import-scores trainer_state.json --dry-run", {"trainer_state.json": text})
for title, content in {
    "a chart of W&B with a short row": '"Step","a - acc","b - acc"\n"0","0.2","0.3"\n"1","0.5"\n',
    "a chart of W&B with a word as a step": '"Step","a - acc","b - acc"\n"0","0.2","0.3"\n"Monday","1","2"\n',
    "a chart of W&B that is no text": b'"Step","a - acc"\n"0","\xff"\n',
}.items():
    refused(title, "import-scores w.csv --dry-run", {"w.csv": content})
refused(
    "a database of MLflow that is damaged",
    "import-scores mlflow.db --dry-run",
    {"mlflow.db": b"SQLite format 3\x00" + bytes(500)},
)

# Exports and reports

for title, options in {
    "an export to an unknown format": "--to xlsx --out a.xlsx",
    "an export whose name has another ending": "--to csv --out a.parquet",
    "an export without an ending": "--to npz --out a",
    "an export into a directory that is not there": "--to npz --out none/a.npz",
    "an export among other files": "--to eee --out own",
    "an export into a file": "--to csv --out answers.csv/a",
}.items():
    refused(title, f"export answers.csv {options}", {"answers.csv": ANSWERS, "own/data/mine.txt": "mine"})
for title, options in {
    "no such kind of page": "--format pdf",
    "a page in a directory that is not there": "--out nowhere/at/all.html",
    "a page of an unknown format": "--out r.docx",
}.items():
    refused(title, f"report answers.csv {options}", {"answers.csv": ANSWERS})
refused("a report on nothing", "report empty", {"empty": Path.mkdir})
refused("a report on what is not there", "report nowhere")
refused("a report on weights", "report model", {"model/model.safetensors": "x"})
refused("a page of a file", "view file", {"file": ""})
refused("a demo among other files", "demo --into own --no-open", {"own/study/notes.txt": "mine"})

# A user's own words

for title, text in {
    "words: no such section": "[column]\nrun = []",
    "words: no such key": "[columns]\nsteps = ['x']",
    "words: a word instead of a list": "[columns]\nrun = 'x'",
    "words: a number instead of a word": "[columns]\nrun = [3]",
    "words: a word instead of a number": "[items]\nhans = 'many'",
    "words: half an item": "[items]\nhans = 0.5",
    "words: less than no items": "[items]\nhans = -3",
    "words: truth instead of a number": "[items]\nhans = true",
    "words: a model without end": "[model_sizes]\nm = inf",
    "words: a pattern that is none": "[patterns]\ntime = ['(']",
    "words: a number instead of a section": "scores = 3",
    "words: text that was cut off": "[scores]\nlosses = [",
}.items():
    refused(title, ">>> load_vocabulary(Path('mine.toml'))", {"mine.toml": text})
refused("words that are not there", ">>> load_vocabulary(Path('missing.toml'))")
