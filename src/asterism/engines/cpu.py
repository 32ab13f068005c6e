"""The CPU engine: compiled kernels over blocks of documents, one block a thread at a time.

Blocks have a fixed size and every document's result is its own, so the number of threads changes nothing; sums
over documents are formed per fixed block of topics, always over the documents in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

from ..model import memoized, random, svi, words
from ..model.document import INFER_STEPS, INFER_TOL, PRIOR_IN_TOKENS
from ..model.joint import embedding_precision, posterior_cov
from ..model.lda import WordWeights
from ..model.memoized import Relaxation, Relaxed, Sums
from ..model.state import Batch, Documents, Floats, Ints, LocalSettings, Statistics, Topics, count_draws, draw_type
from ..model.walks import Side
from ..model.words import DrawTable
from . import _cpu_adagrad_kernels as adagrad_kernels
from . import _cpu_joint_kernels as joint_kernels
from . import _cpu_kernels as kernels
from . import _cpu_lda_kernels as lda_kernels
from . import _cpu_token_kernels as token_kernels
from ._cpu_joint_kernels import DOCUMENTS_A_BLOCK
from .memory import HostMemory, index_type

TOPICS_A_BLOCK = 512
# Topics whose vectors and weights, of the documents in work, stay in a core's cache.
MOST_IN_A_TILE = 512
# Documents whose topic weights are in memory at a time: as many as have so many weights, and at least so many.
MOST_WEIGHTS, FEWEST_AT_ONCE = 2**23, 512
# Documents are quick in LDA: fewer, larger pieces of work.
LDA_BLOCK = 256
WALKS_A_THREAD = 4  # pieces of work
# Of the type of most models' draws, so that the kernels are compiled once.
NO_DRAWS = np.empty(0, dtype=np.uint16)


class CpuTopics(NamedTuple):
    """Topics laid out for the kernels."""

    topics: Topics
    table: kernels.Table
    space: kernels.Space


class CpuEngine(HostMemory):
    """See `Engine`. `dtype` is the precision of a document's own variables; sums are float64."""

    name = "cpu"

    def __init__(self, settings: LocalSettings, n_threads: int, dtype: DTypeLike = np.float32) -> None:
        self.settings = settings
        self.n_threads = n_threads
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._blas = ThreadpoolController()

    def prepare(self, topics: Topics, whole: bool = False) -> CpuTopics:
        settings = self.settings
        topics_per_word = topics.n_topics if whole else settings.topics_per_word
        kept = kept_for_drawing(topics.word_topic, settings.words_per_topic, topics_per_word, self.dtype)
        table = words.draw_table(topics, kept, settings.collapsed)
        embedding = topics.embedding.astype(self.dtype)
        gain = (topics.priors.tau * topics.document_cov).astype(self.dtype)
        return CpuTopics(
            topics,
            self._table(table),
            kernels.Space(
                embedding,
                np.ascontiguousarray(embedding.T),
                in_tiles(embedding),
                topics.mean.astype(self.dtype),
                gain,
                embedding_precision(topics).astype(self.dtype),
                topics.embedding_scatter.astype(self.dtype),
                self.dtype.type(topics.priors.tau),
            ),
        )

    def _table(self, table: DrawTable) -> kernels.Table:
        return table_of(table, self.dtype)

    def statistics(self, prepared: CpuTopics, batch: Batch, seed: int, sweep: int) -> Statistics:
        topics = prepared.topics
        documents = self._empty_documents(topics, batch)
        draws = np.zeros(batch.token_offsets[-1], dtype=draw_type(topics.n_topics))
        sample = self._newton if self.settings.newton else self._adagrad
        n_steps = sample(prepared, batch, seed, sweep, draws, documents)
        gamma = documents.embedding.astype(np.float64)
        return Statistics(
            count_draws(np.repeat(batch.words, batch.counts), draws, topics.n_words, topics.n_topics),
            self._over_documents(documents.weights, topics.mean, gamma),
            gamma.T @ gamma,
            len(batch),
            n_steps,
        )

    def _adagrad(
        self, prepared: CpuTopics, batch: Batch, seed: int, sweep: int, draws: Ints, documents: Documents
    ) -> int:
        """document.sample_document; returns the rounds taken."""
        settings, steps = self.settings, np.zeros(len(batch), dtype=np.int64)
        rate = self.dtype.type(settings.rate)
        local = adagrad_kernels.Local(
            settings.topics_per_document, settings.n_samples, rate, settings.max_steps, settings.tol
        )
        streams, found = random.stream(seed, sweep, batch.documents), (draws, *documents.arrays(), steps)
        arguments = corpus_of(batch), prepared.table, prepared.space, local, streams, *found
        with self._one_blas_thread():
            self._over_blocks(len(batch), DOCUMENTS_A_BLOCK, adagrad_kernels.sample_documents, *arguments)
        return int(steps.sum())

    def _newton(
        self, prepared: CpuTopics, batch: Batch, seed: int, sweep: int, draws: Ints, documents: Documents
    ) -> int:
        """svi.newton_document; returns the rounds taken."""
        documents.embedding[:] = 0
        rounds = svi.newton_rounds(self.settings)
        for i, settings in enumerate(rounds):
            self._relax(prepared, batch, settings, draws, *documents.arrays(), *self._no_room())
            self._draw(prepared, batch, random.stream(seed, sweep, batch.documents, i), documents.weights, draws)
        return len(batch) * (len(rounds) - 1)

    def draw_lda(self, words: WordWeights, batch: Batch, draws: Ints, alpha: Floats, seed: int, sweep: int) -> Floats:
        weights, unit = words
        streams, logs = random.stream(seed, sweep, batch.documents), np.zeros(len(batch))
        of_words: tuple[Any, ...]
        of_topics = unit.astype(self.dtype), alpha.astype(self.dtype), float(alpha.sum())
        documents = corpus_of(batch), streams, draws, logs
        kernel: Callable[..., None]
        if isinstance(weights, DrawTable):
            kernel, of_words = lda_kernels.draw_lda_sparse, (self._table(weights), float(alpha @ weights.rest))
        else:
            kernel, of_words = lda_kernels.draw_lda_dense, (weights.astype(self.dtype, copy=False),)
        self._over_blocks(len(batch), LDA_BLOCK, kernel, *of_words, *of_topics, *documents)
        return logs

    def walk(self, side: Side, walks: Ints, inverse_total: Floats) -> Ints:
        bounds = self._pieces(side.starts)
        totals = np.zeros((len(bounds) - 1, len(side.prior)), dtype=np.int64)
        prior = side.prior.astype(self.dtype), float(side.prior.sum()), *side.choice
        of_side = side.starts, side.order, *prior, side.streams
        weights = inverse_total.astype(self.dtype)

        def piece(number: int, _: int) -> None:
            lda_kernels.walk_groups(bounds[number], bounds[number + 1], *of_side, weights, walks, totals[number])

        self._over_blocks(len(totals), 1, piece)
        return np.asarray(totals.sum(axis=0))

    def count(self, starts: Ints, order: Ints, topics: Ints, n_topics: int) -> sparse.csr_matrix:
        bounds = self._pieces(starts)
        indptr: Ints = np.zeros(len(starts), dtype=np.int64)
        found: Ints = np.empty((2, 0), dtype=np.int32)

        def piece(number: int, _: int) -> None:
            span = bounds[number], bounds[number + 1]
            lda_kernels.count_topics(*span, starts, order, topics, n_topics, indptr, found)

        self._over_blocks(len(bounds) - 1, 1, piece)
        indptr = np.cumsum(indptr)
        found = np.empty((2, indptr[-1]), dtype=np.int32)
        self._over_blocks(len(bounds) - 1, 1, piece)
        return sparse.csr_matrix((found[1].astype(np.int64), found[0], indptr), (len(starts) - 1, n_topics))

    def _in_word_order(self, words: Ints, n_words: int) -> tuple[Ints, Ints]:
        starts: Ints = np.zeros(n_words + 1, dtype=np.int64)
        order: Ints = np.empty(len(words), dtype=index_type(len(words)))
        lda_kernels.group_tokens(words, starts, order)
        return starts, order

    def _counted(self, words: Ints, draws: Ints, shape: tuple[int, int]) -> sparse.csr_matrix:
        return self.count(*self._in_word_order(words, shape[0]), draws, shape[1])

    def _multiply(self, matrix: sparse.csr_matrix, x: Floats) -> Floats:
        product = np.empty_like(x)
        self._over_blocks(
            len(x), TOPICS_A_BLOCK, kernels.multiply_rows, matrix.indptr, matrix.indices, matrix.data, x, product
        )
        return product

    def _pieces(self, starts: Ints) -> Ints:
        """Bounds of pieces of work: groups differ in size by orders of magnitude, but pieces should not."""
        places = np.linspace(0, starts[-1], WALKS_A_THREAD * self.n_threads + 1)
        firsts = np.unique(np.searchsorted(starts[1:], places[1:-1], side="right"))
        return np.concatenate([[0], firsts, [len(starts) - 1]])

    def redraw(
        self, prepared: CpuTopics, batch: Batch, draws: Ints, embedding: Floats, n_steps: int, seed: int, sweep: int
    ) -> None:
        topics, offsets = prepared.topics, batch.token_offsets[batch.indptr]
        settings = Relaxation(self.settings.topics_per_document, n_steps)
        for some in _few_at_a_time(batch, topics):
            part, drawn = batch[some], draws[offsets[some.start] : offsets[some.stop]]
            weights = np.empty((len(part), topics.n_topics), self.dtype)
            arrays = drawn, embedding[some], weights, *self._no_room()
            self._relax(prepared, part, settings, *arrays, in_tokens=PRIOR_IN_TOKENS)
            self._redraw(prepared, part, random.stream(seed, sweep, part.documents), weights, drawn)

    def relax(
        self, prepared: CpuTopics, batch: Batch, embedding: Floats, n_steps: int, sweep: int, is_counted: bool = True
    ) -> Relaxed:
        topics, sums = prepared.topics, memoized.new_sums(prepared.topics)
        # Expected counts add exactly, so each thread has counts of its own.
        expected: Ints = np.zeros((self.n_threads, len(prepared.table.topics)), np.int64)
        settings = Relaxation(self.settings.topics_per_document, n_steps, is_counted=is_counted)
        for some in _few_at_a_time(batch, topics):
            part, gammas = batch[some], embedding[some]
            weights, shrinkage = np.empty((2, len(part), topics.n_topics), self.dtype)
            covs = np.zeros((-(-len(part) // DOCUMENTS_A_BLOCK), topics.n_dims, topics.n_dims))
            self._relax(prepared, part, settings, NO_DRAWS, gammas, weights, shrinkage, covs)
            self._spread(prepared, part, settings, weights, shrinkage, expected)
            self._add(weights, gammas, shrinkage, covs.sum(axis=0), sums)
        with self._one_blas_thread():
            moments = memoized.couple(sums, topics)
        return Relaxed(moments, np.asarray(expected.sum(axis=0)))

    def _add(self, weights: Floats, embedding: Floats, shrinkage: Floats, cov_sum: Floats, sums: Sums) -> None:
        """memoized.add_document for all of them, a block of topics a thread at a time."""
        augmented = np.hstack([embedding.astype(np.float64), np.ones((len(embedding), 1))])

        def block(first: int, last: int) -> None:
            some, shrunk = weights[:, first:last].astype(np.float64), shrinkage[:, first:last]
            sums.weight_embedding[first:last] += some.T @ augmented
            sums.weight_square[first:last] += np.einsum("dk,dk->k", some, some)
            sums.shrinkage[0, first:last] += shrunk.sum(axis=0, dtype=np.float64)
            sums.shrinkage[1, first:last] += np.einsum("dk,dk->k", shrunk, shrunk, dtype=np.float64)

        with self._one_blas_thread():
            self._over_blocks(weights.shape[1], TOPICS_A_BLOCK, block)
            sums.embedding_outer[:] += augmented.T @ augmented
        sums.cov_sum[:] += cov_sum

    def _spread(
        self,
        prepared: CpuTopics,
        batch: Batch,
        settings: Relaxation,
        weights: Floats,
        shrinkage: Floats,
        expected: Ints,
    ) -> None:
        """Expected counts in whole units."""
        size = -(-len(batch) // self.n_threads)

        def chunk(first: int, last: int) -> None:
            token_kernels.spread_tokens(
                first,
                last,
                corpus_of(batch),
                prepared.table,
                prepared.space,
                weights,
                shrinkage,
                settings.n_top,
                settings.counted(prepared.topics),
                expected[first // size],
            )

        self._over_blocks(len(batch), size, chunk)

    def infer(self, prepared: CpuTopics, batch: Batch, with_cov: bool = False) -> Documents:
        documents = self._empty_documents(prepared.topics, batch)
        documents.embedding[:] = 0
        settings = Relaxation(self.settings.topics_per_document, INFER_STEPS, INFER_TOL, is_counted=False)
        no_shrinkage, no_covs = self._no_room()
        shrinkage = np.empty_like(documents.weights) if with_cov else no_shrinkage
        arrays = *documents.arrays(), shrinkage, no_covs
        self._relax(prepared, batch, settings, NO_DRAWS, *arrays, in_tokens=PRIOR_IN_TOKENS)
        return replace(documents, cov=self._covs(prepared.topics, 1 / shrinkage - 1)) if with_cov else documents

    def _covs(self, topics: Topics, omega: Floats) -> Floats:
        """joint.posterior_cov of each document: the solver's own H may be some steps old and lacks light topics."""
        result = np.empty((len(omega), topics.n_dims, topics.n_dims))

        def block(first: int, last: int) -> None:
            for d in range(first, last):
                result[d] = posterior_cov(omega[d].astype(np.float64), topics)

        with self._one_blas_thread():
            self._over_blocks(len(omega), DOCUMENTS_A_BLOCK, block)
        return result

    def _no_room(self) -> tuple[Floats, Floats]:
        """In place of shrinkages and covariances, where they are not asked for."""
        return np.empty((0, 0), self.dtype), np.empty((0, 0, 0))

    def _relax(
        self, prepared: CpuTopics, batch: Batch, settings: Relaxation, *arrays: Any, in_tokens: float = 0.0
    ) -> None:
        """The one call of the joint solver, for training and for infer: compiled once."""
        how = settings.n_top, settings.n_steps, settings.tol, settings.counted(prepared.topics), in_tokens
        arguments = corpus_of(batch), prepared.table, prepared.space, *how, *arrays
        with self._one_blas_thread():
            self._over_blocks(len(batch), DOCUMENTS_A_BLOCK, joint_kernels.relax_documents, *arguments)

    def _draw(self, prepared: CpuTopics, batch: Batch, streams: Any, weights: Floats, draws: Ints) -> None:
        """New topics for all tokens."""
        arguments = corpus_of(batch), prepared.table, self.settings.topics_per_document, streams, weights, draws
        self._over_blocks(len(batch), DOCUMENTS_A_BLOCK, token_kernels.draw_documents, *arguments)

    def _redraw(self, prepared: CpuTopics, batch: Batch, streams: Any, weights: Floats, draws: Ints) -> None:
        """The same, each given all others."""
        how = self.settings.topics_per_document, prepared.topics.priors.beta
        arguments = corpus_of(batch), prepared.table, *how, streams, weights, draws
        self._over_blocks(len(batch), DOCUMENTS_A_BLOCK, token_kernels.redraw_documents, *arguments)

    def log_likelihood(self, prepared: CpuTopics, weights: Floats, batch: Batch) -> Floats:
        topics, result = prepared.topics, np.zeros(len(batch))
        counted = topics.word_topic
        self._over_blocks(
            len(batch),
            DOCUMENTS_A_BLOCK,
            kernels.score_documents,
            corpus_of(batch),
            weights,
            kernels.Table(counted.indptr, counted.indices, counted.data, topics.topic_total),
            topics.topic_total,
            topics.priors.beta,
            result,
        )
        return result

    def _over_documents(self, weights: Floats, mean: Floats, embedding: Floats) -> Floats:
        """Σ_d (ξ_d - m) γ_d' [k, m]."""
        result = np.empty((weights.shape[1], embedding.shape[1]))

        def block(first: int, last: int) -> None:
            result[first:last] = (weights[:, first:last] - mean[first:last]).T @ embedding

        with self._one_blas_thread():
            self._over_blocks(len(result), TOPICS_A_BLOCK, block)
        return result

    def _one_blas_thread(self) -> Any:
        """Bits of a product can depend on how many threads share it: BLAS gets one, blocks run side by side."""
        return self._blas.limit(limits=1, user_api="blas")

    def _empty_documents(self, topics: Topics, batch: Batch) -> Documents:
        return Documents(
            np.empty((len(batch), topics.n_dims), self.dtype),
            np.empty((len(batch), topics.n_topics), self.dtype),
        )

    def _over_blocks(self, n: int, size: int, work: Callable[..., None], *arguments: Any) -> None:
        """work(first, last, *arguments) for every block of range(n), on all threads."""
        over_blocks(self.n_threads, n, size, work, *arguments)


def _few_at_a_time(batch: Batch, topics: Topics) -> Iterator[slice]:
    """Topic weights are kept of so many documents."""
    size = max(FEWEST_AT_ONCE, MOST_WEIGHTS // topics.n_topics)
    return (slice(first, min(first + size, len(batch))) for first in range(0, len(batch), size))


def over_blocks(n_threads: int, n: int, size: int, work: Callable[..., None], *arguments: Any) -> None:
    """work(first, last, *arguments) for every block of range(n), on all threads."""
    firsts = range(0, n, size)
    if n_threads == 1 or len(firsts) <= 1:
        for first in firsts:
            work(first, min(first + size, n), *arguments)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        for future in [pool.submit(work, first, min(first + size, n), *arguments) for first in firsts]:
            future.result()


def kept_for_drawing(
    word_topic: sparse.csr_matrix, words_per_topic: int, topics_per_word: int, dtype: DTypeLike
) -> NDArray[np.bool_]:
    """words.kept_for_drawing, without sorting."""
    if topics_per_word >= word_topic.shape[1]:
        return np.ones(word_topic.nnz, dtype=np.bool_)
    values = word_topic.data.astype(dtype)  # the type that the heap is compiled for already
    in_word = np.empty(word_topic.nnz, dtype=np.bool_)
    kernels.keep_largest_in_rows(word_topic.indptr, values, topics_per_word, in_word)
    positions = sparse.csr_matrix((np.arange(word_topic.nnz), word_topic.indices, word_topic.indptr))
    positions = positions.tocsc()
    in_topic = np.empty_like(in_word)
    by_topic = values[positions.data]
    kernels.keep_largest_in_rows(positions.indptr, by_topic, words_per_topic, in_topic)
    in_word[positions.data[in_topic]] = True
    return in_word


def in_tiles(embedding: Floats) -> Floats:
    """Topic vectors [k, m] in pieces [tile, m, i] of equal size; the last ones may be zeros."""
    n_topics, n_dims = embedding.shape
    n_tiles = -(-n_topics // MOST_IN_A_TILE)
    padded = np.zeros((n_tiles, -(-n_topics // n_tiles), n_dims), embedding.dtype)
    padded.reshape(-1, n_dims)[:n_topics] = embedding
    return np.ascontiguousarray(padded.transpose(0, 2, 1))


def corpus_of(batch: Batch) -> kernels.Corpus:
    return kernels.Corpus(batch.indptr, batch.words, batch.counts, batch.token_offsets)


def table_of(table: DrawTable, dtype: DTypeLike) -> kernels.Table:
    return kernels.Table(table.indptr, table.topics, table.weights.astype(dtype), table.rest.astype(dtype))
