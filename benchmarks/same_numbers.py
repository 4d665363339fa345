"""Do two versions of breadth compute the same numbers?

    python benchmarks/same_numbers.py dump OUT_DIR --data DATA_DIR [--study STUDY_DIR]    # once with each version
    python benchmarks/same_numbers.py compare OLD_DIR NEW_DIR [--tolerance 1e-12]

``dump`` analyses real data and a study's directory, and writes every frame to OUT_DIR/<case>/<table>.parquet. A study
that is not there is simulated: versions need not read each other's studies, but they simulate the same one.
``compare`` allows for new tables, new columns, and notes in other words.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import signature
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import breadth
from breadth.datasets import simulate_study

Tables = dict[str, pl.DataFrame]
Cases = dict[str, Callable[[], Tables]]

#: What version 0.1 called otherwise: columns, beginnings of the names of tables, options.
COLUMNS, TABLES = {"shots": "examples", "facets": "testsets"}, {"cross_": "transfer_"}
OPTIONS = {"testsets": "facets", "adjust": "regressor", "ci": "inference"}

#: Answers on which a 3PL takes minutes.
SLOW_3PL = ("gsm8k_leaderboard",)

STRATEGIES = ("easy", "middle", "hard", "full", "centred", "spiral", "curriculum", "anti-curriculum")

# ---- Calls of breadth, by the names that the version at hand has for things

OLD = not hasattr(breadth, "transfer")


def frames(found: Any, *names: str) -> Tables:
    """Attributes of a result as tables."""
    return {name: getattr(found, name) for name in names}


def correlate(table: Path, method: str = "pearson", **options: Any) -> Tables:
    if OLD:
        options = {OPTIONS.get(name, name): value for name, value in options.items()}
    named = "method" in signature(breadth.correlate).parameters
    options |= {"method": method} if named else {"rank": method == "spearman"}
    return frames(breadth.correlate(table, **options), "pairs", "windows", "heterogeneity", "similarity", "residuals")


def transfer(answers: Any, **options: Any) -> Tables:
    found = (breadth.cross if OLD else breadth.transfer)(answers, **options)
    names = ("cells", "effects", "breaks", "best")
    also = frames(found.strategies, *names) if found.strategies else {}
    return frames(found, *names) | {f"strategy_{name}": table for name, table in also.items()}


def report(study: Path) -> Tables:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.json"
        (breadth.write_report if OLD else breadth.report)(study, out=out, format="json")
        tables = json.loads(out.read_text(encoding="utf-8"))["tables"]
    return {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in tables.items()}


@cache
def calibration(responses: Path, first: int = 0, **options: Any) -> breadth.Calibration:
    """A calibration, computed once; with ``first``, anchored on one of so many items alone."""
    if first:
        options["anchor"] = breadth.calibrate(pl.read_csv(responses)[:, :first], **options)
    return breadth.calibrate(responses, **options)


def calibrate(responses: Path, **options: Any) -> Tables:
    found = calibration(responses, **options)
    tables = frames(found, "items", "subjects", "fit")
    by_level = found.accuracy_by_level(**{"levels" if OLD else "n": 5})
    tables |= {"levels": breadth.levels(found, n=5).levels, "by_level": by_level}
    if responses.is_file():
        tables |= {f"ability_{way}": breadth.ability(responses, found, method=way).subjects for way in ("eap", "wle")}
    return tables


def profile(responses: Path, known: breadth.Calibration | None = None, subjects: Sequence[str] | None = None) -> Tables:
    return frames(breadth.profile(responses, known, subjects, levels=5), "levels", "differences")


def gsm8k(data: Path) -> Tables:
    """Difficulty against measures of the texts, draws by difficulty, and two subjects who answered everything."""
    responses, texts = data / "responses/gsm8k_leaderboard.npz", data / "qa/gsm8k.parquet"
    known = calibration(responses, model="2pl")
    tables = {"measures": breadth.difficulty_vs(known, texts).measures}
    for name in STRATEGIES:
        draw = breadth.sample(texts, known, strategy=name, n=100, seed=3)  # type: ignore[arg-type]
        tables |= {f"{key}_{name}": table for key, table in frames(draw, "items", "histogram").items()}
    complete = known.subjects.filter(pl.col("n") == known.items.height)["subject"]
    return tables | profile(responses, known, [complete[0], complete[1000]])


# ---- What is computed


def answers_by_level(levels: int = 5, items: int = 40, seeds: int = 3) -> pl.DataFrame:
    """Simulated answers of models trained on one level, by a strategy, or not at all (both columns null)."""
    generator = np.random.default_rng(7)
    level = np.repeat(np.arange(levels), items)
    ease = generator.normal(0.5, 1, level.size) - 0.4 * level
    item = [f"item-{j:03d}" for j in range(level.size)]
    ways = [(None, None), *((str(k), None) for k in range(levels)), (None, "easy"), (None, "full")]
    parts = []
    for (train_level, strategy), seed in product(ways, range(seeds)):
        gain = np.full(level.size, 0.3 if strategy else 0.0)
        if train_level is not None:
            gain += np.exp(-np.abs(level - int(train_level)) / 2)
        correct = generator.random(level.size) < 1 / (1 + np.exp(-ease - gain))
        frame = pl.DataFrame({"item": item, "correct": correct.astype(int), "seed": seed, "level": level})
        trained = {"train_level": train_level, "strategy": strategy}
        parts.append(frame.with_columns(pl.lit(way, pl.String).alias(name) for name, way in trained.items()))
    return pl.concat(parts)


def make_study(folder: Path) -> None:
    """Simulate runs by level, by strategy and on another set; all runs of a model share step 0."""
    starts: dict[str, Path] = {}
    for name in simulate_study(folder, runs=30, checkpoints=31, items=60, seed=5, train_levels=3).runs:
        path = folder / "runs" / name / "run.json"
        spec = json.loads(path.read_text(encoding="utf-8"))
        level, seed = spec["train_level"], spec["seed"]
        if seed in (2, 3):
            spec |= {"train_level": None, "strategy": STRATEGIES[level], "seed": seed - 2}
        elif seed == 4:
            spec |= {"train_level": None, "train_set": "formal", "seed": level}
        path.write_text(json.dumps(spec, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        own = next(path.parent.glob("step-000000.*"))
        start = starts.setdefault(spec["model"], own)
        if start != own:
            own.unlink()
            shutil.copy(start, path.parent)


def data_cases(data: Path) -> Cases:
    """All analyses of real data, and one of a simulated table."""
    cases: Cases = {}
    berts, acc = data / "trajectories/berts_of_a_feather.csv", "MNLI dev acc."
    subcases = [name for name in pl.read_csv(berts).columns if name[2] == "_"]
    for name, counts in (("", None), ("_item_counts", {acc: 9815, **dict.fromkeys(subcases, 1000)})):
        options: dict[str, Any] = {"control": acc, "testsets": subcases, "ci": "iid", "item_counts": counts}
        cases[f"correlate_berts{name}"] = partial(correlate, berts, **options)
    ways: dict[str, dict[str, Any]] = {"gam": {}, "block": {"ci": "block", "resamples": 200}}
    ways |= {"linear": {"adjust": "linear"}, "raw": {"adjust": "none"}, "spearman": {"method": "spearman"}}
    for name, way in ways.items():
        options = {"control": "piqa", "by": "model", "order": "step", "windows": 3, **way}
        cases[f"correlate_pythia_{name}"] = partial(correlate, data / "trajectories/pythia_zero_shot.csv", **options)
    for name, by, control, testsets in (
        ("base_models_observational", None, "mmlu", "arc_c hellaswag winograd truthfulqa gsm8k xwinograd humaneval"),
        ("open_llm_leaderboard_v1", "type", "mmlu", "arc hellaswag truthfulqa winogrande gsm8k"),
        ("open_llm_leaderboard_v2", "type", "mmlu_pro", "ifeval bbh math_lvl_5 gpqa musr"),
    ):
        options = {"control": control, "testsets": testsets.split(), "by": by}
        cases[f"correlate_{name}"] = partial(correlate, data / f"scores/{name}.csv", **options)
    for path in [*sorted(data.glob("classic/*.csv")), *sorted(data.glob("responses/*.npz"))]:
        for model in ("1pl", "2pl") if path.stem in SLOW_3PL else ("1pl", "2pl", "3pl"):
            cases[f"calibrate_{path.stem}_{model}"] = partial(calibrate, path, model=model)
    cases["calibrate_copies"] = partial(calibrate, data / "responses/sst2.npz", model="2pl", copies="weigh")
    cases["calibrate_anchor"] = partial(calibrate, data / "classic/SAT12_scored_key5.csv", first=16, model="2pl")
    return cases | {"gsm8k": partial(gsm8k, data), "transfer_simulated": lambda: transfer(answers_by_level())}


def study_cases(study: Path) -> Cases:
    """All analyses of a study's directory; the report is a case of its own."""
    cases: Cases = {
        "study_correlate": partial(correlate, study, windows=3),
        "study_correlate_linear": partial(correlate, study, adjust="linear"),
        "study_calibrate_1pl": partial(calibrate, study, model="1pl"),
        "study_calibrate_2pl": partial(calibrate, study, model="2pl"),
        "study_profile": partial(profile, study),
        "study_profile_calibrated": lambda: profile(study, calibration(study, model="1pl"), ["*/last"]),
        "report": partial(report, study),
    }
    specs = [json.loads(path.read_text(encoding="utf-8")) for path in study.glob("runs/*/run.json")]
    by_way = [spec for spec in specs if spec.get("train_level") is not None or spec.get("strategy")]
    for model, train_set in sorted({(spec["model"], spec["train_set"]) for spec in by_way}):
        name = f"study_transfer_{model}_{train_set}".replace("/", "_")
        cases[name] = partial(transfer, study, model=model, train_set=train_set)
    return cases


def dump(out: Path, data: Path, study: Path | None) -> None:
    """Compute every case and write its tables; what does not apply to the data is said and left out."""
    begun = time.perf_counter()
    if study is not None and not study.exists():
        make_study(study)
    cases = data_cases(data) | ({} if study is None else study_cases(study))
    for case, compute in cases.items():
        start = time.perf_counter()
        try:
            tables = compute()
        except breadth.InputError as error:
            print(f"{case}: left out: {error}", flush=True)
            continue
        (out / case).mkdir(parents=True)
        for name, table in tables.items():
            table.write_parquet(out / case / f"{name}.parquet")
        print(f"{case}: {len(tables)} tables in {time.perf_counter() - start:.1f} s", flush=True)
    print(f"breadth {breadth.__version__}: {len(cases)} cases in {time.perf_counter() - begun:.0f} s")


# ---- How it is compared


def column_difference(old: pl.Series, new: pl.Series, tolerance: float) -> tuple[float, str] | None:
    """Largest difference of two columns (infinite for null against a value, and for text), and what to say of it."""
    if all(series.dtype.is_numeric() or series.dtype == pl.Null for series in (old, new)):
        a, b = (series.cast(pl.Float64).to_numpy() for series in (old, new))
        with np.errstate(invalid="ignore"):
            gap = np.nan_to_num(np.abs(a - b), nan=np.inf)
        gap[(a == b) | (np.isnan(a) & np.isnan(b))] = 0
        gap[(old.is_null() != new.is_null()).to_numpy()] = np.inf
        differ = (gap > tolerance * (1 + np.abs(np.nan_to_num(a)))) | np.isinf(gap)
    else:
        differ = np.array([one != two for one, two in zip(old.to_list(), new.to_list(), strict=True)], dtype=bool)
        gap = np.where(differ, np.inf, 0.0)
    if not differ.any():
        return None
    row, size = int(gap.argmax()), float(gap.max())
    return size, f"{old.name}: {differ.sum()} of {len(old)} rows; largest {size:.2g}: {old[row]!r}, now {new[row]!r}"


def table_difference(old: pl.DataFrame, new: pl.DataFrame, tolerance: float) -> str | None:
    """What to say of the column that differs most; None if the tables are the same."""
    if old.height != new.height:
        return f"{old.height} rows, now {new.height}"
    now = {name: name if name in new.columns else COLUMNS.get(name, name) for name in old.columns}
    if gone := [name for name in old.columns if now[name] not in new.columns]:
        return f"no longer has {', '.join(gone)}"
    found = (column_difference(old[name], new[now[name]], tolerance) for name in old.columns if name != "note")
    return max(filter(None, found), default=(0.0, None))[1]


def compare(old: Path, new: Path, tolerance: float) -> bool:
    """Print a line per table that differs, and counts; whether there are tables and all are the same."""
    tables = sorted(path.relative_to(old) for path in old.glob("*/*.parquet"))
    differing, seen = 0, set()
    for table in tables:
        path = new / table
        for before, after in TABLES.items():
            if not path.exists() and table.name.startswith(before):
                path = path.with_name(after + table.name.removeprefix(before))
        seen.add(path)
        there = path.exists()
        words = table_difference(pl.read_parquet(old / table), pl.read_parquet(path), tolerance) if there else "missing"
        if words is not None:
            differing += 1
            print(f"{table.with_suffix('')}: {words}")
    added = len(set(new.glob("*/*.parquet")) - seen)
    print(f"{len(tables)} tables: {len(tables) - differing} the same, {differing} differ or are missing; {added} new")
    return bool(tables) and not differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    dumping, comparing = verbs.add_parser("dump"), verbs.add_parser("compare")
    dumping.add_argument("out", type=Path, help="where the tables go: a directory that is not there yet")
    dumping.add_argument("--data", type=Path, required=True, help="directory of real data")
    dumping.add_argument("--study", type=Path, help="directory of a study; simulated if it is not there")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--tolerance", type=float, default=1e-12, help="absolute plus relative")
    options = parser.parse_args()
    if options.verb == "compare":
        return int(not compare(options.old, options.new, options.tolerance))
    if options.out.exists():
        parser.error(f"{options.out} is there already; name a new directory")
    dump(options.out, options.data, options.study)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
