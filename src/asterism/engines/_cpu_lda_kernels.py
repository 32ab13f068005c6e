"""Compiled loops of the warm start: see model/lda.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..model.random import DRAWS
from ._cpu_kernels import substream, uniform
from ._jit import kernel, part

Array = Any

# Tokens whose probabilities are multiplied before a logarithm is taken.
TOKENS_A_LOG = 8


@kernel
def draw_lda_dense(
    first: int,
    last: int,
    weights: Array,
    unit: Array,
    alpha: Array,
    alpha_total: float,
    corpus: Any,
    streams: Array,
    draws: Array,
    logs: Array,
) -> None:
    """lda.draw_document for documents first:last, in place; weights of words in topics are [v, k]."""
    n_topics = alpha.size
    counts, mass, none = np.empty(n_topics, weights.dtype), np.empty(n_topics, weights.dtype), weights.dtype.type(0)
    for d in range(first, last):
        begin, end = corpus.token_offsets[corpus.indptr[d]], corpus.token_offsets[corpus.indptr[d + 1]]
        for k in range(n_topics):
            counts[k] = alpha[k]
        for token in range(begin, end):
            counts[draws[token]] += 1
        stream = substream(substream(streams[d], DRAWS), 0)
        logs[d] = -(end - begin) * np.log(end - begin - 1 + alpha_total)
        product = 1.0
        for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
            weight = weights[corpus.words[entry]]
            for token in range(corpus.token_offsets[entry], corpus.token_offsets[entry + 1]):
                old = draws[token]
                counts[old] -= 1
                for k in range(n_topics):
                    mass[k] = counts[k] * weight[k]
                mass[old] = max(none, mass[old] - counts[old] * unit[old])
                k, total = pick_dense(uniform(stream, token - begin), mass)
                counts[k] += 1
                draws[token] = k
                product *= total
                if token % TOKENS_A_LOG == 0:
                    logs[d] += np.log(product)
                    product = 1.0
        logs[d] += np.log(product)


@part
def pick_dense(share: float, mass: Array) -> Any:
    """The topic at which the running mass passes its share of the total, and the total.

    Four running sums at a time, since an addition has to wait for the one before it.
    """
    quarter = mass.size // 4
    none = mass.dtype.type(0)
    a, b, c, rest = none, none, none, none
    for k in range(quarter):
        a += mass[k]
        b += mass[quarter + k]
        c += mass[2 * quarter + k]
        rest += mass[3 * quarter + k]
    for k in range(4 * quarter, mass.size):
        rest += mass[k]
    total = float(a) + float(b) + float(c) + float(rest)
    target, k = share * total, 0
    for part_sum in (a, b, c):
        if target < part_sum:
            break
        target -= part_sum
        k += quarter
    while k < mass.size - 1 and target >= mass[k]:
        target -= mass[k]
        k += 1
    return k, total


@kernel
def draw_lda_sparse(
    first: int,
    last: int,
    table: Any,
    alpha_rest: float,
    unit: Array,
    alpha: Array,
    alpha_total: float,
    corpus: Any,
    streams: Array,
    draws: Array,
    logs: Array,
) -> None:
    """lda.draw_document for documents first:last, in place, by the three buckets of lda.bucket_mass."""
    n_topics = alpha.size
    counts = np.zeros(n_topics, np.int64)
    cumulative = np.empty(n_topics, np.float64)
    present = np.empty(n_topics, np.int64)
    for d in range(first, last):
        begin, end = corpus.token_offsets[corpus.indptr[d]], corpus.token_offsets[corpus.indptr[d + 1]]
        n_present = 0
        for token in range(begin, end):
            if counts[draws[token]] == 0:
                present[n_present] = draws[token]
                n_present += 1
            counts[draws[token]] += 1
        stream = substream(substream(streams[d], DRAWS), 0)
        logs[d] = -(end - begin) * np.log(end - begin - 1 + alpha_total)
        for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
            start, stop = table.indptr[corpus.words[entry]], table.indptr[corpus.words[entry] + 1]
            for token in range(corpus.token_offsets[entry], corpus.token_offsets[entry + 1]):
                old = draws[token]
                counts[old] -= 1
                own = 0.0
                for i in range(start, stop):
                    k = table.topics[i]
                    itself = unit[k] if k == old else 0
                    own += (counts[k] + alpha[k]) * max(0, table.weights[i] - table.rest[k] - itself)
                    cumulative[i - start] = own
                local = 0.0
                for p in range(n_present):
                    local += counts[present[p]] * table.rest[present[p]]
                total = own + local + alpha_rest
                logs[d] += np.log(total)
                target = uniform(stream, token - begin) * total
                k = pick_sparse(target, own, local, alpha, start, stop, table, cumulative, counts, present[:n_present])
                if counts[k] == 0 and not is_in(k, present[:n_present]):
                    present[n_present] = k
                    n_present += 1
                counts[k] += 1
                draws[token] = k
        for p in range(n_present):
            counts[present[p]] = 0


@part
def is_in(value: int, values: Array) -> bool:
    for other in values:  # noqa: SIM110  (the compiler knows no any() of a generator)
        if other == value:
            return True
    return False


@part
def pick_sparse(
    target: float,
    own: float,
    local: float,
    alpha: Array,
    start: int,
    stop: int,
    table: Any,
    cumulative: Array,
    counts: Array,
    present: Array,
) -> int:
    """The topic at which the running mass of the three buckets passes `target`."""
    if target < own:
        low, high = 0, stop - start - 1
        while low < high:
            middle = (low + high) // 2
            if cumulative[middle] > target:
                high = middle
            else:
                low = middle + 1
        return int(table.topics[start + low])
    running = own
    if target < own + local:
        for k in present:
            running += counts[k] * table.rest[k]
            if running > target:
                return int(k)
    running = own + local
    for k in range(table.rest.size):
        running += alpha[k] * table.rest[k]
        if running > target:
            return k
    return int(table.rest.size - 1)


@kernel
def walk_groups(
    first: int,
    last: int,
    starts: Array,
    order: Array,
    prior: Array,
    prior_total: float,
    threshold: Array,
    other: Array,
    streams: Array,
    inverse_total: Array,
    walks: Array,
    totals: Array,
) -> None:
    """walks.visit for groups first:last, in place; adds their tokens to `totals` [k].

    A group's tokens lie all over memory: they are collected, dealt with where they are close, and put back.
    """
    n_topics, n_proposals = prior.size, walks.shape[1] - 1
    largest_group = 0
    for group in range(first, last):
        largest_group = max(largest_group, starts[group + 1] - starts[group])
    here = np.empty((largest_group, n_proposals + 2), walks.dtype)  # topic, proposals, topic before
    counts = np.zeros(n_topics, np.int32)
    for group in range(first, last):
        tokens = order[starts[group] : starts[group + 1]]
        for i in range(tokens.size):
            for j in range(n_proposals + 1):
                here[i, j] = walks[tokens[i], j]
        for i in range(tokens.size):
            here[i, -1] = here[i, 0]
            counts[here[i, 0]] += 1
        decide(here[: tokens.size], prior, inverse_total, counts, streams[group])
        for i in range(tokens.size):
            counts[here[i, -1]] = 0
            totals[here[i, 0]] += 1
        n_others = tokens.size - 1
        for i in range(tokens.size):
            walks[tokens[i], 0] = here[i, 0]
            for j in range(n_proposals):
                place = uniform(streams[group], (tokens.size + i) * n_proposals + j) * (n_others + prior_total)
                if place < n_others:
                    picked = int(place)
                    walks[tokens[i], j + 1] = here[picked + 1 if picked >= i else picked, 0]
                else:
                    piece_place = (place - n_others) / prior_total * n_topics
                    piece = min(n_topics - 1, int(piece_place))
                    walks[tokens[i], j + 1] = piece if piece_place - piece < threshold[piece] else other[piece]


@kernel
def group_tokens(words: Array, starts: Array, order: Array) -> None:
    """The order of words, stable, and where each one's tokens begin; from zeros."""
    for word in words:
        starts[word + 1] += 1
    for word in range(1, starts.size):
        starts[word] += starts[word - 1]
    place = starts[:-1].copy()
    for token in range(words.size):
        order[place[words[token]]] = token
        place[words[token]] += 1


@kernel
def count_topics(
    first: int, last: int, starts: Array, order: Array, topics: Array, n_topics: int, indptr: Array, found: Array
) -> None:
    """How many topics each of the groups first:last has, into indptr; then, with room in `found` [2, entry], which and
    how often."""
    counts, present = np.zeros(n_topics, np.int32), np.empty(n_topics, np.int32)
    for group in range(first, last):
        n = 0
        for i in range(starts[group], starts[group + 1]):
            k = topics[order[i]]
            if counts[k] == 0:
                present[n] = k
                n += 1
            counts[k] += 1
        if found.size:
            put_in_order(present, n, counts)
            for i in range(n):
                found[0, indptr[group] + i], found[1, indptr[group] + i] = present[i], counts[present[i]]
        else:
            indptr[group + 1] = n
        for i in range(n):
            counts[present[i]] = 0


@part
def put_in_order(present: Array, n: int, counts: Array) -> None:
    """Sort the n topics that have counts; where they are many, by looking at all topics."""
    if 8 * n < counts.size:
        present[:n].sort()
        return
    n = 0
    for k in range(counts.size):
        if counts[k]:
            present[n] = k
            n += 1


@part
def decide(here: Array, prior: Array, inverse_total: Array, counts: Array, stream: Any) -> None:
    """Each token's topic after the proposals for it have been accepted or refused."""
    n_proposals = here.shape[1] - 2
    for i in range(here.shape[0]):
        old = here[i, -1]
        topic, factor = old, (counts[old] - 1 + prior[old]) * inverse_total[old]
        for j in range(n_proposals):
            k = here[i, j + 1]
            proposed = (counts[k] - (1 if k == old else 0) + prior[k]) * inverse_total[k]
            if uniform(stream, i * n_proposals + j) * factor < proposed:
                topic, factor = k, proposed
        here[i, 0] = topic
