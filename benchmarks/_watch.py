"""Our training with an eye on it: how test perplexity falls with the time spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from _rivals import Counts
from asterism import TopicEmbeddingModel
from asterism.evaluation.completion import Completion, completion_score
from asterism.inference.memoized import MemoizedLearner
from asterism.inference.warm_start import WarmStart

LDA_SWEEPS = 100, 200, 300, 500, 700


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """A call's result, and its seconds by the clock and of computation, which a busy machine does not lengthen."""
    began, computed = time.perf_counter(), time.process_time()
    result = work()
    return result, {"train_seconds": time.perf_counter() - began, "train_cpu_seconds": time.process_time() - computed}


def watched_fit(
    counts: Counts, halves: Completion, sweeps: Collection[int], n_topics: int, **settings: Any
) -> tuple[TopicEmbeddingModel, dict[str, Any]]:
    """A trained model, the time it took, and its curve: rows of seconds by the clock and of computation since training
    began, and the test documents' perplexity, after some of LDA's sweeps if embeddings were found then, after those of
    the sweeps that there were (0: after the warm start), and of what was returned in the end."""
    states: list[tuple[float, float, Any]] = []

    class Watched(TopicEmbeddingModel):
        def _learner(self, *arguments: Any) -> Any:
            learner = super()._learner(*arguments)
            sweep = learner.sweep

            def watched(number: int) -> Iterator[int]:
                if number == 0:
                    note(learner.topics)
                yield from sweep(number)
                if number + 1 in sweeps:
                    note(learner.topics)

            learner.sweep = watched
            if isinstance(learner, MemoizedLearner):
                watch_start(learner, note)
            return learner

    def note(topics: Any) -> None:
        states.append((time.perf_counter(), time.process_time(), topics))

    model = Watched(n_topics, **settings)
    began = time.perf_counter(), time.process_time()
    _, times = timed(lambda: model.fit(counts))
    note(model.state_)
    engine = model._engine()
    curve = [
        (clock - began[0], computed - began[1], math.exp(-completion_score(engine, engine.prepare(topics), halves)))
        for clock, computed, topics in states
    ]
    return model, times | {"curve": curve}


def watch_start(learner: MemoizedLearner, note: Callable[[Any], None]) -> None:
    """Note what training would go on from after LDA_SWEEPS sweeps of LDA; the time that takes is counted, too."""
    swept_from = learner._swept_from

    def watched(*arguments: Any) -> WarmStart:
        start = swept_from(*arguments)
        look = start._look

        def watched_look() -> None:
            look()
            if start.n_sweeps in LDA_SWEEPS:
                how = start.topics.n_dims, start.topics.priors, learner.seed
                embedding, mean = learner.engine.embed_topics(start.document_topic(), *how)
                note(replace(start.topics, embedding=embedding, mean=mean))

        start._look = watched_look  # type: ignore[method-assign]
        return start

    learner._swept_from = watched  # type: ignore[method-assign]
