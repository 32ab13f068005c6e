"""The CPU engine with candidates: documents look at some topics one by one, at all others in groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from ..model import memoized, random
from ..model.candidates import TOPICS_OF_A_WORD, Groups, group_topics, take_turns
from ..model.document import INFER_STEPS, INFER_TOL, predictive_weights
from ..model.memoized import Relaxation, Relaxed, ResidualSums
from ..model.state import Batch, Documents, Floats, Ints, Topics
from . import _cpu_candidate_kernels as candidate_kernels
from . import _cpu_kernels as kernels
from ._cpu_candidate_kernels import NO_MASS, Found, Near
from ._cpu_joint_kernels import DOCUMENTS_A_BLOCK, SLOTS
from .cpu import NO_DRAWS, TOPICS_A_BLOCK, CpuEngine, CpuTopics, corpus_of

# Documents whose candidates are in memory at a time.
DOCUMENTS_AT_ONCE = 4096


class NearTopics(NamedTuple):
    """Topics laid out for the kernels, with what candidates are found by."""

    topics: Topics
    table: kernels.Table
    space: kernels.Space
    near: Near | None  # None where every topic is a candidate


class CpuCandidateEngine(CpuEngine):
    """See `Engine`; `settings.candidates` topics of the nearest groups are looked at one by one."""

    _grouped: tuple[Topics, Groups] | None = None

    def prepare(self, topics: Topics, whole: bool = False) -> Any:
        exact = super().prepare(topics, whole)
        if topics.n_topics <= self.settings.candidates:
            return exact
        return NearTopics(*exact, self._near(topics))

    def redraw(
        self, prepared: Any, batch: Batch, draws: Ints, embedding: Floats, n_steps: int, seed: int, sweep: int
    ) -> None:
        if isinstance(prepared, CpuTopics):
            return super().redraw(prepared, batch, draws, embedding, n_steps, seed, sweep)
        offsets, settings = batch.token_offsets[batch.indptr], Relaxation(self.settings.topics_per_document, n_steps)
        nothing = np.empty((0, 0, 0)), np.empty((self.n_threads, 0), np.int64)
        with self._one_blas_thread():
            for first in range(0, len(batch), DOCUMENTS_AT_ONCE):
                part = batch[first : first + DOCUMENTS_AT_ONCE]
                drawn = draws[offsets[first] : offsets[first + len(part)]]
                streams = random.stream(seed, sweep, part.documents)
                gammas = embedding[first : first + len(part)]
                self._solve(prepared, part, settings, streams, drawn, gammas, *nothing)

    def relax(
        self, prepared: Any, batch: Batch, embedding: Floats, n_steps: int, sweep: int, is_counted: bool = True
    ) -> Relaxed:
        if isinstance(prepared, CpuTopics):
            return super().relax(prepared, batch, embedding, n_steps, sweep, is_counted)
        topics = prepared.topics
        sums, speaks = memoized.new_residual_sums(topics), take_turns(len(batch), sweep)
        expected: Ints = np.zeros((self.n_threads, len(prepared.table.topics)), np.int64)
        settings = Relaxation(self.settings.topics_per_document, n_steps, is_counted=is_counted)
        with self._one_blas_thread():
            for first in range(0, len(batch), DOCUMENTS_AT_ONCE):
                part = batch[first : first + DOCUMENTS_AT_ONCE]
                some = slice(first, first + len(part))
                covs = np.zeros((-(-len(part) // DOCUMENTS_A_BLOCK), topics.n_dims, topics.n_dims))
                streams = random.stream(0, 0, part.documents)  # nothing is drawn
                found = self._solve(prepared, part, settings, streams, NO_DRAWS, embedding[some], covs, expected)
                self._add_residuals(embedding[some], found, sums)
                times = len(batch) / max(1, int(speaks.sum()))
                speakers = np.flatnonzero(speaks[some])
                self._add_others(prepared, part, speakers, times, embedding[some], found, sums)
                augmented = np.hstack([embedding[some].astype(np.float64), np.ones((len(part), 1))])
                sums.embedding_outer[:] += augmented.T @ augmented
                sums.cov_sum[:] += covs.sum(axis=0)
            moments = memoized.couple(memoized.whole_sums(sums, topics), topics)
        return Relaxed(moments, np.asarray(expected.sum(axis=0)))

    def infer(self, prepared: Any, batch: Batch, with_cov: bool = False) -> Documents:
        if isinstance(prepared, CpuTopics):
            return super().infer(prepared, batch, with_cov)
        topics, documents = prepared.topics, self._empty_documents(prepared.topics, batch)
        documents.embedding[:] = 0
        settings = Relaxation(self.settings.topics_per_document, INFER_STEPS, INFER_TOL, is_counted=False)
        nothing = np.empty((0, 0, 0)), np.empty((self.n_threads, 0), np.int64)
        streams = random.stream(0, 0, batch.documents)
        with self._one_blas_thread():
            found = self._solve(prepared, batch, settings, streams, NO_DRAWS, documents.embedding, *nothing)
            np.dot(documents.embedding, prepared.space.embedding_by_dim, documents.weights)
        documents.weights[:] += prepared.space.mean
        weights = documents.weights.astype(np.float64) if with_cov else np.empty((0, 0))
        # Only candidates have been moved from m + U γ.
        for d, (start, size) in enumerate(zip(found.starts, found.sizes, strict=False)):
            listed, counts = slice(start, start + size), np.zeros(topics.n_topics)
            if with_cov:
                weights[d, found.topics[listed]] += found.residual[listed]
            counts[found.topics[listed]] = topics.priors.tau * (found.residual[listed] + found.omega[listed])
            documents.weights[d] = predictive_weights(documents.weights[d], np.maximum(counts, 0))
        if not with_cov:
            return documents
        shares = special.softmax(weights, axis=1)
        return replace(documents, cov=self._covs(topics, shares * (batch.lengths / topics.priors.tau)[:, None]))

    def _near(self, topics: Topics) -> Near:
        if self._grouped is None or self._grouped[0].embedding is not topics.embedding:
            with self._one_blas_thread():
                self._grouped = topics, group_topics(topics)
        groups, largest = self._grouped[1], float(topics.mean.max())
        log_mass = np.maximum(groups.log_mass, NO_MASS)
        return Near(
            groups.group.astype(np.int32),
            groups.members.astype(np.int32),
            groups.starts.astype(np.int64),
            np.exp(log_mass - largest),
            log_mass.astype(self.dtype),
            groups.mean.astype(self.dtype),
            groups.spread.astype(self.dtype),
            np.exp(topics.mean - largest),
            largest,
            *self._frequent_topics(topics.word_topic),
            self.settings.candidates,
        )

    def _frequent_topics(self, word_topic: sparse.csr_matrix) -> tuple[Ints, Ints]:
        """candidates.frequent_topics, without sorting."""
        kept = np.empty(word_topic.nnz, dtype=np.bool_)
        kernels.keep_largest_in_rows(word_topic.indptr, word_topic.data.astype(self.dtype), TOPICS_OF_A_WORD, kept)
        starts = np.concatenate([[0], np.cumsum(kept)])[word_topic.indptr]
        return starts.astype(np.int64), word_topic.indices[kept].astype(np.int32)

    def _solve(
        self,
        prepared: NearTopics,
        batch: Batch,
        settings: Relaxation,
        streams: Any,
        draws: Ints,
        embedding: Floats,
        covs: Floats,
        expected: Ints,
    ) -> Found:
        """memoized.relax_among_candidates for some documents; each thread has expected counts of its own."""
        found = self._room_for(batch, prepared, draws.size > 0)
        n_blocks = -(-len(batch) // DOCUMENTS_A_BLOCK)
        chunk_size = DOCUMENTS_A_BLOCK * -(-n_blocks // self.n_threads)
        tokens_leave = prepared.topics.priors.beta, settings.counted(prepared.topics)
        how = settings.n_top, settings.n_steps, settings.tol, *tokens_leave
        arguments = corpus_of(batch), prepared.table, prepared.space, prepared.near, *how
        arrays = streams, draws, embedding, found, covs

        def chunk(first: int, last: int) -> None:
            counted = expected[first // chunk_size]
            for start in range(first, last, DOCUMENTS_A_BLOCK):
                stop = min(start + DOCUMENTS_A_BLOCK, last)
                candidate_kernels.relax_among_candidates(start, stop, *arguments, *arrays, counted)

        self._over_blocks(len(batch), chunk_size, chunk)
        return found

    def _room_for(self, batch: Batch, prepared: NearTopics, has_draws: bool) -> Found:
        """As much as documents can need."""
        near: Any = prepared.near
        most = near.n_candidates + int(np.diff(near.starts).max()) + TOPICS_OF_A_WORD * np.diff(batch.indptr)
        most = np.minimum(most + (batch.lengths if has_draws else 0), len(near.group))
        starts = np.concatenate([[0], np.cumsum(most)]).astype(np.int64)
        return Found(
            starts,
            np.zeros(len(batch), np.int64),
            np.empty(starts[-1], np.int32),
            np.empty(starts[-1], self.dtype),
            np.empty(starts[-1], self.dtype),
            np.empty(len(batch)),
        )

    def _add_residuals(self, embedding: Floats, found: Found, sums: ResidualSums) -> None:
        """memoized.add_candidates but for what does not depend on topics."""
        into = sums.residual_embedding, sums.residual_square, sums.unshrunk
        size = -(-len(sums.residual_square) // self.n_threads)
        self._over_blocks(len(sums.residual_square), size, candidate_kernels.add_residuals, embedding, found, *into)

    def _add_others(
        self,
        prepared: NearTopics,
        batch: Batch,
        speakers: NDArray[np.int64],
        times: float,
        embedding: Floats,
        found: Found,
        sums: ResidualSums,
    ) -> None:
        """memoized.add_others for the documents whose turn it is."""
        speakers = speakers[batch.lengths[speakers] > 0]
        gammas = np.ascontiguousarray(embedding[speakers], dtype=self.dtype)
        shift = np.log(batch.lengths[speakers] / prepared.topics.priors.tau) - found.log_normaliser[speakers]
        omega = np.empty((len(speakers), prepared.topics.n_topics), self.dtype)
        arguments = speakers, shift.astype(self.dtype), prepared.space, gammas, found, omega
        self._over_blocks(len(speakers), SLOTS, candidate_kernels.weigh_others, *arguments)
        augmented = times * np.hstack([gammas.astype(np.float64), np.ones((len(gammas), 1))])

        def block(first: int, last: int) -> None:
            some = omega[:, first:last].astype(np.float64)
            sums.residual_embedding[first:last] -= some.T @ augmented
            sums.residual_square[first:last] += times * np.einsum("dk,dk->k", some, some)
            shrunk = 1 / (1 + some)
            sums.unshrunk[0, first:last] += times * np.sum(1 - shrunk, axis=0)
            sums.unshrunk[1, first:last] += times * np.sum(1 - shrunk**2, axis=0)

        self._over_blocks(omega.shape[1], TOPICS_A_BLOCK, block)
