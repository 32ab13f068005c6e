"""A document's embedding by Newton's method, its topic weights solved for along the way.

Given the tokens' topics (counts n, in all N), γ and ξ maximise

    F = -γ'P γ / 2 - τ |ξ - μ|² / 2 + n'ξ - N log Σ_k exp ξ_k,      μ = m + U γ,   P = ρ I + τ K Σ_u,

which is concave. For a given γ the best ξ is one scalar equation a topic, and one for all of them:

    ξ = μ + n/τ - ω,    ω_k + log ω_k = μ_k + n_k/τ + log(N/τ) - ζ,    Σ_k ω_k = N/τ,

where ζ = log Σ exp ξ and θ = softmax(ξ) = τ ω / N. What is left is a function of γ alone (docs/inference.md), with

    gradient  g = U'(n - N θ) - P γ
    -Hessian  H = P + Σ_k h_k (u_k - ū) (u_k - ū)',     h = τ ω / (1 + ω),     ū = Σ_k h_k u_k / Σ_k h_k.

Everything but H costs O(K M). The topics that a document has bear most of the curvature Σ h; those that bear little are
taken together, so H costs O(M²) a topic for a few topics only. Alternating γ given ξ and ξ given γ, as the paper does,
finds the same point, but each round moves γ by a step that shrinks like 1/K.

Where topics are very many, most of them enter as one, the `Rest` (candidates.py): it has a weight and a vector that
follow γ, no counts, and ω = (N/τ) exp(weight - ζ), since each of its topics has next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from .candidates import NOTHING_LEFT, Rest
from .state import Floats, Topics

# Weights move by no more than this in a step, on average over the curvature.
LONGEST_STEP = 2.0
# A step has gone too far where F falls behind it as steeply as this share of how it rose before: half of it is undone.
TOO_FAR = 0.5
# Expected counts follow γ, so F is flatter than H says and steps are too short: the next one is made up to so many
# times longer, by what the last one left of the slope along it.
MOST_LENGTHENING = 1.7
RENEWALS = (0, 4, 16, 64)  # steps that compute H
LIGHT = 1 / 200  # of the curvature Σ h: a topic that bears less does not shape H by itself


class Solution(NamedTuple):
    """γ, ξ, and H on the way there (the inverse of the posterior covariance of the embedding)."""

    embedding: Floats  # [m]
    weights: Floats  # [k]
    precision: Floats  # [m, m]
    shrinkage: Floats  # 1 / (1 + ω) = τ / (τ + N θ) [k]: how much of U a reaches each weight
    topic_counts: Floats  # n [k]


# Counts of the document's tokens by topic [k], given the shares of topics (to a factor) and the number of the step.
TopicCounts = Callable[[Floats, int], Floats]


def embedding_precision(topics: Topics) -> Floats:
    """P = ρ I + τ K Σ_u [m, m]."""
    return np.asarray(
        topics.priors.rho * np.eye(topics.n_dims) + topics.priors.tau * topics.n_topics * topics.embedding_cov
    )


def objective(embedding: Floats, weights: Floats, topic_counts: Floats, topics: Topics) -> float:
    """F."""
    residual = weights - topics.mean - topics.embedding @ embedding
    prior = 0.5 * embedding @ embedding_precision(topics) @ embedding + 0.5 * topics.priors.tau * residual @ residual
    likelihood = topic_counts @ weights - topic_counts.sum() * special.logsumexp(weights)
    return float(likelihood - prior)


def scaled_shares(prior_mean: Floats, topic_counts: Floats, tau: float, log_rest: float = -np.inf) -> Floats:
    """ω = N θ / τ of the best weights given μ: Newton's method for ζ, from that of the prior mean."""
    total = topic_counts.sum() / tau
    if not total:
        return np.zeros_like(prior_mean)
    x = prior_mean + topic_counts / tau + np.log(total)
    log_normaliser = np.logaddexp(special.logsumexp(prior_mean), log_rest)
    for _ in range(100):
        omega, omega_rest = special.wrightomega(x - log_normaliser), total * np.exp(log_rest - log_normaliser)
        slope = np.sum(omega / (1 + omega)) + omega_rest
        change = np.clip((omega.sum() + omega_rest - total) / slope, -LONGEST_STEP, LONGEST_STEP)
        log_normaliser += change
        if abs(change) < 1e-10:
            break
    return np.asarray(special.wrightomega(x - log_normaliser))


class RestNow(NamedTuple):
    """The rest at some γ, for the curvature."""

    h: float = 0.0
    vector: Floats | float = 0.0
    scatter: Floats | None = None  # of the average document's topics, candidates or not


NO_REST = RestNow()


def curvature(omega: Floats, topics: Topics, light: float = LIGHT, rest: RestNow = NO_REST) -> Floats:
    """H [m, m].

    Topics that bear less than `light` of the curvature are taken as one topic at their mean, and their scatter around
    it as that of the average document's topics: H is exact where `light` is 0. The rest is one of them.
    """
    U, h = topics.embedding, topics.priors.tau * omega / (1 + omega)
    total, pull = h.sum() + rest.h, h @ U + rest.h * rest.vector
    if not total:
        return embedding_precision(topics)
    is_heavy = h >= light * total
    h_light, pull_light = h[~is_heavy].sum() + rest.h, h[~is_heavy] @ U[~is_heavy] + rest.h * rest.vector
    centred = U[is_heavy] - pull / total
    H = embedding_precision(topics) + centred.T @ (h[is_heavy, None] * centred)
    if h_light:
        apart = pull_light / h_light - pull / total
        scatter = topics.embedding_scatter if rest.scatter is None else rest.scatter
        H = H + h_light * (np.outer(apart, apart) + scatter)
    return np.asarray(H)


def posterior_cov(omega: Floats, topics: Topics) -> Floats:
    """Covariance H^-1 of the embedding of a document whose weights are at their solution [m, m]."""
    return np.linalg.inv(curvature(omega, topics, light=0))


def renews_curvature(step: int) -> bool:
    """Whether a step computes H anew: it changes ever less on the way, and costs more than all the rest."""
    return step in RENEWALS


def step_length(rise: float, bearing: float) -> float:
    """Of Newton's step s, given g's = s'H s and Σ h: the square of (u_k - ū)'s is at most g's / Σ h on average."""
    longest = LONGEST_STEP**2 * bearing
    return 1.0 if rise <= longest or not bearing else (longest / rise) ** 0.5


def step_lengthening(left: float, rise: float) -> float:
    """1 / (1 - left / rise), within bounds: F's slope along the last step at its end and at its beginning."""
    return 1.0 if left <= 0 else min(MOST_LENGTHENING, rise / max(rise - left, 1e-30))


def solve(
    topics: Topics,
    embedding: Floats,
    topic_counts: TopicCounts,
    n_steps: int,
    tol: float = 0.0,
    rest: Rest = NOTHING_LEFT,
) -> Solution:
    """So many Newton steps, or until one would gain less than tol²/2 a token and counts have moved by less than tol."""
    tau, U, P = topics.priors.tau, topics.embedding, embedding_precision(topics)
    counts: Floats = np.zeros(topics.n_topics)
    H, step, rise = P, np.zeros_like(embedding), 0.0
    for number in range(n_steps):
        mean, log_rest, rest_vector = topics.mean + U @ embedding, rest.log_weight(embedding), rest.vector(embedding)
        shares = scaled_shares(mean, counts, tau, log_rest) if number else special.softmax(mean)
        before, counts = counts, topic_counts(shares, number)
        omega = scaled_shares(mean, counts, tau, log_rest)
        h_rest = counts.sum() - tau * omega.sum() if len(rest.log_mass) else 0.0
        gradient = U.T @ (counts - tau * omega) - h_rest * rest_vector - P @ embedding
        if renews_curvature(number):
            H = curvature(omega, topics, LIGHT, RestNow(h_rest, rest_vector, rest.scatter))
        left = float(gradient @ step)
        if left < -TOO_FAR * rise:
            embedding, step, rise = embedding - step / 2, 0 * step, 0.0
            continue
        lengthening = step_lengthening(left, rise)
        step = np.linalg.solve(H, gradient)
        rise = float(gradient @ step)
        if rise <= tol**2 * counts.sum() and np.abs(counts - before).sum() <= tol * counts.sum():
            break
        length = lengthening * step_length(rise, tau * np.sum(omega / (1 + omega)) + h_rest)
        step, rise = length * step, length * rise
        embedding = embedding + step
    mean = topics.mean + U @ embedding
    omega = scaled_shares(mean, counts, tau, rest.log_weight(embedding))
    return Solution(embedding, mean + counts / tau - omega, H, 1 / (1 + omega), counts)
