"""Plain LDA sampling, the warm start of memoized inference: topics first, their correlations after.

A token's topic is drawn given all other draws, q(z = k) ∝ (n_k + α_k) (n_kv + β) / (n_k + V β), the token itself taken
out of the document's n_k and of the corpus' n_kv.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse, special

from .state import Floats, Ints
from .words import DrawTable

# A learned α of a topic is no smaller than this.
SMALLEST_ALPHA = 1e-3
# Counts up to this are dealt with by their number.
FEW = 16


class WordWeights(NamedTuple):
    """(n_kv + β) / (n_k + V β), with all tokens counted."""

    weights: Floats | DrawTable  # dense [v, k] or sparse
    unit: Floats  # what one token adds: 1 / (n_k + V β) [k]


def draw_document(
    word_weights: WordWeights, words: Ints, counts: Ints, draws: Ints, alpha: Floats, uniforms: Floats
) -> tuple[Ints, float]:
    """New draws of a document's tokens, one after the other, and Σ log p(token | all other draws)."""
    weights, unit = word_weights
    draws, n_tokens = draws.copy(), len(draws)
    topic_counts = np.bincount(draws, minlength=len(alpha))
    present = list(dict.fromkeys(draws.tolist()))
    log_probability = 0.0
    for token, word in enumerate(np.repeat(words, counts)):
        topic_counts[draws[token]] -= 1
        if isinstance(weights, DrawTable):
            topics, mass = bucket_mass(weights, int(word), topic_counts, np.array(present), alpha)
        else:
            topics, mass = np.arange(len(alpha)), (topic_counts + alpha) * weights[word]
        itself = np.flatnonzero(topics == draws[token])[0]
        mass[itself] = max(0, mass[itself] - (topic_counts + alpha)[draws[token]] * unit[draws[token]])
        cumulative = np.cumsum(mass)
        index = np.searchsorted(cumulative, uniforms[token] * cumulative[-1], side="right")
        draws[token] = topics[min(index, len(topics) - 1)]
        if draws[token] not in present:
            present.append(int(draws[token]))
        topic_counts[draws[token]] += 1
        log_probability += float(np.log(cumulative[-1] / (n_tokens - 1 + alpha.sum())))
    return draws, log_probability


def bucket_mass(table: DrawTable, word: int, topic_counts: Ints, present: Ints, alpha: Floats) -> tuple[Ints, Floats]:
    """Topics and their mass in three buckets, as in SparseLDA: the word's own topics, the document's topics with the
    weight of an uncounted word, and every topic with that weight and α."""
    own = slice(table.indptr[word], table.indptr[word + 1])
    own_topics = table.topics[own]
    own_mass = (topic_counts[own_topics] + alpha[own_topics]) * (table.weights[own] - table.rest[own_topics])
    topics = np.concatenate([own_topics, present, np.arange(len(alpha))])
    return topics, np.concatenate([own_mass, topic_counts[present] * table.rest[present], alpha * table.rest])


def optimal_alpha(document_topic: sparse.csr_matrix, alpha: Floats) -> Floats:
    """LDA's α of highest likelihood of the counts, one step of Minka's fixed-point iteration:

    α_k <- α_k Σ_d [ψ(n_dk + α_k) - ψ(α_k)] / Σ_d [ψ(N_d + Σα) - ψ(Σα)]
    """
    above = np.zeros(len(alpha))
    n, k = document_topic.data, document_topic.indices
    for i in range(FEW):  # most counts are small, and ψ(n + α) - ψ(α) = Σ_{i < n} 1 / (α + i)
        above += np.bincount(k, minlength=len(alpha)) / (alpha + i)
        n, k = n[n > i + 1], k[n > i + 1]
    above += np.bincount(k, special.psi(n + alpha[k]) - special.psi(FEW + alpha[k]), minlength=len(alpha))
    lengths = np.asarray(document_topic.sum(axis=1), dtype=np.float64).ravel()
    below = np.sum(special.psi(lengths + alpha.sum()) - special.psi(alpha.sum()))
    return np.asarray(np.maximum(alpha * above / max(below, np.finfo(float).tiny), SMALLEST_ALPHA))
