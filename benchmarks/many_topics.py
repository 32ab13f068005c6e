"""Are ten thousand topics of arXiv still good? Their words, beside those of a thousand and of plain LDA, in one run.

python benchmarks/many_topics.py               about 80 minutes on one core; writes results/many_topics.json

The most topics are trained twice, with doubles merged and large topics split in LDA's sweeps (model/renewal.py), as
they are by default, and without. Coherence and diversity are of the ten most probable words, on the training documents.
A topic is dead with fewer tokens than FEWEST, and a double where its words overlap with another's by more than SAME
(`evaluation.topic_overlap`). Models are kept in .cache/many_topics; delete one to train it again.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from _harness import DATA, ROOT, write
from _watch import timed
from arxiv import Corpus, read_corpus
from asterism import TopicEmbeddingModel
from asterism.evaluation import npmi, topic_diversity, topic_overlap
from asterism.evaluation.completion import completion_score
from asterism.inference import warm_start

CACHE = ROOT / "benchmarks" / ".cache" / "many_topics"
CANDIDATES, MOST_EXACT = 512, 4096
SETTINGS = {"warm_sweeps": 300, "draw_sweeps": 4, "max_sweeps": 6, "random_state": 0}
FEWEST, SAME, SHOWN = 20, (0.7, 0.8, 0.9), 20


FEW = warm_start.FEW


class Watched(TopicEmbeddingModel):
    """Keeps the topics that its warm start found: those of plain LDA."""

    def _learner(self, *arguments: Any) -> Any:
        learner = super()._learner(*arguments)
        warm_up = learner.warm_up

        def watched() -> Any:
            yield from warm_up()
            self.start_ = learner.topics.word_topic

        learner.warm_up = watched
        return learner


def run(corpus: Corpus, n_topics: int, n_threads: int, renews: bool) -> dict[str, Any]:
    """A model's figures, trained if it is not there."""
    name = f"{n_topics}" if renews else f"{n_topics}-as-drawn"
    folder, beside = CACHE / f"{name}.model", CACHE / f"{name}.json"
    candidates = CANDIDATES if n_topics > MOST_EXACT else None
    if not beside.exists():
        warm_start.FEW = FEW if renews else n_topics
        model = Watched(n_topics, candidates=candidates, n_threads=n_threads, **SETTINGS)
        _, times = timed(lambda: model.fit(corpus.train))
        model.save(folder)
        start = words_of(model.start_.T, corpus)
        beside.write_text(json.dumps({**times, "threads": n_threads, "history": model.history_, "lda": start}))
    model = TopicEmbeddingModel.load(folder).set_params(n_threads=n_threads)
    engine = model._engine()
    score = completion_score(engine, engine.prepare(model.state_), corpus.halves)
    kept = json.loads(beside.read_text())
    return {
        "n_topics": n_topics,
        "renews": renews,
        "candidates": candidates,
        "perplexity": math.exp(-score),
        "topics": words_of(model.state_.word_topic.T, corpus),
        **kept,
        "random_topics": random_topics(model, corpus),
    }


def words_of(counts: Any, corpus: Corpus) -> dict[str, float]:
    """What can be said of topics by their words' counts [k, v]."""
    counts = sparse.csr_matrix(counts)
    tokens = np.asarray(counts.sum(axis=1)).ravel()
    best = top_words(counts)
    coherence, overlap = npmi(best, corpus.train), topic_overlap(counts).value
    return {
        "npmi": float(np.nanmean(coherence)),
        "npmi_of_the_worst_tenth": float(np.nanquantile(coherence, 0.1)),
        # Of all words that so many topics could have among their best.
        "diversity": topic_diversity(best) * best.size / min(best.size, counts.shape[1]),
        "fewest_tokens": float(tokens.min()),
        "dead": int((tokens < FEWEST).sum()),
        "doubles": {same: int((overlap > same).sum()) for same in SAME},
        "median_overlap": float(np.median(overlap)),
    }


def top_words(counts: sparse.csr_matrix, n: int = 10) -> np.ndarray:
    best = np.full((counts.shape[0], n), -1)
    for k in range(counts.shape[0]):
        row = slice(counts.indptr[k], counts.indptr[k + 1])
        order = np.argsort(-counts.data[row], kind="stable")[:n]
        best[k, : len(order)] = counts.indices[row][order]
    return best


def random_topics(model: TopicEmbeddingModel, corpus: Corpus) -> list[dict[str, Any]]:
    """Some topics, drawn and not chosen, with their coherence and their most correlated topic."""
    chosen = np.sort(np.random.default_rng(0).choice(model.n_topics, SHOWN, replace=False))
    counts = sparse.csr_matrix(model.state_.word_topic.T)
    coherence = npmi(top_words(counts[chosen]), corpus.train)
    words = (DATA / "arxiv" / "vocab.arxiv.txt").read_text().split()

    def named(k: int, n: int) -> list[str]:
        return [words[column] for column in top_words(counts[k], n)[0] if column >= 0]

    return [
        {
            "topic": int(k),
            "words": named(k, 10),
            "npmi": float(value),
            "share": float(model.topic_shares_[k]),
            "most_correlated": named(model.correlated(int(k), 1)[0].topic, 5),
        }
        for k, value in zip(chosen, coherence, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topics", nargs="+", type=int, default=[1000, 10_000])
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    threadpool_limits(given.threads)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")  # our sweeps
    CACHE.mkdir(parents=True, exist_ok=True)
    corpus = read_corpus()
    rows = []
    for n_topics, renews in [(given.topics[-1], False), *((n_topics, True) for n_topics in given.topics)]:
        rows.append(run(corpus, n_topics, given.threads, renews))
        print(json.dumps({name: rows[-1][name] for name in ("n_topics", "perplexity", "topics", "lda")}), flush=True)
    for topic in rows[-1]["random_topics"]:
        words, near = " ".join(topic["words"]), " ".join(topic["most_correlated"])
        print(f"{topic['topic']:6} {topic['npmi']:.2f}  {words}  ~ {near}")
    few, many = rows[-len(given.topics)], rows[-1]
    ratios = {measure: many["topics"][measure] / few["topics"][measure] for measure in ("npmi", "diversity")}
    print(f"{many['n_topics']} topics over {few['n_topics']}: {ratios}")
    write("many_topics", {"settings": SETTINGS, "rows": rows, "ratio": ratios})


if __name__ == "__main__":
    main()
