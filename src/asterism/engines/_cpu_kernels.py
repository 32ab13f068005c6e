"""Compiled document loops. Every function says which function of `model/` it equals; tests hold it to that.

Arrays of one element a topic are called as in the maths: `weights` is ξ, `embedding` rows are μ_k (or γ for
a document). Arguments that belong together travel in named tuples.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..model.random import GOLDEN, MIX_1, MIX_2
from ..model.tokens import LEAST_SHARE, LEAVINGS
from ._jit import exp_of, kernel, log_of, part, reduction, sin_pi_of

# Topics of which the heaviest is compared before each is.
MARKED_AT_ONCE = 128
Array = Any  # arrays of any float width: the kernels are compiled for what they are given

_30, _27, _31, _11, _32 = (np.uint64(n) for n in (30, 27, 31, 11, 32))
_LOW_HALF = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_TO_UNIT_53 = 2.0**-53
_TO_UNIT_32 = 2.0**-32


class Corpus(NamedTuple):
    """Documents: the fields of a Batch."""

    indptr: Array
    words: Array
    counts: Array
    token_offsets: Array


class Table(NamedTuple):
    """The fields of words.DrawTable."""

    indptr: Array
    topics: Array
    weights: Array
    rest: Array


class Space(NamedTuple):
    """Topic embeddings and what turns weights into embeddings."""

    embedding: Array  # μ [k, m]
    embedding_by_dim: Array  # μ' [m, k]: inner loops that run over topics read it in order
    tiles: Array  # the same, topics in pieces that stay in the cache, zeros in place of missing ones [tile, m, i]
    mean: Array  # m [k]
    gain: Array  # τ Σ_a
    precision: Array  # P = ρ I + τ K Σ_u
    scatter: Array  # of topic vectors in the average document [m, m]
    tau: Any  # of the arrays' type, so that arithmetic stays in it


class Candidates(NamedTuple):
    """Scratch for the candidates of a document's tokens: see model/tokens.py."""

    heap: Array  # the K_s heaviest topics; once they are weighed in ascending order, then -1
    is_top: Array  # the same as marks [k]
    scale: Array  # exp(ξ - max ξ) [k]
    rest_of_top: Array  # the top bucket's mass [k]
    cumulative: Array  # running sums of a word's own bucket


class Leavers(NamedTuple):
    """Scratch of leave_itself: pairs of a word and a topic that something leaves."""

    heavy: Array  # their places in the word's row
    heavy_omega: Array  # what is left of their mass


# --- random numbers: model/random.py, one value at a time --------------------------------------------------------


@part
def mix(x: Any) -> Any:
    """random.mix."""
    x = (x ^ (x >> _30)) * MIX_1
    x = (x ^ (x >> _27)) * MIX_2
    return x ^ (x >> _31)


@part
def substream(stream: Any, part: int) -> Any:
    """random.stream(*key, part), given the stream of the key."""
    return mix(stream + GOLDEN + np.uint64(part))


@part
def uniform(stream: Any, index: int) -> float:
    """random.uniforms(stream, index)."""
    return float(mix(stream + GOLDEN * (np.uint64(index) + _ONE)) >> _11) * _TO_UNIT_53


@part
def fill_normals(stream: Any, first_pair: int, out: Array) -> None:
    """out[:] = random.normals(stream, ...)[2 first_pair:], with cos(2π v) = -cos(π (2 v - 1)), and sin alike."""
    real = out.dtype.type
    one, half, minus_two, to_unit = real(1), real(0.5), real(-2), real(_TO_UNIT_32)
    for pair in range(out.size // 2):
        halves = mix(stream + GOLDEN * (np.uint64(first_pair + pair) + _ONE))
        radius = np.sqrt(minus_two * log_of((real(halves >> _32) + one) * to_unit))
        turn = real(halves & _LOW_HALF) * (to_unit + to_unit) - one
        out[2 * pair] = -radius * sin_pi_of(half - abs(turn))
        out[2 * pair + 1] = -radius * sin_pi_of(turn)
    if out.size % 2 == 1:
        halves = mix(stream + GOLDEN * (np.uint64(first_pair + out.size // 2) + _ONE))
        radius = np.sqrt(minus_two * log_of((real(halves >> _32) + one) * to_unit))
        turn = real(halves & _LOW_HALF) * (to_unit + to_unit) - one
        out[out.size - 1] = -radius * sin_pi_of(half - abs(turn))


@reduction
def largest(values: Array) -> Any:
    """max(values), four at a time, since a comparison has to wait for the one before it."""
    quarter = values.size // 4
    a = b = c = found = values[0]
    for k in range(quarter):
        a = max(a, values[k])
        b = max(b, values[quarter + k])
        c = max(c, values[2 * quarter + k])
        found = max(found, values[3 * quarter + k])
    for k in range(4 * quarter, values.size):
        found = max(found, values[k])
    return max(max(a, b), max(c, found))


# --- the document's heaviest topics ------------------------------------------------------------------------------


@part
def _sift_down(weights: Array, heap: Array, position: int, size: int) -> None:
    """Restore the min-heap order below `position`: lightest topic on top, the higher number among equals."""
    topic = heap[position]
    while True:
        child = 2 * position + 1
        if child >= size:
            break
        if child + 1 < size and _is_lighter(weights, heap[child + 1], heap[child]):
            child += 1
        if not _is_lighter(weights, heap[child], topic):
            break
        heap[position] = heap[child]
        position = child
    heap[position] = topic


@part
def _is_lighter(weights: Array, a: int, b: int) -> bool:
    return weights[a] < weights[b] or (weights[a] == weights[b] and a > b)


@part
def mark_heaviest(weights: Array, heap: Array, marked: Array) -> None:
    """marked[k] = k in tokens.heaviest_topics(weights, len(heap)), by a bounded min-heap: O(K log K_s)."""
    n_topics, size = weights.size, heap.size
    if size >= n_topics:
        marked[:] = True
        for k in range(n_topics):
            heap[k] = k
        return
    for k in range(size):
        heap[k] = k
    for position in range(size // 2 - 1, -1, -1):
        _sift_down(weights, heap, position, size)
    lightest = weights[heap[0]]
    for first in range(size, n_topics, MARKED_AT_ONCE):
        last = min(first + MARKED_AT_ONCE, n_topics)
        if largest(weights[first:last]) > lightest:  # seldom
            for k in range(first, last):
                if weights[k] > lightest:  # of equals the lower number stays
                    heap[0] = k
                    _sift_down(weights, heap, 0, size)
                    lightest = weights[heap[0]]
    marked[:] = False
    for position in range(size):
        marked[heap[position]] = True


# --- tokens ------------------------------------------------------------------------------------------------------


@part
def new_candidates(n_topics: int, n_top: int, like: Array) -> Any:
    """Scratch for documents of a model; numbers are of the type of `like`."""
    return Candidates(
        np.empty(min(n_top, n_topics), np.int32),
        np.empty(n_topics, np.bool_),
        np.empty(n_topics, like.dtype),
        np.empty(n_topics, like.dtype),
        np.empty(n_topics, np.float64),
    )


@part
def sort(values: Array) -> None:
    """In place; there are few."""
    for i in range(1, values.size):
        value, place = values[i], i
        while place > 0 and values[place - 1] > value:
            values[place] = values[place - 1]
            place -= 1
        values[place] = value


@part
def weigh_candidates(weights: Array, table: Any, candidates: Any) -> float:
    """tokens.candidate_mass, the part shared by a document's words; returns the top bucket's total."""
    mark_heaviest(weights, candidates.heap, candidates.is_top)
    top = candidates.heap[: weights.size]
    sort(top)
    candidates.heap[weights.size :] = -1
    heaviest = weights[top[0]]
    for k in top:
        heaviest = max(heaviest, weights[k])
    for k in range(weights.size):
        candidates.scale[k] = exp_of(weights[k] - heaviest)
    candidates.rest_of_top[:] = 0
    total = 0.0
    for k in top:
        candidates.rest_of_top[k] = candidates.scale[k] * table.rest[k]
        total += candidates.rest_of_top[k]
    return total


@part
def accumulate_own(word: int, table: Any, candidates: Any) -> float:
    """tokens.candidate_mass, the own bucket of one word: fills its running sums and returns the last."""
    start = table.indptr[word]
    total = 0.0
    for i in range(start, table.indptr[word + 1]):
        k = table.topics[i]
        total += candidates.scale[k] * table.weights[i] - candidates.rest_of_top[k]
        candidates.cumulative[i - start] = total
    return total


@part
def pick(target: float, own_total: float, word: int, table: Any, candidates: Any) -> int:
    """tokens.draw: the topic at which the running mass passes `target`."""
    if target < own_total:
        start = table.indptr[word]
        low, high = 0, table.indptr[word + 1] - start - 1
        while low < high:
            middle = (low + high) // 2
            if candidates.cumulative[middle] > target:
                high = middle
            else:
                low = middle + 1
        return int(table.topics[start + low])
    running, last = own_total, 0
    for k in candidates.heap:
        if k < 0:
            break
        if candidates.rest_of_top[k] > 0:
            running += candidates.rest_of_top[k]
            last = k
            if running > target:
                break
    return last


@part
def draw_tokens(
    d: int,
    corpus: Any,
    table: Any,
    weights: Array,
    stream: Any,
    candidates: Any,
    draws: Array,
    counts: Array,
) -> None:
    """document.draw_tokens for document d; fills the draws and n_k."""
    top_total = weigh_candidates(weights, table, candidates)
    first_token = corpus.token_offsets[corpus.indptr[d]]
    counts[:] = 0
    for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
        word = corpus.words[entry]
        own_total = accumulate_own(word, table, candidates)
        for token in range(corpus.token_offsets[entry], corpus.token_offsets[entry + 1]):
            target = uniform(stream, token - first_token) * (own_total + top_total)
            k = pick(target, own_total, word, table, candidates)
            draws[token] = k
            counts[k] += 1


@part
def share_left(omega: float, leaving: float) -> float:
    """tokens.share_left of one topic: y = log(ω'/ω) solves ω (e^y - 1) + y = -leaving, a convex function, on which
    Newton's method comes down from the right."""
    y = -leaving / (1 + omega)
    for _ in range(3):
        e = np.exp(y)
        y -= (omega * (e - 1) + y + leaving) / (omega * e + 1)
    return float(np.exp(y))


@part
def leave_itself(
    topics: Array,
    weights: Array,
    of_unseen: Array,
    scale: Array,
    omega: Array,
    rest: Array,
    total: float,
    tau: float,
    counted: float,
    scratch: Any,
) -> Any:
    """tokens.leave_itself for a word's own topics with mass scale * weights in all, `rest` of it in the top bucket, and
    the mass of all its candidates: lists the pairs that something leaves and what is left of them in `scratch`, and
    returns their number and the mass of all candidates then."""
    places, left, n, all_left = scratch.heavy, scratch.heavy_omega, 0, total
    for i in range(topics.size):
        mass = scale[topics[i]] * weights[i]
        if mass > LEAST_SHARE * tau * total:
            places[n], left[n] = i, mass
            n += 1
    for _ in range(LEAVINGS):
        now = total
        for j in range(n):
            k = topics[places[j]]
            whole, own = scale[k] * weights[places[j]], left[j] / all_left
            prior = of_unseen[k] / weights[places[j]]
            of_counts = max(1 - own * prior * counted, prior)
            left[j] = max(rest[k], whole * share_left(omega[k], own / tau) * of_counts)
            now += left[j] - whole
        all_left = now
    return n, all_left


@reduction
def mass_of_all(theta: Array, weights: Array) -> float:
    """The mass of a word that has every topic."""
    total = 0.0
    for k in range(theta.size):
        total += theta[k] * weights[k]
    return total


@reduction
def mass_of_own(theta: Array, rest: Array, topics: Array, weights: Array) -> float:
    """The mass of a word's own bucket."""
    total = 0.0
    for i in range(topics.size):
        total += theta[topics[i]] * weights[i] - rest[topics[i]]
    return total


@part
def expect_counts(
    d: int,
    corpus: Any,
    table: Any,
    theta: Array,
    is_top: Array,
    rest: Array,
    tau: float,
    counted: float,
    scratch: Any,
    counts: Array,
) -> None:
    """document.expected_counts for document d, given its θ (to a factor) and which topics are its heaviest: fills
    E[n_k]; `rest` is scratch. With a τ above 0, θ is ω, and each token leaves itself out."""
    top_total, top_share = 0.0, 0.0
    for k in range(theta.size):
        rest[k] = theta[k] * table.rest[k] if is_top[k] else 0
        top_total += rest[k]
        counts[k] = 0
    for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
        start, stop = table.indptr[corpus.words[entry]], table.indptr[corpus.words[entry] + 1]
        topics, weights = table.topics[start:stop], table.weights[start:stop]
        has_all = stop - start == theta.size  # nothing is left to the top bucket then
        n_left, total = 0, mass_of_all(theta, weights) if has_all else mass_of_own(theta, rest, topics, weights)
        total += 0.0 if has_all else top_total
        if tau > 0:
            n_left, total = leave_itself(topics, weights, table.rest, theta, theta, rest, total, tau, counted, scratch)
        share = theta.dtype.type(corpus.counts[entry] / total)
        if has_all:
            for k in range(theta.size):
                counts[k] += share * theta[k] * weights[k]
        else:
            top_share += share
            for i in range(topics.size):
                counts[topics[i]] += share * (theta[topics[i]] * weights[i] - rest[topics[i]])
        for j in range(n_left):
            k = topics[scratch.heavy[j]]
            counts[k] += share * (scratch.heavy_omega[j] - theta[k] * weights[scratch.heavy[j]])
    for k in range(counts.size):
        counts[k] += top_share * rest[k]


# --- scores ------------------------------------------------------------------------------------------------------


@reduction
def softmax(weights: Array, out: Array) -> None:
    """out = softmax(weights)."""
    heaviest = largest(weights)
    total = 0.0
    for k in range(weights.size):
        out[k] = exp_of(weights[k] - heaviest)
        total += out[k]
    inverse = out.dtype.type(1.0 / total)
    for k in range(weights.size):
        out[k] *= inverse


@kernel
def score_documents(
    first: int,
    last: int,
    corpus: Any,
    xis: Array,
    counted: Any,
    topic_total: Array,
    beta: float,
    out: Array,
) -> None:
    """words.log_likelihood for documents first:last; λ = β + counted, so a word costs its own topics only.

    `counted` is λ - β as a Table: indptr, topics and weights by word.
    """
    share = np.empty(xis.shape[1])
    for d in range(first, last):
        softmax(xis[d], share)
        unseen = 0.0
        for k in range(share.size):
            share[k] /= topic_total[k]
            unseen += beta * share[k]
        total = 0.0
        for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
            word, probability = corpus.words[entry], unseen
            for i in range(counted.indptr[word], counted.indptr[word + 1]):
                probability += share[counted.topics[i]] * counted.weights[i]
            total += corpus.counts[entry] * np.log(probability)
        out[d] = total


# --- the draw table ----------------------------------------------------------------------------------------------


@kernel
def keep_largest_in_rows(indptr: Array, values: Array, n: int, kept: Array) -> None:
    """words.ranks_in_rows(...) < n, entry by entry."""
    heap = np.empty(n, np.int32)
    for row in range(indptr.size - 1):
        start, stop = indptr[row], indptr[row + 1]
        mark_heaviest(values[start:stop], heap, kept[start:stop])


# --- where topic embeddings begin --------------------------------------------------------------------------------


@kernel
def multiply_rows(first: int, last: int, indptr: Array, indices: Array, data: Array, x: Array, out: Array) -> None:
    """Rows first:last of a sparse matrix times x [k, n]."""
    for row in range(first, last):
        total = out[row]
        total[:] = 0
        for entry in range(indptr[row], indptr[row + 1]):
            value, other = data[entry], x[indices[entry]]
            for column in range(total.size):
                total[column] += value * other[column]
