"""A document's own variables: q(a) with mean γ (its embedding) and q(η) with mean ξ (its topic weights).

Ways to find them, all alternating tokens, embedding and weights:

sample_document   Algorithm 2, lines 6-10: hard topic draws and Adagrad on a Monte-Carlo gradient; for training.
infer_document    expected counts and joint Newton steps (joint.py): nothing random; for transform and evaluation.

Hard draws and joint Newton steps are memoized.redraw_document, and for stochastic inference svi.newton_document.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from . import random, tokens
from .joint import TopicCounts, renews_curvature, solve
from .state import Floats, Ints, LocalSettings, Topics
from .words import DrawTable

# infer_document: Newton steps at most, and when to stop (joint.solve).
INFER_STEPS = 100
INFER_TOL = 1e-3
# In predictions a document's prior counts like so many tokens beside its own, which alone know no other topic
# (docs/inference.md).
PRIOR_IN_TOKENS = 6.0
# Added to Adagrad's sum of squares, against division by zero.
ADAGRAD_FLOOR = 1e-8


def embed(weights: Floats, topics: Topics) -> Floats:
    """γ = τ Σ_a Σ_k (ξ_k - m_k) μ_k."""
    gain = topics.priors.tau * topics.document_cov
    return np.asarray((weights - topics.mean) @ topics.embedding @ gain)


def weight_gradient(weights: Floats, mean: Floats, topic_counts: Floats, noise: Floats, tau: float) -> Floats:
    """∇_ξ = τ (m + U γ - ξ) + n - (N/T) Σ_t softmax(ξ + σ ε_t), with σ = τ^-1/2 and noise ε [t, k]."""
    softmax = special.softmax(weights + tau**-0.5 * noise, axis=1).mean(axis=0)
    return np.asarray(tau * (mean - weights) + topic_counts - topic_counts.sum() * softmax)


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
    weights, squares = topics.mean.copy(), np.full(n_topics, ADAGRAD_FLOOR)
    draws: Ints = np.zeros(n_tokens, dtype=np.int32)
    steps = 0
    while n_tokens and steps < settings.max_steps:
        uniforms = random.uniforms(random.stream(*key, random.DRAWS, steps), np.arange(n_tokens))
        draws = draw_tokens(table, words, counts, weights, uniforms, settings.topics_per_document)
        topic_counts = np.bincount(draws, minlength=n_topics).astype(float)
        mean = topics.mean + topics.embedding @ embed(weights, topics)
        noise = _noise(key, steps, settings.n_samples, n_topics)
        gradient = weight_gradient(weights, mean, topic_counts, noise, topics.priors.tau)
        squares += gradient**2
        change = settings.rate * gradient / np.sqrt(squares)
        weights = weights + change
        steps += 1
        if np.abs(change).mean() < settings.tol:
            break
    return draws, embed(weights, topics), weights, steps


def draw_tokens(table: DrawTable, words: Ints, counts: Ints, weights: Floats, uniforms: Floats, n_top: int) -> Ints:
    """A topic for every token, words in order, each count times."""
    top = tokens.heaviest_topics(weights, n_top)
    ends = np.cumsum(counts)
    drawn = [
        tokens.draw(*tokens.candidate_mass(table, word, weights, top), uniforms[end - count : end])
        for word, count, end in zip(words, counts, ends, strict=True)
    ]
    return np.concatenate(drawn)


def redraw_tokens(
    topics: Topics,
    table: DrawTable,
    words: Ints,
    counts: Ints,
    draws: Ints,
    weights: Floats,
    uniforms: Floats,
    n_top: int,
) -> Ints:
    """A topic for every token by predictive weights: each leaves its last draw, which they and the topics have
    counted, first."""
    top = tokens.heaviest_topics(weights, n_top)
    token_weight = table.rest / topics.priors.beta  # of one token in a topic
    drawn = np.empty_like(draws)
    for word, token in zip(np.repeat(words, counts).tolist(), range(len(draws)), strict=True):
        candidates, mass = tokens.candidate_mass(table, word, weights, top)
        k, own = draws[token], slice(table.indptr[word], table.indptr[word + 1])
        (places,) = np.nonzero(table.topics[own] == k)
        (of_top,) = np.nonzero(top == k)
        if len(places):
            place, in_top = places[0], mass[own.stop - own.start + of_top].sum()
            left_of_mass = (1 - np.exp(-weights[k])) * (1 - token_weight[k] / table.weights[own.start + place])
            mass[place] = max(0.0, left_of_mass * (mass[place] + in_top) - in_top)
        drawn[token] = tokens.draw(candidates, mass, uniforms[token : token + 1])[0]
    return drawn


def infer_document(
    topics: Topics, table: DrawTable, words: Ints, counts: Ints, n_top: int
) -> tuple[Floats, Floats, Floats]:
    """γ, predictive weights and ω of a document under fixed topics."""
    topic_counts = expectation(table, words, counts, n_top, topics.priors.tau)
    solution = solve(topics, np.zeros(topics.n_dims), topic_counts, INFER_STEPS, INFER_TOL)
    weights = predictive_weights(prior_mean(solution.embedding, topics), solution.topic_counts)
    return solution.embedding, weights, 1 / solution.shrinkage - 1


def prior_mean(embedding: Floats, topics: Topics) -> Floats:
    """μ = m + U γ."""
    return np.asarray(topics.mean + topics.embedding @ embedding)


def predictive_weights(mean: Floats, topic_counts: Floats, log_rest: float = -np.inf) -> Floats:
    """log (n_k + c π_k) with π = softmax(μ): of the topics that the document's next tokens will have. μ itself where it
    has no tokens. Topics that are not listed weigh exp(log_rest)."""
    if not topic_counts.any():
        return mean
    log_normaliser = np.logaddexp(special.logsumexp(mean), log_rest)
    counted = np.log(np.maximum(topic_counts, np.finfo(float).tiny))
    return np.asarray(np.logaddexp(counted, np.log(PRIOR_IN_TOKENS) + mean - log_normaliser))


def expectation(
    table: DrawTable, words: Ints, counts: Ints, n_top: int, tau: float, counted: float = 0.0
) -> TopicCounts:
    """Expected counts of a document's tokens by topic, for the joint solver; the n_top are renewed with H. `counted`
    is as of tokens.leave_itself."""
    top: NDArray[np.int64] = np.array([], dtype=np.int64)

    def topic_counts(shares: Floats, step: int) -> Floats:
        nonlocal top
        if renews_curvature(step):
            top = tokens.heaviest_topics(shares, n_top)
        weights = np.log(np.maximum(shares, np.finfo(float).tiny))
        # From the first step on shares are ω; before it no token has been counted that could leave.
        return expected_counts(table, words, counts, weights, top, shares if step else None, tau, counted)

    return topic_counts


def expected_counts(
    table: DrawTable,
    words: Ints,
    counts: Ints,
    weights: Floats,
    top: NDArray[np.int64],
    omega: Floats | None = None,
    tau: float = 1.0,
    counted: float = 0.0,
) -> NDArray[np.float64]:
    """E[n_k] = Σ_n q(z_n = k) [k]; any token may take the `top` topics. Given ω, each token leaves itself out."""
    total = np.zeros(len(weights))
    for word, count in zip(words, counts, strict=True):
        topics, mass = expected_mass(table, word, weights, top, omega, tau, counted)
        total += count * tokens.responsibilities(topics, mass, len(weights))
    return total


def expected_mass(
    table: DrawTable,
    word: int,
    weights: Floats,
    top: NDArray[np.int64],
    omega: Floats | None,
    tau: float,
    counted: float,
) -> tuple[Ints, Floats]:
    """tokens.candidate_mass; given ω, of a token that leaves itself out."""
    topics, mass = tokens.candidate_mass(table, word, weights, top)
    if omega is None:
        return topics, mass
    n_own = len(topics) - len(top)
    own = topics[:n_own]
    of_prior = table.rest[own] / table.weights[table.indptr[word] : table.indptr[word + 1]]
    in_top: Floats = np.bincount(top, mass[n_own:], len(weights)).astype(np.float64)[own]
    return topics, np.concatenate([tokens.leave_itself(mass, in_top, omega[own], tau, of_prior, counted), mass[n_own:]])


def _noise(key: tuple[int, int, int], step: int, n_samples: int, n_topics: int) -> Floats:
    """ε [t, k]."""
    streams = random.stream(*key, random.NOISE, step, np.arange(n_samples))
    return random.normals(streams, n_topics)
