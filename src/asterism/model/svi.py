"""Stochastic variational inference, Algorithm 2 of the paper: how a minibatch moves the topics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from . import random
from .document import draw_tokens
from .memoized import STEPS_WITH_DRAWS, Relaxation, relax_document, uniforms_of
from .start import GivenTopics, deal_documents, replace_known
from .state import Floats, Ints, LocalSettings, Priors, Statistics, Topics
from .topics import optimal_document_cov, optimal_embedding
from .words import DrawTable

# Spread of the topic embeddings at the start. It breaks the symmetry; the first step, of size 1, replaces it.
START_SPREAD = 1.0
START_VARIANCE = 0.01
# Newton's method solves a document for its draws at once: rounds are only there for the draws to find their topics.
NEWTON_ROUNDS = 10


def start(
    counts: sparse.csr_matrix, n_topics: int, n_dims: int, priors: Priors, seed: int, given: GivenTopics | None = None
) -> Topics:
    """Random embeddings; each topic starts with the words of its random share of the documents, or with those given.

    A topic never draws a word it has not counted where exp(ψ(β)) is zero, so the start must give every topic
    a broad part of the vocabulary; a share of the corpus does, and stays sparse at any K.
    """
    streams = random.stream(seed, random.START, np.arange(n_topics))
    embedding = START_SPREAD * random.normals(streams, n_dims)
    embedding_cov = START_VARIANCE * np.eye(n_dims)
    document_cov = optimal_document_cov(embedding, embedding_cov, priors)
    word_topic = sparse.csr_matrix((deal_documents(counts.shape[0], n_topics, seed) @ counts).T)
    if given is not None:
        word_topic = replace_known(word_topic, given)
    mean = np.zeros(n_topics)
    return Topics(embedding, embedding_cov, document_cov, mean, word_topic.astype(np.float64), priors)


def step_size(iteration: int, offset: float, exponent: float) -> float:
    """ι = (offset + iteration)^-exponent; the paper's offset is 1 and its exponent 0.9."""
    return float((offset + iteration) ** -exponent)


def update(topics: Topics, statistics: Statistics, scale: float, step: float) -> Topics:
    """Blend μ, Σ_u and λ with the batch's optimal values, then Σ_a: lines 11-14, once a minibatch."""
    embedding, embedding_cov = optimal_embedding(statistics, topics.document_cov, topics.priors, scale)
    embedding = _blend(topics.embedding, embedding, step)
    embedding_cov = _blend(topics.embedding_cov, embedding_cov, step)
    word_topic = topics.word_topic * (1 - step) + statistics.word_topic * (scale * step)
    return replace(
        topics,
        embedding=embedding,
        embedding_cov=embedding_cov,
        document_cov=optimal_document_cov(embedding, embedding_cov, topics.priors),
        word_topic=sparse.csr_matrix(word_topic),
    )


def newton_rounds(settings: LocalSettings) -> list[Relaxation]:
    """What a document's rounds are: nothing but draws under the prior's weights, then solutions and draws in turn."""
    n_top = settings.topics_per_document
    only_draws = Relaxation(n_top, n_steps=0, is_counted=False)
    solved = replace(only_draws, n_steps=STEPS_WITH_DRAWS)
    return [only_draws] + min(NEWTON_ROUNDS, settings.max_steps) * [solved]


def newton_document(
    topics: Topics, table: DrawTable, words: Ints, counts: Ints, key: tuple[int, int, int], settings: LocalSettings
) -> tuple[Ints, Floats, Floats, int]:
    """document.sample_document with the joint solver (joint.py) in place of Adagrad on a Monte-Carlo gradient."""
    embedding: Floats = np.zeros(topics.n_dims)
    draws: Ints = np.zeros(int(counts.sum()), dtype=np.int32)
    rounds = newton_rounds(settings)
    for i, relaxing in enumerate(rounds):
        solution = relax_document(topics, table, words, counts, draws, embedding, relaxing)
        uniforms, embedding = uniforms_of((*key, i), len(draws)), solution.embedding
        if len(draws):
            draws = draw_tokens(table, words, counts, solution.weights, uniforms, relaxing.n_top)
    return draws, embedding, solution.weights, len(rounds) - 1


def _blend(old: Floats, new: Floats, step: float) -> Floats:
    return (1 - step) * old + step * new
