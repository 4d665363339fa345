"""The small inputs on which every command says what it has to say: a function per file in texts/.

A function writes its inputs into the directory of a :class:`Terminal`, and runs the commands there. What no person
would write by hand is simulated, or written by tiny_logs.py.
"""

import os
import re
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

import breadth
from breadth.datasets import simulate_answers, simulate_scores

from .cases import large_study, levels_study, plain_study
from .tiny_logs import WRITERS, long_answers, write_lm_eval, write_trainer_states

TEXTS = {}

#: What a command prints that depends on the machine or on the release, and what stands for it.
MASKS = (
    (re.compile(r"\bbreadth " + re.escape(breadth.__version__)), "breadth <version>"),
    (re.compile(r"\babout \d+ (s|min|h \d+ min|h|days)\b"), "about <time>"),
)


@dataclass
class Terminal:
    """A terminal 100 columns wide, in a directory of its own, which keeps what was typed and what was said.

    ``kept`` is shared by all texts, for studies that take time to simulate.
    """

    forks: object
    kept: Path
    folder: Path
    said: list = field(default_factory=list)

    def run(self, line):
        """Run a command as it is typed, without its first word ``breadth``."""
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "COLUMNS": "100", "OMP_NUM_THREADS": "1"}
        # Where breadth looks for models and data sets: there are none.
        environment |= {"BREADTH_CACHE": str(self.folder / "cache"), "HF_HUB_OFFLINE": "1"}
        out = self.forks.ask(command=shlex.split(line), environment=environment, directory=str(self.folder))
        self.note(f"$ breadth {line}")
        self.note(out["printed"])
        for message in out["said"].splitlines():
            self.note(f"2> {message}")
        if out["code"] != 0:
            self.note(f"[exit code {out['code']}]")
        self.note("")

    def show(self, name):
        """Show a text that a command has written."""
        self.note(f"$ cat {name}")
        self.note((self.folder / name).read_text())
        self.note("")

    def note(self, text):
        # Tables end in spaces, which editors remove.
        self.said += [line.rstrip() for line in text.splitlines()] or [""]

    def text(self):
        """All that was said, without what differs from machine to machine."""
        text = "\n".join(self.said).strip() + "\n"
        text = text.replace(str(self.folder), "<work>")
        for pattern, instead in MASKS:
            text = pattern.sub(instead, text)
        return text

    def copy_study(self, make, name="study"):
        """A simulated study of cases.py, in the directory of the terminal."""
        return shutil.copytree(make(self), self.folder / name)

    def made(self, name, make):
        """A path below ``kept``, made by the first text that asks for it; cases.py makes its studies so."""
        path = self.kept / name
        if not path.exists():
            make(path)
        return path


def text(name):
    """Add a text; its name is that of the file."""

    def add(say):
        TEXTS[name] = say
        return say

    return add


# Scores


@text("correlate")
def correlate(terminal):
    """A study, a table whose columns are recognised, options that add words, and too little data."""
    terminal.copy_study(plain_study)
    scores = simulate_scores(runs=3, steps=21)
    scores.write_csv(terminal.folder / "scores.csv")
    wandb = {"run": "run_name", "step": "Step", "in_domain": "eval/mnli_acc", "negation": "eval/hans_acc"}
    wandb |= {"science": "eval/anli_acc", "numbers": "train/loss"}
    logged = scores.rename(wandb).drop("word_order", "formal_style", "coreference")
    logged.with_columns(_timestamp=1.7e9 + pl.col("Step")).write_csv(terminal.folder / "wandb.csv")
    scores.head(3).write_csv(terminal.folder / "few.csv")
    terminal.run("correlate study")
    terminal.run("correlate study --score auc --control bias")
    terminal.run("correlate scores.csv --windows 2 --out pairs.csv")
    terminal.run("correlate scores.csv --testsets negation,science,numbers --robust --lower-is-better science")
    terminal.run("correlate scores.csv --testsets negation,science --by none --order none --item-counts "
                 "in_domain=9000,negation=20000,science=20000")  # fmt: skip
    terminal.run("correlate wandb.csv")
    terminal.run("correlate few.csv --by none --order none")


@text("correlate-models")
def correlate_models(terminal):
    """A leaderboard: a row per model, which belong to families."""
    write_leaderboard(terminal.folder / "leaderboard.csv")
    terminal.run("correlate leaderboard.csv --adjust none")
    terminal.run("correlate leaderboard.csv --adjust none --cluster none --moderators size")


def write_leaderboard(path):
    """Scores of 24 models of six families on four test sets, of which one has nothing to do with the others."""
    generator = np.random.default_rng(7)
    ability = generator.normal(0, 0.08, 24)
    columns = {
        "model": [f"{family}-{size}b" for family in "abcdef" for size in (1, 3, 8, 70)],
        "family": [family for family in "abcdef" for _ in range(4)],
        "size": [size for _ in "abcdef" for size in (1, 3, 8, 70)],
    }
    for testset, weight in (("arc", 1.0), ("gsm8k", 0.8), ("hellaswag", 0.6), ("truthfulqa", 0.0)):
        scores = 0.6 + weight * ability + generator.normal(0, 0.02 + 0.06 * (weight == 0), 24)
        columns[testset] = scores.round(3)
    pl.DataFrame(columns).write_csv(path)


@text("stability")
def stability(terminal):
    terminal.copy_study(plain_study)
    simulate_scores(runs=3, steps=21).write_csv(terminal.folder / "scores.csv")
    simulate_scores(runs=3, steps=2).write_csv(terminal.folder / "few.csv")
    terminal.run("stability study")
    terminal.run("stability scores.csv --item-counts negation=2000,science=2000 --out fluctuation.csv")
    terminal.run("stability few.csv")


@text("scores")
def scores(terminal):
    terminal.copy_study(plain_study)
    long_answers().write_csv(terminal.folder / "few.csv")
    terminal.run("scores study --out scores.csv")
    terminal.run("scores few.csv")


# Answers


def write_answers(path, subjects=120, items=24, **options):
    """A matrix of simulated answers, as NPZ."""
    simulated = simulate_answers(subjects, items, **options)
    names = {"models": [f"m{k:03d}" for k in range(subjects)], "items": [f"q{k:02d}" for k in range(items)]}
    np.savez(path, R=simulated.matrix.astype(np.int8), **names)


def write_questions(path, items=24):
    """The items of the matrix, with texts of growing length."""
    sentence = "why does the river near the old mill freeze before the lake in a cold winter"
    words = sentence.split()
    rows = []
    for number in range(items):
        question = " ".join(words[: 3 + number % 12]) + "?"
        rows.append({"item": f"q{number:02d}", "question": question, "grade": 1 + number % 5})
    pl.DataFrame(rows).write_csv(path)


def calibrate_answers(terminal):
    """Answers, and their calibration by a command that is not part of the text."""
    write_answers(terminal.folder / "answers.npz")
    breadth.calibrate(terminal.folder / "answers.npz", model="2pl").save(terminal.folder / "calibration.parquet")


@text("calibrate")
def calibrate(terminal):
    """Answers of one ability; of two, with an item whose label is wrong; levels from a study; and too few answers."""
    write_answers(terminal.folder / "answers.npz")
    terminal.run("calibrate answers.npz --model 2pl --levels 4 --out calibration.parquet")
    terminal.run("calibrate answers.npz --stability --copies weigh")
    generator = np.random.default_rng(5)
    leaning = generator.normal(0, 1.5, (80, 1))
    chance = 1 / (1 + np.exp(-leaning * np.where(np.arange(20) % 2 == 0, 1, -1)))
    right = (generator.random(chance.shape) < chance).astype(np.int8)
    np.savez(terminal.folder / "leaning.npz", R=right)
    terminal.run("calibrate leaning.npz --model 2pl --chance 0.5")
    long_answers().write_csv(terminal.folder / "few.csv")
    terminal.run("calibrate few.csv")


@text("ability")
def ability(terminal):
    calibrate_answers(terminal)
    write_answers(terminal.folder / "new.npz", subjects=6)
    terminal.run("ability new.npz --with calibration.parquet --out abilities.csv")
    terminal.run("ability new.npz --with calibration.parquet --method wle")


@text("difficulty-levels")
def levels(terminal):
    calibrate_answers(terminal)
    terminal.run("difficulty levels calibration.parquet --n 4 --out levels.csv")


@text("difficulty-profile")
def profile(terminal):
    calibrate_answers(terminal)
    terminal.copy_study(levels_study)
    terminal.run("difficulty profile answers.npz --calibration calibration.parquet")
    terminal.run("difficulty profile answers.npz --calibration calibration.parquet --subjects m001,m002 --levels 4")
    terminal.run("difficulty profile study --subjects 'model-a-*/last'")


@text("difficulty-sample")
def sample(terminal):
    calibrate_answers(terminal)
    write_questions(terminal.folder / "questions.csv")
    terminal.run(
        "difficulty sample questions.csv --calibration calibration.parquet --strategy spiral --n 12 --out train.jsonl"
    )
    terminal.run("difficulty sample questions.csv --ease grade --strategy centred")


@text("difficulty-vs")
def difficulty_vs(terminal):
    calibrate_answers(terminal)
    write_questions(terminal.folder / "questions.csv")
    terminal.run("difficulty versus calibration.parquet --items questions.csv --measures length,grade")


@text("transfer")
def transfer(terminal):
    """A study that trained by level, and a table that is too small to decide anything."""
    terminal.copy_study(levels_study)
    terminal.run("transfer study --model model-a")
    terminal.run("transfer study --model model-b --by train_level --out transfer.csv")
    generator = np.random.default_rng(0)
    rows = []
    for level in ("", "0", "1", "2"):
        for seed in (0, 1):
            for item in range(30):
                right = int(generator.random() < 0.6)
                rows.append({"train_level": level, "seed": seed, "item": item, "level": item % 3, "correct": right})
    pl.DataFrame(rows).write_csv(terminal.folder / "answers.csv")
    terminal.run("transfer answers.csv")


# Decisions


@text("compare")
def compare(terminal):
    """Two models of a study, a threshold that is crossed, three models, and all of them."""
    terminal.copy_study(large_study)
    terminal.run("compare study model-a model-b --margin 0.05")
    terminal.run("compare study model-a model-b --fail-if-worse 0.01 --on chat")
    terminal.run("compare study model-a model-b model-c --out cells.csv")
    long_answers().write_csv(terminal.folder / "few.csv")
    terminal.run("compare few.csv org/one org/two")


@text("compare-all")
def compare_all(terminal):
    terminal.copy_study(large_study)
    terminal.run("compare study --all --out ranks.csv")
    terminal.run("compare study --all model-a model-b model-c")


@text("advise-power")
def advise_power(terminal):
    terminal.copy_study(levels_study)
    simulate_scores(runs=3, steps=11).write_csv(terminal.folder / "scores.csv")
    terminal.run("advise power study --difference 0.05")
    terminal.run("advise power study model-a model-b --seeds")
    terminal.run("advise power scores.csv")


@text("advise-items")
def advise_items(terminal):
    write_answers(terminal.folder / "answers.npz", subjects=60, items=60)
    terminal.run("advise items answers.npz -k 15 --into short.npz --out items.csv")


@text("advise-score")
def advise_score(terminal):
    write_answers(terminal.folder / "answers.npz", subjects=60, items=60)
    write_answers(terminal.folder / "new.npz", subjects=4, items=60)
    terminal.run("advise items answers.npz -k 15 --into short.npz")
    del terminal.said[:]  # That is another text.
    terminal.run("advise score short.npz new.npz --out scores.csv")


@text("advise-testsets")
def advise_testsets(terminal):
    write_leaderboard(terminal.folder / "leaderboard.csv")
    terminal.run("advise testsets leaderboard.csv --error 5")
    terminal.run("advise testsets leaderboard.csv --cluster none --out steps.csv")


@text("advise-together")
def advise_together(terminal):
    terminal.copy_study(large_study)
    terminal.run("advise together study --out gains.csv")


# What other tools wrote


@text("import")
def import_logs(terminal):
    """Logs of one tool, imported twice; other options; logs that contradict what they state; logs of all tools."""
    write_lm_eval(terminal.folder / "logs")
    (terminal.folder / "logs" / "notes.md").write_text("no log")
    terminal.run("import logs --into answers")
    terminal.run("import logs --into answers")
    terminal.run("import logs --metric acc_norm --no-texts --subject base=logs/org__one --dry-run")
    for tool, write in WRITERS.items():
        write(terminal.folder / "tools" / tool)
    terminal.run("import tools --keep newest --dry-run")


@text("import-trajectories")
def import_trajectories(terminal):
    write_trainer_states(terminal.folder / "runs")
    terminal.run("import-scores runs --out scores.parquet")
    terminal.run("import-scores runs --losses --dry-run")


@text("export")
def export(terminal):
    terminal.copy_study(plain_study)
    for to in ("parquet", "csv", "npz"):
        terminal.run(f"export study --to {to} --out answers.{to}")
    long_answers().write_csv(terminal.folder / "few.csv")
    terminal.run("export few.csv --to eee --out shared")


# Pages


@text("report")
def report(terminal):
    """A study as Markdown, and what a command says about tables and calibrations."""
    terminal.copy_study(plain_study)
    write_leaderboard(terminal.folder / "leaderboard.csv")
    calibrate_answers(terminal)
    terminal.run("report study --out report.md")
    terminal.show("report.md")
    terminal.run("report leaderboard.csv --out leaderboard.md")
    terminal.run("report answers.npz --out answers.md")
    terminal.run("report calibration.parquet --out calibration.md")


@text("demo")
def demo(terminal):
    terminal.run("demo --into demo --no-open")


# Studies

STUDY = """\
name: tiny
models: [{model}]
train: {{set: plain, examples: [8, 32], seeds: [0, 1]}}
recipe: {{method: lora, layers: 1, lr: 1.0e-2, batch: 4, steps: 8}}
evaluate: {{on: [plain, negation, science], every: 4, items: 20}}
"""


@text("init")
def init(terminal):
    terminal.run("init")
    terminal.run("init --from mnli-small --out mine.yaml")


@text("show")
def show(terminal):
    (terminal.folder / "study.yaml").write_text(STUDY.format(model="smollm2-135m"))
    terminal.copy_study(plain_study, "simulated")
    terminal.run("show study.yaml")
    terminal.run("show study.yaml --resolved")
    terminal.run("show simulated")


@text("validate")
def validate(terminal):
    (terminal.folder / "study.yaml").write_text(STUDY.format(model="smollm2-135m"))
    terminal.run("show study.yaml")
    terminal.run("show level-transfer")
    (terminal.folder / "wrong.yaml").write_text("name: s\nmodels: smolm2\nrecipe: {method: zero-shot, lr: -1}\n")
    terminal.run("show wrong.yaml")


@text("run-dry-run")
def run_dry_run(terminal):
    """Models that are not there, so that nothing can be timed."""
    (terminal.folder / "study.yaml").write_text(STUDY.format(model="smollm2-135m"))
    terminal.run("run study.yaml --dry-run")
    terminal.run("run small --into small --shard 1/2 --dry-run")


@text("evaluate-dry-run")
def evaluate_dry_run(terminal):
    """A tiny model, of which a few batches are timed."""
    from breadth.lm import write_tiny_model

    write_tiny_model(terminal.folder / "checkpoint-500")
    terminal.run("evaluate checkpoint-500 --on plain,negation --into evaluated --name tiny --items 20 --dry-run")


@text("ls")
def ls(terminal):
    terminal.run("ls datasets")
    terminal.run("ls models")
    terminal.run("ls studies")
