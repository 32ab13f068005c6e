"""Rows of different lengths, end to end: what the GPU engine makes of loops over words and topics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

Tensor = Any


class Rows(NamedTuple):
    """Elements of rows, row after row."""

    starts: Tensor  # row r has elements starts[r] : starts[r + 1]
    row: Tensor  # of each element
    place: Tensor  # of each element in its row


def rows_of(lengths: Tensor) -> Rows:
    starts = starts_of(lengths)
    n = int(starts[-1])
    row = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths, output_size=n)
    return Rows(starts, row, torch.arange(n, device=lengths.device) - starts[row])


def starts_of(lengths: Tensor) -> Tensor:
    return torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int64), (1, 0))


def row_sums(values: Tensor, rows: Rows) -> Tensor:
    """Σ of each row, in the order of its elements, whoever computes it."""
    if not len(values):
        return values.new_zeros(len(rows.starts) - 1)
    return torch.segment_reduce(values, "sum", lengths=rows.starts.diff(), initial=0)


def running_shares(mass: Tensor, rows: Rows, totals: Tensor) -> Tensor:
    """Row r's running sum as a share of its total, plus r: one ascending line through all rows."""
    share = mass / totals.clamp_min(torch.finfo(totals.dtype).tiny)[rows.row]
    is_empty = totals == 0
    return share.cumsum(0) + (is_empty.cumsum(0) - is_empty.long())[rows.row]


def pick(line: Tensor, starts: Tensor, row: Tensor, share: Tensor) -> Tensor:
    """The element of `row` at which its running share passes `share`."""
    found = torch.searchsorted(line, row + share, right=True)
    return torch.minimum(torch.maximum(found, starts[row]), starts[row + 1] - 1)


def pieces(lengths: Tensor, most: int) -> Iterator[tuple[int, int]]:
    """Bounds of runs of rows with no more than so many elements each, but at least one row."""
    ends = lengths.cumsum(0)
    first, done = 0, 0
    while first < len(lengths):
        last = max(first + 1, int(torch.searchsorted(ends, done + most, right=True)))
        done = int(ends[last - 1])
        yield first, last
        first = last


def padded(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Columns of each row's true entries, one after the other [row, n], and which of these places are taken."""
    row, column = mask.nonzero(as_tuple=True)
    found = mask.sum(dim=1)
    starts = starts_of(found)
    most = int(found.max()) if len(found) else 0
    columns = torch.zeros((len(mask), most), dtype=torch.int64, device=mask.device)
    place = torch.arange(len(row), device=mask.device) - starts[row]
    columns[row, place] = column
    return columns, torch.arange(most, device=mask.device) < found[:, None]


def heaviest(values: Tensor, n: int) -> Tensor:
    """tokens.heaviest_topics of each row as marks: the n largest, the lower column first among equals."""
    if n >= values.shape[1]:
        return torch.ones_like(values, dtype=torch.bool)
    least = nth_largest(values, n)[:, None]
    above, ties = values > least, values == least
    room = n - above.sum(dim=1, keepdim=True)
    return above | (ties & (ties.cumsum(dim=1) <= room))


# Rows are looked at in tiles of so many columns: sorting whole rows would take longer than all else.
TILE = 256


def nth_largest(values: Tensor, n: int) -> Tensor:
    """The n-th largest of each row [row]. That of the tiles' largest is a bound from below, and few are above it."""
    n_tiles = values.shape[1] // TILE
    if n_tiles <= 2 * n:
        return torch.topk(values, n, dim=1).values[:, -1]
    tiles = values[:, : n_tiles * TILE].reshape(len(values), n_tiles, TILE).amax(dim=2)
    bound = torch.topk(tiles, n, dim=1).values[:, -1:]
    columns, is_there = padded(values >= bound)
    largest = torch.where(is_there, values.gather(1, columns), -torch.inf)
    return torch.topk(largest, n, dim=1).values[:, -1]
