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


# Rows are looked at in tiles of so many columns: sorting whole rows would take longer than all else.
TILE = 256


class Heaviest(NamedTuple):
    """The n largest values of each row, the lower column first among equals."""

    least: Tensor  # the n-th largest [row]
    last: Tensor  # the last column among those that equal it [row]
    columns: Tensor  # where to look for all of them [row, some]
    is_one: Tensor  # which of these columns they are [row, some]

    def marks(self, values: Tensor) -> Tensor:
        column = torch.arange(values.shape[1], device=values.device)
        least = self.least[:, None]
        return (values > least) | ((values == least) & (column <= self.last[:, None]))


def heaviest(values: Tensor, n: int) -> Heaviest:
    """tokens.heaviest_topics of each row; values are 0 or more."""
    columns, is_there = _large_columns(values, n)
    found = torch.where(is_there, values.gather(1, columns), -1)
    least = torch.topk(found, min(n, values.shape[1]), dim=1).values[:, -1].contiguous()
    above, ties = found > least[:, None], found == least[:, None]
    ties &= ties.cumsum(dim=1) <= n - above.sum(dim=1, keepdim=True)
    return Heaviest(least, torch.where(ties, columns, 0).amax(dim=1), columns, above | ties)


def _large_columns(values: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Columns of each row's n largest values and few others, in ascending order, and which of these places are taken:
    the n-th of the tiles' largest values is a bound from below."""
    n_columns, n_tiles = values.shape[1], values.shape[1] // TILE
    if n_tiles <= 2 * n:
        columns = torch.arange(n_columns, device=values.device).expand(values.shape)
        return columns, torch.ones_like(columns, dtype=torch.bool)
    tiles = values[:, : n_tiles * TILE].unflatten(1, (n_tiles, TILE)).amax(dim=2)
    return padded(values >= torch.topk(tiles, n, dim=1).values[:, -1:])
