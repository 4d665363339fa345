"""The cases whose frames are kept: every command, on every kind of file that breadth reads.

A case is a function of a :class:`Room` that returns frames by name. It uses public functions only, so that it stays
the same while the code behind them moves. Input that is refused is a result, too: ``REFUSED``, without its sentence.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import breadth
from breadth.datasets import describe_datasets, load, simulate_answers, simulate_scores, simulate_study
from breadth.sources import import_trajectories, open_study
from breadth.study import describe_studies, read_study_file, summarise_study

from .digests import digest_tables
from .tiny_logs import TRACKERS, WRITERS, long_answers

TESTS = Path(__file__).resolve().parents[1]
CORPUS = TESTS / "fuzz" / "corpus"

#: The frame of what breadth does not accept.
REFUSED = pl.DataFrame({"refused": ["InputError"]})

#: Most answers of a study that are kept one by one; of more, means of subjects and items.
MOST_ANSWERS = 60_000


@dataclass(frozen=True)
class Room:
    """Where a case reads and writes. ``kept`` is shared by all cases of a process, for data that takes time to make."""

    kept: Path
    shared: Path | None = None
    work: Path | None = None

    def made(self, name, make):
        """A path below ``kept``, made by the first case that asks for it."""
        path = self.kept / "kept" / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            make(path)
        return path


@dataclass(frozen=True)
class Case:
    frames: object
    needs_shared: bool


CASES = {}


def case(name):
    """Add a case that needs nothing but the repository."""

    def add(frames):
        CASES[name] = Case(frames, needs_shared=False)
        return frames

    return add


def shared_case(name):
    """Add a case that needs the shared data."""

    def add(frames):
        CASES[name] = Case(frames, needs_shared=True)
        return frames

    return add


def run_case(name, room):
    """The digests of a case's frames; directories of this machine are replaced in them."""
    work = room.kept / "work" / name
    work.mkdir(parents=True)
    try:
        own = Room(room.kept, room.shared, work)
        roots = {str(work): "<work>", str(room.kept): "<kept>", str(TESTS): "<tests>"}
        if room.shared is not None:
            roots = {str(room.shared): "<shared>"} | roots
        return digest_tables(attempt("case", lambda: CASES[name].frames(own)), roots)
    finally:
        shutil.rmtree(work)


def find_shared():
    """The shared data, where the fixture ``shared_data`` finds it."""
    folder = Path(os.environ.get("BREADTH_SHARED_DATA", TESTS.parents[1] / "shared" / "data"))
    return folder.resolve() if folder.is_dir() else None


# Frames of what the public functions return


def attempt(name, call):
    """The frames that ``call`` returns, or one that says that the input was refused."""
    try:
        return call()
    except breadth.InputError:
        return {name: REFUSED}


def result_frames(name, call):
    """The frames of a result, each under the name of what gave it."""

    def tables():
        result = call()
        if isinstance(result, pl.DataFrame):
            return {name: result}
        return {f"{name}.{table}": frame for table, frame in result.tables().items()}

    return attempt(name, tables)


def verb_frames(source, verbs, **options):
    """What several verbs say about one source."""
    frames = {}
    for verb in verbs:
        frames |= result_frames(verb, lambda verb=verb: getattr(breadth, verb)(source, **options))
    return frames


def study_frames(study, name="study"):
    """Subjects, items, scores and answers of a study."""
    frames = {"subjects": study.subjects, "items": study.items, "scores": score_frame(study)}
    answered = int(study.answered.sum())
    if answered <= MOST_ANSWERS:
        frames["responses"] = study.responses.collect()
    else:
        frames["by_item"] = mean_frame("item", study.item_names, study.correct.T)
    if {"run", "step"} <= set(study.subjects.columns):
        frames["ends"] = study.ends
    frames = {f"{name}.{table}": frame for table, frame in frames.items()}
    if study.training is not None:
        frames |= study_frames(study.training, f"{name}.training")
    return frames


def score_frame(study):
    accuracy, answers = study.scores
    subjects, testsets = accuracy.shape
    return pl.DataFrame({
        "subject": np.repeat(study.subject_names, testsets).tolist(),
        "testset": study.testsets * subjects,
        "shift": [study.shifts[name] for name in study.testsets] * subjects,
        "accuracy": accuracy.ravel(),
        "answers": answers.ravel(),
    })  # fmt: skip


def mean_frame(kind, names, rows):
    known = ~np.isnan(rows)
    total = np.where(known, rows, 0).sum(axis=1)
    return pl.DataFrame({kind: list(names), "answers": known.sum(axis=1), "correct": total})


def opened(source, name="study", **options):
    return attempt(name, lambda: study_frames(open_study(source, **options), name))


def import_frames(paths, **options):
    """What an import says about logs, and the study that they are."""
    options.setdefault("dry_run", True)
    result = breadth.import_logs(paths, **options)
    return dict(result.tables()) | study_frames(result.study)


def trajectory_frames(paths, **options):
    """Scores of checkpoints, and where they come from."""
    result = import_trajectories(paths, **options)
    return {
        "frame": result.frame,
        "testsets": result.testsets,
        "left_out": result.left_out,
        "sources": result.sources,
    }


def report_frames(source, out, **options):
    """The tables in a report as JSON."""

    def tables():
        path = breadth.report(source, out=out, format="json", **options)
        rows = json.loads(path.read_text())["tables"]
        return {f"report.{name}": pl.DataFrame(part, infer_schema_length=None) for name, part in rows.items()}

    return attempt("report", tables)


# Logs, as their tools wrote them

#: Directories and files in the shared logs that are each read on their own.
LOGS = (
    "alpaca_eval",
    "evalplus",
    "every_eval_ever",
    "every_eval_ever/community_evals_converter",
    "every_eval_ever/skill_reference_conversion",
    "helm",
    "inspect",
    "inspect/every_eval_ever",
    "inspect/inspect_ai",
    "inspect/made_with_tool",
    "inspect/made_with_tool/crashed_journal_only",
    "inspect/made_with_tool/failed",
    "lighteval",
    "lm-eval",
    "lm-eval/made_with_tool",
    "lm-eval/made_with_tool/0.4.2",
    "lm-eval/made_with_tool/0.4.3",
    "lm-eval/made_with_tool/0.4.13",
    "lm-eval/olot",
    "lm-eval/pyFade",
    "lm-eval/pythia_results_0.3",
    "openai-evals",
    "samples_metabench_winogrande_secondary_2024-11-26T10-50-23.349203.jsonl",
    "swe-bench",
    "trajectories",
)

#: Tools, whose files are also read one at a time.
TOOLS = (
    "alpaca_eval", "evalplus", "every_eval_ever", "helm", "inspect", "lighteval", "lm-eval", "openai-evals",
    "swe-bench", "trajectories",
)  # fmt: skip

#: Options of an import by the logs they are tried on.
IMPORT_OPTIONS = {
    "lm-eval/made_with_tool/0.4.13": (
        {"metric": "acc_norm"}, {"metric": "no_such_metric"}, {"scorer": "flexible-extract"}, {"texts": False},
        {"format": "lm-eval"}, {"format": "helm"},
    ),
    "lm-eval/made_with_tool/0.4.2": (
        {"metric": "acc_norm"}, {"subject": {"mine": "pretrained__acme__rnd-a_arc_local.jsonl"}},
    ),
    "lm-eval/pyFade": ({"keep": "newest"}, {"keep": "all"}, {"scorer": "strict-match", "keep": "newest"}),
    "lm-eval/olot": ({"scorer": "strict-match"}, {"scorer": "flexible-extract"}),
    "inspect/made_with_tool": (
        {"keep": "all"}, {"keep": "newest"}, {"keep": "all", "epochs": "each"}, {"scorer": "choice", "keep": "all"},
    ),
    "inspect/inspect_ai": ({"keep": "all"}, {"keep": "all", "epochs": "each"}, {"keep": "all", "texts": False}),
    "helm": ({"split": "test"}, {"split": "valid"}, {"metric": "quasi_exact_match"}),
    "lighteval": ({"metric": "acc_norm"}, {"texts": False}),
    "evalplus": ({"epochs": "each"},),
    "swe-bench": ({"texts": False}, {"step_from": r"-(\d+)sonnet"}),
}  # fmt: skip


def case_name(*parts):
    text = "_".join(parts).lower()
    kept = (letter if letter.isalnum() else "-" for letter in text.replace("_", " "))
    return "".join(kept).strip("-").replace("--", "-")[:60]


def add_log_cases():
    for place in LOGS:
        shared_case(case_name("logs", place))(lambda room, place=place: import_frames(room.shared / "logs" / place))
    for tool in TOOLS:
        shared_case(case_name("each file", tool))(lambda room, tool=tool: file_by_file(room.shared / "logs" / tool))
    for place in IMPORT_OPTIONS:
        shared_case(case_name("options", place))(lambda room, place=place: with_import_options(room, place))
    for tool in WRITERS:
        case(case_name("tiny", tool))(lambda room, tool=tool: tiny_logs(room, tool))


def file_by_file(folder):
    """A row per file: what it holds when it is read alone, without those beside it being named."""
    rows = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        row = {"path": str(path), "refused": False, "subjects": 0, "testsets": 0, "items": 0, "answers": 0, "sum": 0.0}
        try:
            study = breadth.read_logs(path)
        except breadth.InputError:
            row["refused"] = True
        else:
            row |= {"subjects": study.subjects.height, "testsets": len(study.testsets), "items": study.items.height}
            row |= {"answers": int(study.answered.sum()), "sum": float(np.nansum(study.correct))}
        rows.append(row)
    return {"files": pl.DataFrame(rows)}


def with_import_options(room, place):
    frames = {}
    for options in IMPORT_OPTIONS[place]:
        words = ",".join(f"{name}={value}" for name, value in options.items())
        part = attempt("import", lambda options=options: import_with(room.shared / "logs" / place, options))
        for table in ("import", "testsets", "subjects", "logs", "study.responses", "study.by_item"):
            if table in part:
                frames[f"{words}: {table}"] = part[table]
    return frames


def import_with(logs, options):
    """Frames of an import; a subject is named by a path below the logs."""
    places = options.get("subject", {})
    if places:
        options = {**options, "subject": {name: logs / place for name, place in places.items()}}
    return import_frames(logs, **options)


def tiny_logs(room, tool):
    """Logs of one tool: imported, opened again, and compared."""
    logs = room.work / "logs"
    WRITERS[tool](logs)
    frames = attempt("import", lambda: import_frames(logs, into=room.work / "answers", dry_run=False))
    if "import" in frames:
        return frames
    again = breadth.import_logs(logs, into=room.work / "answers")
    frames["again"] = pl.DataFrame({"changed": [again.changed], "known": [again.known]})
    frames |= opened(room.work / "answers", "opened")
    frames |= verb_frames(room.work / "answers", ("rank", "compare"))
    return frames


add_log_cases()


@shared_case("logs-all-keep-all")
def all_logs(room):
    return import_frames(room.shared / "logs", keep="all")


@shared_case("logs-all-keep-newest")
def all_newest_logs(room):
    return import_frames(room.shared / "logs", keep="newest")


@shared_case("logs-all-undecided")
def all_logs_undecided(room):
    return import_frames(room.shared / "logs")


@case("tiny-all-tools-together")
def all_tiny_logs(room):
    """Logs of all tools in one directory, whose models have the same names; some of their answers differ."""
    for tool, write in WRITERS.items():
        write(room.work / "logs" / tool)
    frames = {}
    for keep in (None, "newest", "all"):
        part = attempt("import", lambda keep=keep: import_frames(room.work / "logs", keep=keep))
        frames |= {f"keep={keep}: {name}": frame for name, frame in part.items()}
    return frames


@case("tiny-import-options")
def tiny_import_options(room):
    """Every option of an import, on logs that it changes something for."""
    tries = {
        "inspect": ({"epochs": "each"}, {"scorer": "judge"}, {"scorer": "none such"}, {"texts": False}),
        "lm_eval": ({"metric": "acc_norm"}, {"subject": {"base": "org__one"}}),
        "lm_eval_steps": ({"step_from": r"step(\d)000"}, {"step_from": "step"}),
        "lm_eval_generated": ({"scorer": "strict-match"}, {"scorer": "flexible-extract"}),
        "helm": ({"metric": "num_bytes"}, {"split": "valid"}),
        "olmes": ({"metric": "acc_raw"}, {"metric": "acc_per_char"}),
        "evalplus": ({"format": "evalplus"}, {"format": "inspect"}),
    }
    frames = {}
    for tool, several in tries.items():
        logs = room.work / tool
        WRITERS[tool](logs)
        for options in several:
            words = ",".join(f"{name}={value}" for name, value in options.items())
            part = attempt("import", lambda logs=logs, options=options: import_with(logs, options))
            frames |= {f"{tool}, {words}: {name}": frame for name, frame in part.items()}
    return frames


@case("tiny-import-grows")
def import_grows(room):
    """A second import into one directory adds what is new."""
    WRITERS["lm_eval"](room.work / "first")
    WRITERS["helm"](room.work / "second")
    breadth.import_logs(room.work / "first", into=room.work / "answers")
    frames = import_frames(room.work / "second", into=room.work / "answers", dry_run=False)
    return frames | opened(room.work / "answers", "opened")


# Scores of checkpoints


@case("trackers-tiny")
def tiny_trackers(room):
    frames = {}
    for name, write in TRACKERS.items():
        write(room.work / name)
        for words, options in (("scores", {}), ("losses", {"losses": True}), ("loss", {"metric": "eval_mnli_loss"})):
            part = attempt("refused", lambda name=name, options=options: trajectory_frames(room.work / name, **options))
            frames |= {f"{name}, {words}: {table}": frame for table, frame in part.items()}
        scores = attempt("refused", lambda name=name: {"scores": breadth.read_trajectories(room.work / name)})
        if "scores" in scores:
            frames |= prefixed(name, verb_frames(scores["scores"], ("correlate",), control="mnli"))
        frames |= {f"{name}: {table}": one for table, one in opened(room.work / name).items()}
    return frames


@case("trackers-tensorboard")
def tensorboard(room):
    """Event files of the tests, wherever those are kept."""
    folder = next(path for path in sorted(TESTS.rglob("tensorboard")) if path.is_dir())
    events = shutil.copytree(folder, room.work / "tensorboard")
    return trajectory_frames(events) | prefixed("losses", trajectory_frames(events, losses=True))


def prefixed(name, frames):
    return {f"{name}: {table}": frame for table, frame in frames.items()}


@case("trackers-results-of-lm-eval")
def results_with_steps(room):
    WRITERS["lm_eval_steps"](room.work / "logs")
    return trajectory_frames(room.work / "logs") | prefixed(
        "acc_norm", trajectory_frames(room.work / "logs", metric="acc_norm")
    )


TRACKED = (
    "trajectories", "trajectories/hf_trainer", "trajectories/mlflow_made", "trajectories/wandb",
    "lm-eval/pythia_results_0.3", "lm-eval/made_with_tool", "lm-eval/pyFade", "lm-eval/olot", "helm", "",
)  # fmt: skip


def add_trajectory_cases():
    for place in TRACKED:
        name = case_name("trackers", place or "all-logs")
        shared_case(name)(lambda room, place=place: tracked(room.shared / "logs" / place))


def tracked(folder):
    frames = attempt("scores", lambda: trajectory_frames(folder))
    frames |= prefixed("losses", attempt("scores", lambda: trajectory_frames(folder, losses=True)))
    if "frame" in frames:
        frames |= verb_frames(frames["frame"], ("correlate",), adjust="none")
        frames |= verb_frames(frames["frame"], ("stability",))
    return frames


add_trajectory_cases()


# Tables of scores

SCORE_TABLES = (
    "scores/base_models_observational.csv", "scores/clip_finetunes.csv", "scores/frontier_models_sparse.csv",
    "scores/open_llm_leaderboard_v1.csv", "scores/open_llm_leaderboard_v2.csv", "scores/pretraining_mixtures_60m.csv",
    "scores/pretraining_seeds_60m.csv", "trajectories/berts_of_a_feather.csv", "trajectories/pythia_zero_shot.csv",
)  # fmt: skip

SCORE_VERBS = ("correlate", "stability", "advise_testsets", "advise_power", "calibrate", "scores")


def add_score_cases():
    for place in SCORE_TABLES:
        shared_case(case_name("scores", Path(place).stem))(
            lambda room, place=place: verb_frames(room.shared / place, SCORE_VERBS)
        )


add_score_cases()

#: Further ways to correlate: file, then arguments of one call each.
CORRELATIONS = {
    "scores/base_models_observational.csv": (
        {"control": "mmlu"}, {"control": "mmlu", "cluster": "family"}, {"adjust": "none"},
        {"control": "mmlu", "by": "family", "order": "none", "moderators": "size"},
        {"control": "mmlu", "method": "spearman", "cluster": "none"},
        {"control": ["mmlu", "arc_c"], "adjust": "linear"},
    ),
    "scores/clip_finetunes.csv": (
        {"control": "ImageNet"}, {"control": "ImageNet", "robust": True}, {"control": "ImageNet2p", "adjust": "linear"},
        {"control": "ImageNet", "testsets": "ImageNetV2,ImageNetR,ObjectNet"},
    ),
    "scores/frontier_models_sparse.csv": ({"adjust": "none"}, {"control": "vibe_eval"}),
    "scores/open_llm_leaderboard_v1.csv": ({"control": "mmlu"}, {"adjust": "none", "item_counts": "none"}),
    "scores/open_llm_leaderboard_v2.csv": (
        {"control": "bbh"}, {"control": "bbh", "cluster": "architecture"}, {"control": "bbh", "item_counts": "none"},
        {"control": "bbh", "item_counts": {"bbh": 6511, "ifeval": 541}},
    ),
    "scores/pretraining_mixtures_60m.csv": (
        {"testsets": "eval/paloma/*/bpb", "control": "eval/bpb"}, {"testsets": "lm_eval/*/acc", "adjust": "none"},
        {"testsets": "eval/paloma/*/bpb", "control": "eval/bpb", "lower_is_better": "none"},
    ),
    "scores/pretraining_seeds_60m.csv": ({"testsets": "lm_eval/*/acc", "adjust": "none"},),
    "trajectories/berts_of_a_feather.csv": (
        {"control": "MNLI dev acc."}, {"control": "MNLI dev acc.", "robust": True},
        {"control": "MNLI dev acc.", "method": "spearman"},
    ),
    "trajectories/pythia_zero_shot.csv": (
        {"control": "piqa"}, {"control": "piqa", "by": "model", "order": "step", "ci": "iid"},
        {"control": "piqa", "ci": "ar"}, {"control": "piqa", "ci": "block", "resamples": 100, "seed": 3},
        {"control": "piqa", "windows": 3}, {"control": "piqa", "moderators": "size"},
        {
            "control": "piqa", "moderators": "kind",
            "kinds": {"arc_*": "exam", "sciq": "exam", "w*": "common", "l*": "common"},
        },
        {"control": "piqa", "score": "auc"}, {"control": "none such"}, {"adjust": "none", "cluster": "none"},
        {"control": "piqa", "by": "model", "moderators": "size", "ci": "ar"},
    ),
}  # fmt: skip


def add_correlations():
    for place, calls in CORRELATIONS.items():
        shared_case(case_name("correlate", Path(place).stem))(
            lambda room, place=place, calls=calls: correlations(room.shared / place, calls)
        )


def correlations(source, calls):
    frames = {}
    for options in calls:
        words = ", ".join(f"{name}={value}" for name, value in options.items())
        part = result_frames("correlate", lambda options=options: breadth.correlate(source, **options))
        frames |= {f"{words}: {name}": frame for name, frame in part.items() if frame.height}
    return frames


add_correlations()


@shared_case("advise-testsets-options")
def advise_testsets_options(room):
    scores = room.shared / "scores"
    calls = {
        "v1": (scores / "open_llm_leaderboard_v1.csv", {"error": 2.0, "date": "date"}),
        "v2 by family": (scores / "open_llm_leaderboard_v2.csv", {"cluster": "architecture", "date": "submitted"}),
        "base": (scores / "base_models_observational.csv", {"cluster": "family", "error": 5.0}),
        "base alone": (scores / "base_models_observational.csv", {"cluster": "none"}),
        "berts": (room.shared / "trajectories" / "berts_of_a_feather.csv", {"testsets": "ln_*"}),
        "frontier": (scores / "frontier_models_sparse.csv", {"testsets": "aime_2025,gpqa_diamond,hle"}),
        "mixtures": (scores / "pretraining_mixtures_60m.csv", {"testsets": "lm_eval/*/acc"}),
    }
    frames = {}
    for name, (source, options) in calls.items():
        frames |= result_frames(name, lambda one=source, options=options: breadth.advise_testsets(one, **options))
    return frames


@shared_case("stability-options")
def stability_options(room):
    pythia = room.shared / "trajectories" / "pythia_zero_shot.csv"
    calls = {
        "no items": {"item_counts": "none"},
        "two sets": {"testsets": "arc_*", "seed": 2},
        "model": {"by": "model"},
    }
    frames = {}
    for name, options in calls.items():
        frames |= result_frames(name, lambda options=options: breadth.stability(pythia, **options))
    return frames


# Answers

RESPONSES = (
    "arc_challenge.npz", "bigcodebench.npz", "ifeval.npz", "legalbench.npz", "med_qa.npz", "musr.npz",
    "openllm_math.npz", "rte.npz", "sst2.npz",
)  # fmt: skip
TABLES_OF_ANSWERS = (
    "classic/LSAT6.csv", "classic/LSAT7.csv", "classic/SAT12_scored_key5.csv",
    "difficulty/zeroeval_gsm_answers.parquet", "difficulty/zeroeval_math_l5_answers.parquet",
    "drift/gpt_snapshots_prime.parquet",
)  # fmt: skip
ANSWER_VERBS = (
    "rank",
    "profile",
    "advise_power",
    "advise_together",
    "advise_testsets",
    "scores",
    "correlate",
    "transfer",
)


def add_answer_cases():
    for place in (*(f"responses/{name}" for name in RESPONSES), *TABLES_OF_ANSWERS):
        shared_case(case_name("answers", Path(place).stem))(lambda room, place=place: answers(room, place))


def answers(room, place):
    source = room.shared / place
    frames = opened(source) | verb_frames(source, ANSWER_VERBS)
    frames |= result_frames("calibrate", lambda: breadth.calibrate(source))
    frames |= result_frames("calibrate 2pl", lambda: breadth.calibrate(source, model="2pl"))
    frames |= result_frames("advise_items", lambda: breadth.advise_items(source, k=20))
    return frames


add_answer_cases()


@shared_case("answers-gsm8k-leaderboard")
def gsm8k_leaderboard(room):
    """Millions of answers, of which some are missing; the calibration is for the page of an example."""
    source = room.shared / "responses" / "gsm8k_leaderboard.npz"
    frames = opened(source)
    frames |= result_frames("calibrate", lambda: breadth.calibrate(source, min_responses=100, copies="drop"))
    return frames


@shared_case("answers-gsm8k-models")
def gsm8k_models(room):
    """A table of scores with one column of scores: little can be said about it."""
    return verb_frames(room.shared / "responses" / "gsm8k_leaderboard_models.csv", SCORE_VERBS)


@shared_case("answers-directory-of-matrices")
def directory_of_matrices(room):
    """A test set per file: two NPZ files and a wide table."""
    folder = room.work / "matrices"
    folder.mkdir()
    for name in ("rte", "sst2"):
        shutil.copy(room.shared / "responses" / f"{name}.npz", folder)
    matrix = np.load(folder / "rte.npz")["R"][:, :30]
    pl.DataFrame({"subject": [str(k) for k in range(len(matrix))]}).hstack(
        pl.DataFrame(matrix, schema=[f"w{k}" for k in range(30)])
    ).write_csv(folder / "wide.csv")
    frames = opened(folder) | verb_frames(folder, ("rank", "correlate", "advise_testsets", "advise_together"))
    return frames | result_frames("calibrate", lambda: breadth.calibrate(folder, testset="rte"))


@shared_case("calibrate-models")
def calibrate_models(room):
    """Textbook data by every model, with and without priors."""
    calls = {
        "LSAT6 1pl": ("LSAT6.csv", {"model": "1pl", "priors": "none"}),
        "LSAT6 2pl": ("LSAT6.csv", {"model": "2pl", "priors": "none"}),
        "LSAT7 2pl": ("LSAT7.csv", {"model": "2pl", "priors": "none"}),
        "LSAT7 3pl": ("LSAT7.csv", {"model": "3pl"}),
        "SAT12 2pl": ("SAT12_scored_key5.csv", {"model": "2pl"}),
        "SAT12 3pl": ("SAT12_scored_key5.csv", {"model": "3pl", "chance": 0.2}),
        "SAT12 4pl": ("SAT12_scored_key5.csv", {"model": "4pl"}),
        "no such model": ("LSAT6.csv", {"model": "9pl"}),
    }
    frames = {}
    for name, (place, options) in calls.items():
        source = room.shared / "classic" / place
        frames |= result_frames(name, lambda one=source, options=options: breadth.calibrate(one, **options))
    return frames


@shared_case("calibration-and-what-uses-it")
def calibration_uses(room):
    """A saved calibration, and every command that reads one."""
    folder = room.shared / "difficulty"
    source, items = folder / "zeroeval_gsm_answers.parquet", folder / "zeroeval_gsm_items.parquet"
    calibration = breadth.calibrate(source, model="2pl")
    saved = room.work / "calibration.parquet"
    calibration.save(saved)
    study = open_study(source)
    first, last = study.subject_names[0], study.subject_names[-1]
    frames = {"levels": breadth.levels(saved, n=5).levels, "ability": breadth.ability(source, saved).subjects}
    frames |= result_frames("ability by wle", lambda: breadth.ability(source, saved, method="wle").subjects)
    frames |= result_frames("anchored", lambda: breadth.calibrate(source, model="2pl", anchor=saved))
    frames |= result_frames("profile", lambda: breadth.profile(source, saved, [first, last], levels=5))
    frames |= result_frames("compare", lambda: breadth.compare(source, first, last, calibration=saved, levels=4))
    frames |= result_frames("difficulty_vs", lambda: breadth.difficulty_vs(saved, items).measures)
    frames |= result_frames("level_stability", lambda: calibration.level_stability(5, repeats=2))
    for strategy in ("easy", "middle", "hard", "full", "centred", "spiral", "curriculum", "anti-curriculum"):
        name = f"sample {strategy}"
        call = result_frames(name, lambda one=strategy: breadth.sample(items, saved, strategy=one, n=50, seed=1))
        frames |= call
    frames |= report_frames(saved, room.work / "report.json")
    return frames


@shared_case("sample-and-difficulty-of-sets")
def sample_sets(room):
    frames = {}
    mnli = room.shared / "nli" / "mnli.parquet"
    for strategy in ("centred", "spiral"):
        name = f"mnli {strategy}"
        options = {"ease": "n_correct_of_100_berts", "strategy": strategy, "n": 60}
        frames |= result_frames(name, lambda options=options: breadth.sample(mnli, **options))
    calibration = breadth.calibrate(room.shared / "responses" / "gsm8k_leaderboard.npz")
    items = room.shared / "qa" / "gsm8k.parquet"
    frames |= result_frames("gsm8k", lambda: breadth.difficulty_vs(calibration, items).measures)
    frames |= result_frames("gsm8k sample", lambda: breadth.sample(items, calibration, strategy="spiral", n=60))
    return frames


@shared_case("compare-named-models")
def compare_named(room):
    """Models by name, with a margin, and clusters of items."""
    calls = {
        "zeroeval": ("difficulty/zeroeval_math_l5_answers.parquet", 2, {"margin": 0.02}),
        "zeroeval several": ("difficulty/zeroeval_gsm_answers.parquet", 4, {}),
        "bigcodebench": ("responses/bigcodebench.npz", 2, {}),
        "drift": ("drift/gpt_snapshots_prime.parquet", 4, {}),
        "drift by segment": ("drift/gpt_snapshots_prime.parquet", 2, {"cluster": "segment"}),
    }
    frames = {}
    for name, (place, number, options) in calls.items():
        source = room.shared / place
        names = open_study(source).subject_names[:number]
        compared = {"margin": None, "cluster": None} | options
        frames |= result_frames(name, lambda one=source, two=names, three=compared: breadth.compare(one, *two, **three))
        ranked = {"cluster": compared["cluster"]}
        frames |= result_frames(
            f"{name} ranked", lambda one=source, two=names, three=ranked: breadth.rank(one, *two, **three)
        )
    missing = room.shared / "responses" / "bigcodebench.npz"
    return frames | result_frames("no such model", lambda: breadth.compare(missing, "no such", "model"))


@shared_case("advise-items-and-score")
def advise_items_and_score(room):
    """A short form from half of the models, then scores of the others from it."""
    study = open_study(room.shared / "responses" / "bigcodebench.npz")
    known = np.arange(study.subjects.height) % 2 == 0
    short = breadth.advise_items(study.select(known), k=40, seed=1)
    saved = short.save(room.work / "short.npz")
    others = study.select(~known)
    frames = {f"items.{name}": frame for name, frame in short.tables().items()}
    frames |= result_frames("score", lambda: breadth.advise_score(saved, others))
    names = study.subject_names[:2]
    frames |= result_frames("power", lambda: breadth.advise_power(study, *names, difference=0.03))
    frames |= result_frames("together", lambda: breadth.advise_together(others, seed=2))
    return frames


@shared_case("datasets")
def shared_datasets(room):
    """Which sets are there, and the items of those that are read from files."""
    frames = {}
    for folder in ("nli", "qa"):
        data = room.shared / folder
        described = describe_datasets(data)
        # Of other sets it says where they were downloaded to, if they were.
        here = described["name"].is_in([path.stem for path in data.glob("*.parquet")])
        frames[f"{folder}: described"] = described.filter(here)
        for path in sorted(data.glob("*.parquet")):
            frames |= attempt(path.stem, lambda one=path, data=data: {one.stem: load(one.stem, data=data).frame})
    return frames


# Simulated data, and files of the tests


def plain_study(room):
    def make(path):
        simulate_study(path, runs=4, checkpoints=16, items=40, testsets=("plain", "chat", "science", "negation"))

    return room.made("plain-study", make)


def levels_study(room):
    def make(path):
        testsets = ("plain", "science", "chains")
        simulate_study(path, runs=12, checkpoints=6, items=60, testsets=testsets, train_levels=3)

    return room.made("levels-study", make)


def large_study(room):
    """Models enough for advice that learns from reference models."""

    def make(path):
        models = [f"model-{letter}" for letter in "abcdefghijklmnopqrstuvwx"]
        simulate_study(path, runs=24, checkpoints=3, items=40, models=models, testsets=("plain", "chat", "science"))

    return room.made("large-study", make)


STUDIES = {"plain": plain_study, "levels": levels_study, "large": large_study}
STUDY_VERBS = (
    "correlate", "calibrate", "scores", "stability", "transfer", "compare", "rank", "profile", "advise_power",
    "advise_testsets", "advise_together",
)  # fmt: skip


def add_study_cases():
    for name, make in STUDIES.items():
        case(f"study-{name}-opened")(lambda room, make=make: opened(make(room)))
        case(f"study-{name}-report")(lambda room, make=make: report_frames(make(room), room.work / "report.json"))
        for verb in STUDY_VERBS:
            # The name of a case is that of a file: no underscores, as in the others.
            case(f"study-{name}-{verb.replace('_', '-')}")(
                lambda room, make=make, verb=verb: verb_frames(make(room), (verb,))
            )


add_study_cases()


@case("study-options")
def study_options(room):
    plain, levels, large = (make(room) for make in (plain_study, levels_study, large_study))
    calls = {
        "correlate auc": lambda: breadth.correlate(plain, score="auc"),
        "correlate dprime": lambda: breadth.correlate(plain, score="dprime", windows=2),
        "correlate balanced": lambda: breadth.correlate(plain, score="balanced"),
        "correlate logscore": lambda: breadth.correlate(plain, score="logscore"),
        "correlate block": lambda: breadth.correlate(plain, ci="block", resamples=100),
        "stability auc": lambda: breadth.stability(plain, score="auc"),
        "calibrate science": lambda: breadth.calibrate(plain, testset="science", model="2pl"),
        "transfer by train_level": lambda: breadth.transfer(
            levels, by="train_level", model="model-a", levels=3, seed=1
        ),
        "transfer model-a": lambda: breadth.transfer(levels, model="model-a"),
        "transfer auc": lambda: breadth.transfer(levels, model="model-b", score="logscore"),
        "compare models": lambda: breadth.compare(large, "model-a", "model-b", margin=0.05),
        "compare templates": lambda: breadth.compare(plain, "model-a", "model-b", cluster="template"),
        "rank some": lambda: breadth.rank(large, "model-a", "model-c", "model-e", seed=1),
        "profile last": lambda: breadth.profile(plain, breadth.calibrate(plain), "model-a-*/last", levels=5),
        "advise_items": lambda: breadth.advise_items(large, k=20),
        "advise_power seeds": lambda: breadth.advise_power(levels, seeds=True),
        "advise_power models": lambda: breadth.advise_power(plain, "model-a", "model-b", difference=0.05),
        "advise_testsets": lambda: breadth.advise_testsets(large, error=10.0),
    }
    frames = {}
    for name, call in calls.items():
        frames |= result_frames(name, call)
    return frames


@case("study-damaged")
def damaged_study(room):
    """A file of answers that was cut short is left out; a run without its record is refused or left out."""
    study = shutil.copytree(plain_study(room), room.work / "study")
    part = sorted((study / "runs").rglob("step-*.parquet"))[3]
    part.write_bytes(part.read_bytes()[:100])
    return opened(study) | verb_frames(study, ("correlate",))


@case("simulated-scores")
def simulated_scores(room):
    """One table of scores in every form that a table comes in: the numbers must not depend on the form."""
    scores = simulate_scores(runs=3, steps=21)
    forms = {"frame": scores}
    for ending in ("csv", "tsv", "parquet", "json", "jsonl", "csv.gz", "eu.csv"):
        forms[ending] = room.work / f"scores.{ending}"
    scores.write_csv(forms["csv"])
    scores.write_csv(forms["tsv"], separator="\t")
    scores.write_parquet(forms["parquet"])
    scores.write_json(forms["json"])
    scores.write_ndjson(forms["jsonl"])
    scores.write_csv(forms["csv.gz"], compression="gzip")
    scores.write_csv(forms["eu.csv"], separator=";", decimal_comma=True)
    forms["long"] = room.work / "long.csv"
    names = scores.columns[2:]
    scores.unpivot(on=names, index=scores.columns[:2], variable_name="testset", value_name="score").write_csv(
        forms["long"]
    )
    frames = {"scores": scores}
    for name, source in forms.items():
        part = verb_frames(source, ("correlate", "stability"))
        frames |= {f"{name}: {table}": part[table] for table in part if table in KEPT_OF_FORMS}
    return frames | verb_frames(scores, ("correlate", "stability", "advise_power"))


#: Tables that are kept of every form of a file; all others follow from the same scores.
KEPT_OF_FORMS = ("correlate", "correlate.pairs", "stability", "stability.models")


@case("simulated-answers")
def simulated_answers(room):
    """One matrix in every form that answers come in."""
    truth = simulate_answers(60, 30, model="2pl", missing=0.05)
    matrix = truth.matrix.astype(np.int8)
    subjects = [f"model-{k:02d}" for k in range(60)]
    items = [f"q{k:02d}" for k in range(30)]
    np.savez(room.work / "answers.npz", R=matrix, models=subjects, items=items)
    np.savez(room.work / "turned.npz", R=matrix.T, models=subjects, items=items)
    cells = pl.DataFrame(matrix, schema=items).with_columns(pl.all().replace(-1, None))
    wide = pl.DataFrame({"model": subjects}).hstack(cells)
    wide.write_csv(room.work / "wide.csv")
    wide.write_parquet(room.work / "wide.parquet")
    long = wide.unpivot(index="model", variable_name="question_id", value_name="is_correct").drop_nulls()
    long.write_csv(room.work / "long.csv")
    long.write_ndjson(room.work / "long.jsonl")
    words = pl.col("is_correct").replace_strict({0: "wrong", 1: "right"}, return_dtype=pl.String)
    long.with_columns(words).write_csv(room.work / "words.csv")
    (room.work / "several").mkdir()
    for name, part in long.partition_by("model", as_dict=True).items():
        part.write_csv(room.work / "several" / f"{name[0]}.csv")
    frames = {}
    forms = ("answers.npz", "turned.npz", "wide.csv", "wide.parquet", "long.csv", "long.jsonl", "words.csv", "several")
    for name in forms:
        frames |= opened(room.work / name, name)
    frames |= {f"array: {name}": frame for name, frame in opened(matrix).items()}
    source = room.work / "answers.npz"
    frames |= verb_frames(source, ("rank", "advise_power", "advise_together"))
    frames |= result_frames("profile", lambda: breadth.profile(source, breadth.calibrate(source), levels=5))
    for model in ("1pl", "2pl", "3pl", "4pl"):
        frames |= result_frames(model, lambda one=model: breadth.calibrate(source, model=one))
    for copies in ("weigh", "drop"):
        frames |= result_frames(copies, lambda one=copies: breadth.calibrate(source, copies=one))
    complete = simulate_answers(60, 40, seed=1).matrix.astype(np.int8)
    verbs = ("rank", "advise_power", "advise_together", "profile")
    frames |= prefixed("complete", verb_frames(complete, verbs))
    frames |= result_frames("advise_items", lambda: breadth.advise_items(complete, k=10))
    return frames


@case("long-answers-with-margins")
def long_with_margins(room):
    """Answers with margins, labels and two test sets, as a frame."""
    frame = long_answers()
    return opened(frame) | verb_frames(frame, ("scores", "compare", "rank", "correlate", "calibrate"))


@case("transfer-from-a-table")
def transfer_table(room):
    """A long table of answers with the level that a model was trained on."""
    study = open_study(levels_study(room))
    last = study.subjects["step"] == study.subjects["step"].max()
    kept = study.select(last | (study.subjects["step"] == 0), testset="plain")
    about = kept.subjects.select("subject", "model", "train_level", "seed", "step")
    rows = kept.responses.collect().join(about, on="subject", maintain_order="left")
    untrained = pl.when(pl.col("step") == 0).then(None).otherwise("train_level")
    rows = rows.with_columns(untrained.alias("train_level")).drop("margin", "answer")
    rows = rows.unique(["model", "train_level", "seed", "item"], keep="first", maintain_order=True)
    rows = rows.filter(pl.col("model") == "model-a").join(
        kept.items.select("item", "level"), on="item", maintain_order="left"
    )
    rows = rows.drop("subject", "step", "model")
    path = room.work / "answers.parquet"
    rows.write_parquet(path)
    frames = {"rows": rows} | verb_frames(path, ("transfer",))
    names = {0: "easy", 1: "hard", 2: "spiral"}
    strategy = pl.col("train_level").replace_strict(names, default=None, return_dtype=pl.String).alias("strategy")
    by_strategy = rows.with_columns(strategy).drop("train_level")
    return frames | prefixed("by strategy", verb_frames(by_strategy, ("transfer",)))


@case("exports")
def exports(room):
    """What is written for other tools, read again."""
    WRITERS["matrix"](room.work / "logs")
    breadth.import_logs(room.work / "logs", into=room.work / "imported")
    frames = {}
    for name, source in (("study", plain_study(room)), ("imported", room.work / "imported")):
        for to in ("parquet", "csv", "npz", "eee"):
            out = room.work / (f"{name}-eee" if to == "eee" else f"{name}.{to}")
            refused = attempt("refused", lambda one=source, to=to, out=out: breadth.export(one, to=to, out=out) and {})
            frames |= {f"{name}, {to}: {table}": frame for table, frame in refused.items()}
            if refused or not out.exists():
                continue
            if to == "eee":
                written = attempt("refused", lambda out=out: import_frames(out))
                if "logs" in written:  # their stamp is the time of the export
                    written["logs"] = written["logs"].drop("stamp")
            else:
                written = opened(out)
            frames |= {f"{name}, {to}: {table}": frame for table, frame in written.items()}
    return frames


def add_corpus_cases():
    for path in sorted(CORPUS.glob("*")):
        if path.suffix not in (".yaml", ""):
            case(case_name("corpus", path.name.replace(".", "-")))(lambda room, path=path: corpus_file(room, path))


def corpus_file(room, path):
    """A file of the corpus, copied so that no other lies beside it, and read by all that read files."""
    alone = room.work / "alone"
    alone.mkdir()
    copy = Path(shutil.copy(path, alone / path.name))
    frames = opened(copy)
    frames |= verb_frames(copy, ("correlate", "stability", "calibrate", "rank", "scores", "advise_power"))
    frames |= prefixed("import", attempt("refused", lambda: import_frames(copy)))
    frames |= prefixed("trajectories", attempt("refused", lambda: trajectory_frames(copy)))
    frames |= report_frames(copy, room.work / "report.json")
    return frames


add_corpus_cases()


@case("corpus-study")
def corpus_study(room):
    study = shutil.copytree(CORPUS / "study", room.work / "study")
    return opened(study) | verb_frames(study, ("correlate", "scores", "calibrate", "compare"))


@case("corpus-directory")
def corpus_directory(room):
    """All tables of the corpus in one directory."""
    folder = room.work / "tables"
    folder.mkdir()
    for path in CORPUS.glob("*.*"):
        shutil.copy(path, folder)
    frames = opened(folder) | report_frames(folder, room.work / "report.json")
    return frames | prefixed("import", attempt("refused", lambda: import_frames(folder)))


@case("study-files")
def study_files(room):
    """Studies that come with breadth, and those of the corpus: what they would run."""
    frames = {"studies": describe_studies(), "datasets": describe_datasets().drop("available", "where", strict=False)}
    corpus = [CORPUS / name for name in ("anchors.yaml", "lora.yaml")]
    for source in (*describe_studies()["name"], *corpus):
        name = Path(source).stem
        frames |= attempt(name, lambda source=source, name=name: {name: study_file_frame(source)})
    return frames


def study_file_frame(source):
    names = ("model", "train_sets", "runs", "steps", "checkpoints")
    rows = [tuple(map(str, row)) for row in summarise_study(read_study_file(source)).rows]
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


# Reports on what is no study


@shared_case("report-of-logs")
def report_of_logs(room):
    return report_frames(room.shared / "logs" / "lm-eval" / "made_with_tool" / "0.4.13", room.work / "report.json")


@shared_case("report-of-checkpoints")
def report_of_checkpoints(room):
    return report_frames(room.shared / "logs" / "lm-eval" / "pythia_results_0.3", room.work / "report.json")


@shared_case("report-of-trainer-states")
def report_of_trainer_states(room):
    return report_frames(room.shared / "logs" / "trajectories" / "hf_trainer", room.work / "report.json")


@shared_case("report-of-scores")
def report_of_scores(room):
    scores = room.shared / "trajectories" / "pythia_zero_shot.csv"
    frames = report_frames(scores, room.work / "report.json")
    controlled = report_frames(scores, room.work / "controlled.json", control="piqa", by="model", order="step")
    return frames | prefixed("piqa", controlled)


@shared_case("report-of-models")
def report_of_models(room):
    return report_frames(room.shared / "scores" / "base_models_observational.csv", room.work / "report.json")


@shared_case("report-of-answers")
def report_of_answers(room):
    return report_frames(room.shared / "drift" / "gpt_snapshots_prime.parquet", room.work / "report.json")


# Commands


@shared_case("run-and-evaluate")
def run_and_evaluate(room):
    """Sets read from files, drawn and evaluated by a tiny model; what it answers depends on the processor."""
    from breadth.lm import write_tiny_model

    data = room.shared / "nli"
    model = write_tiny_model(room.work / "checkpoint-500")
    breadth.evaluate(model, on=["snli", "plain"], into=room.work / "evaluated", items=20, data=data)
    study = room.work / "study.yaml"
    study.write_text(TINY_STUDY.format(model=model))
    breadth.run(study, into=room.work / "run", data=data)
    frames = {}
    for name in ("evaluated", "run"):
        one = open_study(room.work / name)
        # Names of runs hold those of directories, which differ from time to time.
        frames[f"{name}: runs"] = one.subjects.select("step", "train_set", "examples", "seed", "method")
        frames[f"{name}: items"] = one.items
        frames[f"{name}: answers"] = one.responses.select("testset", "item").collect()
    return frames


TINY_STUDY = """\
name: tiny
models: [{model}]
train: {{set: [rte], examples: [8], seeds: [0]}}
recipe: {{method: lora, layers: 1, lr: 1.0e-2, batch: 4, steps: 2}}
evaluate: {{on: [rte, scitail, negation], every: 2, items: 16}}
"""


@case("commands")
def commands(room):
    """Every command that writes tables, from the command line: exit codes, and the tables in its files."""
    scores, answers = room.work / "scores.csv", room.work / "answers.npz"
    simulate_scores(runs=3, steps=21).write_csv(scores)
    matrix = simulate_answers(60, 40, seed=1).matrix.astype(np.int8)
    names = [f"model-{k:02d}" for k in range(60)]
    np.savez(answers, R=matrix, models=names, items=[f"q{k:02d}" for k in range(40)])
    items = room.work / "items.csv"
    texts = [f"What is {k} plus {k * k}? Say a number." for k in range(40)]
    pl.DataFrame({"item": [f"q{k:02d}" for k in range(40)], "text": texts}).write_csv(items)
    WRITERS["lm_eval"](room.work / "logs")
    TRACKERS["trainer_states"](room.work / "runs")
    plain, levels = plain_study(room), levels_study(room)
    calibration, short = room.work / "calibrate" / "table.parquet", room.work / "short.npz"
    calls = {
        "correlate": ["correlate", scores, "--control", "negation"],
        "correlate-study": ["correlate", plain],
        "stability": ["stability", plain],
        "calibrate": ["calibrate", answers, "--model", "2pl", "--levels", "5"],
        "ability": ["ability", answers, "--with", calibration],
        "levels": ["difficulty", "levels", calibration, "--n", "4"],
        "profile": ["difficulty", "profile", answers, "--calibration", calibration, "--subjects", "model-01,model-02"],
        "sample": ["difficulty", "sample", items, "--calibration", calibration, "--strategy", "spiral", "--n", "20"],
        "difficulty-vs": ["difficulty", "versus", calibration, "--items", items],
        "scores": ["scores", plain],
        "transfer": ["transfer", levels, "--model", "model-a"],
        "compare": ["compare", answers, "model-01", "model-02"],
        "compare-worse": ["compare", answers, "model-01", "model-02", "--fail-if-worse", "0.01"],
        "compare-all": ["compare", answers, "--all"],
        "advise-power": ["advise", "power", answers],
        "advise-items": ["advise", "items", answers, "-k", "20", "--into", short],
        "advise-score": ["advise", "score", short, answers],
        "advise-testsets": ["advise", "testsets", large_study(room)],
        "advise-together": ["advise", "together", answers],
        "import-trajectories": ["import-scores", room.work / "runs"],
        "export": ["export", plain, "--to", "parquet"],
    }
    frames, codes = {}, []
    for name, arguments in calls.items():
        folder = room.work / name
        folder.mkdir()
        codes.append((name, exit_code(*arguments, "--out", folder / "table.parquet")))
        for path in sorted(folder.iterdir()):
            frames[f"{name}: {path.name}"] = pl.read_parquet(path)
    codes.append(("import", exit_code("import", room.work / "logs", "--into", room.work / "imported")))
    frames |= opened(room.work / "imported", "imported")
    for words in ("ls datasets", "ls models", "ls studies", "show small", "correlate none.csv"):
        codes.append((words, exit_code(*words.split())))
    codes.append(("init", exit_code("init", "--out", room.work / "study.yaml")))
    frames["init"] = study_file_frame(room.work / "study.yaml")
    return frames | {"exit codes": pl.DataFrame(codes, schema=["command", "code"], orient="row")}


def exit_code(*arguments):
    """The exit code of a command; 2 if it refused its input, as ``breadth`` makes of that."""
    from typer.testing import CliRunner

    from breadth.cli import app

    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, breadth.InputError):
        return 2
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code
