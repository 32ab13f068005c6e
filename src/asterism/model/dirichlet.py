"""LDA by stochastic variational inference (Hoffman et al. 2013): q(θ_d) = Dir(γ_d), q(φ_k) = Dir(λ_k).

θ_d ~ Dir(α), φ_k ~ Dir(β); a token's topic is z ~ θ_d, its word w ~ φ_z. Two ways to learn from a document:

expect_document   q(z = k) ∝ exp(E[log θ_k]) exp(E[log φ_kv]) over all topics, and γ = α + Σ_n q(z_n), in turns.
draw_document     one hard draw a token, given the document's other draws: q(z = k) ∝ (n_k + α) exp(E[log φ_kv])
                  (Mimno et al. 2012), over few candidates: those of tokens.py, as in the embedding model.

The state of the first is a dense array, that of the second a sparse matrix: its size says which of them is meant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse, special

from . import random, tokens
from .document import expected_counts
from .start import deal_documents
from .state import CountedWords, Floats, Ints
from .words import DrawTable

# Expectations that are practically nothing stay numbers that can be divided by, in single precision.
SMALLEST_SHARE, SMALLEST_WEIGHT = 1e-26, 1e-11
# Spread of the counts that topics start with, around 1 a word: that of scikit-learn's Gamma(100, 1/100).
START_SPREAD = 0.1


@dataclass(frozen=True)
class DirichletPriors:
    """Concentrations."""

    alpha: float  # of a document's topics: θ ~ Dir(α)
    beta: float  # of a topic's words: φ ~ Dir(β)


@dataclass(frozen=True)
class DirichletTopics(CountedWords):
    """Everything known of the topics: q(φ_k) = Dir(λ_k)."""

    word_topic: Floats | sparse.csr_matrix  # λ - β [v, k]
    priors: DirichletPriors

    @property
    def is_sparse(self) -> bool:
        return bool(sparse.issparse(self.word_topic))


@dataclass(frozen=True)
class DirichletSettings:
    """How a document's own variables are found."""

    topics_per_document: int  # K_s
    words_per_topic: int  # V_s
    topics_per_word: int  # s
    max_steps: int  # rounds, or draws of every token
    tol: float  # ... or until counts of topics change by less than this a token


@dataclass(frozen=True)
class DirichletStatistics:
    """What a batch says about the topics: Σ_n q(z_n = k) of each word's tokens [v, k]: of all words where the topics
    are sparse, and else of `words`, those that the batch has."""

    word_topic: Floats | sparse.csr_matrix
    words: Ints
    n_steps: int  # rounds taken, over all documents


def start(
    counts: sparse.csr_matrix, n_topics: int, priors: DirichletPriors, seed: int, is_sparse: bool
) -> DirichletTopics:
    """Sparse: every topic has the words of its random share of the documents. Dense: about one of every word."""
    if is_sparse:
        word_topic = sparse.csr_matrix((deal_documents(counts.shape[0], n_topics, seed) @ counts).T)
        return DirichletTopics(word_topic.astype(np.float64), priors)
    dense = np.empty((counts.shape[1], n_topics), dtype=np.float32)
    for word in range(len(dense)):
        dense[word] = np.exp(START_SPREAD * random.normals(random.stream(seed, random.START, word), n_topics)[0])
    return DirichletTopics(dense, priors)


def update(topics: DirichletTopics, statistics: DirichletStatistics, scale: float, step: float) -> DirichletTopics:
    """λ <- (1 - ι) λ + ι (β + scale times the batch's counts)."""
    word_topic = topics.word_topic * (1 - step)
    if topics.is_sparse:
        word_topic = sparse.csr_matrix(word_topic + statistics.word_topic * (scale * step))
    else:
        word_topic[statistics.words] += np.float32(scale * step) * statistics.word_topic
    return replace(topics, word_topic=word_topic)


def exp_psi(x: Floats) -> Floats:
    """exp(ψ(x)), which is exp(E[log θ]) to a factor where x is γ."""
    return np.asarray(np.maximum(np.exp(special.psi(x)), SMALLEST_SHARE))


def word_weights(topics: DirichletTopics, words: Ints) -> Floats:
    """exp(E[log φ_kv]) = exp(ψ(λ_kv) - ψ(Σ_v λ_kv)) of some words [v, k], for each to a factor: 1 is its largest."""
    counted = np.asarray(topics.word_topic[words], dtype=np.float64)
    logs = special.psi(counted + topics.priors.beta) - special.psi(topics.topic_total)
    return np.asarray(np.maximum(np.exp(logs - logs.max(axis=1, keepdims=True)), SMALLEST_WEIGHT))


def expect_document(weights: Floats, counts: Ints, alpha: float, settings: DirichletSettings) -> tuple[Floats, int]:
    """γ of a document with these counts of words, whose weights are [v, k], and the rounds taken."""
    concentration: Floats = np.full(weights.shape[1], alpha if not len(counts) else 1.0)
    steps = 0
    while len(counts) and steps < settings.max_steps:
        theta, before = exp_psi(concentration), concentration
        concentration = alpha + theta * ((counts / (weights @ theta)) @ weights)
        steps += 1
        if np.abs(concentration - before).sum() < settings.tol * counts.sum():
            break
    return concentration, steps


def expected_topics(weights: Floats, counts: Ints, concentration: Floats) -> Floats:
    """Σ_n q(z_n = k) of each word's tokens [v, k], given γ."""
    mass = weights * exp_psi(concentration)
    return np.asarray(counts[:, None] * mass / mass.sum(axis=1, keepdims=True))


def draw_document(
    table: DrawTable, words: Ints, counts: Ints, key: tuple[int, int, int], alpha: float, settings: DirichletSettings
) -> tuple[Ints, int]:
    """A topic for every token, and the rounds taken; key = (seed, sweep, document).

    A round draws one token after the other, given the others; in the first round only those before it have topics.
    """
    n_topics, n_tokens = len(table.rest), int(counts.sum())
    token_words, topic_counts = np.repeat(words, counts).tolist(), np.zeros(n_topics)
    draws: Ints = np.zeros(n_tokens, dtype=np.int32)
    steps = 0
    while n_tokens and steps < settings.max_steps:
        before = topic_counts.copy()
        uniforms = random.uniforms(random.stream(*key, random.DRAWS, steps), np.arange(n_tokens))
        top = tokens.heaviest_topics(topic_counts, settings.topics_per_document)
        for token, word in enumerate(token_words):
            if steps:
                topic_counts[draws[token]] -= 1
            mass = tokens.candidate_mass(table, word, np.log(topic_counts + alpha), top)
            draws[token] = tokens.draw(*mass, uniforms[token : token + 1])[0]
            topic_counts[draws[token]] += 1
        steps += 1
        if np.abs(topic_counts - before).sum() < settings.tol * n_tokens:
            break
    return draws, steps


def expect_among_candidates(
    table: DrawTable, words: Ints, counts: Ints, alpha: float, settings: DirichletSettings
) -> tuple[Floats, int]:
    """expect_document, each token among its candidates only."""
    concentration: Floats = np.full(len(table.rest), alpha if not len(counts) else 1.0)
    steps = 0
    while len(counts) and steps < settings.max_steps:
        theta, before = exp_psi(concentration), concentration
        top = tokens.heaviest_topics(theta, settings.topics_per_document)
        concentration = alpha + expected_counts(table, words, counts, np.log(theta), top)
        steps += 1
        if np.abs(concentration - before).sum() < settings.tol * counts.sum():
            break
    return concentration, steps
