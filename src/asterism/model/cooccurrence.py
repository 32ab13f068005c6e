"""Topic embeddings from how topics occur together in documents: what memoized inference draws by.

Were topic weights log-normal intensities, with covariance Σ, topics i and j would occur together exp(Σ_ij) times as
often as by chance. So, with n_di tokens of topic i among the N_d of document d,

    Σ_ij ≈ log [(C_ij + a) / (E_ij + a)],    C_ij = Σ_d n_di n_dj / (N_d - 1),    E_ij = n_i n_j / N,

where a few imagined occurrences, a, keep rare pairs from saying much (C_ii counts pairs of different tokens). The model
says Σ = U U'/ρ + I/τ: U follows from the leading eigenvectors. Adding a constant to all weights changes no topic
proportions, so Σ is centred. Nothing here is topics x topics but where topics did occur together.

Proportions add up to 1, which dampens them where weights are extreme, so U comes out somewhat short; a correction by
the expected dampening made the start better at 1,000 topics but worse at 100, and the sweeps soon make up for it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy import sparse

from . import random
from .state import Floats, Ints, Priors

# Imagined occurrences of every pair of topics, in pairs of tokens: predictions hardly differ from 10 to 40.
IMAGINED = 30.0
# Documents are left out where more pairs of topics would have to be counted.
MOST_PAIRS = 2**26
# Topics as frequent as each other are taken together, in so many kinds, in what chance explains.
KINDS = 256
# Vectors beyond those asked for, and blocks of them: eigenvalues come out right to a thousandth; draws are noisier.
SPARE, BLOCKS = 14, 8
# What is left of a vector that others make up, of the longest's length.
ROUNDING = 1e-10
# Directions that are left empty get a little noise, or they could never grow.
SPARE_SPREAD = 0.01


# The product of a sparse matrix and vectors.
Multiply: TypeAlias = Callable[[sparse.csr_matrix, Floats], Floats]


class LogRatio:
    """log[(C + a)/(E + a)], centred, with the diagonal less 1/τ; known by its products with vectors."""

    def __init__(self, document_topic: sparse.csr_matrix, tau: float, multiply: Multiply = operator.matmul) -> None:
        self.multiply = multiply
        counts = _with_pairs(document_topic).astype(np.float64)
        lengths = np.asarray(counts.sum(axis=1)).ravel()
        shared = sparse.diags(1 / np.maximum(lengths - 1, 1)) @ counts
        together = sparse.csr_matrix(counts.T @ shared) - sparse.diags(np.asarray(shared.sum(axis=0)).ravel())
        total = max(lengths.sum(), 1.0)
        self.topic_count = np.asarray(counts.sum(axis=0)).ravel()
        self.share = (self.topic_count + 1) / (self.topic_count + 1).sum()
        imagined = IMAGINED / max(total / max(len(lengths), 1), 1.0)
        # log(C + a) - log(E + a) = [log(C/a + 1)] - [log(E/a + 1)]: the first sparse, the second one of kinds.
        frequency = self.topic_count / np.sqrt(total * imagined)
        self.kind, typical = _kinds(frequency)
        self.of_kind = sparse.csr_matrix((np.ones(len(self.kind)), (self.kind, np.arange(len(self.kind)))))
        self.by_chance = np.log1p(np.outer(typical, typical))
        self.observed = sparse.csr_matrix(together)
        self.observed.data = np.log1p(np.maximum(self.observed.data, 0) / imagined)
        itself = self.observed.diagonal() - self.by_chance[self.kind, self.kind]
        self.observed.setdiag(np.maximum(itself - 1 / tau, 0) + self.by_chance[self.kind, self.kind])

    def __matmul__(self, x: Floats) -> Floats:
        x = x - np.multiply.outer(self.share, x.sum(axis=0))
        product = self.multiply(self.observed, x) - (self.by_chance @ (self.of_kind @ x))[self.kind]
        return np.asarray(product - self.share @ product)


# Largest eigenvalues and their eigenvectors, as `leading` finds them.
Leading: TypeAlias = Callable[[LogRatio, int, int, int], tuple[Floats, Floats]]


def embed_topics(
    document_topic: sparse.csr_matrix,
    n_dims: int,
    priors: Priors,
    seed: int,
    eigenvectors: Leading | None = None,
    multiply: Multiply = operator.matmul,
) -> tuple[Floats, Floats]:
    """U [k, m] and m [k] from counts of draws [d, k]; m is what gives topics their mean share, given U."""
    n_topics = document_topic.shape[1]
    ratio = LogRatio(document_topic, priors.tau, multiply)
    values, vectors = (eigenvectors or leading)(ratio, n_topics, n_dims, seed)
    embedding = SPARE_SPREAD * random.normals(random.stream(seed, random.START, np.arange(n_topics)), n_dims)
    embedding[:, values > 0] = (vectors * np.sqrt(priors.rho * values))[:, values > 0]
    variance = np.einsum("km,km->k", embedding, embedding) / priors.rho
    mean = np.log(ratio.share) - variance / 2
    return embedding, mean - mean.mean()


def _with_pairs(document_topic: sparse.csr_matrix) -> sparse.csr_matrix:
    """As many of the first documents as have no more than MOST_PAIRS pairs of topics."""
    n_pairs = np.cumsum(np.diff(document_topic.indptr).astype(np.int64) ** 2)
    return document_topic[: max(1, int(np.searchsorted(n_pairs, MOST_PAIRS, side="right")))]


def _kinds(frequency: Floats) -> tuple[Ints, Floats]:
    """The kind of each topic [k], and each kind's frequency: topics in their order, in groups of equal size."""
    n_kinds = min(KINDS, len(frequency))
    kind = np.empty(len(frequency), dtype=np.int64)
    kind[np.argsort(frequency, kind="stable")] = np.arange(len(frequency)) * n_kinds // len(frequency)
    return kind, np.bincount(kind, frequency) / np.bincount(kind)


def leading(ratio: LogRatio, n_topics: int, n_dims: int, seed: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues [m], 0 where there are no more or none above 0, and their eigenvectors [k, m]."""
    if are_few(n_topics, n_dims):
        basis: Floats = np.eye(n_topics)
        within = ratio @ basis
    else:
        basis, within = krylov(ratio, n_topics, n_dims + SPARE, seed)
    found, directions = np.linalg.eigh(within, UPLO="U")
    n = min(n_dims, len(found))
    values, vectors = np.zeros(n_dims), np.zeros((n_topics, n_dims))
    values[:n], vectors[:, :n] = np.maximum(found[::-1][:n], 0), basis @ directions[:, ::-1][:, :n]
    return values, vectors


def are_few(n_topics: int, n_dims: int) -> bool:
    """Whether all eigenvectors are found at once."""
    return n_topics <= BLOCKS * (n_dims + SPARE)


def krylov(ratio: LogRatio, n_topics: int, size: int, seed: int) -> tuple[Floats, Floats]:
    """An orthonormal basis of X, A X, ..., A^(BLOCKS - 1) X, for a random X, and the upper triangle of A within it
    (block Krylov, Musco and Musco 2015)."""
    basis, within = np.zeros((n_topics, BLOCKS * size)), np.zeros((BLOCKS * size, BLOCKS * size))
    product: Floats | None = None
    for first in range(0, BLOCKS * size, size):
        here = slice(first, first + size)
        spare = random.normals(random.stream(seed, random.START, np.arange(first, first + size)), n_topics).T
        basis[:, here] = _orthonormal(spare if product is None else product, basis[:, :first], spare)
        product = ratio @ basis[:, here]
        within[: first + size, here] = basis[:, : first + size].T @ product
    return basis, within


def _orthonormal(block: Floats, before: Floats, spare: Floats) -> Floats:
    """A basis of what the block has that is not in the basis before. Once leaves what rounding has left, and where
    nothing is left others stand in."""
    for _ in range(3):
        block, triangle = np.linalg.qr(block - before @ (before.T @ block))
        lengths = np.abs(np.diag(triangle))
        block = np.where(lengths > ROUNDING * lengths.max(), block, spare)
    return np.asarray(block)
