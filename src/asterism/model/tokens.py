"""Which topic a token belongs to: q(z = k) ∝ exp(ξ_k) exp(E[log φ_kv]), over the candidates of the token.

The candidates are the word's own topics (in the draw table) and the document's K_s heaviest topics. The mass
is laid out in two buckets that are summed apart, so that the second is shared by all words of a document:

    own   exp(ξ_k) (weight_kv - rest_k [k among the K_s])   over the word's own topics
    top   exp(ξ_k) rest_k                                   over the document's K_s topics

Memoized inference draws a token given all others, as the collapsed Gibbs sampler of LDA does: n_k + c π_k takes the
place of exp(ξ_k), as in predictions, and what the token was drawn last is left out of its word's counts and of its
document's. Otherwise it would confirm itself, the more so the smaller τ and the rarer the word. Where counts are
expected ones, what a token has in each topic leaves both likewise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .state import Floats, Ints
from .words import DrawTable

# A token leaves only topics that it has so much of, times τ: less would hardly change their shares.
LEAST_SHARE = 0.05
# What a token has in each topic is a question of itself: so many rounds answer it.
LEAVINGS = 2


def heaviest_topics(weights: Floats, n: int) -> NDArray[np.int64]:
    """The n topics of largest weight, lower number first among equals, in ascending order."""
    return np.sort(np.argsort(-weights, kind="stable")[:n])


def candidate_mass(table: DrawTable, word: int, weights: Floats, top: NDArray[np.int64]) -> tuple[Ints, Floats]:
    """Topics and their mass, the own bucket then the top one; a topic in both appears twice."""
    own = slice(table.indptr[word], table.indptr[word + 1])
    own_topics = table.topics[own]
    scale = np.exp(weights - weights.max())
    rest_of_top = np.zeros_like(scale)
    rest_of_top[top] = scale[top] * table.rest[top]
    own_mass = scale[own_topics] * table.weights[own] - rest_of_top[own_topics]
    return np.concatenate([own_topics, top]), np.concatenate([own_mass, rest_of_top[top]])


def leave_itself(mass: Floats, in_top: Floats, omega: Floats, tau: float, of_prior: Floats, counted: float) -> Floats:
    """A word's own bucket, given what one token of it has in each topic leaves its document and the topic.

    `mass` is candidate_mass' with the own bucket first, `in_top` what these topics have in the top one, `omega` theirs.
    `of_prior` is the prior's share of the pairs' counts, β/(n_kv + β); `counted` is 1/β, or 0 where the topics have not
    counted the token.
    """
    n_own = len(in_top)
    whole, total = mass[:n_own] + in_top, mass.sum()
    leaves, left = whole > LEAST_SHARE * tau * total, whole
    for _ in range(LEAVINGS):
        own = left / total
        of_counts = np.maximum(1 - own * of_prior * counted, of_prior)
        left = np.where(leaves, np.maximum(in_top, whole * share_left(omega, own / tau) * of_counts), whole)
        total = mass.sum() + np.sum(left - whole)
    return np.asarray(left - in_top)


def share_left(omega: Floats, leaving: Floats | float) -> Floats:
    """exp(ξ_k) after so many of a document's tokens, in units of τ, have left topic k, as a share of what it was.

    At the same γ and ζ ω_k = N θ_k/τ solves ω + log ω = x with an x that falls by as much (joint.py)."""
    x = omega + np.log(np.maximum(omega, np.finfo(float).tiny)) - leaving
    return np.asarray(np.exp(omega - special.wrightomega(x) - leaving))


def draw(topics: Ints, mass: Floats, uniforms: Floats) -> Ints:
    """One topic for each uniform number, by inverting the cumulative mass."""
    cumulative = np.cumsum(mass)
    index = np.searchsorted(cumulative, uniforms * cumulative[-1], side="right")
    return np.asarray(topics[np.minimum(index, len(topics) - 1)])


def responsibilities(topics: Ints, mass: Floats, n_topics: int) -> Floats:
    """q(z = k), dense [k]."""
    return np.asarray(np.bincount(topics, mass, minlength=n_topics) / mass.sum())
