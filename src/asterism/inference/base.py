"""What the training loop asks of an inference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from scipy import sparse
from threadpoolctl import threadpool_limits


class Learner(Protocol):
    """Holds what an inference remembers between sweeps."""

    topics: Any  # the model's state
    n_batches: int  # learned from so far: where the step sizes of partial_fit go on

    def warm_up(self) -> Iterator[int]:
        """What comes before the first sweep; yields the number of documents after each batch."""

    def sweep(self, sweep: int) -> Iterator[int]:
        """Learn from every document once; yields the number of documents after each batch."""

    def is_done(self, sweep: int, has_settled: bool) -> bool:
        """Whether training may end after this sweep, given whether the held-out score has settled."""

    def finish(self, best: Any, heldout: sparse.csr_matrix | None) -> Any:
        """The topics that training returns, given the best ones and the documents that chose them [d, v]."""

    def facts(self) -> dict[str, float]:
        """Figures of the last sweep for the history."""


def one_blas_thread() -> Any:
    """Bits of a matrix product can depend on how many threads share it, so BLAS gets one."""
    return threadpool_limits(1, user_api="blas")
