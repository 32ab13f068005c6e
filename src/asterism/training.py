"""The only training loop: batches, sweeps, held-out score, convergence."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from scipy import sparse
from threadpoolctl import threadpool_limits

from .engines.base import Engine
from .evaluation.completion import Completion, completion_score
from .model import random, svi
from .model.state import Batch, Topics

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingSettings:
    batch_size: int
    max_sweeps: int
    tol: float  # stop when the held-out score changes by less between two evaluations
    evaluate_every: int  # sweeps
    step_offset: float
    step_exponent: float
    total_documents: int | None  # of a stream


@dataclass(frozen=True)
class SweepRecord:
    """One line of a model's history."""

    sweep: int
    seconds: float  # since training began
    documents_per_second: float  # of this sweep's updates
    local_steps: float  # rounds a document
    step_size: float  # of the sweep's last batch
    heldout_score: float | None  # log-likelihood a token, document completion


@dataclass(frozen=True)
class Progress:
    """Where training is; what a progress bar is told after every batch."""

    sweep: int  # from 0
    max_sweeps: int
    documents: int  # of this sweep, done
    n_documents: int  # of a sweep
    heldout_score: float | None  # the latest


class Seen(NamedTuple):
    """What a model has learned from so far: where step sizes and random numbers go on."""

    sweeps: int
    batches: int
    documents: int


@dataclass(frozen=True)
class Trained:
    topics: Topics
    seen: Seen
    history: list[SweepRecord]
    converged: bool


Report = Callable[[Progress], None]


def train(
    topics: Topics,
    counts: sparse.csr_matrix,
    heldout: Completion | None,
    engine: Engine,
    settings: TrainingSettings,
    seed: int,
    report: Report,
) -> Trained:
    """Sweep over the documents until the held-out score settles or max_sweeps is reached."""
    with _one_blas_thread():
        return _train(topics, counts, heldout, engine, settings, seed, report)


def _train(
    topics: Topics,
    counts: sparse.csr_matrix,
    heldout: Completion | None,
    engine: Engine,
    settings: TrainingSettings,
    seed: int,
    report: Report,
) -> Trained:
    began = time.perf_counter()
    history: list[SweepRecord] = []
    scores: list[float] = []
    iteration = 0
    for sweep in range(settings.max_sweeps):
        sweep_began, seen, steps = time.perf_counter(), 0, 0
        for batch in shuffled_batches(counts, settings.batch_size, seed, sweep):
            topics, taken = learn_batch(topics, batch, engine, counts.shape[0], iteration, settings, seed, sweep)
            iteration, seen, steps = iteration + 1, seen + len(batch), steps + taken
            report(Progress(sweep, settings.max_sweeps, seen, counts.shape[0], scores[-1] if scores else None))
        speed = seen / (time.perf_counter() - sweep_began)
        is_due = (sweep + 1) % settings.evaluate_every == 0 or sweep + 1 == settings.max_sweeps
        if heldout is not None and is_due:
            scores.append(completion_score(engine, engine.prepare(topics), heldout))
            report(Progress(sweep, settings.max_sweeps, seen, counts.shape[0], scores[-1]))
        history.append(
            SweepRecord(
                sweep + 1,
                time.perf_counter() - began,
                speed,
                steps / seen,
                svi.step_size(iteration - 1, settings.step_offset, settings.step_exponent),
                scores[-1] if heldout is not None and is_due else None,
            )
        )
        logger.info("%s", history[-1])
        if has_settled(scores, settings.tol):
            break
    converged = has_settled(scores, settings.tol)
    return Trained(topics, Seen(len(history), iteration, counts.shape[0]), history, converged)


def has_settled(scores: list[float], tol: float) -> bool:
    """Whether the last two held-out scores differ by less than tol."""
    return len(scores) > 1 and abs(scores[-1] - scores[-2]) < tol


def learn_stream(
    topics: Topics, batches: Iterable[Batch], engine: Engine, settings: TrainingSettings, seed: int, seen: Seen
) -> tuple[Topics, Seen]:
    """Learn from batches that are seen once, going on from what was `seen` before."""
    with _one_blas_thread():
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
    settings: TrainingSettings,
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


def _one_blas_thread() -> Any:
    """Bits of a matrix product can depend on how many threads share it, so BLAS gets one."""
    return threadpool_limits(1, user_api="blas")
