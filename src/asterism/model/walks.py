"""LDA by walks: O(1) a token, however many topics there are (WarpLDA, Chen et al. 2016).

The probability of a token's topic has a factor of its document and a factor of its word,

    p(z = k) ∝ (n_dk + α_k) · (n_kv + β) / (n_k + V β),      the token itself not counted in n_dk and n_kv,

and either factor alone is easily drawn from. So documents and words are visited in turn, each as a group of tokens. A
visit first decides on what the other side proposed for its tokens: from topic k a token moves to k' with probability

    min(1, [(n_gk' + prior_k') / (n_k' + V β)] / [(n_gk + prior_k) / (n_k + V β)]),

since the proposal was drawn from the other factor (Metropolis and Hastings). Then it proposes topics drawn from its own
factor, n_gk + prior_k: that of another token of the group, picked at random, or one by the prior. Counts are those
before the visit, so groups do not disturb each other, whoever visits them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import random
from .alias import AliasTable
from .random import Streams
from .state import Floats, Ints

# Topics that are proposed for a token on a visit; by the time spent, one, two and four do about as well.
PROPOSALS = 2


class Side(NamedTuple):
    """Tokens by document or by word."""

    starts: Ints  # group g has tokens order[starts[g] : starts[g + 1]]
    order: Ints
    prior: Floats  # α, or β for all [k]
    choice: AliasTable  # of the prior
    streams: Streams  # random numbers, a stream a group


def visit(walks: Ints, prior: Floats, choice: AliasTable, inverse_total: Floats, stream: Streams) -> Ints:
    """Topics and proposals of a group's tokens after a visit; before it, its tokens' topics and the other side's
    proposals [n, 1 + PROPOSALS]; inverse_total is 1 / (n_k + V β) [k]."""
    counts = np.bincount(walks[:, 0], minlength=len(prior))
    n_tokens, n_proposals = len(walks), walks.shape[1] - 1
    chances = random.uniforms(stream, np.arange(2 * n_tokens * n_proposals)).reshape(2, n_tokens, n_proposals)
    after = walks.copy()
    for i, (old, *proposals) in enumerate(walks.tolist()):

        def factor(k: int, old: int = old) -> float:
            return float((counts[k] - (k == old) + prior[k]) * inverse_total[k])

        for chance, proposal in zip(chances[0, i], proposals, strict=True):
            if chance * factor(int(after[i, 0])) < factor(proposal):
                after[i, 0] = proposal
    for i in range(n_tokens):
        place = chances[1, i] * (n_tokens - 1 + prior.sum())
        others = np.delete(after[:, 0], i)
        by_prior = choice.pick(np.maximum(place - (n_tokens - 1), 0) / prior.sum())
        picked = np.minimum(place.astype(np.int64), n_tokens - 2)
        after[i, 1:] = np.where(place < n_tokens - 1, np.append(others, 0)[picked], by_prior)
    return np.asarray(after)
