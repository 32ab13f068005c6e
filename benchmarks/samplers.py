"""LDA's two samplers on part of arXiv: seconds until they predict equally well, by the number of topics.

python benchmarks/samplers.py          about 15 minutes on one core; writes results/samplers.json
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from _harness import DATA, write
from asterism import TopicEmbeddingModel
from asterism.corpus.uci import read_counts
from asterism.inference.lda_samplers import MOST_SCORED, SWEEP_KEY
from asterism.inference.memoized import MemoizedLearner, MemoizedSettings, unknown_topics
from asterism.inference.warm_start import CHECK_EVERY, WarmStart

N_DOCUMENTS = 30_000
# Topics, and sweeps of each sampler: about as many seconds of both.
STUDIES = (
    (100, {"sparse": 60, "alias": 200}),
    (1000, {"sparse": 100, "alias": 400}),
    (10_000, {"sparse": 60, "alias": 400}),
)


def curve(counts: Any, n_topics: int, sampler: str, n_sweeps: int) -> list[tuple[float, float]]:
    """Seconds of computation and mean log-probability of a token given all others, every CHECK_EVERY sweeps."""
    model = TopicEmbeddingModel(n_topics, n_threads=1)
    topics = unknown_topics(n_topics, 1, counts.shape[1], model._priors())
    settings = MemoizedSettings(model.batch_size, n_sweeps, 1, sampler)
    learner = MemoizedLearner(counts, topics, model._engine(), settings, seed=0)
    list(learner.start(len(learner.corpus)).sweeps(1))  # compile
    start = learner.start(len(learner.corpus))
    seconds, found = 0.0, []
    while start.n_sweeps < n_sweeps:
        began = time.process_time()
        for _ in start.sweeps(min(n_sweeps, start.n_sweeps + CHECK_EVERY)):
            pass
        seconds += time.process_time() - began
        found.append((seconds, score(start, learner.engine)))
    return found


def score(start: WarmStart, engine: Any) -> float:
    """By exact probabilities of the same documents, whoever sampled."""
    some, topics = start.corpus[:MOST_SCORED], start.topics
    n_tokens = some.token_offsets[-1]
    draws = start.draws[:n_tokens].copy()
    return float(engine.draw_lda(engine.every_pair(topics), some, draws, start.alpha, 0, SWEEP_KEY).sum() / n_tokens)


def seconds_until(found: list[tuple[float, float]], level: float) -> float:
    return float(np.interp(level, [score for _, score in found], [seconds for seconds, _ in found]))


def main() -> None:
    threadpool_limits(1)
    counts = read_counts(DATA / "arxiv" / "docword.arxiv.txt.gz")[:N_DOCUMENTS]
    figures = {}
    for n_topics, sweeps in STUDIES:
        curves = {sampler: curve(counts, n_topics, sampler, n) for sampler, n in sweeps.items()}
        level = min(found[-1][1] for found in curves.values())
        times = {sampler: seconds_until(found, level) for sampler, found in curves.items()}
        ratio = times["alias"] / times["sparse"]
        shown = f"draws {times['sparse']:.0f} s, walks {times['alias']:.0f} s ({ratio:.2f})"
        print(f"K = {n_topics}, {level:.3f} a token: {shown}", flush=True)
        figures[n_topics] = {"level": level, "seconds": times, "alias_over_sparse": ratio, "curves": curves}
    write("samplers", {"n_documents": N_DOCUMENTS, "by_topics": figures})


if __name__ == "__main__":
    main()
