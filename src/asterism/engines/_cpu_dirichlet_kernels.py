"""Compiled loops of LDA by stochastic variational inference: see model/dirichlet.py."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..model.dirichlet import SMALLEST_SHARE, SMALLEST_WEIGHT
from ..model.random import DRAWS
from ._cpu_kernels import Leavers, expect_counts, largest, mark_heaviest, substream, uniform
from ._jit import exp_of, kernel, like, part, reduction

Array = Any


@part
def below_log(x: Any) -> Any:
    """log(x + 6) - ψ(x), by ψ(x) = ψ(x + 6) - Σ_{i<6} 1/(x + i), its terms i and 5 - i taken together, and Stirling's
    series for ψ(x + 6). Without a call, so that loops of it become vector code."""
    one, two, four, five, six = like(1.0, x), like(2.0, x), like(4.0, x), like(5.0, x), like(6.0, x)
    y, t = one / (x + six), x * (x + five)
    s = y * y
    series = y / two + s * (like(1 / 12, x) - s * (like(1 / 120, x) - s * like(1 / 252, x)))
    return series + (two * x + five) * (one / t + one / (t + four) + one / (t + six))


@part
def exp_psi(x: Array, out: Array) -> None:
    """out = dirichlet.exp_psi(x)."""
    six, floor = out.dtype.type(6), out.dtype.type(SMALLEST_SHARE)
    for k in range(x.size):
        out[k] = max(floor, (x[k] + six) * exp_of(-below_log(x[k])))


@kernel
def weigh_words(first: int, last: int, word_topic: Array, words: Array, beta: Any, scale: Array, out: Array) -> None:
    """dirichlet.word_weights for words first:last, given 1 / exp(ψ(Σ_v λ_kv)) of the topics."""
    real = out.dtype.type
    six, floor = real(6), real(SMALLEST_WEIGHT)
    exponents = np.empty(out.shape[1], out.dtype)
    for i in range(first, last):
        counted, weight = word_topic[words[i]], out[i]
        for k in range(weight.size):
            exponents[k] = -below_log(counted[k] + beta)
        shift = largest(exponents)
        for k in range(weight.size):
            weight[k] = scale[k] * (counted[k] + beta + six) * exp_of(exponents[k] - shift)
        inverse = real(1) / largest(weight)
        for k in range(weight.size):
            weight[k] = max(floor, weight[k] * inverse)


@reduction
def dot(a: Array, b: Array) -> Any:
    total = like(0.0, a[0])
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@reduction
def renew(theta: Array, total: Array, alpha: Any, gamma: Array) -> float:
    """gamma = α + θ total; returns how much it has changed."""
    change = like(0.0, gamma[0])
    for k in range(gamma.size):
        value = alpha + theta[k] * total[k]
        change += abs(value - gamma[k])
        gamma[k] = value
    return float(change)


# --- expectations over all topics --------------------------------------------------------------------------------


@kernel
def expect_documents(
    first: int,
    last: int,
    corpus: Any,
    weights: Array,
    rows: Array,
    alpha: Any,
    max_steps: int,
    tol: float,
    gammas: Array,
    thetas: Array,
    shares: Array,
    steps: Array,
) -> None:
    """dirichlet.expect_document for documents first:last. weights[rows[entry]] are those of the entry's word.

    Fills γ, the rounds taken, θ = exp(ψ(γ)) and for each entry n_v / Σ_k θ_k w_vk.
    """
    total = np.empty(weights.shape[1], weights.dtype)
    for d in range(first, last):
        begin, end = corpus.indptr[d], corpus.indptr[d + 1]
        gamma, theta = gammas[d], thetas[d]
        gamma[:] = 1 if begin < end else alpha
        n_tokens = corpus.token_offsets[end] - corpus.token_offsets[begin]
        steps[d] = 0
        while begin < end and steps[d] < max_steps:
            exp_psi(gamma, theta)
            total[:] = 0
            for entry in range(begin, end):
                weight = weights[rows[entry]]
                share = total.dtype.type(corpus.counts[entry]) / dot(theta, weight)
                for k in range(total.size):
                    total[k] += share * weight[k]
            steps[d] += 1
            if renew(theta, total, alpha, gamma) < tol * n_tokens:
                break
        exp_psi(gamma, theta)
        for entry in range(begin, end):
            shares[entry] = corpus.counts[entry] / dot(theta, weights[rows[entry]])


@kernel
def expect_words(
    first: int, last: int, starts: Array, entries: Array, documents: Array, shares: Array, thetas: Array, out: Array
) -> None:
    """Σ_d of dirichlet.expected_topics for words first:last, in the order of documents. The word's entries are
    entries[starts[v]:starts[v + 1]]; `out` has the weights of words and is multiplied by what they have [v, k]."""
    total = np.empty(out.shape[1], out.dtype)
    for word in range(first, last):
        total[:] = 0
        for i in range(starts[word], starts[word + 1]):
            share, theta = shares[entries[i]], thetas[documents[entries[i]]]
            for k in range(total.size):
                total[k] += share * theta[k]
        for k in range(total.size):
            out[word, k] *= total[k]


# --- draws from candidates ---------------------------------------------------------------------------------------


class Scratch(NamedTuple):
    """Of one document at a time. Arrays of one number a topic are cleared where they were used, so that no document
    costs the number of topics."""

    counts: Array  # n_k
    before: Array  # the same before this round
    rest_of_top: Array  # mass of the document's heaviest topics [k]
    present: Array  # topics that its tokens have, in ascending order
    top: Array  # its heaviest topics, in ascending order
    running: Array  # running sums of a word's own mass


@part
def new_scratch(table: Any) -> Any:
    n_topics, real = table.rest.size, table.rest.dtype
    of_topic = np.zeros((n_topics, 2), real)  # what is read together lies together
    return Scratch(
        of_topic[:, 0],
        np.zeros(n_topics, real),
        of_topic[:, 1],
        np.empty(n_topics, np.int32),
        np.empty(n_topics, np.int32),
        np.empty(n_topics),
    )


@part
def list_present(drawn: Array, scratch: Any) -> int:
    """Puts the tokens' topics in order; returns how many there are. Counts are turned negative to mark what is seen."""
    counts, present, n = scratch.counts, scratch.present, 0
    for token in range(drawn.size):
        k = drawn[token]
        if counts[k] > 0:
            counts[k] = -counts[k]
            place = n
            while place > 0 and present[place - 1] > k:
                present[place] = present[place - 1]
                place -= 1
            present[place] = k
            n += 1
    for i in range(n):
        counts[present[i]] = -counts[present[i]]
    return n


@part
def list_top(n_present: int, n_top: int, scratch: Any) -> int:
    """scratch.top = tokens.heaviest_topics(counts, n_top): some of those present, or they and the first of the others;
    returns how many there are."""
    counts, present, top, n = scratch.counts, scratch.present, scratch.top, 0
    if n_present > n_top:
        weights, marked = counts[present[:n_present]], np.empty(n_present, np.bool_)
        mark_heaviest(weights, np.empty(n_top, np.int32), marked)
        for i in range(n_present):
            if marked[i]:
                top[n] = present[i]
                n += 1
        return n
    i, k = 0, 0
    while n < n_top - (n_present - i):  # the first topics, present or not, as long as there is room
        top[n] = k
        i += i < n_present and present[i] == k
        n, k = n + 1, k + 1
    while i < n_present:
        top[n] = present[i]
        n, i = n + 1, i + 1
    return n


@part
def recount(k: int, change: float, alpha: float, table: Any, scratch: Any) -> float:
    """n_k += change; returns what that adds to the mass of the heaviest topics."""
    scratch.counts[k] += change
    old = scratch.rest_of_top[k]
    if old == 0:
        return 0.0
    scratch.rest_of_top[k] = (scratch.counts[k] + alpha) * table.rest[k]
    return float(scratch.rest_of_top[k] - old)


@part
def weigh_own(word: int, alpha: float, table: Any, scratch: Any) -> float:
    """tokens.candidate_mass of the word's own topics: fills its running sums and returns the last."""
    start, total = table.indptr[word], 0.0
    for i in range(start, table.indptr[word + 1]):
        k = table.topics[i]
        total += (scratch.counts[k] + alpha) * table.weights[i] - scratch.rest_of_top[k]
        scratch.running[i - start] = total
    return total


@part
def pick(target: float, word: int, own_total: float, in_top: int, table: Any, scratch: Any) -> int:
    """tokens.draw: the topic at which the running mass passes `target`."""
    if target < own_total:
        start = table.indptr[word]
        low, high = 0, table.indptr[word + 1] - start - 1
        while low < high:
            middle = (low + high) // 2
            if scratch.running[middle] > target:
                high = middle
            else:
                low = middle + 1
        return int(table.topics[start + low])
    mass, i = own_total, 0
    for i in range(in_top):
        mass += scratch.rest_of_top[scratch.top[i]]
        if mass > target:
            break
    return int(scratch.top[i])


@part
def draw_round(
    d: int, corpus: Any, table: Any, alpha: float, is_first: bool, stream: Any, in_top: int, scratch: Any, drawn: Array
) -> None:
    """A topic for every token of document d, given the others."""
    top_total, begin = 0.0, corpus.token_offsets[corpus.indptr[d]]
    for i in range(in_top):
        k = scratch.top[i]
        scratch.rest_of_top[k] = (scratch.counts[k] + alpha) * table.rest[k]
        top_total += scratch.rest_of_top[k]
    for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
        word = corpus.words[entry]
        for token in range(corpus.token_offsets[entry] - begin, corpus.token_offsets[entry + 1] - begin):
            if not is_first:
                top_total += recount(drawn[token], -1.0, alpha, table, scratch)
            own_total = weigh_own(word, alpha, table, scratch)
            target = uniform(stream, token) * (own_total + top_total)
            drawn[token] = pick(target, word, own_total, in_top, table, scratch)
            top_total += recount(drawn[token], 1.0, alpha, table, scratch)
    for i in range(in_top):
        scratch.rest_of_top[scratch.top[i]] = 0


@part
def total_change(topics: Array, scratch: Any) -> float:
    """Σ |n_k - before_k| over some topics, which then are what was before."""
    change = 0.0
    for k in topics:
        change += abs(scratch.counts[k] - scratch.before[k])
        scratch.before[k] = scratch.counts[k]
    return change


@kernel
def draw_documents(
    first: int,
    last: int,
    corpus: Any,
    table: Any,
    alpha: float,
    n_top: int,
    max_steps: int,
    tol: float,
    streams: Array,
    draws: Array,
    steps: Array,
) -> None:
    """dirichlet.draw_document for documents first:last; fills draws and the rounds taken."""
    n_top = min(n_top, table.rest.size)
    scratch = new_scratch(table)
    for d in range(first, last):
        begin, end = corpus.token_offsets[corpus.indptr[d]], corpus.token_offsets[corpus.indptr[d + 1]]
        stream, drawn, n_present = substream(streams[d], DRAWS), draws[begin:end], 0
        steps[d] = 0
        while begin < end and steps[d] < max_steps:
            in_top = list_top(n_present, n_top, scratch)
            draw_round(d, corpus, table, alpha, steps[d] == 0, substream(stream, steps[d]), in_top, scratch, drawn)
            change = total_change(scratch.present[:n_present], scratch)  # of those that have gone, too
            n_present = list_present(drawn, scratch)
            change += total_change(scratch.present[:n_present], scratch)
            steps[d] += 1
            if change < tol * (end - begin):
                break
        for k in scratch.present[:n_present]:
            scratch.counts[k] = scratch.before[k] = 0


@kernel
def expect_among_candidates(
    first: int,
    last: int,
    corpus: Any,
    table: Any,
    alpha: Any,
    n_top: int,
    max_steps: int,
    tol: float,
    gammas: Array,
) -> None:
    """dirichlet.expect_among_candidates for documents first:last; fills γ."""
    n_topics = gammas.shape[1]
    theta, rest, counts, ones = np.ones((4, n_topics), gammas.dtype)
    heap, is_top = np.empty(min(n_top, n_topics), np.int32), np.empty(n_topics, np.bool_)
    nothing_leaves = Leavers(np.empty(0, np.int32), np.empty(0, np.float64))
    for d in range(first, last):
        begin, end = corpus.indptr[d], corpus.indptr[d + 1]
        gamma, step = gammas[d], 0
        gamma[:] = 1 if begin < end else alpha
        n_tokens = corpus.token_offsets[end] - corpus.token_offsets[begin]
        while begin < end and step < max_steps:
            exp_psi(gamma, theta)
            mark_heaviest(theta, heap, is_top)
            expect_counts(d, corpus, table, theta, is_top, rest, 0.0, 0.0, nothing_leaves, counts)
            step += 1
            if renew(ones, counts, alpha, gamma) < tol * n_tokens:
                break
