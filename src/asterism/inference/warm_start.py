"""Where memoized inference begins: topics found by plain LDA, the collapsed Gibbs sampler.

Its sweeps cost a fraction of ours, and its draws wander where expectations would settle: what the later sweeps reach
depends on how good these topics are more than on anything else (docs/inference.md). LDA's prior of topics in documents,
Dir(α), is learned along, one α a topic.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace

import numpy as np
from scipy import sparse, special

from ..engines.base import Engine
from ..model import words
from ..model.lda import WordWeights
from ..model.state import Batch, Floats, Ints, Topics, count_draws

FIRST_ALPHA, SMALLEST_ALPHA = 0.1, 1e-3
# Up to so many topics a token looks at all of them, in a table of words x topics; beyond, at its word's own.
MOST_DENSE_TOPICS, MOST_DENSE_PAIRS = 256, 2**24
# Counts are brought up to date so often a sweep.
BATCHES_A_SWEEP = 2
# Hyper-parameters are learned, and the end is looked for, every so many sweeps.
CHECK_EVERY = 10
# The end: predictions of tokens from all other tokens improve by less than this in the last fifth of the sweeps.
SETTLED = 0.002
# Small corpora, by tokens x topics, are tried from several random starts for so many sweeps.
TRIALS, TRIAL_SWEEPS, CHEAP_TO_TRY = 5, 20, 2**23
# Sweeps have random numbers of their own.
SWEEP_KEY = 2**32


def best_start(starts: Iterable[WarmStart], most: int) -> Generator[int, None, WarmStart]:
    """Of several random starts, tried one after the other, the one that predicts best is swept to the end."""
    best: WarmStart | None = None
    for start in starts:
        yield from start.sweeps(min(most, TRIAL_SWEEPS))
        if best is None or start.recent_score() > best.recent_score():
            best = start
    if best is None:
        raise ValueError("there is nothing to start from")
    yield from best.sweeps(most)
    return best


def n_trials(corpus: Batch, n_topics: int) -> int:
    """How many starts are tried: with little to sweep over, a single one may stay with poor topics."""
    return TRIALS if corpus.token_offsets[-1] * n_topics <= CHEAP_TO_TRY else 1


class WarmStart:
    """LDA on a corpus; `draws` are overwritten sweep by sweep."""

    def __init__(self, corpus: Batch, draws: Ints, topics: Topics, engine: Engine, learns_beta: bool, seed: int):
        self.corpus, self.draws, self.engine, self.seed = corpus, draws, engine, seed
        self.topics, self.learns_beta = topics, learns_beta
        self.alpha: Floats = np.full(topics.n_topics, FIRST_ALPHA)
        self.scores: list[float] = []  # mean log-probability of a token, given all others, one a sweep
        is_dense = topics.n_topics <= MOST_DENSE_TOPICS and topics.n_topics * topics.n_words <= MOST_DENSE_PAIRS
        self.dense: Ints | None = topics.word_topic.toarray().astype(np.int64) if is_dense else None
        self.offsets = corpus.token_offsets[corpus.indptr]

    def sweeps(self, most: int) -> Iterator[int]:
        """Sweep on until predictions settle, `most` sweeps in all; yields the number of documents after each batch."""
        size = -(-len(self.corpus) // BATCHES_A_SWEEP)
        for sweep in range(len(self.scores), most):
            score = 0.0
            for first in range(0, len(self.corpus), size):
                last = min(first + size, len(self.corpus))
                score += self._draw(first, last, sweep)
                yield last - first
            self.scores.append(score / max(1, len(self.draws)))
            if sweep % CHECK_EVERY == CHECK_EVERY - 1:
                self._learn()
                if self._has_settled():
                    break
        self._gather()

    def recent_score(self) -> float:
        return float(np.mean(self.scores[-5:])) if self.scores else -np.inf

    def document_topic(self) -> sparse.csr_matrix:
        """Draws counted [d, k]."""
        document = np.repeat(np.arange(len(self.corpus)), self.corpus.lengths)
        return count_draws(document, self.draws, len(self.corpus), self.topics.n_topics)

    def _draw(self, first: int, last: int, sweep: int) -> float:
        batch, draws = self.corpus[first:last], self.draws[self.offsets[first] : self.offsets[last]]
        old = draws.copy()
        logs = self.engine.draw_lda(self._weights(), batch, draws, self.alpha, self.seed, SWEEP_KEY + sweep)
        token_words = np.repeat(batch.words, batch.counts)
        if self.dense is not None:
            changed = np.flatnonzero(draws != old)
            pair, flat = token_words[changed].astype(np.int64) * self.topics.n_topics, self.dense.reshape(-1)
            np.subtract.at(flat, pair + old[changed], 1)
            np.add.at(flat, pair + draws[changed], 1)
        else:
            shape = self.topics.n_words, self.topics.n_topics
            change = count_draws(token_words, draws, *shape) - count_draws(token_words, old, *shape)
            word_topic = sparse.csr_matrix(self.topics.word_topic + change)
            word_topic.eliminate_zeros()
            self.topics = replace(self.topics, word_topic=word_topic)
        return float(logs.sum())

    def _weights(self) -> WordWeights:
        if self.dense is None:
            everything = np.ones(self.topics.word_topic.nnz, dtype=np.bool_)
            table = words.draw_table(self.topics, everything, collapsed=True)
            return WordWeights(table, 1 / self.topics.topic_total)
        beta = self.topics.priors.beta
        unit = 1 / (self.dense.sum(axis=0) + beta * self.topics.n_words)
        return WordWeights((self.dense.astype(np.float32) + np.float32(beta)) * unit.astype(np.float32), unit)

    def _learn(self) -> None:
        """α and β of highest likelihood of the counts."""
        self._gather()
        self.alpha = optimal_alpha(self.document_topic(), self.alpha)
        if self.learns_beta:
            beta = words.optimal_concentration(self.topics)
            self.topics = replace(self.topics, priors=replace(self.topics.priors, beta=beta))

    def _gather(self) -> None:
        if self.dense is not None:
            self.topics = replace(self.topics, word_topic=sparse.csr_matrix(self.dense, dtype=np.float64))

    def _has_settled(self) -> bool:
        """Means over CHECK_EVERY sweeps are compared, so that the sampler's noise does not decide."""
        before = len(self.scores) * 4 // 5
        if before < 2 * CHECK_EVERY:
            return False
        return bool(np.mean(self.scores[-CHECK_EVERY:]) - np.mean(self.scores[before - CHECK_EVERY : before]) < SETTLED)


def optimal_alpha(document_topic: sparse.csr_matrix, alpha: Floats) -> Floats:
    """LDA's α of highest likelihood of the counts, one step of Minka's fixed-point iteration:

    α_k <- α_k Σ_d [ψ(n_dk + α_k) - ψ(α_k)] / Σ_d [ψ(N_d + Σα) - ψ(Σα)]
    """
    counted = document_topic.tocoo()
    gains = special.psi(counted.data + alpha[counted.col]) - special.psi(alpha[counted.col])
    above = np.bincount(counted.col, gains, minlength=len(alpha))
    lengths = np.asarray(document_topic.sum(axis=1), dtype=np.float64).ravel()
    below = np.sum(special.psi(lengths + alpha.sum()) - special.psi(alpha.sum()))
    return np.asarray(np.maximum(alpha * above / max(below, np.finfo(float).tiny), SMALLEST_ALPHA))
