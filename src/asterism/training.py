"""The only training loop: sweeps, held-out score, convergence, the best state."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from .engines.base import TopicEngine
from .evaluation.completion import Completion, completion_score
from .inference.base import Learner, one_blas_thread
from .inference.tuning import tuned

logger = logging.getLogger(__name__)

# Evaluations without a better score before training ends.
PATIENCE = 3


@dataclass(frozen=True)
class TrainingSettings:
    max_sweeps: int
    tol: float  # stop when the held-out score changes by less between two evaluations
    evaluate_every: int  # sweeps
    tuned: tuple[str, ...] = ()  # priors that held-out documents choose


@dataclass(frozen=True)
class SweepRecord:
    """One line of a model's history."""

    sweep: int
    seconds: float  # since training began
    documents_per_second: float  # of this sweep's updates
    heldout_score: float | None  # log-likelihood a token, document completion
    local_steps: float | None = None  # rounds a document, where the inference counts them
    step_size: float | None = None  # of the sweep's last batch, where there is one


@dataclass(frozen=True)
class Progress:
    """Where training is; what a progress bar is told after every batch."""

    sweep: int  # from 0; -1 is the warm-up
    max_sweeps: int
    documents: int  # of this sweep, done
    n_documents: int  # of a sweep
    heldout_score: float | None  # the latest


@dataclass(frozen=True)
class Trained:
    topics: Any  # the model's state
    history: list[SweepRecord]
    converged: bool


Report = Callable[[Progress], None]


def train(
    learner: Learner,
    n_documents: int,
    heldout: Completion | None,
    engine: TopicEngine,
    settings: TrainingSettings,
    report: Report,
) -> Trained:
    """Sweep over the documents until the held-out score settles or max_sweeps is reached; the best state wins."""
    with one_blas_thread():
        return _train(learner, n_documents, heldout, engine, settings, report)


def _train(
    learner: Learner,
    n_documents: int,
    heldout: Completion | None,
    engine: TopicEngine,
    settings: TrainingSettings,
    report: Report,
) -> Trained:
    began = time.perf_counter()
    history: list[SweepRecord] = []
    scores: list[float] = []
    best: Any = None
    for done in learner.warm_up():
        report(Progress(-1, settings.max_sweeps, done, n_documents, None))
    for sweep in range(settings.max_sweeps):
        sweep_began, seen = time.perf_counter(), 0
        for done in learner.sweep(sweep):
            seen += done
            report(Progress(sweep, settings.max_sweeps, seen, n_documents, scores[-1] if scores else None))
        speed = seen / (time.perf_counter() - sweep_began)
        is_due = (sweep + 1) % settings.evaluate_every == 0 or sweep + 1 == settings.max_sweeps
        if heldout is not None and is_due:
            learner.topics, score = tuned(learner.topics, settings.tuned, partial(_score, engine, heldout))
            scores.append(score)
            best = learner.topics if scores[-1] == max(scores) else best
            report(Progress(sweep, settings.max_sweeps, seen, n_documents, scores[-1]))
        latest = scores[-1] if heldout is not None and is_due else None
        history.append(SweepRecord(sweep + 1, time.perf_counter() - began, speed, latest, **learner.facts()))
        logger.info("%s", history[-1])
        if learner.is_done(sweep, has_settled(scores, settings.tol)):
            break
    topics = learner.finish(best or learner.topics, None if heldout is None else heldout.whole)
    return Trained(topics, history, has_settled(scores, settings.tol))


def _score(engine: TopicEngine, heldout: Completion, topics: Any) -> float:
    return completion_score(engine, engine.prepare(topics), heldout)


def has_settled(scores: list[float], tol: float) -> bool:
    """Whether the last two held-out scores differ by less than tol, or there was no better one in the last PATIENCE.
    With a tol of 0 nothing settles."""
    if len(scores) < 2 or not tol:
        return False
    return abs(scores[-1] - scores[-2]) < tol or len(scores) - 1 - scores.index(max(scores)) >= PATIENCE
