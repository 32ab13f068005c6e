"""Compiled loops of memoized inference and of `infer`: see model/joint.py, model/memoized.py."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..model import joint
from ..model.joint import LIGHT, LONGEST_STEP, TOO_FAR
from ._cpu_kernels import (
    expect_counts,
    largest,
    mark_heaviest,
    new_candidates,
)
from ._jit import exp_of, kernel, like, log_of, part, passage, reduction

Array = Any

renews_curvature = part(joint.renews_curvature)
step_length, step_lengthening = part(joint.step_length), part(joint.step_lengthening)

# Documents that the joint solver has in work at a time.
SLOTS = 16
# ω is small where the logarithm of ω e^ω is below this.
LARGEST_SMALL = -1.2
# ζ is found after a step (they are Newton's) of less than this, or after so many.
NORMALISED, MOST_NORMALISATIONS = 0.005, 50
# Documents whose covariances are summed together, before the sums are added in order.
DOCUMENTS_A_BLOCK = 64


class Slots(NamedTuple):
    """Work space of the joint solver: a row for each document that is in work. All are multiplied by U at once, always
    as many rows, so that a document's bits do not depend on its neighbours."""

    document: Array  # which one; -1 where there is none
    step: Array  # its number
    is_last: Array  # 1 where weights are all that is left to find
    log_normaliser: Array  # ζ
    rise: Array  # g's of the last step
    moved: Array  # Σ |n - n before|
    log_rest: Array  # weight of all topics that have no column here
    h_sum: Array  # Σ h
    embedding: Array  # γ [slot, m]
    move: Array  # the last step [slot, m]
    gradient: Array  # U'(n - N θ) [slot, m]
    pull: Array  # P γ [slot, m]
    rest: Array  # vector of the topics that have no column here [slot, m]
    h_vector: Array  # Σ h u [slot, m]
    factor: Array  # L with H = L L', lower [slot, m, m]
    mean: Array  # μ, then n - N θ, then h [slot, k]
    omega: Array  # N θ / τ [slot, k]
    counts: Array  # n [slot, k]
    is_top: Array  # the K_s heaviest topics as marks [slot, k]


class Scratch(NamedTuple):
    """Work space of one document at a time."""

    base: Array  # exp of what ω is a function of, at some ζ; 0 for heavy topics [k]
    heavy: Array  # topics whose ω is large [k]
    heavy_omega: Array  # theirs [k]
    before: Array  # n of the last step [k]
    rows: Array  # rows whose products add up to H [heavy + 1, m]: light topics, then the heavy ones
    H: Array  # [m, m]
    rhs: Array  # g [m]


@passage
def new_slots(space: Any) -> Any:
    n_topics, n_dims = space.embedding.shape
    real = space.embedding.dtype
    # Few kinds of arrays: each is compiled for itself.
    number = np.zeros((3, SLOTS), np.int64)
    value = np.zeros((5, SLOTS), np.float64)
    of_dims, of_topics = np.zeros((5, SLOTS, n_dims), real), np.zeros((3, SLOTS, n_topics), real)
    number[0], value[3] = -1, -np.inf
    return Slots(
        number[0],
        number[1],
        number[2],
        value[0],
        value[1],
        value[2],
        value[3],
        value[4],
        of_dims[0],
        np.zeros((SLOTS, n_dims), np.float64),
        of_dims[1],
        of_dims[2],
        of_dims[3],
        of_dims[4],
        np.zeros((SLOTS, n_dims, n_dims), np.float64),
        of_topics[0],
        of_topics[1],
        of_topics[2],
        np.zeros((SLOTS, n_topics), np.bool_),
    )


@passage
def new_scratch(space: Any) -> Any:
    n_topics, n_dims = space.embedding.shape
    real = space.embedding.dtype
    return Scratch(
        np.empty(n_topics, real),
        np.empty(n_topics, np.int32),
        np.empty(n_topics, np.float64),
        np.empty(n_topics, real),
        np.empty((min(n_topics, int(1 / LIGHT)) + 2, n_dims), real),
        np.empty((n_dims, n_dims), real),
        np.empty(n_dims, np.float64),
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


# --- topic weights, given the embedding -----------------------------------------------------------------------------


@part
def small_omega(a: Any) -> Any:
    """w with w e^w = a, for a up to about 0.3: its Padé approximant, then a Newton step with e^w by its series."""
    one = like(1, a)
    w = a * (one + like(4 / 3, a) * a) / (one + a * (like(7 / 3, a) + like(5 / 6, a) * a))
    tail = like(1 / 6, a) + w * (like(1 / 24, a) + w * like(1 / 120, a))
    e = one + w * (one + w * (like(1 / 2, a) + w * tail))
    return w - (w * e - a) / (e * (one + w))


@part
def large_omega(x: float) -> float:
    """w with w + log w = x: a guess that is right to a hundredth, and one step of Fritsch, Shafer and Crowley, which
    makes 1e-9 of that."""
    if x > 5:
        log = np.log(x)
        w = x - log + log / x
    elif x > -2:
        w = 0.568607 + x * (0.359344 + x * (0.069775 - x * (0.000341 + 0.000646 * x)))
    else:
        w = np.exp(x) / (1 + np.exp(x))
    r = x - w - np.log(w)
    q = 2 * (1 + w) * (1 + w + 2 / 3 * r)
    return float(w * (1 + r / (1 + w) * (q - r) / (q - 2 * r)))


@reduction
def base_of_omega(mean: Array, counts: Array, shift: Any, inverse_tau: Any, base: Array, heavy: Array) -> int:
    """base = exp(μ + n/τ + shift) where that is small, else 0 and a place in `heavy`; returns their number."""
    most, none, n_heavy = base.dtype.type(LARGEST_SMALL), base.dtype.type(0), 0
    for k in range(mean.size):
        x = mean[k] + counts[k] * inverse_tau + shift
        base[k] = exp_of(min(x, most)) if x < most else none
    for k in range(mean.size):
        if base[k] == none and mean[k] + counts[k] * inverse_tau + shift >= most:
            heavy[n_heavy] = k
            n_heavy += 1
    return n_heavy


@reduction
def sum_of_omega(scale: Any, base: Array) -> Any:
    """Σ ω and Σ ω/(1 + ω) over topics whose ω is small, and of exp(-ζ) changed by the factor `scale`."""
    one, total, slope = base.dtype.type(1), 0.0, 0.0
    for k in range(base.size):
        w = small_omega(scale * base[k])
        total += w
        slope += w / (one + w)
    return total, slope


@part
def scale_shares(
    mean: Array,
    counts: Array,
    n_tokens: float,
    log_normaliser: float,
    log_rest: float,
    tau: Any,
    scratch: Any,
    out: Array,
) -> float:
    """joint.scaled_shares, from a first ζ; fills ω and returns ζ."""
    real = mean.dtype.type
    target, inverse_tau = n_tokens / tau, real(1 / tau)
    if target == 0:
        out[:] = 0
        return log_normaliser
    log_target = np.log(target)
    base, heavy = scratch.base, scratch.heavy
    change, at, n_heavy = np.inf, log_normaliser, 0
    for iteration in range(MOST_NORMALISATIONS):
        # Topics that were small at the ζ before may not be now.
        if iteration == 0 or log_normaliser < at - 0.5:
            at = log_normaliser
            n_heavy = base_of_omega(mean, counts, real(log_target - at), inverse_tau, base, heavy)
        total, slope = sum_of_omega(real(np.exp(at - log_normaliser)), base)
        of_rest = target * np.exp(log_rest - log_normaliser)
        total += of_rest
        slope += of_rest
        for i in range(n_heavy):
            k = heavy[i]
            w = large_omega(mean[k] + counts[k] / tau + log_target - log_normaliser)
            scratch.heavy_omega[i] = w
            total += w
            slope += w / (1 + w)
        change = max(-LONGEST_STEP, min(LONGEST_STEP, (total - target) / slope))
        log_normaliser += change
        if abs(change) < NORMALISED:
            break
    fill_omega(real(np.exp(at - log_normaliser)), base, out)
    for i in range(n_heavy):  # to the second order of the last change
        w = scratch.heavy_omega[i]
        slope = w / (1 + w)
        out[heavy[i]] = w - change * slope * (1 - change / 2 / (1 + w) ** 2)
    return log_normaliser


@part
def fill_omega(scale: Any, base: Array, out: Array) -> None:
    """ω of topics where it is small."""
    for k in range(base.size):
        out[k] = small_omega(scale * base[k])


# --- the joint solver --------------------------------------------------------------------------------------------


@passage
def factorise_curvature(slot: int, h_rest: float, space: Any, slots: Any, scratch: Any) -> None:
    """The factor of joint.curvature, given h, Σ h and Σ h u."""
    n_topics, n_dims = space.embedding.shape
    h, pull, rest, total = slots.mean[slot], slots.h_vector[slot], slots.rest[slot], slots.h_sum[slot]
    H, n_heavy = scratch.H, 0
    real = h.dtype.type
    h_light = h_rest
    apart = scratch.rows[0]  # at first, the pull of light topics
    for m in range(n_dims):
        pull[m] += real(h_rest) * rest[m]
        apart[m] = pull[m]
    # Where a document has no words no topic bears anything: all are light.
    least, scale = real(max(LIGHT * total, 1e-30)), real(1.0 / max(total, 1e-30))
    for k in range(n_topics):
        if h[k] < least:
            h_light += h[k]
            continue
        n_heavy += 1
        u, row, root = space.embedding[k], scratch.rows[n_heavy], np.sqrt(h[k])
        for m in range(n_dims):
            apart[m] -= h[k] * u[m]
            row[m] = root * (u[m] - scale * pull[m])
    root, inverse = real(np.sqrt(h_light)), real(1.0 / max(h_light, 1e-30))
    for m in range(n_dims):
        apart[m] = root * (inverse * apart[m] - scale * pull[m]) if h_light > 0 else real(0)
    shaping, spread = scratch.rows[: n_heavy + 1], real(h_light)
    np.dot(shaping.T, shaping, H)
    for i in range(n_dims):
        for j in range(n_dims):
            H[i, j] += space.precision[i, j] + spread * space.scatter[i, j]
    factorise(H, slots.factor[slot])


@reduction
def curvatures(omega: Array, tau: Any, out: Array) -> float:
    """h [k]; returns Σ h."""
    one, total = out.dtype.type(1), 0.0
    for k in range(omega.size):
        out[k] = tau * omega[k] / (one + omega[k])
        total += out[k]
    return total


@part
def find_forces(n_slots: int, space: Any, slots: Any) -> None:
    """U'(n - N θ) and P γ of all slots, then h, Σ h and, where H is due, Σ h u: products that slots share."""
    is_used, is_due = False, False
    for slot in range(n_slots):
        is_here = slots.document[slot] >= 0
        is_used, is_due = is_used or is_here, is_due or (is_here and renews_curvature(slots.step[slot]))
    if is_used:
        np.dot(slots.mean, space.embedding, slots.gradient)
        np.dot(slots.embedding, space.precision, slots.pull)
    for slot in range(n_slots):
        if slots.document[slot] >= 0:
            slots.h_sum[slot] = curvatures(slots.omega[slot], space.tau, slots.mean[slot])
    if is_due:
        np.dot(slots.mean, space.embedding, slots.h_vector)


@passage
def move_embedding(slot: int, n_tokens: float, tol: float, space: Any, slots: Any, scratch: Any) -> None:
    """joint.solve: γ moves by a Newton step, or half of the last step is undone."""
    gamma, move, rhs = slots.embedding[slot], slots.move[slot], scratch.rhs
    left, h_rest = 0.0, n_tokens * np.exp(slots.log_rest[slot] - slots.log_normaliser[slot])
    slots.h_sum[slot] += h_rest
    for i in range(gamma.size):
        rhs[i] = slots.gradient[slot, i] - slots.pull[slot, i] - h_rest * slots.rest[slot, i]
        left += rhs[i] * move[i]
    if renews_curvature(slots.step[slot]):
        factorise_curvature(slot, h_rest, space, slots, scratch)
    if left < -TOO_FAR * slots.rise[slot]:
        slots.rise[slot] = 0.0
        for i in range(gamma.size):
            gamma[i] -= move[i] / 2
            move[i] = 0.0
        return
    lengthening, rise = step_lengthening(left, slots.rise[slot]), 0.0
    for i in range(gamma.size):
        move[i] = rhs[i]
    solve(slots.factor[slot], move)
    for i in range(gamma.size):
        rise += rhs[i] * move[i]
    if rise <= tol**2 * n_tokens and slots.moved[slot] <= tol * n_tokens:
        slots.is_last[slot] = 1
        return
    length = lengthening * step_length(rise, slots.h_sum[slot])
    slots.rise[slot] = length * rise
    for i in range(gamma.size):
        move[i] *= length
        gamma[i] += move[i]


@reduction
def distance(x: Array, y: Array) -> float:
    """Σ |x - y|."""
    total = 0.0
    for k in range(x.size):
        total += abs(x[k] - y[k])
    return total


@part
def add_mean(mean: Array, space: Any) -> None:
    for k in range(mean.size):
        mean[k] += space.mean[k]


@reduction
def softmax_of(weights: Array, out: Array) -> float:
    """out ∝ exp(weights); returns log Σ exp(weights)."""
    heaviest, total = largest(weights), 0.0
    for k in range(weights.size):
        out[k] = exp_of(weights[k] - heaviest)
        total += out[k]
    return float(heaviest + np.log(total))


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
    tol: float,
    counted: float,
    in_tokens: float,
    draws: Array,
    gammas: Array,
    xis: Array,
    shrinkages: Array,
    covs: Array,
) -> None:
    """memoized.relax_document for documents first:last but for new draws, from their last γ, which is overwritten.

    Without draws (an empty array) the counts are expectations, renewed every step: document.infer_document. Fills ξ,
    or predictive weights where the prior counts like some tokens, and, where there is room, τ / (τ + N θ) and the
    block's sum of H^-1.
    """
    n_topics, n_dims = space.embedding.shape
    inverses = np.empty((len(covs) and (last - first) * n_dims, n_dims), np.float64)
    slots, scratch, candidates = new_slots(space), new_scratch(space), new_candidates(n_topics, n_top, space.embedding)
    waiting, n_done = first, 0
    while n_done < last - first:
        for slot in range(SLOTS):
            if slots.document[slot] < 0 and waiting < last:
                take_up(waiting, slot, n_steps, corpus, space, draws, gammas, slots)
                waiting += 1
        np.dot(slots.embedding, space.embedding_by_dim, slots.mean)
        for slot in range(SLOTS):
            d = slots.document[slot]
            if d < 0:
                continue
            find_weights(d, slot, corpus, table, space, draws.size == 0, counted, slots, scratch, candidates)
            if slots.is_last[slot] == 1:
                put_down(d, slot, length_of(d, corpus), space, in_tokens, gammas, xis, shrinkages, slots)
                if covs.size:
                    invert(slots.factor[slot], inverses[(d - first) * n_dims : (d - first + 1) * n_dims])
                n_done += 1
        find_forces(SLOTS, space, slots)
        for slot in range(SLOTS):
            d = slots.document[slot]
            if d >= 0:
                move_embedding(slot, length_of(d, corpus), tol, space, slots, scratch)
                slots.step[slot] += 1
                if slots.step[slot] >= n_steps:
                    slots.is_last[slot] = 1
    if covs.size:
        # H^-1 = L^-T L^-1, for all documents in one product.
        np.dot(inverses.T, inverses, covs[first // DOCUMENTS_A_BLOCK])


@part
def length_of(d: int, corpus: Any) -> float:
    return float(corpus.token_offsets[corpus.indptr[d + 1]] - corpus.token_offsets[corpus.indptr[d]])


@passage
def take_up(d: int, slot: int, n_steps: int, corpus: Any, space: Any, draws: Array, gammas: Array, slots: Any) -> None:
    """Put document d into an empty slot."""
    slots.document[slot], slots.step[slot], slots.is_last[slot], slots.rise[slot] = d, 0, int(n_steps == 0), 0.0
    for i in range(slots.embedding.shape[1]):
        slots.embedding[slot, i], slots.move[slot, i] = gammas[d, i], 0.0
    counts = slots.counts[slot]
    counts[:] = 0
    if draws.size and n_steps > 0:
        for token in range(corpus.token_offsets[corpus.indptr[d]], corpus.token_offsets[corpus.indptr[d + 1]]):
            counts[draws[token]] += 1


@passage
def find_weights(
    d: int,
    slot: int,
    corpus: Any,
    table: Any,
    space: Any,
    is_soft: bool,
    counted: float,
    slots: Any,
    scratch: Any,
    candidates: Any,
) -> None:
    """ω at the slot's γ, and n - N θ in place of μ but for the last time."""
    mean, omega, counts, step = slots.mean[slot], slots.omega[slot], slots.counts[slot], slots.step[slot]
    add_mean(mean, space)
    is_last, slots.moved[slot] = slots.is_last[slot] == 1, 0.0
    if step == 0:
        slots.log_normaliser[slot] = np.logaddexp(softmax_of(mean, omega), slots.log_rest[slot])
        slots.moved[slot] = np.inf
    n_tokens = 0.0 if is_last and step == 0 else length_of(d, corpus)  # without a step there are no counts
    # Expected counts follow from the weights, then the weights from them.
    for n_left in range(1 if is_soft and not is_last else 0, -1, -1):
        if n_left == 0 or step > 0:
            slots.log_normaliser[slot] = scale_shares(
                mean,
                counts,
                n_tokens,
                slots.log_normaliser[slot],
                slots.log_rest[slot],
                space.tau,
                scratch,
                omega,
            )
        if n_left == 1:
            if renews_curvature(step):
                mark_heaviest(omega, candidates.heap, slots.is_top[slot])
            for k in range(counts.size):
                scratch.before[k] = counts[k]
            tau = space.tau if step > 0 else type(space.tau)(0)
            expect_counts(
                d, corpus, table, omega, slots.is_top[slot], candidates.rest_of_top, tau, counted, scratch, counts
            )
            slots.moved[slot] = distance(scratch.before, counts)
    if not is_last:
        for k in range(mean.size):
            mean[k] = counts[k] - space.tau * omega[k]


@reduction
def log_sum_exp(weights: Array) -> float:
    heaviest, total = largest(weights), 0.0
    for k in range(weights.size):
        total += exp_of(weights[k] - heaviest)
    return float(heaviest + np.log(total))


@part
def predict(mean: Array, counts: Array, log_rest: float, in_tokens: float, weights: Array) -> None:
    """document.predictive_weights."""
    shift = weights.dtype.type(np.log(in_tokens) - np.logaddexp(log_sum_exp(mean), log_rest))
    for k in range(weights.size):
        weights[k] = mean[k] + shift
    for k in range(weights.size):  # most topics have no tokens
        if counts[k] > 0:
            weights[k] = log_of(counts[k] + exp_of(weights[k]))


@passage
def put_down(
    d: int,
    slot: int,
    n_tokens: float,
    space: Any,
    in_tokens: float,
    gammas: Array,
    xis: Array,
    shrinkages: Array,
    slots: Any,
) -> None:
    """Keep what was found of a document, and empty its slot."""
    weights, mean, omega, counts = xis[d], slots.mean[slot], slots.omega[slot], slots.counts[slot]
    inverse_tau, one = weights.dtype.type(1 / space.tau), weights.dtype.type(1)
    if in_tokens > 0 and n_tokens > 0:
        predict(mean, counts, slots.log_rest[slot], in_tokens, weights)
    else:
        for k in range(weights.size):
            weights[k] = mean[k] + counts[k] * inverse_tau - omega[k]
    for i in range(slots.embedding.shape[1]):
        gammas[d, i] = slots.embedding[slot, i]
    if shrinkages.size:
        for k in range(weights.size):
            shrinkages[d, k] = one / (one + omega[k])
    slots.document[slot] = -1
