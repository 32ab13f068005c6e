"""The generative process (Algorithm 1): corpora with planted topics, embeddings and correlations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse, special

from .state import Floats, Ints


@dataclass(frozen=True)
class PlantedCorpus:
    """A drawn corpus and everything it was drawn from."""

    counts: sparse.csr_matrix  # [d, v]
    topic_embedding: Floats  # U [k, m]
    topic_word: Floats  # φ [k, v]
    document_embedding: Floats  # a [d, m]
    weights: Floats  # η [d, k]
    weight_cov: Floats  # the planted covariance of η, U U'/ρ + I/τ [k, k]

    @property
    def proportions(self) -> Floats:
        """θ = softmax(η) [d, k]."""
        return np.asarray(special.softmax(self.weights, axis=1))

    @property
    def weight_correlation(self) -> Floats:
        """The planted correlation of topic weights [k, k]."""
        spread = np.sqrt(np.diag(self.weight_cov))
        return np.asarray(self.weight_cov / spread / spread[:, None])


def sample_corpus(
    n_documents: int,
    n_topics: int,
    n_words: int,
    n_dims: int = 5,
    *,
    mean_length: float = 100.0,
    alpha: float = 1.0,
    rho: float = 1.0,
    tau: float = 1.0,
    beta: float = 0.05,
    topic_embedding: Floats | None = None,
    topic_word: Floats | None = None,
    seed: int = 0,
) -> PlantedCorpus:
    """Draw a corpus from the model, with Poisson document lengths.

    Give `topic_embedding` [k, m] or `topic_word` [k, v] to plant your own. The defaults are not the paper's
    priors: at α = ρ = 0.1 and M = 50 the variance of U a is 5,000, and every document has one topic.
    """
    rng = np.random.default_rng(seed)
    if topic_embedding is None:
        topic_embedding = rng.normal(0, alpha**-0.5, (n_topics, n_dims))
    if topic_word is None:
        topic_word = rng.dirichlet(np.full(n_words, beta), n_topics)
    document_embedding = rng.normal(0, rho**-0.5, (n_documents, topic_embedding.shape[1]))
    weights = rng.normal(document_embedding @ topic_embedding.T, tau**-0.5)
    lengths = rng.poisson(mean_length, n_documents)
    counts = _draw_words(rng, lengths, special.softmax(weights, axis=1), topic_word)
    weight_cov = topic_embedding @ topic_embedding.T / rho + np.eye(n_topics) / tau
    return PlantedCorpus(counts, topic_embedding, topic_word, document_embedding, weights, weight_cov)


def _draw_words(rng: np.random.Generator, lengths: Ints, proportions: Floats, topic_word: Floats) -> sparse.csr_matrix:
    """Word counts [d, v]: with z summed out, the words of a document are draws from θ φ."""
    rows = []
    for length, theta in zip(lengths, proportions, strict=True):
        words = theta @ topic_word
        rows.append(sparse.csr_matrix(rng.multinomial(length, words / words.sum())))
    return sparse.csr_matrix(sparse.vstack(rows), dtype=np.int32)
