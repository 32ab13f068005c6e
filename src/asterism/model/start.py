"""Where topics start: a random share of the documents, or weights of words that a user brings, and what is drawn and
counted from these.

A topic without a weight is one that nothing is known of. Weights may be counts or probabilities: their scale does not
matter, only how they compare.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from . import random
from .state import Floats, Ints

# Of a topic of mean weight: spread over all words, so that a word that no topic was given can go anywhere.
SMOOTHING = 0.05


class GivenTopics(NamedTuple):
    """Weights of words in topics, and what every word has on top of its own."""

    word_topic: sparse.csr_matrix  # [v, k]
    rest: Floats  # [k]

    @property
    def is_known(self) -> NDArray[np.bool_]:
        """Which topics have a weight at all [k]."""
        return np.asarray(self.word_topic.sum(axis=0)).ravel() > 0


def given_topics(topic_word: sparse.csr_matrix) -> GivenTopics:
    """From weights [k, v]. A topic nothing is known of has a mean topic's weight, spread evenly over the words."""
    mass = np.asarray(topic_word.sum(axis=1), dtype=np.float64).ravel()
    is_known = mass > 0
    typical = mass[is_known].mean() if is_known.any() else 1.0
    rest = np.where(is_known, SMOOTHING, 1.0) * typical / topic_word.shape[1]
    word_topic = sparse.csr_matrix(topic_word.T, dtype=np.float64)
    word_topic.eliminate_zeros()
    return GivenTopics(word_topic, rest)


def draw_by_word(given: GivenTopics, words: Ints, uniforms: Floats) -> Ints:
    """A topic for every token: p(k | word) ∝ weight_kv + rest_k, the word's own part first, by inverting the cumulative
    mass of each part."""
    own, rest = given.word_topic, np.cumsum(given.rest)
    running = np.concatenate([[0.0], np.cumsum(own.data)])
    before, own_total = running[own.indptr[words]], np.diff(running[own.indptr])[words]
    target = uniforms * (own_total + rest[-1])
    # Sums are rounded, so both positions are kept from passing the end.
    entry = np.minimum(np.searchsorted(running, before + target, side="right"), own.indptr[words + 1]) - 1
    anywhere = np.minimum(np.searchsorted(rest, target - own_total, side="right"), len(rest) - 1)
    return np.asarray(np.where(target < own_total, np.append(own.indices, 0)[entry], anywhere))


def replace_known(word_topic: sparse.csr_matrix, given: GivenTopics) -> sparse.csr_matrix:
    """A random start's counts [v, k] with the given topics in the place of its own, as many tokens in all."""
    known, unknown = sparse.diags(1.0 * given.is_known), sparse.diags(1.0 * ~given.is_known)
    scale = (word_topic @ known).sum() / max(given.word_topic.sum(), np.finfo(float).tiny)
    return sparse.csr_matrix(word_topic @ unknown + scale * given.word_topic)


def deal_documents(n_documents: int, n_topics: int, seed: int) -> sparse.csr_matrix:
    """Documents dealt to topics at random like cards [k, d]; again from the start if there are too few."""
    order = random.permutation(n_documents, seed, random.SHUFFLE)
    card = np.arange(max(n_documents, n_topics))
    dealt = (np.ones(len(card)), (card % n_topics, order[card % n_documents]))
    return sparse.csr_matrix(dealt, shape=(n_topics, n_documents))
