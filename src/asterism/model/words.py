"""The words of topics, q(φ_k) = Dir(λ_k), and the sparse table that tokens are drawn from.

λ - β is kept as a sparse matrix [v, k]: a pair never drawn costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from .state import CountedWords, Floats, Ints, Topics

# Keeps a word that no topic knows drawable, where exp(ψ(β)) at β = 1/K is too small for a float.
SMALLEST_WEIGHT = 1e-30
# A learned β stays in sane bounds, whatever the corpus.
SMALLEST_BETA, LARGEST_BETA = 1e-4, 1.0


@dataclass(frozen=True)
class DrawTable:
    """For each word its own topics with their weights; `rest` is the weight of any other word in a topic."""

    indptr: NDArray[np.int64]  # word v's topics are indptr[v]:indptr[v+1]
    topics: NDArray[np.int32]
    weights: Floats  # exp(E[log φ_kv]) of the listed pairs
    rest: Floats  # exp(ψ(β) - ψ(Σ_v λ_kv)) [k]


def ranks_in_rows(rows: NDArray[np.int32], columns: NDArray[np.int32], values: Floats) -> NDArray[np.int64]:
    """Each entry's rank among its row's, largest value first, the lower column first among equals."""
    order = np.lexsort((columns, -values, rows))
    starts = np.searchsorted(rows[order], rows[order])
    ranks = np.empty(len(rows), dtype=np.int64)
    ranks[order] = np.arange(len(rows)) - starts
    return ranks


def kept_for_drawing(word_topic: sparse.csr_matrix, words_per_topic: int, topics_per_word: int) -> NDArray[np.bool_]:
    """Which entries [v, k] are among the topic's top V_s words or the word's top s topics."""
    pairs = word_topic.tocoo()
    in_topic = ranks_in_rows(pairs.col, pairs.row, pairs.data) < words_per_topic
    in_word = ranks_in_rows(pairs.row, pairs.col, pairs.data) < topics_per_word
    return np.asarray(in_topic | in_word)


def draw_table(topics: CountedWords, kept: NDArray[np.bool_], collapsed: bool = False) -> DrawTable:
    """exp(E[log φ_kv]) = exp(ψ(λ_kv) - ψ(Σ_v λ_kv)) for the kept pairs; collapsed, E[φ_kv] = λ_kv / Σ_v λ_kv."""
    word_topic, beta = topics.word_topic, topics.priors.beta
    columns = word_topic.indices[kept]
    if collapsed:
        weights = (word_topic.data[kept] + beta) / topics.topic_total[columns]
        rest = beta / topics.topic_total
    else:
        log_total = special.psi(topics.topic_total)
        weights = np.exp(special.psi(word_topic.data[kept] + beta) - log_total[columns])
        rest = np.exp(special.psi(beta) - log_total)
    rest = np.maximum(rest, SMALLEST_WEIGHT)
    indptr = np.concatenate([[0], np.cumsum(kept)])[word_topic.indptr]
    return DrawTable(indptr.astype(np.int64), columns.astype(np.int32), np.maximum(weights, rest[columns]), rest)


def word_probabilities(topics: CountedWords) -> Floats:
    """E[φ_kv] = λ_kv / Σ_v λ_kv, dense [k, v]: for small models and tests."""
    counts = topics.word_topic.toarray() if sparse.issparse(topics.word_topic) else topics.word_topic
    return np.asarray((counts.T + topics.priors.beta) / topics.topic_total[:, None])


def log_likelihood(topics: CountedWords, weights: Floats, words: Ints, counts: Ints) -> float:
    """Σ_n log Σ_k softmax(ξ)_k E[φ_k,w_n] of one document's words."""
    predictive = special.softmax(weights) @ word_probabilities(topics)[:, words]
    return float(counts @ np.log(predictive))


def optimal_concentration(topics: Topics) -> float:
    """The β of highest likelihood of the counts, one step of Minka's fixed-point iteration:

    β <- β Σ_kv [ψ(n_kv + β) - ψ(β)] / (V Σ_k [ψ(n_k + V β) - ψ(V β)])
    """
    beta, n_words = topics.priors.beta, topics.n_words
    above = np.sum(special.psi(topics.word_topic.data + beta) - special.psi(beta))
    below = n_words * np.sum(special.psi(topics.topic_count + n_words * beta) - special.psi(n_words * beta))
    return float(np.clip(beta * above / max(below, np.finfo(float).tiny), SMALLEST_BETA, LARGEST_BETA))
