"""LDA on the CPU: compiled kernels over blocks of documents, and of words for their sums over documents."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy import special

from ..model import random, words
from ..model.dirichlet import DirichletSettings, DirichletStatistics, DirichletTopics
from ..model.state import Batch, Floats, Ints, count_draws, draw_type
from . import _cpu_dirichlet_kernels as kernels
from ._cpu_kernels import Table, score_documents
from .cpu import corpus_of, kept_for_drawing, over_blocks, table_of
from .dirichlet import Proportions

DOCUMENTS_A_BLOCK, WORDS_A_BLOCK = 32, 128


class CpuDirichletTopics(NamedTuple):
    topics: DirichletTopics
    table: Table | None  # where the topics are sparse
    scale: Floats  # 1 / exp(ψ(Σ_v λ_kv)) [k]


class CpuDirichletEngine:
    """See `TopicEngine`. `dtype` is the precision of a document's own variables and of their sums."""

    name = "cpu"

    def __init__(self, settings: DirichletSettings, n_threads: int, dtype: DTypeLike = np.float32) -> None:
        self.settings = settings
        self.n_threads = n_threads
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def hold(self, batch: Batch) -> Batch:
        return batch

    def prepare(self, topics: DirichletTopics) -> CpuDirichletTopics:
        scale = np.exp(-special.psi(topics.topic_total)).astype(self.dtype)
        if not topics.is_sparse:
            return CpuDirichletTopics(topics, None, scale)
        settings = self.settings
        kept = kept_for_drawing(topics.word_topic, settings.words_per_topic, settings.topics_per_word, self.dtype)
        return CpuDirichletTopics(topics, table_of(words.draw_table(topics, kept), self.dtype), scale)

    def statistics(self, prepared: CpuDirichletTopics, batch: Batch, seed: int, sweep: int) -> DirichletStatistics:
        if prepared.table is None:
            return self._expected(prepared, batch)
        topics, settings, steps = prepared.topics, self.settings, np.zeros(len(batch), dtype=np.int64)
        draws = np.zeros(batch.token_offsets[-1], dtype=draw_type(topics.n_topics))
        how = topics.priors.alpha, settings.topics_per_document, settings.max_steps, settings.tol
        streams = random.stream(seed, sweep, batch.documents)
        self._over(batch, kernels.draw_documents, prepared.table, *how, streams, draws, steps)
        counted = count_draws(np.repeat(batch.words, batch.counts), draws, topics.n_words, topics.n_topics)
        return DirichletStatistics(counted, np.unique(batch.words), int(steps.sum()))

    def infer(self, prepared: CpuDirichletTopics, batch: Batch) -> Proportions:
        if prepared.table is None:
            present, rows = np.unique(batch.words, return_inverse=True)
            return Proportions(self._expect(prepared, batch, self._weights(prepared, present), rows)[0])
        settings, alpha = self.settings, self.dtype.type(prepared.topics.priors.alpha)
        gammas = np.empty((len(batch), prepared.topics.n_topics), self.dtype)
        how = alpha, settings.topics_per_document, settings.max_steps, settings.tol
        self._over(batch, kernels.expect_among_candidates, prepared.table, *how, gammas)
        return Proportions(gammas)

    def log_likelihood(self, prepared: CpuDirichletTopics, weights: Floats, batch: Batch) -> Floats:
        topics, result = prepared.topics, np.zeros(len(batch))
        if topics.is_sparse:
            counted: Any = topics.word_topic
            table = Table(counted.indptr, counted.indices, counted.data, topics.topic_total)
            self._over(batch, score_documents, weights, table, topics.topic_total, topics.priors.beta, result)
            return result
        shares = special.softmax(weights.astype(np.float64), axis=1) / topics.topic_total
        for d in range(len(batch)):
            entries = slice(batch.indptr[d], batch.indptr[d + 1])
            predictive = topics.word_topic[batch.words[entries]] @ shares[d] + topics.priors.beta * shares[d].sum()
            result[d] = batch.counts[entries] @ np.log(predictive)
        return result

    def _expected(self, prepared: CpuDirichletTopics, batch: Batch) -> DirichletStatistics:
        """Expected counts of the batch's words."""
        present, rows = np.unique(batch.words, return_inverse=True)
        total = self._weights(prepared, present)
        _, thetas, shares, steps = self._expect(prepared, batch, total, rows)
        entries = np.argsort(rows, kind="stable")  # of each word, in the order of documents
        starts = np.searchsorted(rows[entries], np.arange(len(present) + 1))
        documents = np.repeat(np.arange(len(batch)), np.diff(batch.indptr))
        arguments = starts, entries, documents, shares, thetas, total
        over_blocks(self.n_threads, len(present), WORDS_A_BLOCK, kernels.expect_words, *arguments)
        return DirichletStatistics(total, present, int(steps.sum()))

    def _weights(self, prepared: CpuDirichletTopics, present: Ints) -> Floats:
        """dirichlet.word_weights."""
        topics, weights = prepared.topics, np.empty((len(present), prepared.topics.n_topics), self.dtype)
        arguments = topics.word_topic, present, self.dtype.type(topics.priors.beta), prepared.scale, weights
        over_blocks(self.n_threads, len(present), WORDS_A_BLOCK, kernels.weigh_words, *arguments)
        return weights

    def _expect(
        self, prepared: CpuDirichletTopics, batch: Batch, weights: Floats, rows: Ints
    ) -> tuple[Floats, Floats, Floats, Ints]:
        """γ and θ of documents [d, k], what each entry has of its word's mass, and the rounds taken."""
        gammas, thetas = np.empty((2, len(batch), prepared.topics.n_topics), self.dtype)
        shares, steps = np.empty(len(batch.words), self.dtype), np.zeros(len(batch), dtype=np.int64)
        how = self.dtype.type(prepared.topics.priors.alpha), self.settings.max_steps, self.settings.tol
        self._over(batch, kernels.expect_documents, weights, rows, *how, gammas, thetas, shares, steps)
        return gammas, thetas, shares, steps

    def _over(self, batch: Batch, kernel: Any, *arguments: Any) -> None:
        """kernel(first, last, corpus, *arguments) over all documents."""
        over_blocks(self.n_threads, len(batch), DOCUMENTS_A_BLOCK, kernel, corpus_of(batch), *arguments)
