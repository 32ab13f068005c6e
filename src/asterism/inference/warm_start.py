"""Where memoized inference begins: topics found by plain LDA, the collapsed Gibbs sampler.

Its sweeps cost a fraction of ours, and its draws wander where expectations would settle: what the later sweeps reach
depends on how good these topics are more than on anything else (docs/inference.md). LDA's prior of topics in documents,
Dir(α), is learned along, one α a topic.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace

import numpy as np
from scipy import sparse

from ..model.state import Batch, Floats, Ints, Topics
from .lda_samplers import LdaSampler

# LDA's α to begin with: so much a topic, but no more than this for all of them. With little to begin with, tokens of a
# document soon agree on a few topics, which then stay poor.
FIRST_ALPHA, FIRST_ALPHA_TOTAL = 0.1, 100.0
# Hyper-parameters are learned, and the end is looked for, every so many sweeps.
CHECK_EVERY = 10
# More topics than FEW are renewed every so many sweeps (model/renewal.py), in the first half of a stage.
FEW, RENEW_EVERY = 256, 100
# The end: predictions of tokens from all other tokens improve by less than this in the last fifth of the sweeps. With
# few topics of many tokens a plateau of hundreds of sweeps is not the end, so there are no fewer than this.
SETTLED, FEWEST_SWEEPS = 0.001, 1000
# Small corpora, by tokens x topics, are tried from several random starts for so many sweeps, and have no fewest.
TRIALS, TRIAL_SWEEPS, SMALL = 5, 20, 2**23
# Large corpora begin with a part of the documents: the more tokens a topic has, the more sweeps it takes to move. Each
# stage has so many times the documents of the one before, and all but the last so many sweeps at most.
STAGE_GROWTH, STAGE_SWEEPS = 5, 300
# The first stage has at least so many tokens, and so many a topic.
FEWEST_TOKENS, FEWEST_TOKENS_A_TOPIC = 2**19, 800


def stages(corpus: Batch, n_topics: int) -> list[int]:
    """How many documents LDA is swept over at first, then, and at last: all of them."""
    fewest, sizes = max(FEWEST_TOKENS, FEWEST_TOKENS_A_TOPIC * n_topics), [len(corpus)]
    while corpus.document_offsets[smaller := sizes[0] // STAGE_GROWTH] >= fewest:
        sizes.insert(0, smaller)
    return sizes


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
    return TRIALS if is_small(corpus, n_topics) else 1


def is_small(corpus: Batch, n_topics: int) -> bool:
    return bool(corpus.token_offsets[-1] * n_topics <= SMALL)


class WarmStart:
    """LDA on a corpus, swept until it predicts no better."""

    def __init__(self, corpus: Batch, sampler: LdaSampler, learns_beta: bool, before: WarmStart | None = None) -> None:
        """`before` is the stage before this one, with fewer documents."""
        self.corpus, self.sampler, self.learns_beta = corpus, sampler, learns_beta
        n_topics = sampler.topics.n_topics
        self.fewest = 0 if is_small(corpus, n_topics) else FEWEST_SWEEPS
        self.alpha: Floats = np.full(n_topics, min(FIRST_ALPHA, FIRST_ALPHA_TOTAL / n_topics))
        self.first_sweep = self.n_sweeps = 0
        if before is not None:
            self.alpha, self.first_sweep = before.alpha, before.first_sweep + before.n_sweeps
        self.scores: list[float] = []  # mean log-probability of a token, given all others, one a sweep

    @property
    def draws(self) -> Ints:
        return self.sampler.draws

    @property
    def topics(self) -> Topics:
        return self.sampler.topics

    def sweeps(self, most: int) -> Iterator[int]:
        """Sweep on until predictions settle, `most` sweeps in all; yields the number of documents after each batch."""
        for sweep in range(self.n_sweeps, most):
            yield from self.sampler.sweep(self.first_sweep + sweep, self.alpha)
            self.n_sweeps += 1
            if self.n_sweeps % CHECK_EVERY == 0:
                self._look()
                self._learn()
                if self.n_sweeps % RENEW_EVERY == 0 and 2 * self.n_sweeps <= most:
                    self._renew()
                if self._has_settled():
                    return
        if len(self.scores) < self.n_sweeps:
            self._look()

    def recent_score(self) -> float:
        return float(np.mean(self.scores[-5:])) if self.scores else -np.inf

    def document_topic(self) -> sparse.csr_matrix:
        """Draws counted [d, k]."""
        return self.sampler.document_topic()

    def _look(self) -> None:
        self.sampler.gather()
        self.scores += self.sampler.scores(self.alpha)

    def _learn(self) -> None:
        """α and β of highest likelihood of the counts."""
        self.alpha = self.sampler.engine.optimal_alpha(self.document_topic(), self.alpha)
        if self.learns_beta:
            beta = self.sampler.engine.optimal_concentration(self.topics)
            self.sampler.topics = replace(self.topics, priors=replace(self.topics.priors, beta=beta))

    def _renew(self) -> None:
        if self.topics.n_topics > FEW:
            sampler = self.sampler
            word_topic = sampler.topics.word_topic
            sampler.go_on_from(sampler.engine.renewed(self.corpus, sampler.draws, word_topic, sampler.seed))

    def _has_settled(self) -> bool:
        """Means over CHECK_EVERY sweeps are compared, so that the sampler's noise does not decide."""
        before = len(self.scores) * 4 // 5
        if before < 2 * CHECK_EVERY or self.n_sweeps < self.fewest:
            return False
        return bool(np.mean(self.scores[-CHECK_EVERY:]) - np.mean(self.scores[before - CHECK_EVERY : before]) < SETTLED)
