"""What a model can tell apart, and which answer it leans to: scores of a test set from answers and their margins.

Every score here is a sum, over groups of a test set's items, of the mean of a value per item (:class:`ItemValues`). So
one formula gives its standard error, its change between two checkpoints on the same items, and its split halves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from breadth.errors import InputError, listed
from breadth.inference import LEVEL, NORMAL, Floats, wilson_interval
from breadth.records.sparse import SparseMatrix

if TYPE_CHECKING:
    from breadth.records.study import Study

Indices = npt.NDArray[np.intp]

#: How well a subject does on a test set.
Score = Literal["accuracy", "auc", "dprime", "balanced", "logscore"]
SCORES: tuple[Score, ...] = get_args(Score)

#: Which answer it leans to: criterion c, the share of the first answer, and this share averaged over the two labels.
Measure = Literal["accuracy", "auc", "dprime", "balanced", "logscore", "criterion", "share", "lean"]

#: Name of the control that stands for answer bias.
BIAS = "bias"

#: Above this many labels, labels are texts of their own rather than answers to choose from.
MOST_ANSWERS = 10

#: Items that the rarer label needs for an interval of ``auc`` and ``dprime``. With 2 or 3, no interval that was tried
#: covers (``benchmarks/answer_bias.py few``).
LEAST_LABELS = 5

#: The same for a change of ``auc`` or ``dprime`` between checkpoints: with 5 of a label, intervals of the paired
#: difference cover as little as 85 %, from 20 on 93 to 97 %.
LEAST_CHANGED_LABELS = 20

#: Scores whose intervals need that many items of each label.
BY_LABEL: tuple[Measure, ...] = ("auc", "dprime", "criterion")

#: What the variance of an area by a formula weighs beside the one from placements, in degrees of freedom.
FORMULA_WEIGHT = 30.0

#: Subjects whose items are sorted at once, to save memory.
ROWS = 256

#: The same of sparse answers: cells of a block of subjects and of the items that any of them answered.
BLOCK_CELLS = 4_000_000


class ItemValues(NamedTuple):
    """Values of items [subjects, items], NaN where unanswered: a score is the sum over groups of their means.

    ``group`` numbers the items' groups: the labels, where a score treats them apart, else 0.
    """

    values: Floats
    group: Indices


class _ScoredItems(NamedTuple):
    """The items of a test set as a measure sees them, whoever answers; ``columns`` are their places in the matrix.

    ``is_first`` says whose label is the first answer, where there are two; ``groups`` is the number of groups;
    ``takes_sign`` whether what was answered follows from the sign of the margin.
    """

    measure: Measure
    columns: Indices
    group: Indices
    groups: int
    is_first: npt.NDArray[np.bool_] | None = None
    takes_sign: bool = False


class ScoreEstimates(NamedTuple):
    """A score of every subject with the ends of its 95 % interval; NaN where it is not known."""

    value: Floats
    low: Floats
    high: Floats


class Scored(NamedTuple):
    """Scores [subjects, test sets], their split halves [subjects, test sets, splits], and why sets have none."""

    scores: Floats
    halves: Floats
    undefined: dict[str, str]


def answers_of(study: Study, testset: str) -> dict[str, str]:
    """The answers that a test set's items share, by label in order, with the words for them; {} if not 2 to 10.

    Labels are those of the items, or of their options. Words are those of the study's prompts, else the labels.
    """
    items = study.items.filter(pl.col("testset") == testset)
    known = items["label"].drop_nulls() if "label" in items.columns else pl.Series([], dtype=pl.String)
    if "option_labels" in items.columns and items["option_labels"].is_not_null().any():
        known = items["option_labels"].drop_nulls().explode()
    labels = known.cast(pl.String).unique().sort().to_list()
    words = {label: text.strip() for label, text in dict(_task_of(study, testset).get("answers") or {}).items()}
    return {label: words.get(label) or label for label in labels} if 2 <= len(labels) <= MOST_ANSWERS else {}


def may_be_neither(study: Study, testset: str) -> bool:
    """Whether a model may answer with any token of its vocabulary (``evaluate.predict``), and so with no answer."""
    return _task_of(study, testset).get("predict") == "vocabulary"


def _task_of(study: Study, testset: str) -> Mapping[str, Any]:
    """How a test set is prompted and scored, by the first run that says so."""
    for record in study.runs.values():
        task = record.task_of(testset)
        if task:
            return task
    return {}


def item_values(study: Study, measure: Measure, testset: str, rows: slice | Indices = slice(None)) -> ItemValues:
    """Values of the items of a test set for ``rows`` of the matrix; refuses a measure that is not defined there.

    With two answers, of which the first (by name) is the one that items may signal: H is the share of the first answer
    among items whose label it is, F among the others, both with the log-linear correction (Hautus 1995): half an
    answer added to either side. z is the normal quantile.

    - ``auc``: the area under the ROC curve of the log-odds of the first answer, ties counting half. The values are the
      placements of DeLong, DeLong and Clarke-Pearson (1988), so that means, differences and variances are theirs.
    - ``dprime``: z(H) - z(F); ``criterion``: -(z(H) + z(F)) / 2, above 0 where the first answer is given too seldom.
      Both are linearised (Gourevitch and Galanter 1967).
    - ``share``: of the first answer. ``lean``: (H + F) / 2 without the correction, which does not depend on how many
      items have which label.

    Where a model may answer with any token (``may_be_neither``), dprime, criterion, share and lean are those of the
    likelier of the two answers, by the sign of the margin: what is wrong need not be the other answer there.

    With any number of answers: ``balanced`` is the mean over labels of the accuracy on their items, ``logscore`` the
    mean log-probability of the right answer among the answers (log-likelihoods as the test set normalises them).
    """
    return _values_of(study, _scored_items(study, measure, testset), rows)


def _scored_items(study: Study, measure: Measure, testset: str) -> _ScoredItems:
    """What a measure needs to know about the items of a test set; refused if it is not defined there."""
    columns = np.flatnonzero(study.set_index == study.testsets.index(testset))
    whole = np.zeros(len(columns), dtype=np.intp)
    if measure != "accuracy":
        _refuse_undefined(study, measure, testset, columns)
    if measure in ("accuracy", "logscore"):
        return _ScoredItems(measure, columns, whole, 1)
    labels = study.items["label"].cast(pl.String).gather(columns)
    label = labels.replace_strict(labels.unique().sort(), range(labels.n_unique()), return_dtype=pl.Int64)
    group = label.to_numpy().astype(np.intp)
    groups = int(group.max()) + 1
    if measure == "balanced":
        return _ScoredItems(measure, columns, group, groups)
    is_first = (labels == next(iter(answers_of(study, testset)))).to_numpy()
    if measure == "share":
        group, groups = whole, 1
    takes_sign = measure != "auc" and may_be_neither(study, testset) and study.margin is not None
    return _ScoredItems(measure, columns, group, groups, is_first, takes_sign)


def _values_of(study: Study, items: _ScoredItems, rows: slice | Indices) -> ItemValues:
    """The values of items for ``rows`` of the matrix."""
    from scipy import special  # here, so that what only reads studies starts quickly

    measure, columns, group, is_first = items.measure, items.columns, items.group, items.is_first
    needs_margin = measure in ("auc", "logscore") and study.margin is not None
    answers = study.margin if needs_margin and study.margin is not None else study.correct
    correct: npt.NDArray[Any] = _block(answers, rows, columns)
    correct = correct if measure == "auc" else correct.astype(np.float64)
    if measure in ("accuracy", "logscore"):
        return ItemValues(correct if measure == "accuracy" else special.log_expit(correct), group)
    if measure == "balanced":
        return ItemValues(correct / items.groups, group)
    assert is_first is not None, "other measures are of two answers"
    if measure == "auc":
        odds = np.where(is_first, np.float32(1), np.float32(-1)) * correct
        return ItemValues(placements(odds, is_first), group)
    if items.takes_sign and study.margin is not None:
        margin = _block(study.margin, rows, columns).astype(np.float64)
        correct = np.where(np.isnan(margin), np.nan, margin > 0)
    said_first = np.where(is_first, correct, 1 - correct)
    if measure in ("share", "lean"):
        return ItemValues(said_first if measure == "share" else said_first / 2, group)
    values = np.empty_like(said_first)
    scales = ((is_first, 1.0), (~is_first, -1.0)) if measure == "dprime" else ((is_first, -0.5), (~is_first, -0.5))
    for inside, scale in scales:
        said = said_first[:, inside]
        n = (~np.isnan(said)).sum(axis=1, keepdims=True)
        total = np.nansum(said, axis=1, keepdims=True)
        z = special.ndtri((total + 0.5) / (n + 1))
        slope = np.sqrt(2 * np.pi) * np.exp(z**2 / 2)
        values[:, inside] = scale * (z + slope * (said - total / np.maximum(n, 1)))
    return ItemValues(values, group)


def _answered_by(study: Study, items: _ScoredItems, rows: slice) -> _ScoredItems:
    """The same items; of sparse answers only those that any of some subjects answered."""
    if study.cells is None:
        return items
    inside = np.isin(items.columns, study.cells.columns_of(rows), assume_unique=True)
    is_first = None if items.is_first is None else items.is_first[inside]
    return items._replace(columns=items.columns[inside], group=items.group[inside], is_first=is_first)


def _block(matrix: npt.NDArray[Any], rows: slice | Indices, columns: Indices) -> npt.NDArray[Any]:
    """Some rows and columns of a matrix, which a sparse one is asked for at once."""
    if isinstance(matrix, SparseMatrix):
        return matrix.dense_part(np.arange(len(matrix))[rows], columns)
    return matrix[rows][:, columns]


def _row_blocks(study: Study) -> Iterator[slice]:
    """Blocks of subjects that are scored at once, to save memory."""
    height = len(study.matrix)
    if study.cells is None:
        for start in range(0, height, ROWS):
            yield slice(start, start + ROWS)
        return
    # The items of a block are at most as many as its answers.
    start, answers = 0, 0
    for row, number in enumerate(np.bincount(study.cells.row, minlength=height).tolist()):
        wider = min(answers + number, study.items.height)
        if row > start and (row + 1 - start) * wider > BLOCK_CELLS:
            yield slice(start, row)
            start, answers = row, 0
        answers += number
    yield slice(start, height)


def _refuse_undefined(study: Study, measure: Measure, testset: str, columns: Indices) -> None:
    """Refuse a measure that needs labels, margins or two answers where a test set has none."""
    where = f"{study.name}: {measure} is not defined for test set {testset}"
    if measure in ("auc", "logscore") and not _has_margins(study, columns):
        raise InputError(
            f"{where}: its answers have no margin (the log-odds of the right answer), as where a model writes its "
            "answers; use --score accuracy"
        )
    if measure == "logscore":
        return
    labels = study.items["label"].gather(columns) if "label" in study.items.columns else None
    if labels is None or labels.is_null().any():
        raise InputError(f"{where}: some of its items have no label (column label); add it, or use --score accuracy")
    answers = answers_of(study, testset)
    if not answers:
        raise InputError(
            f"{where}: its items have {labels.n_unique():,} different labels, not 2 to {MOST_ANSWERS} answers that "
            "they share; use --score accuracy or logscore"
        )
    if measure != "balanced" and len(answers) > 2:
        raise InputError(
            f"{where}: it has {len(answers)} answers ({listed(answers)}), and the margin of the right one does not "
            "say how likely each of the others is; use --score balanced or logscore"
        )
    if labels.n_unique() < 2:
        raise InputError(f"{where}: all its items have the label {labels[0]}; use --score accuracy or logscore")


def _has_margins(study: Study, columns: Indices) -> bool:
    """Whether any answer to some items has a margin."""
    if study.margin is None:
        return False
    if isinstance(study.margin, SparseMatrix):
        known = study.margin.column[~np.isnan(study.margin.values)]
        return bool(np.isin(known, columns).any())
    if not np.isnan(study.margin[:, columns[:1]]).all():  # quick, and mostly enough
        return True
    return not np.isnan(study.margin[:, columns]).all()


def placements(odds: npt.NDArray[np.floating], first: npt.NDArray[np.bool_]) -> Floats:
    """DeLong's placements [subjects, items] for log-odds of the first answer, less half the area; NaN if unanswered.

    The placement of an item with the first label is the share of the other items with lower log-odds (ties count
    half); of another item, the share of items with the first label and higher log-odds. Both average to the area, so
    the means of these values over the two labels add up to it.
    """
    order = np.argsort(odds, axis=1)  # unanswered items come last
    ranked = np.take_along_axis(odds, order, axis=1)
    known, own = ~np.isnan(ranked), first[order]
    tied = ranked[:, 1:] == ranked[:, :-1]
    if tied.any():  # where the ties of every place begin and end
        place, last = np.arange(odds.shape[1]), odds.shape[1] - 1
        begin = np.maximum.accumulate(np.where(np.pad(tied, ((0, 0), (1, 0))), 0, place), axis=1)
        ends = np.where(np.pad(tied, ((0, 0), (0, 1))), last, place)
        end = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    twice, total = [], []  # items of either label below every place, ties counting half, times two; and in all
    for mine in (own & known, ~own & known):
        up_to = np.cumsum(mine, axis=1, dtype=np.int32)
        total.append(np.where(up_to[:, -1:] > 0, up_to[:, -1:], np.nan))
        before = up_to - mine
        if tied.any():
            before, up_to = np.take_along_axis(before, begin, axis=1), np.take_along_axis(up_to, end, axis=1)
        twice.append(before + up_to)
    share = np.where(own, twice[1], twice[0]) * np.where(own, 0.5 / total[1], -0.5 / total[0]) + ~own
    area = np.sum(share, axis=1, where=own & known, keepdims=True) / total[0]
    share -= np.where(known, area / 2, np.nan) if not known.all() else area / 2
    values = np.empty(odds.shape)
    np.put_along_axis(values, order, share, axis=1)
    return values


def scored(study: Study, measure: Measure, splits: int = 0, seed: int = 0) -> Scored:
    """A measure of every subject on every test set where it is defined, and half the differences of split halves.

    The same items form the same random half of a test set for every subject, so the difference shows how far a score
    would move if the test set held other items of the same kind. The halves are those of the values per item: for
    scores that are not plain means they are exact to first order.
    """
    generator, sides = np.random.default_rng(seed), np.zeros((study.items.height, splits))
    order = study.items.select("testset", "item").with_row_index("column").sort("testset", "item")
    for columns in order.group_by("testset", maintain_order=True).agg("column")["column"] if splits else ():
        balanced = np.arange(columns.len()) < columns.len() / 2
        sides[columns.to_numpy()] = np.stack([generator.permutation(balanced) for _ in range(splits)], 1)
    undefined = {}
    scores = np.full((len(study.matrix), len(study.testsets)), np.nan)
    halves = np.full((*scores.shape, splits), np.nan)
    for k, testset in enumerate(study.testsets):
        try:
            items = _scored_items(study, measure, testset)
        except InputError as error:
            undefined[testset] = str(error)
            continue
        if study.cells is not None and measure == "accuracy":
            scores[:, k], halves[:, k] = _scores_of_cells(study.cells, study.set_index == k, sides)
            continue
        for rows in _row_blocks(study):
            block = _answered_by(study, items, rows)
            values, group = _values_of(study, block, rows)
            scores[rows, k], halves[rows, k] = 0.0, 0.0
            for one in range(items.groups):
                mine = values[:, group == one]
                answered = (~np.isnan(mine)).astype(np.float64)
                mine, side = np.nan_to_num(mine, copy=False), sides[block.columns[group == one]]
                score, half = _score_and_halves(mine.sum(axis=1), answered.sum(axis=1), mine @ side, answered @ side)
                scores[rows, k] += score
                halves[rows, k] += half
    return Scored(scores, halves, undefined)


def _score_and_halves(total: Floats, number: Floats, in_half: Floats, number_in_half: Floats) -> tuple[Floats, Floats]:
    """A mean, and half the difference between those of two halves, from sums over all items and over one half."""
    with np.errstate(invalid="ignore"):  # nothing was answered: 0 / 0
        first = in_half / number_in_half
        second = (total[:, None] - in_half) / (number[:, None] - number_in_half)
        return total / number, (first - second) / 2


def _scores_of_cells(cells: SparseMatrix, inside: npt.NDArray[np.bool_], sides: Floats) -> tuple[Floats, Floats]:
    """Accuracies of all subjects on some items, and their halves, from filled cells alone."""
    height = len(cells)
    own = inside[cells.column]
    row, column, values = cells.row[own], cells.column[own], cells.values[own].astype(np.float64)
    in_half = np.empty((height, sides.shape[1]))
    number_in_half = np.empty_like(in_half)
    for split in range(sides.shape[1]):
        side = sides[column, split]
        in_half[:, split] = np.bincount(row, values * side, height)
        number_in_half[:, split] = np.bincount(row, side, height)
    total = np.bincount(row, values, height).astype(np.float64)
    number = np.bincount(row, minlength=height).astype(np.float64)
    return _score_and_halves(total, number, in_half, number_in_half)


def answer_counts(study: Study, testset: str) -> tuple[Floats, Floats]:
    """How often every subject gave the first and the second of the two answers of a test set."""
    items = _scored_items(study, "share", testset)
    first, second = np.zeros(len(study.matrix)), np.zeros(len(study.matrix))
    for rows in _row_blocks(study):
        said_first = _values_of(study, _answered_by(study, items, rows), rows).values
        first[rows] = np.nansum(said_first, axis=1)
        second[rows] = np.nansum(1 - said_first, axis=1)
    return first, second


def score_intervals(study: Study, measure: Measure, testset: str) -> ScoreEstimates:
    """A measure of every subject on a test set with its 95 % interval, the items being a sample; in closed form.

    ``auc``: :func:`area_interval`. ``dprime``, ``criterion`` and ``balanced``: the delta method with rates after the
    log-linear correction. ``accuracy`` and ``share``: Wilson. ``logscore``: t. With fewer than ``LEAST_LABELS`` items
    of a label, ``auc``, ``dprime`` and ``criterion`` have no interval.
    """
    from scipy import special

    parts = []
    items = _scored_items(study, measure, testset)
    for rows in _row_blocks(study):
        values, group = _values_of(study, _answered_by(study, items, rows), rows)
        groups, known = group == np.arange(items.groups)[:, None], ~np.isnan(values)
        n = known.astype(np.float64) @ groups.T
        n[n == 0] = np.nan
        means = np.nan_to_num(values) @ groups.T / n
        apart = np.where(known, values - means[:, group], 0.0) ** 2
        parts.append((n, means, apart @ groups.T / np.maximum(n - 1, 1)))
    n, means, spread = (np.concatenate(each) for each in zip(*parts, strict=True))
    value = means.sum(axis=1)
    size = n.min(axis=1)
    if measure in ("accuracy", "share"):
        return ScoreEstimates(value, *wilson_interval(np.clip(value, 0, 1), size))
    if measure == "auc":
        return ScoreEstimates(value, *area_interval(value, spread / n, n))
    quantile = np.full(len(value), NORMAL)
    if measure == "balanced":
        rate = (n * means * means.shape[1] + 0.5) / (n + 1)
        spread = rate * (1 - rate) / means.shape[1] ** 2
    elif measure in ("dprime", "criterion"):
        scale = 1.0 if measure == "dprime" else 0.5
        z = means / scale
        spread = scale**2 * 2 * np.pi * np.exp(z**2) * special.ndtr(z) * special.ndtr(-z)
        quantile[size < LEAST_LABELS] = np.nan
    elif measure == "logscore":
        quantile = special.stdtrit(np.maximum(n[:, 0] - 1, 1), (1 + LEVEL) / 2)
    half = quantile * np.sqrt((spread / n).sum(axis=1))
    least, most = (0.0, 1.0) if measure == "balanced" else (-np.inf, np.inf)
    return ScoreEstimates(value, np.clip(value - half, least, most), np.clip(value + half, least, most))


def area_interval(area: Floats, variances: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """The 95 % interval of areas under the ROC curve, within 0 and 1; NaN with fewer than ``LEAST_LABELS`` of a label.

    Wilson's interval for as many items as the variance of the area A is worth. There are two variances: V from DeLong's
    placements (``variances`` [areas, 2], of the mean over the items of each label), and Hanley and McNeil's (1982)
    formula, which assumes exponential log-odds, with both labels as frequent (Newcombe 2006, method 5):

        W = A (1 - A) (1 + N ((1 - A) / (2 - A) + A / (1 + A))) / (m n),   N = (m + n) / 2 - 1

    for m and n items of the two labels (``sizes`` [areas, 2]). Few placements of a rare label are often nearly alike by
    chance, and V is then far too small; W alone is too small where the two labels differ in spread. So V counts where
    it is above W; below, it is averaged with W, which weighs ``FORMULA_WEIGHT`` against V's degrees of freedom.
    """
    products = sizes.prod(axis=1)
    often = sizes.mean(axis=1) - 1
    formula_items = products / (1 + often * ((1 - area) / (2 - area) + area / (1 + area)))
    inside = area * (1 - area)
    total = variances.sum(axis=1)
    # Where all items are ranked rightly, placements do not vary, and only the formula is left.
    varied = (inside > 1e-9) & (total > 0)
    ratio = np.where(varied, total * formula_items / np.where(varied, inside, 1.0), 1.0)
    wobble = (variances**2 / np.maximum(sizes - 1, 1)).sum(axis=1)
    df = np.where(varied, total**2 / np.where(wobble > 0, wobble, 1.0), 0.0)
    averaged = (df * ratio + FORMULA_WEIGHT) / (df + FORMULA_WEIGHT)
    worth = formula_items / np.where(ratio > 1, ratio, averaged)
    low, high = wilson_interval(np.clip(area, 0, 1), worth)
    few = ~(sizes.min(axis=1) >= LEAST_LABELS)
    return np.where(few, np.nan, low), np.where(few, np.nan, high)


def bias_columns(study: Study, powers: int, splits: int, seed: int) -> tuple[Floats, Floats, list[str]]:
    """The lean of every subject, averaged over test sets, up to a power [subjects, powers]; split halves; warnings.

    Bias moves all test sets together, so their mean is less noisy than the lean of one. The lean is used rather than
    the criterion, because accuracy is close to a parabola of it; over the criterion it has long flat ends, which a
    smooth has to spend its freedom on. It is over the test sets with two answers, and if these differ in their answers,
    over those with the commonest ones. A set that a subject did not answer does not shift the mean. Higher powers are
    of the distance from the mean over subjects.
    """
    leans, halves, undefined = scored(study, "lean", splits, seed)
    pairs = {name: tuple(answers_of(study, name)) for name in study.testsets if name not in undefined}
    if not pairs:
        raise InputError(f"{next(iter(undefined.values()))}. Without a test set of two answers, omit --control {BIAS}")
    common = max(pairs.values(), key=list(pairs.values()).count)
    others = [name for name in study.testsets if pairs.get(name) != common]
    kept = [study.testsets.index(name) for name, pair in pairs.items() if pair == common]
    leans, halves = leans[:, kept], halves[:, kept]
    answered = ~np.isnan(leans)
    centre = np.nansum(leans, axis=0) / answered.sum(axis=0)
    with np.errstate(invalid="ignore"):  # a subject that answered none of these test sets: 0 / 0
        apart = np.nansum(leans - centre, axis=1) / answered.sum(axis=1)
        halved = np.nansum(halves, axis=1) / answered.sum(axis=1)[:, None]
    columns = np.stack([apart**power for power in range(1, powers + 1)], axis=1)
    columns[:, 0] += centre.mean()
    moved = np.stack([power * apart[:, None] ** (power - 1) * halved for power in range(1, powers + 1)], axis=1)
    words = f"--control {BIAS}: the mean bias is over test sets with the answers {listed(common)}, so without "
    return columns, moved, [f"{words}{listed(others)}"] if others else []
