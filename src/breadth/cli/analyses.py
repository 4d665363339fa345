"""The commands that answer questions: each is a public function with a summary, examples, and little else.

What a command does beyond calling its function (ranking instead of comparing, saving a calibration) stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from breadth.cli.signatures import Extra, Outcome, Verb
from breadth.errors import InputError
from breadth.questions import Question

#: What several commands read.
SCALE_HELP = "A difficulty scale that `breadth calibrate` wrote."
SCORES = ("TABLE", "Scores, one table or several that belong together, or a study.")
ANSWERS = ("ANSWERS", "Right and wrong answers, or a study.")
CALIBRATION = ("CALIBRATION", SCALE_HELP)

#: Parameters that only Python has: the number of bootstrap draws, and callbacks.
PYTHON_ONLY = ("progress", "resamples")


# compare


def compare_or_rank(compare: Callable[..., Any], values: dict[str, Any]) -> Outcome:
    """Compare the named models, or rank all."""
    from breadth import rank

    answers, names = values["responses"], values["subjects"] or ()
    if values["on"] and values["fail_if_worse"] is None:
        raise InputError("--on names the test sets for --fail-if-worse; give that too")
    if not values["rank_all"]:
        options = {name: values[name] for name in ("cluster", "margin", "calibration", "levels")}
        return Outcome({"": compare(answers, *names, **options)})
    if values["fail_if_worse"] is not None or values["margin"] is not None:
        raise InputError("--all ranks models; --margin and --fail-if-worse compare those that are named")
    return Outcome({"": rank(answers, *names, cluster=values["cluster"])})


def fail_if_worse(outcome: Outcome, values: dict[str, Any]) -> None:
    """End with exit code 3 if a model is worse than the user allows."""
    from breadth.cli.terminal import print_line
    from breadth.comparison import Comparison

    result = outcome.results[""]
    if values["fail_if_worse"] is None or not isinstance(result, Comparison):
        return
    failed = result.worse(values["fail_if_worse"], values["on"])
    if failed:
        print_line(failed, "bold red")
        raise typer.Exit(3)


COMPARE = Verb(
    "compare",
    "compare",
    "Which model is better, where, and does the difference carry over to a new test set?",
    ANSWERS,
    (
        "compare my-study base tuned --margin 0.01 --cluster passage",
        "compare answers.parquet --all --figure ranks.html",
        "compare my-study old new --fail-if-worse 0.02 --on hans,anli",
    ),
    about="Differences are given over all questions, by test set, by kind of shift and by level of difficulty. "
    "Intervals count questions as a sample, and runs too where a model has several.",
    words={"calibration": f"{SCALE_HELP} Differences are then given by level too."},
    more=(
        Extra("rank_all", Annotated[bool, typer.Option("--all", help="Rank all models instead.")], False),
        Extra(
            "fail_if_worse",
            Annotated[
                float | None,
                typer.Option(metavar="SHARE", help="Exit with code 3 if a model is worse than A by more than this."),
            ],
        ),
        Extra(
            "on",
            Annotated[
                list[str] | None,
                typer.Option(metavar="X,Y,..", help="Test sets for --fail-if-worse. Default: all questions."),
            ],
        ),
    ),
    around=compare_or_rank,
    after=fail_if_worse,
)


# correlate, stability, scores


def correlate_all(correlate: Callable[..., Any], values: dict[str, Any]) -> Outcome:
    """Correlate with a bar, and leave the residuals of every checkpoint out of the files."""
    from breadth.cli.terminal import count_progress

    table = values.pop("table")
    with count_progress("correlating", "groups") as progress:
        result = correlate(table, **values, progress=progress)
    return Outcome({"": result}, result.trajectories.reading.lines(), ("residuals",))


CORRELATE = Verb(
    "correlate",
    "correlate",
    str(Question.SPEAKS_FOR),
    SCORES,
    (
        "correlate scores.csv",
        "correlate scores.csv --control mnli --by run --order step --figure pairs.html --out pairs.csv",
        "correlate scores.csv --control mnli --testsets 'hans_*,anli' --item-counts mnli=6692,anli=798",
        "correlate my-study --score auc",
        "correlate models.csv --control mmlu --cluster family",
        "correlate scores.csv --by model --order step --moderators size",
    ),
    several=True,
    advanced=("method", "robust", "ci", "seed", "kinds", "windows", "lower_is_better"),
    python_only=PYTHON_ONLY,
    around=correlate_all,
)
STABILITY = Verb(
    "stability",
    "stability",
    str(Question.FLUCTUATION),
    SCORES,
    (
        "stability my-study",
        "stability scores.csv --item-counts negation=2000,science=2000 --figure stability.html",
        "stability scores.csv --by run --order step --cluster model --out fluctuation.csv",
    ),
    several=True,
    advanced=("seed",),
)
SCORES_VERB = Verb(
    "scores",
    "scores",
    str(Question.ANSWER_BIAS),
    ANSWERS,
    ("scores my-study", "scores answers.parquet --out scores.csv"),
    figure=False,
)


# calibrate, ability, difficulty


def calibrate_answers(calibrate: Callable[..., Any], values: dict[str, Any]) -> Outcome:
    """Calibrate, saying meanwhile that it may take seconds; say how many models make levels stable, if asked."""
    from breadth.cli.terminal import errors
    from breadth.irt import LevelAgreement
    from breadth.results import Result
    from breadth.sources import open_answers

    answers = values["responses"]
    results: dict[str, Result] = {}
    with errors.status(f"calibrating {Path(answers).name}"):
        study = open_answers(answers)
        own = {name: value for name, value in values.items() if name not in ("responses", "stability", "scale")}
        results[""] = calibration = calibrate(study, **own)
    if values["stability"]:
        with errors.status("calibrating samples of the models"):
            results[".stability"] = LevelAgreement(calibration.level_stability(n=values["levels"]))
    return Outcome(results, study.reading.lines())


def save_calibration(outcome: Outcome, values: dict[str, Any]) -> None:
    """Write the difficulty scale, which other commands read."""
    from breadth.cli.terminal import print_written

    if values["scale"] is not None:
        print_written(*outcome.results[""].save(values["scale"]))  # type: ignore[attr-defined]


CALIBRATE = Verb(
    "calibrate",
    "calibrate",
    "How hard is each question, how able each model, and do the questions measure one ability?",
    ANSWERS,
    (
        "calibrate answers.npz --out calibration.parquet",
        "calibrate answers.csv --model 2pl --figure map.html",
        "calibrate new.npz --model 2pl --anchor calibration.parquet",
        "calibrate my-study --testset mnli --out calibration.parquet",
    ),
    choices={"model": "breadth.irt:MODELS"},
    words={
        "model": "What questions differ in: difficulty (1pl), also how sharply they tell models apart (2pl), also how "
        "easily they are guessed (3pl), also how often able models fail (4pl).",
    },
    advanced=("anchor", "min_responses", "copies", "seed", "priors"),
    python_only=PYTHON_ONLY,
    more=(
        Extra(
            "stability",
            Annotated[
                bool,
                typer.Option(
                    "--stability", help="Show how many models make levels stable.", rich_help_panel="Advanced"
                ),
            ],
            False,
        ),
        Extra(
            "scale",
            Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the scale (parquet, csv, ...).")],
        ),
    ),
    around=calibrate_answers,
    after=save_calibration,
    tables=False,
)
ABILITY = Verb(
    "ability",
    "ability",
    "How able is each new model, on the difficulty scale of earlier ones?",
    ANSWERS,
    ("ability new.npz --with calibration.parquet --out abilities.csv",),
    renamed={"calibration": "with"},
    required=("calibration",),
    words={
        "calibration": SCALE_HELP,
        "method": "eap allows for how models usually are, which steadies few answers; wle takes the answers alone.",
    },
    figure=False,
)
LEVELS = Verb(
    "difficulty levels",
    "levels",
    "Sort questions into levels of difficulty, and say how certain each level is.",
    CALIBRATION,
    ("difficulty levels calibration.parquet --n 5 --out levels.csv",),
    words={"n": "Number of levels, of as many questions each."},
    figure=False,
)
PROFILE = Verb(
    "difficulty profile",
    "profile",
    str(Question.PROFILE),
    ANSWERS,
    (
        "difficulty profile answers.npz --calibration calibration.parquet --subjects model-a,model-b --levels 5",
        "difficulty profile my-study --calibration calibration.parquet --subjects 'opt-*/last'",
    ),
    words={"calibration": f"{SCALE_HELP} By default levels are those stored with the questions."},
)
VERSUS = Verb(
    "difficulty versus",
    "difficulty_vs",
    "Do human measures of difficulty (length, steps, grade) agree with what is hard for models?",
    CALIBRATION,
    ("difficulty versus calibration.parquet --items questions.parquet --measures length,steps,grade",),
    required=("items",),
    figure=False,
)


def sample_items(sample: Callable[..., Any], values: dict[str, Any]) -> Outcome:
    """Choose training data; the file is for a trainer, so the histogram of difficulties does not lie beside it."""
    items = values.pop("items")
    return Outcome({"": sample(items, **values)}, left_out=("histogram",))


SAMPLE = Verb(
    "difficulty sample",
    "sample",
    "Choose training data by difficulty: which questions, and in which order.",
    ("ITEMS", "Table of questions."),
    (
        "difficulty sample questions.parquet --calibration scale.parquet --strategy spiral --n 2000 --out train.jsonl",
        "difficulty sample mnli.parquet --ease n_correct_of_100_berts --strategy centred --n 500",
    ),
    words={"calibration": f"{SCALE_HELP} The difficulties come from there."},
    around=sample_items,
    figure=False,
)


# transfer


def transfer_both(transfer: Callable[..., Any], values: dict[str, Any]) -> Outcome:
    """Gains by training level and, where a study has both, by strategy."""
    answers = values.pop("answers")
    result = transfer(answers, **values)
    results = {"": result}
    if result.strategies is not None:
        results[".strategy"] = result.strategies
    return Outcome(results)


TRANSFER = Verb(
    "transfer",
    "transfer",
    "Does training on one level of difficulty help on the others?",
    ANSWERS,
    (
        "transfer answers.parquet --figure transfer.html",
        "transfer runs/ --calibration calibration.parquet --levels 5 --out transfer.csv",
        "transfer my-study --model opt-125m --by strategy",
        "transfer answers.parquet --cluster passage",
    ),
    about="Compares models trained on one level of difficulty, or by one strategy, with the model before training. "
    "Answers say in a column train_level or strategy what a model was trained on; it is empty before training.",
    advanced=("seed", "examples"),
    words={
        "calibration": f"{SCALE_HELP} By default levels are those stored with the questions.",
        "score": "What single answers are scored by, as for `breadth correlate`.",
        "model": "Model of a study that has several.",
        "train_set": "Training set of a study that has several.",
        "examples": "Number of training examples, in a study with several.",
    },
    around=transfer_both,
)


# advise


def choose_items(advise_items: Callable[..., Any], values: dict[str, Any]) -> Outcome:
    """Choose a subset of questions, and refuse a target that cannot be written before that takes its time."""
    from breadth.cli.terminal import count_progress
    from breadth.results.table_writing import check_target

    answers, into = values.pop("responses"), values.pop("into")
    if into is not None:
        check_target(into, (".npz",))
    with count_progress("trying subsets", "trials") as progress:
        result = advise_items(answers, **values, progress=progress)
    values["into"] = into
    return Outcome({"": result})


def save_subset(outcome: Outcome, values: dict[str, Any]) -> None:
    """Write what ``breadth advise score`` takes, if a file was named."""
    from breadth.cli.terminal import print_written

    if values["into"] is not None:
        print_written(outcome.results[""].save(values["into"]))  # type: ignore[attr-defined]


def score_subset(advise_score: Callable[..., Any], values: dict[str, Any]) -> Outcome:
    """Score new answers to a subset: the file of the subset comes first."""
    short, answers = values.pop("short"), values.pop("answers")
    return Outcome({"": advise_score(short, answers, **values)})


POWER = Verb(
    "advise power",
    "advise_power",
    "How many questions, training runs and checkpoints does it take to see a difference?",
    ANSWERS,
    ("advise power my-study --difference 0.02 --seeds --cluster passage", "advise power scores.csv"),
    about="From a table of scores it plans training runs; planning questions takes answers to single questions.",
)
SUBSET = Verb(
    "advise items",
    "advise_items",
    str(Question.SUBSET),
    ANSWERS,
    ("advise items answers.npz -k 100 --into short.npz --out items.csv",),
    about="`--into` writes the file that `breadth advise score` takes, `--out` the list of questions.",
    advanced=("seed", "cluster"),
    more=(
        Extra(
            "into",
            Annotated[Path | None, typer.Option(metavar="FILE", help="File to score with (NPZ).")],
        ),
    ),
    around=choose_items,
    after=save_subset,
)
SUBSET_SCORE = Verb(
    "advise score",
    "advise_score",
    str(Question.SUBSET_SCORE),
    ("SHORT", "File of `breadth advise items`."),
    ("advise score short.npz new-answers.csv --out scores.csv",),
    python_only=("progress", "responses"),
    more=(
        Extra(
            "answers",
            Annotated[Path, typer.Argument(metavar="ANSWERS", help="Answers to the subset.", show_default=False)],
            ...,
        ),
    ),
    around=score_subset,
)
DROP = Verb(
    "advise testsets",
    "advise_testsets",
    str(Question.DROP),
    ("DATA", "Scores of models, answers or a study."),
    (
        "advise testsets leaderboard.csv --error 3 --date submitted",
        "advise testsets leaderboard.csv --cluster base_model",
    ),
)
TOGETHER = Verb(
    "advise together",
    "advise_together",
    str(Question.TOGETHER),
    ANSWERS,
    ("advise together answers.parquet --figure gains.html",),
    advanced=("seed",),
)


# report


def write_report(report: Callable[..., Any], values: dict[str, Any]) -> Outcome:
    """Write the page, and print what its first screen says."""
    from breadth.cli.terminal import print_line, print_verdict, print_warnings
    from breadth.reporting import answer_cards, read_as, written_report

    target, data = written_report(values.pop("source"), **values)
    print_warnings(data.warnings, notes=read_as(data.source))
    cards = answer_cards(data)
    for card in cards:
        print_verdict(card.lines(), str(card.question))
    for section, content in data.contents.items():
        # What a section says without an answer; the overview only where nothing can be answered.
        if section.headline and content.verdict is None and not (cards and section.key == "overview"):
            print_verdict(content.lines, section.title)
    print_line(f"wrote {target}")
    return Outcome({})


REPORT = Verb(
    "report",
    "report",
    "Report on whatever you have: one HTML page that needs no network, Markdown, or JSON.",
    ("PATH", "A study, logs, checkpoints, or tables of scores or answers."),
    (
        "report studies/mnli",
        "report scores.csv --control mnli --out report.html",
        "report logs/ --format md",
        "report run-1.csv run-2.csv --control mnli",
    ),
    about="`breadth PATH` does the same.",
    several=True,
    advanced=("adjust", "lower_is_better"),
    words={
        "control": "Table of scores: in-domain test set, or none.",
        "testsets": "Table of scores: test sets; names or wildcards.",
        "by": "Table of scores: columns that name a run or a model, or none.",
        "order": "Table of scores: column that orders rows, such as the training step, or none.",
    },
    around=write_report,
    figure=False,
    tables=False,
)
