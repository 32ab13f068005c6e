"""Two ways to sweep over the tokens with plain LDA; the warm start takes either.

`ExactDraws` draws each token from its full conditional: best a sweep, and fastest where topics are few. `Walks` moves
each token by a few proposals: a sweep improves less but its cost does not grow with the number of topics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from ..engines.base import Engine
from ..engines.memory import MOST_DENSE_TOPICS
from ..model import random, walks
from ..model.alias import AliasTable
from ..model.lda import WordWeights
from ..model.random import Streams
from ..model.state import Batch, Floats, Ints, Topics

# Exact draws bring counts up to date so often a sweep.
BATCHES_A_SWEEP = 2
# Sweeps have random numbers of their own.
SWEEP_KEY = 2**32
# Documents that walks are scored on.
MOST_SCORED = 2000
BY_DOCUMENT, BY_WORD, SCORE = range(3)


def lda_sampler(name: str, corpus: Batch, draws: Ints, topics: Topics, engine: Engine, seed: int) -> LdaSampler:
    """The sampler of this name; "auto" is the one that predicts as well first (docs/inference.md)."""
    walks_pay = topics.n_topics > MOST_DENSE_TOPICS
    kind = Walks if name == "alias" or (name == "auto" and walks_pay) else ExactDraws
    return kind(corpus, draws, topics, engine, seed)


class LdaSampler(Protocol):
    """LDA's state between sweeps."""

    topics: Topics  # counts of words in topics as of the last `gather`
    engine: Engine
    seed: int

    def sweep(self, sweep: int, alpha: Floats) -> Iterator[int]:
        """Every token once; yields numbers of documents done."""

    def gather(self) -> None:
        """Bring `topics` up to date."""

    def go_on_from(self, draws: Ints) -> None:
        """Have these draws instead."""

    def scores(self, alpha: Floats) -> list[float]:
        """Mean log-probability of a token given all others, one a sweep since they were last asked for; after
        `gather`."""

    def document_topic(self) -> sparse.csr_matrix:
        """Draws counted [d, k]."""

    @property
    def draws(self) -> Ints:
        """The tokens' topics."""


class ExactDraws:
    """Collapsed Gibbs sampling; counts of words are brought up to date twice a sweep."""

    def __init__(self, corpus: Batch, draws: Ints, topics: Topics, engine: Engine, seed: int) -> None:
        self.corpus, self._draws, self.topics, self.engine, self.seed = corpus, draws, topics, engine, seed
        self.starts, self.order = engine.tokens_by_document(corpus)
        self.dense = engine.dense_counts(topics.word_topic)
        self._scores: list[float] = []

    def go_on_from(self, draws: Ints) -> None:
        self._draws = draws
        word_topic = self.engine.count_words(self.corpus, draws, self.topics.n_topics)
        self.topics, self.dense = replace(self.topics, word_topic=word_topic), self.engine.dense_counts(word_topic)

    @property
    def draws(self) -> Ints:
        return self._draws

    def sweep(self, sweep: int, alpha: Floats) -> Iterator[int]:
        size, score = -(-len(self.corpus) // BATCHES_A_SWEEP), 0.0
        for first in range(0, len(self.corpus), size):
            last = min(first + size, len(self.corpus))
            score += self._draw(first, last, sweep, alpha)
            yield last - first
        self._scores.append(score / max(1, len(self.draws)))

    def scores(self, alpha: Floats) -> list[float]:
        scores, self._scores = self._scores, []
        return scores

    def gather(self) -> None:
        if self.dense is not None:
            self.topics = replace(self.topics, word_topic=_counted(self.dense))

    def document_topic(self) -> sparse.csr_matrix:
        return self.engine.count(self.starts, self.order, self.draws, self.topics.n_topics)

    def _draw(self, first: int, last: int, sweep: int, alpha: Floats) -> float:
        batch, draws = self.corpus[first:last], self.draws[self.starts[first] : self.starts[last]]
        old = self.engine.copy(draws)
        logs = self.engine.draw_lda(self._weights(), batch, draws, alpha, self.seed, SWEEP_KEY + sweep)
        if self.dense is not None:
            token_words = np.repeat(batch.words, batch.counts)
            changed = np.flatnonzero(draws != old)
            pair, flat = token_words[changed].astype(np.int64) * self.topics.n_topics, self.dense.reshape(-1)
            np.subtract.at(flat, pair + old[changed], 1)
            np.add.at(flat, pair + draws[changed], 1)
        else:
            word_topic = self.engine.exchange(self.topics.word_topic, batch, old, draws)
            self.topics = replace(self.topics, word_topic=word_topic)
        return float(logs.sum())

    def _weights(self) -> WordWeights:
        if self.dense is None:
            return self.engine.every_pair(self.topics)
        beta = self.topics.priors.beta
        unit = 1 / (self.dense.sum(axis=0) + beta * self.topics.n_words)
        return WordWeights((self.dense.astype(np.float32) + np.float32(beta)) * unit.astype(np.float32), unit)


class Walks:
    """Metropolis-Hastings walks: documents and words are visited in turn (model/walks.py)."""

    def __init__(self, corpus: Batch, draws: Ints, topics: Topics, engine: Engine, seed: int) -> None:
        self.corpus, self.topics, self.engine, self.seed = corpus, topics, engine, seed
        self.word_starts, self.by_word = engine.tokens_by_word(corpus)
        self.starts, self.by_document = engine.tokens_by_document(corpus)
        self.walks: Ints = engine.copies(draws, 1 + walks.PROPOSALS)
        self.topic_count: Ints = topics.topic_count.astype(np.int64)
        self._alpha: Floats = np.empty(0)
        self._alpha_table = AliasTable.even(0)
        self._unscored = 0

    def go_on_from(self, draws: Ints) -> None:
        self.walks = self.engine.copies(draws, 1 + walks.PROPOSALS)
        self.gather()
        self.topic_count = self.topics.topic_count.astype(np.int64)

    @property
    def draws(self) -> Ints:
        return self.engine.copy(self.walks[:, 0])

    def sweep(self, sweep: int, alpha: Floats) -> Iterator[int]:
        n_topics = self.topics.n_topics
        if alpha is not self._alpha:  # it changes once in many sweeps
            self._alpha, self._alpha_table = alpha, AliasTable.of(alpha)
        of_documents = self.starts, self.by_document, alpha, self._alpha_table
        self._visit(walks.Side(*of_documents, self._streams(self.corpus.documents, sweep, BY_DOCUMENT)))
        yield len(self.corpus) // 2
        beta = np.full(n_topics, self.topics.priors.beta), AliasTable.even(n_topics)
        of_words = self.word_starts, self.by_word, *beta
        self._visit(walks.Side(*of_words, self._streams(np.arange(self.corpus.n_words), sweep, BY_WORD)))
        yield len(self.corpus) - len(self.corpus) // 2
        self._unscored += 1

    def gather(self) -> None:
        counts = self.engine.count(self.word_starts, self.by_word, self.draws, self.topics.n_topics)
        self.topics = replace(self.topics, word_topic=counts.astype(np.float64))

    def scores(self, alpha: Floats) -> list[float]:
        """One look at some of the documents tells of all sweeps: the last ones, which are new to a stage. Those that
        earlier stages had are predicted the worse the less topics are about them alone."""
        some = self.corpus[max(0, len(self.corpus) - MOST_SCORED) :]
        n_tokens = int(some.token_offsets[-1])
        draws = self.engine.copy(self.walks[len(self.walks) - n_tokens :, 0])
        logs = self.engine.draw_lda(self.engine.every_pair(self.topics), some, draws, alpha, self.seed, SWEEP_KEY)
        n_sweeps, self._unscored = self._unscored, 0
        return [float(logs.sum() / max(1, n_tokens))] * n_sweeps

    def document_topic(self) -> sparse.csr_matrix:
        return self.engine.count(self.starts, self.by_document, self.draws, self.topics.n_topics)

    def _visit(self, side: walks.Side) -> None:
        total = self.topic_count + self.topics.priors.beta * self.topics.n_words
        self.topic_count = self.engine.walk(side, self.walks, 1 / total)

    def _streams(self, groups: Ints, sweep: int, side: int) -> Streams:
        return self.engine.streams(groups, self.seed, SWEEP_KEY + sweep, random.START, side)


def _counted(counts: Any) -> sparse.csr_matrix:
    """Counts as topics keep them."""
    counted = sparse.csr_matrix(counts, dtype=np.float64)
    counted.eliminate_zeros()
    return counted
