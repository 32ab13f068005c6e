"""The reference engine: the maths of `model/`, document by document, in float64. Slow, and right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..model import memoized, random, svi, words
from ..model.candidates import Neighbourhood, neighbourhood, take_turns
from ..model.document import infer_document, sample_document
from ..model.joint import posterior_cov
from ..model.lda import WordWeights, draw_document
from ..model.state import Batch, Documents, Floats, Ints, LocalSettings, Statistics, Topics, count_draws
from ..model.walks import Side, visit
from .memory import HostMemory


class ReferenceTopics(NamedTuple):
    topics: Topics
    table: words.DrawTable
    near: Neighbourhood | None = None  # where documents have candidates


class ReferenceEngine(HostMemory):
    """See `Engine`."""

    name = "reference"

    def __init__(self, settings: LocalSettings) -> None:
        self.settings = settings

    def prepare(self, topics: Topics, whole: bool = False) -> ReferenceTopics:
        topics_per_word = topics.n_topics if whole else self.settings.topics_per_word
        kept = words.kept_for_drawing(topics.word_topic, self.settings.words_per_topic, topics_per_word)
        table, n_candidates = words.draw_table(topics, kept, self.settings.collapsed), self.settings.candidates
        near = neighbourhood(topics, n_candidates) if 0 < n_candidates < topics.n_topics else None
        return ReferenceTopics(topics, table, near)

    def statistics(self, prepared: ReferenceTopics, batch: Batch, seed: int, sweep: int) -> Statistics:
        topics, table, _ = prepared
        sample = svi.newton_document if self.settings.newton else sample_document
        draws, embeddings, weights, steps = [], [], [], 0
        for d, document in enumerate(batch.documents):
            entries = slice(batch.indptr[d], batch.indptr[d + 1])
            key = (seed, sweep, int(document))
            drawn, embedding, weight, taken = sample(
                topics, table, batch.words[entries], batch.counts[entries], key, self.settings
            )
            draws.append(drawn)
            embeddings.append(embedding)
            weights.append(weight)
            steps += taken
        token_words = np.repeat(batch.words, batch.counts)
        gamma, xi = np.array(embeddings), np.array(weights)
        counts = count_draws(token_words, np.concatenate(draws), topics.n_words, topics.n_topics)
        return Statistics(counts, (xi - topics.mean).T @ gamma, gamma.T @ gamma, len(batch), steps)

    def draw_lda(self, words: WordWeights, batch: Batch, draws: Ints, alpha: Floats, seed: int, sweep: int) -> Floats:
        logs = np.zeros(len(batch))
        for d, words_of, counts, tokens in _each(batch):
            stream = random.stream(seed, sweep, int(batch.documents[d]), random.DRAWS, 0)
            uniforms = random.uniforms(stream, np.arange(tokens.stop - tokens.start))
            draws[tokens], logs[d] = draw_document(words, words_of, counts, draws[tokens], alpha, uniforms)
        return logs

    def walk(self, side: Side, walks: Ints, inverse_total: Floats) -> Ints:
        for group, stream in enumerate(side.streams):
            tokens = side.order[side.starts[group] : side.starts[group + 1]]
            walks[tokens] = visit(walks[tokens], side.prior, side.choice, inverse_total, stream)
        return np.bincount(walks[:, 0], minlength=len(side.prior))

    def count(self, starts: Ints, order: Ints, topics: Ints, n_topics: int) -> sparse.csr_matrix:
        group = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        return count_draws(group, topics[order], len(starts) - 1, n_topics)

    def redraw(
        self,
        prepared: ReferenceTopics,
        batch: Batch,
        draws: Ints,
        embedding: Floats,
        n_steps: int,
        seed: int,
        sweep: int,
    ) -> None:
        topics, table, near = prepared
        settings = memoized.Relaxation(self.settings.topics_per_document, n_steps)
        for d, words_of, counts, tokens in _each(batch):
            if len(words_of):
                last = words_of, counts, draws[tokens], embedding[d], (seed, sweep, int(batch.documents[d])), settings
                if near is None:
                    draws[tokens], embedding[d] = memoized.redraw_document(topics, table, *last)
                else:
                    draws[tokens], embedding[d] = memoized.redraw_among_candidates(topics, table, near, *last)

    def relax(
        self,
        prepared: ReferenceTopics,
        batch: Batch,
        embedding: Floats,
        n_steps: int,
        sweep: int,
        is_counted: bool = True,
    ) -> memoized.Relaxed:
        topics, table, near = prepared
        settings = memoized.Relaxation(self.settings.topics_per_document, n_steps, is_counted=is_counted)
        if near is not None:
            return self._relax_among_candidates(topics, table, near, batch, embedding, settings, sweep)
        tokens_leave = topics.priors.tau, settings.counted(topics)
        sums, expected = memoized.new_sums(topics), np.zeros(len(table.topics), dtype=np.int64)
        for d, words_of, counts, _ in _each(batch):
            solution = memoized.relax_document(topics, table, words_of, counts, None, embedding[d], settings)
            embedding[d] = solution.embedding
            memoized.add_document(solution, sums)
            memoized.expected_word_topic(table, words_of, counts, solution, *tokens_leave, expected)
        return memoized.Relaxed(memoized.couple(sums, topics), expected)

    def _relax_among_candidates(
        self,
        topics: Topics,
        table: words.DrawTable,
        near: Neighbourhood,
        batch: Batch,
        embedding: Floats,
        settings: memoized.Relaxation,
        sweep: int,
    ) -> memoized.Relaxed:
        sums, expected = memoized.new_residual_sums(topics), np.zeros(len(table.topics), dtype=np.int64)
        tokens_leave = topics.priors.tau, settings.counted(topics)
        speaks, (weights, shrinkage) = take_turns(len(batch), sweep), np.empty((2, topics.n_topics))
        for d, words_of, counts, _ in _each(batch):
            document = words_of, counts, None, embedding[d]
            solution, narrow = memoized.relax_among_candidates(topics, table, near, *document, settings)
            embedding[d] = solution.embedding
            memoized.add_candidates(narrow, solution, sums)
            if speaks[d] and len(words_of):
                times = len(batch) / speaks.sum()
                memoized.add_others(topics, narrow, solution, int(counts.sum()), times, sums)
            weights[:], shrinkage[:] = -np.inf, 1
            weights[narrow.chosen], shrinkage[narrow.chosen] = solution.weights, solution.shrinkage
            whole = solution._replace(weights=weights, shrinkage=shrinkage)
            memoized.expected_word_topic(table, words_of, counts, whole, *tokens_leave, expected)
        moments = memoized.couple(memoized.whole_sums(sums, topics), topics)
        return memoized.Relaxed(moments, expected)

    def infer(self, prepared: ReferenceTopics, batch: Batch, with_cov: bool = False) -> Documents:
        (topics, table, near), n_top = prepared, self.settings.topics_per_document
        embedding = np.zeros((len(batch), topics.n_dims))
        weights, omega = np.zeros((2, len(batch), topics.n_topics))
        for d in range(len(batch)):
            entries = slice(batch.indptr[d], batch.indptr[d + 1])
            document = batch.words[entries], batch.counts[entries]
            if near is None:
                embedding[d], weights[d], omega[d] = infer_document(topics, table, *document, n_top)
            else:
                found = memoized.infer_among_candidates(topics, table, near, *document, n_top)
                embedding[d], weights[d], omega[d] = found
        if not with_cov:
            return Documents(embedding, weights)
        return Documents(embedding, weights, np.array([posterior_cov(of_document, topics) for of_document in omega]))

    def log_likelihood(self, prepared: ReferenceTopics, weights: Floats, batch: Batch) -> Floats:
        result = np.zeros(len(batch))
        for d in range(len(batch)):
            entries = slice(batch.indptr[d], batch.indptr[d + 1])
            result[d] = words.log_likelihood(prepared.topics, weights[d], batch.words[entries], batch.counts[entries])
        return result


def _each(batch: Batch) -> Iterator[tuple[int, Ints, Ints, slice]]:
    """Every document's number in the batch, its words and their counts, and where its tokens are."""
    for d in range(len(batch)):
        entries = slice(batch.indptr[d], batch.indptr[d + 1])
        tokens = slice(batch.token_offsets[entries.start], batch.token_offsets[entries.stop])
        yield d, batch.words[entries], batch.counts[entries], tokens
