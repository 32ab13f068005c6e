"""Plain LDA sampling, the warm start of memoized inference: topics first, their correlations after."""

from __future__ import annotations

import numpy as np

from .state import Floats, Ints
from .words import DrawTable


def draw_document(table: DrawTable, words: Ints, counts: Ints, draws: Ints, smoothing: float, uniforms: Floats) -> Ints:
    """New draws of a document's tokens, one after the other: q(z = k) ∝ (n_k + a) weight_kv, a the smoothing.

    The token itself is taken out of n. The mass lies in three buckets, as in SparseLDA: the word's own topics, the
    document's topics with the weight of an uncounted word, and every topic with that weight and a.
    """
    draws = draws.copy()
    n_topics = len(table.rest)
    topic_counts = np.bincount(draws, minlength=n_topics)
    present = list(dict.fromkeys(draws.tolist()))
    for token, word in enumerate(np.repeat(words, counts)):
        topic_counts[draws[token]] -= 1
        own = slice(table.indptr[word], table.indptr[word + 1])
        own_topics, local = table.topics[own], np.array(present)
        own_mass = (topic_counts[own_topics] + smoothing) * (table.weights[own] - table.rest[own_topics])
        topics = np.concatenate([own_topics, local, np.arange(n_topics)])
        mass = np.concatenate([own_mass, topic_counts[local] * table.rest[local], smoothing * table.rest])
        cumulative = np.cumsum(mass)
        index = np.searchsorted(cumulative, uniforms[token] * cumulative[-1], side="right")
        draws[token] = topics[min(index, len(topics) - 1)]
        if draws[token] not in present:
            present.append(int(draws[token]))
        topic_counts[draws[token]] += 1
    return draws
