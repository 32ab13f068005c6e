"""Compiled document loops. Every function says which function of `model/` it equals; tests hold it to that.

Arrays of one element a topic are called as in the maths: `weights` is ξ, `embedding` rows are μ_k (or γ for
a document). Scratch arrays come from the caller where a function runs once a round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..model.document import ADAGRAD_FLOOR, INFER_ROUNDS, INFER_TOL, LONGEST_WEIGHT_STEP
from ..model.random import DRAWS, GOLDEN, MIX_1, MIX_2, NOISE
from ._jit import kernel

Array = Any  # arrays of any float width: the kernels are compiled for what they are given

_30, _27, _31, _11, _32 = (np.uint64(n) for n in (30, 27, 31, 11, 32))
_LOW_HALF = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_TO_UNIT_53 = 2.0**-53
_TO_UNIT_32 = 2.0**-32


# --- random numbers: model/random.py, one value at a time ---------------------------------------------------


@kernel
def mix(x: np.uint64) -> np.uint64:
    """random.mix."""
    x = (x ^ (x >> _30)) * MIX_1
    x = (x ^ (x >> _27)) * MIX_2
    return x ^ (x >> _31)


@kernel
def substream(stream: np.uint64, part: int) -> np.uint64:
    """random.stream(*key, part), given the stream of the key."""
    return mix(stream + GOLDEN + np.uint64(part))


@kernel
def uniform(stream: np.uint64, index: int) -> float:
    """random.uniforms(stream, index)."""
    return np.float64(mix(stream + GOLDEN * (np.uint64(index) + _ONE)) >> _11) * _TO_UNIT_53


@kernel
def fill_normals(stream: np.uint64, out: Array) -> None:
    """out[:] = random.normals(stream, len(out))."""
    for pair in range((out.size + 1) // 2):
        halves = mix(stream + GOLDEN * (np.uint64(pair) + _ONE))
        unit = (np.float64(halves >> _32) + 1.0) * _TO_UNIT_32
        radius = np.sqrt(-2.0 * np.log(unit))
        angle = 2.0 * np.pi * np.float64(halves & _LOW_HALF) * _TO_UNIT_32
        out[2 * pair] = radius * np.cos(angle)
        if 2 * pair + 1 < out.size:
            out[2 * pair + 1] = radius * np.sin(angle)


# --- the document's heaviest topics ---------------------------------------------------------------------------


@kernel
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


@kernel
def _is_lighter(weights: Array, a: int, b: int) -> bool:
    return weights[a] < weights[b] or (weights[a] == weights[b] and a > b)


@kernel
def mark_heaviest(weights: Array, heap: Array, marked: Array) -> None:
    """marked[k] = k in tokens.heaviest_topics(weights, len(heap)), by a bounded min-heap: O(K log K_s)."""
    n_topics, size = weights.size, heap.size
    if size >= n_topics:
        marked[:] = True
        return
    for k in range(size):
        heap[k] = k
    for position in range(size // 2 - 1, -1, -1):
        _sift_down(weights, heap, position, size)
    for k in range(size, n_topics):
        if _is_lighter(weights, heap[0], k):
            heap[0] = k
            _sift_down(weights, heap, 0, size)
    marked[:] = False
    for position in range(size):
        marked[heap[position]] = True


# --- tokens -----------------------------------------------------------------------------------------------------


@kernel
def weigh_candidates(
    weights: Array, rest: Array, heap: Array, marked: Array, scale: Array, rest_of_top: Array
) -> float:
    """tokens.candidate_mass, the part shared by a document's words: fills exp(ξ - max ξ) and the top bucket's
    mass; returns that bucket's total."""
    mark_heaviest(weights, heap, marked)
    heaviest = weights.max()
    total = 0.0
    for k in range(weights.size):
        scale[k] = np.exp(weights[k] - heaviest)
        rest_of_top[k] = scale[k] * rest[k] if marked[k] else 0.0
        total += rest_of_top[k]
    return total


@kernel
def accumulate_own(
    start: int,
    stop: int,
    table_topics: Array,
    table_weights: Array,
    scale: Array,
    rest_of_top: Array,
    cumulative: Array,
) -> float:
    """tokens.candidate_mass, the own bucket of one word: fills its running sums and returns the last."""
    total = 0.0
    for i in range(start, stop):
        k = table_topics[i]
        total += scale[k] * table_weights[i] - rest_of_top[k]
        cumulative[i - start] = total
    return total


@kernel
def pick(
    target: float, own_total: float, n_own: int, cumulative: Array, own_topics: Array, rest_of_top: Array
) -> int:
    """tokens.draw: the topic at which the running mass passes `target`."""
    if target < own_total:
        low, high = 0, n_own - 1
        while low < high:
            middle = (low + high) // 2
            if cumulative[middle] > target:
                high = middle
            else:
                low = middle + 1
        return own_topics[low]
    running, last = own_total, 0
    for k in range(rest_of_top.size):
        if rest_of_top[k] > 0:
            running += rest_of_top[k]
            last = k
            if running > target:
                break
    return last


@kernel
def draw_tokens(
    first: int,
    last: int,
    words: Array,
    counts: Array,
    token_offsets: Array,
    stream: np.uint64,
    table_indptr: Array,
    table_topics: Array,
    table_weights: Array,
    top_total: float,
    scale: Array,
    rest_of_top: Array,
    cumulative: Array,
    topic_counts: Array,
    draws: Array,
) -> None:
    """document.draw_tokens for entries first:last; fills n_k and the draws."""
    topic_counts[:] = 0
    token = 0
    for entry in range(first, last):
        start, stop = table_indptr[words[entry]], table_indptr[words[entry] + 1]
        own_total = accumulate_own(start, stop, table_topics, table_weights, scale, rest_of_top, cumulative)
        for i in range(counts[entry]):
            target = uniform(stream, token) * (own_total + top_total)
            k = pick(target, own_total, stop - start, cumulative, table_topics[start:stop], rest_of_top)
            draws[token_offsets[entry] + i] = k
            topic_counts[k] += 1
            token += 1


@kernel
def expect_counts(
    first: int,
    last: int,
    words: Array,
    counts: Array,
    table_indptr: Array,
    table_topics: Array,
    table_weights: Array,
    top_total: float,
    scale: Array,
    rest_of_top: Array,
    topic_counts: Array,
) -> None:
    """document.expected_counts for entries first:last."""
    topic_counts[:] = 0
    top_share = 0.0
    for entry in range(first, last):
        start, stop = table_indptr[words[entry]], table_indptr[words[entry] + 1]
        own_total = 0.0
        for i in range(start, stop):
            k = table_topics[i]
            own_total += scale[k] * table_weights[i] - rest_of_top[k]
        share = counts[entry] / (own_total + top_total)
        top_share += share
        for i in range(start, stop):
            k = table_topics[i]
            topic_counts[k] += share * (scale[k] * table_weights[i] - rest_of_top[k])
    for k in range(rest_of_top.size):
        topic_counts[k] += top_share * rest_of_top[k]


# --- embedding and weights -------------------------------------------------------------------------------------------


@kernel
def embed(weights: Array, embedding: Array, gain: Array, moment: Array, out: Array) -> None:
    """out = document.embed(weights, topics), with gain = τ Σ_a and moment [m] as scratch."""
    moment[:] = 0
    for k in range(weights.size):
        weight = weights[k]
        for m in range(moment.size):
            moment[m] += weight * embedding[k, m]
    out[:] = 0
    for n in range(moment.size):
        for m in range(out.size):
            out[m] += moment[n] * gain[n, m]


@kernel
def prior_mean(embedding_by_dim: Array, gamma: Array, out: Array) -> None:
    """out = U γ, with U transposed [m, k] so that the inner loop runs over topics."""
    out[:] = 0
    for m in range(gamma.size):
        g = gamma[m]
        for k in range(out.size):
            out[k] += g * embedding_by_dim[m, k]


@kernel
def softmax(weights: Array, out: Array) -> None:
    """out = softmax(weights)."""
    heaviest = weights.max()
    total = 0.0
    for k in range(weights.size):
        out[k] = np.exp(weights[k] - heaviest)
        total += out[k]
    inverse = out.dtype.type(1.0 / total)
    for k in range(weights.size):
        out[k] *= inverse


@kernel
def add_noisy_softmax(
    weights: Array, stream: np.uint64, n_samples: int, sigma: float, noisy: Array, theta: Array, out: Array
) -> None:
    """out = mean over samples t of softmax(ξ + σ ε_t); noisy and theta [k] are scratch."""
    out[:] = 0
    for t in range(n_samples):
        fill_normals(substream(stream, t), noisy)
        for k in range(weights.size):
            noisy[k] = weights[k] + sigma * noisy[k]
        softmax(noisy, theta)
        for k in range(weights.size):
            out[k] += theta[k]
    share = out.dtype.type(1.0 / n_samples)
    for k in range(weights.size):
        out[k] *= share


@kernel
def adagrad_step(
    weights: Array,
    mean: Array,
    topic_counts: Array,
    n_tokens: float,
    theta: Array,
    tau: float,
    rate: float,
    squares: Array,
) -> float:
    """One step along document.weight_gradient; returns the mean change of a weight."""
    change = 0.0
    for k in range(weights.size):
        gradient = tau * (mean[k] - weights[k]) + topic_counts[k] - n_tokens * theta[k]
        squares[k] += gradient * gradient
        step = rate * gradient / np.sqrt(squares[k])
        weights[k] += step
        change += abs(step)
    return change / weights.size


@kernel
def newton_step(
    weights: Array, mean: Array, topic_counts: Array, n_tokens: float, tau: float, theta: Array, step: Array
) -> float:
    """weights += document.newton_step(...); returns the mean change. theta and step [k] are scratch."""
    softmax(weights, theta)
    along, curvature = 0.0, 0.0
    for k in range(weights.size):
        diagonal = tau + n_tokens * theta[k]
        step[k] = (tau * (mean[k] - weights[k]) + topic_counts[k] - n_tokens * theta[k]) / diagonal
        along += theta[k] * step[k]
        curvature += theta[k] * theta[k] / diagonal
    rank_one = n_tokens * along / (1.0 - n_tokens * curvature)
    longest = 1e-30
    for k in range(weights.size):
        step[k] += rank_one * theta[k] / (tau + n_tokens * theta[k])
        longest = max(longest, abs(step[k]))
    shortened = min(1.0, LONGEST_WEIGHT_STEP / longest)
    change = 0.0
    for k in range(weights.size):
        weights[k] += shortened * step[k]
        change += abs(shortened * step[k])
    return change / weights.size


# --- documents ---------------------------------------------------------------------------------------------------


@kernel
def sample_documents(
    first: int,
    last: int,
    indptr: Array,
    words: Array,
    counts: Array,
    token_offsets: Array,
    streams: Array,
    table_indptr: Array,
    table_topics: Array,
    table_weights: Array,
    rest: Array,
    embedding: Array,
    embedding_by_dim: Array,
    gain: Array,
    tau: float,
    n_top: int,
    n_samples: int,
    rate: float,
    max_steps: int,
    tol: float,
    draws: Array,
    gammas: Array,
    xis: Array,
    steps: Array,
) -> None:
    """document.sample_document for documents first:last of a batch."""
    n_topics, n_dims = embedding.shape
    scale, rest_of_top, mean, noisy, theta, softmaxes, squares = np.empty((7, n_topics), embedding.dtype)
    topic_counts = np.empty(n_topics, embedding.dtype)
    cumulative = np.empty(n_topics)
    heap, marked = np.empty(min(n_top, n_topics), np.int32), np.empty(n_topics, np.bool_)
    moment = np.empty(n_dims, embedding.dtype)
    sigma = embedding.dtype.type(tau**-0.5)
    for d in range(first, last):
        weights, gamma = xis[d], gammas[d]
        weights[:] = 0
        gamma[:] = 0
        squares[:] = ADAGRAD_FLOOR
        start, stop = indptr[d], indptr[d + 1]
        n_tokens = embedding.dtype.type(token_offsets[stop] - token_offsets[start])
        draw_stream, noise_stream = substream(streams[d], DRAWS), substream(streams[d], NOISE)
        steps[d] = 0
        while n_tokens > 0 and steps[d] < max_steps:
            top_total = weigh_candidates(weights, rest, heap, marked, scale, rest_of_top)
            draw_tokens(
                start,
                stop,
                words,
                counts,
                token_offsets,
                substream(draw_stream, steps[d]),
                table_indptr,
                table_topics,
                table_weights,
                top_total,
                scale,
                rest_of_top,
                cumulative,
                topic_counts,
                draws,
            )
            prior_mean(embedding_by_dim, gamma, mean)
            noise_step = substream(noise_stream, steps[d])
            add_noisy_softmax(weights, noise_step, n_samples, sigma, noisy, theta, softmaxes)
            change = adagrad_step(weights, mean, topic_counts, n_tokens, softmaxes, tau, rate, squares)
            embed(weights, embedding, gain, moment, gamma)
            steps[d] += 1
            if change < tol:
                break


@kernel
def infer_documents(
    first: int,
    last: int,
    indptr: Array,
    words: Array,
    counts: Array,
    token_offsets: Array,
    table_indptr: Array,
    table_topics: Array,
    table_weights: Array,
    rest: Array,
    embedding: Array,
    embedding_by_dim: Array,
    gain: Array,
    tau: float,
    n_top: int,
    gammas: Array,
    xis: Array,
) -> None:
    """document.infer_document for documents first:last of a batch."""
    n_topics, n_dims = embedding.shape
    scale, rest_of_top, mean, theta, step, topic_counts = np.empty((6, n_topics), embedding.dtype)
    heap, marked = np.empty(min(n_top, n_topics), np.int32), np.empty(n_topics, np.bool_)
    moment = np.empty(n_dims, embedding.dtype)
    for d in range(first, last):
        weights, gamma = xis[d], gammas[d]
        weights[:] = 0
        gamma[:] = 0
        start, stop = indptr[d], indptr[d + 1]
        n_tokens = embedding.dtype.type(token_offsets[stop] - token_offsets[start])
        if n_tokens == 0:
            continue
        for _ in range(INFER_ROUNDS):
            top_total = weigh_candidates(weights, rest, heap, marked, scale, rest_of_top)
            expect_counts(
                start,
                stop,
                words,
                counts,
                table_indptr,
                table_topics,
                table_weights,
                top_total,
                scale,
                rest_of_top,
                topic_counts,
            )
            prior_mean(embedding_by_dim, gamma, mean)
            change = newton_step(weights, mean, topic_counts, n_tokens, tau, theta, step)
            embed(weights, embedding, gain, moment, gamma)
            if change < INFER_TOL:
                break


@kernel
def score_documents(
    first: int,
    last: int,
    indptr: Array,
    words: Array,
    counts: Array,
    xis: Array,
    word_indptr: Array,
    word_topics: Array,
    word_counts: Array,
    topic_total: Array,
    beta: float,
    out: Array,
) -> None:
    """words.log_likelihood for documents first:last: λ = β + counts, so each word needs its own topics only."""
    share = np.empty(xis.shape[1])
    for d in range(first, last):
        softmax(xis[d], share)
        unseen = 0.0
        for k in range(share.size):
            share[k] /= topic_total[k]
            unseen += beta * share[k]
        total = 0.0
        for entry in range(indptr[d], indptr[d + 1]):
            probability = unseen
            for i in range(word_indptr[words[entry]], word_indptr[words[entry] + 1]):
                probability += share[word_topics[i]] * word_counts[i]
            total += counts[entry] * np.log(probability)
        out[d] = total


# --- the draw table -------------------------------------------------------------------------------------------------


@kernel
def keep_largest_in_rows(indptr: Array, values: Array, n: int, kept: Array) -> None:
    """words.ranks_in_rows(...) < n, entry by entry."""
    for row in range(indptr.size - 1):
        start, stop = indptr[row], indptr[row + 1]
        if stop - start <= n:
            kept[start:stop] = True
            continue
        threshold = np.partition(values[start:stop], stop - start - n)[stop - start - n]
        larger = 0
        for i in range(start, stop):
            kept[i] = values[i] > threshold
            larger += kept[i]
        for i in range(start, stop):
            if larger < n and values[i] == threshold:
                kept[i] = True
                larger += 1
