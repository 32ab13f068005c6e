"""Stochastic variational inference: minibatches in shuffled order, or a stream that is seen once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from scipy import sparse

from ..engines.base import TopicEngine
from ..model import random, svi
from ..model.state import Batch
from .base import one_blas_thread

# (topics, what a batch says of them, documents for each of the batch's, step size) -> topics
Update: TypeAlias = Callable[[Any, Any, float, float], Any]


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
    """Minibatches of a corpus, again and again: with svi.update this is Algorithm 2 of the paper."""

    def __init__(
        self,
        topics: Any,
        counts: sparse.csr_matrix,
        engine: TopicEngine,
        update: Update,
        settings: SviSettings,
        seed: int,
        seen: Seen = NOTHING_SEEN,
    ) -> None:
        self.topics, self.counts, self.engine, self.update = topics, counts, engine, update
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
                self.topics,
                batch,
                self.engine,
                self.update,
                n_documents,
                self.n_batches,
                self.settings,
                self.seed,
                sweep,
            )
            self.n_batches += 1
            self.n_steps += steps
            yield len(batch)

    def is_done(self, sweep: int, has_settled: bool) -> bool:
        return has_settled

    def finish(self, best: Any, heldout: sparse.csr_matrix | None) -> Any:
        return best

    def facts(self) -> dict[str, float]:
        """Of the last sweep: local rounds a document, and the last batch's step size."""
        settings = self.settings
        step = svi.step_size(self.n_batches - 1, settings.step_offset, settings.step_exponent)
        return {"local_steps": self.n_steps / self.counts.shape[0], "step_size": step}


def learn_stream(
    topics: Any,
    batches: Iterable[Batch],
    engine: TopicEngine,
    update: Update,
    settings: SviSettings,
    seed: int,
    seen: Seen,
) -> tuple[Any, Seen]:
    """Learn from batches that are seen once, going on from what was `seen` before."""
    with one_blas_thread():
        for batch in batches:
            total = max(settings.total_documents or 0, seen.documents + len(batch))
            topics, _ = learn_batch(topics, batch, engine, update, total, seen.batches, settings, seed, seen.sweeps)
            seen = Seen(seen.sweeps, seen.batches + 1, seen.documents + len(batch))
    return topics, seen


def learn_batch(
    topics: Any,
    batch: Batch,
    engine: TopicEngine,
    update: Update,
    total_documents: int,
    iteration: int,
    settings: SviSettings,
    seed: int,
    sweep: int,
) -> tuple[Any, int]:
    """The topics after one batch, and the local rounds its documents took."""
    statistics = engine.statistics(engine.prepare(topics), batch, seed, sweep)
    step = svi.step_size(iteration, settings.step_offset, settings.step_exponent)
    return update(topics, statistics, total_documents / len(batch), step), statistics.n_steps


def shuffled_batches(counts: sparse.csr_matrix, batch_size: int, seed: int, sweep: int) -> Iterator[Batch]:
    """Every document once, in an order of this sweep's own."""
    order = random.permutation(counts.shape[0], seed, sweep, random.SHUFFLE)
    for first in range(0, len(order), batch_size):
        yield Batch.of(counts, order[first : first + batch_size])


def consecutive_batches(counts: sparse.csr_matrix, batch_size: int, first_document: int) -> Iterator[Batch]:
    """Every document once, in the given order; the first is document `first_document` of its stream."""
    for first in range(0, counts.shape[0], batch_size):
        yield Batch.of(counts[first : first + batch_size], first_document=first_document + first)
