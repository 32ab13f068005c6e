"""How much is in work at a time. Where the device has no room for it, parts become smaller, and the log says so."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import torch

from ..errors import AsterismError
from ._gpu_rows import pieces

logger = logging.getLogger(__name__)

Tensor = Any


class Room:
    """For work on so many elements of an array at a time; it stays smaller once there was no room for more."""

    def __init__(self, what: str, most: int, device: Any = None) -> None:
        self.what, self.most, self.device = what, most, device

    def alike(self, n_rows: int, size: int, work: Callable[[int, int], None]) -> None:
        """work(first, last) for runs of rows of `size` elements each.

        Where memory runs out, it is done again with fewer rows: so work computes first and writes last.
        """

        def runs(first: int) -> Iterator[tuple[int, int]]:
            n = max(1, self.most // size)
            return ((start, min(start + n, n_rows)) for start in range(first, n_rows, n))

        self._go_through(n_rows, runs, work)

    def each(self, sizes: Tensor, work: Callable[[int, int], None]) -> None:
        """The same for rows of different sizes."""

        def runs(first: int) -> Iterator[tuple[int, int]]:
            return ((first + start, first + last) for start, last in pieces(sizes[first:], self.most))

        self._go_through(len(sizes), runs, work)

    def _go_through(self, n_rows: int, runs: Callable[[int], Iterator[tuple[int, int]]], work: Any) -> None:
        done = 0
        while done < n_rows:
            try:
                with on(self.device):
                    for first, last in runs(done):
                        work(first, last)
                        done = last
            except torch.OutOfMemoryError:
                self._shrink(is_least=last - first <= 1)

    def _shrink(self, is_least: bool) -> None:
        if is_least:
            raise AsterismError(f"the device has no room for a single row of {self.what}")
        self.most //= 2
        logger.warning("out of device memory: %s in parts of %s from now on", self.what, f"{self.most:,}")
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def on(device: Any) -> Any:
    """Triton launches its kernels on CUDA's current device, not on that of their arguments."""
    return torch.cuda.device(device) if device is not None and device.type == "cuda" else nullcontext()
