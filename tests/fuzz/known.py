"""Inputs that once took a gigabyte, a minute or a traceback, each built by a function: ``KNOWN[name](folder)``.

``python tests/fuzz/known.py`` runs them through every verb that reads, and prints what did not end well; names of
inputs as arguments restrict it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import sandbox
import structures
import verbs
from sandbox import Outcome
from verbs import Companions

Builder = Callable[[Path], Path]


@dataclass(frozen=True)
class Known:
    """A kind of input and its builder. ``large`` ones take up to minutes over all verbs; groups are tested together."""

    kind: str
    builder: Builder
    large: bool = False
    group: str = "tables"


KNOWN: dict[str, Known] = {}


GROUPS = {"table": "tables", "answers": "answers", "matrix": "matrices", "log": "logs", "calibration": "calibrations"}


def known(kind: str, large: bool = False) -> Callable[[Builder], Builder]:
    """Register a builder under the name of its function."""

    def register(builder: Builder) -> Builder:
        name = builder.__name__
        KNOWN[name] = Known(kind, builder, large, name if large else GROUPS[kind])
        return builder

    return register


def _lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# ---- Sizes ----------------------------------------------------------------------------------------------------------


@known("answers", large=True)
def many_subjects_one_item(folder: Path) -> Path:
    """20,000 subjects, each with one answer to the same item: 240 kB."""
    return _lines(folder / "data.csv", ["model,item,correct", *(f"m{k:05d},q0,{k % 3 % 2}" for k in range(20_000))])


@known("answers", large=True)
def many_subjects_own_item(folder: Path) -> Path:
    """20,000 subjects, each with one answer to an item of its own, in 298 kB: a matrix of 20,000 x 20,000 is 3.2 GB."""
    rows = (f"m{k},q{k},{k % 3 % 2}" for k in range(20_000))
    return _lines(folder / "data.csv", ["model,item,correct", *rows])


@known("answers", large=True)
def unique_both(folder: Path) -> Path:
    """500,000 rows in 9 MB, each with a subject and an item of its own: a matrix of 1.8 TiB."""
    rows = (f"m{k},q{k},{k % 3 % 2}" for k in range(500_000))
    return _lines(folder / "data.csv", ["model,item,correct", *rows])


@known("answers", large=True)
def unique_both_parquet(folder: Path) -> Path:
    """The same with numbers for names in Parquet."""
    number = pl.Series(range(500_000))
    frame = pl.DataFrame({"model": "m" + number.cast(pl.String), "item": number, "correct": (number % 3 % 2)})
    frame.write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


@known("table", large=True)
def many_score_columns(folder: Path) -> Path:
    """40 models x 3,000 scores: four and a half million pairs of test sets."""
    generator = np.random.default_rng(0)
    scores = generator.uniform(0.2, 0.9, (40, 3000)).round(3)
    rows = (f"m{m:02d}," + ",".join(map(str, row)) for m, row in enumerate(scores.tolist()))
    return _lines(folder / "data.csv", ["model," + ",".join(f"set{k:04d}" for k in range(3000)), *rows])


@known("matrix", large=True)
def many_items(folder: Path) -> Path:
    """90,000 items x 40 models."""
    generator = np.random.default_rng(0)
    matrix = generator.integers(0, 2, (40, 90_000)).astype(np.int8)
    models = np.array([f"m{m:02d}" for m in range(40)])
    np.savez_compressed(folder / "data.npz", R=matrix, models=models, items=np.array([f"q{i}" for i in range(90_000)]))
    return folder / "data.npz"


@known("answers", large=True)
def many_items_long(folder: Path) -> Path:
    """90,000 items x 40 models as a long table in Parquet."""
    generator = np.random.default_rng(0)
    models = np.repeat([f"m{m:02d}" for m in range(40)], 90_000)
    items = np.tile([f"q{i}" for i in range(90_000)], 40)
    frame = pl.DataFrame({"model": models, "item": items, "correct": generator.integers(0, 2, models.size)})
    frame.write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


@known("matrix", large=True)
def many_models(folder: Path) -> Path:
    """20,000 models x 40 items: a comparison of every two models has 200 million rows."""
    matrix = np.random.default_rng(0).integers(0, 2, (20_000, 40)).astype(np.int8)
    np.savez_compressed(folder / "data.npz", R=matrix)
    return folder / "data.npz"


@known("table", large=True)
def many_rows(folder: Path) -> Path:
    """100,000 checkpoints of one run with two test sets."""
    scores = np.random.default_rng(0).uniform(0.4, 0.6, (100_000, 2)).round(3).tolist()
    rows = (f"r,{k},{a},{b}" for k, (a, b) in enumerate(scores))
    return _lines(folder / "data.csv", ["run,step,mnli,hans", *rows])


@known("table", large=True)
def many_runs(folder: Path) -> Path:
    """20,000 runs with two checkpoints each."""
    rows = (f"r{k // 2},{k % 2},0.{k % 7}5,0.{k % 5}1,0.{k % 3}7" for k in range(40_000))
    return _lines(folder / "data.csv", ["run,step,mnli,hans,anli", *rows])


# ---- Shapes ---------------------------------------------------------------------------------------------------------


@known("answers")
def one_row(folder: Path) -> Path:
    return _lines(folder / "data.csv", ["model,item,correct", "m00,q0,1"])


@known("answers")
def no_rows(folder: Path) -> Path:
    return _lines(folder / "data.csv", ["model,item,correct"])


@known("answers")
def no_rows_parquet(folder: Path) -> Path:
    pl.DataFrame(schema={"model": pl.String, "item": pl.String, "correct": pl.Int64}).write_parquet(
        folder / "x.parquet"
    )
    return folder / "x.parquet"


@known("answers")
def one_model(folder: Path) -> Path:
    return _lines(folder / "data.csv", ["model,item,correct", *(f"m00,q{i},{i % 2}" for i in range(60))])


@known("answers")
def one_item(folder: Path) -> Path:
    return _lines(folder / "data.csv", ["model,item,correct", *(f"m{k:02d},q0,{k % 2}" for k in range(60))])


@known("matrix")
def one_item_matrix(folder: Path) -> Path:
    np.savez(folder / "data.npz", R=np.arange(40, dtype=np.int8)[:, None] % 2)
    return folder / "data.npz"


@known("matrix")
def one_cell_matrix(folder: Path) -> Path:
    np.savez(folder / "data.npz", R=np.ones((1, 1), dtype=np.int8))
    return folder / "data.npz"


@known("table")
def one_score_row(folder: Path) -> Path:
    return _lines(folder / "data.csv", ["model,mnli,hans,anli", "m00,0.5,0.6,0.7"])


@known("table")
def one_score_column(folder: Path) -> Path:
    return _lines(folder / "data.csv", ["model,mnli", *(f"m{k:02d},0.{k + 10}" for k in range(30))])


# ---- Types ----------------------------------------------------------------------------------------------------------


def _scores(steps: pl.Series) -> pl.DataFrame:
    """Scores of three runs at these steps."""
    n = steps.len()
    generator = np.random.default_rng(0)
    runs = pl.Series([f"run-{k}" for k in range(3) for _ in range(n)])
    frame = pl.DataFrame({"run": runs, "step": pl.concat([steps] * 3)})
    scores = {name: generator.uniform(0.4, 0.9, 3 * n).round(3) for name in ("mnli", "hans", "anli")}
    return frame.with_columns(**{name: pl.Series(values) for name, values in scores.items()})


@known("table")
def no_text_columns(folder: Path) -> Path:
    """Parquet in which every column holds numbers."""
    frame = _scores(pl.Series(range(0, 1000, 100))).with_columns(
        run=pl.Series([k for k in range(3) for _ in range(10)])
    )
    frame.write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


@known("answers")
def answers_without_text(folder: Path) -> Path:
    """A long table of answers in Parquet with numbers for names."""
    rows = [(m, i) for m in range(24) for i in range(24)]
    data = {"model": [m for m, _ in rows], "item": [i for _, i in rows], "correct": [(m + i) % 2 for m, i in rows]}
    pl.DataFrame(data).write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


@known("table")
def steps_as_words(folder: Path) -> Path:
    words = ["start", "early", "middle", "late", "final"]
    _scores(pl.Series("step", words)).write_csv(folder / "data.csv")
    return folder / "data.csv"


@known("table")
def steps_as_numbered_words(folder: Path) -> Path:
    _scores(pl.Series([f"step-{100 * k}" for k in range(8)])).write_csv(folder / "data.csv")
    return folder / "data.csv"


@known("table")
def step_of_type_time(folder: Path) -> Path:
    _scores(pl.Series([datetime.time(k, 30) for k in range(8)])).write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


@known("table")
def step_of_type_duration(folder: Path) -> Path:
    _scores(pl.Series([datetime.timedelta(hours=k) for k in range(8)])).write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


@known("table")
def step_of_type_date(folder: Path) -> Path:
    _scores(pl.Series([datetime.date(2024, 1, 1 + k) for k in range(8)])).write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


@known("answers")
def answers_with_step_of_type_time(folder: Path) -> Path:
    rows = [(m, k, i) for m in range(2) for k in range(3) for i in range(24)]
    data = {
        "model": [f"m{m:02d}" for m, _, _ in rows], "step": [datetime.time(k, 30) for _, k, _ in rows],
        "item": [f"q{i}" for _, _, i in rows], "correct": [(m * k + i) % 2 for m, k, i in rows],
    }  # fmt: skip
    pl.DataFrame(data).write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


def _json_lines(folder: Path, changed: dict[str, object], row: int = 5) -> Path:
    rows: list[dict[str, object]] = [
        {"model": f"m{m:02d}", "item": f"q{i}", "correct": (m + i) % 2, "prompt": "x"}
        for m in range(3)
        for i in range(8)
    ]
    if row < 0:
        rows = [each | changed for each in rows]
    else:
        rows[row] |= changed
    return _lines(folder / "data.jsonl", [json.dumps(each) for each in rows])


@known("answers")
def list_in_a_cell(folder: Path) -> Path:
    """JSON lines in which one answer is a list."""
    return _json_lines(folder, {"correct": [1]})


@known("answers")
def list_in_every_cell(folder: Path) -> Path:
    return _json_lines(folder, {"correct": [1]}, row=-1)


@known("answers")
def list_as_item(folder: Path) -> Path:
    return _json_lines(folder, {"item": ["a", "b"]}, row=-1)


@known("answers")
def list_as_model(folder: Path) -> Path:
    return _json_lines(folder, {"model": ["a", "b"]}, row=-1)


@known("answers")
def list_beside_answers(folder: Path) -> Path:
    """Lists of choices, which any log of questions has, in a column that nobody needs."""
    return _json_lines(folder, {"prompt": ["a", "b"], "choices": [{"text": "yes"}, {"text": "no"}]}, row=-1)


@known("table")
def list_among_scores(folder: Path) -> Path:
    rows = [{"run": "r", "step": k, "mnli": 0.5, "hans": [0.5, 0.6]} for k in range(8)]
    return _lines(folder / "data.jsonl", [json.dumps(each) for each in rows])


# ---- Columns --------------------------------------------------------------------------------------------------------


@known("answers")
def answers_of_trained_models(folder: Path) -> Path:
    """Answers with levels of training and of items, as `breadth transfer` asks for them."""
    path = folder / "data.csv"
    structures.frame_of(structures.answers_trained(random.Random(0))).write_csv(path)
    return path


@known("table")
def end_of_a_range_alone(folder: Path) -> Path:
    """A column named like the end of a range in the export of a W&B chart, whose values are not there."""
    return _lines(
        folder / "data.csv", ["run,step,run - eval/acc__MIN,mnli", *(f"r,{k},0.5{k},0.6{k}" for k in range(8))]
    )


@known("table")
def column_called_score_among_others(folder: Path) -> Path:
    """The value of a long table has the name of a test set of a wide one."""
    rows = (f"{k},0.{k + 10},{k * 7 % 100},{k // 6}" for k in range(24))
    return _lines(folder / "data.csv", ["item,difficulty,score,grade", *rows])


@known("table")
def steps_as_lists(folder: Path) -> Path:
    _scores(pl.Series([[k, k] for k in range(8)])).write_parquet(folder / "data.parquet")
    return folder / "data.parquet"


# ---- Matrices -------------------------------------------------------------------------------------------------------


def _matrix(folder: Path, **arrays: object) -> Path:
    matrix = np.random.default_rng(0).integers(0, 2, (24, 24)).astype(np.int8)
    names = {"models": np.array([f"m{m:02d}" for m in range(24)]), "items": np.array([f"q{i}" for i in range(24)])}
    kept = {name: array for name, array in ({"R": matrix} | names | arrays).items() if array is not None}
    np.savez(folder / "data.npz", **kept)
    return folder / "data.npz"


@known("matrix")
def labels_missing(folder: Path) -> Path:
    """A matrix whose test sets are named, and whose labels are not there, nor the names of models."""
    return _matrix(folder, models=None, testset=np.array(["a", "b"] * 12))


@known("matrix")
def labels_partly_empty(folder: Path) -> Path:
    return _matrix(folder, label=np.array(["yes", "", "no", ""] * 6))


@known("matrix")
def labels_too_few(folder: Path) -> Path:
    return _matrix(folder, label=np.array(["yes"] * 5), testset=np.array(["a"] * 25))


@known("matrix")
def labels_in_one_of_two_matrices(folder: Path) -> Path:
    """A directory with a matrix for each test set, of which one has labels."""
    for name, labels in (("first", {"label": np.array(["yes", "no"] * 12)}), ("second", {})):
        matrix = np.random.default_rng(0).integers(0, 2, (24, 24)).astype(np.int8)
        items = np.array([f"{name}-{i}" for i in range(24)])
        np.savez(
            folder / f"{name}.npz", R=matrix, models=np.array([f"m{m:02d}" for m in range(24)]), items=items, **labels
        )
    return folder


@known("matrix")
def names_of_two_dimensions(folder: Path) -> Path:
    return _matrix(folder, models=np.array([["a", "b"]] * 12))


@known("matrix")
def matrix_of_half_floats(folder: Path) -> Path:
    return _matrix(folder, R=np.random.default_rng(0).integers(0, 2, (24, 24)).astype(np.float16))


# ---- Logs, calibrations, names --------------------------------------------------------------------------------------


def _lm_eval(folder: Path, results: object, **changed: object) -> Path:
    """Results and samples of lm-evaluation-harness 0.4 on one task."""
    log = folder / "logs"
    log.mkdir()
    stamp = "2024-11-16T07-29-33.410379"
    document = {
        "results": results, "group_subtasks": {"rte": []}, "configs": {"rte": {"task": "rte"}},
        "versions": {"rte": 0.0}, "n-shot": {"rte": 0}, "higher_is_better": {"rte": {"acc": True}},
        "n-samples": {"rte": {"original": 4, "effective": 4}},
        "config": {"model": "hf", "model_args": "pretrained=acme/rnd-a,revision=step100"},
        "model_name": "acme/rnd-a", "model_source": "hf",
    }  # fmt: skip
    (log / f"results_{stamp}.json").write_text(json.dumps(document | changed))
    rows = [
        {"doc_id": k, "doc": {"q": f"{k}?"}, "target": "1", "arguments": [["q", " yes"], ["q", " no"]],
         "resps": [[[-1.0, False]], [[-2.0, False]]], "filtered_resps": [[-1.0, False], [-2.0, False]],
         "acc": float(k % 2)}
        for k in range(4)
    ]  # fmt: skip
    _lines(log / f"samples_rte_{stamp}.jsonl", [json.dumps(row) for row in rows])
    return log


@known("log")
def lm_eval_results(folder: Path) -> Path:
    """As it should be."""
    return _lm_eval(folder, {"rte": {"alias": "rte", "acc,none": 0.5, "acc_stderr,none": 0.1}})


@known("log")
def lm_eval_results_that_are_a_list(folder: Path) -> Path:
    return _lm_eval(folder, [{"task": "rte", "acc,none": 0.5}])


@known("log")
def lm_eval_task_that_is_a_list(folder: Path) -> Path:
    return _lm_eval(folder, {"rte": [0.5, 0.1]})


@known("log")
def lm_eval_configs_that_are_lists(folder: Path) -> Path:
    results = {"rte": {"acc,none": 0.5}}
    return _lm_eval(folder, results, configs=[{"task": "rte"}], config=["hf"], versions=[0], model_name=["acme"])


@known("log")
def lm_eval_results_of_old_format_that_are_a_list(folder: Path) -> Path:
    log = folder / "logs"
    log.mkdir()
    for step in (0, 1, 2, 1000):
        document = {"results": [{"arc": {"acc": 0.2}}], "versions": {"arc": 0}, "config": {"model": "hf-causal"}}
        (log / f"70m_step{step}.json").write_text(json.dumps(document))
    return log


def _calibration(folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame], beside: str = "") -> Path:
    """A saved calibration whose items, or the table ``beside`` them, were changed by somebody."""
    answers = one_calibrated(folder)
    path = folder / "calibration.parquet"
    verbs.command_line("calibrate {answers} --model 2pl --out {path}", answers=str(answers), path=str(path))
    answers.unlink()
    changed = path.with_name(f"calibration.{beside}.parquet") if beside else path
    change(pl.read_parquet(changed)).write_parquet(changed)
    return path


def one_calibrated(folder: Path) -> Path:
    """Answers that have a scale of difficulty."""
    generator = np.random.default_rng(3)
    ability, difficulty = np.linspace(-2, 2, 40), np.linspace(-2, 2, 24)
    right = generator.random((40, 24)) < 1 / (1 + np.exp(difficulty - ability[:, None]))
    rows = (f"m{m:02d},q{i:02d},{int(right[m, i])}" for m in range(40) for i in range(24))
    return _lines(folder / "sound.csv", ["model,item,correct", *rows])


#: Columns of the items of a calibration, each of which somebody may have dropped or retyped.
CALIBRATION_COLUMNS = (
    "item", "n", "p_correct", "difficulty", "difficulty_se", "discrimination", "guessing", "ceiling", "intercept",
    "infit", "point_biserial", "level", "level_low", "label_doubt", "flag", "note",
)  # fmt: skip

#: The same of the two tables beside it.
FIT_COLUMNS = ("model", "reliability", "items", "chance", "floor", "floor_gain", "blocks", "block_sizes", "converged")
SUBJECT_COLUMNS = ("subject", "n", "ability", "infit", "flag")


def _dropped(column: str, beside: str = "") -> Builder:
    return lambda folder: _calibration(folder, lambda frame: frame.drop(column), beside)


def _as_text(column: str, beside: str = "") -> Builder:
    def change(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(pl.Series(column, [str(value) for value in frame[column].to_list()]))

    return lambda folder: _calibration(folder, change, beside)


for _beside, _columns in (("", CALIBRATION_COLUMNS), ("fit", FIT_COLUMNS), ("subjects", SUBJECT_COLUMNS)):
    for _column in _columns:
        _name = f"calibration_{_beside}_{_column}" if _beside else f"calibration_{_column}"
        KNOWN[f"{_name}_dropped"] = Known("calibration", _dropped(_column, _beside), group="calibrations")
        KNOWN[f"{_name}_as_text"] = Known("calibration", _as_text(_column, _beside), group="retyped calibrations")


@known("calibration")
def calibration_without_rows(folder: Path) -> Path:
    return _calibration(folder, lambda frame: frame.clear())


@known("calibration")
def calibration_with_doubled_items(folder: Path) -> Path:
    return _calibration(folder, lambda frame: pl.concat([frame, frame]))


@known("answers")
def path_that_is_not_utf8(folder: Path) -> Path:
    source = one_calibrated(folder)
    target = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.csv"))
    source.rename(target)
    return target


@known("log")
def logs_in_a_path_that_is_not_utf8(folder: Path) -> Path:
    inside = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9"))
    inside.mkdir()
    return _lm_eval(inside, {"rte": {"alias": "rte", "acc,none": 0.5}})


@known("answers")
def line_separator_in_names(folder: Path) -> Path:
    """U+2028 ends a line for some readers and not for others."""
    rows = [f"m\u2028{m},q\u2028{i},{(m + i) % 2}" for m in range(3) for i in range(8)]
    return _lines(folder / "data.csv", ["model,item,correct", *rows])


@known("answers")
def line_separator_in_json_lines(folder: Path) -> Path:
    rows = [{"model": f"m\u2028{m}", "item": f"q{i}", "correct": (m + i) % 2} for m in range(3) for i in range(8)]
    return _lines(folder / "data.jsonl", [json.dumps(row, ensure_ascii=False) for row in rows])


@known("table")
def line_separator_in_a_column(folder: Path) -> Path:
    rows = [f"r,{k},0.5{k},0.6{k}" for k in range(8)]
    return _lines(folder / "data.csv", ["run,step,mnli\u2028m,hans", *rows])


@known("answers")
def carriage_returns_alone(folder: Path) -> Path:
    """Lines as Macintosh computers ended them."""
    path = one_calibrated(folder)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r"))
    return path


@known("answers")
def utf16(folder: Path) -> Path:
    path = one_calibrated(folder)
    path.write_bytes(path.read_text().encode("utf-16"))
    return path


# ---- Trying them ----------------------------------------------------------------------------------------------------


def run_known(name: str, folder: Path, companions: Companions, only: Sequence[str] = ()) -> list[Outcome]:
    """What every verb makes of a known input, with the limits of ``sandbox``."""
    case = KNOWN[name]
    inside = folder / "input"
    inside.mkdir(parents=True)
    place = folder / ".path"

    def write() -> None:
        place.write_bytes(os.fsencode(case.builder(inside)))

    made = sandbox.watch([("prepare", write)], folder, seconds=120, memory=4 << 30)
    if made[0].status != "ok":
        raise RuntimeError(f"{name} could not be built: {made[0]}")
    path = Path(os.fsdecode(place.read_bytes()))
    return sandbox.watch(verbs.tasks(case.kind, path, companions, None, only), folder)


def main(arguments: Sequence[str] | None = None) -> int:
    import structured

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="names of known inputs; all by default")
    parser.add_argument("--group", help="only inputs of this group")
    parser.add_argument("--verb", action="append", default=[], help="only this verb")
    parser.add_argument("--json", type=Path, help="file for what became of each")
    given = parser.parse_args(arguments)
    sandbox.load()
    rows, faults = [], 0
    with tempfile.TemporaryDirectory() as temporary:
        companions = structured.prepare(Path(temporary, "companions"))
        names = given.names or [name for name, case in KNOWN.items() if given.group in (None, case.group)]
        for name in names:
            outcomes = run_known(name, Path(temporary, name), companions, given.verb)
            counts = {status: sum(one.status == status for one in outcomes) for status in ("ok", "refused", "found")}
            peak = max((outcome.grown for outcome in outcomes), default=0) >> 20
            slowest = max((outcome.seconds for outcome in outcomes), default=0.0)
            print(f"{name}: {counts}, at most {peak:,} MB and {slowest:.1f} s", flush=True)
            for outcome in outcomes:
                row = {"name": name, "verb": outcome.verb, "status": outcome.status, "seconds": outcome.seconds}
                row |= {"MB": outcome.grown >> 20, "message": outcome.message}
                if outcome.finding:
                    faults += 1
                    finding = outcome.finding
                    row |= {"what": finding.what, "frame": finding.frame, "message": finding.message}
                    print(f"    {outcome.verb}: {finding.what} at {finding.frame}: {finding.message[:200]}", flush=True)
                rows.append(row)
            if given.json:  # after every input: the large ones take minutes
                given.json.write_text(json.dumps(rows, indent=1))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
