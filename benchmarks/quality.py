"""Quality of topics and document vectors against rivals on 20Newsgroups, same counts and same measures for all.

python benchmarks/quality.py           hours on 2 cores; writes results/quality.json and results/quality.png

A cell is one system, one number of topics, one seed. Its measures are kept in results/quality, so a study that was
interrupted goes on where it stopped, on another machine, too; delete a system's files there to measure it again. What
trained systems gave out is in .cache/quality (NAME.npz), and our own models (NAME.model, NAME.json); delete those as
well to ask or train them again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import zlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from _comparison import plot, race, report, tables
from _harness import DATA, RESULTS, ROOT, newsgroups, write
from _rivals import RIVALS, Counts, Floats, Rival
from _watch import timed, watched_fit
from asterism import TextPipeline
from asterism.corpus.tokens import read_documents
from asterism.corpus.words import word_splitter
from asterism.evaluation import c_v, linear_svm_accuracy, npmi, retrieval, topic_diversity
from asterism.evaluation.completion import Completion, split_tokens

CACHE = ROOT / "benchmarks" / ".cache" / "quality"
OURS = {"asterism": {}, "asterism-svi": {"inference": "svi"}}
TOPICS, SEEDS = (20, 40, 60, 80, 100), (0, 1, 2)
CURVE_SWEEPS = (1, 2, 4, 8, 12, 16)
LARGEST = {"tomotopy-ctm": 20}  # its time grows with K cubed: at 100 topics 500 sweeps took more than 45 minutes
SEEDLESS = {"topica-ctm"}  # its start is spectral: seeds 0 and 1 gave the same figures to the last digit


class Corpus(NamedTuple):
    train: Counts
    test: Counts
    halves: Completion  # of the test documents
    train_labels: NDArray[np.str_]
    test_labels: NDArray[np.str_]
    train_sequences: list[NDArray[np.int64]]  # columns of the words in the order of the text
    key: int  # changes when the counts do: cells of other counts are not used


class Cell(NamedTuple):
    system: str
    n_topics: int
    seed: int

    @property
    def path(self) -> Path:
        return CACHE / f"{self.system}-{self.n_topics}-{self.seed}.npz"

    @property
    def measures(self) -> Path:
        return RESULTS / "quality" / f"{self.path.stem}.json"


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
    return Corpus(counts, test_counts, halves, *labels, word_sequences(pipeline, train[:n_documents]), key)


def word_sequences(pipeline: TextPipeline, texts: list[str]) -> list[NDArray[np.int64]]:
    """The counted words of each text in their order."""
    documents = read_documents(texts, word_splitter(pipeline.language))
    known = pipeline.transform(documents.tokens).tocoo()  # each distinct token as a text of its own
    column = np.full(len(documents.tokens), -1)
    column[known.row] = known.col
    sequences = [column[ids] for ids in np.split(documents.ids, documents.starts[1:-1])]
    return [sequence[sequence >= 0] for sequence in sequences]


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

    folder, about = cell.path.with_suffix(".model"), cell.path.with_suffix(".json")
    training = json.loads(about.read_text()) if about.exists() else {}
    if training.pop("corpus", None) != corpus.key:
        settings = {"n_threads": n_threads, "random_state": cell.seed, **OURS[cell.system]}
        model, training = watched_fit(corpus.train, corpus.halves, CURVE_SWEEPS, cell.n_topics, **settings)
        model.save(folder)
        about.write_text(json.dumps(training | {"corpus": corpus.key}))
    model = TopicEmbeddingModel.load(folder).set_params(n_threads=n_threads)
    outputs = training | {
        "train_theta": model.topic_proportions(corpus.train),
        "test_theta": model.topic_proportions(corpus.test),
        "observed_theta": model.topic_proportions(corpus.halves.observed),
        "train_embedding": model.transform(corpus.train),
        "test_embedding": model.transform(corpus.test),
        # What the library recommends for retrieval, by inner product.
        "train_similarity": model.search_vectors(corpus.train),
        "test_similarity": model.search_vectors(corpus.test),
        "topic_word": smoothed_topic_word(model),
    }
    if model.inference == "memoized":  # the paper's embedding: the model's own posterior
        model.set_params(evidence="all")
        outputs |= {"train_posterior": model.transform(corpus.train), "test_posterior": model.transform(corpus.test)}
    return outputs


def smoothed_topic_word(model: Any) -> Floats:
    """Posterior mean with the prior's share, as likelihoods are computed."""
    prior = model.state_.priors.beta
    counts = model.state_.word_topic.T.toarray() + prior
    return counts / counts.sum(axis=1, keepdims=True)


def lengths(counts: Counts) -> NDArray[np.int64]:
    return np.asarray(counts.sum(axis=1)).ravel()


# --- measures -------------------------------------------------------------------------------------------------------


def measure(cell: Cell, corpus: Corpus) -> dict[str, Any]:
    """All measures of a trained cell."""
    with np.load(cell.path) as file:
        outputs = dict(file)
    figures = {
        **cell._asdict(),
        "corpus": corpus.key,
        **{name: float(outputs[name]) for name in ("train_seconds", "train_cpu_seconds", "n_threads")},
        "perplexity": completion_perplexity(outputs["observed_theta"], outputs["topic_word"], corpus.halves.scored),
        **({"curve": outputs["curve"].tolist()} if "curve" in outputs else {}),
        **coherence(outputs["topic_word"], corpus),
        "svm": {name: classify(vectors, corpus) for name, vectors in document_vectors(outputs).items()},
        "retrieval": {name: retrieve(*how, corpus) for name, how in rankings(outputs).items()},
    }
    cell.measures.parent.mkdir(parents=True, exist_ok=True)
    cell.measures.write_text(json.dumps(figures) + "\n")
    print(f"{time.strftime('%H:%M:%S')} {cell.path.stem}: measured", flush=True)
    return figures


def measured(cell: Cell, corpus: Corpus) -> dict[str, Any] | None:
    """A cell's measures, where there are any on these counts."""
    kept = dict(json.loads(cell.measures.read_text())) if cell.measures.exists() else {}
    return kept if kept.get("corpus") == corpus.key else None


def completion_perplexity(theta: Floats, topic_word: Floats, scored: Counts) -> float:
    """exp of minus the mean over scored tokens of log Σ_k theta_dk phi_kw."""
    total = 0.0
    for d in range(scored.shape[0]):
        entries = slice(scored.indptr[d], scored.indptr[d + 1])
        total += scored.data[entries] @ np.log(theta[d].astype(float) @ topic_word[:, scored.indices[entries]])
    return math.exp(-total / scored.sum())


def coherence(topic_word: Floats, corpus: Corpus) -> dict[str, float]:
    """Of the ten most probable words, on the training documents; means over topics."""
    top_words = np.argsort(-topic_word, axis=1, kind="stable")[:, :10]
    return {
        "npmi": float(npmi(top_words, corpus.train).mean()),
        "c_v": float(c_v(top_words, corpus.train_sequences).mean()),
        "diversity": topic_diversity(top_words),
    }


def document_vectors(outputs: dict[str, Floats]) -> dict[str, tuple[Floats, Floats]]:
    """What a system offers as vectors of training and test documents."""
    kinds = ("theta", "embedding", "posterior", "similarity")
    return {kind: (outputs[f"train_{kind}"], outputs[f"test_{kind}"]) for kind in kinds if f"train_{kind}" in outputs}


def rankings(outputs: dict[str, Floats]) -> dict[str, tuple[Floats, Floats, str]]:
    """The vectors and the similarity of every ranking that is tried."""
    ways = {}
    for kind, (train, test) in document_vectors(outputs).items():
        ways |= {f"{kind} {similarity}": (train, test, similarity) for similarity in ("inner", "cosine")}
        if kind == "theta":  # Hellinger's affinity of distributions is the inner product of their roots
            ways["theta hellinger"] = np.sqrt(train), np.sqrt(test), "inner"
    return ways


def classify(vectors: tuple[Floats, Floats], corpus: Corpus) -> dict[str, float]:
    train, test = vectors
    return linear_svm_accuracy(train, corpus.train_labels, test, corpus.test_labels)._asdict()


def retrieve(train: Floats, test: Floats, similarity: str, corpus: Corpus) -> dict[str, Any]:
    """Training documents for each test document; one without words finds them in no particular order."""
    found = retrieval(test, corpus.test_labels, train, corpus.train_labels, similarity)
    return {
        "map": found.mean_average_precision,
        "p_at_10": found.precision_at_10,
        "precision_at_recall": [round(value, 4) for value in found.precision_at_recall.tolist()],
    }


# --- the study ------------------------------------------------------------------------------------------------------


def cells(systems: list[str], topics: list[int], seeds: list[int]) -> Iterator[Cell]:
    """All that were asked for: the first seed's are done first, in the order of the topics given."""
    for seed in seeds:
        for n_topics in topics:
            for system in systems:
                if n_topics <= LARGEST.get(system, n_topics) and (system not in SEEDLESS or seed == SEEDS[0]):
                    yield Cell(system, n_topics, seed)


def is_trained(cell: Cell, corpus: Corpus) -> bool:
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
    parser.add_argument("--measure-only", action="store_true", help="measure what there is, run no cell")
    return parser.parse_args()


def main() -> None:
    if not (DATA / "20newsgroups").exists():
        raise SystemExit(f"20Newsgroups is not in {DATA}; set ASTERISM_DATA")
    given = arguments()
    os.environ["RAYON_NUM_THREADS"] = str(given.threads)  # topica's, read when it is first used
    threadpool_limits(given.threads)  # linear algebra
    corpus = read_corpus()
    for cell in cells(given.systems, given.topics, given.seeds):
        if measured(cell, corpus) is None:
            if not given.measure_only and not is_trained(cell, corpus):
                run_cell(cell, corpus, given.threads)
            if not given.train_only and is_trained(cell, corpus):
                measure(cell, corpus)
    if not given.train_only:
        compare(corpus)


def compare(corpus: Corpus) -> None:
    """Every cell that has been measured, whatever was asked for in this run."""
    found = [figures for cell in every_cell() if (figures := measured(cell, corpus)) is not None]
    if not found:
        raise SystemExit("no cell has been measured")
    report(found)
    plot(found)
    write(
        "quality",
        {
            "corpus": {
                "name": "20Newsgroups by date, headers, footers and quotes removed",
                "train_documents": corpus.train.shape[0],
                "test_documents": corpus.test.shape[0],
                "words": corpus.train.shape[1],
                "train_tokens": int(corpus.train.sum()),
            },
            "rivals": {name: version(name) for name in ("tomotopy", "topica", "scikit-learn")},
            "tables": tables(found),
            "seconds_to_rivals_perplexity": race(found, "asterism", "tomotopy-lda"),
        },
    )


def every_cell() -> Iterator[Cell]:
    return cells([*OURS, *RIVALS], list(TOPICS), list(SEEDS))


if __name__ == "__main__":
    main()
