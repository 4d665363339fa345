"""What readers see of correlations: the columns of every frame, and the tables that come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from breadth.correlation.moderators import KIND
from breadth.correlation.noise import deciding
from breadth.correlation.verdict import contradictions, differing_pairs, pair_keys, row_noun
from breadth.correlation.words import why_not_computed
from breadth.results import Column, Columns, Shown
from breadth.results.columns import MOST_ROWS
from breadth.results.words import FINDING, count

if TYPE_CHECKING:
    from breadth.correlation.result import Correlation

A = Column("a", header="test set", priority=1, meaning="a test set")
B = Column("b", header="and", priority=1, meaning="the other test set")
TRAIN_SET = Column("train_set", header="trained on", priority=1, meaning="the training set; its own set is the control")
TRAIN_SETS = {"train_set": TRAIN_SET}
READING = Column(
    "reading",
    header="result",
    priority=1,
    meaning="together or opposite: more than chance; mixed: models or runs disagree; else undecided",
)
INTERVAL = Column("ci_low", "ci_high", format="r", priority=1, meaning="interval of the correlation")
PLAIN = Column(
    "r_raw", header="plain", format="r", priority=2, meaning="correlation before anything is taken into account"
)
P = Column("p", format="p", priority=4, meaning="p-value of no correlation")
Q = Column("q", format="p", priority=4, meaning="false discovery rate over all pairs; a finding is below 0.05")
NOTE = Column("note", priority=4, words=True, meaning="why there is no number, or a poor one")
FLAG = Column("flag", priority=4, meaning="the same as a code")
RELIABILITIES = Columns(
    Column(
        "reliability_a", format="share", priority=4, meaning="share of the first test set's variation that is no noise"
    ),
    Column("reliability_b", format="share", priority=4, meaning="the same of the second test set"),
)
PAIRS = Columns(
    A,
    B,
    Column("n", header="rows", format="d", priority=3, meaning="rows in which both were measured"),
    Column("n_eff", header="independent", format=".0f", priority=4, meaning="independent rows that they are worth"),
    PLAIN,
    Column("r", header="correlation", format="r", priority=1, meaning="correlation once the control is accounted for"),
    INTERVAL,
    P,
    Q,
    Column(
        "r_corrected", header="corrected", format="r", priority=1, meaning="the same without the noise of test sets"
    ),
    Column("ci_low_corrected", "ci_high_corrected", format="r", priority=1, meaning="interval without the noise"),
    *RELIABILITIES,
    Column(
        "r_plain", header="with outliers", format="r", priority=3, meaning="correlation in which outliers count in full"
    ),
    Column("ci_low_plain", "ci_high_plain", format="r", priority=4, meaning="interval of that correlation"),
    Column("tail_df", format=".1f", priority=4, meaning="degrees of freedom of t; few mean many outliers"),
    FLAG,
    NOTE,
)
HETEROGENEITY = Columns(
    A,
    B,
    Column("k", header="mean over", format="d", priority=3, meaning="models or runs that the mean is over"),
    Column("r_mean", header="correlation", format="r", priority=1, meaning="mean correlation"),
    INTERVAL,
    P,
    Q,
    Column("sign_agreement", header="same sign", format="share", priority=1, meaning="share with the sign of the mean"),
    PLAIN,
    Column("r_partial", header="with noise", format="r", priority=4, meaning="the mean, not corrected for noise"),
    Column("predict_low", "predict_high", format="r", header="a new one", priority=3, meaning="where another may be"),
    Column("tau2", format=".3f", priority=4, meaning="variance between models or runs, on Fisher's scale"),
    Column("i2", header="I2", format="share", priority=4, meaning="share of the variation that is no sampling error"),
    Column("p_differ", format="p", priority=4, meaning="p-value of no difference between them (Cochran's test)"),
    Column("q_differ", format="p", priority=4, meaning="false discovery rate of it"),
    Column("runs", format="d", priority=4, meaning="runs behind the mean"),
    *RELIABILITIES,
    Column(
        "reliability_control", format="share", priority=4, meaning="share of the control's variation that is no noise"
    ),
)
SIMILARITY = Columns(
    Column("testsets", header="test sets", format="d", priority=3, meaning="test sets with correlations in both"),
    Column("similarity", format="r", priority=1, meaning="correlation of their correlations"),
    Column("difference", format=".2f", priority=2, meaning="mean absolute difference of correlations"),
    P,
    Q,
    FLAG,
    NOTE,
)
CHANGES = Columns(
    Column("unit", header="of", priority=1, meaning="the model or run"),
    A,
    B,
    Column("k", header="mean over", format="d", priority=4, meaning="models or runs that the mean is over"),
    Column("early", format="r", priority=1, meaning="correlation in the first part of training"),
    Column("late", format="r", priority=1, meaning="correlation in the last part"),
    Column("changed", format="flag", priority=1, meaning="whether that is more than chance"),
    Column("difference", format="+.2f", priority=4, meaning="difference on Fisher's scale"),
    Column("ci_low", "ci_high", format="+.2f", priority=4, meaning="its interval"),
    P,
    Q,
)
RESIDUALS = Columns(
    Column("testset", header="test set", priority=1, meaning="the test set"),
    Column("score", format=".4f", priority=1, meaning="the score"),
    Column("residual", format="+.4f", priority=1, meaning="what the control does not explain"),
)
MODERATORS = Columns(
    Column("moderator", header="depends on", priority=1, meaning="what the correlations may depend on"),
    Column("contrast", header="compared", priority=1, meaning="which levels are compared, or what a number grows by"),
    Column("given", header="at equal", priority=2, meaning="what is held constant"),
    Column("sure", header="surely", format="flag", priority=1, meaning="whether it is more than chance"),
    Column("r_from", header="from", format="r", priority=1, meaning="mean correlation at the lower end or level"),
    Column("r_to", header="to", format="r", priority=1, meaning="mean correlation at the upper end or level"),
    Column("estimate", header="change in z", format="+.2f", priority=3, meaning="the change on Fisher's scale"),
    Column("ci_low", "ci_high", format="+.2f", priority=3, meaning="interval of the change"),
    Column("se", format=".2f", priority=4, meaning="standard error of the change"),
    Column("df", format=".0f", priority=4, meaning="degrees of freedom"),
    P,
    Q,
    Column("p_permutation", header="p (shuffled)", format="p", priority=4, meaning="p-value from shuffled levels"),
    Column("compared", header="over", priority=2, meaning="what was compared, and how many"),
    Column("k", format="d", priority=4, meaning="units that were compared"),
    Column("n", format="d", priority=4, meaning="runs, or pairs of test sets"),
    Column("over", header="units", priority=4, meaning="what the units are"),
    Column("estimate_plain", format="+.2f", priority=4, meaning="the change without the correction for noise"),
    FLAG,
    NOTE,
)
MODERATOR_MEANS = Columns(
    Column("moderator", priority=1, meaning="what the correlations may depend on"),
    Column("what", priority=1, meaning="unit: a model or run; fit: what the regression expects"),
    Column("unit", priority=1, meaning="the model or run"),
    Column("level", priority=1, meaning="its level"),
    Column("value", priority=4, meaning="the level as a number"),
    Column("r", header="correlation", format="r", priority=1, meaning="mean correlation over pairs of test sets"),
    INTERVAL,
    Column("runs", format="d", priority=3, meaning="its runs"),
)
UNMEASURED = Columns(
    A,
    B,
    Column("r_predicted", header="predicted", format="r", priority=1, meaning="correlation that is expected"),
    INTERVAL,
    Column("basis", priority=2, meaning="what the prediction is made of"),
    Column("error", format=".2f", priority=4, meaning="error of such predictions, on Fisher's scale"),
    Column("error_of_mean", format=".2f", priority=4, meaning="error if the mean of all pairs is expected"),
)

#: Columns of every frame, without those that name a group.
COLUMNS_OF = {
    "pairs": PAIRS,
    "heterogeneity": HETEROGENEITY,
    "similarity": SIMILARITY,
    "windows": PAIRS,
    "changes": CHANGES,
    "residuals": RESIDUALS,
    "moderators": MODERATORS,
    "moderator_means": MODERATOR_MEANS,
    "unmeasured": UNMEASURED,
}

#: Changes between parts of training that are shown.
MOST_CHANGES = 10

#: What the pairs of a mean, and of a table without groups, are first shown with.
FIRST_PAIRS = Columns(TRAIN_SET, A, B, READING)


def correlation_columns(result: Correlation, name: str | None = None) -> Columns:
    """What readers see of a frame: columns that name its groups come first."""
    chosen = name or "pairs"
    declared = COLUMNS_OF.get(chosen)
    if declared is None:
        return Columns(*(Column(column) for column in result.table(chosen).columns))
    known = set()
    for column in declared:
        known |= {column.name, column.high}
    keys = []
    for column_name in result.table(chosen).columns:
        if column_name not in known:
            keys.append(TRAIN_SETS.get(column_name, Column(column_name, priority=1)))
    return Columns(*keys) + declared


def correlations_shown(result: Correlation) -> list[Shown]:
    """A row per pair of test sets, the closest first; then what changed in training and what it depends on."""
    if result.by and not result.few_units:
        shown = [_units_shown(result)]
    else:
        shown = [_pairs_shown(result)]
    if result.changes["p"].is_not_null().any():
        shown.append(_changes_shown(result))
    if result.moderators["p"].is_not_null().any():
        shown.append(_moderators_shown(result))
    return shown


def _units_shown(result: Correlation) -> Shown:
    """Means over units: how many of them agree in sign, and from where to where single ones range."""
    keys, noun = pair_keys(result), result.units.noun
    own = result.by_unit.drop_nulls("r").group_by(keys).agg(lowest=pl.col("r").min(), highest=pl.col("r").max())
    frame = result.heterogeneity.join(own, on=keys, how="left", maintain_order="left")
    agree = []
    for share, k in frame.select("sign_agreement", "k").iter_rows():
        agree.append(None if share is None else f"{round(share * k)} of {k}")
    frame = frame.with_columns(
        _readings(result, frame.rename({"r_mean": "r"})), pl.Series("agree", agree, dtype=pl.String)
    )
    columns = FIRST_PAIRS + Columns(
        Column("r_mean", header="correlation", format="r", priority=1, meaning=f"mean correlation over {noun}s"),
        INTERVAL,
        Column("agree", header="same sign", priority=1, meaning=f"{noun}s whose correlation has the sign of the mean"),
        Column("lowest", "highest", header=f"single {noun}s", format="r", priority=2, meaning=f"range over {noun}s"),
        Column("predict_low", "predict_high", header=f"a new {noun}", format="r", priority=3,
               meaning=f"where the correlation in another {noun} is expected, with a probability of 95%"),
        PLAIN,
        Q,
    )  # fmt: skip
    # Units without a correlation do not count: a model with too few checkpoints, say.
    most = int(frame["k"].max() or 0)  # type: ignore[arg-type]
    return _closest_first(f"Pairs of test sets over {count(most, noun)}", frame, columns, "r_mean")


def _pairs_shown(result: Correlation) -> Shown:
    """Pairs of a table without groups; of one or two units, the pairs of each."""
    frame, title = deciding(result.pairs), "Pairs of test sets"
    first = FIRST_PAIRS
    if result.by:
        frame = result.pooled
        if frame["unit"].n_unique() > 1:
            first = Columns(Column("unit", header=result.units.noun, priority=1, meaning="the model or run")) + first
            title += f" in every {result.units.noun}"
    frame = frame.with_columns(_readings(result, frame))
    columns = first + Columns(
        Column("r", header="correlation", format="r", priority=1, meaning="correlation, as it decides the answer"),
        INTERVAL,
        PLAIN,
        Column("n", header=f"{row_noun(result)}s", format="d", priority=3, meaning="how many it was computed from"),
        Q,
        NOTE,
    )
    unknown = frame["q"].null_count()
    note = ""
    if unknown and "flag" in frame.columns:
        note = f"{count(unknown, 'pair')} not known: {why_not_computed(frame)}."
    return _closest_first(title, frame, columns, "r", note)


def _closest_first(title: str, frame: pl.DataFrame, columns: Columns, r: str, note: str = "") -> Shown:
    ordered = frame.sort(r, descending=True, nulls_last=True, maintain_order=True)
    return Shown(title, ordered, columns.filled(ordered.head(MOST_ROWS)), note=note)


def _readings(result: Correlation, frame: pl.DataFrame) -> pl.Series:
    """What the correlation of every row says, in a word."""
    opposed, _ = contradictions(result)
    keys = [name for name in pair_keys(result) if name in frame.columns]
    divided, differ = set(opposed.select(keys).iter_rows()), set()
    if result.by and not result.few_units:
        differ = set(differing_pairs(result).select(keys).iter_rows())
    words = []
    for row in frame.iter_rows(named=True):
        pair = tuple(row[name] for name in keys)
        words.append(_reading(row, pair in divided and "unit" not in row, pair in differ))
    return pl.Series("reading", words, dtype=pl.String)


def _reading(row: dict[str, Any], divided: bool, differ: bool) -> str:
    if row["q"] is None:
        return "unknown"
    if divided:
        return "mixed"
    if row["q"] >= FINDING:
        return "mixed" if differ else "undecided"
    if row["r"] > 0:
        return "together"
    return "opposite"


def _changes_shown(result: Correlation) -> Shown:
    """Correlations in the first and in the last part of training, the clearest change first."""
    frame = result.changes.with_columns(changed=(pl.col("q") < FINDING).fill_null(False))
    ordered = frame.sort("p", nulls_last=True, maintain_order=True)
    columns = CHANGES
    if "train_set" in frame.columns:
        columns = Columns(TRAIN_SET) + columns
    if "unit" in frame.columns and frame["unit"].n_unique() == 1:
        columns = columns.without("unit")
    changed = int(frame["changed"].sum())
    note = "No change is larger than chance would make it."
    if changed:
        note = f"{changed} of {count(frame.height, 'correlation')} changed by more than chance."
    return Shown("From the first part of training to the last", ordered, columns.filled(ordered), MOST_CHANGES, note)


def _moderators_shown(result: Correlation) -> Shown:
    """What correlations depend on, and over how many models or runs that was compared."""
    frame = result.moderators
    compared: list[str | None] = []
    for row in frame.iter_rows(named=True):
        number = row["k"]
        if row["over"] == "run" or (row["moderator"] == KIND and row["over"] != "model"):
            number = row["n"]
        compared.append(None if row["p"] is None else count(number, row["over"]))
    frame = frame.with_columns(
        pl.Series("compared", compared, dtype=pl.String), sure=(pl.col("q") < FINDING).fill_null(False)
    )
    columns = MODERATORS
    if (frame["given"] == "").all():
        columns = columns.without("given")
    return Shown("What does it depend on?", frame, columns.filled(frame))
