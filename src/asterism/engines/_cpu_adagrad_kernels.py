"""Compiled loops of stochastic inference by Adagrad: see document.sample_document."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..model.document import ADAGRAD_FLOOR
from ..model.random import DRAWS, NOISE
from ._cpu_kernels import draw_tokens, fill_normals, largest, new_candidates, substream
from ._jit import exp_of, kernel, like, part, reduction

Array = Any

# Documents that are in work at a time.
SLOTS = 16
# Topics that get their noise at a time; even, since normals come in pairs.
NOISY_AT_ONCE = 2048


class Local(NamedTuple):
    """LocalSettings, as far as the kernels need them."""

    n_top: int
    n_samples: int
    rate: Any
    max_steps: int
    tol: float


@part
def add_noisy_softmax(
    weights: Array, stream: Any, n_samples: int, sigma: Any, share: float, noisy: Array, tops: Array, out: Array
) -> None:
    """out += share times the mean over samples t of softmax(ξ + σ ε_t), topics in pieces that stay in the cache; noisy
    [k] and tops [piece] are scratch."""
    real = out.dtype.type
    for t in range(n_samples):
        sample, top, total = substream(stream, t), -np.inf, 0.0
        for piece in range(tops.size):
            first, last = bounds_of_piece(piece, weights.size)
            fill_normals(sample, first // 2, noisy[first:last])
            tops[piece], of_piece = exponentiate(weights[first:last], sigma, noisy[first:last])
            highest = max(top, tops[piece])
            total = total * np.exp(top - highest) + of_piece * np.exp(tops[piece] - highest)
            top = highest
        for piece in range(tops.size):
            first, last = bounds_of_piece(piece, weights.size)
            factor = real(share / n_samples / total * np.exp(tops[piece] - top))
            for k in range(first, last):
                out[k] += factor * noisy[k]


@part
def bounds_of_piece(piece: int, n_topics: int) -> Any:
    return piece * NOISY_AT_ONCE, min(n_topics, (piece + 1) * NOISY_AT_ONCE)


@reduction
def exponentiate(weights: Array, sigma: Any, noise: Array) -> Any:
    """noise <- exp(ξ + σ noise - its maximum); returns the maximum and the sum."""
    for k in range(noise.size):
        noise[k] = weights[k] + sigma * noise[k]
    top, total = largest(noise), 0.0
    for k in range(noise.size):
        noise[k] = exp_of(noise[k] - top)
        total += noise[k]
    return float(top), total


@reduction
def adagrad_step(
    weights: Array, mean: Array, common: Array, forces: Array, tau: Any, rate: Any, squares: Array
) -> float:
    """One step along document.weight_gradient, τ (m + U γ - ξ) + n - N θ; `mean` is U γ, then ξ - m. Returns the sum
    of the changes of weights."""
    change = like(0.0, weights[0])
    for k in range(weights.size):
        gradient = tau * (common[k] + mean[k] - weights[k]) + forces[k]
        squares[k] += gradient * gradient
        step = rate * gradient / np.sqrt(squares[k])
        weights[k] += step
        change += abs(step)
        mean[k] = weights[k] - common[k]
    return float(change)


# --- documents ---------------------------------------------------------------------------------------------------


class Rounds(NamedTuple):
    """Documents that are in work: a row for each. All are multiplied by U at once, always as many rows, so that a
    document's bits do not depend on its neighbours."""

    document: Array  # which one; -1 where there is none
    change: Array  # Σ |ξ - ξ before|
    embedding: Array  # γ [slot, m]
    moment: Array  # U'(ξ - m) [slot, m]
    of_tile: Array  # a tile's part of it [slot, m]
    weights: Array  # ξ [slot, k]
    squares: Array  # Adagrad's [slot, k]
    forces: Array  # n - N θ [slot, k]
    mean: Array  # U γ, then ξ - m, of a tile's topics [slot, i]


@part
def new_rounds(space: Any) -> Any:
    n_topics, n_dims = space.embedding.shape
    real = space.embedding.dtype
    of_dims, of_topics = np.zeros((3, SLOTS, n_dims), real), np.zeros((3, SLOTS, n_topics), real)
    return Rounds(
        np.full(SLOTS, -1, np.int64),
        np.zeros(SLOTS, np.float64),
        of_dims[0],
        of_dims[1],
        of_dims[2],
        of_topics[0],
        of_topics[1],
        of_topics[2],
        np.zeros((SLOTS, space.tiles.shape[2]), real),
    )


@part
def find_forces(
    slot: int,
    corpus: Any,
    table: Any,
    space: Any,
    local: Any,
    stream: Any,
    step: int,
    candidates: Any,
    noise: Any,
    draws: Array,
    rounds: Any,
) -> None:
    """Draws of one document's tokens, and what they and the softmax say of its weights."""
    d, weights, forces = rounds.document[slot], rounds.weights[slot], rounds.forces[slot]
    n_tokens = corpus.token_offsets[corpus.indptr[d + 1]] - corpus.token_offsets[corpus.indptr[d]]
    if n_tokens == 0:
        forces[:] = 0
        return
    draw_tokens(d, corpus, table, weights, substream(substream(stream, DRAWS), step), candidates, draws, forces)
    sigma, stream = weights.dtype.type(space.tau**-0.5), substream(substream(stream, NOISE), step)
    add_noisy_softmax(weights, stream, local.n_samples, sigma, -float(n_tokens), noise[0], noise[1], forces)


@part
def step_weights(space: Any, rate: Any, rounds: Any) -> None:
    """Adagrad's step of all documents in work and U'(ξ - m) after it, a tile of topics after the other."""
    size = space.tiles.shape[2]
    rounds.change[:] = 0
    rounds.moment[:] = 0
    for number in range(space.tiles.shape[0]):
        tile, first = space.tiles[number], number * size
        last = min(first + size, space.mean.size)
        np.dot(rounds.embedding, tile, rounds.mean)
        for slot in range(SLOTS):
            if rounds.document[slot] >= 0:
                rounds.change[slot] += adagrad_step(
                    rounds.weights[slot, first:last],
                    rounds.mean[slot, : last - first],
                    space.mean[first:last],
                    rounds.forces[slot, first:last],
                    space.tau,
                    rate,
                    rounds.squares[slot, first:last],
                )
        np.dot(rounds.mean, tile.T, rounds.of_tile)
        rounds.moment[:] += rounds.of_tile


@kernel
def sample_documents(
    first: int,
    last: int,
    corpus: Any,
    table: Any,
    space: Any,
    local: Any,
    streams: Array,
    draws: Array,
    gammas: Array,
    xis: Array,
    steps: Array,
) -> None:
    """document.sample_document for documents first:last; fills draws, γ, ξ and the rounds taken."""
    rounds, waiting, n_done = new_rounds(space), first, 0
    noise = np.empty_like(space.mean), np.empty(-(-space.mean.size // NOISY_AT_ONCE), np.float64)
    candidates = new_candidates(space.mean.size, local.n_top, space.embedding)
    while n_done < last - first:
        for slot in range(SLOTS):
            if rounds.document[slot] < 0 and waiting < last:
                rounds.document[slot], steps[waiting] = waiting, 0
                rounds.embedding[slot], rounds.weights[slot], rounds.squares[slot] = 0, space.mean, ADAGRAD_FLOOR
                waiting += 1
        for slot in range(SLOTS):
            d = rounds.document[slot]
            if d >= 0:
                find_forces(slot, corpus, table, space, local, streams[d], steps[d], candidates, noise, draws, rounds)
                steps[d] += corpus.indptr[d + 1] > corpus.indptr[d]
        step_weights(space, local.rate, rounds)
        np.dot(rounds.moment, space.gain, rounds.embedding)
        for slot in range(SLOTS):
            d = rounds.document[slot]
            is_done = rounds.change[slot] < local.tol * space.mean.size or (d >= 0 and steps[d] >= local.max_steps)
            if d >= 0 and is_done:
                gammas[d], xis[d] = rounds.embedding[slot], rounds.weights[slot]
                rounds.document[slot] = -1
                n_done += 1
