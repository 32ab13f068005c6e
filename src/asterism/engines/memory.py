"""What a learner remembers of documents and tokens, kept by the engine: here in NumPy arrays and scipy matrices.

The learner only passes these things around, slices them, and adds counts up. So an engine whose numbers live elsewhere
keeps them there (`_gpu_memory.py`), and nothing of the corpus' size travels in a sweep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..model import lda, random, words
from ..model.cooccurrence import embed_topics
from ..model.lda import WordWeights
from ..model.memoized import COUNT_UNIT, Expansion
from ..model.random import Streams
from ..model.renewal import renewal, split_topics
from ..model.start import GivenTopics, draw_by_word, given_topics
from ..model.state import Batch, Floats, Ints, Priors, Topics, count_draws, draw_type

# Up to so many topics a token of LDA looks at all of them, in a table of words x topics; beyond, at its word's own.
MOST_DENSE_TOPICS, MOST_DENSE_PAIRS = 256, 2**24
# Every pair of word and topic is listed up to this number of them.
MOST_PAIRS = 2**23


class HostMemory:
    """See `Memory`."""

    # --- documents and their embeddings -----------------------------------------------------------------------------

    def hold(self, batch: Batch) -> Batch:
        return batch

    def corpus(self, counts: sparse.csr_matrix, order: Ints) -> Batch:
        return Batch.of(counts, order)

    def no_embeddings(self, n_documents: int, n_dims: int) -> Floats:
        return np.zeros((n_documents, n_dims), dtype=np.float32)

    def move(self, embedding: Floats, expansion: Expansion) -> None:
        embedding[:] = expansion(embedding)

    # --- tokens -----------------------------------------------------------------------------------------------------

    def first_draws(self, batch: Batch, n_topics: int, given: GivenTopics | None, seed: int, trial: int) -> Ints:
        streams = random.stream(seed, random.START, batch.documents, trial)
        ends = np.cumsum(batch.lengths)
        token = np.arange(ends[-1]) - np.repeat(ends - batch.lengths, batch.lengths)  # of its document
        uniforms = random.uniforms(np.repeat(streams, batch.lengths), token)
        draws = uniforms * n_topics if given is None else draw_by_word(given, _token_words(batch), uniforms)
        return draws.astype(draw_type(n_topics))

    def joined(self, arrays: Sequence[Ints]) -> Ints:
        return np.concatenate(arrays)

    def copy(self, array: Ints) -> Ints:
        return np.array(array, order="C")

    def copies(self, draws: Ints, n: int) -> Ints:
        return np.repeat(draws[:, None], n, axis=1)

    def tokens_by_document(self, batch: Batch) -> tuple[Ints, Ints]:
        n = int(batch.token_offsets[-1])
        return batch.document_offsets, np.arange(n, dtype=index_type(n))

    def tokens_by_word(self, batch: Batch) -> tuple[Ints, Ints]:
        return self._in_word_order(_token_words(batch), batch.n_words)

    def _in_word_order(self, words: Ints, n_words: int) -> tuple[Ints, Ints]:
        """Where each word's tokens begin in the order of words, and that order."""
        order = np.argsort(words, kind="stable").astype(index_type(len(words)))
        return np.concatenate([[0], np.cumsum(np.bincount(words, minlength=n_words))]), order

    def streams(self, groups: Ints, *key: int) -> Streams:
        return random.stream(*key, groups)

    # --- counts of words in topics ----------------------------------------------------------------------------------

    def count_words(self, batch: Batch, draws: Ints, n_topics: int) -> sparse.csr_matrix:
        return self._counted(_token_words(batch), draws, (batch.n_words, n_topics)).astype(np.float64)

    def exchange(self, word_topic: sparse.csr_matrix, batch: Batch, old: Ints, new: Ints) -> sparse.csr_matrix:
        changed = np.flatnonzero(old != new)
        token_words = _token_words(batch)[changed]
        taken, put = (self._counted(token_words, draws[changed], word_topic.shape) for draws in (old, new))
        word_topic = sparse.csr_matrix(word_topic + put - taken)
        word_topic.eliminate_zeros()
        return word_topic

    def renewed(self, batch: Batch, draws: Ints, word_topic: sparse.csr_matrix, seed: int) -> Ints:
        plan = renewal(word_topic)
        draws = plan.becomes.astype(draws.dtype)[draws]
        some = np.flatnonzero(plan.is_split[draws])
        documents = np.searchsorted(batch.document_offsets[1:], some, side="right")
        draws[some] = split_topics(plan, _token_words(batch)[some], documents, draws[some], seed)
        return draws

    def _counted(self, words: Ints, draws: Ints, shape: tuple[int, int]) -> sparse.csr_matrix:
        return count_draws(words, draws, *shape)

    def dense_counts(self, word_topic: sparse.csr_matrix) -> Ints | None:
        n_words, n_topics = word_topic.shape
        is_dense = n_topics <= MOST_DENSE_TOPICS and n_topics * n_words <= MOST_DENSE_PAIRS
        return word_topic.toarray().astype(np.int64) if is_dense else None

    def every_pair(self, topics: Topics) -> WordWeights:
        table = words.draw_table(topics, np.ones(topics.word_topic.nnz, dtype=np.bool_), collapsed=True)
        return WordWeights(table, 1 / topics.topic_total)

    def given(self, word_topic: sparse.csr_matrix) -> GivenTopics:
        return given_topics(sparse.csr_matrix(word_topic.T))

    def in_tokens(self, word_topic: sparse.csr_matrix, expected: Ints) -> sparse.csr_matrix:
        word_topic = word_topic.copy()
        word_topic.data = expected / COUNT_UNIT
        return word_topic

    def with_every_pair(self, word_topic: sparse.csr_matrix) -> sparse.csr_matrix:
        n_words, n_topics = word_topic.shape
        if n_words * n_topics > MOST_PAIRS:
            return word_topic
        columns = np.tile(np.arange(n_topics, dtype=np.int32), n_words)
        indptr = np.arange(0, n_words * n_topics + 1, n_topics)
        return sparse.csr_matrix((word_topic.toarray().ravel(), columns, indptr), word_topic.shape)

    # --- what follows from counts -----------------------------------------------------------------------------------

    def optimal_alpha(self, document_topic: sparse.csr_matrix, alpha: Floats) -> Floats:
        return lda.optimal_alpha(document_topic, alpha)

    def optimal_concentration(self, topics: Topics) -> float:
        return words.optimal_concentration(topics)

    def embed_topics(
        self, document_topic: sparse.csr_matrix, n_dims: int, priors: Priors, seed: int
    ) -> tuple[Floats, Floats]:
        return embed_topics(document_topic, n_dims, priors, seed, multiply=self._multiply)

    def _multiply(self, matrix: sparse.csr_matrix, x: Floats) -> Floats:
        return np.asarray(matrix @ x)

    def fetch(self, topics: Topics) -> Topics:
        return topics


def _token_words(batch: Batch) -> Ints:
    return np.repeat(batch.words, batch.counts)


def index_type(n: int) -> type[np.signedinteger[Any]]:
    return np.int32 if n < 2**31 else np.int64
