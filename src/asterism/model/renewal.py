"""Topics that are worth their number, for the warm start: doubles are put together, and for each topic that this frees,
or that has no tokens, one of the largest is split.

Two topics with much the same words say the same twice. They come about where a large topic's documents happened to
settle on several numbers, which no single token's draw can mend; and the largest topics hold what more numbers could
tell apart. A topic is split by its words: those that occur in the same documents stay together, along the second
direction of correspondence analysis, smoothed so that words of a single document do not make up a direction.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from . import random
from .random import Streams
from .state import Floats, Ints, count_draws
from .words import ranks_in_rows

# Topics are compared by so many of their words, and are doubles where these overlap by more than SAME.
COMPARED_WORDS, SAME = 16, 0.5
TOPICS_AT_ONCE = 500
# Steps to the direction in which a topic's words differ most.
POWER_STEPS = 10


class Closest(NamedTuple):
    """For each topic the one most like it, and their overlap Σ_v √(φ_kv φ_lv) over the words compared."""

    topic: Ints
    overlap: Floats


def closest_topics(word_topic: sparse.csr_matrix) -> Closest:
    """From counts [v, k]."""
    pairs = sparse.csr_matrix(word_topic.T).tocoo()
    tokens = np.bincount(pairs.row, pairs.data, minlength=pairs.shape[0])
    compared = ranks_in_rows(pairs.row, pairs.col, pairs.data) < COMPARED_WORDS
    row, column = pairs.row[compared], pairs.col[compared]
    root = sparse.csr_matrix((np.sqrt(pairs.data[compared] / tokens[row]), (row, column)), shape=pairs.shape)
    by_word, n_topics = sparse.csr_matrix(root.T), len(tokens)
    topic, overlap = np.zeros(n_topics, dtype=np.int64), np.zeros(n_topics)
    for first in range(0, n_topics, TOPICS_AT_ONCE):
        some = slice(first, first + TOPICS_AT_ONCE)
        shared = sparse.csr_matrix(root[some] @ by_word)
        shared.data[shared.indices == first + np.repeat(np.arange(shared.shape[0]), np.diff(shared.indptr))] = 0
        topic[some] = np.asarray(shared.argmax(axis=1)).ravel()
        overlap[some] = shared.max(axis=1).toarray().ravel()
    return Closest(topic, overlap)


def merged(closest: Closest, tokens: Floats) -> Ints:
    """Which topic each becomes part of [k]: the smaller of two doubles of the larger, the most alike first. No topic
    has a part in two mergers at a time."""
    becomes, is_free = np.arange(len(tokens)), np.ones(len(tokens), dtype=np.bool_)
    for one in np.argsort(-closest.overlap, kind="stable"):
        other = closest.topic[one]
        if closest.overlap[one] <= SAME:
            break
        if is_free[one] and is_free[other]:
            less, more = sorted((one, other), key=lambda k: tokens[k])
            becomes[less] = more
            is_free[[less, more]] = False
    return becomes


class Renewal(NamedTuple):
    """What is to be done about a model's topics."""

    becomes: Ints  # what each becomes part of; most stay what they are [k]
    split: Ints  # topics of which half goes, the largest [i]
    into: Ints  # to these, which are free [i]

    @property
    def is_split(self) -> NDArray[np.bool_]:
        """[k]"""
        return np.isin(np.arange(len(self.becomes)), self.split)


def renewal(word_topic: sparse.csr_matrix) -> Renewal:
    """From counts [v, k]."""
    tokens = np.asarray(word_topic.sum(axis=0)).ravel()
    becomes = merged(closest_topics(word_topic), tokens)
    tokens = np.bincount(becomes, tokens, minlength=len(tokens))
    free = np.flatnonzero(tokens == 0)
    split = np.argsort(-tokens, kind="stable")[: min(len(free), len(tokens) - len(free))]
    return Renewal(becomes, split, free[: len(split)])


def split_topics(plan: Renewal, words: Ints, documents: Ints, draws: Ints, seed: int) -> Ints:
    """New draws of all tokens of topics that are split."""
    draws, place = draws.copy(), np.zeros(len(plan.becomes), dtype=np.int64)
    place[plan.split] = np.arange(len(plan.split))
    order = np.argsort(place[draws], kind="stable")
    starts = np.searchsorted(place[draws][order], np.arange(1, len(plan.split)))
    for k, into, its in zip(plan.split, plan.into, np.split(order, starts), strict=False):
        goes = split_words(words[its], documents[its], random.stream(seed, random.START, k))
        draws[its[goes]] = into
    return draws


def split_words(words: Ints, documents: Ints, stream: Streams) -> Ints:
    """Which of a topic's tokens are to go: about half of them, with all of their words."""
    own_words, word = np.unique(words, return_inverse=True)
    own_documents, document = np.unique(documents, return_inverse=True)
    counts = count_draws(document, word, len(own_documents), len(own_words)).astype(np.float64)
    of_word = np.asarray(counts.sum(axis=0)).ravel()
    of_document = np.asarray(counts.sum(axis=1)).ravel()
    weight = 1 / np.sqrt(of_word + of_word.mean())
    scaled = sparse.diags(1 / np.sqrt(of_document + of_document.mean())) @ counts @ sparse.diags(weight)
    directions = random.normals(stream[None], 2 * len(own_words)).reshape(-1, 2)
    for _ in range(POWER_STEPS):  # the first direction is how frequent words are
        directions = np.linalg.qr(scaled.T @ (scaled @ directions)).Q
    order = np.argsort(weight * directions[:, -1], kind="stable")
    goes = np.zeros(len(order), dtype=np.bool_)
    goes[order] = np.cumsum(of_word[order]) > of_word.sum() / 2
    goes[order[-1]], goes[order[0]] = True, False
    return np.flatnonzero(goes[word])
