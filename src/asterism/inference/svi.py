"""Stochastic variational inference: minibatches in shuffled order, or a stream that is seen once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from scipy import sparse

from ..engines.base import Engine
from ..model import random, svi
from ..model.state import Batch, Topics
from .base import one_blas_thread


@dataclass(frozen=True)
class SviSettings:
    batch_size: int
    step_offset: float
    step_exponent: float
    total_documents: int | None  # of a stream


class Seen(NamedTuple):
    """What a model has learned from so far: where step sizes and random numbers go on."""

    sweeps: int
    batches: int
    documents: int


NOTHING_SEEN = Seen(0, 0, 0)


class SviLearner:
    """Algorithm 2 of the paper over a corpus, again and again."""

    def __init__(
        self,
        topics: Topics,
        counts: sparse.csr_matrix,
        engine: Engine,
        settings: SviSettings,
        seed: int,
        seen: Seen = NOTHING_SEEN,
    ) -> None:
        self.topics, self.counts, self.engine = topics, counts, engine
        self.settings, self.seed = settings, seed
        self.first_sweep, self.n_batches, self.n_steps = seen.sweeps, seen.batches, 0

    def warm_up(self) -> Iterator[int]:
        """None is needed: the first step has size 1."""
        return iter(())

    def sweep(self, sweep: int) -> Iterator[int]:
        self.n_steps = 0
        sweep += self.first_sweep  # random numbers go on, and step sizes
        n_documents = self.counts.shape[0]
        for batch in shuffled_batches(self.counts, self.settings.batch_size, self.seed, sweep):
            self.topics, steps = learn_batch(
                self.topics, batch, self.engine, n_documents, self.n_batches, self.settings, self.seed, sweep
            )
            self.n_batches += 1
            self.n_steps += steps
            yield len(batch)

    def is_done(self, sweep: int, has_settled: bool) -> bool:
        return has_settled

    def finish(self, best: Topics, heldout: sparse.csr_matrix | None) -> Topics:
        return best

    def facts(self) -> dict[str, float]:
        """Of the last sweep: local rounds a document, and the last batch's step size."""
        settings = self.settings
        step = svi.step_size(self.n_batches - 1, settings.step_offset, settings.step_exponent)
        return {"local_steps": self.n_steps / self.counts.shape[0], "step_size": step}


def learn_stream(
    topics: Topics, batches: Iterable[Batch], engine: Engine, settings: SviSettings, seed: int, seen: Seen
) -> tuple[Topics, Seen]:
    """Learn from batches that are seen once, going on from what was `seen` before."""
    with one_blas_thread():
        for batch in batches:
            total = max(settings.total_documents or 0, seen.documents + len(batch))
            topics, _ = learn_batch(topics, batch, engine, total, seen.batches, settings, seed, seen.sweeps)
            seen = Seen(seen.sweeps, seen.batches + 1, seen.documents + len(batch))
    return topics, seen


def learn_batch(
    topics: Topics,
    batch: Batch,
    engine: Engine,
    total_documents: int,
    iteration: int,
    settings: SviSettings,
    seed: int,
    sweep: int,
) -> tuple[Topics, int]:
    """The topics after one batch, and the local rounds its documents took."""
    statistics = engine.statistics(engine.prepare(topics), batch, seed, sweep)
    step = svi.step_size(iteration, settings.step_offset, settings.step_exponent)
    return svi.update(topics, statistics, total_documents / len(batch), step), statistics.n_steps


def shuffled_batches(counts: sparse.csr_matrix, batch_size: int, seed: int, sweep: int) -> Iterator[Batch]:
    """Every document once, in an order of this sweep's own."""
    order = random.permutation(counts.shape[0], seed, sweep, random.SHUFFLE)
    for first in range(0, len(order), batch_size):
        yield Batch.of(counts, order[first : first + batch_size])


def consecutive_batches(counts: sparse.csr_matrix, batch_size: int, first_document: int) -> Iterator[Batch]:
    """Every document once, in the given order; the first is document `first_document` of its stream."""
    for first in range(0, counts.shape[0], batch_size):
        yield Batch.of(counts[first : first + batch_size], first_document=first_document + first)
