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

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from . import random
from .state import Floats, Ints, Priors

# Imagined occurrences of every pair of topics, in pairs of tokens: predictions hardly differ from 10 to 40.
IMAGINED = 30.0
# Documents are left out where more pairs of topics would have to be counted.
MOST_PAIRS = 2**26
# Topics as frequent as each other are taken together, in so many kinds, in what chance explains.
KINDS = 256
MOST_DENSE = 512  # topics
EIGEN_TOL = 1e-3  # relative, of eigenvalues: draws are noisier by far
# Directions that are left empty get a little noise, or they could never grow.
SPARE_SPREAD = 0.01


class LogRatio:
    """log[(C + a)/(E + a)], centred, with the diagonal less 1/τ; known by its products with vectors."""

    def __init__(self, document_topic: sparse.csr_matrix, tau: float) -> None:
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
        product = self.observed @ x - (self.by_chance @ (self.of_kind @ x))[self.kind]
        return np.asarray(product - self.share @ product)


# Largest eigenvalues and their eigenvectors, as `leading` finds them.
Leading: TypeAlias = Callable[[LogRatio, int, int, int], tuple[Floats, Floats]]


def embed_topics(
    document_topic: sparse.csr_matrix, n_dims: int, priors: Priors, seed: int, eigenvectors: Leading | None = None
) -> tuple[Floats, Floats]:
    """U [k, m] and m [k] from counts of draws [d, k]; m is what gives topics their mean share, given U."""
    n_topics = document_topic.shape[1]
    ratio = LogRatio(document_topic, priors.tau)
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
    values, vectors = np.zeros(n_dims), np.zeros((n_topics, n_dims))
    if n_topics <= max(MOST_DENSE, n_dims + 1):
        found, directions = np.linalg.eigh(ratio @ np.eye(n_topics))
    else:
        start = random.normals(random.stream(seed, random.START), n_topics)[0]
        operator = linalg.LinearOperator((n_topics, n_topics), matvec=ratio.__matmul__, dtype=np.float64)
        try:
            found, directions = linalg.eigsh(operator, n_dims, which="LA", v0=start, tol=EIGEN_TOL)
        except linalg.ArpackNoConvergence as stopped:  # a start can do with those that were found
            found, directions = stopped.eigenvalues, stopped.eigenvectors
        except linalg.ArpackError:  # nothing occurs together
            found, directions = np.empty(0), np.empty((n_topics, 0))
    order = np.argsort(-found, kind="stable")[:n_dims]
    values[: len(order)], vectors[:, : len(order)] = np.maximum(found[order], 0), directions[:, order]
    return values, vectors
