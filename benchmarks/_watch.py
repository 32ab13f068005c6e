"""Our training with an eye on it: how test perplexity falls with the time spent."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

from _rivals import Counts
from asterism import TopicEmbeddingModel
from asterism.evaluation.completion import Completion, completion_score


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """A call's result, and its seconds by the clock and of computation, which a busy machine does not lengthen."""
    began, computed = time.perf_counter(), time.process_time()
    result = work()
    return result, {"train_seconds": time.perf_counter() - began, "train_cpu_seconds": time.process_time() - computed}


def watched_fit(
    counts: Counts, halves: Completion, sweeps: Collection[int], n_topics: int, **settings: Any
) -> tuple[TopicEmbeddingModel, dict[str, Any]]:
    """A trained model, the time it took, and its curve: rows of seconds by the clock and of computation since training
    began, and the test documents' perplexity, after those of the sweeps that there were (0: after the warm start), and
    of what was returned in the end."""
    states: dict[int, tuple[float, float, Any]] = {}

    class Watched(TopicEmbeddingModel):
        def _learner(self, *arguments: Any) -> Any:
            learner = super()._learner(*arguments)
            sweep = learner.sweep

            def watched(number: int) -> Iterator[int]:
                if number == 0:
                    note(0, learner.topics)
                yield from sweep(number)
                note(number + 1, learner.topics)

            learner.sweep = watched
            return learner

    def note(number: int, topics: Any) -> None:
        if number in sweeps:
            states[number] = time.perf_counter(), time.process_time(), topics

    model = Watched(n_topics, **settings)
    began = time.perf_counter(), time.process_time()
    _, times = timed(lambda: model.fit(counts))
    states[-1] = time.perf_counter(), time.process_time(), model.state_
    engine = model._engine()
    curve = [
        (clock - began[0], computed - began[1], math.exp(-completion_score(engine, engine.prepare(topics), halves)))
        for clock, computed, topics in states.values()
    ]
    return model, times | {"curve": curve}
