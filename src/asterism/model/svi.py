"""Stochastic variational inference, Algorithm 2 of the paper: how a minibatch moves the topics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from . import random
from .state import Floats, Priors, Statistics, Topics
from .topics import optimal_document_cov, optimal_embedding

# Spread of the topic embeddings at the start. It breaks the symmetry; the first step, of size 1, replaces it.
START_SPREAD = 1.0
START_VARIANCE = 0.01


def start(
    counts: sparse.csr_matrix, n_topics: int, n_dims: int, priors: Priors, words_each: int, seed: int
) -> Topics:
    """Random embeddings; every topic's words are those of a few random documents, so that topics differ."""
    streams = random.stream(seed, random.START, np.arange(n_topics))
    embedding = START_SPREAD * random.normals(streams, n_dims)
    embedding_cov = START_VARIANCE * np.eye(n_dims)
    document_cov = optimal_document_cov(embedding, embedding_cov, priors)
    return Topics(embedding, embedding_cov, document_cov, _words_of_documents(counts, n_topics, words_each, seed), priors)


def _words_of_documents(counts: sparse.csr_matrix, n_topics: int, words_each: int, seed: int) -> sparse.csr_matrix:
    """Counts [v, k] of enough random documents that each topic has about `words_each` tokens."""
    n_documents = counts.shape[0]
    length = max(1.0, counts.sum() / max(1, n_documents))
    each = max(1, round(words_each / length))
    choice = random.bits(random.stream(seed, random.START, random.SHUFFLE), np.arange(n_topics * each))
    documents = (choice % np.uint64(n_documents)).astype(np.int64)
    of_topic = sparse.csr_matrix(
        (np.ones(len(documents)), (np.repeat(np.arange(n_topics), each), documents)), (n_topics, n_documents)
    )
    return sparse.csr_matrix((of_topic @ counts).T).astype(np.float64)


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


def _blend(old: Floats, new: Floats, step: float) -> Floats:
    return (1 - step) * old + step * new
