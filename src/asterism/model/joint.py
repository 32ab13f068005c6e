"""A document's embedding and topic weights solved together, by Newton's method.

Given the tokens' topics (counts n, in all N), γ and ξ maximise

    F = -γ'P γ / 2 - τ |ξ - m - U γ|² / 2 + n'ξ - N log Σ_k exp ξ_k,      P = ρ I + τ K Σ_u,

which is concave. With θ = softmax(ξ), B = τ I + N diag θ - N θ θ' and the gradients g_ξ, g_γ, eliminating ξ from
Newton's system leaves one of M x M (docs/inference.md):

    H dγ = g_γ + τ U'B^-1 g_ξ,     dξ = B^-1 (g_ξ + τ U dγ),     H = P + Σ_k h_k (u_k - ū) (u_k - ū)',
    h = τ N θ / (τ + N θ),     ū = Σ_k h_k u_k / Σ_k h_k.

B is diagonal less rank one, so everything but H costs O(K M). The topics that a document has bear most of the curvature
Σ h; those that bear little are taken together, so H costs O(M²) a topic for a few topics only.
Alternating γ given ξ and ξ given γ, as the paper does, finds the same point, but each round moves γ by a step that
shrinks like 1/K.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .state import Floats, Topics

# No weight moves further in a step; the step is halved while it would lower F.
LONGEST_STEP = 2.0
MOST_HALVINGS = 8
RENEWALS = (1, 8, 64)  # steps that compute H
LIGHT = 1 / 200  # of the curvature Σ h: a topic that bears less does not shape H by itself
ROUNDING = 1e-6  # relative, of F in the precision of the fastest engine


class Solution(NamedTuple):
    """Where the solver is: γ, ξ, and H there (the inverse of the posterior covariance of the embedding)."""

    embedding: Floats  # [m]
    weights: Floats  # [k]
    precision: Floats  # [m, m]
    shrinkage: Floats  # τ / (τ + N θ) [k]: how much of U a reaches each weight
    change: float  # largest change of a weight in the last step, if that moved γ, too


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


def curvature(theta: Floats, n_tokens: float, topics: Topics, light: float = LIGHT) -> Floats:
    """H [m, m] where topics have shares θ.

    Topics that bear less than `light` of the curvature are taken as one topic at their mean, and their scatter around
    it as that of the average document's topics: H is exact where `light` is 0.
    """
    U, h = topics.embedding, topics.priors.tau * n_tokens * theta / (topics.priors.tau + n_tokens * theta)
    total, pull = h.sum(), h @ U
    if not total:
        return embedding_precision(topics)
    is_heavy = h >= light * total
    h_light, pull_light = h[~is_heavy].sum(), h[~is_heavy] @ U[~is_heavy]
    centred = U[is_heavy] - pull / total
    H = embedding_precision(topics) + centred.T @ (h[is_heavy, None] * centred)
    if h_light:
        apart = pull_light / h_light - pull / total
        H = H + h_light * (np.outer(apart, apart) + topics.embedding_scatter)
    return np.asarray(H)


def posterior_cov(weights: Floats, n_tokens: int, topics: Topics) -> Floats:
    """Covariance H^-1 of the embedding of a document whose weights are at their solution [m, m]."""
    return np.linalg.inv(curvature(special.softmax(weights), n_tokens, topics, light=0))


def moves_embedding(step: int) -> bool:
    """Whether a step, counted from 0, moves γ: the first brings ξ to where H is worth computing."""
    return step > 0


def renews_curvature(step: int) -> bool:
    """Whether a step computes H anew: it changes ever less on the way, and costs more than all the rest."""
    return step in RENEWALS


def joint_step(
    embedding: Floats,
    weights: Floats,
    topic_counts: Floats,
    topics: Topics,
    precision: Floats | None = None,
    with_embedding: bool = True,
) -> Solution:
    """One safeguarded Newton step; `precision` is H where an earlier one is to serve, γ moves `with_embedding`."""
    tau, U, P = topics.priors.tau, topics.embedding, embedding_precision(topics)
    n_tokens, theta = topic_counts.sum(), special.softmax(weights)
    residual = weights - topics.mean - U @ embedding
    inverse_diagonal = 1 / (tau + n_tokens * theta)
    c = 1 - n_tokens * np.sum(theta**2 * inverse_diagonal)

    def apply_inverse_b(x: Floats) -> Floats:
        scaled = inverse_diagonal * x
        return np.asarray(scaled + inverse_diagonal * theta * n_tokens * (theta @ scaled) / c)

    weight_gradient = -tau * residual + topic_counts - n_tokens * theta
    embedding_gradient = -P @ embedding + tau * U.T @ residual
    H = curvature(theta, n_tokens, topics) if precision is None else precision
    d_embedding = np.zeros_like(embedding)
    if with_embedding:
        d_embedding = np.linalg.solve(H, embedding_gradient + tau * U.T @ apply_inverse_b(weight_gradient))
    d_weights = apply_inverse_b(weight_gradient + tau * U @ d_embedding)

    step = min(1.0, LONGEST_STEP / max(float(np.abs(d_weights).max()), 1e-30))
    before = objective(embedding, weights, topic_counts, topics)
    for _ in range(MOST_HALVINGS):
        moved = embedding + step * d_embedding, weights + step * d_weights
        if objective(*moved, topic_counts, topics) >= before - ROUNDING * abs(before):
            break
        step /= 2
    change = step * float(np.abs(d_weights).max()) if with_embedding else np.inf
    return Solution(*moved, H, tau * inverse_diagonal, change)
