"""A document's own variables: q(a) with mean γ (its embedding) and q(η) with mean ξ (its topic weights).

Two ways to find them, both alternating tokens, embedding and weights:

sample_document   Algorithm 2, lines 6-10: hard topic draws and Adagrad on a Monte-Carlo gradient; for training.
infer_document    expected counts and Newton's step on ξ: nothing random; for transform and evaluation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from . import random, tokens
from .state import Floats, Ints, LocalSettings, Topics
from .words import DrawTable

# Newton's step on ξ is shortened so that no weight moves further. With p the step and R = max p - min p, the
# objective gains at least λ²(1 - (exp R - R - 1)/R²), λ² being Newton's decrement (log-sum-exp is
# self-concordant in that sense), which is positive for R <= 1.7: a round never lowers the bound.
LONGEST_WEIGHT_STEP = 0.85
# infer_document: rounds at most, or until the mean change of a weight is below INFER_TOL.
INFER_ROUNDS = 200
INFER_TOL = 1e-4
# Added to Adagrad's sum of squares, against division by zero.
ADAGRAD_FLOOR = 1e-8


def embed(weights: Floats, topics: Topics) -> Floats:
    """γ = τ Σ_a Σ_k ξ_k μ_k."""
    gain = topics.priors.tau * topics.document_cov
    return np.asarray(weights @ topics.embedding @ gain)


def weight_gradient(weights: Floats, mean: Floats, topic_counts: Floats, noise: Floats, tau: float) -> Floats:
    """∇_ξ = τ (U γ - ξ) + n - (N/T) Σ_t softmax(ξ + σ ε_t), with σ = τ^-1/2 and noise ε [t, k]."""
    softmax = special.softmax(weights + tau**-0.5 * noise, axis=1).mean(axis=0)
    return np.asarray(tau * (mean - weights) + topic_counts - topic_counts.sum() * softmax)


def newton_step(weights: Floats, mean: Floats, topic_counts: Floats, tau: float) -> Floats:
    """The Newton step on ξ of -τ/2 |ξ - U γ|² + n'ξ - N log Σ exp ξ, shortened.

    Its Hessian is diagonal less rank one, -(τ I + N diag θ - N θ θ'), so the step costs O(K).
    """
    n_tokens = topic_counts.sum()
    theta = special.softmax(weights)
    gradient = tau * (mean - weights) + topic_counts - n_tokens * theta
    diagonal = tau + n_tokens * theta
    step = gradient / diagonal
    rank_one = n_tokens * (theta @ step) / (1 - n_tokens * np.sum(theta**2 / diagonal))
    step += rank_one * theta / diagonal
    return np.asarray(step * min(1.0, LONGEST_WEIGHT_STEP / max(np.abs(step).max(), 1e-30)))


def sample_document(
    topics: Topics,
    table: DrawTable,
    words: Ints,
    counts: Ints,
    key: tuple[int, int, int],
    settings: LocalSettings,
) -> tuple[Ints, Floats, Floats, int]:
    """Topic draws of every token, γ, ξ and the number of rounds; key = (seed, sweep, document)."""
    n_topics, n_tokens = topics.n_topics, int(counts.sum())
    weights, squares = np.zeros(n_topics), np.full(n_topics, ADAGRAD_FLOOR)
    draws: Ints = np.zeros(n_tokens, dtype=np.int32)
    steps = 0
    while n_tokens and steps < settings.max_steps:
        uniforms = random.uniforms(random.stream(*key, random.DRAWS, steps), np.arange(n_tokens))
        draws = draw_tokens(table, words, counts, weights, uniforms, settings.topics_per_document)
        topic_counts = np.bincount(draws, minlength=n_topics).astype(float)
        mean = topics.embedding @ embed(weights, topics)
        noise = _noise(key, steps, settings.n_samples, n_topics)
        gradient = weight_gradient(weights, mean, topic_counts, noise, topics.priors.tau)
        squares += gradient**2
        change = settings.rate * gradient / np.sqrt(squares)
        weights = weights + change
        steps += 1
        if np.abs(change).mean() < settings.tol:
            break
    return draws, embed(weights, topics), weights, steps


def draw_tokens(
    table: DrawTable, words: Ints, counts: Ints, weights: Floats, uniforms: Floats, n_top: int
) -> Ints:
    """A topic for every token, words in order, each count times."""
    top = tokens.heaviest_topics(weights, n_top)
    ends = np.cumsum(counts)
    drawn = [
        tokens.draw(*tokens.candidate_mass(table, word, weights, top), uniforms[end - count : end])
        for word, count, end in zip(words, counts, ends, strict=True)
    ]
    return np.concatenate(drawn)


def infer_document(
    topics: Topics, table: DrawTable, words: Ints, counts: Ints, n_top: int
) -> tuple[Floats, Floats]:
    """γ and ξ of a document under fixed topics."""
    weights = np.zeros(topics.n_topics)
    embedding: Floats = np.zeros(topics.n_dims)
    for _ in range(INFER_ROUNDS if len(words) else 0):
        topic_counts = expected_counts(table, words, counts, weights, n_top)
        step = newton_step(weights, topics.embedding @ embedding, topic_counts, topics.priors.tau)
        weights = weights + step
        embedding = embed(weights, topics)
        if np.abs(step).mean() < INFER_TOL:
            break
    return embedding, weights


def expected_counts(
    table: DrawTable, words: Ints, counts: Ints, weights: Floats, n_top: int
) -> NDArray[np.float64]:
    """E[n_k] = Σ_n q(z_n = k) [k]."""
    top = tokens.heaviest_topics(weights, n_top)
    total = np.zeros(len(weights))
    for word, count in zip(words, counts, strict=True):
        mass = tokens.candidate_mass(table, word, weights, top)
        total += count * tokens.responsibilities(*mass, len(weights))
    return total


def _noise(key: tuple[int, int, int], step: int, n_samples: int, n_topics: int) -> Floats:
    """ε [t, k]."""
    streams = random.stream(*key, random.NOISE, step, np.arange(n_samples))
    return random.normals(streams, n_topics)
