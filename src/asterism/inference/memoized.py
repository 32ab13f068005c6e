"""Memoized inference in three phases: plain LDA finds topics, draws let them correlate, expectations refine both.

The phases hold the same model ever more exactly. LDA sweeps are cheap and settle which words belong together, and how
its topics occur together tells their embeddings. Sweeps of draws take up what a document's topics are correlated with,
with exact corpus-wide counts. Soft sweeps replace draws by expected counts, which takes the sampling noise out of the
topics, and learn the embeddings from documents (docs/inference.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..engines.base import Engine
from ..model import memoized, random
from ..model.start import GivenTopics
from ..model.state import Batch, Floats, Ints, Priors, Topics, draw_type
from .lda_samplers import lda_sampler
from .warm_start import STAGE_SWEEPS, WarmStart, best_start, n_trials, stages

# A batch costs a table of the topics, so there are few a sweep.
BATCHES_A_SWEEP = 4
# One in so many sweeps with draws passes before counts are averaged.
BURN_IN = 4


@dataclass(frozen=True)
class MemoizedSettings:
    batch_size: int
    warm_sweeps: int  # of plain LDA, before the first sweep that counts
    draw_sweeps: int  # with draws, before expectations take over
    sampler: str  # of the warm start, see lda_samplers
    learned: frozenset[str] = frozenset()  # of the priors alpha, tau and beta
    goes_on: bool = False  # from topics that are there, rather than from a start of its own


class MemoizedLearner:
    """Remembers every token's last draw and every document's last embedding."""

    def __init__(
        self,
        counts: sparse.csr_matrix,
        topics: Topics,
        engine: Engine,
        settings: MemoizedSettings,
        seed: int,
        given: GivenTopics | None = None,
    ) -> None:
        self.engine, self.settings, self.seed, self.given = engine, settings, seed, given
        # Once shuffled, batches are slices, and so are what is remembered of them.
        order = random.permutation(counts.shape[0], seed, random.SHUFFLE)
        self.corpus = engine.corpus(counts, order)
        self.batch_size = max(settings.batch_size, -(-len(self.corpus) // BATCHES_A_SWEEP))
        self.draws: Ints = np.empty(0, dtype=draw_type(topics.n_topics))
        self.averaged: sparse.csr_matrix | None = None
        self.n_batches = 0
        self.embedding: Floats = engine.no_embeddings(len(self.corpus), topics.n_dims)
        # U is a point estimate here, whoever learned these topics.
        self.topics = replace(topics, embedding_cov=np.zeros_like(topics.embedding_cov))

    def warm_up(self) -> Iterator[int]:
        """LDA sweeps, then embeddings from what was drawn; or embeddings under the topics that are there."""
        if self.settings.goes_on:
            yield from self._infer_embeddings()
            return
        # One random start can be better than another; a given one is what it is.
        n_topics, most = self.topics.n_topics, self.settings.warm_sweeps
        trials = n_trials(self.corpus, n_topics) if self.given is None and most else 1
        sizes = stages(self.corpus, n_topics) if most else [len(self.corpus)]
        starts = (self.start(sizes[0], trial) for trial in range(trials))
        best = yield from best_start(starts, most if len(sizes) == 1 else min(most, STAGE_SWEEPS))
        for size in sizes[1:]:
            best = self._next_stage(best, size)
            yield from best.sweeps(most if size == len(self.corpus) else min(most, STAGE_SWEEPS))
        self.draws, self.topics = best.draws, best.topics
        self._embed_topics()

    def _embed_topics(self) -> None:
        """By how topics occur together in documents now."""
        counted = self.engine.count(*self.engine.tokens_by_document(self.corpus), self.draws, self.topics.n_topics)
        how = self.topics.n_dims, self.topics.priors, self.seed
        embedding, mean = self.engine.embed_topics(counted, *how)
        self.topics = replace(self.topics, embedding=embedding, mean=mean)

    def _infer_embeddings(self) -> Iterator[int]:
        self.topics = replace(self.topics, word_topic=self.engine.with_every_pair(self.topics.word_topic))
        prepared = self.engine.prepare(self.topics)
        for first, last, batch in self._batches():
            self.embedding[first:last] = self.engine.infer(prepared, batch).embedding
            yield len(batch)

    def start(self, size: int, trial: int = 0) -> WarmStart:
        """LDA of the first so many documents, before its first sweep."""
        return self._swept_from(self._first_draws(0, size, self.given, trial), size)

    def _next_stage(self, before: WarmStart, size: int) -> WarmStart:
        """More documents: those that are new begin with what the topics say of their words."""
        given = self.engine.given(before.topics.word_topic)
        new = self._first_draws(len(before.corpus), size, given, trial=0)
        return self._swept_from(self.engine.joined([before.draws, new]), size, before)

    def _swept_from(self, draws: Ints, size: int, before: WarmStart | None = None) -> WarmStart:
        corpus, n_topics = self.corpus[:size], self.topics.n_topics
        topics = self.topics if before is None else before.topics  # for what is learned of the priors
        topics = replace(topics, word_topic=self.engine.count_words(corpus, draws, n_topics))
        sampler = lda_sampler(self.settings.sampler, corpus, draws, topics, self.engine, self.seed)
        return WarmStart(corpus, sampler, "beta" in self.settings.learned, before)

    def sweep(self, sweep: int) -> Iterator[int]:
        if sweep < self._draw_sweeps:
            yield from self._draw_sweep(sweep)
        else:
            if sweep == self._draw_sweeps and not self.settings.goes_on:
                self._begin_softly()
            yield from self._soft_sweep(sweep)
        self.n_batches += -(-len(self.corpus) // self.batch_size)
        self._learn_beta()

    def is_done(self, sweep: int, has_settled: bool) -> bool:
        """Only soft sweeps can settle: draws keep moving."""
        return has_settled and sweep > self._draw_sweeps

    @property
    def _draw_sweeps(self) -> int:
        """Topics that are there have expected counts already."""
        return 0 if self.settings.goes_on else self.settings.draw_sweeps

    def finish(self, best: Topics, heldout: sparse.csr_matrix | None) -> Topics:
        """Held-out documents have done their service: the topics learn their words, too. Pairs of word and topic that
        came to nothing are dropped."""
        expected: Ints | None = None
        if heldout is not None:
            batch = Batch.of(heldout)
            embedding = np.zeros((len(batch), best.n_dims), dtype=np.float32)
            prepared = self.engine.prepare(best, whole=True)
            expected = self._relax_softly(prepared, batch, embedding, 0, is_counted=False).expected
        best = self.engine.fetch(best)
        word_topic = best.word_topic.copy()
        if expected is not None:
            word_topic.data = word_topic.data + expected / memoized.COUNT_UNIT
        word_topic.eliminate_zeros()
        return replace(best, word_topic=word_topic)

    def facts(self) -> dict[str, float]:
        return {}

    def _draw_sweep(self, sweep: int) -> Iterator[int]:
        for first, last, batch in self._batches():
            draws = self._draws_of(first, last)
            old = self.engine.copy(draws)
            prepared = self.engine.prepare(self.topics)
            n_steps = memoized.STEPS_WITH_DRAWS if sweep else memoized.STEPS_FROM_NOTHING
            self.engine.redraw(prepared, batch, draws, self.embedding[first:last], n_steps, self.seed, sweep)
            word_topic = self.engine.exchange(self.topics.word_topic, batch, old, draws)
            self.topics = replace(self.topics, word_topic=word_topic)
            yield len(batch)
        self._average_counts(sweep)

    def _soft_sweep(self, sweep: int) -> Iterator[int]:
        """Topics stay as they are until every document has been relaxed under them."""
        prepared = self.engine.prepare(self.topics, whole=True)
        total: memoized.Moments | None = None
        expected: Any = 0
        for first, last, batch in self._batches():
            relaxed = self._relax_softly(prepared, batch, self.embedding[first:last], sweep)
            total = relaxed.moments if total is None else total + relaxed.moments
            expected = expected + relaxed.expected
            yield len(batch)
        self.topics = replace(self.topics, word_topic=self.engine.in_tokens(self.topics.word_topic, expected))
        self._update_embeddings(total)

    def _relax_softly(
        self, prepared: Any, batch: Batch, embedding: Floats, sweep: int, is_counted: bool = True
    ) -> memoized.Relaxed:
        return self.engine.relax(prepared, batch, embedding, memoized.SOFT_STEPS, sweep, is_counted)

    def _average_counts(self, sweep: int) -> None:
        """Of all sweeps with draws but the first ones: one sweep's are too few to tell which topics have a word."""
        first, n_sweeps = self.settings.draw_sweeps // BURN_IN, self.settings.draw_sweeps
        if sweep >= first:
            share = self.topics.word_topic / (n_sweeps - first)
            self.averaged = share if self.averaged is None else self.averaged + share
        if sweep == n_sweeps - 1:
            self.topics = replace(self.topics, word_topic=self.averaged)

    def _begin_softly(self) -> None:
        """A word is spread over the topics that have it; embeddings are by how topics occur together now."""
        self.topics = replace(self.topics, word_topic=self.engine.with_every_pair(self.topics.word_topic))
        self._embed_topics()
        self.embedding = self.engine.no_embeddings(len(self.corpus), self.topics.n_dims)

    def _update_embeddings(self, total: memoized.Moments | None) -> None:
        if total is None:
            return
        self.topics, expansion = memoized.update(self.topics, total, self.settings.learned)
        self.engine.move(self.embedding, expansion)

    def _learn_beta(self) -> None:
        if "beta" in self.settings.learned:
            beta = self.engine.optimal_concentration(self.topics)
            self.topics = replace(self.topics, priors=replace(self.topics.priors, beta=beta))

    def _draws_of(self, first: int, last: int) -> Ints:
        offsets = self.corpus.document_offsets
        return self.draws[offsets[first] : offsets[last]]

    def _batches(self) -> Iterator[tuple[int, int, Batch]]:
        for first in range(0, len(self.corpus), self.batch_size):
            last = min(first + self.batch_size, len(self.corpus))
            yield first, last, self.corpus[first:last]

    def _first_draws(self, first: int, last: int, given: GivenTopics | None, trial: int) -> Ints:
        """Any topic for any token of these documents, or by the words of the given topics."""
        batches = (
            self.corpus[begin : min(begin + self.batch_size, last)] for begin in range(first, last, self.batch_size)
        )
        how = self.topics.n_topics, given, self.seed, trial
        return self.engine.joined([self.engine.first_draws(batch, *how) for batch in batches])


def unknown_topics(n_topics: int, n_dims: int, n_words: int, priors: Priors) -> Topics:
    """Topics before anything was drawn."""
    nothing = sparse.csr_matrix((n_words, n_topics), dtype=np.float64)
    cov = np.eye(n_dims) / priors.rho
    return Topics(np.zeros((n_topics, n_dims)), 0 * cov, cov, np.zeros(n_topics), nothing, priors)
