"""Compiled loops of memoized inference and of `infer`: see model/joint.py, model/memoized.py, model/lda.py."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..model import joint
from ..model.joint import LIGHT, LONGEST_STEP, MOST_HALVINGS, ROUNDING
from ..model.memoized import COUNT_UNIT
from ..model.random import DRAWS
from ._cpu_kernels import (
    accumulate_own,
    draw_tokens,
    expect_counts,
    largest,
    mark_heaviest,
    new_candidates,
    prior_mean,
    substream,
    uniform,
    weigh_candidates,
)
from ._jit import exp_of, kernel, part, reduction

Array = Any

moves_embedding, renews_curvature = part(joint.moves_embedding), part(joint.renews_curvature)

# Tokens whose probabilities are multiplied before a logarithm is taken.
TOKENS_A_LOG = 8
# Documents whose covariances are summed together, before the sums are added in order.
DOCUMENTS_A_BLOCK = 16


class Scratch(NamedTuple):
    """Work space of the joint solver."""

    theta: Array  # [k]
    inverse: Array  # 1 / (τ + N θ) [k]
    d_weights: Array  # g_ξ, then dξ [k]
    d_mean: Array  # U dγ [k]
    d_embedding: Array  # right-hand side, then dγ [m]
    pulls: Array  # what the right-hand side, or ū, weighs topics with [k]
    pulled: Array  # U'pulls [m]
    scaled: Array  # rows whose products add up to H [heavy + 1, m]: light topics, then the heavy ones
    H: Array  # [m, m]
    factor: Array  # L with H = L L', lower [m, m]


@part
def new_scratch(space: Any) -> Any:
    n_topics, n_dims = space.embedding.shape
    like = space.embedding.dtype
    return Scratch(
        np.empty(n_topics, like),
        np.empty(n_topics, like),
        np.empty(n_topics, like),
        np.empty(n_topics, like),
        np.empty(n_dims, np.float64),
        np.empty(n_topics, like),
        np.empty(n_dims, like),
        np.empty((min(n_topics, int(1 / LIGHT)) + 2, n_dims), like),
        np.empty((n_dims, n_dims), like),
        np.empty((n_dims, n_dims), np.float64),
    )


# --- small dense algebra, along rows, so that inner loops run along memory ----------------------------------------


@part
def factorise(H: Array, out: Array) -> None:
    """out = L, lower triangular with L L' = H."""
    for i in range(out.shape[0]):
        for j in range(out.shape[0]):
            out[i, j] = H[i, j]
    # H is at least the prior's precision, so positive; in float64 rounding cannot change that.
    lower = np.linalg.cholesky(out)
    for i in range(out.shape[0]):
        for j in range(i + 1):
            out[i, j] = lower[i, j]


@part
def solve(L: Array, x: Array) -> None:
    """x <- (L L')^-1 x."""
    n = x.size
    for i in range(n):
        total = x[i]
        for j in range(i):
            total -= L[i, j] * x[j]
        x[i] = total / L[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= L[i, i]
        value = x[i]
        for j in range(i):
            x[j] -= value * L[i, j]


@part
def invert(L: Array, out: Array) -> None:
    """out = L^-1."""
    for i in range(L.shape[0]):
        row = out[i]
        row[:] = 0.0
        for j in range(i):
            factor, other = L[i, j], out[j]
            for column in range(j + 1):
                row[column] -= factor * other[column]
        row[i] = 1.0
        scale = 1.0 / L[i, i]
        for column in range(i + 1):
            row[column] *= scale


# --- the joint solver --------------------------------------------------------------------------------------------


@reduction
def evaluate(gamma: Array, weights: Array, mean: Array, n_tokens: float, space: Any, scratch: Any) -> float:
    """joint.objective less n'ξ, with mean = m + U γ; fills θ."""
    theta, prior, total = scratch.theta, 0.0, 0.0
    heaviest = largest(weights)
    for k in range(weights.size):
        theta[k] = exp_of(weights[k] - heaviest)
        total += theta[k]
        residual = weights[k] - mean[k]
        prior += residual * residual
    scale = theta.dtype.type(1.0 / total)
    for k in range(weights.size):
        theta[k] *= scale
    quadratic = 0.0
    for i in range(gamma.size):
        for j in range(gamma.size):
            quadratic += gamma[i] * space.precision[i, j] * gamma[j]
    return float(-n_tokens * (heaviest + np.log(total)) - 0.5 * space.tau * prior - 0.5 * quadratic)


@reduction
def inner(x: Array, y: Array) -> float:
    """x'y."""
    total = 0.0
    for k in range(x.size):
        total += x[k] * y[k]
    return total


@reduction
def prepare_step(weights: Array, mean: Array, counts: Array, n_tokens: Any, space: Any, scratch: Any) -> float:
    """The diagonal of B^-1 and g_ξ, given θ; returns c."""
    theta, inverse, gradient, c = scratch.theta, scratch.inverse, scratch.d_weights, 1.0
    for k in range(weights.size):
        inverse[k] = 1 / (space.tau + n_tokens * theta[k])
        c -= n_tokens * theta[k] * theta[k] * inverse[k]
        gradient[k] = space.tau * (mean[k] - weights[k]) + counts[k] - n_tokens * theta[k]
    return float(max(c, 1e-12))


@reduction
def apply_inverse_b(x: Array, n_tokens: float, c: float, scratch: Any) -> None:
    """x <- B^-1 x."""
    along = 0.0
    for k in range(x.size):
        x[k] *= scratch.inverse[k]
        along += scratch.theta[k] * x[k]
    factor = x.dtype.type(n_tokens * along / c)
    for k in range(x.size):
        x[k] += factor * scratch.theta[k] * scratch.inverse[k]


@part
def pull_embedding(gamma: Array, weights: Array, mean: Array, space: Any, scratch: Any) -> None:
    """The right-hand side of dγ; d_mean holds B^-1 g_ξ."""
    rhs, pulls, pulled = scratch.d_embedding, scratch.pulls, scratch.pulled
    for k in range(weights.size):
        pulls[k] = space.tau * (weights[k] - mean[k] + scratch.d_mean[k])
    np.dot(space.embedding_by_dim, pulls, pulled)
    for i in range(gamma.size):
        rhs[i] = pulled[i] - inner(space.precision[i], gamma)


@part
def factorise_curvature(n_tokens: Any, c: float, space: Any, scratch: Any) -> None:
    """The factor of joint.curvature; Σ h = N c."""
    n_topics, n_dims = space.embedding.shape
    H, h, pull, n_heavy = scratch.H, scratch.pulls, scratch.pulled, 0
    real = h.dtype.type
    for k in range(n_topics):
        h[k] = space.tau * n_tokens * scratch.theta[k] * scratch.inverse[k]
    np.dot(space.embedding_by_dim, h, pull)
    total, h_light = n_tokens * c, 0.0
    apart = scratch.scaled[0]  # at first, the pull of light topics
    for m in range(n_dims):
        apart[m] = pull[m]
    least, scale = real(LIGHT * total), real(1.0 / max(total, 1e-30))
    for k in range(n_topics):
        if h[k] < least:
            h_light += h[k]
            continue
        n_heavy += 1
        u, row, root = space.embedding[k], scratch.scaled[n_heavy], np.sqrt(h[k])
        for m in range(n_dims):
            apart[m] -= h[k] * u[m]
            row[m] = root * (u[m] - scale * pull[m])
    root, inverse = real(np.sqrt(h_light)), real(1.0 / max(h_light, 1e-30))
    for m in range(n_dims):
        apart[m] = root * (inverse * apart[m] - scale * pull[m]) if h_light > 0 else real(0)
    shaping, spread = scratch.scaled[: n_heavy + 1], real(h_light)
    np.dot(shaping.T, shaping, H)
    for i in range(n_dims):
        for j in range(n_dims):
            H[i, j] += space.precision[i, j] + spread * space.scatter[i, j]
    factorise(H, scratch.factor)


@part
def joint_step(
    gamma: Array,
    weights: Array,
    mean: Array,
    counts: Array,
    n_tokens: Any,
    space: Any,
    step: int,
    value: float,
    scratch: Any,
) -> Any:
    """joint.joint_step in place, mean = m + U γ along; returns the largest change of a weight, and `evaluate` there.

    `value` is evaluate's here, and θ is there as well.
    """
    dx, dm = scratch.d_weights, scratch.d_mean
    c = prepare_step(weights, mean, counts, n_tokens, space, scratch)
    for k in range(dx.size):
        dm[k] = dx[k]
    apply_inverse_b(dm, n_tokens, c, scratch)
    if moves_embedding(step):
        pull_embedding(gamma, weights, mean, space, scratch)
        if renews_curvature(step):
            factorise_curvature(n_tokens, c, space, scratch)
        solve(scratch.factor, scratch.d_embedding)
        multiply(scratch.d_embedding, space, dm)
        for k in range(dx.size):
            dx[k] += space.tau * dm[k]
        apply_inverse_b(dx, n_tokens, c, scratch)
    else:
        scratch.d_embedding[:] = 0
        for k in range(dx.size):
            dx[k], dm[k] = dm[k], 0
    longest = 0.0
    for k in range(dx.size):
        longest = max(longest, abs(dx[k]))
    length = min(1.0, LONGEST_STEP / max(longest, 1e-30))
    before = value + inner(counts, weights)
    floor, change = before - ROUNDING * abs(before), length
    for _ in range(MOST_HALVINGS):
        move(gamma, weights, mean, change, scratch)
        value = evaluate(gamma, weights, mean, n_tokens, space, scratch)
        if value + inner(counts, weights) >= floor:
            break
        length /= 2
        change = -length
    return length * longest if moves_embedding(step) else np.inf, value


@part
def move(gamma: Array, weights: Array, mean: Array, length: float, scratch: Any) -> None:
    """Go `length` along the step."""
    real = weights.dtype.type(length)
    for k in range(weights.size):
        weights[k] += real * scratch.d_weights[k]
        mean[k] += real * scratch.d_mean[k]
    for m in range(gamma.size):
        gamma[m] += length * scratch.d_embedding[m]


@part
def multiply(vector: Array, space: Any, out: Array) -> None:
    """out = U vector."""
    out[:] = 0
    for m in range(vector.size):
        factor = out.dtype.type(vector[m])
        for k in range(out.size):
            out[k] += factor * space.embedding_by_dim[m, k]


@part
def weights_from_embedding(gamma: Array, space: Any, mean: Array, weights: Array) -> None:
    """mean = ξ = m + U γ: where the solver begins."""
    prior_mean(gamma, space, mean)
    for k in range(mean.size):
        weights[k] = mean[k]


# --- documents ---------------------------------------------------------------------------------------------------


@kernel
def relax_documents(
    first: int,
    last: int,
    corpus: Any,
    table: Any,
    space: Any,
    n_top: int,
    n_steps: int,
    n_rounds: int,
    tol: float,
    streams: Array,
    draws: Array,
    gammas: Array,
    xis: Array,
    shrinkages: Array,
    covs: Array,
) -> None:
    """memoized.relax_document for documents first:last, from their last γ and draws, which are overwritten.

    Without draws (an empty array) the counts are expectations, renewed every round, until no weight changes by tol:
    document.infer_document. Fills ξ and, where there is room for them, τ / (τ + N θ) and the block's sum of H^-1.
    """
    n_topics, n_dims = space.embedding.shape
    real = space.embedding.dtype.type
    mean, counts = np.empty((2, n_topics), space.embedding.dtype)
    inverses = np.empty((len(covs) and (last - first) * n_dims, n_dims), np.float64)
    scratch, candidates = new_scratch(space), new_candidates(n_topics, n_top, space.embedding)
    for d in range(first, last):
        weights, gamma = xis[d], gammas[d]
        weights_from_embedding(gamma, space, mean, weights)
        begin, end = corpus.token_offsets[corpus.indptr[d]], corpus.token_offsets[corpus.indptr[d + 1]]
        n_tokens = real(end - begin)
        if draws.size:
            counts[:] = 0
            for token in range(begin, end):
                counts[draws[token]] += 1
        # Nothing but the prior speaks of an empty document whose topics are fixed.
        change = np.inf if n_tokens > 0 or covs.size else 0.0
        value = evaluate(gamma, weights, mean, n_tokens, space, scratch)
        for step in range(n_rounds * n_steps):
            if change < tol:
                break
            if not draws.size and step % n_steps == 0:
                if step == 0 or renews_curvature(step):
                    mark_heaviest(weights, candidates.heap, candidates.is_top)
                expect_counts(d, corpus, table, scratch.theta, candidates, counts)
            change, value = joint_step(gamma, weights, mean, counts, n_tokens, space, step, value, scratch)
        if draws.size:
            stream = substream(substream(streams[d], DRAWS), 0)
            draw_tokens(d, corpus, table, weights, stream, candidates, draws, counts)
        if covs.size:
            for k in range(n_topics):
                shrinkages[d, k] = space.tau * scratch.inverse[k]
            invert(scratch.factor, inverses[(d - first) * n_dims : (d - first + 1) * n_dims])
    if covs.size:
        # H^-1 = L^-T L^-1, for all documents in one product.
        np.dot(inverses.T, inverses, covs[first // DOCUMENTS_A_BLOCK])


@kernel
def spread_tokens(first: int, last: int, corpus: Any, table: Any, xis: Array, n_top: int, expected: Array) -> None:
    """memoized.expected_word_topic for documents first:last: adds each token's responsibilities over its word's own
    topics, in whole units, where the table lists the pair."""
    candidates = new_candidates(xis.shape[1], n_top, xis)
    for d in range(first, last):
        weigh_candidates(xis[d], table, candidates)
        for k in range(candidates.rest_of_top.size):
            candidates.rest_of_top[k] = 0
        for entry in range(corpus.indptr[d], corpus.indptr[d + 1]):
            word = corpus.words[entry]
            share = corpus.counts[entry] * COUNT_UNIT / accumulate_own(word, table, candidates)
            for i in range(table.indptr[word], table.indptr[word + 1]):
                mass = candidates.scale[table.topics[i]] * table.weights[i]
                expected[i] += np.int64(share * mass + 0.5)


# --- the warm start ----------------------------------------------------------------------------------------------


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
