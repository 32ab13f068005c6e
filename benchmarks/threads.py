"""Speed-up by threads on part of arXiv, and whether results are the same to the last bit.

python benchmarks/threads.py --threads 1 2      minutes; writes results/threads-CORES.json

Each phase of training is timed by itself, threads in turn, so that noise falls on all alike: LDA's sweeps, embeddings
from how topics occur together, sweeps with draws, a soft sweep, and `transform`.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from _harness import DATA, median, seconds, write
from asterism import TopicEmbeddingModel
from asterism.corpus.uci import read_counts
from asterism.inference.memoized import MemoizedLearner

# Documents by topics, and new ones.
N_DOCUMENTS, N_NEW, WARM_SWEEPS, REPEATS = {1000: 30_000, 10_000: 6000}, 2000, 20, 3


class Run:
    """One model in training with so many threads, taken through its phases one call at a time."""

    def __init__(self, counts: Any, n_topics: int, n_threads: int) -> None:
        settings = {"engine": "cpu", "warm_sweeps": WARM_SWEEPS, "draw_sweeps": 2, "random_state": 0}
        self.model = TopicEmbeddingModel(n_topics, n_threads=n_threads, **settings)
        self.model._first_counts(counts)
        self.model._begin(counts)
        learner = self.model._learner(counts, self.model._engine(), False)
        assert isinstance(learner, MemoizedLearner)
        self.learner = learner
        self.start = learner.start(len(learner.corpus))

    def lda(self) -> None:
        for _ in self.start.sweeps(WARM_SWEEPS):
            pass

    def embed(self) -> None:
        self.learner.draws, self.learner.topics = self.start.draws, self.start.topics
        self.learner._embed_topics()

    def sweep(self, number: int) -> None:
        for _ in self.learner.sweep(number):
            pass

    def transform(self, counts: Any) -> np.ndarray:
        self.model.state_ = self.learner.topics
        self.model._serving = {}
        return self.model.transform(counts)


def phases(counts: Any, new: Any, n_topics: int, n_threads: int) -> tuple[dict[str, float], list[np.ndarray]]:
    """Seconds of each phase, and what must be the same for any number of threads."""
    run, vectors = Run(counts, n_topics, n_threads), []
    times = {"lda": seconds(run.lda) / WARM_SWEEPS, "embeddings": seconds(run.embed)}
    times["first draws"] = seconds(lambda: run.sweep(0))
    times["draws"] = seconds(lambda: run.sweep(1))
    times["soft"] = seconds(lambda: run.sweep(2))
    times["transform"] = seconds(lambda: vectors.append(run.transform(new)))
    topics = run.learner.topics
    return times, [topics.embedding, topics.mean, topics.word_topic.data, *vectors]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--topics", nargs="+", type=int, default=list(N_DOCUMENTS), choices=N_DOCUMENTS)
    given = parser.parse_args()
    threadpool_limits(1)
    counts = read_counts(DATA / "arxiv" / "docword.arxiv.txt.gz")[: max(N_DOCUMENTS.values()) + N_NEW]
    new = counts[-N_NEW:]
    phases(counts[:600], new[:200], min(given.topics), 1)  # compile
    figures: dict[int, Any] = {}
    for n_topics in given.topics:
        train = counts[: N_DOCUMENTS[n_topics]]
        times: dict[int, list[dict[str, float]]] = {n: [] for n in given.threads}
        results: list[list[np.ndarray]] = []
        for _ in range(REPEATS):
            for n_threads in given.threads:
                taken, found = phases(train, new, n_topics, n_threads)
                times[n_threads].append(taken)
                results.append(found)
        same = all(np.array_equal(a, b) for found in results[1:] for a, b in zip(results[0], found, strict=True))
        typical = {n: {phase: median([t[phase] for t in taken]) for phase in taken[0]} for n, taken in times.items()}
        first = typical[given.threads[0]]
        speed_up = {n: {phase: first[phase] / value for phase, value in t.items()} for n, t in typical.items()}
        figures[n_topics] = {"seconds": typical, "speed_up": speed_up, "same_bits": same}
        for n, ratios in speed_up.items():
            shown = ", ".join(f"{phase} {ratio:.2f}" for phase, ratio in ratios.items())
            print(f"K = {n_topics}, {n} threads over {given.threads[0]}: {shown}; same bits: {same}", flush=True)
    write(
        f"threads-{os.cpu_count()}",
        {"documents": N_DOCUMENTS, "new_documents": N_NEW, "repeats": REPEATS, "by_topics": figures},
    )


if __name__ == "__main__":
    main()
