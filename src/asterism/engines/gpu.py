"""The GPU engine: documents by the thousand in step, in torch, with Triton kernels where a GPU is there to run them.

Works on any device that torch knows, the CPU too. Numbers of documents and topics are float32 (or float64, for tests)
on the device; what is summed over documents is added up in float64. Documents are taken in parts that fit into memory.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse

from ..model import memoized, svi
from ..model.document import INFER_STEPS, INFER_TOL
from ..model.joint import LIGHT
from ..model.lda import WordWeights
from ..model.memoized import COUNT_UNIT, Relaxation, Relaxed, ResidualSums
from ..model.random import DRAWS
from ..model.state import Batch, Documents, Floats, Ints, LocalSettings, Statistics, Topics
from ..model.walks import Side
from ..model.words import DrawTable
from . import _gpu_lda as lda
from . import _gpu_random as random
from . import _gpu_tokens as tokens
from ._gpu_adagrad import sample_documents
from ._gpu_corpus import (
    DeviceBatch,
    DeviceCounts,
    as_tensor,
    as_topics,
    documents_of,
    documents_of_entries,
    on_host,
    token_words,
    write,
)
from ._gpu_joint import DenseLook, Look, Solved, Space, covariances, predictive_shares, predictive_weights, solve
from ._gpu_memory import DeviceMemory
from ._gpu_room import Room
from ._gpu_rows import heaviest, row_sums, rows_of
from ._gpu_tables import draw_table, space_of, table_on
from ._gpu_tokens import Expectation, Table

Tensor = Any

# Elements in work at a time, on a GPU and on the CPU: topic weights of documents, pairs of a document's word and topic,
# tokens of LDA.
ON_GPU, ON_CPU = (2**29, 2**27, 2**26), (2**23, 2**21, 2**21)


class GpuTopics(NamedTuple):
    """Topics on the device."""

    topics: Topics
    counted: DeviceCounts
    table: Table
    space: Space


class GpuEngine(DeviceMemory):
    """See `Engine`. `device` is one of torch's, such as "cuda:1" or "cpu"; arrays that are there already stay there."""

    name = "gpu"

    def __init__(self, settings: LocalSettings, device: str = "cuda", dtype: str = "float32") -> None:
        self.settings, self.device, self.dtype = settings, torch.device(device), np.dtype(dtype)
        self._real = getattr(torch, dtype)
        weights, pairs, walked = ON_CPU if self.device.type == "cpu" else ON_GPU
        self._weights_room = Room("topic weights", weights, self.device)
        self._pairs_room = Room("topics of words", pairs, self.device)
        self._tokens_room = Room("tokens", walked, self.device)
        self._kernels = fused_kernels(self.device, dtype)

    def prepare(self, topics: Topics, whole: bool = False) -> GpuTopics:
        counted = DeviceCounts.on(topics.word_topic, self.device)
        table = draw_table(topics, counted, self.settings, self._real, whole)
        return GpuTopics(topics, counted, table, space_of(topics, self.device, self._real))

    # --- stochastic inference ---------------------------------------------------------------------------------------

    def statistics(self, prepared: GpuTopics, batch: Batch, seed: int, sweep: int) -> Statistics:
        documents, parts = self._on_device(batch), []
        sample = self._newton if self.settings.newton else self._adagrad

        def part(first: int, last: int) -> None:
            parts.append(
                self._summed(prepared, documents[first:last], *sample(prepared, documents[first:last], seed, sweep))
            )

        self._weights_room.alike(len(batch), size_of_document(prepared.topics), part)
        return sum(parts[1:], parts[0])

    def _summed(
        self, prepared: GpuTopics, batch: DeviceBatch, draws: Tensor, gamma: Tensor, weights: Tensor, n_steps: int
    ) -> Statistics:
        counts = DeviceCounts.of_pairs(token_words(batch), draws, prepared.counted.shape)
        gamma, residual = gamma.to(torch.float64), (weights - prepared.space.mean).to(torch.float64)
        sums = on_host(residual.T @ gamma), on_host(gamma.T @ gamma)
        return Statistics(counts.on_host().astype(np.int64), *sums, len(batch), n_steps)

    def _adagrad(self, prepared: GpuTopics, batch: DeviceBatch, seed: int, sweep: int) -> tuple[Any, Any, Any, int]:
        """document.sample_document: draws, γ, ξ and the rounds taken."""
        draws = torch.zeros(int(batch.token_offsets[-1]), dtype=torch.int64, device=self.device)

        def draw_counts(weights: Tensor, rows: Tensor, streams: Tensor) -> Tensor:
            some, token = documents_of(batch, rows)
            draws[token] = self._draw(prepared.table, some, weights.softmax(dim=1), streams)
            return tokens.count_topics(some, draws[token], prepared.topics.n_topics, self._real)

        streams = random.stream(seed, sweep, batch.documents, device=self.device)
        gamma, weights, steps = sample_documents(draw_counts, batch.lengths, streams, prepared.space, self.settings)
        return draws, gamma, weights, int(steps.sum())

    def _newton(self, prepared: GpuTopics, batch: DeviceBatch, seed: int, sweep: int) -> tuple[Any, Any, Any, int]:
        """svi.newton_document: draws, γ, ξ and the rounds taken."""
        n_topics, rounds = prepared.topics.n_topics, svi.newton_rounds(self.settings)
        draws = torch.zeros(int(batch.token_offsets[-1]), dtype=torch.int64, device=self.device)
        gamma, weights = self._no_embedding(prepared, batch), None
        for i, settings in enumerate(rounds):
            counts = tokens.count_topics(batch, draws, n_topics, self._real)
            solved = solve(self._look_at(prepared), prepared.space, gamma, counts, batch.lengths, settings.n_steps)
            weights = solved.look.weights(solved.counts, solved.omega)
            draws = self._draw(prepared.table, batch, weights.softmax(dim=1), self._streams(batch, seed, sweep, i))
        return draws, gamma, weights, len(batch) * (len(rounds) - 1)

    # --- memoized inference -----------------------------------------------------------------------------------------

    def redraw(
        self, prepared: GpuTopics, batch: Batch, draws: Ints, embedding: Floats, n_steps: int, seed: int, sweep: int
    ) -> None:
        documents, topics = self._on_device(batch), prepared.topics

        def part(first: int, last: int) -> None:
            some, gamma = documents[first:last], self._copy_of(embedding[first:last])
            begin, end = _bounds(documents.document_offsets, first, last)
            before = as_topics(draws[begin:end], self.device).long()
            counts = tokens.count_topics(some, before, topics.n_topics, self._real)
            solved = solve(self._look_at(prepared), prepared.space, gamma, counts, some.lengths, n_steps)
            shares, streams = predictive_shares(solved), self._streams(some, seed, sweep)
            write(self._draw(prepared.table, some, shares, streams, before), draws[begin:end])
            write(solved.embedding, embedding[first:last])

        self._weights_room.alike(len(batch), size_of_document(topics), part)

    def relax(
        self, prepared: GpuTopics, batch: Batch, embedding: Floats, n_steps: int, sweep: int, is_counted: bool = True
    ) -> Relaxed:
        documents, topics = self._on_device(batch), prepared.topics
        settings = Relaxation(self.settings.topics_per_document, n_steps, is_counted=is_counted)
        sums = self._new_sums(topics)
        expected = torch.zeros(len(prepared.table.topics), dtype=torch.int64, device=self.device)

        def part(first: int, last: int) -> None:
            some, gamma = documents[first:last], self._copy_of(embedding[first:last])
            solved = self._solve_softly(prepared, some, gamma, settings)
            found = self._sums_of(solved, prepared.space.tau)
            self._spread(prepared, some, solved.omega, settings.counted(topics), expected)
            write(solved.embedding, embedding[first:last])
            for total, added in zip(sums, found, strict=True):
                total += added

        self._weights_room.alike(len(batch), size_of_document(topics), part)
        moments = memoized.couple(memoized.whole_sums(ResidualSums(*map(on_host, sums)), topics), topics)
        return Relaxed(moments, expected if torch.is_tensor(embedding) else on_host(expected))

    def _copy_of(self, embedding: Floats) -> Tensor:
        return as_tensor(embedding, self.device).to(torch.float64).clone()

    def _solve_softly(self, prepared: GpuTopics, batch: DeviceBatch, gamma: Tensor, settings: Relaxation) -> Solved:
        """document.infer_document, from γ, which is overwritten."""
        tokens_leave = prepared.space.tau, settings.counted(prepared.topics)
        how = settings.n_top, *tokens_leave, self._pairs_room, self._kernels
        expectation = Expectation(prepared.table, batch, *how)
        counts = torch.zeros((len(batch), prepared.topics.n_topics), dtype=self._real, device=self.device)
        arguments = prepared.space, gamma, counts, batch.lengths, settings.n_steps, settings.tol
        return solve(self._look_at(prepared), *arguments, expectation.counts)

    def _look_at(self, prepared: GpuTopics) -> Callable[[Tensor], Look]:
        kind = DenseLook if self._kernels is None else self._kernels.StreamedLook
        return lambda gamma: kind(prepared.space, gamma)

    def _new_sums(self, topics: Topics) -> list[Tensor]:
        """memoized.ResidualSums in their order."""
        zeros = memoized.new_residual_sums(topics)
        parts = zeros.residual_embedding, zeros.residual_square, zeros.unshrunk, zeros.embedding_outer, zeros.cov_sum
        return [as_tensor(part, self.device) for part in parts]

    def _sums_of(self, solved: Solved, tau: float) -> list[Tensor]:
        """memoized.add_candidates of all of them, with every topic a candidate."""
        augmented = torch.nn.functional.pad(solved.embedding, (0, 1), value=1.0)
        residual = solved.counts / tau - solved.omega
        unshrunk = solved.omega / (1 + solved.omega)
        return [
            (residual.T @ augmented.to(residual.dtype)).to(torch.float64),
            (residual**2).sum(dim=0, dtype=torch.float64),
            torch.stack([part.sum(dim=0, dtype=torch.float64) for part in (unshrunk, unshrunk * (2 - unshrunk))]),
            augmented.T @ augmented,
            torch.cholesky_inverse(solved.factor).sum(dim=0),
        ]

    def _draw(
        self, table: Table, batch: DeviceBatch, shares: Tensor, streams: Tensor, before: Tensor | None = None
    ) -> Tensor:
        """A topic for every token, given its document's shares of topics [d, k]; where these have counted the draws
        `before`, given all other tokens."""
        top = heaviest(shares, self.settings.topics_per_document)
        if self._kernels is not None:
            return self._kernels.draw(batch, shares, top, table, streams, before)
        weighed = tokens.weigh(shares, top.marks(shares), table)
        drawn = torch.zeros(int(batch.token_offsets[-1]), dtype=torch.int64, device=self.device)

        def part(first: int, last: int) -> None:
            begin, end = _bounds(batch.token_offsets, first, last)
            last_ones = None if before is None else before[begin:end]
            drawn[begin:end] = tokens.draw(batch, first, last, weighed, table, streams, last_ones)

        self._pairs_room.each(tokens.pairs_of(batch, table), part)
        return drawn

    def _spread(self, prepared: GpuTopics, batch: DeviceBatch, omega: Tensor, counted: float, expected: Tensor) -> None:
        """memoized.expected_word_topic of all documents."""
        table, tau = prepared.table, prepared.space.tau
        if self._kernels is not None:
            self._kernels.spread(batch, omega, table, tau, counted, COUNT_UNIT, expected)
            return
        document = documents_of_entries(batch)

        def part(first: int, last: int) -> None:
            words, counts = batch.words[first:last].long(), batch.counts[first:last]
            of_words = words, counts, document[first:last], omega, table
            tokens.spread(*of_words, tau, counted, COUNT_UNIT, expected)

        self._pairs_room.each(tokens.pairs_of(batch, table), part)

    # --- documents under fixed topics -------------------------------------------------------------------------------

    def infer(self, prepared: GpuTopics, batch: Batch, with_cov: bool = False) -> Documents:
        documents, topics = self._on_device(batch), prepared.topics
        empty: Any = torch.empty if isinstance(batch, DeviceBatch) else np.empty
        kind = {"dtype": self._real, "device": self.device} if isinstance(batch, DeviceBatch) else {"dtype": self.dtype}
        embedding, weights = (empty((len(batch), n), **kind) for n in (topics.n_dims, topics.n_topics))
        covs = empty((len(batch) if with_cov else 0, topics.n_dims, topics.n_dims), **kind)

        def part(first: int, last: int) -> None:
            some = documents[first:last]
            solved = self._inferred(prepared, some)
            write(solved.embedding, embedding[first:last])
            write(predictive_weights(solved, some.lengths), weights[first:last])
            if with_cov:
                write(self._covs(prepared.space, solved.omega), covs[first:last])

        self._weights_room.alike(len(batch), size_of_document(topics), part)
        return Documents(embedding, weights, covs if with_cov else None)

    def _inferred(self, prepared: GpuTopics, batch: DeviceBatch) -> Solved:
        gamma = self._no_embedding(prepared, batch)
        settings = Relaxation(self.settings.topics_per_document, INFER_STEPS, INFER_TOL, is_counted=False)
        return self._solve_softly(prepared, batch, gamma, settings)

    def _covs(self, space: Space, omega: Tensor) -> Tensor:
        """joint.posterior_cov of each document."""
        result = torch.empty((len(omega), *space.precision.shape), dtype=torch.float64, device=self.device)

        def part(first: int, last: int) -> None:
            result[first:last] = covariances(omega[first:last], space)

        self._weights_room.alike(len(omega), space.embedding.numel(), part)
        return result

    def log_likelihood(self, prepared: GpuTopics, weights: Floats, batch: Batch) -> Floats:
        documents, result = self._on_device(batch), np.zeros(len(batch))

        def part(first: int, last: int) -> None:
            xi = as_tensor(weights[first:last], self.device)
            result[first:last] = on_host(self._log_likelihood(prepared, xi, documents[first:last]))

        self._weights_room.alike(len(batch), size_of_document(prepared.topics), part)
        return result

    def _log_likelihood(self, prepared: GpuTopics, weights: Tensor, batch: DeviceBatch) -> Tensor:
        """words.log_likelihood [d]; λ = β + counted, so a word costs its own topics only."""
        counted, topics = prepared.counted, prepared.topics
        share = weights.to(torch.float64).softmax(dim=1) / as_tensor(topics.topic_total, self.device)
        document, probability = documents_of_entries(batch), share.new_empty(len(batch.words))
        unseen = topics.priors.beta * share.sum(dim=1)
        table = Table(counted.indptr, counted.indices, counted.data, share[0], topics.priors.beta)

        def part(first: int, last: int) -> None:
            own = tokens.own_topics(batch.words[first:last].long(), document[first:last], table)
            seen = row_sums(share.view(-1)[own.cell] * counted.data[own.pair], own.rows)
            probability[first:last] = seen + unseen[document[first:last]]

        self._pairs_room.each(tokens.pairs_of(batch, table), part)
        return row_sums(batch.counts * torch.log(probability), rows_of(batch.indptr.diff()))

    # --- plain LDA --------------------------------------------------------------------------------------------------

    def draw_lda(self, words: WordWeights, batch: Batch, draws: Ints, alpha: Floats, seed: int, sweep: int) -> Floats:
        documents, logs = self._on_device(batch), np.zeros(len(batch))
        unit, prior = (as_tensor(values, self.device).to(self._real) for values in (words.unit, alpha))
        weights: Any = words.weights
        if isinstance(weights, DrawTable):
            weights = table_on(weights, self.device, self._real)
        is_sparse = isinstance(weights, Table)
        dense = unit if is_sparse else as_tensor(weights, self.device).to(self._real)

        def part(first: int, last: int) -> None:
            some = documents[first:last]
            begin, end = _bounds(documents.document_offsets, first, last)
            before = as_topics(draws[begin:end], self.device).long().clone()
            rows = lda.side_by_side(some, before, self._streams(some, seed, sweep), len(alpha), self._real)
            sampler = lda.SparseWords(weights, unit, prior, rows) if is_sparse else lda.DenseWords(dense, unit)
            logs[first:last] = on_host(lda.draw_lda(rows, sampler, prior))
            write(rows.draws, draws[begin:end])

        self._weights_room.alike(len(batch), len(alpha), part)
        return logs

    def walk(self, side: Side, walks: Ints, inverse_total: Floats) -> Ints:
        of_side, held = self._side(side), as_topics(walks, self.device)
        weights = as_tensor(inverse_total, self.device).to(self._real)
        totals = torch.zeros(len(side.prior), dtype=torch.int64, device=self.device)

        def part(first: int, last: int) -> None:
            totals.add_(lda.visit(of_side, first, last, held, weights, self._weights_room.most, self._kernels))

        self._tokens_room.each(of_side.starts.diff(), part)
        write(held, walks)
        counted: Ints = on_host(totals)
        return counted

    def _side(self, side: Side) -> lda.DeviceSide:
        streams: Any = side.streams
        streams = streams if torch.is_tensor(streams) else streams.view(np.int64)
        starts, order, threshold, other, streams = (
            as_tensor(values, self.device) for values in (side.starts, side.order, *side.choice, streams)
        )
        prior = as_tensor(side.prior, self.device).to(self._real)
        return lda.DeviceSide(starts, order, prior, float(side.prior.sum()), threshold, other, streams)

    def count(self, starts: Ints, order: Ints, topics: Ints, n_topics: int) -> sparse.csr_matrix:
        groups, of_tokens = as_tensor(starts, self.device), as_topics(topics, self.device)
        in_order = of_tokens[as_tensor(order, self.device)]
        counts = DeviceCounts.of_pairs(rows_of(groups.diff()).row, in_order, (len(starts) - 1, n_topics))
        return counts if torch.is_tensor(topics) else counts.on_host().astype(np.int64)

    # --- small things -----------------------------------------------------------------------------------------------

    def _on_device(self, batch: Batch) -> DeviceBatch:
        return DeviceBatch.on(batch, self.device)

    def _no_embedding(self, prepared: GpuTopics, batch: DeviceBatch) -> Tensor:
        return torch.zeros((len(batch), prepared.topics.n_dims), dtype=torch.float64, device=self.device)

    def _streams(self, batch: DeviceBatch, *key: int) -> Tensor:
        """Each document's stream for draws: of (seed, sweep, document), and what may follow."""
        seed, sweep, *more = key
        streams = random.stream(seed, sweep, batch.documents, device=self.device)
        for part in (*more, DRAWS, 0):
            streams = random.substream(streams, part)
        return streams


def fused_kernels(device: Any, dtype: str) -> Any:
    """The module of Triton kernels, where a GPU or Triton's interpreter (TRITON_INTERPRET=1) runs them; else None."""
    runs = device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"
    if not runs or dtype != "float32" or importlib.util.find_spec("triton") is None:
        return None
    from . import _gpu_fused

    return _gpu_fused


def size_of_document(topics: Topics) -> int:
    """Elements that a document needs: its weights of topics, or where these are few, H and what it is made of."""
    return max(topics.n_topics, 16 * topics.n_dims**2 + int(2 / LIGHT) * topics.n_dims)


def _bounds(offsets: Tensor, first: int, last: int) -> tuple[int, int]:
    begin, end = offsets[[first, last]].tolist()
    return begin, end
