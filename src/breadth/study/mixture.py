"""Training on a mixture of sets (``train.mix``): how many examples come from which set."""

from __future__ import annotations

import math
from collections.abc import Mapping


def mixture_name(mix: Mapping[str, float]) -> str:
    """What a mixture is called where a training set would be named.

    >>> mixture_name({"mnli": 0.7, "hans": 0.3})
    'mnli+hans'
    """
    return "+".join(mix)


def normalised_shares(mix: Mapping[str, float], whole: float = 1) -> dict[str, float]:
    """Shares that add up to ``whole``, rounded so that 7 to 3 and 0.7 to 0.3 are the same mixture.

    >>> normalised_shares({"mnli": 7, "hans": 3})
    {'mnli': 0.7, 'hans': 0.3}
    """
    total = math.fsum(mix.values())
    return {name: round(whole * share / total, 12) for name, share in mix.items()}


def share_out(examples: int, mix: Mapping[str, float]) -> dict[str, int]:
    """How many of so many examples come from each set: the largest remainders are rounded up, of equal ones the first.

    >>> share_out(32, {"mnli": 0.7, "hans": 0.3})
    {'mnli': 22, 'hans': 10}
    """
    shares = normalised_shares(mix)
    # Rounding first: 0.7 of 10 is 7, not the 6.999999999999999 of the arithmetic.
    exact = {name: round(share * examples, 9) for name, share in shares.items()}
    counts = {name: math.floor(number) for name, number in exact.items()}
    left = examples - sum(counts.values())
    order = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in order[:left]:
        counts[name] += 1
    return counts
