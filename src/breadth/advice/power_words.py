"""What ``advise power`` says."""

from __future__ import annotations

import math

import polars as pl
from rich.table import Table

from breadth.advice.power import PowerAdvice
from breadth.results import Answer, Verdict
from breadth.results.terminal import WIDTH, make_table
from breadth.results.words import count


def rounded(items: float) -> str:
    """A number of items with two digits."""
    digits = max(0, len(str(int(items))) - 2)
    return f"{math.ceil(items / 10**digits) * 10**digits:,}"


def power_verdict(result: PowerAdvice) -> Verdict:
    """Is there enough to see the difference? Yes: with a probability of at least 80 %."""
    said = f"{100 * result.difference:g} points"
    have = count(result.n_items, "item") + (f" and {result.n_runs} runs per model" if result.n_runs > 1 else "")
    chance = f"{have} show a difference of {said} with a probability of {result.power:.0%}"
    wrong = f"If there is one, its sign comes out wrong with a probability of {result.wrong_sign:.1%}."
    first = result.plan.drop_nulls("items_paired").head(1)
    if result.power >= 0.8:
        return Verdict(Answer.YES, f"{chance}.", wrong)
    if not first.height:
        return Verdict(Answer.NO, f"{chance}.", wrong, "No number of items is enough: runs vary too much. Add seeds.")
    row = first.row(0, named=True)
    seeds = f" with {count(row['seeds'], 'seed')} per model" if row["seeds"] > 1 else ""
    needed = (
        f"It takes {rounded(row['items_paired'])} items{seeds}, answered by both models; "
        f"{rounded(row['items_unpaired'])} each if they answer different ones."
    )
    return Verdict(Answer.NO, f"{chance}.", wrong, needed)


def power_details(result: PowerAdvice) -> str:
    """Where the numbers come from."""
    noise = result.noise.row(0, named=True)
    apart = 2 * noise["accuracy"] * (1 - noise["accuracy"])
    parts = [
        f"Models that are close disagree on {noise['disagreement']:.0%} of items (10% to 90% of pairs: "
        f"{noise['low']:.0%} to {noise['high']:.0%})."
    ]
    if apart > 0:
        parts.append(f"Pairing needs {noise['disagreement'] / apart:.0%} of the items that different items would take.")
    if noise["design"] > 1:
        parts.append(f"Clusters multiply the items needed by {noise['design']:.1f}.")
    if noise["run"] is not None:
        parts.append(f"Runs of a model differ by {100 * math.sqrt(noise['run']):.1f} points (sd).")
    if noise["checkpoint"] is not None:
        parts.append(f"Neighbouring checkpoints differ by {100 * math.sqrt(noise['checkpoint']):.1f} points (sd).")
    parts.append("Power is 80% at 5% two-sided.")
    return " ".join(parts)


def plan_table(plan: pl.DataFrame, width: int = WIDTH) -> Table:
    """Items by seeds and checkpoints; a dash where no number of items is enough."""
    numbers = ["seeds", "checkpoints averaged", "paired", "unpaired"]
    table = make_table("Items needed (-: no number is enough)", [], numbers, width)
    for row in plan.iter_rows(named=True):
        sizes = (row["items_paired"], row["items_unpaired"])
        shown = ("-" if size is None else rounded(size) for size in sizes)
        table.add_row(str(row["seeds"]), str(row["checkpoints"]), *shown)
    return table
