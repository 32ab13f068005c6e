"""What a learner remembers, on the device: see `Memory` in base.py; memory.py says the same in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy import sparse

from ..model.cooccurrence import MOST_PAIRS as MOST_LOOKED_AT
from ..model.cooccurrence import embed_topics
from ..model.lda import SMALLEST_ALPHA, WordWeights
from ..model.memoized import COUNT_UNIT, Expansion
from ..model.random import START
from ..model.renewal import renewal, split_topics
from ..model.start import SMOOTHING, GivenTopics
from ..model.state import Batch, Floats, Priors, Topics
from ..model.words import LARGEST_BETA, SMALLEST_BETA
from . import _gpu_random as random
from ._gpu_corpus import (
    DeviceBatch,
    DeviceCounts,
    as_tensor,
    as_topics,
    on_host,
    sums_by,
    token_words,
)
from ._gpu_room import Room
from ._gpu_rows import rows_of, starts_of
from ._gpu_start import leading_on
from ._gpu_tokens import Table
from .memory import MOST_DENSE_PAIRS, MOST_DENSE_TOPICS, MOST_PAIRS

Tensor = Any


class DeviceMemory:
    """See `Memory`. Topics of tokens are int32, places of tokens too where they are few enough."""

    device: Any
    _real: Any
    _tokens_room: Room

    # --- documents and their embeddings -----------------------------------------------------------------------------

    def hold(self, batch: Batch) -> Any:
        return DeviceBatch.on(batch, self.device)

    def corpus(self, counts: sparse.csr_matrix | DeviceBatch, order: Any) -> Any:
        documents = counts if isinstance(counts, DeviceBatch) else DeviceBatch.on(Batch.of(counts), self.device)
        rows = as_tensor(order, self.device)
        return replace(documents.of_rows(rows), documents=rows)

    def no_embeddings(self, n_documents: int, n_dims: int) -> Any:
        return torch.zeros((n_documents, n_dims), dtype=torch.float32, device=self.device)

    def move(self, embedding: Any, expansion: Expansion) -> None:
        shift, transform = (as_tensor(part, self.device) for part in (expansion.shift, expansion.transform))
        for part in embedding.split(2**20):  # in float64 all at once could be too much
            part.copy_((part.to(torch.float64) - shift) @ transform)

    # --- tokens -----------------------------------------------------------------------------------------------------

    def first_draws(self, batch: Any, n_topics: int, given: GivenTopics | None, seed: int, trial: int) -> Any:
        draws = torch.empty(int(batch.token_offsets[-1]), dtype=torch.int32, device=self.device)

        def part(first: int, last: int) -> None:
            some = batch[first:last]
            begin, end = batch.document_offsets[[first, last]].tolist()
            streams = random.substream(random.stream(seed, START, some.documents, device=self.device), trial)
            tokens = rows_of(some.lengths)
            uniforms = random.uniforms(streams[tokens.row], tokens.place)
            drawn = uniforms * n_topics if given is None else draw_by_word(given, token_words(some), uniforms)
            draws[begin:end] = drawn.to(torch.int32)

        self._tokens_room.each(batch.lengths, part)
        return draws

    def joined(self, arrays: Sequence[Any]) -> Any:
        return torch.cat(list(arrays))

    def copy(self, array: Any) -> Any:
        return array.clone(memory_format=torch.contiguous_format)

    def copies(self, draws: Any, n: int) -> Any:
        return draws[:, None].repeat(1, n)

    def tokens_by_document(self, batch: Any) -> tuple[Any, Any]:
        n = int(batch.token_offsets[-1])
        return batch.document_offsets, torch.arange(n, dtype=_index_type(n), device=self.device)

    def tokens_by_word(self, batch: Any) -> tuple[Any, Any]:
        words = token_words(batch)
        starts = starts_of(torch.bincount(words, minlength=batch.n_words))
        return starts, words.argsort(stable=True).to(_index_type(len(words)))

    def streams(self, groups: Any, *key: int) -> Any:
        return random.stream(*key, as_tensor(groups, self.device), device=self.device)

    # --- counts of words in topics ----------------------------------------------------------------------------------

    def count_words(self, batch: Any, draws: Any, n_topics: int) -> Any:
        return DeviceCounts.of_pairs(token_words(batch), draws, (batch.n_words, n_topics))

    def exchange(self, word_topic: Any, batch: Any, old: Any, new: Any) -> Any:
        n_topics = word_topic.shape[1]
        word_topic = word_topic + self.count_words(batch, new, n_topics) - self.count_words(batch, old, n_topics)
        word_topic.eliminate_zeros()
        return word_topic

    def renewed(self, batch: Any, draws: Any, word_topic: Any, seed: int) -> Any:
        """Only the tokens of topics that are split travel."""
        plan = renewal(word_topic.on_host())
        draws = as_topics(plan.becomes, self.device)[draws.long()].to(draws.dtype)
        some = as_tensor(plan.is_split, self.device)[draws.long()].nonzero().ravel()
        documents = torch.searchsorted(batch.document_offsets[1:], some, right=True)
        words, documents, theirs = (on_host(part) for part in (token_words(batch)[some], documents, draws[some]))
        new = split_topics(plan, words, documents, theirs, seed)
        draws[some] = as_topics(new, self.device).to(draws.dtype)
        return draws

    def dense_counts(self, word_topic: Any) -> None:
        """Counts are exchanged on the device, dense or not."""

    def every_pair(self, topics: Topics) -> Any:
        counted = DeviceCounts.on(topics.word_topic, self.device)
        unit, (n_words, n_topics) = 1 / as_tensor(topics.topic_total, self.device), counted.shape
        weights = ((counted.data + topics.priors.beta) * unit[counted.indices.long()]).to(self._real)
        rest = (topics.priors.beta * unit).to(self._real)
        if n_topics > MOST_DENSE_TOPICS or n_topics * n_words > MOST_DENSE_PAIRS:
            table: Any = Table(counted.indptr, counted.indices, weights, rest, topics.priors.beta)
            return WordWeights(table, on_host(unit))
        dense: Any = rest.repeat(n_words, 1)
        dense.view(-1)[counted.keys] = weights
        return WordWeights(dense, on_host(unit))

    def given(self, word_topic: Any) -> GivenTopics:
        mass = word_topic.sum(axis=0)
        is_known = mass > 0
        typical = mass[is_known].mean() if is_known.any() else 1.0
        return GivenTopics(word_topic, np.where(is_known, SMOOTHING, 1.0) * typical / word_topic.shape[0])

    def in_tokens(self, word_topic: Any, expected: Any) -> Any:
        return word_topic.with_data(expected.to(torch.float64) / COUNT_UNIT)

    def with_every_pair(self, word_topic: Any) -> Any:
        n_words, n_topics = word_topic.shape
        if n_words * n_topics > MOST_PAIRS:
            return word_topic
        counted = DeviceCounts.on(word_topic, self.device)
        data = torch.zeros(n_words * n_topics, dtype=torch.float64, device=self.device)
        data[counted.keys] = counted.data
        indptr = torch.arange(n_words + 1, device=self.device) * n_topics
        columns = torch.arange(n_topics, dtype=torch.int32, device=self.device).repeat(n_words)
        return DeviceCounts(indptr, columns, data, word_topic.shape)

    # --- what follows from counts -----------------------------------------------------------------------------------

    def optimal_alpha(self, document_topic: Any, alpha: Floats) -> Floats:
        """lda.optimal_alpha; a topic's ψ is needed once for every count that documents have of it."""
        counted, prior = document_topic, as_tensor(alpha, self.device)
        topic = counted.indices.long()
        gains = torch.digamma(counted.data + prior[topic]) - torch.digamma(prior)[topic]
        above = sums_by(topic, gains, len(alpha))
        lengths = sums_by(counted.rows, counted.data, counted.shape[0])
        below = torch.sum(torch.digamma(lengths + prior.sum()) - torch.digamma(prior.sum())).clamp_min(1e-300)
        found: Floats = on_host((prior * above / below).clamp_min(SMALLEST_ALPHA))
        return found

    def optimal_concentration(self, topics: Topics) -> float:
        """words.optimal_concentration."""
        beta, n_words, total = topics.priors.beta, topics.n_words, as_tensor(topics.topic_count, self.device)
        one = torch.tensor(beta, dtype=torch.float64, device=self.device)
        data = DeviceCounts.on(topics.word_topic, self.device).data
        above = torch.sum(torch.digamma(data + one) - torch.digamma(one))
        below = n_words * torch.sum(torch.digamma(total + n_words * one) - torch.digamma(n_words * one))
        return float((one * above / below.clamp_min(1e-300)).clamp(SMALLEST_BETA, LARGEST_BETA))

    def embed_topics(self, document_topic: Any, n_dims: int, priors: Priors, seed: int) -> tuple[Floats, Floats]:
        """No more documents travel to the host than are looked at there."""
        n_pairs = document_topic.indptr.diff().square().cumsum(0)
        n = int(torch.searchsorted(n_pairs, MOST_LOOKED_AT, right=True))
        some = document_topic.first_rows(max(1, n)).on_host()
        return embed_topics(some, n_dims, priors, seed, leading_on(self.device))

    def fetch(self, topics: Topics) -> Topics:
        if not isinstance(topics.word_topic, DeviceCounts):
            return topics
        return replace(topics, word_topic=topics.word_topic.on_host())


def draw_by_word(given: GivenTopics, words: Tensor, uniforms: Tensor) -> Tensor:
    """start.draw_by_word."""
    own = DeviceCounts.on(given.word_topic, uniforms.device)
    rest, words = as_tensor(given.rest, uniforms.device).cumsum(0), words.long()
    running = torch.nn.functional.pad(own.data.cumsum(0), (1, 0))
    before = running[own.indptr]
    target = uniforms * (before.diff()[words] + rest[-1])
    own_total, own_end = before.diff()[words], own.indptr[words + 1]
    entry = torch.searchsorted(running, before[words] + target, right=True).minimum(own_end) - 1
    anywhere = torch.searchsorted(rest, target - own_total, right=True).clamp_max(len(rest) - 1)
    topics = torch.nn.functional.pad(own.indices.long(), (0, 1))
    return torch.where(target < own_total, topics[entry], anywhere)


def _index_type(n: int) -> Any:
    return torch.int32 if n < 2**31 else torch.int64
