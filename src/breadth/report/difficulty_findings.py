"""What a calibration says, in plain language."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

#: First residual component, as a multiple of what noise would show, above which one ability is not enough.
TOO_MANY_DIMENSIONS = 1.5

NAMES = {"1pl": "Rasch (1PL)", "2pl": "2PL", "3pl": "3PL"}


class Checks(NamedTuple):
    """What the checks of a calibration found; None where they were not made."""

    distinct: int | None = None
    copies: int | None = None
    groups: int | None = None
    residual_share: float | None = None
    residual_ratio: float | None = None


def calibration_findings(items: pl.DataFrame, subjects: pl.DataFrame, fit: pl.DataFrame, checks: Checks) -> str:
    """Say what was fitted, how hard items are for these subjects, which are broken, and whether one scale fits."""
    parts = [
        _fitted(fit),
        _match(items, subjects),
        _broken(items),
        _copies(checks, subjects.height),
        _dimension(checks),
    ]
    return " ".join(part for part in parts if part)


def _fitted(fit: pl.DataFrame) -> str:
    row = fit.row(0, named=True)
    state = "converged" if row["converged"] else "did NOT converge"
    return (
        f"{NAMES[row['model']]} on {row['subjects']:,} subjects x {row['items']:,} items "
        f"({row['responses']:,} answers): {state} after {row['iterations']} iterations, log-likelihood "
        f"{row['log_likelihood']:,.1f}, BIC {row['bic']:,.1f}; abilities are measured with reliability "
        f"{row['reliability']:.2f}."
    )


def _match(items: pl.DataFrame, subjects: pl.DataFrame) -> str:
    difficulty, ability = items["difficulty"].drop_nulls(), subjects["ability"].drop_nulls()
    if not difficulty.len() or not ability.len():
        return ""
    low, middle, high = (float(difficulty.quantile(q) or 0) for q in (0.05, 0.5, 0.95))
    centre = float(ability.quantile(0.5) or 0)
    gap = middle - centre
    fit = "about as hard as the subjects are able" if abs(gap) < 0.5 else "too hard" if gap > 0 else "too easy"
    fit = fit if abs(gap) < 0.5 else f"{fit} for the typical subject"
    return (
        f"Nine in ten items have a difficulty between {low:.2f} and {high:.2f} (ability has mean 0 and standard "
        f"deviation 1); the typical item is {fit}."
    )


def _broken(items: pl.DataFrame) -> str:
    notes = items["note"].drop_nulls()
    counts = {
        "may have a wrong key": int(notes.str.contains("key may be wrong").sum()),
        "do not tell able from less able subjects": int(notes.str.contains("does not tell").sum()),
        "are noisier than the model expects": int(notes.str.contains("noisier").sum()),
        "were right for all or for none": int(notes.str.contains("right for (all|none)").sum()),
        "have too few answers or none": int(notes.str.contains("responses").sum()),
    }
    said = [f"{count} {what}" for what, count in counts.items() if count]
    return f"Of {items.height:,} items, {', '.join(said)} (column note)." if said else "No item stands out as broken."


def _copies(checks: Checks, subjects: int) -> str:
    if checks.distinct is None:
        return ""
    text = f"The {subjects:,} subjects have {checks.distinct:,} distinct answer patterns"
    if checks.groups is None:
        return f"{text}."
    if not checks.copies:
        return f"{text}, and no two are more alike than 80% beyond what their abilities explain."
    return (
        f"{text}; {checks.copies:,} pairs are near-copies, which leaves {checks.groups:,} groups: standard errors take "
        f"all subjects as independent and are too small for that reason (--copies weigh counts every group once)."
    )


def _dimension(checks: Checks) -> str:
    if checks.residual_ratio is None or checks.residual_share is None:
        return ""
    share = (
        f"The first residual component holds {checks.residual_share:.1%} of the residual variance, "
        f"{checks.residual_ratio:.1f} times"
    )
    if checks.residual_ratio < TOO_MANY_DIMENSIONS:
        return f"{share} what noise would show: one ability describes these answers."
    return (
        f"{share} what noise would show: something besides one ability moves groups of items together (another skill, "
        "answer format, or families of copied models). Difficulty is then an average over these, and may rank items "
        "differently for another mix of subjects."
    )
