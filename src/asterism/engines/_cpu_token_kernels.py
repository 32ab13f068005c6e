"""Compiled loops over the tokens of documents that the joint solver has done with: see model/document.py, tokens.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..model.memoized import COUNT_UNIT
from ..model.random import DRAWS
from ._cpu_joint_kernels import new_scratch
from ._cpu_kernels import (
    accumulate_own,
    draw_tokens,
    largest,
    leave_itself,
    new_candidates,
    pick,
    substream,
    uniform,
    weigh_candidates,
)
from ._jit import kernel, part

Array = Any


@kernel
def draw_documents(
    first: int, last: int, corpus: Any, table: Any, n_top: int, streams: Array, xis: Array, draws: Array
) -> None:
    """document.draw_tokens for documents first:last, given their ξ."""
    candidates, counts = new_candidates(xis.shape[1], n_top, xis), np.empty(xis.shape[1], xis.dtype)
    for d in range(first, last):
        draw_tokens(d, corpus, table, xis[d], substream(substream(streams[d], DRAWS), 0), candidates, draws, counts)


@kernel
def redraw_documents(
    first: int,
    last: int,
    corpus: Any,
    table: Any,
    n_top: int,
    beta: float,
    streams: Array,
    weights: Array,
    draws: Array,
) -> None:
    """document.redraw_tokens for documents first:last, given their predictive weights."""
    candidates = new_candidates(weights.shape[1], n_top, weights)
    for d in range(first, last):
        stream = substream(substream(streams[d], DRAWS), 0)
        redraw_tokens(d, corpus, table, beta, weights[d], stream, candidates, draws)


@part
def redraw_tokens(
    d: int,
    corpus: Any,
    table: Any,
    beta: float,
    weights: Array,
    stream: Any,
    candidates: Any,
    draws: Array,
) -> None:
    """document.redraw_tokens: a target beyond what is left of a token's last topic passes over the mass that is not."""
    first_token, top_total = corpus.token_offsets[corpus.indptr[d]], weigh_candidates(weights, table, candidates)
    unit = np.exp(-float(largest(weights)))  # of one token in a topic
    for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
        word = corpus.words[entry]
        own_total, start = accumulate_own(word, table, candidates), table.indptr[word]
        for token in range(corpus.token_offsets[entry], corpus.token_offsets[entry + 1]):
            k, end, gap = draws[token], 0.0, 0.0
            i = place_of(k, word, table)
            if i >= 0:
                itself = table.rest[k] / (beta * table.weights[i])
                left = max(0.0, candidates.scale[k] - unit) * (1 - itself)
                mass = left * table.weights[i] - candidates.rest_of_top[k]
                begin = candidates.cumulative[i - start - 1] if i > start else 0.0
                end = begin + max(0.0, mass)
                gap = candidates.cumulative[i - start] - end
            target = uniform(stream, token - first_token) * (own_total + top_total - gap)
            draws[token] = pick(target if target < end else target + gap, own_total, word, table, candidates)


@part
def place_of(topic: int, word: int, table: Any) -> int:
    """Where the table, whose rows are sorted, has this pair; -1 if it has not."""
    low, high = table.indptr[word], table.indptr[word + 1]
    while low < high:
        middle = (low + high) // 2
        if table.topics[middle] < topic:
            low = middle + 1
        else:
            high = middle
    return low if low < table.indptr[word + 1] and table.topics[low] == topic else -1


@kernel
def spread_tokens(
    first: int,
    last: int,
    corpus: Any,
    table: Any,
    space: Any,
    xis: Array,
    shrinkages: Array,
    n_top: int,
    counted: float,
    expected: Array,
) -> None:
    """memoized.expected_word_topic for documents first:last."""
    candidates, scratch = new_candidates(xis.shape[1], n_top, xis), new_scratch(space)
    for d in range(first, last):
        work = candidates, scratch, scratch.base
        spread_document(d, corpus, table, space.tau, counted, xis[d], shrinkages[d], None, *work, expected)


@part
def spread_document(
    d: int,
    corpus: Any,
    table: Any,
    tau: float,
    counted: float,
    xi: Array,
    shrinkage: Array,
    origin: Any,
    candidates: Any,
    scratch: Any,
    omega: Array,
    expected: Array,
) -> None:
    """Adds each token's responsibilities over its word's own topics, in whole units, where the table lists the pair, or
    at the pair's place by `origin`."""
    weigh_candidates(xi, table, candidates)
    candidates.rest_of_top[:] = 0
    for k in range(omega.size):
        omega[k] = 1 / shrinkage[k] - 1
    for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
        word = corpus.words[entry]
        start, stop = table.indptr[word], table.indptr[word + 1]
        topics, weights, scale = table.topics[start:stop], table.weights[start:stop], candidates.scale
        total = accumulate_own(word, table, candidates)
        if total <= 0:
            continue
        n_left, total = leave_itself(
            topics, weights, table.rest, scale, omega, candidates.rest_of_top, total, tau, counted, scratch
        )
        share = corpus.counts[entry] * COUNT_UNIT / total
        for i in range(topics.size):
            place = start + i if origin is None else origin[start + i]
            expected[place] += np.int64(share * scale[topics[i]] * weights[i] + 0.5)
        for j in range(n_left):
            i = scratch.heavy[j]
            place = start + i if origin is None else origin[start + i]
            whole = np.int64(share * scale[topics[i]] * weights[i] + 0.5)
            expected[place] += np.int64(share * scratch.heavy_omega[j] + 0.5) - whole
