"""LDA's documents under fixed topics: the reference engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..model import dirichlet, words
from ..model.dirichlet import DirichletSettings, DirichletStatistics, DirichletTopics
from ..model.state import Batch, Floats, Ints, count_draws
from ..model.words import DrawTable


class Proportions(NamedTuple):
    """What is inferred of documents: q(θ_d) = Dir(γ_d)."""

    concentration: Floats  # γ [d, k]

    @property
    def weights(self) -> Floats:
        """Weights whose softmax is E[θ_d] [d, k]."""
        return np.asarray(np.log(self.concentration))


class ReferenceTopics(NamedTuple):
    topics: DirichletTopics
    table: DrawTable | None  # where the topics are sparse


class ReferenceDirichletEngine:
    """See `TopicEngine`: the maths of `model/`, document by document, in float64."""

    name = "reference"

    def __init__(self, settings: DirichletSettings) -> None:
        self.settings = settings

    def hold(self, batch: Batch) -> Batch:
        return batch

    def prepare(self, topics: DirichletTopics) -> ReferenceTopics:
        if not topics.is_sparse:
            return ReferenceTopics(topics, None)
        kept = words.kept_for_drawing(topics.word_topic, self.settings.words_per_topic, self.settings.topics_per_word)
        return ReferenceTopics(topics, words.draw_table(topics, kept))

    def statistics(self, prepared: ReferenceTopics, batch: Batch, seed: int, sweep: int) -> DirichletStatistics:
        topics, table = prepared
        if table is None:
            return self._expected(topics, batch)
        draws: list[Ints] = [np.empty(0, dtype=np.int32)]
        n_steps = 0
        for d, words_of, counts in _each(batch):
            key = (seed, sweep, int(batch.documents[d]))
            drawn, steps = dirichlet.draw_document(table, words_of, counts, key, topics.priors.alpha, self.settings)
            draws.append(drawn)
            n_steps += steps
        token_words = np.repeat(batch.words, batch.counts)
        counted = count_draws(token_words, np.concatenate(draws), topics.n_words, topics.n_topics)
        return DirichletStatistics(counted, np.unique(batch.words), n_steps)

    def _expected(self, topics: DirichletTopics, batch: Batch) -> DirichletStatistics:
        present, rows = np.unique(batch.words, return_inverse=True)
        weights, n_steps = dirichlet.word_weights(topics, present), 0
        total = np.zeros_like(weights)
        for d, _, counts in _each(batch):
            row = rows[batch.indptr[d] : batch.indptr[d + 1]]
            gamma, steps = dirichlet.expect_document(weights[row], counts, topics.priors.alpha, self.settings)
            total[row] += dirichlet.expected_topics(weights[row], counts, gamma)
            n_steps += steps
        return DirichletStatistics(total, present, n_steps)

    def infer(self, prepared: ReferenceTopics, batch: Batch) -> Proportions:
        (topics, table), settings = prepared, self.settings
        gammas = np.empty((len(batch), topics.n_topics))
        for d, words_of, counts in _each(batch):
            if table is None:
                weights = dirichlet.word_weights(topics, words_of)
                gammas[d], _ = dirichlet.expect_document(weights, counts, topics.priors.alpha, settings)
            else:
                alpha = topics.priors.alpha
                gammas[d], _ = dirichlet.expect_among_candidates(table, words_of, counts, alpha, settings)
        return Proportions(gammas)

    def log_likelihood(self, prepared: ReferenceTopics, weights: Floats, batch: Batch) -> Floats:
        result = np.zeros(len(batch))
        for d, words_of, counts in _each(batch):
            result[d] = words.log_likelihood(prepared.topics, weights[d], words_of, counts)
        return result


def _each(batch: Batch) -> Iterator[tuple[int, Ints, Ints]]:
    """Every document's number in the batch, its words and their counts."""
    for d in range(len(batch)):
        entries = slice(batch.indptr[d], batch.indptr[d + 1])
        yield d, batch.words[entries], batch.counts[entries]
