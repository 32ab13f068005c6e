"""Quality of topics and document vectors against rivals on 20Newsgroups, same counts and same measures for all.

python benchmarks/quality.py           hours on 2 cores; writes results/quality.json and results/quality.png

A cell is one system, one number of topics, one seed. What it gives out is kept in benchmarks/.cache/quality, so a study
that was interrupted goes on where it stopped; delete a system's files there to train it again.
"""

from __future__ import annotations

import argparse
import os
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from _harness import DATA, ROOT, newsgroups
from _rivals import RIVALS, Counts, Floats, Rival
from asterism import TextPipeline
from asterism.evaluation.completion import Completion, split_tokens

CACHE = ROOT / "benchmarks" / ".cache" / "quality"
OURS = {"asterism": {}, "asterism-svi": {"inference": "svi"}}
TOPICS, SEEDS = (20, 40, 60, 80, 100), (0, 1, 2)
LARGEST = {"tomotopy-ctm": 20}  # its time grows with K cubed: at 100 topics 500 sweeps took more than 45 minutes


class Corpus(NamedTuple):
    train: Counts
    test: Counts
    halves: Completion  # of the test documents
    train_labels: NDArray[np.str_]
    test_labels: NDArray[np.str_]
    key: int  # changes when the counts do: cells of other counts are not used


class Cell(NamedTuple):
    system: str
    n_topics: int
    seed: int

    @property
    def path(self) -> Path:
        return CACHE / f"{self.system}-{self.n_topics}-{self.seed}.npz"


# --- training -------------------------------------------------------------------------------------------------------


def read_corpus(n_documents: int | None = None) -> Corpus:
    """20Newsgroups by date as counts; the vocabulary is the training documents'."""
    pipeline = TextPipeline()
    (train, train_labels), (test, test_labels) = newsgroups("train"), newsgroups("test")
    counts, test_counts = pipeline.fit_transform(train[:n_documents]), pipeline.transform(test[:n_documents])
    halves = split_tokens(test_counts)
    key = 0
    for matrix in (counts, test_counts, halves.observed):
        for part in (matrix.indptr, matrix.indices, matrix.data):
            key = zlib.crc32(part.astype(np.int64).tobytes(), key)
    labels = np.array(train_labels[:n_documents]), np.array(test_labels[:n_documents])
    return Corpus(counts, test_counts, halves, *labels, key)


def run_cell(cell: Cell, corpus: Corpus, n_threads: int) -> None:
    """Train one system once, and keep what it says of the documents and words."""
    began = time.perf_counter()
    outputs = (our_outputs if cell.system in OURS else rival_outputs)(cell, corpus, n_threads)
    outputs = {name: np.asarray(value, dtype=np.float32) for name, value in outputs.items()}
    outputs |= {"corpus": np.int64(corpus.key), "n_threads": np.int64(n_threads)}
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = cell.path.with_suffix(".tmp.npz")
    np.savez(unfinished, **outputs)
    unfinished.replace(cell.path)
    trained, total = float(outputs["train_seconds"]), time.perf_counter() - began
    print(f"{time.strftime('%H:%M:%S')} {cell.path.stem}: trained in {trained:.0f} s, all in {total:.0f} s", flush=True)


def rival_outputs(cell: Cell, corpus: Corpus, n_threads: int) -> dict[str, Any]:
    written = corpus.train[lengths(corpus.train) > 0]
    rival, times = timed(lambda: RIVALS[cell.system](written, cell.n_topics, cell.seed, n_threads))
    theta = proportions_of_all(rival, corpus.train, None)
    average = theta.mean(axis=0)
    return times | {
        "train_theta": theta,
        "test_theta": proportions_of_all(rival, corpus.test, average),
        "observed_theta": proportions_of_all(rival, corpus.halves.observed, average),
        "topic_word": rival.topic_word,
    }


def proportions_of_all(rival: Rival, counts: Counts, average: Floats | None) -> Floats:
    """Topic proportions of every document; without words, those of the average training document."""
    written = lengths(counts) > 0
    known = rival.proportions(counts[written])
    known = known / known.sum(axis=1, keepdims=True)
    theta = np.empty((counts.shape[0], known.shape[1]))
    theta[:] = known.mean(axis=0) if average is None else average
    theta[written] = known
    return theta


def our_outputs(cell: Cell, corpus: Corpus, n_threads: int) -> dict[str, Any]:
    from asterism import TopicEmbeddingModel

    model = TopicEmbeddingModel(cell.n_topics, n_threads=n_threads, random_state=cell.seed, **OURS[cell.system])
    _, times = timed(lambda: model.fit(corpus.train))
    return times | {
        "train_theta": model.topic_proportions(corpus.train),
        "test_theta": model.topic_proportions(corpus.test),
        "observed_theta": model.topic_proportions(corpus.halves.observed),
        "train_embedding": model.transform(corpus.train),
        "test_embedding": model.transform(corpus.test),
        "topic_word": smoothed_topic_word(model),
    }


def smoothed_topic_word(model: Any) -> Floats:
    """Posterior mean with the prior's share, as likelihoods are computed."""
    prior = model.state_.priors.beta
    counts = model.state_.word_topic.T.toarray() + prior
    return counts / counts.sum(axis=1, keepdims=True)


def timed(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """A call's result, and its seconds by the clock and of computation, which a busy machine does not lengthen."""
    began, computed = time.perf_counter(), time.process_time()
    result = work()
    return result, {"train_seconds": time.perf_counter() - began, "train_cpu_seconds": time.process_time() - computed}


def lengths(counts: Counts) -> NDArray[np.int64]:
    return np.asarray(counts.sum(axis=1)).ravel()


# --- the study ------------------------------------------------------------------------------------------------------


def cells(systems: list[str], topics: list[int], seeds: list[int]) -> Iterator[Cell]:
    """All that were asked for: the first seed's are done first, in the order of the topics given."""
    for seed in seeds:
        for n_topics in topics:
            yield from (Cell(system, n_topics, seed) for system in systems if n_topics <= LARGEST.get(system, n_topics))


def is_cached(cell: Cell, corpus: Corpus) -> bool:
    if not cell.path.exists():
        return False
    with np.load(cell.path) as outputs:
        return int(outputs["corpus"]) == corpus.key


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*OURS, *RIVALS]
    parser.add_argument("--systems", nargs="+", choices=known, default=known)
    parser.add_argument("--topics", nargs="+", type=int, default=TOPICS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--train-only", action="store_true", help="run missing cells, measure nothing")
    return parser.parse_args()


def main() -> None:
    if not (DATA / "20newsgroups").exists():
        raise SystemExit(f"20Newsgroups is not in {DATA}; set ASTERISM_DATA")
    given = arguments()
    # Read by the rivals' thread pools when they are first used.
    os.environ["RAYON_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = str(given.threads)
    corpus = read_corpus()
    for cell in cells(given.systems, given.topics, given.seeds):
        if not is_cached(cell, corpus):
            run_cell(cell, corpus, given.threads)


if __name__ == "__main__":
    main()
