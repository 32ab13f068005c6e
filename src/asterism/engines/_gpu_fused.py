"""What the engine asks of Triton: the same answers as those of _gpu_tokens.py, _gpu_lda.py and _gpu_joint.py."""

from __future__ import annotations

from typing import Any

import torch

from . import _gpu_kernels as kernels
from ._gpu_corpus import DeviceBatch, documents_of_entries
from ._gpu_rows import Heaviest, Rows, row_sums, rows_of
from ._gpu_streams import StreamedLook
from ._gpu_tokens import SMALLEST_SHARE, Table

__all__ = ["StreamedLook", "counts_in_groups", "draw", "expected_counts", "spread"]

Tensor = Any
BLOCK = 512  # pairs that a program looks at together
TOKENS_A_TILE = 32  # of a group, compared with as many others at once


def draw(
    batch: DeviceBatch,
    shares: Tensor,
    top: Heaviest,
    table: Table,
    streams: Tensor,
    before: Tensor | None,
) -> Tensor:
    """A topic for every token of the batch, as GpuEngine._draw."""
    drawn = torch.empty(int(batch.token_offsets[-1]), dtype=torch.int32, device=shares.device)
    kernels.draw_entries[(len(batch.words),)](
        *(documents_of_entries(batch), batch.words, batch.token_offsets, batch.document_offsets, streams),
        *(table.indptr, table.topics, table.weights, table.rest),
        *(shares, top.least, top.last, top_total(shares, top, table), drawn if before is None else before, drawn),
        *(shares.shape[1], table.beta, before is not None, BLOCK),
    )
    return drawn.long()


def expected_counts(
    batch: DeviceBatch, shares: Tensor, top: Heaviest, table: Table, tau: float, counted: float
) -> Tensor:
    """E[n] [d, k], as Expectation.counts, but the heaviest topics are those of these shares; given a τ, tokens leave
    themselves out."""
    units = torch.zeros(shares.shape, dtype=torch.int32, device=shares.device)
    top_share = torch.empty(len(batch.words), dtype=torch.float64, device=shares.device)
    kernels.expect_entries[(len(batch.words),)](
        *(documents_of_entries(batch), batch.words, batch.counts, batch.lengths),
        *(table.indptr, table.topics, table.weights, table.rest),
        *(shares, top.least, top.last, top_total(shares, top, table), units, top_share),
        *(shares.shape[1], tau, counted, tau > 0, BLOCK),
    )
    counts = units * (batch.lengths / kernels.UNITS.value)[:, None].to(shares.dtype)
    of_top = row_sums(top_share, rows_of(batch.indptr.diff()))[:, None] * _top_mass(shares, top, table)
    return counts.scatter_add_(1, top.columns, of_top.to(counts.dtype))


def top_total(shares: Tensor, top: Heaviest, table: Table) -> Tensor:
    """Mass of each document's top bucket [d]."""
    return _top_mass(shares, top, table).sum(dim=1, dtype=torch.float64)


def _top_mass(shares: Tensor, top: Heaviest, table: Table) -> Tensor:
    mass = shares.gather(1, top.columns).clamp_min(SMALLEST_SHARE) * table.rest[top.columns]
    return torch.where(top.is_one, mass, 0)


def spread(
    batch: DeviceBatch, shares: Tensor, table: Table, tau: float, counted: float, unit: int, expected: Tensor
) -> None:
    """memoized.expected_word_topic of the batch."""
    kernels.spread_entries[(len(batch.words),)](
        *(documents_of_entries(batch), batch.words, batch.counts),
        *(table.indptr, table.topics, table.weights, table.rest),
        *(shares, expected, shares.shape[1], tau, counted, unit, BLOCK),
    )


def counts_in_groups(rows: Rows, walks: Tensor) -> Tensor:
    """For each token's walks how many of its group's tokens have these topics [token, walk]."""
    counts = torch.empty(walks.shape, dtype=torch.int32, device=walks.device)
    kernels.count_in_groups[(len(rows.starts) - 1,)](rows.starts, walks, counts, walks.shape[1], TOKENS_A_TILE)
    return counts
