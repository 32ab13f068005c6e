"""What each ingredient of memoized inference is worth: one at a time is switched off, or on, 20Newsgroups, 100 topics.

python benchmarks/ablation.py                               an hour on 2 cores; writes results/ablation.json
python benchmarks/ablation.py --only WORD --name NAME       some variants; writes results/NAME.json

All variants but those without it begin with the same LDA draws, which are found once. Perplexity is by completion on
the test documents; the classifier is a linear SVM on document embeddings. Ratios are over the first row, the defaults.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from _harness import DATA, write
from asterism import TopicEmbeddingModel
from asterism.evaluation import linear_svm_accuracy
from asterism.inference import memoized as learner
from asterism.model import memoized
from quality import Corpus, read_corpus

N_TOPICS = 100


def without_coupling(sums: Any, topics: Any) -> Any:
    """Mean field: the uncertainty of a enters E[a a'] and not E[η a']."""
    return memoized_couple(replace(sums, shrinkage=0 * sums.shrinkage), topics)


def small_random_start(document_topic: Any, n_dims: int, priors: Any, seed: int) -> Any:
    """U of next to nothing, and a mean of nothing."""
    n_topics = document_topic.shape[1]
    return 0.01 * np.random.default_rng(seed).normal(size=(n_topics, n_dims)), np.zeros(n_topics)


def without_expansion(topics: Any, total: Any, *rest: Any) -> Any:
    """Documents keep their coordinates, and U grows by the regression alone."""
    grown, expansion = memoized_update(topics, total, *rest)
    back = expansion.transform.T
    factor = np.linalg.inv(back)
    embedding = grown.embedding @ back
    mean = grown.mean - embedding @ expansion.shift
    cov = factor @ grown.document_cov @ factor.T
    still = memoized.Expansion(np.zeros_like(expansion.shift), np.eye(topics.n_dims))
    return replace(grown, embedding=embedding, mean=mean, document_cov=cov), still


def without_mean(topics: Any, total: Any, *rest: Any) -> Any:
    """m = 0: how common a topic is has to be told by the embeddings."""
    no_ones = replace(
        total,
        weight_embedding=np.hstack([total.weight_embedding[:, :-1], np.zeros((topics.n_topics, 1))]),
        embedding_outer=_alone(total.embedding_outer),
    )
    grown, expansion = memoized_update(replace(topics, mean=0 * topics.mean), no_ones, *rest)
    return replace(grown, mean=0 * grown.mean), expansion


def of_all_tokens(engine: Any, prepared: Any, batch: Any, streams: Any, weights: Any, draws: Any) -> None:
    """Draws with the token's own last draw in all counts."""
    engine._draw(prepared, batch, streams, weights, draws)


def spreading_only(this: Any) -> None:
    """Soft sweeps with the embeddings that draws were made by."""
    this.topics = replace(this.topics, word_topic=this.engine.with_every_pair(this.topics.word_topic))


def of_whole_counts(settings: Any, topics: Any) -> float:
    """Expectations of a token with the token itself in its word's counts."""
    return 0.0


def _alone(outer: Any) -> Any:
    """The moments with embeddings and the appended 1 uncorrelated."""
    alone = outer.copy()
    alone[-1, :-1] = alone[:-1, -1] = 0
    return alone


memoized_couple, memoized_update = memoized.couple, memoized.update
UPDATE, COUPLE = "asterism.model.memoized.update", "asterism.model.memoized.couple"
SETTLED = "asterism.inference.warm_start.SETTLED"
LEARNER = "asterism.inference.memoized.MemoizedLearner"

# Name, settings of the estimator, what is replaced.
VARIANTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("defaults", {}, {}),
    ("no LDA before", {"init": "random"}, {}),
    ("50 sweeps of LDA before", {"warm_sweeps": 50}, {}),
    ("300 sweeps of LDA before", {"warm_sweeps": 300}, {}),
    ("2,000 sweeps of LDA before", {}, {SETTLED: -1.0}),
    ("no soft sweeps", {"max_sweeps": 32}, {}),
    ("one sweep of draws", {"draw_sweeps": 1}, {}),
    ("16 sweeps of draws", {"draw_sweeps": 16}, {}),
    ("draws given the token itself, too", {}, {"asterism.engines.cpu.CpuEngine._redraw": of_all_tokens}),
    ("embeddings of LDA's draws", {}, {LEARNER + "._begin_softly": spreading_only}),
    ("soft sweeps with whole counts of words", {}, {"asterism.model.memoized.Relaxation.counted": of_whole_counts}),
    ("a document's prior counts like 2 tokens", {}, {"asterism.engines.cpu.PRIOR_IN_TOKENS": 2.0}),
    ("a document's prior counts like 20 tokens", {}, {"asterism.engines.cpu.PRIOR_IN_TOKENS": 20.0}),
    ("soft sweeps over drawn pairs only", {}, {"asterism.engines.memory.MOST_PAIRS": 0}),
    ("embeddings start at random", {}, {"asterism.engines.memory.embed_topics": small_random_start}),
    ("no coupling in the topic update", {}, {COUPLE: without_coupling}),
    ("no parameter expansion", {}, {UPDATE: without_expansion}),
    ("no topic mean", {}, {UPDATE: without_mean}),
    ("tau 1 and beta 0.01 whatever they predict", {"tau": 1.0, "beta": 0.01}, {}),
    ("tau learned", {"learn_tau": True}, {}),
    ("alpha learned", {"learn_alpha": True}, {}),
    ("beta learned", {"learn_beta": True}, {}),
    ("the model's own posterior as embedding", {"evidence": "all"}, {}),
    ("stochastic, Newton", {"inference": "svi", "local_solver": "newton"}, {}),
    ("stochastic, as in the paper", {"inference": "svi"}, {}),
]


class SharedStart:
    """The draws of LDA, found by the first variant and used by those that would find the same."""

    def __init__(self) -> None:
        self.draws: dict[Any, Any] = {}
        self.ended = 0.0  # the process's time
        self.warm_up = learner.MemoizedLearner.warm_up

    def __call__(self, key: Any) -> Callable[[Any], Iterator[int]]:
        def warm_up(this: learner.MemoizedLearner) -> Iterator[int]:
            if key in self.draws:
                draws, settings = self.draws[key].copy(), this.settings
                this.settings = replace(settings, warm_sweeps=0)
                with patch.object(this, "_first_draws", lambda *_: draws):
                    yield from self.warm_up(this)
                this.settings = settings
            else:
                yield from self.warm_up(this)
                self.draws[key] = this.draws.copy()
            self.ended = time.process_time()

        return warm_up


def run(corpus: Corpus, n_threads: int, seed: int, only: list[str]) -> dict[str, dict[str, float]]:
    """All variants, or the defaults and those whose names hold one of the given words."""
    start, found = SharedStart(), {}
    for name, settings, replaced in VARIANTS:
        if only and name != "defaults" and not any(word in name for word in only):
            continue
        key = *(settings.get(name) for name in ("init", "warm_sweeps", "learn_beta")), replaced.get(SETTLED)
        with ExitStack() as stack:
            stack.enter_context(patch.object(learner.MemoizedLearner, "warm_up", start(key)))
            for target, value in replaced.items():
                stack.enter_context(patch(target, value))
            start.ended = time.process_time()
            model = TopicEmbeddingModel(N_TOPICS, n_threads=n_threads, random_state=seed, **settings).fit(corpus.train)
            seconds = time.process_time() - start.ended
        vectors = model.transform(corpus.train), model.transform(corpus.test)
        accuracy = linear_svm_accuracy(vectors[0], corpus.train_labels, vectors[1], corpus.test_labels).accuracy
        found[name] = {
            "perplexity": model.perplexity(corpus.test),
            "svm": accuracy,
            "sweeps": model.n_sweeps_,
            "cpu_seconds_after_the_start": seconds,
        }
        print(f"{time.strftime('%H:%M:%S')} {name}: {found[name]}", flush=True)
    return found


def report(found: dict[str, dict[str, float]]) -> None:
    usual = found["defaults"]
    print(f"\n{'':<40}{'perplexity':>12}{'ratio':>8}{'SVM':>8}{'ratio':>8}{'sweeps':>8}")
    for name, row in found.items():
        shares = row["perplexity"] / usual["perplexity"], row["svm"] / usual["svm"]
        print(
            f"{name:<40}{row['perplexity']:>12.0f}{shares[0]:>8.3f}{row['svm']:>8.3f}{shares[1]:>8.3f}{row['sweeps']:>8}"
        )


def main() -> None:
    if not (DATA / "20newsgroups").exists():
        raise SystemExit(f"20Newsgroups is not in {DATA}; set ASTERISM_DATA")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", default=[], help="words in the names of the variants")
    parser.add_argument("--name", default="ablation", help="of the file")
    given = parser.parse_args()
    threadpool_limits(given.threads)
    found = run(read_corpus(), given.threads, given.seed, given.only)
    report(found)
    write(given.name, {"n_topics": N_TOPICS, "seed": given.seed, "variants": found})


if __name__ == "__main__":
    main()
