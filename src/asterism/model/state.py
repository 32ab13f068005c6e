"""Named, immutable values: the topics, a batch of documents, and what the batch says about the topics.

Statistics add: those of two batches are the sum of each one's, whoever computed them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

Floats: TypeAlias = NDArray[np.floating[Any]]
Ints: TypeAlias = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Priors:
    """The paper's hyper-parameters."""

    alpha: float  # precision of topic embeddings: u ~ N(0, I/α)
    rho: float  # precision of document embeddings: a ~ N(0, I/ρ)
    tau: float  # precision of topic weights around their mean: η ~ N(U a, I/τ)
    beta: float  # Dirichlet concentration of a topic's words: φ ~ Dir(β)


@dataclass(frozen=True)
class LocalSettings:
    """How a document's own variables are found."""

    topics_per_document: int  # K_s: topics of a document that any of its tokens may take
    words_per_topic: int  # V_s: words of a topic kept for drawing
    topics_per_word: int  # s: topics that every word keeps for drawing
    n_samples: int = 1  # T: Monte-Carlo samples of the gradient
    rate: float = 0.5  # Adagrad's first step
    max_steps: int = 50  # rounds of token, embedding and weight updates
    tol: float = 0.1  # ... or until the mean change of a topic weight is below this
    newton: bool = False  # joint Newton steps for the drawn topics, rather than Adagrad
    candidates: int = 0  # topics that a document looks at one by one (candidates.py); 0: all
    collapsed: bool = False  # weights of words λ / Σ λ, rather than the exponential of E[log φ]


class CountedWords:
    """What every state of topics answers about their words."""

    word_topic: Any  # λ - β [v, k]: what has been counted, without the prior; sparse or an array
    priors: Any  # with a β

    @property
    def n_topics(self) -> int:
        return int(self.word_topic.shape[1])

    @property
    def n_words(self) -> int:
        return int(self.word_topic.shape[0])

    @cached_property
    def topic_count(self) -> Floats:
        """Tokens counted in each topic [k]."""
        counted: Floats = np.asarray(self.word_topic.sum(axis=0, dtype=np.float64))
        return counted.ravel()

    @cached_property
    def topic_word(self) -> sparse.csr_matrix:
        """The counts by topic [k, v], for who asks for a topic's words."""
        return sparse.csr_matrix(self.word_topic.T)

    @cached_property
    def topic_total(self) -> Floats:
        """Σ_v λ_kv [k]."""
        return np.asarray(self.topic_count + self.priors.beta * self.n_words)


@dataclass(frozen=True)
class Topics(CountedWords):
    """Everything known of the topics: q(u_k) = N(μ_k, Σ_u), q(φ_k) = Dir(λ_k), and the Σ_a that follows."""

    embedding: Floats  # μ [k, m]
    embedding_cov: Floats  # Σ_u [m, m], shared by all topics
    document_cov: Floats  # Σ_a [m, m], shared by all documents
    mean: Floats  # m [k]: how common a topic is; the paper's model has none, it is zero there
    word_topic: sparse.csr_matrix  # λ - β [v, k]: what has been counted, without the prior
    priors: Priors

    @property
    def n_topics(self) -> int:
        return int(self.embedding.shape[0])

    @property
    def n_dims(self) -> int:
        return int(self.embedding.shape[1])

    @cached_property
    def embedding_scatter(self) -> Floats:
        """Covariance of topic vectors in the average document, where topic k has share softmax(m)_k [m, m]."""
        share = special.softmax(self.mean)
        centred = np.sqrt(share)[:, None] * (self.embedding - share @ self.embedding)
        return np.asarray(centred.T @ centred)


@dataclass(frozen=True)
class Batch:
    """Some documents of a corpus as counts, with the numbers by which the corpus knows them."""

    indptr: NDArray[np.int64]  # document d's entries are indptr[d]:indptr[d+1]
    words: NDArray[np.int32]
    counts: NDArray[np.int32]
    documents: NDArray[np.int64]  # keys of the random draws
    n_words: int

    @classmethod
    def of(cls, counts: sparse.csr_matrix, rows: Ints | None = None, first_document: int = 0) -> Batch:
        """The given rows of a count matrix (all by default); row i is document first_document + i."""
        if rows is None:
            rows = np.arange(counts.shape[0])
        else:
            counts = counts[rows]
        return cls(
            counts.indptr.astype(np.int64),
            counts.indices.astype(np.int32),
            counts.data.astype(np.int32),
            (rows + first_document).astype(np.int64),
            int(counts.shape[1]),
        )

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, rows: slice) -> Batch:
        """Consecutive documents; a view."""
        first, last, _ = rows.indices(len(self))
        start, stop = self.indptr[first], self.indptr[last]
        return Batch(
            self.indptr[first : last + 1] - start,
            self.words[start:stop],
            self.counts[start:stop],
            self.documents[first:last],
            self.n_words,
        )

    @cached_property
    def token_offsets(self) -> NDArray[np.int64]:
        """Where each entry's tokens begin, counting every token of the batch; last, their number."""
        return np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])

    @cached_property
    def document_offsets(self) -> NDArray[np.int64]:
        """Where each document's tokens begin; last, their number."""
        return self.token_offsets[self.indptr]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """N_d [d]."""
        return np.diff(self.document_offsets)


@dataclass(frozen=True)
class Statistics:
    """What a batch says about the topics, as sums over its documents."""

    word_topic: sparse.csr_matrix  # tokens of word v drawn as topic k [v, k], whole numbers
    weight_embedding: Floats  # Σ_d (ξ_d - m) γ_d' [k, m]
    embedding_outer: Floats  # Σ_d γ_d γ_d' [m, m]
    n_documents: int
    n_steps: int  # local rounds taken, over all documents

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            sparse.csr_matrix(self.word_topic + other.word_topic),
            self.weight_embedding + other.weight_embedding,
            self.embedding_outer + other.embedding_outer,
            self.n_documents + other.n_documents,
            self.n_steps + other.n_steps,
        )


@dataclass(frozen=True)
class Documents:
    """What is inferred of documents: q(a_d) has mean `embedding`, q(η_d) has mean `weights`; those that an engine's
    `infer` returns are predictive (document.predictive_weights)."""

    embedding: Floats  # γ [d, m]
    weights: Floats  # ξ [d, k]
    cov: Floats | None = None  # H^-1 [d, m, m], where it was asked for

    def arrays(self) -> tuple[Floats, Floats]:
        return self.embedding, self.weights


def draw_type(n_topics: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type that tokens' topics are kept in: 2 or 4 bytes a token."""
    return np.uint16 if n_topics <= 2**16 else np.uint32


def count_draws(words: Ints, topics: Ints, n_words: int, n_topics: int) -> sparse.csr_matrix:
    """How often each word was drawn as each topic [v, k]."""
    pairs, counts = np.unique(words.astype(np.int64) * n_topics + topics, return_counts=True)
    rows, columns = np.divmod(pairs, n_topics)
    indptr = np.searchsorted(rows, np.arange(n_words + 1))
    return sparse.csr_matrix((counts.astype(np.int64), columns, indptr), shape=(n_words, n_topics))
