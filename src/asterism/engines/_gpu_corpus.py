"""Documents and counted words on the device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy import sparse

from ..model.state import Batch
from ._gpu_rows import rows_of, starts_of

Tensor = Any


@dataclass(frozen=True)
class DeviceBatch:
    """A `Batch` whose arrays are tensors; its slices are views."""

    indptr: Tensor
    words: Tensor
    counts: Tensor
    documents: Tensor
    n_words: int

    @classmethod
    def on(cls, batch: Batch | DeviceBatch, device: Any) -> DeviceBatch:
        if isinstance(batch, DeviceBatch):
            return batch
        indptr, words, counts, documents = (
            as_tensor(values, device) for values in (batch.indptr, batch.words, batch.counts, batch.documents)
        )
        return cls(indptr, words, counts, documents, batch.n_words)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, rows: slice) -> DeviceBatch:
        first, last, _ = rows.indices(len(self))
        start, stop = (int(bound) for bound in self.indptr[[first, last]])
        indptr = self.indptr[first : last + 1] - start
        return DeviceBatch(
            indptr, self.words[start:stop], self.counts[start:stop], self.documents[first:last], self.n_words
        )

    def of_rows(self, rows: Tensor) -> DeviceBatch:
        """Some documents, in this order."""
        entry = rows_of(self.indptr.diff()[rows])
        kept = self.indptr[rows][entry.row] + entry.place
        return DeviceBatch(entry.starts, self.words[kept], self.counts[kept], self.documents[rows], self.n_words)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self.n_words

    @cached_property
    def token_offsets(self) -> Any:
        return starts_of(self.counts)

    @cached_property
    def document_offsets(self) -> Any:
        return self.token_offsets[self.indptr]

    @cached_property
    def lengths(self) -> Any:
        return self.document_offsets.diff()


def documents_of_entries(batch: DeviceBatch) -> Tensor:
    """The document of each entry."""
    return rows_of(batch.indptr.diff()).row


def documents_of(batch: DeviceBatch, rows: Tensor) -> tuple[DeviceBatch, Tensor]:
    """Some documents of a batch, and where it has their tokens."""
    offsets, token = batch.document_offsets, rows_of(batch.lengths[rows])
    tokens = offsets[rows][token.row] + token.place
    return batch if len(rows) == len(batch) else batch.of_rows(rows), tokens


def token_words(batch: DeviceBatch) -> Tensor:
    n = int(batch.token_offsets[-1])
    return torch.repeat_interleave(batch.words, batch.counts.long(), output_size=n)


def as_tensor(values: Any, device: Any) -> Tensor:
    """On the device; what is there already is not copied, and on the CPU nothing is."""
    tensor = values if torch.is_tensor(values) else torch.from_numpy(np.ascontiguousarray(values))
    return tensor.to(device)


def as_topics(values: Any, device: Any) -> Tensor:
    """Numbers of topics on the device, signed, since torch computes little with unsigned numbers."""
    tensor = as_tensor(values, device)
    return tensor if tensor.dtype in (torch.int32, torch.int64) else tensor.to(torch.int32)


def write(tensor: Tensor, out: Any) -> None:
    """Put it where it came from: into an array, or a tensor that may be elsewhere."""
    target = out if torch.is_tensor(out) else torch.from_numpy(out)
    if target.data_ptr() != tensor.data_ptr():
        target.copy_(tensor)


def on_host(tensor: Tensor) -> Any:
    return tensor.cpu().numpy()


class DeviceCounts:
    """How often words were counted in topics [v, k], on the device: what a scipy matrix is on the host, as far as
    learning needs it. Counts are whole numbers, or multiples of a unit, so that they add exactly in any order."""

    def __init__(self, indptr: Tensor, indices: Tensor, data: Tensor, shape: tuple[int, int]) -> None:
        self.indptr, self.indices, self.data, self.shape = indptr, indices, data, shape

    @classmethod
    def on(cls, counts: Any, device: Any) -> DeviceCounts:
        if isinstance(counts, DeviceCounts):
            return counts
        indptr = as_tensor(counts.indptr.astype(np.int64), device)
        indices, data = as_tensor(counts.indices, device), as_tensor(counts.data.astype(np.float64), device)
        return cls(indptr, indices.to(torch.int32), data, counts.shape)

    @classmethod
    def of_pairs(cls, rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> DeviceCounts:
        """Every pair as often as it occurs."""
        keys, found = torch.unique_consecutive((rows.long() * shape[1] + columns).sort().values, return_counts=True)
        return cls._of_keys(keys, found.to(torch.float64), shape)

    @classmethod
    def _of_keys(cls, keys: Tensor, data: Tensor, shape: tuple[int, int]) -> DeviceCounts:
        """From pairs row * columns + column in ascending order."""
        bounds = torch.arange(shape[0] + 1, device=keys.device) * shape[1]
        return cls(torch.searchsorted(keys, bounds), (keys % shape[1]).to(torch.int32), data, shape)

    @property
    def nnz(self) -> int:
        return len(self.data)

    @property
    def keys(self) -> Tensor:
        """row * columns + column, ascending."""
        return self.rows * self.shape[1] + self.indices

    @property
    def rows(self) -> Tensor:
        return rows_of(self.indptr.diff()).row

    def sum(self, axis: int | None = None, dtype: Any = np.float64) -> Any:
        """As NumPy has it."""
        if axis is None:
            return float(self.data.sum())
        index = self.indices.long() if axis == 0 else self.rows
        return sums_by(index, self.data, self.shape[1 - axis]).cpu().numpy().astype(dtype, copy=False)

    def __add__(self, other: DeviceCounts) -> DeviceCounts:
        keys = torch.cat([self.keys, other.keys])
        keys, order = keys.sort(stable=True)
        data = torch.cat([self.data, other.data])[order]
        keys, place = torch.unique_consecutive(keys, return_inverse=True)
        return self._of_keys(keys, sums_by(place, data, len(keys)), self.shape)

    def __sub__(self, other: DeviceCounts) -> DeviceCounts:
        return self + other.with_data(-other.data)

    def __truediv__(self, number: float) -> DeviceCounts:
        return self.with_data(self.data / number)

    def astype(self, dtype: Any) -> DeviceCounts:
        """Counts are float64 already."""
        return self

    def with_data(self, data: Tensor) -> DeviceCounts:
        return DeviceCounts(self.indptr, self.indices, data, self.shape)

    def eliminate_zeros(self) -> None:
        is_there = self.data != 0
        if not bool(is_there.all()):
            kept = torch.nn.functional.pad(is_there.cumsum(0), (1, 0))
            self.indptr, self.indices, self.data = kept[self.indptr], self.indices[is_there], self.data[is_there]

    def first_rows(self, n: int) -> DeviceCounts:
        end = int(self.indptr[n])
        return DeviceCounts(self.indptr[: n + 1], self.indices[:end], self.data[:end], (n, self.shape[1]))

    def on_host(self) -> sparse.csr_matrix:
        arrays = (part.cpu().numpy() for part in (self.data, self.indices, self.indptr))
        return sparse.csr_matrix(tuple(arrays), self.shape)


def sums_by(index: Tensor, values: Tensor, n: int) -> Tensor:
    """Σ of the values with each index [n]."""
    return torch.zeros(n, dtype=values.dtype, device=values.device).index_add_(0, index, values)
