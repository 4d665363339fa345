"""``advise`` on real data: short forms, test sets that were not evaluated, models together, power.

``python benchmarks/advise.py short|gsm8k|short_families|testsets|families|together|power [--sets choose|confirm]``;
data in ../shared/data or ``BREADTH_SHARED_DATA``. Rules were chosen on CHOOSE alone, then fixed, then run on CONFIRM.
``families`` and ``short_families`` hold out one family after the other: their rules were chosen on "choose" of
FAMILY_TABLES and FAMILY_MATRICES.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from breadth.advice import Predictor, paired_items, paired_power, read_scores, route, route_gain, vote, vote_gain
from breadth.advice.short_form import Trial, fit_ridge, random_split, strong_split, try_short_form
from breadth.advice.together import best_first, make_folds, routed
from breadth.comparison import EXACT, exact_p
from breadth.irt import cut_levels
from breadth.sources.model_families import family_of_name, names_family

DATA = Path(os.environ.get("BREADTH_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
CHOOSE = ("arc_challenge", "bigcodebench", "med_qa", "rte", "musr")
CONFIRM = ("ifeval", "openllm_math", "legalbench", "sst2", "gsm8k_leaderboard")


def matrices(names: tuple[str, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """Complete matrices of answers; of the GSM8K leaderboard, 400 random models without gaps."""
    for name in names:
        matrix = np.load(DATA / "responses" / f"{name}.npz", allow_pickle=False)["R"]
        matrix = matrix[(matrix >= 0).all(axis=1)]
        if len(matrix) > 1000:
            matrix = matrix[np.random.default_rng(0).permutation(len(matrix))[:400]]
        yield name, matrix


def figures(trials: list[Trial]) -> tuple[float, float, float, float]:
    """RMSE of the rule and of the stratified mean in points, coverage, share of models with the assisted estimate."""
    error, plain, covered, used, _ = (np.concatenate(part) for part in zip(*trials, strict=True))
    return (*(100 * float(np.sqrt((e**2).mean())) for e in (error, plain)), float(covered.mean()), float(used.mean()))


def short(names: tuple[str, ...], repeats: int = 20) -> None:
    """Error and coverage of short forms on random and strong splits."""
    rows = []
    for name, matrix in matrices(names):
        for kind in ("random", "strong"):
            for k in (50, 100):
                splits = [
                    random_split(len(matrix), seed) if kind == "random" else strong_split(matrix.mean(axis=1))
                    for seed in range(repeats)
                ]
                everything = np.zeros(matrix.shape[1], dtype=np.intp)
                trials = [try_short_form(matrix, everything, k, *split, seed) for seed, split in enumerate(splits)]
                rows.append((name, kind, k, *figures(trials)))
                print(
                    "{} {} k={}: RMSE {:.2f}, stratified mean {:.2f}, coverage {:.3f}, assisted {:.2f}".format(
                        *rows[-1]
                    ),
                    flush=True,
                )
    frame = pl.DataFrame(rows, schema=["set", "split", "k", "rmse", "plain", "coverage", "assisted"], orient="row")
    print(
        frame.group_by("split", "k", maintain_order=True).agg(
            (pl.col("rmse").mean() / pl.col("plain").mean()).alias("ratio"), pl.col("rmse", "plain", "coverage").mean(),
            pl.col("coverage").min().alias("worst"),
        )
    )  # fmt: skip


def gsm8k(repeats: int = 10, k: int = 100) -> None:
    """Short forms of GSM8K: learn from older models and score newer ones; learn from other families."""
    stored = np.load(DATA / "responses" / "gsm8k_leaderboard.npz", allow_pickle=False)
    known = pl.read_csv(
        DATA / "responses" / "gsm8k_leaderboard_models.csv", infer_schema_length=None, null_values="nan"
    )
    frame = (
        pl.DataFrame({"model": stored["models"]}).with_row_index("row").join(known, on="model").sort("date", "model")
    )
    matrix = stored["R"][frame["row"].to_numpy()]
    frame = frame.with_columns(complete=pl.Series((matrix >= 0).all(axis=1)))
    matrix, frame = matrix[frame["complete"].to_numpy()], frame.filter("complete")
    everything = np.zeros(matrix.shape[1], dtype=np.intp)
    order, cut = np.arange(len(matrix)), int(0.7 * len(matrix))
    splits = {"newer models": (order[:cut], order[cut:])}
    counts = frame.filter(pl.col("architecture") != "error")["architecture"].value_counts(sort=True)
    families = counts["architecture"].head(4).to_list()
    for family in families:
        own = (frame["architecture"] == family).fill_null(False).to_numpy()
        splits[f"family {family}"] = (order[~own], order[own])
    rows = []
    for name, (learn, test) in splits.items():
        trials = []
        for seed in range(repeats):
            some = np.random.default_rng(seed).permutation(learn)[:600]
            trials.append(try_short_form(matrix, everything, k, some, test, seed))
        rows.append((name, *figures(trials)))
        print("{} RMSE {:.2f}, stratified mean {:.2f}, coverage {:.3f}, assisted {:.2f}".format(*rows[-1]), flush=True)
    print("mean over families:", np.mean([row[1:] for row in rows[1:]], axis=0).round(3))


TABLES = {"open_llm_leaderboard_v1": "date", "open_llm_leaderboard_v2": "submitted", "base_models_observational": None}


def plain_ridge(known: np.ndarray, targets: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The trial's way: ridge regression on standardised scores, leave-one-out intervals, nothing refused."""
    centre, scale = known.mean(axis=0), known.std(axis=0)
    ones = np.ones((len(known), 1))
    fit = fit_ridge((known - centre) / scale, ones, targets)
    score = (new - centre) / scale @ fit.penalised + fit.free[0]
    return score, np.quantile(np.abs(fit.residual), 0.95, axis=0)


def testsets() -> None:
    """Every test set predicted from all others: random, forward in time, and strong splits."""
    for name, date in TABLES.items():
        table = read_scores(DATA / "scores" / f"{name}.csv", date, None)
        scores = table.scores[~np.isnan(table.scores).any(axis=1)]
        models, sets = scores.shape
        splits = {
            "random": [random_split(models, seed) for seed in range(5)],
            "strong": [strong_split(scores.mean(axis=1))],
        }
        if table.dated:
            splits["forward"] = [(np.arange(int(0.7 * models)), np.arange(int(0.7 * models), models))]
        for kind, parts in splits.items():
            own: list[np.ndarray] = [np.empty(0)] * 4
            for part, test in parts:
                learn = np.sort(part)
                for j in range(sets):
                    others = [k for k in range(sets) if k != j]
                    truth = scores[test, j]
                    one = Predictor.of(scores[np.ix_(learn, others)], scores[np.ix_(learn, [j])], table.dated)
                    ours = one.predict(scores[np.ix_(test, others)])
                    ridge, reach = plain_ridge(
                        scores[np.ix_(learn, others)], scores[np.ix_(learn, [j])], scores[np.ix_(test, others)]
                    )
                    covered = (ours.low[:, 0] <= truth) & (truth <= ours.high[:, 0])
                    rows = (
                        ours.score[:, 0] - truth,
                        ridge[:, 0] - truth,
                        ours.inside[:, 0],
                        covered,
                        np.abs(ridge[:, 0] - truth) <= reach,
                    )
                    own = [
                        np.append(a, b) for a, b in zip(own if len(own) == 5 else [np.empty(0)] * 5, rows, strict=True)
                    ]
            error, peer, inside, covered, peer_covered = own
            keep = inside.astype(bool)
            answered = f"answered {keep.mean():.2f}: RMSE {root(error[keep])}, ridge {root(peer[keep])}"
            share = f"{covered[keep].mean():.3f}" if keep.any() else "-"
            whole = f"all models: {root(error)}, ridge {root(peer)}, its coverage {peer_covered.mean():.3f}"
            print(f"{name} {kind}: {answered}, coverage {share}; {whole}", flush=True)


#: Tables of scores whose models have families, and the column that names them.
FAMILY_TABLES = {
    "choose": {"open_llm_leaderboard_v2": "architecture", "base_models_observational": "family"},
    "confirm": {"open_llm_leaderboard_v1": "architecture"},
}

#: Answers of models whose families are known: by name, where no column names them.
FAMILY_MATRICES = {"choose": ("bigcodebench", "zeroeval_gsm", "zeroeval_math_l5"), "confirm": ("gsm8k_leaderboard",)}

#: Answers that a pair of a test set and a family must have for its own coverage to be named.
FEWEST_NAMED = 10


def families(which: str) -> None:
    """Every family held out: every test set predicted from all others, and from pairs of others, for its models."""
    for name, column in FAMILY_TABLES[which].items():
        path = DATA / "scores" / f"{name}.csv"
        table = read_scores(path, None, None, column)
        assert table.families is not None
        known = ~np.isnan(table.scores).any(axis=1) & table.families.known
        scores, family = table.scores[known], table.families.of(known)
        stated = dict(pl.read_csv(path, infer_schema_length=None).select("model", column).iter_rows())
        names = {code: stated[table.models[row]] for code, row in zip(family, np.flatnonzero(known), strict=True)}
        for sets in (scores.shape[1] - 1, 2):
            rows = pl.concat(held_out_families(scores, family, names, table.testsets, sets))
            report_families(f"{name}, {sets} sets known", rows)


def held_out_families(
    scores: np.ndarray, family: np.ndarray, names: dict[int, str], testsets: list[str], sets: int
) -> Iterator[pl.DataFrame]:
    """A row per answered model, target and choice of known sets: coverage and widths with families, and without."""
    choices = np.random.default_rng(0)
    for target in range(scores.shape[1]):
        others = [j for j in range(scores.shape[1]) if j != target]
        combinations = list(itertools.combinations(others, sets))
        if len(combinations) > 4:
            combinations = [combinations[k] for k in choices.choice(len(combinations), 4, replace=False)]
        for known, own in itertools.product(combinations, np.unique(family)):
            out = family == own
            learn, new = scores[~out][:, known], scores[out][:, known]
            truth = scores[out, target]
            codes = np.unique(family[~out], return_inverse=True)[1]
            grouped = Predictor.of(learn, scores[~out][:, [target]], family=codes).predict(new)
            single = Predictor.of(learn, scores[~out][:, [target]]).predict(new)
            inside = grouped.inside[:, 0] & single.inside[:, 0]
            columns: dict[str, Any] = {"testset": testsets[target], "family": [names[own]] * int(inside.sum())}
            for kind, predicted in (("with", grouped), ("without", single)):
                low, high = np.clip(predicted.low[inside, 0], 0, 100), np.clip(predicted.high[inside, 0], 0, 100)
                columns[f"covered_{kind}"] = (low <= truth[inside]) & (truth[inside] <= high)
                columns[f"width_{kind}"] = high - low
                columns[f"square_{kind}"] = (predicted.score[inside, 0] - truth[inside]) ** 2
            schema = {"testset": pl.String, "family": pl.String}
            yield pl.DataFrame(columns, schema_overrides=schema)


def family_matrix(name: str) -> tuple[np.ndarray, list[str]]:
    """Complete answers and the family of every model: its architecture on the leaderboard, else what its name shows."""
    if name.startswith("zeroeval"):
        long = pl.read_parquet(DATA / "difficulty" / f"{name}_answers.parquet")
        wide = long.pivot("item", index="model", values="correct")
        cells = wide.drop("model").to_numpy().astype(np.float64)
        matrix = cells[:, ~np.isnan(cells).any(axis=0)].astype(np.int8)
        models = wide["model"].to_list()
    else:
        stored = np.load(DATA / "responses" / f"{name}.npz", allow_pickle=False)
        matrix, models = stored["R"], [str(model) for model in stored["models"]]
    if name != "gsm8k_leaderboard":
        return matrix, [family_of_name(model) or model for model in models]
    known = pl.read_csv(DATA / "responses" / f"{name}_models.csv", infer_schema_length=None, null_values="nan")
    stated = dict(known.select("model", "architecture").iter_rows())
    rows = [k for k, model in enumerate(models) if names_family(stated.get(model)) and (matrix[k] >= 0).all()]
    return matrix[rows], [stated[models[k]] for k in rows]


def short_families(which: str, repeats: int = 4) -> None:
    """Every family of two or more held out: full scores of its models from short forms."""
    for name, k in itertools.product(FAMILY_MATRICES[which], (50, 100)):
        matrix, labels = family_matrix(name)
        family = np.unique(labels, return_inverse=True)[1]
        everything = np.zeros(matrix.shape[1], dtype=np.intp)
        rows = []
        for own in np.flatnonzero(np.bincount(family) >= 2):
            for seed in range(repeats):
                generator = np.random.default_rng(seed)
                test = generator.permutation(np.flatnonzero(family == own))[:150]
                learn = np.flatnonzero(family != own)
                some = np.sort(generator.permutation(learn)[:500])
                columns: dict[str, Any] = {"testset": name, "family": [labels[test[0]]] * len(test)}
                for kind, codes in (("without", None), ("with", family)):
                    trial = try_short_form(matrix, everything, k, some, test, seed, codes)
                    columns[f"covered_{kind}"] = trial.covered
                    columns[f"width_{kind}"] = 100 * trial.width
                    columns[f"square_{kind}"] = 1e4 * trial.error**2
                rows.append(pl.DataFrame(columns))
        report_families(f"{name}, k={k}", pl.concat(rows))


def report_families(name: str, rows: pl.DataFrame) -> None:
    """Coverage over models, and over families that each count once; widths, errors, and the worst families."""
    for kind in ("without", "with"):
        covered, width = pl.col(f"covered_{kind}").mean(), pl.col(f"width_{kind}")
        whole = rows.select(covered, width.median(), pl.col(f"square_{kind}").mean().sqrt()).row(0)
        each = rows.group_by("testset", "family").agg(covered.alias("covered"), width.mean().alias("width"), pl.len())
        means = each.select(pl.col("covered", "width").mean()).row(0)
        large = each.filter(pl.col("len") >= FEWEST_NAMED)
        low = large.filter(pl.col("covered") < 0.8).height
        print(
            f"{name}, {kind} families: models {whole[0]:.3f} covered, median width {whole[1]:.1f}, RMSE "
            f"{whole[2]:.2f}; mean of families {means[0]:.3f}, width {means[1]:.1f}; {low} of {large.height} pairs of "
            f"a test set and a family with {FEWEST_NAMED} answers or more below 0.8",
            flush=True,
        )
        for row in large.sort("covered", "testset").head(4).iter_rows(named=True):
            print("    {testset}, {family}: {covered:.2f} of {len}, width {width:.1f}".format(**row))


def root(error: np.ndarray) -> str:
    """Root mean square, or a dash."""
    return f"{np.sqrt((error**2).mean()):.2f}" if len(error) else "-"


def together(names: tuple[str, ...], repeats: int = 24) -> None:
    """Honest gains from half of the items against what the other half shows."""
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for name, matrix in matrices(names):
        own: dict[str, list[tuple[float, float, float]]] = {}
        answers = matrix.astype(float)
        level = cut_levels(-answers.mean(axis=0), 5)
        for seed in range(repeats):
            half = np.random.default_rng(seed).permutation(answers.shape[1])
            first, second = half[: len(half) // 2], half[len(half) // 2 :]
            seen, new = answers[:, first], answers[:, second]
            folds = make_folds(len(first), None, 2, seed)
            single = new[int(best_first(seen)[0])].mean()
            for key, gain in (
                ("best triple", vote_gain(seen, folds, 3, True)),
                ("top 3", vote_gain(seen, folds, 3, False)),
                ("top 5", vote_gain(seen, folds, 5, False)),
            ):
                own.setdefault(key, []).append(
                    (gain.naive, gain.honest, float(vote(new, gain.members).mean() - single))
                )
            gain = route_gain(seen, folds, level[first])
            chosen, base = route(seen, level[first]), int(best_first(seen)[0])
            own.setdefault("route by level", []).append(
                (gain.naive, gain.honest, float(routed(new, level[second], chosen, base).mean() - single))
            )
        for key, values in own.items():
            rows.setdefault(key, []).append(tuple(100 * np.mean(values, axis=0)))
        print(
            name, {key: np.round(100 * np.mean(values, axis=0), 2).tolist() for key, values in own.items()}, flush=True
        )
    for key, values in rows.items():
        naive, honest, real = np.array(values).T
        off = honest - real
        print(f"{key}: naive {naive.mean():+.2f}, honest {honest.mean():+.2f}, realised {real.mean():+.2f}")
        print(f"    honest minus realised: mean {off.mean():+.2f}, mean absolute {np.abs(off).mean():.2f}")


def power(names: tuple[str, ...], pairs: int = 200, draws: int = 100) -> None:
    """Share of samples of the planned size, drawn from real pairs, in which ``compare`` finds the difference.

    Planned for with the pair's own disagreement; beside it, with the median over pairs, which is all that is known of a
    pair that has yet to be evaluated: the mean of the power and its 10 % and 90 % quantiles over pairs.
    """
    generator = np.random.default_rng(0)
    for name, matrix in matrices(names):
        found, planned, real = [], [], []
        while len(planned) < pairs:
            one, two = matrix[generator.choice(len(matrix), 2, replace=False)].astype(float)
            gap = two - one
            difference = abs(gap.mean())
            if not 0.02 <= difference <= 0.15:
                continue
            n = int(np.ceil(paired_items((gap**2).mean(), difference)))
            counts = generator.multinomial(n, [(gap < 0).mean(), (gap > 0).mean(), (gap == 0).mean()], draws)
            for behind, ahead, _ in counts:
                mean, se = (
                    (ahead - behind) / n,
                    np.sqrt((ahead + behind) / n - ((ahead - behind) / n) ** 2) / np.sqrt(n - 1),
                )
                p = exact_p(int(behind), int(ahead)) if behind + ahead <= EXACT else 2 * stats.norm.sf(abs(mean) / se)
                found.append(p < 0.05)
            planned.append(n)
            real.append(((gap**2).mean(), difference))
        middle = float(np.median([disagreement for disagreement, _ in real]))
        typical = [paired_power(int(paired_items(max(middle, d), d)), q, d) for q, d in real]
        ends = "{:.2f} to {:.2f}".format(*np.quantile(typical, [0.1, 0.9]))
        print(
            f"{name}: realised power {np.mean(found):.3f}, items {np.median(planned):.0f} (median); planned with the "
            f"median disagreement {np.mean(typical):.3f} ({ends})",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what")
    parser.add_argument("--sets", choices=("choose", "confirm"), default="choose")
    given = parser.parse_args()
    sets = CHOOSE if given.sets == "choose" else CONFIRM
    runs: dict[str, Callable[[], None]] = {
        "short": lambda: short(sets), "gsm8k": gsm8k, "testsets": testsets,
        "families": lambda: families(given.sets), "short_families": lambda: short_families(given.sets),
        "together": lambda: together(sets), "power": lambda: power(sets),
    }  # fmt: skip
    runs[given.what]()
