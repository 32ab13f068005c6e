"""The most correlated topics of every topic, without a matrix of topics x topics.

The correlation of two topics' weights is the inner product of two vectors. All of them are compared, some rows at a
time, but few are looked at: a first share of the topics tells how large a product must be to be among the largest.
(Comparing only within groups of close topics was no faster at 100,000 topics, and missed half of the neighbours.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .state import Floats, Ints, Priors

FIRST_COMPARED = 4096
PRODUCTS_AT_ONCE = 2**23


class Neighbours(NamedTuple):
    """The topics most correlated with each of some topics, and how much, strongest first."""

    topics: Ints  # [i, n]
    correlation: Floats  # [i, n]


def correlation_vectors(embedding: Floats, priors: Priors) -> Floats:
    """u_k / √(ρ var η_k) [k, m]: inner products are the correlations of different topics' weights, whose covariance is
    U U'/ρ + I/τ."""
    variance = np.einsum("km,km->k", embedding, embedding) / priors.rho + 1 / priors.tau
    return np.asarray(embedding / np.sqrt(priors.rho * variance)[:, None])


def nearest_topics(vectors: Floats, topics: Ints, n: int) -> Neighbours:
    """The n largest inner products of these topics' vectors with all others; n is less than the number of topics."""
    if n == 0:
        return Neighbours(np.empty((len(topics), 0), dtype=np.int64), np.empty((len(topics), 0)))
    vectors = vectors.astype(np.float32)
    size = max(1, PRODUCTS_AT_ONCE // len(vectors))
    parts = [_nearest(vectors, topics[i : i + size], n) for i in range(0, len(topics), size)]
    return Neighbours(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _nearest(vectors: Floats, topics: Ints, n: int) -> Neighbours:
    products = vectors[topics] @ vectors.T
    products[np.arange(len(topics)), topics] = -np.inf
    first = products[:, : max(FIRST_COMPARED, n + 1)]
    least = np.partition(first, -n, axis=1)[:, -n]
    row, column = np.divmod(np.flatnonzero(products >= least[:, None]), len(vectors))
    value = products[row, column]
    order = np.lexsort((column, -value, row))  # the lower number first among equals
    starts = np.searchsorted(row, np.arange(len(topics)))
    kept = order[starts[:, None] + np.arange(n)]
    return Neighbours(column[kept], value[kept])


def correlation_graph(found: Neighbours, threshold: float) -> sparse.csr_matrix:
    """Neighbours of all topics as a symmetric matrix [k, k]: an entry where one topic is among the other's."""
    n_topics, n = found.topics.shape
    one, other = np.repeat(np.arange(n_topics), n), found.topics.ravel()
    correlation = found.correlation.ravel().astype(np.float64)
    pairs = np.minimum(one, other) * n_topics + np.maximum(one, other)
    pairs, index = np.unique(pairs[correlation > threshold], return_index=True)
    upper = correlation[correlation > threshold][index], np.divmod(pairs, n_topics)
    half = sparse.csr_matrix(upper, shape=(n_topics, n_topics))
    return sparse.csr_matrix(half + half.T)
