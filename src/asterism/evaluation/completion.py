"""Held-out likelihood by document completion.

Half of each document's tokens are used to infer its topic weights, the other half is scored: Σ log p(w | weights).
No bound is involved, so the figures of different models and inferences can be compared. Which half a token falls
into depends on the document alone, so a document scores the same in any company.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..engines.base import TopicEngine
from ..model import random
from ..model.state import Batch

DOCUMENTS_A_BATCH = 512


class Completion(NamedTuple):
    """Documents split in two: the tokens to infer from and those to score [d, v]."""

    observed: sparse.csr_matrix
    scored: sparse.csr_matrix

    @property
    def whole(self) -> sparse.csr_matrix:
        """The documents as they were."""
        return sparse.csr_matrix(self.observed + self.scored)

    @property
    def n_scored(self) -> int:
        return int(self.scored.sum())


def split_tokens(counts: sparse.csr_matrix) -> Completion:
    """Split each document's tokens in halves at random; of an odd number the larger half is observed."""
    entry_of_token = np.repeat(np.arange(counts.nnz), counts.data)
    document = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))[entry_of_token]
    lengths = np.bincount(document, minlength=counts.shape[0])
    begins = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    ordinal = np.arange(len(document)) - begins[document]
    shuffle = random.bits(random.stream(random.SPLIT, counts.indices[entry_of_token]), ordinal)
    order = np.lexsort((shuffle, document))
    is_scored = ordinal < (lengths // 2)[document]  # ranks in shuffled order run as ordinals do
    scored = np.bincount(entry_of_token[order[is_scored]], minlength=counts.nnz)
    return Completion(_with_data(counts, counts.data - scored), _with_data(counts, scored))


def completion_score(engine: TopicEngine, prepared: Any, halves: Completion) -> float:
    """Log-likelihood per scored token; nan where no document has two tokens."""
    total = 0.0
    for first in range(0, halves.observed.shape[0], DOCUMENTS_A_BATCH):
        rows = slice(first, first + DOCUMENTS_A_BATCH)
        observed, scored = (engine.hold(Batch.of(half[rows])) for half in halves)
        weights = engine.infer(prepared, observed).weights
        total += float(engine.log_likelihood(prepared, weights, scored).sum())
    return total / halves.n_scored if halves.n_scored else float("nan")


def _with_data(counts: sparse.csr_matrix, data: Any) -> sparse.csr_matrix:
    part = sparse.csr_matrix((data.astype(np.int32), counts.indices, counts.indptr), counts.shape, copy=True)
    part.eliminate_zeros()
    return part
