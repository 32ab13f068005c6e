"""The CPU engine: compiled kernels over blocks of documents, one block a thread at a time.

Blocks have a fixed size and every document's result is its own, so the number of threads changes nothing; sums
over documents are formed per fixed block of topics, always over the documents in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

from ..model import random, words
from ..model.state import Batch, Documents, Floats, LocalSettings, Statistics, Topics, count_draws
from . import _cpu_kernels as kernels

DOCUMENTS_A_BLOCK = 16
TOPICS_A_BLOCK = 512


class CpuTopics(NamedTuple):
    """Topics laid out for the kernels."""

    topics: Topics
    table: kernels.Table
    space: kernels.Space


class CpuEngine:
    """See `Engine`. `dtype` is the precision of a document's own variables; sums are float64."""

    name = "cpu"

    def __init__(self, settings: LocalSettings, n_threads: int, dtype: DTypeLike = np.float32) -> None:
        self.settings = settings
        self.n_threads = n_threads
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._blas = ThreadpoolController()

    def prepare(self, topics: Topics) -> CpuTopics:
        table = words.draw_table(topics, self._kept_for_drawing(topics.word_topic))
        embedding = topics.embedding.astype(self.dtype)
        gain = (topics.priors.tau * topics.document_cov).astype(self.dtype)
        return CpuTopics(
            topics,
            kernels.Table(
                table.indptr, table.topics, table.weights.astype(self.dtype), table.rest.astype(self.dtype)
            ),
            kernels.Space(embedding, np.ascontiguousarray(embedding.T), gain, self.dtype.type(topics.priors.tau)),
        )

    def statistics(self, prepared: CpuTopics, batch: Batch, seed: int, sweep: int) -> Statistics:
        topics, settings = prepared.topics, self.settings
        documents = self._empty_documents(topics, batch)
        draws = np.empty(batch.token_offsets[-1], dtype=np.int32)
        steps = np.zeros(len(batch), dtype=np.int64)
        self._over_blocks(
            len(batch),
            DOCUMENTS_A_BLOCK,
            kernels.sample_documents,
            _corpus(batch),
            prepared.table,
            prepared.space,
            kernels.Local(
                settings.topics_per_document,
                settings.n_samples,
                self.dtype.type(settings.rate),
                settings.max_steps,
                settings.tol,
            ),
            random.stream(seed, sweep, batch.documents),
            draws,
            documents.embedding,
            documents.weights,
            steps,
        )
        gamma = documents.embedding.astype(np.float64)
        return Statistics(
            count_draws(np.repeat(batch.words, batch.counts), draws, topics.n_words, topics.n_topics),
            self._weight_embedding(documents.weights, gamma),
            gamma.T @ gamma,
            len(batch),
            int(steps.sum()),
        )

    def infer(self, prepared: CpuTopics, batch: Batch) -> Documents:
        documents = self._empty_documents(prepared.topics, batch)
        self._over_blocks(
            len(batch),
            DOCUMENTS_A_BLOCK,
            kernels.infer_documents,
            _corpus(batch),
            prepared.table,
            prepared.space,
            self.settings.topics_per_document,
            documents.embedding,
            documents.weights,
        )
        return documents

    def log_likelihood(self, prepared: CpuTopics, weights: Floats, batch: Batch) -> Floats:
        topics, result = prepared.topics, np.zeros(len(batch))
        counted = topics.word_topic
        self._over_blocks(
            len(batch),
            DOCUMENTS_A_BLOCK,
            kernels.score_documents,
            _corpus(batch),
            weights,
            kernels.Table(counted.indptr, counted.indices, counted.data, topics.topic_total),
            topics.topic_total,
            topics.priors.beta,
            result,
        )
        return result

    def _kept_for_drawing(self, word_topic: sparse.csr_matrix) -> NDArray[np.bool_]:
        """words.kept_for_drawing, without sorting."""
        in_word = np.empty(word_topic.nnz, dtype=np.bool_)
        kernels.keep_largest_in_rows(word_topic.indptr, word_topic.data, self.settings.topics_per_word, in_word)
        positions = sparse.csr_matrix((np.arange(word_topic.nnz), word_topic.indices, word_topic.indptr))
        positions = positions.tocsc()
        in_topic = np.empty_like(in_word)
        by_topic = word_topic.data[positions.data]
        kernels.keep_largest_in_rows(positions.indptr, by_topic, self.settings.words_per_topic, in_topic)
        in_word[positions.data[in_topic]] = True
        return in_word

    def _weight_embedding(self, weights: Floats, gamma: Floats) -> Floats:
        """Σ_d ξ_d γ_d' [k, m]."""
        result = np.empty((weights.shape[1], gamma.shape[1]))

        def block(first: int, last: int) -> None:
            result[first:last] = weights[:, first:last].astype(np.float64).T @ gamma

        # Bits of a product can depend on how many threads share it: BLAS gets one, blocks run side by side.
        with self._blas.limit(limits=1, user_api="blas"):
            self._over_blocks(len(result), TOPICS_A_BLOCK, block)
        return result

    def _empty_documents(self, topics: Topics, batch: Batch) -> Documents:
        return Documents(
            np.empty((len(batch), topics.n_dims), self.dtype),
            np.empty((len(batch), topics.n_topics), self.dtype),
        )

    def _over_blocks(self, n: int, size: int, work: Callable[..., None], *arguments: Any) -> None:
        """work(first, last, *arguments) for every block of range(n), on all threads."""
        firsts = range(0, n, size)
        if self.n_threads == 1 or len(firsts) <= 1:
            for first in firsts:
                work(first, min(first + size, n), *arguments)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            for future in [pool.submit(work, first, min(first + size, n), *arguments) for first in firsts]:
                future.result()


def _corpus(batch: Batch) -> kernels.Corpus:
    return kernels.Corpus(batch.indptr, batch.words, batch.counts, batch.token_offsets)
