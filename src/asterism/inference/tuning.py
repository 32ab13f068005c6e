"""Priors by prediction: those under which held-out documents are likeliest, rather than the training documents.

What makes the training documents likeliest is not what predicts best, and for τ expectation maximisation crawls: most
topics of a document are not in it and say nothing of τ (docs/inference.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ..model.state import Topics

# A prior is tried this many times smaller and larger, and again as long as a held-out token gains so much by that.
# Where documents are long enough to speak for themselves all priors predict alike, and small gains would lead τ so far
# down that nothing is left for correlations to explain.
STEP, GAINS = 1.25, {"tau": 0.002, "beta": 0.0005}
BOUNDS = {"tau": (0.1, 10.0), "beta": (1e-3, 1.0)}

Score = Callable[[Topics], float]


def tuned(topics: Topics, names: Iterable[str], score: Score) -> tuple[Topics, float]:
    """The topics with better values of the priors that are named, one after the other, and their score."""
    best = score(topics)
    for name in names:
        for factor in (1 / STEP, STEP):
            before = best
            while (tried := _scaled(topics, name, factor)) is not None and (found := score(tried)) > best + GAINS[name]:
                topics, best = tried, found
            if best > before:
                break
    return topics, best


def _scaled(topics: Topics, name: str, factor: float) -> Topics | None:
    value = getattr(topics.priors, name) * factor
    low, high = BOUNDS[name]
    if not low <= value <= high:
        return None
    return replace(topics, priors=replace(topics.priors, **{name: value}))
